# SPDX-License-Identifier: MIT
"""Reductions: every chunk combines into a partial result of its own, and the runtime combines these in a fixed order.

The order is that of devices within a rank, and then that of ranks, so that the result has the same bits on every rank.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np

from celerity_py import _native
from celerity_py.buffer import Buffer
from celerity_py.comparison.program_digests import digest_of_function
from celerity_py.comparison.value_digests import digest_of
from celerity_py.reductions.combinations import (
    PLACED,
    Combination,
    combination_by,
    combination_of_name,
    is_placed,
    name_of_callable,
    partial_shape,
)
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.accesses import explain_argument
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.integers import to_flag
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.static_types import ReductionName
from celerity_py.vocabulary.type_rules import can_take

_NAMES = (*OPERATIONS, *PLACED)
#: Functions that reduce one array, and could be mistaken for operations: the name of the operation of each.
_OF_ONE_ARRAY: Final[dict[Any, str]] = {
    function: name
    for name, functions in {
        "sum": (sum, math.fsum, np.sum, np.nansum),
        "prod": (math.prod, np.prod, np.nanprod),
        "max": (max, np.max, np.amax, np.nanmax),
        "min": (min, np.min, np.amin, np.nanmin),
        "or": (any, np.any),
        "and": (all, np.all),
    }.items()
    for function in functions
}


class Reduction(StandsForArray):
    """An argument of a kernel, in whose place the kernel gets a `Reducer`; made by `celerity.reduction`."""

    __slots__ = ("buffer", "native", "port")

    def __init__(self, buffer: Buffer[Any], op: str, include_current: bool, deterministic: bool) -> None:
        """Of an operation that native code knows for these elements."""
        record = buffer.record
        self.buffer = buffer
        #: The argument of the scheduler, as `_native.Task.kernel` describes it.
        self.native: tuple[Any, ...] = (record.id, op, record.dtype.name, include_current)
        self.port = ReductionPort(record, op, includes_current=include_current, is_deterministic=deterministic)

    @classmethod
    def on_host(cls, buffer: Buffer[Any], combination: Combination, digest: int, include_current: bool) -> Reduction:
        """Of an operation that NumPy applies to the partial results.

        Args:
            buffer: The target.
            combination: The operation.
            digest: Of its code and identity; the same on all ranks.
            include_current: See `reduction`.
        """
        self = cls.__new__(cls)
        record = buffer.record
        self.buffer = buffer
        number = record.combinations.index(combination)
        self.native = (record.id, "callable", "other", include_current, number, combination.name, digest)
        self.port = ReductionPort(record, combination.name, includes_current=include_current, combination=combination)
        return self

    def _explain(self, use: str) -> str:
        return explain_argument(self, use)

    def __repr__(self) -> str:
        return f"<reduction {self.port.op!r} into {self.port.record.label}>"


def reduction(
    buffer: Buffer[Any],
    op: ReductionName | Callable[..., Any],
    include_current: bool = False,
    *,
    identity: Any = None,
    deterministic: bool = False,
) -> Reduction:
    """Declare that a kernel reduces into a buffer. The kernel gets a `Reducer` and calls its `combine(partial)`.

    Partial results combine in the order of devices within a rank, and then in the order of ranks. The chunks of an
    index space that is split along dimension 0 have the same order, unless `hints.cyclic` deals them to several ranks.
    The old value of the buffer comes first.

    Args:
        buffer: A buffer of any shape with an element at least. The result, which has the same bits on all ranks,
            becomes its contents: element by element, if it has more than one.
        op: "sum", "prod", "min", "max", "and", "or" or "xor", for elements of an integer, floating-point or complex
            dtype of up to 16 bytes, or bool. "min" and "max" need an order, "xor" integers or bool. "argmin" or
            "argmax", for elements of a dtype of `celerity.placed()`: of equal values the one with the lowest place
            wins. Or a callable `op(a, b)`, for any dtype: it gets two arrays of NumPy with the shape and dtype of the
            buffer (0-d for a single element), and returns their combination with the same shape and dtype. It must be
            associative and the same on all ranks, and may be called on any thread. It need not be commutative.
        include_current: Whether the buffer's old value takes part, exactly once.
        identity: For a callable `op`: the value, or array of the shape of the buffer, that leaves every other one
            unchanged. Partial results begin with it.
        deterministic: Whether the order is fixed within a device as well, so that sums and products of floating-point
            numbers have the same bits in every run on the same devices. Kernels in CUDA C++ combine in any order
            otherwise. With True they need a `celerity::ordered_reducer<T, Op>`, and a buffer of one element. A kernel
            in Python must itself compute the same bits in every run. The runtime refuses its `combine_at` on a GPU, for
            which CuPy has no fixed order.

    Returns:
        An argument for `queue.parallel_for`. Kernels in CUDA C++ take the operations with a name, except those of
        float16.

    Raises:
        ArgumentTypeError: If `buffer` is no buffer, or `include_current` or `deterministic` no truth value.
        UsageError: If the operation is unknown or not defined for the buffer's dtype, or if a callable comes without
            an identity that the elements can hold, or does not combine two identities to the identity. With `CHECK`,
            `combine` also raises if the identity changes a value.
    """
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"celerity.reduction() needs a Buffer, not {buffer!r}.")
    record = buffer.record
    dtype = record.dtype
    include_current = to_flag(include_current, "celerity.reduction(include_current=...)")
    deterministic = to_flag(deterministic, "celerity.reduction(deterministic=...)")
    if not record.box:
        raise UsageError(
            f"The reduction into {record.label} got an empty buffer, of shape {record.shape}. Leave it out, or reduce "
            f"into a buffer with an element for the result."
        )
    if dtype.shape:
        raise UsageError(
            f"The reduction into {record.label} got a buffer of {record.type_name}. Reduce into a buffer without "
            f"element=, such as Buffer({(*record.shape, *dtype.shape)}, {dtype.base}): no reduction divides its target."
        )
    if callable(op):
        return _by_callable(buffer, op, include_current, identity)
    if not isinstance(op, str) or op not in _NAMES:
        raise UsageError(
            f"The reduction into {record.label} needs one of {', '.join(map(repr, _NAMES))}, or a callable, not {op!r}."
        )
    if identity is not None:
        raise UsageError(
            f"The reduction {op!r} into {record.label} has an identity of its own: leave identity={identity!r} out, "
            f"which goes with a callable."
        )
    _check_elements(op, record)
    if op in PLACED or record.dtype == np.float16:
        return Reduction.on_host(buffer, combination_of_name(op, record), 0, include_current)
    return Reduction(buffer, op, include_current, deterministic)


def _check_elements(op: str, record: BufferRecord) -> None:
    """Refuse elements for which an operation with a name is not defined."""
    dtype = record.dtype
    if op in PLACED:
        if not is_placed(dtype):
            value = dtype if dtype.kind in "biuf" else np.dtype(np.float32)
            raise UsageError(
                f"The reduction {op!r} into {record.label} needs elements with a value and a place, not {dtype}. Make "
                f"the buffer with the dtype celerity.placed(np.{value.name})."
            )
        return
    if (dtype.name not in _native.SCALAR_TYPES and dtype != np.float16) or not dtype.isnative:
        raise UsageError(
            f"The reduction {op!r} into {record.label} needs elements of an integer type, float16, float32, float64, "
            f"complex64, complex128 or bool, not {dtype}. Pass a callable with identity= for elements of another type."
        )
    if OPERATIONS[op].identity is None and dtype.kind == "c":
        raise UsageError(f"The reduction {op!r} into {record.label} needs an order, which {dtype} does not have.")
    if op == "xor" and dtype.kind not in "iub":
        raise UsageError(f"The reduction 'xor' into {record.label} needs integers or bool, not {dtype}.")


def _by_callable(buffer: Buffer[Any], op: Callable[..., Any], include_current: bool, identity: Any) -> Reduction:
    record = buffer.record
    name = name_of_callable(op)
    if isinstance(op, Hashable) and op in _OF_ONE_ARRAY:
        known = _OF_ONE_ARRAY[op]
        raise UsageError(
            f"The reduction by {name} into {record.label}: {name} reduces one array, and does not combine two. Pass "
            f'the name of the operation, "{known}", or a function of two arrays, such as '
            f"numpy.{OPERATIONS[known].combine.__name__}."
        )
    if identity is None:
        raise UsageError(
            f"The reduction by {name} into {record.label} lacks its identity: the value that {name} combines with any "
            f"other one to that other one, such as identity=0 for a sum."
        )
    value: Any = None
    if can_take(record.dtype, identity, checks_values=True):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            value = np.broadcast_to(np.asarray(identity, record.dtype), partial_shape(record)).copy()
    if value is None:
        raise UsageError(
            f"The reduction by {name} into {record.label} has the identity {identity!r}, which its elements of "
            f"{record.dtype} and its shape {record.shape} cannot hold."
        )
    digest = digest_of((digest_of_function(op), np.asarray(identity, record.dtype)))
    return Reduction.on_host(buffer, combination_by(op, value, record), digest, include_current)
