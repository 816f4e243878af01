# SPDX-License-Identifier: MIT
"""The cost of frames: the same steps of a wave with and without `celerity.io.save` every 50 steps, in turns.

Wall time tells what the program waits. Processor time tells what the frames take from kernels that share the cores
with them. The row "by hand" is what no way to write can do without: a copy of the frame, a file, and `fsync`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report

FORMATS = ("npy", "zarr", "h5")
WITHOUT, BY_HAND = "without", "by hand"


def wave_step(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    """One step of the wave equation."""
    inner = chunk.box & u.shape_box.shrink(1, 1)
    around = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
    u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (around - 4 * u[inner])


class Wave:
    """A wave whose frames go into a folder."""

    def __init__(self, queue: celerity.Queue, kernel: Any, size: int, folder: Path) -> None:
        initial = np.zeros((size, size), np.float32)
        self._queue, self._kernel, self._folder = queue, kernel, folder
        self._states = [celerity.Buffer.from_array(initial, name=name) for name in ("u", "u_next")]
        self._numbers = itertools.count()

    def measure(self, kind: str, frames: int, steps: int) -> tuple[float, float]:
        """Seconds, and seconds of processors, of so many frames of so many steps."""
        self._queue.wait()
        started, used = time.perf_counter(), time.process_time()
        for _ in range(frames):
            for _ in range(steps):
                u, u_next = self._states
                halo = access.neighborhood(1, 1, shape="axes")
                accesses = (u_next.read_write(access.one_to_one()), u.read(halo))
                self._queue.parallel_for(u.shape, self._kernel, *accesses, np.float32(0.25))
                self._states.reverse()
            if kind != WITHOUT:
                path = self._folder / f"frame{next(self._numbers)}.{kind}"
                celerity.io.save(self._queue, path, {"u": self._states[0]})
        self._queue.wait()
        return time.perf_counter() - started, time.process_time() - used


def write_by_hand(folder: Path, size: int, frames: int) -> tuple[float, float]:
    """The same figures of copies and writes alone."""
    frame = np.ones((size, size), np.float32)
    snapshot = np.zeros_like(frame)
    started, used = time.perf_counter(), time.process_time()
    for number in range(frames):
        np.copyto(snapshot, frame)
        path = folder / f"by_hand{number}.partial"
        with path.open("wb") as file:
            file.write(snapshot.data)
            file.flush()
            os.fsync(file.fileno())
        path.replace(path.with_suffix(".npy"))
    return time.perf_counter() - started, time.process_time() - used


def to_rows(runs: dict[str, list[tuple[float, float]]], frames: int) -> list[dict[str, Any]]:
    """The medians per frame, and what they are of those without frames."""
    rows: list[dict[str, Any]] = []
    base = statistics.median(wall for wall, _ in runs[WITHOUT])
    without = statistics.median(used for _, used in runs[WITHOUT])
    for kind, figures in runs.items():
        wall, used = (1e3 * statistics.median(each) / frames for each in zip(*figures, strict=True))
        row: dict[str, Any] = {"kind": kind, "ms": wall, "processor_ms": used, "factor": None, "more_ms": used}
        if kind != BY_HAND:
            row |= {"factor": wall * frames / 1e3 / base, "more_ms": used - 1e3 * without / frames}
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--size", type=int, default=1024, help="edge of the grid (default 1024)")
    parser.add_argument("--steps", type=int, default=50, help="per frame (default 50)")
    parser.add_argument("--frames", type=int, default=4, help="of a run (default 4)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each sort, in turns (default 5)")
    parser.add_argument("--formats", type=report.names_among(FORMATS), default=FORMATS, help="default npy,zarr,h5")
    parser.add_argument("--fuse", action="store_true", help="a fused kernel, on CPU devices compiled by numba")
    parser.add_argument("--folder", help="where files are written; default: that of temporary files")
    options = parser.parse_args(arguments)
    kernel = (celerity.fuse if options.fuse else celerity.kernel)(wave_step)
    runs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in (WITHOUT, *options.formats, BY_HAND)}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, celerity.Queue() as queue:
        wave = Wave(queue, kernel, options.size, Path(folder))
        for number in range(-1, options.rounds):
            for kind, figures in runs.items():
                if kind == BY_HAND:
                    figure = write_by_hand(Path(folder), options.size, options.frames)
                else:
                    figure = wave.measure(kind, options.frames, options.steps)
                for each in Path(folder).iterdir():  # so that each run finds as many free pages of memory
                    shutil.rmtree(each) if each.is_dir() else each.unlink()
                if number >= 0:  # the round before compiles and allocates
                    figures.append(figure)
    rows = to_rows(runs, options.frames)
    columns = [("frames", "{kind}"), ("ms per frame", "{ms:.1f}"), ("of without", "{factor}")]
    columns += [("processor, ms", "{processor_ms:.1f}"), ("more than without, ms", "{more_ms:.2f}")]
    title = f"{options.steps} steps of a wave of {options.size}² and a frame of {options.size**2 * 4 / 2**20:.1f} MiB"
    shown = [row | {"factor": report.number(row["factor"], 3)} for row in rows]
    report.show_rows(title, columns, shown)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
