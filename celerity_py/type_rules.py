# SPDX-License-Identifier: MIT
"""Which values the elements of a buffer can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Kinds of dtypes that hold a Python number, by its class.
_KINDS_OF_NUMBERS = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}


def can_hold(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether elements of this dtype can hold a value, by NumPy's "same_kind" rule.

    Python's own numbers have a kind but no size: an int fits if it is in the range of an integer dtype.

    Args:
        dtype: Of the elements.
        value: A number, or an array of any library that NumPy understands.
    """
    kinds = _KINDS_OF_NUMBERS.get(value.__class__)
    if kinds is None:
        given = getattr(value, "dtype", None)
        return np.can_cast(np.asarray(value).dtype if given is None else given, dtype, "same_kind")
    if dtype.kind not in kinds:
        return False
    if value.__class__ is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(limits.min <= value <= limits.max)
    return True


def describe_value(value: Any) -> str:
    """A value and its type, for messages."""
    dtype = getattr(value, "dtype", None)
    return f"{value!r} of type {type(value).__name__}" if dtype is None else f"{value!s} of dtype {dtype}"
