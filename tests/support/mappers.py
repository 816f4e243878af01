# SPDX-License-Identifier: MIT
"""Range mappers of test programs: the argument for the runtime, and an independent model of its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from tests.verification.elements import Interval, UserBox, clamp, full_box, is_empty

Rule = Callable[[UserBox, UserBox, tuple[int, ...]], list[UserBox]]
"""(chunk, whole index space, buffer shape) -> boxes of the buffer, not yet clamped."""


@dataclass(frozen=True)
class Mapper:
    """One range mapper. Two mappers with the same text are the same mapper."""

    text: str
    rule: Rule
    kind: str
    arguments: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapper) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def is_callable(self) -> bool:
        return self.kind in {"callable", "gather"}

    @property
    def is_periodic(self) -> bool:
        """Whether the access goes on at the opposite side of the buffer."""
        wrap = self.arguments[2] if self.kind == "neighborhood" else False
        return any(wrap) if isinstance(wrap, tuple) else bool(wrap)

    def region(self, chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        """The elements that `chunk` touches, clamped to the buffer; boxes may overlap."""
        bounds = full_box(shape)
        return [box for box in (clamp(raw, bounds) for raw in self.rule(chunk, whole, shape)) if not is_empty(box)]

    def gives_all(self, whole: UserBox, shape: tuple[int, ...]) -> bool:
        """Whether each item has an element of the buffer; built-in mappers are refused otherwise."""
        if self.kind not in {"one_to_one", "slice", "permute", "neighborhood"}:
            return True
        reach = self.arguments[0] if self.kind == "neighborhood" else (0,) * len(shape)
        centers = whole if self.kind == "neighborhood" else self.rule(whole, whole, shape)[0]
        return all(
            low >= -far and high <= extent + far for (low, high), extent, far in zip(centers, shape, reach, strict=True)
        )


def one_to_one() -> Mapper:
    return Mapper("one_to_one()", lambda chunk, whole, shape: [chunk], "one_to_one")


def all_() -> Mapper:
    return Mapper("all()", lambda chunk, whole, shape: [full_box(shape)], "all")


def fixed(*boxes: UserBox) -> Mapper:
    text = f"fixed({', '.join(show_box(box) for box in boxes)})"
    return Mapper(text, lambda chunk, whole, shape: list(boxes), "fixed", boxes)


def slice_(dim: int, at: int | None = None) -> Mapper:
    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        full = full_box(shape)
        others = list(chunk) if len(chunk) == len(shape) else [*chunk[:dim], full[dim], *chunk[dim:]]
        others[dim] = full[dim] if at is None else (at, at + 1)
        return [tuple(others)]

    if at is None:
        return Mapper(f"slice({dim})", rule, "slice", (dim,))
    return Mapper(f"slice({dim}, at={at})", rule, "slice", (dim, at))


def neighborhood(*extents: int, shape: str = "box", wrap: bool | tuple[bool, ...] = False) -> Mapper:
    periodic = wrap if isinstance(wrap, tuple) else (wrap,) * len(extents)

    def grow(box: UserBox, dims: Sequence[int]) -> UserBox:
        return tuple(
            (low - extents[d], high + extents[d]) if d in dims else (low, high) for d, (low, high) in enumerate(box)
        )

    def rule(chunk: UserBox, whole: UserBox, buffer_shape: tuple[int, ...]) -> list[UserBox]:
        if shape == "box":
            grown = [grow(chunk, range(len(extents)))]
        else:
            grown = [chunk, *(grow(chunk, [d]) for d in range(len(extents)))]
        return [point for box in grown for point in wrapped(box, buffer_shape)] if any(periodic) else grown

    def wrapped(box: UserBox, buffer_shape: tuple[int, ...]) -> Iterator[UserBox]:
        """Element for element."""
        lines = zip(box, buffer_shape, periodic, strict=True)
        places = ({at % extent if turns else at for at in range(*bounds)} for bounds, extent, turns in lines)
        for point in product(*places):
            yield tuple((at, at + 1) for at in point)

    arguments = ", ".join(str(extent) for extent in extents)
    text = f'neighborhood({arguments}, shape="{shape}", wrap={wrap})'
    return Mapper(text, rule, "neighborhood", (extents, shape, wrap))


def even_split(granularity: int = 1) -> Mapper:
    """The blocks that item i of a 1-D kernel gets, by the definition of the interface, item for item."""

    def starts(parts: int, extent: int) -> list[int]:
        step = extent // (parts * granularity) * granularity
        rest = extent - parts * step
        sizes = [step] * parts
        for part in range(rest // granularity):
            sizes[part] += granularity
        sizes[-1] += rest % granularity
        positions = [0]
        for size in sizes:
            positions.append(positions[-1] + size)
        return positions

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        (low, high), (first, last) = chunk[0], whole[0]
        positions = starts(last - first, shape[0])
        return [((positions[low - first], positions[high - first]), *full_box(shape[1:]))]

    return Mapper(f"even_split({granularity})", rule, "even_split", (granularity,))


def permute(*dims: int) -> Mapper:
    return Mapper(
        f"permute({', '.join(map(str, dims))})",
        lambda chunk, whole, shape: [tuple(chunk[d] for d in dims)],
        "permute",
        dims,
    )


def custom(text: str, rule: Rule) -> Mapper:
    """A Python callable; `text` must say all there is to know of it."""
    return Mapper(text, rule, "callable")


def _rest(shape: tuple[int, ...]) -> UserBox:
    return full_box(shape[1:])


def blocks(size: int) -> Mapper:
    """Item i of a 1-D kernel touches the `size` rows from size * i on."""
    return custom(
        f"blocks({size})", lambda chunk, whole, shape: [((chunk[0][0] * size, chunk[0][1] * size), *_rest(shape))]
    )


def rows_apart(step: int, phase: int) -> Mapper:
    """Item i touches row step * i + phase only: a region with holes."""
    return custom(
        f"rows_apart({step}, {phase})",
        lambda chunk, whole, shape: [
            ((step * i + phase, step * i + phase + 1), *_rest(shape)) for i in range(*chunk[0])
        ],
    )


def mirrored() -> Mapper:
    """Item i touches row (extent - 1 - i)."""
    return custom(
        "mirrored()", lambda chunk, whole, shape: [((shape[0] - chunk[0][1], shape[0] - chunk[0][0]), *_rest(shape))]
    )


def prefix() -> Mapper:
    """A chunk touches all rows before its end."""
    return custom("prefix()", lambda chunk, whole, shape: [((0, chunk[0][1]), *_rest(shape))])


def shifted(*offsets: int) -> Mapper:
    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [tuple((low + offset, high + offset) for (low, high), offset in zip(chunk, offsets, strict=True))]

    return custom(f"shifted({', '.join(map(str, offsets))})", rule)


def corners() -> Mapper:
    """First and last row of the buffer, whatever the chunk: a constant region in two pieces."""
    return custom(
        "corners()", lambda chunk, whole, shape: [((0, 1), *_rest(shape)), ((shape[0] - 1, shape[0]), *_rest(shape))]
    )


def gather(indices: Sequence[Sequence[int]], gap: int) -> Mapper:
    """Item i of a 1-D kernel touches the rows `indices[i]`. A chunk also touches gaps of up to `gap` rows."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        listed = sorted({row for item in range(*chunk[0]) for row in indices[item]})
        runs = [(row, row + 1) for row in listed]
        runs += [(low, high) for low, high in pairwise(listed) if high - low <= gap + 1]
        return [(run, *_rest(shape)) for run in runs]

    return Mapper(f"gather({indices}, gap={gap})", rule, "gather", (indices, gap))


def history(row: int) -> Mapper:
    """Rows before `row`, in the columns of a 1-D kernel over columns (a growing read)."""
    return custom(f"history({row})", lambda chunk, whole, shape: [((0, row), chunk[0])])


def row_of_columns(row: int) -> Mapper:
    """Row `row`, in the columns of a 1-D kernel over columns."""
    return custom(f"row_of_columns({row})", lambda chunk, whole, shape: [((row, row + 1), chunk[0])])


def nothing_in_first_half() -> Mapper:
    """Chunks that end in the first half of the index space touch nothing; others the last row."""

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        middle = (whole[0][0] + whole[0][1] + 1) // 2
        return [] if chunk[0][1] <= middle and whole[0][1] > middle else [((shape[0] - 1, shape[0]), *_rest(shape))]

    return custom("nothing_in_first_half()", rule)


def show_interval(interval: Interval) -> str:
    return f"{interval[0]}:{interval[1]}"


def show_box(box: UserBox) -> str:
    return f"[{', '.join(show_interval(interval) for interval in box)}]"
