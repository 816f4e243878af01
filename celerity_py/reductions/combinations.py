# SPDX-License-Identifier: MIT
"""Operations that NumPy applies to partial results on the host: callables, extrema with places, float16."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.reductions.operations import OPERATIONS, identity_of
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.integers import is_int
from celerity_py.vocabulary.notation import printable
from celerity_py.vocabulary.type_rules import to_dtype

if TYPE_CHECKING:
    from celerity_py.vocabulary.buffer_records import BufferRecord

#: The operations that keep a place beside each value, and the operation of the values alone.
PLACED: Final = {"argmin": "min", "argmax": "max"}
VALUE, PLACE = "value", "place"
#: The place of the identity.
NOWHERE: Final = -1

_lock = threading.Lock()  # of the lists of combinations


def placed(dtype: Any, ndim: int = 1) -> np.dtype[Any]:
    """The dtype of a buffer for `celerity.reduction(buffer, "argmin")` and "argmax": a value and its place.

    Any thread may call this, on any rank by itself.

    Args:
        dtype: Of the field "value": a real number or bool.
        ndim: Dimensions of the index space or array whose elements are compared, 1 to 3. The field "place" is an int64
            for 1, and an array of so many int64 for 2 and 3: global coordinates, so that `array[tuple(found["place"])]`
            is the element.

    Raises:
        ArgumentTypeError: If `dtype` is no dtype.
        UsageError: If the values have no order, or `ndim` is another number.
    """
    value = to_dtype(dtype, "celerity.placed()")
    if value.kind not in "biuf" or not value.isnative:
        raise UsageError(f"celerity.placed() needs values with an order, of a native dtype, not {value}.")
    if not is_int(ndim) or not 1 <= ndim <= 3:
        raise UsageError(f"celerity.placed() takes 1, 2 or 3 dimensions, not {ndim!r}.")
    place: Any = (PLACE, np.int64) if ndim == 1 else (PLACE, np.int64, (ndim,))
    return np.dtype([(VALUE, value), place], align=True)


def is_placed(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has the fields of `placed`."""
    if dtype.names != (VALUE, PLACE):
        return False
    value, place = dtype[VALUE], dtype[PLACE]
    return (
        value.kind in "biuf"
        and value.isnative
        and place.base == np.int64
        and place.base.isnative
        and place.shape in {(), (2,), (3,)}
    )


def num_dims_of_place(dtype: np.dtype[Any]) -> int:
    """The dimensions of the places of a dtype of `placed`."""
    return int(np.prod(dtype[PLACE].shape, dtype=int))


