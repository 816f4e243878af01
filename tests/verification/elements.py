# SPDX-License-Identifier: MIT
"""Sets of elements for tests: boxes as plain tuples, sets as flat indices or as bit masks.

Nothing here shares code with the runtime's own geometry; that is the point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FlatBox: TypeAlias = tuple[int, int, int, int, int, int]
"""A box of a record: three minima, three maxima, unused dimensions [0, 1)."""
Interval: TypeAlias = tuple[int, int]
UserBox: TypeAlias = tuple[Interval, ...]
"""A box as a user sees it: one half-open interval per dimension."""
Indices: TypeAlias = npt.NDArray[np.intp]

EMPTY_FLAT: FlatBox = (0, 0, 0, 0, 0, 0)


def full_box(shape: Sequence[int]) -> UserBox:
    return tuple((0, extent) for extent in shape)


def is_empty(box: UserBox) -> bool:
    return any(low >= high for low, high in box)


def box_size(box: UserBox) -> int:
    size = 1
    for low, high in box:
        size *= max(0, high - low)
    return size


def clamp(box: UserBox, bounds: UserBox) -> UserBox:
    return tuple((max(low, least), min(high, most)) for (low, high), (least, most) in zip(box, bounds, strict=True))


def to_flat(box: UserBox) -> FlatBox:
    if is_empty(box):
        return EMPTY_FLAT
    lows = [low for low, _ in box] + [0] * (3 - len(box))
    highs = [high for _, high in box] + [1] * (3 - len(box))
    return (lows[0], lows[1], lows[2], highs[0], highs[1], highs[2])


def from_flat(box: FlatBox, dims: int) -> UserBox:
    return tuple((box[d], box[3 + d]) for d in range(dims))


def flat_size(box: FlatBox) -> int:
    return max(0, box[3] - box[0]) * max(0, box[4] - box[1]) * max(0, box[5] - box[2])


def flat_overlap(a: FlatBox, b: FlatBox) -> FlatBox:
    low = (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))
    high = (min(a[3], b[3]), min(a[4], b[4]), min(a[5], b[5]))
    if low[0] >= high[0] or low[1] >= high[1] or low[2] >= high[2]:
        return EMPTY_FLAT
    return low + high


def flat_covers(outer: FlatBox, inner: FlatBox) -> bool:
    return flat_size(inner) == 0 or flat_overlap(outer, inner) == inner


def hull(boxes: Sequence[FlatBox]) -> FlatBox:
    """The smallest box around all of them; there is at least one."""
    return to_flat(tuple((min(b[d] for b in boxes), max(b[3 + d] for b in boxes)) for d in range(3)))


def flat_boxes(boxes: Iterable[UserBox]) -> tuple[FlatBox, ...]:
    return tuple(to_flat(box) for box in boxes if not is_empty(box))


@lru_cache(maxsize=1 << 16)
def element_mask(space: FlatBox, boxes: tuple[FlatBox, ...]) -> int:
    """The elements of `boxes` as set bits, numbered row-major in `space`. Raises where a box leaves the space."""
    rows, columns = space[4] - space[1], space[5] - space[2]
    mask = 0
    for box in boxes:
        if not flat_covers(space, box):
            raise AssertionError(f"box {box} leaves {space}")
        run = (1 << (box[5] - box[2])) - 1
        plane = 0
        for y in range(box[1] - space[1], box[4] - space[1]):
            plane |= run << (y * columns + box[2] - space[2])
        for x in range(box[0] - space[0], box[3] - space[0]):
            mask |= plane << (x * rows * columns)
    return mask


@lru_cache(maxsize=1 << 16)
def flat_indices(space: FlatBox, boxes: tuple[FlatBox, ...]) -> Indices:
    """Row-major positions in `space` of the elements of `boxes`: box after box, each row-major."""
    rows, columns = space[4] - space[1], space[5] - space[2]
    parts: list[Indices] = []
    for box in boxes:
        if not flat_covers(space, box):
            raise AssertionError(f"box {box} leaves {space}")
        xs = (np.arange(box[0], box[3], dtype=np.intp) - space[0]) * (rows * columns)
        ys = (np.arange(box[1], box[4], dtype=np.intp) - space[1]) * columns
        zs = np.arange(box[2], box[5], dtype=np.intp) - space[2]
        parts.append((xs[:, None, None] + ys[None, :, None] + zs[None, None, :]).reshape(-1))
    result = np.concatenate(parts) if parts else np.empty(0, dtype=np.intp)
    result.setflags(write=False)
    return result


def mask_of_indices(indices: Iterable[int]) -> int:
    mask = 0
    for index in indices:
        mask |= 1 << int(index)
    return mask


def bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def describe_elements(space: FlatBox, mask: int, limit: int = 6) -> str:
    """Coordinates of the first few set bits, for messages."""
    rows, columns = space[4] - space[1], space[5] - space[2]
    shown: list[str] = []
    for position in bits(mask):
        if len(shown) == limit:
            shown.append("...")
            break
        x, rest = divmod(position, rows * columns)
        y, z = divmod(rest, columns)
        shown.append(str((x + space[0], y + space[1], z + space[2])))
    return ", ".join(shown)


def points(box: UserBox) -> Iterator[tuple[int, ...]]:
    return product(*(range(low, high) for low, high in box))
