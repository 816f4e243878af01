# SPDX-License-Identifier: MIT
"""Arrays of NumPy among the arguments: tables, which travel with the scalars of a launch, so that they may change.

An index array chooses elements of a table by their number. A launch has the elements at hand, and nobody uploads them.
Where an index array leaves the table, NumPy raises, and a device cannot: the kernel takes the nearest element then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from celerity_py.fusion import operations
from celerity_py.fusion.arrays import SymbolicArray
from celerity_py.fusion.coordinates import NO_AXIS, compose, identity, select
from celerity_py.fusion.memories import Table
from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal
from celerity_py.fusion.nodes import Compute, Gather, Literal, Load, Node, broadcast_to, converted
from celerity_py.fusion.scalars import Parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celerity_py.fusion.coordinates import Positions, Shape
    from celerity_py.fusion.trace import Trace

#: Of all tables of a kernel: a GPU takes 4 KiB of parameters.
MOST_BYTES: Final = 2048
_INT64: Final = np.dtype(np.int64)
_TAKEN: Final = "?bhilqBHILQefdFD"


class TableStorage:
    """The elements of an array among the arguments."""

    def __init__(self, memory: Table, position: int, values: np.ndarray[Any, Any]) -> None:
        self.dtype = memory.dtype
        self.memory = memory
        self.position = position
        self.values = values

    def read(self, positions: Positions, shape: Shape) -> Node:
        """As in `Storage`."""
        return Load(self.dtype, shape, self.memory, positions, None)

    def write(self, positions: Positions, value: Node) -> NoReturn:
        """Refuse it.

        Raises:
            UsageError: Always.
        """
        raise refusal(
            f"The array '{self.memory.label}' among the arguments is written {at_line()}, but all parts of the task "
            f"share it. Write into array.copy(), and make a result a buffer."
        )


class TableArray(SymbolicArray):
    """An array among the arguments. Where Python needs an element, the trace holds for these values only."""

    __slots__ = ()
    _storage: TableStorage

    def __getitem__(self, index: Any) -> SymbolicArray:
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(item, np.ndarray) or _is_expression(item) for item in items):
            return SymbolicArray.of(self.trace, self._gather(items)).as_number()
        plain = tuple(int(item) if isinstance(item, SymbolicArray) else item for item in items)
        found = self._reference(*select(self.shape, plain))
        found._is_number = not found.shape
        return found

    def _reference(self, positions: Positions, shape: Shape) -> TableArray:
        return TableArray(self.trace, self._storage, compose(self._positions, positions), shape)

    def _gather(self, items: Sequence[Any]) -> Node:
        """The elements at arrays of integers, one for each of the first dimensions."""
        if self._positions != identity(self.ndim) or len(items) > self.ndim:
            raise NotTakenError(f"An index array for a part of an array {at_line()} is not fused yet.")
        nodes = []
        for item in items:
            if isinstance(item, SymbolicArray) and item.dtype.kind in "iu":
                nodes.append(converted(item.node(), _INT64))
            elif isinstance(item, int | np.integer) and not isinstance(item, bool):
                (position,), _ = select((self.shape[len(nodes)],), item)  # raises where NumPy does
                nodes.append(_literal(position.offset))
            else:
                raise NotTakenError(
                    f"An index of this kind into an array among the arguments {at_line()} is not fused yet."
                )
        if len(items) != self.ndim:
            raise NotTakenError(f"{len(items)} index arrays for {self.ndim} dimensions {at_line()} are not fused yet.")
        self.trace.count()
        offset: Node = Literal(_INT64, (), np.int64(0))
        for node, extent, stride in zip(nodes, self.shape, self._storage.memory.strides, strict=True):
            inside = _within(node, extent)
            offset = _apply("add", offset, _apply("multiply", inside, _literal(stride)))
        shape = operations.shape_of(nodes)
        return Gather(self.dtype, shape, "gather", (broadcast_to(offset, shape),), self._storage.memory)

    def _refuse_number(self) -> NoReturn:
        raise AssertionError("an array among the arguments has its elements at hand")

    def _element(self) -> Any:
        """Its only element, which the trace depends on from now on."""
        if self.size != 1 or any(position.axis != NO_AXIS for position in self._positions):
            super()._refuse_number()
        self.trace.needed.add(self._storage.position)
        return self._storage.values[tuple(position.offset for position in self._positions)]

    def __bool__(self) -> bool:  # type: ignore[override]
        return bool(self._element()) if self.ndim == 0 else super().__bool__()

    def __int__(self) -> int:
        return int(self._element())

    def __float__(self) -> float:
        return float(self._element())

    def __complex__(self) -> complex:
        return complex(self._element())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._element())


def _is_expression(item: Any) -> bool:
    """Whether an index is known when the kernel runs."""
    return isinstance(item, SymbolicArray) and not (isinstance(item, TableArray) and item.ndim == 0)


def table_of(trace: Trace, position: int, array: np.ndarray[Any, Any]) -> TableArray:
    """An array among the arguments, as the function sees it.

    Raises:
        NotTakenError: If it is too large, or has elements of another kind.
    """
    if array.dtype.char not in _TAKEN or not array.dtype.isnative or array.size == 0 or array.ndim == 0:
        raise NotTakenError(f"An array of {array.dtype} and shape {array.shape} among the arguments is not fused yet.")
    taken = sum(memory.num_bytes for memory in trace.tables)
    memory = Table.of(position, array.dtype, array.shape, Parameter(None, (position,), array))
    if taken + memory.num_bytes > MOST_BYTES:
        raise NotTakenError(
            f"Its arrays among the arguments have more than {MOST_BYTES} bytes, which is more than a launch may take "
            f"along. Make argument {position + 1} a buffer, and pass an access to it."
        )
    trace.tables.append(memory)
    storage = TableStorage(memory, position, array)
    return TableArray(trace, storage, identity(array.ndim), array.shape)


def _within(index: Node, extent: int) -> Node:
    """Negative indices count from the end; those outside are the first or the last one."""
    zero = _literal(0)
    is_negative = Compute(np.dtype(bool), index.shape, "less", (index, zero))
    shifted = _apply("where", is_negative, _apply("add", index, _literal(extent)), index)
    return _apply("minimum", _apply("maximum", shifted, zero), _literal(extent - 1))


def _literal(value: int) -> Node:
    return Literal(_INT64, (), np.int64(value))


def _apply(name: str, *operands: Node) -> Node:
    return Compute(_INT64, operations.shape_of(operands), name, operands)
