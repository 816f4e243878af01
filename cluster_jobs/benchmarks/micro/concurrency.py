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
from celerity_py import access
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.internals import _native_testing
from cluster_jobs.benchmarks.micro.wave_planner import WavePlanner

TASKS = 2000


def stretch(queue: celerity.Queue, kernels: int, gate: WavePlanner | None) -> list[float]:
    """Run one chain; dispatch latencies in microseconds."""
    marks: list[tuple[int, int]] = []

    @celerity.kernel
    def work(chunk: Any, data: Any) -> None:
        begun = time.perf_counter_ns()
        if gate is not None and len(marks) == 20:  # the chain itself is planned by then
            _native_testing.set_paused(gate.native, False)
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
            gate = WavePlanner(4, 512, 1 << 40, is_open=False)
            for _ in range(TASKS):
                gate.step()
            latencies["while planning"] += stretch(queue, options.kernels, gate)
            busy += gate.finish()
    rows: list[dict[str, Any]] = []
    for case, values in latencies.items():
        row = {"p50_us": statistics.median(values), "p95_us": sorted(values)[int(0.95 * len(values))]}
        first = rows[0] if rows else row
        rows.append({"case": case, **row, **{f"{key}_ratio": row[key] / first[key] for key in row}})
    columns = [("case", "{case}"), ("p50", "{p50_us:.1f}"), ("p95", "{p95_us:.1f}")]
    columns += [("p50 / alone", "{p50_us_ratio:.2f}"), ("p95 / alone", "{p95_us_ratio:.2f}")]
    title = f"Dispatch latency, µs; planning {TASKS} tasks took {busy / options.stretches * 1e3:.1f} ms"
    report.show_rows(title, columns, rows)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
