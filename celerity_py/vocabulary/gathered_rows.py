# SPDX-License-Identifier: MIT
"""Rows of a buffer that arrays on the host list for each item: `access.gather`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py._native import Box, Region
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, OutOfBoundsAccess, UsageError
from celerity_py.vocabulary.foreign_arrays import to_numpy
from celerity_py.vocabulary.frozen_arrays import frozen
from celerity_py.vocabulary.integers import is_int
from celerity_py.vocabulary.notation import show

if TYPE_CHECKING:
    import numpy.typing as npt

    from celerity_py.vocabulary.parts import MapperChunk

#: Gaps are closed such that a chunk accesses no more boxes, unless the program chooses.
MOST_BOXES: Final = 64
#: Of a mark for each row between the first and the last one, per listed row. Rows that lie further apart are sorted.
_MOST_BYTES_PER_ROW: Final = 64


class GatheredRows:
    """For each item of dimension 0 of an index space, the rows of a buffer that it reads. Immutable.

    The gap is the same for all chunks. So the rows of a chunk contain those of its parts, as the graphs expect.
    """

    __slots__ = ("__weakref__", "_gap", "_indices", "_offsets", "_top", "count")

    def __init__(self, indices: Any, offsets: Any, gap: Any) -> None:
        """Check the arguments of `access.gather`, which describes them.

        Raises:
            ArgumentTypeError: If an array is not of integers.
            UsageError: If shapes or values do not fit.
        """
        self._indices = _integers(indices, "indices")
        if offsets is None:
            self._offsets = None
            if self._indices.ndim not in {1, 2}:
                raise UsageError(
                    f"access.gather() takes indices of the shape (items,) or (items, k), not {self._indices.shape}. "
                    f"If the items have lists of different lengths, put these one after the other, and give offsets=."
                )
            self.count = len(self._indices)
        else:
            self._offsets = _integers(offsets, "offsets")
            self._check_offsets()
            self.count = len(self._offsets) - 1
        if self._indices.size and self._indices.min() < 0:
            place = tuple(map(int, np.argwhere(self._indices < 0)[0]))
            raise UsageError(
                f"access.gather() got the index {self._indices[place]} at {list(place)}. Indices are rows of the "
                f"buffer, from 0. If it fills up a list that is shorter than others, repeat an index of that list."
            )
        self._top = int(self._indices.max()) if self._indices.size else -1
        if gap is not None and (not is_int(gap) or not 0 <= gap < 2**63):
            raise UsageError(f"access.gather() needs gap=None or an integer of at least 0 rows, not gap={gap!r}.")
        self._gap = gap

    def _check_offsets(self) -> None:
        offsets = self._offsets
        assert offsets is not None
        size = self._indices.size
        if self._indices.ndim != 1 or offsets.ndim != 1 or not offsets.size:
            raise UsageError(
                f"access.gather() with offsets= takes two arrays of one dimension, as of a matrix in CSR: the indices, "
                f"and one offset more than there are items. The shapes are {self._indices.shape} and {offsets.shape}."
            )
        if offsets[0] != 0 or offsets[-1] != size:
            raise UsageError(
                f"access.gather() got offsets from {offsets[0]} to {offsets[-1]}, but they go from 0 to the number of "
                f"indices, {size}."
            )
        falls = np.flatnonzero(offsets[1:] < offsets[:-1])
        if falls.size:
            item = int(falls[0])
            raise UsageError(
                f"access.gather() got offsets that fall from {offsets[item]} to {offsets[item + 1]}. The indices of "
                f"item {item} are those between its offset and the next one."
            )

    @property
    def is_exact(self) -> bool:
        """Whether chunks access listed rows only."""
        return bool(self._gap == 0)

    def check(self, space: Box, shape: tuple[int, ...], who: object) -> None:
        """Refuse an index space or a buffer that the indices do not fit.

        Args:
            space: The index space.
            shape: Of the buffer.
            who: Task and access, as the subject of a message.

        Raises:
            DimensionMismatch: If one of them has no dimension.
            OutOfBoundsAccess: If items have no indices, or if the buffer lacks a row.
        """
        if not space.ndim or not shape:
            raise DimensionMismatch(
                f"{who}: an index space and a buffer of at least one dimension are needed, but the index space is "
                f"{show(space)} and the buffer has the shape {shape}. Nothing was submitted."
            )
        if space.min[0] < 0 or space.max[0] > self.count:
            raise OutOfBoundsAccess(
                f"{who}: the index space {show(space)} has items that no indices belong to. There are indices for "
                f"items 0 to {self.count - 1}. Nothing was submitted."
            )
        if self._top >= shape[0]:
            raise OutOfBoundsAccess(
                f"{who}: the indices reach row {self._top}, but the buffer of shape {shape} has rows 0 to "
                f"{shape[0] - 1}. Nothing was submitted."
            )

    def map(self, chunk: MapperChunk, buffer_shape: tuple[int, ...]) -> Region:
        """The rows that a chunk reads, and those in gaps between them."""
        begin, end = chunk.box.min[0], chunk.box.max[0]
        if self._offsets is not None:
            begin, end = self._offsets[begin], self._offsets[end]
        listed = self._indices[begin:end]
        if not listed.size:
            return Region([Box((0,) * len(buffer_shape), (0,) * len(buffer_shape))])
        rest = buffer_shape[1:]
        low = (0,) * len(rest)
        gap = -(-buffer_shape[0] // MOST_BOXES) if self._gap is None else self._gap
        return Region([Box((first, *low), (last, *rest)) for first, last in _runs(listed, gap)])

    def __repr__(self) -> str:
        offsets = "" if self._offsets is None else f", offsets=<{len(self._offsets)} offsets>"
        gap = "" if self._gap is None else f", gap={self._gap}"
        return f"gather(<indices of shape {self._indices.shape}>{offsets}{gap})"


def _integers(values: Any, name: str) -> npt.NDArray[Any]:
    """A read-only array of the values."""
    array = to_numpy(values, f"access.gather() got as {name}")
    if array.dtype.kind not in "iu" and array.size:
        raise ArgumentTypeError(f"access.gather() takes integers as {name}, not an array of {array.dtype}.")
    return frozen(array if array.size else array.astype(np.int64))


def _runs(rows: npt.NDArray[Any], gap: int) -> list[tuple[int, int]]:
    """Beginning and end of each run of rows; rows with at most `gap` others between them belong to one run."""
    bottom = int(rows.min())
    span = int(rows.max()) - bottom + 1
    if span > _MOST_BYTES_PER_ROW * rows.size:
        begins = np.unique(rows).astype(np.int64)
        ends = begins + 1
    else:  # in a time that is proportional to the span, as sorting takes longer
        is_listed = np.zeros(span + 2, bool)
        is_listed[1:-1][rows.ravel() - rows.min()] = True
        changes = np.flatnonzero(is_listed[1:] != is_listed[:-1]) + bottom
        begins, ends = changes[::2], changes[1::2]
    is_open = begins[1:] - ends[:-1] > gap
    begins = np.concatenate([begins[:1], begins[1:][is_open]])
    ends = np.concatenate([ends[:-1][is_open], ends[-1:]])
    return list(zip(begins.tolist(), ends.tolist(), strict=True))
