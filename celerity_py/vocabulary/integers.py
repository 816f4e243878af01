# SPDX-License-Identifier: MIT
"""Integers where a call takes one, which are no truth values, and truth values where a call takes those."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from celerity_py.scheduler.errors import ArgumentTypeError


def is_int(value: Any) -> bool:
    """Whether a value is an integer of any kind, but not a truth value."""
    # The usual class first: asking an abstract class takes ten times as long.
    return value.__class__ is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))


def is_step_one(item: slice) -> bool:
    """Whether a slice takes all elements between its bounds."""
    return item.step is None or (is_int(item.step) and item.step == 1)


def counts_from_end(item: Any) -> bool:
    """Whether something is a slice whose end NumPy would count from the end of an array, such as `slice(1, -1)`."""
    if not isinstance(item, slice) or not is_int(item.stop):
        return False
    start = 0 if item.start is None else item.start
    return is_int(start) and bool(item.stop < 0 <= start)


def to_int(value: Any) -> int:
    """The value of anything that counts as an integer.

    Raises:
        TypeError: If it is a truth value, or no integer.
    """
    if isinstance(value, bool):
        raise TypeError("a truth value")
    return operator.index(value)


def to_ints(values: Any) -> tuple[int, ...]:
    """One integer per dimension: those of a sequence, or a single one.

    Raises:
        TypeError: As `to_int` does, and for text and bytes, which are sequences as well.
    """
    if isinstance(values, str | bytes | bytearray):
        raise TypeError("text or bytes")
    return tuple(map(to_int, values)) if isinstance(values, Sequence) else (to_int(values),)


def to_flag(value: Any, use: str) -> bool:
    """The truth value that a call was given.

    Args:
        value: Anything.
        use: The call and its argument, as the beginning of a sentence.

    Raises:
        ArgumentTypeError: If it is none: a number or text may be the value of another argument.
    """
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise ArgumentTypeError(f"{use} takes True or False, not {value!r}.")
