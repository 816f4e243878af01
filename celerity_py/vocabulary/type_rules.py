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
#: The smallest number that rounds to infinity, by the type of the elements: float16, float32 and complex64.
_BEYOND = {"e": 65520.0, "f": float.fromhex("0x1.ffffffp127"), "F": float.fromhex("0x1.ffffffp127")}


def to_dtype(given: Any, use: str) -> np.dtype[Any]:
    """The dtype that a call was given.

    NumPy takes None for float64, and a number or array for its own dtype. In a call with other defaults, and with other
    arguments that are numbers and arrays, these are mistakes.

    Args:
        given: Anything.
        use: Who takes a dtype, as the beginning of a sentence.

    Raises:
        ArgumentTypeError: If it is none.
    """
    dtype, why = getattr(given, "dtype", None), ""
    if given is not None and (isinstance(given, type | np.dtype) or dtype is None):
        try:
            found: np.dtype[Any] = np.dtype(given)
            return found
        except (TypeError, ValueError, SyntaxError) as error:
            why = f": {error}"
    example = "numpy.float32" if dtype is None or isinstance(given, type) else f"its {dtype}"
    raise ArgumentTypeError(f"{use} takes a dtype, such as {example}, not {describe_value(given)}{why}.")


def can_hold(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether elements of this dtype can hold a value, by NumPy's "same_kind" rule.

    Single values and lists must also lie in the range of the dtype, as `is_in_range` tells. Python's own numbers have a
    kind but no size; 0 and 1 fit into bool. Of other arrays this looks at the dtype only, and of arrays on GPUs it
    cannot do more. NumPy decides about numbers for structures and times.

    Args:
        dtype: Of the elements.
        value: A number, or an array of any library that NumPy understands.
    """
    kinds = _KINDS_OF_NUMBERS.get(value.__class__)
    if kinds is None:
        given = getattr(value, "dtype", None)
        if not isinstance(given, np.dtype):
            return _can_hold_unknown(dtype, value)
        if not np.can_cast(given, dtype, "same_kind"):
            return False
        is_single = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
        return not is_single or is_in_range(dtype, value)
    if dtype.kind not in kinds:
        return dtype.kind not in NUMBERS or (dtype.kind == "b" and value.__class__ is int and value in {0, 1})
    if value.__class__ is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(limits.min <= value <= limits.max)
    return dtype.char not in _BEYOND or not _becomes_infinite(value, dtype)


def can_take(dtype: np.dtype[Any], value: Any, checks_values: bool) -> bool:
    """As `can_hold`; with `checks_values`, the values of arrays of NumPy must lie in the range of the dtype as well."""
    if not can_hold(dtype, value):
        return False
    return not checks_values or not isinstance(value, np.ndarray) or is_in_range(dtype, value)


def is_in_range(dtype: np.dtype[Any], values: Any) -> bool:
    """Whether elements of this dtype can hold all of these values, whose kind they can hold.

    No integer wraps around, and no finite number becomes infinite. Rounding is allowed.

    Args:
        dtype: Of the elements.
        values: Numbers of NumPy.
    """
    given = values.dtype
    if given == dtype or values.size == 0 or np.can_cast(given, dtype):
        return True
    if dtype.kind in "iu" and given.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(limits.min <= int(values.min()) and int(values.max()) <= limits.max)
    if dtype.kind in "fc" and given.kind in "iufc":
        try:
            with np.errstate(over="raise"):
                values.astype(dtype)
        except FloatingPointError:
            return False
    return True


def _becomes_infinite(value: complex, dtype: np.dtype[Any]) -> bool:
    """Whether an element of this dtype would be infinite, although a number of Python is finite."""
    beyond = _BEYOND[dtype.char]
    return any(beyond <= abs(part) < np.inf for part in (value.real, value.imag))


def _can_hold_unknown(dtype: np.dtype[Any], value: Any) -> bool:
    try:
        array = np.asarray(value)
    except Exception:  # noqa: BLE001 - of any library; the assignment raises a better error
        return True
    if dtype.kind not in NUMBERS:
        return True
    given = array.dtype
    if isinstance(value, list | tuple) and given.kind in _KINDS_OF_LISTS:
        return dtype.kind in _KINDS_OF_LISTS[given.kind] and is_in_range(dtype, array)
    return np.can_cast(given, dtype, "same_kind")


def refuse_value(dtype: np.dtype[Any], value: Any, use: str) -> NoReturn:
    """Refuse a value for which `can_hold` or `is_in_range` is false.

    Args:
        dtype: Of the elements.
        value: The value.
        use: Who does what with it and which buffer, as the beginning of a sentence.

    Raises:
        UsageError: Always.
    """
    if _has_range(dtype, value):
        remedy = _explain_range(dtype, value)
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


def _has_range(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether the elements cannot hold the value because of its size, and not because of its kind."""
    if dtype.kind not in "iufc":
        return False
    given = np.asarray(value).dtype if getattr(value, "dtype", None) is None else value.dtype
    if value.__class__ in _KINDS_OF_NUMBERS or isinstance(value, list | tuple):
        return dtype.kind in _KINDS_OF_LISTS.get(given.kind, "")
    if dtype.kind in "iu" and given.kind in "iu":
        return not isinstance(value, np.ndarray | np.generic) or not is_in_range(dtype, value)
    return np.can_cast(given, dtype, "same_kind")


def _explain_range(dtype: np.dtype[Any], value: Any) -> str:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        text = f"Elements go from {limits.min} to {limits.max}"
    else:
        text = f"Elements go up to {np.finfo(dtype).max:.4g}"
    if np.ndim(value) == 0:
        return f"{text}: bring the value into this range"
    if dtype.kind in "iu":
        text += f", and the values from {np.min(value)} to {np.max(value)}"
    return f"{text}: bring the values into this range"


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
