# SPDX-License-Identifier: MIT
"""Range mappers whose result for a chunk is wider than the union over its parts, wraps around, or is many boxes.

All of them are legal for reads: a chunk reads all elements that its parts read. Those that are legal for writes say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import gcd

from tests.support.mappers import Mapper, Rule, custom
from tests.verification.elements import Interval, UserBox, full_box, is_empty, points

RowOf = Callable[[int, int], int]
"""(item, rows of the buffer) -> the row that the item touches; it need not exist."""


def _rows_rule(row_of: RowOf, *, is_hull: bool) -> Rule:
    """Rows of the items of the first dimension; other dimensions as the chunk has them, or whole."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        if is_empty(chunk):
            return []
        rows = [row_of(item, shape[0]) for item in range(*chunk[0])]
        rest = chunk[1:] if len(chunk) == len(shape) else full_box(shape[1:])
        if is_hull:
            return [((min(rows), max(rows) + 1), *rest)]
        return [((row, row + 1), *rest) for row in rows]

    return rule


def _strided(step: int, phase: int) -> RowOf:
    return lambda item, rows: phase + step * item


def _backwards(step: int, phase: int) -> RowOf:
    return lambda item, rows: rows - 1 - phase - step * item


def _scattered(seed: int) -> RowOf:
    def row_of(item: int, rows: int) -> int:
        factor = next(f for f in range(2 * seed + rows // 3 + 1, 4 * (seed + rows) + 3) if gcd(f, rows) == 1)
        return (item * factor + seed) % rows

    return row_of


def strided_hull(step: int, phase: int) -> Mapper:
    """The bounding box of every `step`-th row: parts leave gaps between each other."""
    return custom(f"strided_hull({step}, {phase})", _rows_rule(_strided(step, phase), is_hull=True))


def backwards_hull(step: int, phase: int) -> Mapper:
    return custom(f"backwards_hull({step}, {phase})", _rows_rule(_backwards(step, phase), is_hull=True))


def backwards_pick(step: int, phase: int) -> Mapper:
    """Every `step`-th row from the end on, each a box. Items touch different rows: fit for writes."""
    return custom(f"backwards_pick({step}, {phase})", _rows_rule(_backwards(step, phase), is_hull=False))


def scattered_hull(seed: int) -> Mapper:
    return custom(f"scattered_hull({seed})", _rows_rule(_scattered(seed), is_hull=True))


def scattered(seed: int) -> Mapper:
    """A permutation of the rows: many boxes. Fit for writes if there are no more items than rows."""
    return custom(f"scattered({seed})", _rows_rule(_scattered(seed), is_hull=False))


def periodic(*extents: int) -> Mapper:
    """A neighborhood on a torus; chunks outside of the buffer lie on it as well."""

    def wrapped(low: int, high: int, extent: int) -> list[Interval]:
        if high - low >= extent:
            return [(0, extent)]
        first, last = low % extent, (high - 1) % extent + 1
        return [(first, last)] if first < last else [(0, last), (first, extent)]

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        sides = [
            wrapped(low - e, high + e, extent) for (low, high), e, extent in zip(chunk, extents, shape, strict=True)
        ]
        return list(product(*sides))

    return custom(f"periodic({', '.join(map(str, extents))})", rule)


def aligned(size: int) -> Mapper:
    """Whole tiles of `size` in each dimension: parts of a chunk overlap."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [tuple((low // size * size, -(-high // size) * size) for low, high in chunk)]

    return custom(f"aligned({size})", rule)


def swollen() -> Mapper:
    """A chunk grown by half of its own size: the larger the chunk, the more it reads around it."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [tuple((low - (high - low) // 2, high + (high - low) // 2) for low, high in chunk)]

    return custom("swollen()", rule)


def all_if_longer(most: int) -> Mapper:
    """Everything for chunks of more than `most` in the first dimension, themselves for others."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [full_box(shape)] if chunk[0][1] - chunk[0][0] > most else [chunk]

    return custom(f"all_if_longer({most})", rule)


def mirror_hull() -> Mapper:
    """The bounding box of a chunk of a square and of its mirror image."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        sides = (min(low for low, _ in chunk), max(high for _, high in chunk))
        return [(sides,) * len(chunk)]

    return custom("mirror_hull()", rule)


def triangle() -> Mapper:
    """Item i of a 1-D kernel touches the first i + 1 elements of row i: a box per row. Fit for writes."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [((i, i + 1), (0, i + 1)) for i in range(*chunk[0])]

    return custom("triangle()", rule)


def _chosen(text: str, is_chosen: Callable[[tuple[int, ...]], bool]) -> Mapper:
    def boxes(chunk: UserBox) -> Iterator[UserBox]:
        for point in points(chunk):
            if is_chosen(point):
                yield tuple((c, c + 1) for c in point)

    return custom(text, lambda chunk, whole, shape: list(boxes(chunk)))


def checkerboard(parity: int) -> Mapper:
    """Items of one colour touch their own element. Fit for writes."""
    return _chosen(f"checkerboard({parity})", lambda point: sum(point) % 2 == parity)


def sparse(seed: int, percent: int) -> Mapper:
    """Some items touch their own element, no pattern in which. Fit for writes."""

    def is_chosen(point: tuple[int, ...]) -> bool:
        number = seed + 1
        for coordinate in point:
            number = (number * 1_000_003 + coordinate * 7919 + 12345) % 2_147_483_647
        return number * 48_271 % 2_147_483_647 % 100 < percent

    return _chosen(f"sparse({seed}, {percent})", is_chosen)
