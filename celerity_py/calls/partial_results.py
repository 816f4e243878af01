# SPDX-License-Identifier: MIT
"""Partial results of reductions, into which kernels combine values."""

from __future__ import annotations

from typing import Any

import numpy as np

from celerity_py._native import HolderRecord, PortRecord
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.accesses import kind_of
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.operations import OPERATIONS, identity_of
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.submissions import Submission
from celerity_py.vocabulary.type_rules import can_hold, describe_value, is_masked, refuse_masked, refuse_value

_SEQUENCES = (list, tuple, memoryview)


class ReductionPort(PortRecord):
    """The part of a reduction that the runtime keeps after the submit; each submit has its own."""

    __slots__ = ("has_combined", "identity", "includes_current", "op")

    def __init__(self, record: BufferRecord, op: str, *, includes_current: bool = False) -> None:
        self.record = record
        self.includes_current = includes_current
        #: Whether a chunk of this rank has combined a value. Any thread.
        self.has_combined = False
        self.op = op
        self.identity = identity_of(op, record.dtype)
        self.runtime = record.runtime
        #: Equal for reductions that fit the same kernels.
        self.kind = kind_of(op, record.dtype)

    @property
    def has_value_of_nothing(self) -> bool:
        """Whether the result has no meaning if no chunk combines a value."""
        return OPERATIONS[self.op].identity is None and not self.includes_current

    def fresh(self) -> ReductionPort:
        """One for another submit."""
        return ReductionPort(self.record, self.op, includes_current=self.includes_current)


class Reducer(StandsForArray, HolderRecord):
    """The partial result of one chunk; the runtime combines the partial results of all chunks."""

    __slots__ = ("_operation", "_owner", "_port")

    def __init__(self, array: np.ndarray[Any, Any], port: ReductionPort, owner: Submission) -> None:
        """Made by the runtime; `array` is 0-d and lies where the partial result belongs."""
        array[()] = port.identity
        self._base = array
        self._operation = OPERATIONS[port.op].combine
        self._port = port
        self._owner = owner

    def combine(self, value: Any) -> None:
        """Combine `value` with the partial result of this chunk. A kernel may call this any number of times.

        Args:
            value: A scalar or an array of one element.

        Raises:
            UsageError: If it has more than one element, or the buffer's dtype cannot hold it by NumPy's "same_kind"
                rule: neither 0.5 nor a complex number goes into integers.
        """
        given = value
        if not hasattr(value, "reshape") and (isinstance(value, _SEQUENCES) or hasattr(value, "__array__")):
            value = np.asarray(value)
        if getattr(value, "ndim", 0):
            if value.size != 1:
                raise UsageError(
                    f"{self._owner.describe()} combines an array of shape {value.shape} into the single element of "
                    f"{self._port.record.label}. Reduce it first, for instance with "
                    f"numpy.{self._operation.__name__}.reduce(partial, axis=None)."
                )
            value = value.reshape(())
        if is_masked(value):
            refuse_masked(value, f"{self._owner.describe()} combines")
        if not can_hold(self._port.record.dtype, value):
            what = f"{describe_value(value)} into {self._port.record.label}"
            refuse_value(self._port.record.dtype, given, f"{self._owner.describe()} combines {what}")
        self._base[()] = self._operation(self._base, value)
        self._port.has_combined = True

    def _explain(self, use: str) -> str:
        return (
            f"{self._owner.describe()}: the reduction into {self._port.record.label} is {use}. A kernel contributes "
            f"with out.combine(value), any number of times, and cannot read the result."
        )

    def __repr__(self) -> str:
        return f"<partial {self._port.op!r} of {self._port.record.label}: {self._base}>"
