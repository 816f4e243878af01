# SPDX-License-Identifier: MIT
"""What a launch gives to the text of a kernel, and how each of its passes is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from celerity_py.fusion.coordinates import Affine, Box
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.scalars import Parameter

#: Bytes that a thread loads or stores at once. Memory is aligned to these.
VECTOR_BYTES = 16
CACHE_LINE_BYTES = 128
#: Blocks along y and z. Kernels go on behind a grid of this size.
MAX_GRID = 65535


@dataclass(slots=True)
class Launch:
    """What a launch gives to the text, in the order of the text's numbers."""

    #: The memories, those of accesses first.
    memories: list[Memory]
    numbers: list[int] = field(default_factory=list)
    scalars: list[tuple[Parameter, np.dtype[Any]]] = field(default_factory=list)
    #: The largest magnitude of a coordinate, or of a part of one.
    largest: int = 0

    def number(self, value: int) -> str:
        """A further number, as the text names it."""
        self.numbers.append(value)
        self.largest = max(self.largest, abs(value))
        return f"l.numbers[{len(self.numbers) - 1}]"

    def reach(self, position: Affine, box: Box) -> None:
        """The text computes a coordinate for the items of a box."""
        low, high = position.bounds(box)
        self.largest = max(self.largest, abs(low), abs(high), abs(low - position.offset), abs(high - position.offset))

    def scalar(self, parameter: Parameter, dtype: np.dtype[Any]) -> int:
        """The place of a scalar."""
        if (parameter, dtype) not in self.scalars:
            self.scalars.append((parameter, dtype))
        return self.scalars.index((parameter, dtype))

    def first_stride(self, memory: Memory) -> int:
        """The place of a memory's first stride."""
        return sum(other.ndim for other in self.memories[: self.memories.index(memory)])

    def counts(self) -> tuple[int, int, int, int]:
        """How many memories, strides, numbers and scalars a launch gives; at least one of each, which may be unused."""
        strides = sum(memory.ndim for memory in self.memories)
        return tuple(max(one, 1) for one in (len(self.memories), strides, len(self.numbers), len(self.scalars)))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class WideMemory:
    """A memory of which threads access vectors, if its addresses allow it."""

    #: Among the memories of the launch.
    place: int
    #: Of its strides, and how many they are; the last one belongs to the columns.
    first_stride: int
    ndim: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class PassLaunch:
    """How a pass is launched.

    A grid has `dims` dimensions, x the last one. Along x it has `ceil(num_threads_x / block)` blocks or more. Along the
    others it has `ceil((high - low) / (block * items))` blocks, but at most `MAX_GRID`.
    """

    #: The place of the low and the high end of the first grid dimension among the numbers; those of the others follow.
    bounds: int
    dims: int
    #: Threads per block and items per thread, of each grid dimension; x is last.
    block: tuple[int, ...]
    items: tuple[int, ...]
    #: The memories that must be aligned for vectors. None: the pass has no vectors.
    wide: tuple[WideMemory, ...] = ()
    #: Columns which vectors touch beyond the items of their thread, and which memory need not have: before and behind.
    margins: tuple[int, int] = (0, 0)
    #: The place of three numbers that a launch sets, as `wide_columns` does, and of the limits of vectors behind them.
    wide_bounds: int | None = None

    def wide_columns(
        self, numbers: Sequence[int], addresses: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, int, int]:
        """The columns that threads access as vectors, from the first to the end, and where the first thread begins.

        Args:
            numbers: Those of the launch.
            addresses: Of the element at the origin, by memory.
            strides: In bytes, by memory and dimension.
        """
        assert self.wide_bounds is not None
        low, high = numbers[self.wide_bounds + 3 : self.wide_bounds + 5]
        columns = self.items[-1]
        smallest = min(self.wide, key=lambda one: one.itemsize)
        first = low + self.margins[0]
        piece = _piece(columns, smallest.itemsize)
        first += -(addresses[smallest.place] + first * smallest.itemsize) % piece // smallest.itemsize
        last = first + (high - self.margins[1] - first) // columns * columns
        if last <= first or not all(_is_aligned(one, columns, first, addresses, strides) for one in self.wide):
            return low, low, low
        in_line = max(CACHE_LINE_BYTES // (columns * smallest.itemsize), 1)
        before = (
            (addresses[smallest.place] + first * smallest.itemsize) % CACHE_LINE_BYTES // (columns * smallest.itemsize)
        )
        behind = -(-(first - before * columns - numbers[self.bounds + 2 * self.dims - 2]) // (in_line * columns))
        return first, last, first - (before + max(behind, 0) * in_line) * columns

    def num_threads_x(self, low: int, high: int, first: int, last: int, start: int) -> int:
        """How many threads the columns take."""
        return high - low if first == last else -(-(high - start) // self.items[-1])


def _is_aligned(memory: WideMemory, columns: int, first: int, addresses: Sequence[int], strides: Sequence[int]) -> bool:
    piece = _piece(columns, memory.itemsize)
    *others, last = strides[memory.first_stride : memory.first_stride + memory.ndim]
    address = addresses[memory.place] + first * memory.itemsize
    return last == memory.itemsize and address % piece == 0 and all(stride % piece == 0 for stride in others)


def _piece(columns: int, itemsize: int) -> int:
    """Bytes of a vector."""
    return min(VECTOR_BYTES, columns * itemsize)
