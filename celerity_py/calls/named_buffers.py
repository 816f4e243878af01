# SPDX-License-Identifier: MIT
"""The buffers that the names of a function refer to. A recorded function that leaves them exchanged is half a turn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, Final

from celerity_py.calls.outer_variables import value_of, variables_of
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.refused_operators import StandsForArray

#: How many steps the search takes from a variable to a buffer, and how many elements of a list it looks at.
_MOST_STEPS: Final = 4
_MOST_ELEMENTS: Final = 64


def find_buffers(function: Callable[[], Any]) -> dict[str, BufferRecord]:
    """Return the buffers by the words with which the function reaches them, such as "u", "states[0]" and "self.u".

    It looks at variables from outside, at arguments of `functools.partial`, into lists, tuples and dictionaries, and at
    attributes of objects of the program.
    """
    found: dict[str, BufferRecord] = {}
    seen: set[int] = set()

    def search(value: Any, name: str, steps: int) -> None:
        if isinstance(value, StandsForArray):
            record = getattr(value, "record", None)
            if isinstance(record, BufferRecord):
                found[name] = record
        elif steps > 0 and id(value) not in seen:
            seen.add(id(value))
            for inner, way in _parts_of(value, name):
                search(inner, way, steps - 1)

    search(function, "", _MOST_STEPS)
    return found


def describe_exchanged(before: Mapping[str, BufferRecord], after: Mapping[str, BufferRecord]) -> str | None:
    """Tell which name refers to another buffer afterwards that had a name before as well; None if there is none."""
    named = {id(record) for record in before.values()}
    for name, record in before.items():
        now = after.get(name, record)
        if now is not record and id(now) in named:
            return f"{name!r} was {record.label} before the function ran, and is {now.label} behind it"
    return None


def _parts_of(value: Any, name: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, FunctionType):
        for where, variable in variables_of(value):
            yield value_of(where, variable), variable
    elif isinstance(value, MethodType):
        yield value.__self__, name or "self"
        yield value.__func__, name
    elif isinstance(value, functools.partial):
        yield value.func, name
        for number, argument in enumerate(value.args):
            yield argument, f"argument {number}"
        for keyword, argument in value.keywords.items():
            yield argument, keyword
    elif isinstance(value, (list, tuple)):
        for number, element in enumerate(value[:_MOST_ELEMENTS]):
            yield element, f"{name}[{number}]"
    elif isinstance(value, dict):
        for key in list(value)[:_MOST_ELEMENTS]:
            yield value[key], f"{name}[{key!r}]"
    elif not isinstance(value, type) and not type(value).__module__.startswith(
        ("celerity_py", "builtins", "numpy", "cupy")
    ):
        for attribute, inner in list(getattr(value, "__dict__", {}).items())[:_MOST_ELEMENTS]:
            yield inner, f"{name}.{attribute}"
