# SPDX-License-Identifier: MIT
"""Where values lie, and a look at them that runs no code of the program: neither properties nor `__getattr__`."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from celerity_py.calls.named_paths import Step

#: In the place of a value that is not there.
NOTHING: Final = object()
#: Whose elements count.
CONTAINERS: Final = (list, tuple, deque, dict)


class Place(NamedTuple):
    """Where a value lies: a function that gives the value at the root of a path, the steps, and the path in words."""

    root: Callable[[], Any]
    steps: tuple[Step, ...]
    words: str

    def value(self) -> Any:
        """The value now; `NOTHING` if there is none any more."""
        value = self.root()
        for step in self.steps:
            if value is NOTHING:
                break
            value = part_of(value, step)
        return value

    def extended(self, step: Step) -> Place:
        """A place that is one step further."""
        kind, key = step
        if kind == ".":
            words = f"{self.words}.{key}"
        elif kind == "[":
            words = f"{self.words}[{key!r}]"
        else:
            words = f"len({self.words})" if kind == "len" else self.words.rpartition(".")[0] or "self"
        return Place(self.root, (*self.steps, step), words)


def attribute_of(value: Any, name: str) -> Any:
    """An attribute as it lies in a dictionary or slot of the object, or in its class; `NOTHING` for all others."""
    if not comes_from_class(value.__class__, name):
        own = dictionary_of(value).get(name, NOTHING)
        if own is not NOTHING:
            return own
    if name == "__dict__":
        return dictionary_of(value)
    if isinstance(value, ModuleType):
        return NOTHING
    if name == "__self__" and isinstance(value, MethodType):
        return value.__self__
    is_class = isinstance(value, type)
    found = _find_in_class(value if is_class else type(value), name)
    if isinstance(found, MemberDescriptorType) and not is_class:
        return found.__get__(value) if _is_set(found, value) else NOTHING
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return MethodType(found.__func__, value if is_class else type(value))
    if isinstance(found, FunctionType):
        return found if is_class else MethodType(found, value)
    return NOTHING if hasattr(type(found), "__get__") else found


def _find_in_class(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        found = vars(base).get(name, NOTHING)
        if found is not NOTHING:
            return found
    return NOTHING


@functools.lru_cache(maxsize=4096)
def comes_from_class(kind: Any, name: str) -> bool:
    """Whether an attribute of an instance is that of a slot or property of its class, or the instance a class."""
    return issubclass(kind, type) or hasattr(type(_find_in_class(kind, name)), "__set__")


def part_of(value: Any, step: Step) -> Any:
    """The value one step further; `NOTHING` if there is none."""
    kind, key = step
    if kind == ".":
        return attribute_of(value, key)
    if kind == "self":
        return attribute_of(value, "__self__")
    try:
        if kind == "len":
            return len(value) if isinstance(value, CONTAINERS) else NOTHING
        if isinstance(value, dict):
            return dict.get(value, key, NOTHING)
        if isinstance(value, list | tuple) and isinstance(key, int | slice):
            return value[key]
        if isinstance(value, deque) and isinstance(key, int):
            return value[key]
    except (LookupError, TypeError):
        pass
    return NOTHING


def _is_set(slot: MemberDescriptorType, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def dictionary_of(value: Any) -> Mapping[str, Any]:
    """The attributes of an object; empty if it has no dictionary."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
