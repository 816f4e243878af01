# SPDX-License-Identifier: MIT
"""Allocations as the verifier sees them: cells, each with the version of what lies in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tests.property.interpreter import Versions
from tests.verification.elements import FlatBox, Indices, element_mask, flat_indices, flat_size

AllocationId = tuple[int, int]
CELL_BYTES = 4
"""Granularity of replay; element sizes of test buffers are multiples of it."""
UNWRITTEN = -2
PENDING = -3
"""A receive is under way."""
FIRST_DEVICE = 2
"""The memory of the first device."""


def user_allocation(memory: int, number: int) -> AllocationId:
    """The id of an array of the user, as `allocation_id::of_user` gives it."""
    return memory, number if memory == 0 else (1 << 48) + number


@lru_cache(maxsize=1 << 16)
def _scaled(box: FlatBox, factor: int) -> FlatBox:
    return (box[0], box[1], box[2] * factor, box[3], box[4], box[5] * factor)


@lru_cache(maxsize=1 << 16)
def cells_of(space: FlatBox, boxes: tuple[FlatBox, ...], cells_per_element: int) -> tuple[Indices, int]:
    """Cell numbers of some elements of a dense allocation over `space`, box after box; and the same as a mask."""
    if cells_per_element == 1:
        return flat_indices(space, boxes), element_mask(space, boxes)
    wide = tuple(_scaled(box, cells_per_element) for box in boxes)
    return flat_indices(_scaled(space, cells_per_element), wide), element_mask(_scaled(space, cells_per_element), wide)


@lru_cache(maxsize=1 << 14)
def linear_cells(first: int, count: int) -> tuple[Indices, int]:
    return np.arange(first, first + count, dtype=np.intp), ((1 << count) - 1) << first


@dataclass
class Allocation:
    id: AllocationId
    size_bytes: int
    made: int | None
    """Place of the alloc instruction; None for user memory."""
    buffer: int | None = None
    box: FlatBox | None = None
    freed: int | None = None
    accesses: list[tuple[int, int, int]] = field(default_factory=list)
    """(place, cells read, cells written) of every instruction that touched it."""
    versions: Versions = field(init=False)

    def __post_init__(self) -> None:
        self.versions = np.full(-(-self.size_bytes // CELL_BYTES), UNWRITTEN, dtype=np.int64)

    @property
    def memory(self) -> int:
        return self.id[0]

    def cells(self, boxes: tuple[FlatBox, ...], element_size_bytes: int, offset_bytes: int = 0) -> tuple[Indices, int]:
        """Numbers of the cells in which data of `boxes` lies; and the same as a mask.

        Args:
            offset_bytes: Of packed data, in an allocation without box.
        """
        factor = element_size_bytes // CELL_BYTES
        if self.box is None:
            return linear_cells(offset_bytes // CELL_BYTES, sum(map(flat_size, boxes)) * factor)
        return cells_of(self.box, boxes, factor)

    def conflict(self, place: int, reads: int, writes: int, ancestors: int) -> tuple[int, int] | None:
        """An earlier access that this one conflicts with and that no path orders before it, and the cells."""
        both = reads | writes
        for earlier, earlier_reads, earlier_writes in self.accesses:
            shared = (earlier_writes & both) | (earlier_reads & writes)
            if shared and not ancestors >> earlier & 1 and earlier != place:
                return earlier, shared
        return None
