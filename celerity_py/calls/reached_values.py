# SPDX-License-Identifier: MIT
"""The plain values, arrays and buffers that a function reaches by the paths of its bytecode, and whether they change.

Attributes come from dictionaries and slots of objects: no property and no `__getattr__` is called. Functions of the
program that a path leads to are followed. An object that is handed on whole counts with the attributes that any of
these functions names.
"""

from __future__ import annotations

import builtins
import dataclasses
import enum
import functools
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.util import resolve_name
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from celerity_py._native import ValueWatch
from celerity_py.calls.named_paths import EACH, MOST_STEPS, Path, Step, named_paths
from celerity_py.calls.places import CONTAINERS, NOTHING, Place, attribute_of, part_of
from celerity_py.comparison.value_digests import sampled_digest_of
from celerity_py.kernels import CudaKernel, Kernel
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.parameters import Parameter
from celerity_py.vocabulary.refused_operators import IsHandle, StandsForArray

_MOST_ELEMENTS: Final = 64
_MOST_PLACES: Final = 4096
_MOST_FUNCTIONS: Final = 256
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.generic, enum.Enum)
#: Modules whose functions and constants do not change.
FOREIGN: Final = sys.stdlib_module_names | {"celerity_py", "numpy", "cupy", "mpi4py"}
#: The options that `argparse` has parsed.
_ARGUMENTS: Final = ("argparse", "Namespace")
#: Functions of Python that read variables of any name, or something else that changes.
_LOOK_ANYWHERE: Final = (getattr, vars, globals, locals, eval, exec, open, input)
_CHANGING: Final = (np.random.RandomState, np.random.Generator)
#: Methods of containers that give elements.
_READERS: Final = frozenset({"get", "items", "values", "keys", "copy", "index", "count", "pop"})


class Kept(NamedTuple):
    """A value as it was: its kind, and something to compare, which keeps no buffer alive."""

    kind: str
    value: Any

    def is_same(self, other: Kept) -> bool:
        """Whether a function that reads the one value instead of the other one does the same."""
        a, b = self.value, other.value
        if self.kind != other.kind or a is b:
            return self.kind == other.kind
        if self.kind in {"buffer", "code", "object"}:
            return False
        return repr(_fields_of(a)) == repr(_fields_of(b))  # NaN equals nothing, and 0 equals 0.0

    def __str__(self) -> str:
        if self.kind == "buffer":
            return str(self.value.label)
        if self.kind == "array":
            return "an array"
        text = repr(self.value) if self.kind != "code" else f"the function {self.value.co_name}"
        return text if len(text) <= 60 else f"{text[:57]}..."


class Reached(NamedTuple):
    """A place that a function reaches, and what was there."""

    place: Place
    kept: Kept


