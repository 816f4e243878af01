# SPDX-License-Identifier: MIT
"""Reducers in a function that is traced: the partial result of a chunk is a memory, which statements update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celerity_py.fusion.arrays import SymbolicArray
from celerity_py.fusion.coordinates import constant, identity
from celerity_py.fusion.memories import Memory
from celerity_py.fusion.mistakes import NotTakenError, at_line
from celerity_py.fusion.nodes import Literal, broadcast_to
from celerity_py.fusion.scalars import SymbolicScalar
from celerity_py.fusion.storages import BufferStorage
from celerity_py.reductions.operations import OPERATIONS, identity_of
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.vocabulary.type_rules import can_take, describe_value, refuse_value

if TYPE_CHECKING:
    from celerity_py.fusion.trace import Trace
    from celerity_py.vocabulary.submissions import Submission


class SymbolicReducer(Reducer):
    """A reducer with the checks and messages of `Reducer`, and with symbolic arrays."""

    __slots__ = ("_position", "_trace")

    def __init__(self, trace: Trace, position: int, port: ReductionPort, owner: Submission) -> None:
        self._trace = trace
        self._position = position
        memory = _memory_of(port, position)
        trace.memories[memory] = position
        places = (constant(0),) * memory.ndim if port.shape == () else identity(memory.ndim)
        base: Any = SymbolicArray(trace, BufferStorage(trace, memory, writable=True), places, port.shape)
        super().__init__(base, port, owner)

    def _begin(self) -> None:
        self._operation = OPERATIONS[self._port.op].combine

    def combine(self, value: Any, places: Any = None) -> None:
        """As `Reducer.combine`."""
        if places is not None:
            self._refuse_places()
        array = value if isinstance(value, SymbolicArray) else None
        shape = getattr(value, "shape", ()) if array is None else array.shape
        if self._port.shape == () and array is not None and array.size == 1:
            value = array[(0,) * array.ndim]
        elif shape != self._port.shape:
            self._refuse_shape(shape)
        plain = value.parameter.value if isinstance(value, SymbolicScalar) else value
        record = self._port.record
        if not can_take(record.dtype, plain, checks_values=False):
            what = f"{describe_value(plain)} into {record.label}"
            refuse_value(record.dtype, plain, f"{self._owner.describe()} combines {what}")
        self._base[...] = self._operation(self._base if self._has_begun() else self._nothing(), value)
        self._trace.combined.add(self._position)

    def combine_at(self, indices: Any, values: Any, places: Any = None) -> None:
        """Not fused yet.

        Raises:
            NotTakenError: Always.
        """
        raise NotTakenError(f"combine_at() {at_line()} is not fused yet.")

    @property
    def array(self) -> Any:
        """As `Reducer.array`."""
        self.finish()
        self._trace.combined.add(self._position)
        return self._base

    @array.setter
    def array(self, value: Any) -> None:
        Reducer.array.__set__(self, value)  # type: ignore[attr-defined]

    def finish(self) -> None:
        """If nothing was combined yet, the partial result is that of nothing."""
        if not self._has_begun():
            self._base[...] = self._nothing()

    def _has_begun(self) -> bool:
        return any(self._trace.memories.get(one.memory) == self._position for one in self._trace.statements)

    def _nothing(self) -> SymbolicArray:
        dtype = self._port.record.dtype
        node = Literal(dtype, (), identity_of(self._port.op, dtype))
        return SymbolicArray.of(self._trace, broadcast_to(node, self._port.shape))


def _memory_of(port: ReductionPort, position: int) -> Memory:
    record = port.record
    if port.combination is not None:
        raise NotTakenError(f"The reduction into {record.label}, which NumPy combines, is not fused yet.")
    if record.dtype.char not in "?bhilqBHILQfdFD":
        raise NotTakenError(
            f"The fused form of reductions into buffers of {record.dtype}, as {record.label}, is not made yet."
        )
    ndim = max(record.box.ndim, 1)
    return Memory(("reduction", position), record.dtype, ndim, ndim, record.label)
