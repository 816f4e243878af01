# SPDX-License-Identifier: MIT
"""The cost of a submit on the application thread: `python -m cluster_jobs.benchmarks.micro.submit_cost`.

5000 wave_sim steps are submitted in a dry run (the scheduler thread plans, nothing is executed), with built-in
mappers and with a Python callable, as rank 0 of 1 and of 128. Fused kernels and Python kernels are also submitted in
runs on a CPU device, on small buffers. Median and percentile are times of the clock. The mean is processor time of the
thread: time in which a submission is blocked, or another process has the core, does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from time import perf_counter_ns, thread_time_ns
from typing import Any

from cluster_jobs.benchmarks import launching, report

#: Kernels of runs: in Python, fused, fused with a scalar that changes, and fused over boxes that move.
EXECUTED = ("python", "fused", "scalar", "window")
_BEFORE = 100  # steps that compile, and fill caches
CASES = (("built-in", 1), ("built-in", 128), ("callable", 1), ("callable", 128), *((kind, 0) for kind in EXECUTED))


def submit(mapper: str, steps: int) -> dict[str, Any]:
    """Submit the steps in this process, which is a dry run; nanoseconds per task."""
    import celerity_py as celerity
    from celerity_py import access

    def grown(chunk: Any, shape: tuple[int, int]) -> celerity.Region:
        (low_y, low_x), (high_y, high_x) = chunk.box.min, chunk.box.max
        tall = celerity.Box((max(low_y - 1, 0), low_x), (min(high_y + 1, shape[0]), high_x))
        wide = celerity.Box((low_y, max(low_x - 1, 0)), (high_y, min(high_x + 1, shape[1])))
        return celerity.Region([tall, wide])

    @celerity.kernel
    def wave_step(chunk: Any, u_next: Any, u: Any) -> None:
        raise AssertionError("a dry run executes nothing")

    @celerity.kernel
    def fill(chunk: Any, target: Any) -> None:
        raise AssertionError("a dry run executes nothing")

    times: list[int] = []
    with celerity.Queue() as queue:
        u, u_next = (celerity.Buffer((512, 512), name=name) for name in ("u", "u_next"))
        for buffer in (u, u_next):
            queue.parallel_for(u.shape, fill, buffer.write(access.one_to_one()))
        started = thread_time_ns()
        for _ in range(steps):
            before = perf_counter_ns()
            read = u.read(access.neighborhood(1, 1, shape="axes") if mapper == "built-in" else grown)
            queue.parallel_for(u.shape, wave_step, u_next.read_write(access.one_to_one()), read)
            times.append(perf_counter_ns() - before)
            u, u_next = u_next, u
        elapsed = thread_time_ns() - started
        blocked_s = queue.statistics().blocked_seconds
        queue.wait()
        return {"mapper": mapper, "blocked_s": blocked_s, **figures(queue, times, elapsed, steps + 2)}


def figures(queue: Any, times: list[int], elapsed: int, num_tasks: int) -> dict[str, Any]:
    """The figures of submits that have been planned, of nanoseconds by the clock and of processor time."""
    values = queue.statistics()
    return {
        "ranks": values.size,
        "median_us": statistics.median(times) / 1e3,
        "p95_us": sorted(times)[int(len(times) * 0.95)] / 1e3,
        "mean_us": elapsed / 1e3 / len(times),
        "scheduler_busy_us_per_task": values.scheduler["busy_s"] * 1e6 / num_tasks,
    }


def execute(kind: str, steps: int) -> dict[str, Any]:
    """Submit the steps to a CPU device; nanoseconds per task."""
    import numpy as np

    import celerity_py as celerity
    from celerity_py import access

    def wave_step(chunk: Any, u_next: Any, u: Any, c2: float) -> None:
        near = u.padded(chunk.box, 1)
        laplacian = near[:-2, 1:-1] + near[2:, 1:-1] + near[1:-1, :-2] + near[1:-1, 2:] - 4 * u[chunk.box]
        u_next[chunk.box] = 2 * u[chunk.box] - u_next[chunk.box] + c2 * laplacian

    kernel = celerity.kernel(wave_step) if kind == "python" else celerity.fuse(wave_step)
    times: list[int] = []
    elapsed = 0
    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        u, u_next = (celerity.Buffer.from_array(np.zeros((64, 512), np.float32)) for _ in range(2))
        for step in range(steps + _BEFORE):
            low = step % 256 if kind == "window" else 0
            space = celerity.Box((0, low), (64, low + 64))
            c2 = 0.1 + step * 1e-6 if kind == "scalar" else 0.1
            before, started = perf_counter_ns(), thread_time_ns()
            read = u.read(access.neighborhood(1, 1))
            queue.parallel_for(space, kernel, u_next.read_write(access.one_to_one()), read, c2)
            if step >= _BEFORE:
                elapsed += thread_time_ns() - started
                times.append(perf_counter_ns() - before)
            u, u_next = u_next, u
            if step % 20 == 0:
                queue.wait()  # the steps take longer than their submits
        blocked_s = queue.statistics().blocked_seconds
        return {
            "mapper": f"{kind}, executed",
            "blocked_s": blocked_s,
            **figures(queue, times, elapsed, steps + _BEFORE),
        }


def run(steps: int, repetitions: int) -> list[dict[str, Any]]:
    """Each case in processes of its own; the repetition with the lowest median counts."""
    rows = []
    for mapper, ranks in CASES:
        results = []
        command = [sys.executable, "-m", __spec__.name, "--case", mapper, "--steps", str(steps)]
        for _ in range(repetitions):
            output = launching.run(command, {"CELERITY_DRY_RUN_RANKS": str(ranks)} if ranks else {}, 600)
            results.append(json.loads(output.splitlines()[-1]))
        rows.append(min(results, key=lambda row: row["median_us"]))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--case", choices=("built-in", "callable", *EXECUTED), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        measure = execute if options.case in EXECUTED else submit
        print(json.dumps(measure(options.case, options.steps)))
        return 0
    rows = run(options.steps, options.repetitions)
    columns = [("mapper", "{mapper}"), ("ranks", "{ranks}"), ("median", "{median_us:.1f}"), ("95 %", "{p95_us:.1f}")]
    columns += [("mean of processor time", "{mean_us:.1f}"), ("blocked in all, s", "{blocked_s:.3f}")]
    columns.append(("scheduler busy per task", "{scheduler_busy_us_per_task:.1f}"))
    title = f"Submitting {options.steps} wave_sim steps, µs per task on the application thread"
    report.show_rows(title, columns, rows)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
