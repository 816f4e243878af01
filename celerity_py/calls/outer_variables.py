# SPDX-License-Identifier: MIT
"""Values from outside that a task's function uses: a task runs later than its submit, when a loop may have gone on.

Numbers in variables, and in attributes of `self` and of objects in variables, are compared always. With CHECK, all
plain values and arrays count that the bytecode of the function names. Lists and objects that it uses whole are shared
on purpose.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from celerity_py._native import numbers_at
from celerity_py.calls.named_paths import Path, named_paths
from celerity_py.calls.places import Place
from celerity_py.calls.reached_values import Kept, Reached, find_moved, named_values
from celerity_py.comparison.value_digests import digest_of
from celerity_py.scheduler.errors import UsageError

if TYPE_CHECKING:
    from celerity_py.vocabulary.submissions import Submission

#: The dictionary or cell of a variable, its name, and an attribute of the object there, or None.
NumberPlace = tuple["dict[str, Any] | CellType", str, "str | None"]
#: Places, and the numbers that lay there at the submit.
Numbers = tuple[tuple[NumberPlace, ...], tuple[Any, ...]]

_MOST_ARRAY_BYTES: Final = 1 << 20
_MOST_CODES: Final = 4096
_MOST_CONTAINERS: Final = 64
_MOST_SUBMITS: Final = 4096  # that a container is remembered


class NamedValues(NamedTuple):
    """What the function of a task named at the submit, and how many values more that were not followed."""

    reached: list[Reached]
    num_skipped: int


class ChangedVariable(NamedTuple):
    """A value from outside, in words, as it was at the submit and as it is now."""

    name: str
    then: str
    now: str


class _Assigned:
    """What tasks assign: they may hand values to each other."""

    def __init__(self) -> None:
        self.globals: set[tuple[Any, str]] = set()  # the names of modules and variables
        self.cells: set[str] = set()  # by name alone, as each call of a function makes new cells
        self.attributes: set[str] = set()
        self._arrays: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._containers: dict[int, tuple[int, Any]] = {}  # lists and dictionaries; when each was last noted
        self._num_submits = 0

    def add(self, function: FunctionType) -> None:
        """Note what a function assigns that is submitted. Forgets containers that tasks assigned long ago."""
        self._num_submits += 1
        while self._containers:
            oldest, (noted, _) = next(iter(self._containers.items()))
            if len(self._containers) <= _MOST_CONTAINERS and noted + _MOST_SUBMITS > self._num_submits:
                break
            self._containers.pop(oldest, None)
        for kind, name in named_paths(function.__code__).stored:
            if kind == "attribute":
                self.attributes.add(name)
            elif kind == "global":
                self.globals.add((function.__globals__.get("__name__"), name))
            elif name in function.__code__.co_freevars:
                self.cells.add(name)

    def add_elements(self, container: Any) -> None:
        """Note that tasks assign elements of a container or array."""
        try:
            self._arrays[id(container)] = container
        except TypeError:  # lists and dictionaries have no weak references
            self._containers.pop(id(container), None)
            self._containers[id(container)] = self._num_submits, container

    def has_elements(self, container: Any) -> bool:
        """Whether some task assigns elements of this container or array."""
        return id(container) in self._arrays or id(container) in self._containers

    def has(self, place: Place) -> bool:
        """Whether some task assigns the value at a place."""
        if place.steps:
            kind, key = place.steps[-1]
            if kind == ".":
                return key in self.attributes
            return self.has_elements(Place(place.root, place.steps[:-1], "").value())
        return place.words in self.cells or any(name == place.words for _, name in self.globals)

    def has_number(self, place: NumberPlace) -> bool:
        """The same for a number."""
        where, name, attribute = place
        if attribute is not None:
            return attribute in self.attributes
        if isinstance(where, CellType):
            return name in self.cells
        return (where.get("__name__"), name) in self.globals


_assigned = _Assigned()  # by any task of the process


def note_values(submission: Submission) -> None:
    """With CHECK: keep the values of a task that is being submitted. Application thread."""
    submission.outside = values_of(submission.function)


def values_of(function: Any) -> NamedValues | None:
    """The values that the function of a task names now."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return None
    _assigned.add(plain)
    found, num_skipped, changed = named_values(function, _digest_of_small)
    for each in changed:
        _assigned.add_elements(each)
    return NamedValues([each for each in found.values() if each.kept.kind in {"plain", "array"}], num_skipped)


def compare_values(submission: Submission, *, has_run: bool = False) -> None:
    """With CHECK: look at the values of a task that runs. Any thread.

    `has_run`: its function has just run. If an array has changed meanwhile, tasks write into it.

    Raises:
        UsageError: If one is another one than at the submit.
    """
    outside = submission.outside
    if not isinstance(outside, NamedValues):
        return
    changed = find_changed_value(outside, has_run=has_run)
    if changed is not None:
        count = outside.num_skipped
        others = "" if count == 0 else f" The function uses {count} more that cannot be compared, such as objects."
        _refuse(submission, changed, others)


