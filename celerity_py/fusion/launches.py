# SPDX-License-Identifier: MIT
"""What a launch gives to the text of a kernel, and how each of its passes is launched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from celerity_py.fusion.scalars import SCALAR_BYTES, num_places

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Affine, Box
    from celerity_py.fusion.memories import Memory, Table
    from celerity_py.fusion.scalars import Parameter

#: Bytes that a thread loads or stores at once. Memory is aligned to these.
VECTOR_BYTES = 16
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
        low, high = position.without_limits().bounds(box)
        self.largest = max(self.largest, abs(low), abs(high), abs(low - position.offset), abs(high - position.offset))

    def scalar(self, parameter: Parameter, dtype: np.dtype[Any]) -> int:
        """The place of a scalar."""
        if (parameter, dtype) not in self.scalars:
            self.scalars.append((parameter, dtype))
        return num_places(self.scalars[: self.scalars.index((parameter, dtype))])

    def table(self, memory: Table) -> int:
        """The first byte of a table among the scalars."""
        return SCALAR_BYTES * self.scalar(memory.parameter, np.dtype((np.void, memory.num_bytes)))

    def first_stride(self, memory: Memory) -> int:
        """The place of a memory's first stride."""
        return sum(other.ndim for other in self.memories[: self.memories.index(memory)])

    def counts(self) -> tuple[int, int, int, int]:
        """How many memories, strides, numbers and scalars a launch gives; at least one of each, which may be unused."""
        strides = sum(memory.ndim for memory in self.memories)
        scalars = num_places(self.scalars)
        return tuple(max(one, 1) for one in (len(self.memories), strides, len(self.numbers), scalars))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class WideMemory:
    """A memory of which threads access vectors, if its addresses allow it."""

    #: Among the memories of the launch.
    place: int
    #: Of its strides, and how many they are; the last one belongs to the columns.
    first_stride: int
    ndim: int
    itemsize: int


class Shape(NamedTuple):
    """Threads per block and items per thread, of each grid dimension; x is last."""

    block: tuple[int, ...]
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PassLaunch:
    """How a pass is launched.

    A grid has `dims` dimensions, x the last one. Along x, `fused_kernel::begin_pass` counts the threads. Along the
    others there are `ceil((high - low) / (block * items))` blocks, but at most `MAX_GRID`.
    """

    #: The place of the low and the high end of the first grid dimension among the numbers; those of the others follow.
    bounds: int
    dims: int
    shape: Shape
    #: The memories that must be aligned for vectors. None: the pass has no vectors.
    wide: tuple[WideMemory, ...] = ()
    #: Columns which vectors touch beyond the items of their thread, and which memory need not have: before and behind.
    margins: tuple[int, int] = (0, 0)
    #: The place of three numbers that `fused_kernel::begin_pass` sets, and of the limits of vectors behind them: the
    #: first column of vectors, the end of the last one, and the column at which the first thread begins.
    wide_bounds: int | None = None
    #: Of the function for addresses that allow no vectors, whose name ends with `_single`. None: there are no vectors.
    single: Shape | None = None
    #: Of the grid; 0: as many as there are tiles. The text goes on behind so many.
    most_blocks: int = 0
