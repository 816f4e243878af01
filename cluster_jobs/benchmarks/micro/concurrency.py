# SPDX-License-Identifier: MIT
"""Does planning disturb execution? `python -m cluster_jobs.benchmarks.micro.concurrency`.

A chain of kernels that release the GIL runs on one device. In every other stretch of it a second scheduler thread is
let loose on 2000 tasks (wave_sim, 4 devices) that were submitted behind a gate, so the application does nothing
meanwhile. The dispatch latency, from the end of one kernel to the start of the next, is compared between the
stretches with and without planning.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import Box, _native, access
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.internals import _native_testing

TASKS = 2000


class GatedScheduler:
    """A dry scheduler with 2000 tasks that wait behind a gate."""

    def __init__(self) -> None:
        planning = _native.PlanningSettings(
            num_ranks=4,
            rank=0,
            num_devices=4,
            user_device_peers=False,
            lookahead="auto",
            horizon_step=4,
            horizon_max_parallelism=64,
        )
        self.native = _native.Scheduler(planning, None, run_ahead=1 << 40)
        _native_testing.set_paused(self.native, True)
        self.native.start()
        own, halo = access.one_to_one(), access.neighborhood(1, 1, shape="axes")
        u, v = (
            self.native.create_buffer(_native.BufferInfo(shape=(512, 512), element_size=4, name=name)) for name in "uv"
        )
        for buffer in (u, v):
            self._submit([(buffer, 1, own)], "fill")
        for _ in range(TASKS):
            self._submit([(v, 2, own), (u, 0, halo)], "step")
            u, v = v, u

    def _submit(self, accesses: list[tuple[int, int, _native.RangeMapper]], name: str) -> None:
        task = _native.Task.kernel(Box((0, 0), (512, 512)))
        _native_testing.submit_task(self.native, _native_testing.with_accesses(task, accesses, name))

    def open(self) -> None:
        """Let the thread plan."""
        _native_testing.set_paused(self.native, False)

    def finish(self) -> float:
        """Wait for the thread; busy seconds."""
        self.native.wait_until_planned()
        self.native.stop()
        return float(self.native.statistics()["busy_s"])


def stretch(queue: celerity.Queue, kernels: int, gate: GatedScheduler | None) -> list[float]:
    """Run one chain; dispatch latencies in microseconds."""
    marks: list[tuple[int, int]] = []

    @celerity.kernel
    def work(chunk: Any, data: Any) -> None:
        begun = time.perf_counter_ns()
        if gate is not None and len(marks) == 20:  # the chain itself is planned by then
            gate.open()
        np.sqrt(data.array, out=data.array)  # large enough to release the GIL for a while
        marks.append((begun, time.perf_counter_ns()))

    data = celerity.Buffer.from_array(np.full(1 << 16, 2.0, np.float32), name="data")
    for _ in range(kernels):
        queue.parallel_for(data.shape, work, data.read_write(access.one_to_one()))
    queue.wait()
    return [(after[0] - before[1]) / 1e3 for before, after in pairwise(marks[20:])]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--kernels", type=int, default=400, help="per stretch")
    parser.add_argument("--stretches", type=int, default=10)
    options = parser.parse_args(arguments)
    latencies: dict[str, list[float]] = {"alone": [], "while planning": []}
    busy = 0.0
    with celerity.Queue() as queue:
        stretch(queue, options.kernels, None)  # warm-up
        for _ in range(options.stretches):
            latencies["alone"] += stretch(queue, options.kernels, None)
            gate = GatedScheduler()
            latencies["while planning"] += stretch(queue, options.kernels, gate)
            busy += gate.finish()
    rows = [
        {"case": case, "p50_us": statistics.median(values), "p95_us": sorted(values)[int(0.95 * len(values))]}
        for case, values in latencies.items()
    ]
    lines = []
    for row in rows:
        ratios = [row[key] / rows[0][key] for key in ("p50_us", "p95_us")]  # type: ignore[operator]
        lines.append([str(row["case"]), f"{row['p50_us']:.1f}", f"{row['p95_us']:.1f}", *map("{:.2f}".format, ratios)])
    title = f"Dispatch latency, µs; planning {TASKS} tasks took {busy / options.stretches * 1e3:.1f} ms"
    report.show(title, ("case", "p50", "p95", "p50 / alone", "p95 / alone"), lines)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