def find_changed_value(outside: NamedValues, *, has_run: bool = False) -> ChangedVariable | None:
    """The first value that is another one now; any thread."""
    for each in outside.reached:
        moved = find_moved((each,), _digest_of_small)
        if moved is None or _assigned.has(each.place):
            continue
        _, then, now = moved
        if then.kind == "array":
            value = each.place.value()
            if has_run:
                _assigned.add_elements(value)
            if _assigned.has_elements(value):
                continue
        return ChangedVariable(each.place.words, str(then), str(now))
    return None


def note_numbers(submission: Submission) -> None:
    """Without CHECK: keep the numbers that a task uses. Application thread."""
    function = submission.function
    owner = None
    if function.__class__ is MethodType:
        owner, function = function.__self__, function.__func__
    if function.__class__ is not FunctionType:
        return
    code = function.__code__
    variables = function.__globals__
    known = number_paths.get(id(code)) or _learn(function)
    _, space, numbers, others = known
    if space != id(variables):
        numbers = _numbers_in(variables, code)
    if not numbers and not others:
        return
    places: tuple[NumberPlace, ...] = tuple([(variables, name, attribute) for name, attribute in numbers])
    if others:
        places += tuple(_other_places(others, function, owner))
    if places:  # none for a parameter of a function that is no method
        submission.outside = places, numbers_at(places)


def compare_numbers(submission: Submission) -> None:
    """Look at the numbers of a task that runs. Any thread.

    Raises:
        UsageError: If one is another one than at the submit.
    """
    outside = submission.outside
    if not isinstance(outside, tuple) or isinstance(outside, NamedValues):
        return
    places, numbers = outside
    now = numbers_at(places)
    if now == numbers:
        return
    for place, a, b in zip(places, numbers, now, strict=True):
        if a is None or b is None or Kept("plain", a).is_same(Kept("plain", b)) or _assigned.has_number(place):
            continue
        _, name, attribute = place
        words = name if attribute is None else f"{name}.{attribute}"
        _refuse(submission, ChangedVariable(words, repr(a), repr(b)), "")


def _refuse(submission: Submission, changed: ChangedVariable, others: str) -> None:
    raise UsageError(
        f"{submission.describe()} uses the variable {changed.name!r} from outside, which was {changed.then} at the "
        f"submit and is {changed.now} when the task runs. Tasks run later than they are submitted: pass the value as "
        f"an argument of the task, which keeps it.{others}"
    )


class _NumberPaths(NamedTuple):
    """Paths of a code object to numbers. Holds no namespace: one may own buffers."""

    code: CodeType
    space: int  # the id of the namespace of which the next field holds
    numbers: tuple[tuple[str, str | None], ...]  # names of global variables with a number there or in an attribute
    others: tuple[Path, ...]


#: By the id of the code object. Native code reads it, too (`submitter::note_outside`).
number_paths: dict[int, _NumberPaths] = {}


def _learn(function: FunctionType) -> _NumberPaths:
    _assigned.add(function)
    code = function.__code__
    first = code.co_varnames[:1]
    others = tuple(
        path
        for path in named_paths(code).read
        if (path.kind == "cell" and path.name in code.co_freevars and _is_short(path))
        or (path.kind == "parameter" and (path.name,) == first and len(path.steps) == 1 and _is_short(path))
    )
    if len(number_paths) >= _MOST_CODES:
        number_paths.clear()
    space = function.__globals__
    known = number_paths[id(code)] = _NumberPaths(code, id(space), _numbers_in(space, code), others)
    return known


def _is_short(path: Path) -> bool:
    return not path.steps or (len(path.steps) == 1 and path.steps[0][0] == ".")


def _numbers_in(variables: dict[str, Any], code: CodeType) -> tuple[tuple[str, str | None], ...]:
    paths = [path for path in named_paths(code).read if path.kind == "global" and _is_short(path)]
    names = [(path.name, path.steps[0][1] if path.steps else None) for path in paths]
    return tuple(name for name in names if numbers_at(((variables, *name),)) != (None,))


def _other_places(paths: tuple[Path, ...], function: FunctionType, owner: Any) -> Iterator[NumberPlace]:
    for path in paths:
        if path.kind == "cell":
            yield _cell_of(function, path.name), path.name, path.steps[0][1] if path.steps else None
        elif owner is not None:
            yield CellType(owner), path.name, path.steps[0][1]


def _cell_of(function: FunctionType, name: str) -> CellType:
    return (function.__closure__ or ())[function.__code__.co_freevars.index(name)]


def _digest_of_small(array: np.ndarray[Any, Any]) -> int | None:
    return digest_of(array) if array.nbytes <= _MOST_ARRAY_BYTES else None