def is_plain(value: Any) -> bool:
    """Whether a value cannot change, and can be compared: a number, a text, or a tuple or frozen dataclass of these."""
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    parameters = getattr(type(value), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return False
    return all(is_plain(attribute_of(value, field.name)) for field in dataclasses.fields(value))


def _fields_of(value: Any) -> Any:
    """A plain value with its types and all of its fields, which its own `repr` may leave out."""
    if isinstance(value, tuple):
        return type(value), [*map(_fields_of, value)]
    if dataclasses.is_dataclass(value):
        return type(value), [_fields_of(attribute_of(value, field.name)) for field in dataclasses.fields(value)]
    return type(value), value


def keep(value: Any, digest: Callable[[Any], Any] = sampled_digest_of) -> Kept | None:
    """A value in the form in which it is compared; None if it is of another kind. `digest`: of an array."""
    if isinstance(value, Parameter):
        return Kept("object", value)
    if isinstance(value, StandsForArray):
        record = getattr(value, "record", None)
        return Kept("buffer", record) if isinstance(record, BufferRecord) else None
    if is_plain(value):
        return Kept("plain", value)
    if isinstance(value, np.ndarray):
        found = None if value.dtype.hasobject else digest(value)
        return None if found is None else Kept("array", (value.shape, value.dtype, found))
    if isinstance(value, Kernel | CudaKernel | IsHandle):
        return Kept("object", value)
    function = value.__func__ if isinstance(value, MethodType) else value
    if isinstance(function, FunctionType):
        return Kept("code", function.__code__) if _is_of_program(function) else None
    return None


def named_values(function: Any, digest: Callable[[Any], Any]) -> tuple[dict[str, Reached], int, list[Any]]:
    """The values that the bytecode of a function names, for a function that runs as a task.

    Objects that are handed on whole do not count: tasks share them on purpose.

    Returns:
        The values by their words, how many others were not followed, and the containers and arrays of which the
        function assigns elements.
    """
    walk = _Walk(frozenset(), digest, follows_whole=False)
    walk.enter(Place(lambda: function, (), "self"), function)
    return walk.found, walk.num_skipped, walk.changed


def reached_values(function: Any, excluded: frozenset[CodeType] = frozenset()) -> dict[str, Reached]:
    """The values that a function reaches, by the words with which it reaches them, such as "u" and "states[0].dt".

    Args:
        function: A function, method, `functools.partial`, or an object with `__call__`.
        excluded: The code of functions that do not count.
    """
    return reach(function, excluded)[0]


def reach(function: Any, excluded: frozenset[CodeType] = frozenset()) -> tuple[dict[str, Reached], list[str]]:
    """`reached_values`, and the words of what lies outside and cannot be looked at again.

    Such are properties, objects that are called or handed on, sets, long containers, random numbers, and calls of
    functions of Python that look anywhere, as `getattr` does.
    """
    walk = _Walk(excluded)
    walk.enter(Place(lambda: function, (), "self"), function)
    walk.explore()
    return walk.found, walk.unseen


class _Walk:
    """One search for values."""

    def __init__(
        self,
        excluded: frozenset[CodeType],
        digest: Callable[[Any], Any] = sampled_digest_of,
        *,
        follows_whole: bool = True,
    ) -> None:
        self.found: dict[str, Reached] = {}
        self.num_skipped = 0
        self.unseen: list[str] = []
        self.changed: list[Any] = []
        self._digest = digest
        self._follows_whole = follows_whole
        self._excluded = excluded
        self._attributes: set[str] = set()
        self._entered: set[tuple[CodeType, str]] = set()
        self._whole: dict[tuple[int, str], tuple[Place, Any]] = {}  # objects that are handed on

    def enter(self, place: Place, function: Any, bound: Mapping[str, Place] | None = None) -> None:
        """Follow a function that lies at a place. `bound`: the places of arguments."""
        if isinstance(function, functools.partial):
            self._enter_partial(place, function)
            return
        if not isinstance(function, FunctionType | MethodType):
            function = attribute_of(function, "__call__")
            place = place.extended((".", "__call__"))._replace(words=place.words)
        places = dict(bound or {})
        if isinstance(function, MethodType):
            owner, function = function.__self__, function.__func__
            if isinstance(function, FunctionType) and function.__code__.co_argcount:
                found = place.extended(("self", None))
                found = found if place.steps else Place(_holder(owner), (), "self")
                places = {function.__code__.co_varnames[0]: found, **places}
        if isinstance(function, FunctionType):
            self._follow(function, places)

    def _enter_partial(self, place: Place, given: functools.partial[Any]) -> None:
        function = given.func
        code = getattr(function, "__code__", None)
        names = code.co_varnames[isinstance(function, MethodType) :] if isinstance(code, CodeType) else ()
        bound = {name: Place(_holder(value), (), name) for name, value in given.keywords.items()}
        for number, (name, value) in enumerate(zip(names, given.args, strict=False)):
            bound[name] = Place(_holder(value), (), f"argument {number}")
        self.enter(place, function, bound)

    def _follow(self, function: FunctionType, bound: Mapping[str, Place]) -> None:
        code = function.__code__
        key = (code, " ".join(place.words for place in bound.values()))
        if code in self._excluded or key in self._entered or len(self._entered) >= _MOST_FUNCTIONS:
            return
        self._entered.add(key)
        paths = named_paths(code, self._excluded)
        self._attributes |= paths.attributes
        roots = dict(bound)
        for path in paths.read:
            root = roots.get(path.name) if path.kind == "parameter" else _root_of(path, function)
            if root is None and path.kind == "parameter":
                root = _default_root(path.name, function)
            if root is not None and not (
                path.kind == "import" and root.value() is NOTHING
            ):  # imported later, if at all
                self._go(root, root.value(), path.steps)
            elif path.kind == "global" and getattr(builtins, path.name, None) in _LOOK_ANYWHERE:
                self.unseen.append(path.name)
        for path in paths.changed:
            root = roots.get(path.name) if path.kind == "parameter" else _root_of(path, function)
            if root is not None:
                self.changed.append(root._replace(steps=(*root.steps, *path.steps)).value())

    def _go(self, place: Place, value: Any, steps: tuple[Step, ...]) -> None:
        if value is NOTHING or len(self.found) >= _MOST_PLACES:
            self.num_skipped += value is NOTHING
            self.unseen.append(place.words)
            return
        kept = keep(value, self._digest)
        if kept is not None:
            self.found.setdefault(place.words, Reached(place, kept))
            if kept.kind == "code":
                self.enter(place, value)
        elif not steps:
            self._end(place, value)
        elif steps[0][0] in "*?":
            self._each(place, value, steps[1:], counts=steps[0] == EACH)
        elif steps[0][1] in _READERS and isinstance(value, CONTAINERS):
            self._each(place, value, (), counts=False)
        else:
            self._go(place.extended(steps[0]), part_of(value, steps[0]), steps[1:])

    def _each(self, place: Place, value: Any, steps: tuple[Step, ...], *, counts: bool) -> None:
        if not isinstance(value, CONTAINERS):
            self.unseen.append(place.words)
            return
        if len(value) > _MOST_ELEMENTS:
            self.unseen.append(place.words)
        if counts:
            length = place.extended(("len", None))
            self.found.setdefault(length.words, Reached(length, Kept("length", len(value))))
        for key in list(value if isinstance(value, dict) else range(len(value)))[:_MOST_ELEMENTS]:
            step = ("[", key)
            self._go(place.extended(step), part_of(value, step), steps)

    def _end(self, place: Place, value: Any) -> None:
        """A value that is used whole."""
        if not self._follows_whole:
            self.num_skipped += not (callable(value) or isinstance(value, ModuleType))
            return
        if len(place.steps) >= MOST_STEPS:
            self.unseen.append(place.words)
            return
        if isinstance(value, CONTAINERS):
            self._each(place, value, (), counts=not isinstance(value, dict))
        elif isinstance(value, functools.partial):
            self.found.setdefault(place.words, Reached(place, Kept("object", value)))
            self.enter(place, value)
        elif _has_attributes_of_program(value):
            if not isinstance(value, type | ModuleType):
                self.unseen.append(place.words)
            self._whole.setdefault((id(value), place.words), (place, value))
        elif not _gives_the_same(value):
            self.unseen.append(place.words)

    def explore(self) -> None:
        """Look at the attributes of objects that are handed on, as far as any function names them."""
        done: set[tuple[int, str, str]] = set()
        while True:
            todo = [
                (key, name, place, value)
                for key, (place, value) in list(self._whole.items())
                for name in sorted(self._attributes)
                if (*key, name) not in done
            ]
            if not todo or len(self.found) >= _MOST_PLACES:
                return
            for key, name, place, value in todo:
                done.add((*key, name))
                self._go(place.extended((".", name)), attribute_of(value, name), ())


def find_changed(before: Mapping[str, Reached], now: Mapping[str, Reached]) -> Iterator[tuple[str, Kept, Kept]]:
    """The places of both with another value: words, the value before, and now."""
    for words, reached in before.items():
        other = now.get(words)
        if other is not None and not reached.kept.is_same(other.kept):
            yield words, reached.kept, other.kept


def _root_of(path: Path, function: FunctionType) -> Place | None:
    name = path.name
    if path.kind == "global":
        known = function.__globals__
        return Place(functools.partial(known.get, name, NOTHING), (), name) if name in known else None
    if path.kind == "import":
        try:
            module = resolve_name(name, function.__globals__.get("__package__"))
        except ImportError:
            return None
        return Place(functools.partial(sys.modules.get, module, NOTHING), (), module)
    if name not in function.__code__.co_freevars:
        return None
    index = function.__code__.co_freevars.index(name)
    return Place(_cell_root(function, index), (), name)


def _cell_root(function: FunctionType, index: int) -> Callable[[], Any]:
    """Looks into a cell of a function. A cell with an object of the program is not kept: the object may own buffers."""
    cell = (function.__closure__ or ())[index]
    content = _content_of(cell)
    if not _is_of_program(type(content)):
        return functools.partial(_content_of, cell)
    owner, held = weakref.ref(function), _holder(content)

    def look() -> Any:
        alive = owner()
        return held() if alive is None else _content_of((alive.__closure__ or ())[index])

    return look


def _holder(value: Any) -> Callable[[], Any]:
    """Gives the value as long as it lives."""
    if not _is_of_program(type(value)):
        return lambda: value
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda: value
    return lambda: NOTHING if (alive := reference()) is None else alive


def _default_root(name: str, function: FunctionType) -> Place | None:
    """The default of a parameter, which a program may replace. It is not kept: it may own buffers."""
    value = _default_of(name, function)
    if value is NOTHING:
        return None
    owner, held = weakref.ref(function), _holder(value)

    def look() -> Any:
        alive = owner()
        return held() if alive is None else _default_of(name, alive)

    return Place(look, (), name)


def _default_of(name: str, function: FunctionType) -> Any:
    keywords = function.__kwdefaults__ or {}
    if name in keywords:
        return keywords[name]
    defaults, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    return defaults[names.index(name)] if name in names else NOTHING


def _content_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is assigned
        return NOTHING


def find_moved(
    reached: Iterable[Reached], digest: Callable[[Any], Any] = sampled_digest_of
) -> tuple[str, Kept, Kept] | None:
    """The first place with another value now: words, the value then, and now. A place that is gone does not count."""
    for place, then in reached:
        value = place.value()
        if value is NOTHING or (value is then.value and then.kind != "array"):
            continue
        now = Kept("length", value) if then.kind == "length" else keep(value, digest)
        if now is None:
            now = Kept("object", value)
        if not now.is_same(then):
            return place.words, then, now
    return None


class Watch:
    """Looks again and again at what a function reaches. Native code looks first whether names stand for other objects.

    Args:
        reached: The values. The buffers among them live whenever somebody looks.
    """

    def __init__(self, reached: Collection[Reached]) -> None:
        self._all = reached
        self._others: list[Reached] = []
        places = []
        for each in reached:
            place = _native_place_of(each)
            if place is None or ValueWatch([place]).has_moved():
                self._others.append(each)
            else:
                places.append(place)
        #: Native code may ask it instead of `find_moved`, if `is_native`: without a move, that finds none.
        self.native = ValueWatch(places)
        self.is_native = not self._others

    def find_moved(self) -> tuple[str, Kept, Kept] | None:
        """See the function of this name."""
        return find_moved(self._all if self.native.has_moved() else self._others)


def _native_place_of(each: Reached) -> tuple[Any, str, tuple[str, ...], int] | None:
    """A value as `ValueWatch` takes it; None if it can change without another object in its place."""
    root, steps = each.place.root, each.place.steps
    if each.kept.kind not in {"plain", "object", "buffer", "code"} or any(kind != "." for kind, _ in steps):
        return None
    where: Any = root
    name = ""
    if isinstance(root, functools.partial):
        is_cell = root.func is _content_of
        where = root.args[0] if is_cell else root.func.__self__  # type: ignore[attr-defined]
        name = "" if is_cell else root.args[0]
    value = each.kept.value.handle() if each.kept.kind == "buffer" else each.kept.value
    return where, name, tuple(key for _, key in steps), id(value)


def _has_attributes_of_program(value: Any) -> bool:
    """Whether an object that is handed on counts with its attributes: an object, class or module of the program."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] not in FOREIGN
    kind = value if isinstance(value, type) else type(value)
    return _is_of_program(kind) or kind is SimpleNamespace or (kind.__module__, kind.__name__) == _ARGUMENTS


def _gives_the_same(value: Any) -> bool:
    """Whether a function, class, module or object of Python or of a library has nothing that changes."""
    if isinstance(value, ModuleType):
        return value.__name__ not in {"random", "numpy.random"}
    owner = getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or type(owner).__module__
    return callable(value) and not isinstance(owner, _CHANGING) and module.partition(".")[0] != "random"


def _is_of_program(what: Any) -> bool:
    """Whether a function or class is one of the program, and not of Python or of a library below it."""
    module = getattr(what, "__module__", None) or ""
    return isinstance(module, str) and module.partition(".")[0] not in FOREIGN