class Combination:
    """An operation on the partial results of one buffer.

    Attributes:
        name: Of the operation.
        is_named: Whether `celerity.reduction` knows it by this name.
        identity: An array of the shape of a partial result, read-only.
        has_value_of_nothing: See `ReductionPort`.
        is_placed: Whether the elements have places.
    """

    __slots__ = ("_dtype", "_function", "_label", "has_value_of_nothing", "identity", "is_named", "is_placed", "name")

    def __init__(
        self,
        name: str,
        function: Callable[[Any, Any], Any],
        identity: np.ndarray[Any, Any],
        record: BufferRecord,
        *,
        is_named: bool,
    ) -> None:
        self.name = printable(name)
        self.identity = identity
        self.is_named = is_named
        self.has_value_of_nothing = is_named and name in {"min", "max", *PLACED}
        self.is_placed = is_named and name in PLACED
        self._function = function
        self._dtype = record.dtype
        self._label = record.label

    def is_by(self, function: Callable[..., Any], identity: np.ndarray[Any, Any]) -> bool:
        """Whether this is the operation of the same callable, with the same identity."""
        return not self.is_named and _is_same(self._function, function) and _same_bits(self.identity, identity)

    def __call__(self, first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Combine two arrays of the same shape, which the function may overwrite.

        Raises:
            UsageError: If the function returns no array of this shape and dtype.
        """
        shape = first.shape
        result = np.asarray(self._function(first, second))
        if result.shape != shape or result.dtype != self._dtype:
            raise UsageError(
                f"The operation {self.name} of the reduction into {self._label} got two arrays of shape {shape} and "
                f"{self._dtype}, and returned one of shape {result.shape} and {result.dtype}. It must return their "
                f"combination, of the same shape and dtype: use result.astype({str(self._dtype)!r}) if that is what "
                f"you want."
            )
        return result

    def check_identity(self) -> None:
        """Refuse an operation that does not combine two identities to the identity.

        Raises:
            UsageError: If it does not, or raises.
        """
        who = f"The operation {self.name} of the reduction into {self._label}"
        try:
            result = self(self.identity.copy(), self.identity.copy())
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"{who} raised {type(error).__name__}: {error}. It got two arrays of shape {self.identity.shape} and "
                f"{self._dtype}, both with the identity. It must return their combination."
            ) from error
        if not self.leaves(self.identity, result):
            raise UsageError(
                f"{who} combines two identities, {_shown(self.identity)}, to {_shown(result)}. Partial results begin "
                f"with the identity, which must leave every other value unchanged: pass the identity of {self.name}, "
                f"such as 0 for a sum and 1 for a product."
            )

    def leaves(self, value: np.ndarray[Any, Any], result: np.ndarray[Any, Any]) -> bool:
        """Whether the result of an identity and a value is the value, apart from rounding. Infinities may not be."""
        if value.dtype.kind not in "fc":
            return value.dtype.names is not None or bool((result == value).all())
        tolerance = float(np.sqrt(np.finfo(value.dtype).eps))
        is_near = np.isclose(result, value, rtol=tolerance, atol=0.0, equal_nan=True)
        return bool((is_near | ~np.isfinite(value)).all())

    def reduce(self, partials: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Give ((partials[0] op partials[1]) op partials[2]) ..., in memory of its own."""
        result: np.ndarray[Any, Any] = partials[0].copy()
        for other in partials[1:]:
            result = self(result, other.copy())
        return result

    def combine_at(self, target: np.ndarray[Any, Any], indices: Any, values: Any) -> None:
        """Combine values with elements of `target`, those of one element in their order.

        The values of an element combine in pairs, again and again, so that the function gets few large arrays.

        Raises:
            IndexError: If an index lies outside of `target`.
        """
        numbers = np.arange(target.size).reshape(target.shape)[indices]
        given = np.broadcast_to(np.asarray(values, self._dtype), numbers.shape).reshape(-1)
        numbers = numbers.reshape(-1)
        order = np.argsort(numbers, kind="stable")
        numbers, given = numbers[order], given[order]
        while (is_repeated := numbers[1:] == numbers[:-1]).any():
            begins = np.flatnonzero(np.concatenate([[True], ~is_repeated]))
            lengths = np.diff(np.append(begins, numbers.size))
            is_left = (np.arange(numbers.size) - np.repeat(begins, lengths)) % 2 == 0
            left = np.flatnonzero(is_left[:-1] & is_repeated)
            given[left] = self(given[left], given[left + 1])
            numbers, given = numbers[is_left], given[is_left]
        elements = target.reshape(-1)  # contiguous, so that this is no copy
        if numbers.size:
            elements[numbers] = self(elements[numbers], given)

    def is_of_nothing(self, result: np.ndarray[Any, Any]) -> bool:
        """Whether all elements of a result are the identity."""
        if self.is_placed:
            return bool((result[PLACE] == NOWHERE).all())
        return bool((result == self.identity).all())


def partial_shape(record: BufferRecord) -> tuple[int, ...]:
    """The shape of a partial result: 0-d for a buffer of one element."""
    return () if all(extent == 1 for extent in record.shape) else record.shape


def combination_of_name(op: str, record: BufferRecord) -> Combination:
    """The combination of an operation with a name into a buffer whose elements native code cannot combine."""
    with _lock:
        known: Combination
        for known in record.combinations:
            if known.is_named and known.name == op:
                return known
        identity = np.zeros(partial_shape(record), record.dtype)
        if op in PLACED:
            identity[VALUE] = identity_of(PLACED[op], record.dtype[VALUE])
            identity[PLACE] = NOWHERE
        else:
            identity[...] = identity_of(op, record.dtype)
        function = partial(_choose if op in PLACED else _apply, op)
        return _add(Combination(op, function, identity, record, is_named=True), record)


def combination_by(function: Callable[..., Any], identity: np.ndarray[Any, Any], record: BufferRecord) -> Combination:
    """The combination of a callable into a buffer, which keeps each callable once.

    Raises:
        UsageError: If the callable does not combine two identities to the identity.
    """
    known = _find(function, identity, record)
    if known is not None:
        return known
    made = Combination(name_of_callable(function), function, identity, record, is_named=False)
    made.check_identity()  # calls the function, and so without the lock
    with _lock:
        return _find(function, identity, record) or _add(made, record)


def _find(function: Callable[..., Any], identity: np.ndarray[Any, Any], record: BufferRecord) -> Combination | None:
    return next((known for known in list(record.combinations) if known.is_by(function, identity)), None)


def _add(combination: Combination, record: BufferRecord) -> Combination:
    record.combinations.append(combination)
    record.runtime.keep_record(record)
    return combination


def _apply(op: str, first: Any, second: Any) -> Any:
    return np.asarray(OPERATIONS[op].combine(first, second), first.dtype)


def _choose(op: str, first: Any, second: Any) -> Any:
    """Of each two elements the one with the smaller or larger value; of equal ones that with the lower place."""
    a, b = first[VALUE], second[VALUE]
    is_better = b < a if op == "argmin" else b > a
    is_equal = a == b
    if a.dtype.kind == "f":  # NaN wins, as in NumPy
        is_better = ~np.isnan(a) & (is_better | np.isnan(b))
        is_equal |= np.isnan(a) & np.isnan(b)
    extra = first.dtype[PLACE].shape
    p, q = (each[PLACE] if extra else each[PLACE][..., np.newaxis] for each in (first, second))
    is_lower = np.zeros(a.shape, bool)
    for dim in reversed(range(p.shape[-1])):  # lexicographic
        is_lower = (q[..., dim] < p[..., dim]) | ((q[..., dim] == p[..., dim]) & is_lower)
    from_nowhere, to_nowhere = p[..., 0] == NOWHERE, q[..., 0] == NOWHERE
    takes_second = ~to_nowhere & (from_nowhere | is_better | (is_equal & is_lower))
    return np.where(takes_second, second, first)


def name_of_callable(function: Any) -> str:
    """What messages call the operation of a reduction."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _shown(value: np.ndarray[Any, Any]) -> str:
    return str(value.tolist()) if value.size <= 8 else f"{value.reshape(-1)[:3].tolist()} ..."


def _same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.tobytes() == b.tobytes()


def _is_same(known: Any, given: Any) -> bool:
    """Whether two callables do the same: a function that a loop makes again and again is one operation."""
    if known is given:
        return True
    if isinstance(known, MethodType) and isinstance(given, MethodType):
        return known.__func__ is given.__func__ and known.__self__ is given.__self__
    if not isinstance(known, FunctionType) or not isinstance(given, FunctionType):
        return False
    if known.__code__ is not given.__code__ or known.__kwdefaults__ != given.__kwdefaults__:
        return False
    ours = (*(known.__closure__ or ()), *(known.__defaults__ or ()))
    theirs = (*(given.__closure__ or ()), *(given.__defaults__ or ()))
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))
