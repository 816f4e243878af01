# SPDX-License-Identifier: MIT
"""Which values the elements of a buffer can hold."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np

from celerity_py.scheduler.errors import ArgumentTypeError, UsageError

#: Kinds of dtypes whose elements are numbers.
NUMBERS = "biufc"
#: Kinds of dtypes that hold a Python number, by its class.
_KINDS_OF_NUMBERS = {bool: NUMBERS, int: "iufc", float: "fc", complex: "c"}
#: The same for lists of Python numbers, by the kind of array that they make.
_KINDS_OF_LISTS = {"b": NUMBERS, "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}


def can_hold(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether elements of this dtype can hold a value, by NumPy's "same_kind" rule.

    Python's own numbers have a kind but no size: an int fits if it is in the range of an integer dtype; 0 and
    1 fit into bool.

    A list of numbers is checked by its kind only. NumPy decides about numbers for structures and times.

    Args:
        dtype: Of the elements.
        value: A number, or an array of any library that NumPy understands.
    """
    kinds = _KINDS_OF_NUMBERS.get(value.__class__)
    if kinds is None:
        given = getattr(value, "dtype", None)
        if isinstance(given, np.dtype):
            return np.can_cast(given, dtype, "same_kind")
        return _can_hold_unknown(dtype, value)
    if dtype.kind not in kinds:
        return dtype.kind not in NUMBERS or (dtype.kind == "b" and value.__class__ is int and value in {0, 1})
    if value.__class__ is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(limits.min <= value <= limits.max)
    return True


def _can_hold_unknown(dtype: np.dtype[Any], value: Any) -> bool:
    try:
        given = np.asarray(value).dtype
    except Exception:  # noqa: BLE001 - of any library; the assignment raises a better error
        return True
    if dtype.kind not in NUMBERS:
        return True
    if isinstance(value, list | tuple) and given.kind in _KINDS_OF_LISTS:
        return dtype.kind in _KINDS_OF_LISTS[given.kind]
    return np.can_cast(given, dtype, "same_kind")


def refuse_value(dtype: np.dtype[Any], value: Any, use: str) -> NoReturn:
    """Refuse a value for which `can_hold` is false.

    Args:
        dtype: Of the elements.
        value: The value.
        use: Who does what with it and which buffer, as the beginning of a sentence.

    Raises:
        UsageError: Always.
    """
    if value.__class__ is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        remedy = f"Elements go from {limits.min} to {limits.max}: bring the value into this range"
    else:
        is_number = value.__class__ in _KINDS_OF_NUMBERS
        given = "value" if is_number or hasattr(value, "astype") else "numpy.asarray(value)"
        given += ".real" if np.iscomplexobj(value) and dtype.kind != "c" else ""
        type_name = {"b": "bool", "f": "float"}.get(dtype.kind, "int")
        remedy = f"{type_name}({given})" if is_number else f"{given}.astype({dtype.name!r})"
        remedy = f"Convert it, for instance with {remedy}"
    raise UsageError(
        f"{use}, whose elements are {dtype}, which cannot hold it. {remedy}, or make the buffer of another dtype."
    )


def is_masked(value: Any) -> bool:
    """Whether a value is an array with a mask, which no buffer keeps."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def refuse_masked(value: Any, use: str) -> None:
    """Refuse an array whose mask would be lost.

    Args:
        value: Anything.
        use: Who does what with it, as the beginning of a sentence.

    Raises:
        ArgumentTypeError: If it is one.
    """
    if is_masked(value):
        raise ArgumentTypeError(
            f"{use} a masked array of shape {value.shape}, whose mask would be lost. Write array.filled(value), with a "
            f"value for the masked elements, or pass array.data and array.mask, each by itself."
        )


def describe_type(dtype: np.dtype[Any]) -> str:
    """The type of a buffer's elements, for messages: `float32`, or `float32 with element=(3, 3)`."""
    return f"{dtype.base} with element={dtype.shape}" if dtype.shape else str(dtype)


def describe_value(value: Any) -> str:
    """A value and its type, for messages."""
    dtype = getattr(value, "dtype", None)
    if getattr(value, "ndim", 0):
        return f"an array of {dtype} and shape {np.shape(value)}"
    return f"{value!r} of type {type(value).__name__}" if dtype is None else f"{value!s} of dtype {dtype}"
