# SPDX-License-Identifier: MIT
"""The identity of a mapper function: its code, and the values that it was made with.

Results of `access.pure` mappers are kept by this identity. It is computed at each submit, because a variable that the
function uses may have another value then.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import pathlib
from collections.abc import Callable, Hashable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from celerity_py._native import Box, RangeMapper, Region

#: Equal values of one such type cannot be told apart, and none of them changes.
_VALUES: Final = frozenset({bool, int, str, bytes, type(None), type(...), Box, Region, range})
#: Compared by identity: a function that uses one means the object, not its contents.
_OBJECTS: Final = (type, ModuleType, BuiltinFunctionType, np.ufunc, type(np.sum), RangeMapper, enum.Enum)

#: By type: functions that compute the identity of an object. The module of such a type adds it.
IDENTITIES: Final[dict[type, Callable[[Any], Hashable]]] = {}


class CannotTell(Exception):  # noqa: N818 - the caller makes an error of it
    """A function refers to something that may change, or whose values cannot be compared."""


class _Same:
    """Equal to another one of the same object only, which it keeps alive: its id is not given to another object."""

    __slots__ = ("_object",)

    def __init__(self, what: object) -> None:
        self._object = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def code_of(mapper: Any) -> Hashable:
    """The code of a mapper: the same for all lambdas that one line of a loop makes."""
    while isinstance(mapper, functools.partial):
        mapper = mapper.func
    return _Same(getattr(mapper, "__code__", mapper.__class__))


def code_or_object_of(mapper: Any) -> Hashable:
    """As `code_of`; for an object with a `__call__`, the object itself."""
    is_function = isinstance(mapper, functools.partial) or hasattr(mapper, "__code__")
    return code_of(mapper) if is_function else _Same(mapper)


def identity_of(mapper: Callable[..., Any]) -> Hashable:
    """Equal for two mappers only if they compute the same: code, defaults, closure, globals, partial arguments, self.

    Raises:
        CannotTell: If the mapper refers to something that may change; the text names it and its type.
    """
    return _Identity().of(mapper, "the mapper")


class _Identity:
    """One walk through the values that a function refers to."""

    def __init__(self) -> None:
        self._functions: dict[int, int] = {}  # functions under way, because a function may refer to itself

    def of(self, value: Any, what: str) -> Hashable:
        kind = value.__class__
        if kind in _VALUES or isinstance(value, pathlib.PurePath):
            return kind, value
        if kind is float or kind is complex or isinstance(value, np.generic):
            return kind, repr(value)  # 0.0 equals -0.0, and NaN nothing
        if kind is FunctionType:
            return self._of_function(value)
        if kind is MethodType:
            return "method", self._of_function(value.__func__), self.of(value.__self__, f"the object of {what}")
        if kind is functools.partial:
            return self._of_partial(value, what)
        if isinstance(value, functools._lru_cache_wrapper):
            return "cached", self.of(value.__wrapped__, what)
        if isinstance(value, tuple):
            return kind, tuple(self.of(item, f"{what}[{index}]") for index, item in enumerate(value))
        if kind is slice:
            return slice, self.of((value.start, value.stop, value.step), what)
        if isinstance(value, _OBJECTS):
            return _Same(value)
        return self._of_instance(value, what)

    def _of_function(self, function: FunctionType) -> Hashable:
        visited = self._functions.get(id(function))
        if visited is not None:
            return "itself", visited
        self._functions[id(function)] = len(self._functions)
        code = function.__code__
        parts: list[Hashable] = [_Same(code), _Same(function.__globals__)]
        for number, value in enumerate(function.__defaults__ or ()):
            parts.append(self.of(value, f"default {number} of {function.__qualname__}"))
        for name, value in sorted((function.__kwdefaults__ or {}).items()):
            parts.append((name, self.of(value, f"the default of {name!r}")))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # nothing has been assigned yet
                parts.append((name,))
                continue
            parts.append((name, self.of(value, f"the variable {name!r}")))
        known = function.__globals__  # a missing name is that of a builtin, or an error in the mapper
        names = [name for name in global_names(code) if name in known]
        return (*parts, *((name, self.of(known[name], f"the global variable {name!r}")) for name in names))

    def _of_partial(self, partial: functools.partial[Any], what: str) -> Hashable:
        keywords = sorted(partial.keywords.items())
        return (
            "partial",
            self.of(partial.func, what),
            self.of(partial.args, "the arguments of the partial function"),
            tuple((name, self.of(value, f"the argument {name!r}")) for name, value in keywords),
        )

    def _of_instance(self, value: Any, what: str) -> Hashable:
        kind = value.__class__
        if kind in IDENTITIES:
            return kind, IDENTITIES[kind](value)
        parameters = getattr(kind, "__dataclass_params__", None)
        if parameters is not None and parameters.frozen:
            fields = dataclasses.fields(value)
            return kind, tuple(self.of(getattr(value, field.name), f"{what}.{field.name}") for field in fields)
        raise CannotTell(f"{what}, of type {kind.__qualname__}")


@functools.lru_cache(maxsize=4096)
def global_names(code: CodeType) -> tuple[str, ...]:
    """The global variables that a code object, or one inside of it, reads."""
    found = {item.argval for item in dis.get_instructions(code) if item.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(global_names(constant))
    return tuple(sorted(found))
