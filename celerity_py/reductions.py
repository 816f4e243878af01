# SPDX-License-Identifier: MIT
"""Reductions: every chunk combines into a partial result of its own, and the runtime combines these in a fixed order.

The order is that of devices within a rank, and then that of ranks, so that the result has the same bits on every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celerity_py import _native
from celerity_py.buffer import Buffer
from celerity_py.calls.partial_results import ReductionPort
from celerity_py.scheduler.errors import ArgumentTypeError, NotAvailableYet, UsageError
from celerity_py.vocabulary.accesses import explain_argument
from celerity_py.vocabulary.operations import OPERATIONS
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.static_types import ReductionName


class Reduction(StandsForArray):
    """An argument of a kernel, in whose place the kernel gets a `Reducer`; made by `celerity.reduction`."""

    __slots__ = ("buffer", "native", "port")

    def __init__(self, buffer: Buffer[Any], op: str, include_current: bool) -> None:
        record = buffer.record
        self.buffer = buffer
        #: The argument of the scheduler: (buffer id, op, dtype, include_current).
        self.native = (record.id, op, record.dtype.name, include_current)
        self.port = ReductionPort(record, op, includes_current=include_current)

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
) -> Reduction:
    """Declare that a kernel reduces into a buffer. The kernel gets a `Reducer` and calls its `combine(partial)`.

    Args:
        buffer: A buffer of any shape, of an integer, float32, float64 or complex dtype or bool. The result, which has
            the same bits on all ranks, becomes its contents: element by element, if it has more than one.
        op: "sum", "prod", "min", "max", "and", "or" or "xor". "min" and "max" need an order, "xor" integers or bool.
        include_current: Whether the buffer's old value takes part, exactly once.
        identity: For a callable `op` only.

    Returns:
        An argument for `queue.parallel_for`.

    Raises:
        ArgumentTypeError: If `buffer` is no buffer.
        UsageError: If the operation is unknown or not defined for the buffer's dtype.
        NotAvailableYet: If the operation is a callable.
    """
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"celerity.reduction() needs a Buffer, not {buffer!r}.")
    record = buffer.record
    if callable(op) or identity is not None:
        raise NotAvailableYet(
            f"The reduction into {record.label} has a callable operation or an identity, which is not available yet. "
            f"Use one of {', '.join(map(repr, OPERATIONS))}."
        )
    if not isinstance(op, str) or op not in OPERATIONS:
        raise UsageError(
            f"The reduction into {record.label} needs one of {', '.join(map(repr, OPERATIONS))}, not {op!r}."
        )
    dtype = record.dtype
    if dtype.name not in _native.SCALAR_TYPES or not dtype.isnative:
        raise UsageError(
            f"The reduction into {record.label} needs elements of an integer type, float32, float64, complex64, "
            f"complex128 or bool, not {dtype}."
        )
    if OPERATIONS[op].identity is None and dtype.kind == "c":
        raise UsageError(f"The reduction {op!r} into {record.label} needs an order, which {dtype} does not have.")
    if op == "xor" and dtype.kind not in "iub":
        raise UsageError(f"The reduction 'xor' into {record.label} needs integers or bool, not {dtype}.")
    return Reduction(buffer, op, include_current)
