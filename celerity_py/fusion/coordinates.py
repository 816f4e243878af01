# SPDX-License-Identifier: MIT
"""Affine coordinates: where the elements of an array lie in another array, in memory, or among the items of a pass."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from celerity_py.fusion.mistakes import at_line, refusal

NO_AXIS: Final = -1


class Affine(NamedTuple):
    """A coordinate along one dimension: `step * index[axis] + offset`, or `offset` alone with `NO_AXIS`.

    With limits, a coordinate beyond is the nearest one that is not, as at the edge of a padded array.
    """

    axis: int
    step: int
    offset: int
    limits: tuple[int, int] | None = None

    def bounds(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The lowest and the highest value while the index runs over a box, none of whose intervals is empty."""
        if self.axis == NO_AXIS:
            return self.offset, self.offset
        low, high = box[self.axis]
        ends = self.step * low + self.offset, self.step * (high - 1) + self.offset
        low, high = min(ends), max(ends)
        if self.limits is not None:
            least, most = self.limits
            low, high = min(max(low, least), most), min(max(high, least), most)
        return low, high

    def without_limits(self) -> Affine:
        """The same where no coordinate is beyond the limits."""
        return self if self.limits is None else Affine(self.axis, self.step, self.offset)


Positions: TypeAlias = tuple[Affine, ...]
Shape: TypeAlias = tuple[int, ...]
#: Half-open intervals, one per dimension.
Box: TypeAlias = tuple[tuple[int, int], ...]


def constant(value: int) -> Affine:
    """The same coordinate everywhere."""
    return Affine(NO_AXIS, 0, value)


@functools.lru_cache(maxsize=64)
def identity(ndim: int) -> Positions:
    """Each coordinate is the index of its own axis."""
    return tuple(Affine(axis, 1, 0) for axis in range(ndim))


def compose(positions: Positions, coordinates: Positions) -> Positions:
    """`positions` of what `coordinates` give: coordinates of the outer index."""
    result = []
    for position in positions:
        axis, step, offset, limits = position
        if axis == NO_AXIS:
            result.append(position)
            continue
        inner = coordinates[axis]
        outer = Affine(inner.axis, step * inner.step, step * inner.offset + offset, _limits_of(position, inner))
        if limits is not None and inner.axis == NO_AXIS:
            outer = constant(min(max(outer.offset, limits[0]), limits[1]))
        result.append(outer)
    return tuple(result)


def _limits_of(position: Affine, inner: Affine) -> tuple[int, int] | None:
    """The limits of a coordinate of a coordinate, of which at most one has limits."""
    if inner.limits is None:
        return position.limits
    assert position.limits is None, "only memories are read beyond limits"
    least, most = sorted(position.step * limit + position.offset for limit in inner.limits)
    return least, most


def broadcast(shape: Shape, target: Shape) -> Positions:
    """Where an array of `shape` has the elements of the array of `target` to which NumPy broadcasts it.

    Dimensions of one element that `target` lacks, as an assignment allows, are dropped.
    """
    shift = len(target) - len(shape)
    return tuple(
        constant(0) if extent == 1 and (axis + shift < 0 or target[axis + shift] != 1) else Affine(axis + shift, 1, 0)
        for axis, extent in enumerate(shape)
    )


def can_be_assigned(shape: Shape, target: Shape) -> bool:
    """Whether NumPy assigns an array of `shape` to elements of the shape `target`."""
    further = max(len(shape) - len(target), 0)
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(extent == 1 for extent in shape[:further]) and all(a in {1, b} for a, b in pairs)


_Item: TypeAlias = "int | slice | EllipsisType | None"


def select(shape: Shape, index: Any) -> tuple[Positions, Shape]:
    """Basic indexing as NumPy does it: where the elements lie along each axis of the array, and their shape.

    Raises:
        UsageError: If an item is neither integer, slice, None nor `...`, or an integer lies outside.
    """
    items = _expand(shape, index)
    positions: list[Affine] = []
    extents: list[int] = []
    for item in items:
        if item is None:
            extents.append(1)
            continue
        extent = shape[len(positions)]
        if isinstance(item, slice):
            chosen = range(extent)[item]
            positions.append(Affine(len(extents), chosen.step, chosen.start))
            extents.append(len(chosen))
        else:
            if not -extent <= item < extent:
                raise refusal(
                    f"Index {item} is outside of an axis of {extent} elements {at_line()}. Indices of an array count "
                    f"from 0 to {extent - 1}, or backwards from -1 to {-extent}."
                )
            positions.append(constant(item % extent))
    return tuple(positions), tuple(extents)


def _expand(shape: Shape, index: Any) -> list[int | slice | None]:
    items = [_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    given = sum(item is not None and item is not ... for item in items)
    if given > len(shape) or items.count(...) > 1:
        raise refusal(
            f"The index {index!r} does not fit an array of the shape {shape} {at_line()}. Write at most one item per "
            f"dimension, and at most one '...'."
        )
    fill: list[Any] = [slice(None)] * (len(shape) - given)
    where = items.index(...) if ... in items else len(items)
    return [*items[:where], *fill, *items[where + 1 :]]


def _item(item: Any) -> _Item:
    if item is None or item is ... or isinstance(item, slice):
        return item
    try:
        if not isinstance(item, bool | np.bool_) and not getattr(item, "ndim", 0):
            return operator.index(item)
    except TypeError:
        pass
    raise refusal(
        f"An index of the type {type(item).__name__} {at_line()}. A fused kernel takes integers, slices, None and "
        f"'...': choose elements by numpy.where(condition, a, b) instead of array[condition]."
    )
