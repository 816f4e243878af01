# SPDX-License-Identifier: MIT
"""The cost of a timeline: the same steps of a wave with and without CELERITY_TRACE, in turns.

Each run has a process of its own: the memory that an earlier run has freed would make later ones faster or slower.

Small grids show the cost per task, since all that happens there is issuing work. Processor time tells it even where
other programs use the machine. The time to write the file, after the run, is told apart.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report


@celerity.kernel
def wave_step(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    """One step of the wave equation."""
    inner = chunk.box & u.shape_box.shrink(1, 1)
    around = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
    u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (around - 4 * u[inner])


def measure(size: int, steps: int, trace: Path | None) -> tuple[float, float, float]:
    """Seconds for the steps, of processor time for them, and for the end of the run, which writes the trace."""
    celerity.configure(trace=trace)
    initial = np.zeros((size, size), np.float32)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(initial, name="u")
        u_next = celerity.Buffer.from_array(initial, name="u_next")
        for step in range(steps + 10):
            if step == 10:
                queue.wait()
                started, used = time.perf_counter(), time.process_time()
            halo = access.neighborhood(1, 1, shape="axes")
            queue.parallel_for(
                u.shape, wave_step, u_next.read_write(access.one_to_one()), u.read(halo), np.float32(0.25)
            )
            u, u_next = u_next, u
        queue.wait()
        finished, used = time.perf_counter(), time.process_time() - used
    return finished - started, used, time.perf_counter() - finished


def measure_apart(size: int, steps: int, trace: Path | None) -> tuple[float, float, float]:
    """The same in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, size, steps, trace).result()


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    sizes = [16, 512, 2048]
    parser.add_argument("--sizes", type=report.integers, default=sizes, help="edges of the grid (default 16,512,2048)")
    parser.add_argument("--steps", type=int, default=2000, help="at the smallest size; fewer at larger ones")
    parser.add_argument("--rounds", type=int, default=9, help="runs with and without, in turns (default 9)")
    options = parser.parse_args(arguments)
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            steps = max(20, options.steps // max(1, size * size // (1 << 14)))
            runs: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
            for number in range(options.rounds):
                for traced in (False, True) if number % 2 else (True, False):
                    runs[traced].append(measure_apart(size, steps, Path(folder, "trace.json") if traced else None))
            off, on = ([statistics.median(figures) for figures in zip(*runs[traced], strict=True)] for traced in runs)
            names = ("us_per_step", "processor_us_per_step", "us_per_step_traced", "processor_us_per_step_traced")
            seconds = (*off[:2], *on[:2], on[2] - off[2])
            figures = zip((*names, "writing_us_per_step"), seconds, strict=True)
            rows.append({"size": size, "steps": steps} | {name: 1e6 * value / steps for name, value in figures})
    columns = [("grid", "{size}²"), ("steps", "{steps}")]
    columns += [("without", "{us_per_step:.1f} us"), ("with", "{us_per_step_traced:.1f} us")]
    columns += [("processor, without", "{processor_us_per_step:.1f} us")]
    columns += [("processor, with", "{processor_us_per_step_traced:.1f} us")]
    columns += [("writing the file, per step", "{writing_us_per_step:.1f} us")]
    report.show_rows("Steps of a wave without and with a timeline", columns, rows)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
