# SPDX-License-Identifier: MIT
"""Writes docs/pictures: `python -m tests.support.pictures`.

Range mappers and divisions are as the planner sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from celerity_py import Box, MapperChunk, Region, access
from celerity_py._native import RangeMapper, box_from_flat
from celerity_py._native_testing import map_chunk
from tests.support.mappers import neighborhood, one_to_one
from tests.verification.contexts import Cluster, TaskBuilder

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
RANKS, DEVICES = 2, 2
#: Seen well on white and on black. One for each device of all ranks.
_COLOURS: Final = ("#4c86c6", "#e8893c", "#57a55a", "#b07aa8")
_TEXT, _LINE = "#7d8590", "#9aa3ad"
_CELL, _GAP, _TOP, _BELOW = 14, 40, 22, 8
_SHOWN: Final = 1  # the device whose accesses are shown
_SHAPE: Final = (8, 8)

Chunks = list[tuple[int, Box]]
"""The number of a device, counted over all ranks, and a chunk, in the order of the kernel calls of each device."""


def chunks_of(shape: Sequence[int], describe: Callable[[Cluster, TaskBuilder], object] = lambda *_: None) -> Chunks:
    """The chunks of a kernel that the planners of all ranks generate."""
    cluster = Cluster(num_ranks=RANKS, num_devices=DEVICES)
    task = cluster.kernel(shape)
    describe(cluster, task)
    task.submit()
    found = [
        (rank * DEVICES + record["device"], box_from_flat(record["chunk"], len(shape)))
        for rank in range(RANKS)
        for record in cluster.instructions(rank).all("device_kernel")
    ]
    cluster.finish().verify()
    return sorted(found, key=lambda each: each[0])


# ---- drawing


def _rect(box: Box, x: int, y: int, style: str) -> str:
    low, high = (box.min, box.max) if box.ndim == 2 else ((0, *box.min), (1, *box.max))
    place = f'x="{x + low[1] * _CELL}" y="{y + low[0] * _CELL}"'
    return f'<rect {place} width="{(high[1] - low[1]) * _CELL}" height="{(high[0] - low[0]) * _CELL}" {style}/>'


def _text(words: str, x: float, y: float, style: str = f'fill="{_TEXT}"') -> str:
    return f'<text x="{x}" y="{y}" {style}>{words}</text>'


def _grid(shape: Sequence[int], x: int, y: int) -> list[str]:
    """The elements of a buffer or index space, without colour."""
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    lines = [f"M{x} {y + row * _CELL}h{columns * _CELL}" for row in range(rows + 1)]
    lines += [f"M{x + column * _CELL} {y}v{rows * _CELL}" for column in range(columns + 1)]
    return [f'<path d="{"".join(lines)}" stroke="{_LINE}" stroke-opacity="0.45" fill="none"/>']


def _svg(width: int, height: int, parts: Iterable[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="sans-serif" font-size="11"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""])


def _filled(boxes: Iterable[Box], x: int, y: int, colour: str, opacity: float) -> list[str]:
    return [_rect(box, x, y, f'fill="{colour}" fill-opacity="{opacity}" stroke="{colour}"') for box in boxes]


def draw_mapper(mapper: Any, space: Sequence[int], shape: Sequence[int], chunks: Chunks) -> str:
    """The index space with its chunks, and the part of a buffer that one of them accesses."""
    whole = Box((0,) * len(space), space)
    rows, columns = max(space[0] if len(space) == 2 else 1, shape[0]), space[-1]
    x = columns * _CELL + _GAP
    parts = [_text("index space", 1, 14), _text("buffer", x, 14), *_grid(space, 1, _TOP), *_grid(shape, x, _TOP)]
    for device, chunk in chunks:
        colour, is_shown = _COLOURS[device], device == _SHOWN
        parts += _filled([chunk], 1, _TOP, colour, 0.75 if is_shown else 0.2)
        if is_shown:
            region: Region
            if isinstance(mapper, RangeMapper):
                region = map_chunk(mapper, chunk, whole, tuple(shape))
            else:  # in Python
                region = mapper.function(MapperChunk(chunk, whole), tuple(shape))
            parts += _filled(region.boxes, x, _TOP, colour, 0.75)
    return _svg(x + shape[-1] * _CELL + 1, _TOP + rows * _CELL + _BELOW, parts)


def draw_split(space: Sequence[int], chunks: Chunks) -> str:
    """The index space, with the device of each chunk, and its place among the calls of the device if it has several."""
    parts = _grid(space, 1, 1)
    for device, colour in enumerate(_COLOURS):
        own = [chunk for number, chunk in chunks if number == device]
        parts += _filled(own, 1, 1, colour, 0.85)
        for call, chunk in enumerate(own if len(own) > 1 else []):
            x, y = ((chunk.min[dim] + chunk.max[dim]) / 2 * _CELL for dim in (1, 0))
            parts.append(_text(str(call + 1), x + 1, y + 5, 'fill="#111" text-anchor="middle"'))
        x, y = space[1] * _CELL + 20, 14 + device * 20
        parts.append(f'<rect x="{x}" y="{y - 9}" width="11" height="11" fill="{colour}" fill-opacity="0.85"/>')
        parts.append(_text(f"rank {device // DEVICES}, device {device % DEVICES}", x + 18, y))
    return _svg(space[1] * _CELL + 130, space[0] * _CELL + _BELOW, parts)


# ---- the threads of a rank

#: Left, top, width, height, and the title of each thread.
_THREADS: Final = (
    (1, 1, 150, 190, "application thread"),
    (181, 1, 390, 190, "scheduler thread: C++, without the GIL"),
    (601, 1, 318, 190, "executor thread: C++, Python on demand"),
)
#: Left, top, width, and the lines of each part of a thread.
_PARTS: Final = (
    (16, 80, 120, ("parallel_for,", "host_task, fence")),
    (194, 80, 74, ("task graph", "(all ranks)")),
    (284, 80, 82, ("command", "graph (rank)")),
    (382, 80, 76, ("lookahead", "queue")),
    (474, 80, 86, ("instruction", "graph (rank)")),
    (614, 80, 92, ("out-of-order", "engine")),
    (746, 32, 160, ("kernels and copies", "on lanes of devices")),
    (746, 86, 160, ("sends and receives", "by MPI")),
    (746, 140, 160, ("host tasks",)),
)
_ARROWS: Final = (
    *("M136 101H190", "M268 101H280", "M366 101H378", "M458 101H470", "M560 101H610"),
    *("M706 96C726 96 722 53 742 53", "M706 101C726 101 722 107 742 107", "M706 106C726 106 722 156 742 156"),
)
_FUTURES: Final = "M660 122V176H76V126"


def draw_pipeline() -> str:
    """The way of a task through the threads of a rank."""
    head = f'<path d="M0 0L8 4L0 8z" fill="{_TEXT}"/>'
    size = 'markerWidth="8" markerHeight="8" refX="5" refY="4"'
    parts = [f'<defs><marker id="head" {size} orient="auto">{head}</marker></defs>']
    for x, y, width, height, title in _THREADS:
        style = f'rx="6" fill="{_LINE}" fill-opacity="0.12" stroke="{_LINE}" stroke-opacity="0.6"'
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {style}/>')
        parts.append(_text(title, x + 10, y + 18))
    for x, y, width, lines in _PARTS:
        height = 14 + 14 * len(lines)
        style = f'rx="4" fill="{_COLOURS[0]}" fill-opacity="0.2" stroke="{_COLOURS[0]}"'
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {style}/>')
        parts += [
            _text(line, x + width / 2, y + 18 + 14 * row, f'fill="{_TEXT}" text-anchor="middle"')
            for row, line in enumerate(lines)
        ]
    arrow = f'fill="none" stroke="{_TEXT}" marker-end="url(#head)"'
    parts += [f'<path d="{path}" {arrow}/>' for path in _ARROWS]
    parts += [f'<path d="{_FUTURES}" {arrow} stroke-dasharray="4 3"/>', _text("futures", 330, 170)]
    return _svg(920, 192, parts)


# ---- the pictures


def _stencil(cluster: Cluster, task: TaskBuilder) -> None:
    u, v = cluster.buffer((12, 12), "array"), cluster.buffer((12, 12))
    task.write(v, one_to_one()).read(u, neighborhood(1, 1))


def pictures() -> dict[str, str]:
    """By the name of its file: each picture."""
    rows, tiles = chunks_of(_SHAPE), chunks_of(_SHAPE, lambda _, task: task.split_2d())
    line = chunks_of(_SHAPE[:1])
    mappers: dict[str, tuple[Any, Sequence[int], Sequence[int], Chunks]] = {
        "one_to_one": (access.one_to_one(), _SHAPE, _SHAPE, tiles),
        "neighborhood": (access.neighborhood(1, 1), _SHAPE, _SHAPE, tiles),
        "neighborhood_axes": (access.neighborhood(1, 1, shape="axes"), _SHAPE, _SHAPE, tiles),
        "neighborhood_wrap": (access.neighborhood(1, 1, wrap=True), _SHAPE, _SHAPE, tiles),
        "slice": (access.slice(1), _SHAPE, _SHAPE, tiles),
        "slice_of_rows": (access.slice(1), _SHAPE[:1], (8, 12), line),
        "slice_at": (access.slice(0, at=5), _SHAPE[:1], _SHAPE, line),
        "permute": (access.permute(1, 0), _SHAPE, _SHAPE, rows),
        "even_split": (access.even_split(), (4,), (10, 6), chunks_of((4,))),
        "gather": (
            access.gather([[0, 1], [2, 5], [0, 2], [5, 7], [1, 3], [4, 6], [3, 7], [6, 7]], gap=0),
            (8,),
            _SHAPE,
            line,
        ),
        "fixed": (access.fixed(Box((2, 1), (4, 7))), _SHAPE, _SHAPE, tiles),
        "all": (access.all(), _SHAPE, _SHAPE, tiles),
    }
    splits: dict[str, Callable[[Cluster, TaskBuilder], object]] = {
        "rows": lambda cluster, task: None,
        "split_2d": lambda cluster, task: task.split_2d(),
        "split_auto": lambda cluster, task: _stencil(cluster, task.split("split_auto")),
        "weights": lambda cluster, task: task.weights(3, 1),
        "cyclic": lambda cluster, task: task.cyclic(1),
        "oversubscribe": lambda cluster, task: task.oversubscribe(3),
        "border_first": lambda cluster, task: task.border_first(1),
        "constrain": lambda cluster, task: task.constrain(2, 1),
    }
    drawn = {f"mapper_{name}.svg": draw_mapper(*given) for name, given in mappers.items()}
    drawn["pipeline.svg"] = draw_pipeline()
    return drawn | {
        f"split_{name}.svg": draw_split((12, 12), chunks_of((12, 12), describe)) for name, describe in splits.items()
    }


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
