# SPDX-License-Identifier: MIT
"""The patterns of `task_patterns` by Dask: a delayed call per task, all steps of a run submitted as one graph."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from cluster_jobs.benchmarks.granularity import task_patterns
from cluster_jobs.benchmarks.granularity.task_patterns import CHECK_STEPS


def _task(point: int, phase: int, iterations: int, points: list[int], values: list[int]) -> int:
    value = task_patterns.value_of(point, phase, zip(points, values, strict=True))
    task_patterns.compute(iterations)
    return value


class Program:
    """One pattern on a Dask cluster."""

    def __init__(self, client: Any, pattern: str, width: int) -> None:
        import dask

        self.client, self.pattern, self.width = client, pattern, width
        self.task = dask.delayed(_task, pure=False)

    def run(self, iterations: int, steps: int) -> list[int]:
        """Run some steps from the initial values; what lies at the points behind them."""
        values: list[Any] = task_patterns.initial(self.width).tolist()
        tasks: list[Any] = []
        turn = task_patterns.turn_of(self.pattern, self.width)
        for step in range(steps):
            read = [task_patterns.dependencies(self.pattern, step, point, self.width) for point in range(self.width)]
            values = [
                self.task(point, step % turn, iterations, points, [values[j] for j in points])
                for point, points in enumerate(read)
            ]
            tasks += values
        # All of them are asked for: Dask computes no result that nobody reads.
        results: list[int] = self.client.gather(self.client.compute(tasks, optimize_graph=False))
        return results[-self.width :]

    def check(self) -> int:
        """Compare a run with NumPy; the checksum."""
        result = np.array(self.run(1, CHECK_STEPS), np.uint32)
        return task_patterns.require_reference(result, self.pattern, CHECK_STEPS)

    def time(self, iterations: int, steps: int) -> float:
        """Seconds for some steps."""
        begun = time.perf_counter()
        self.run(iterations, steps)
        return time.perf_counter() - begun


def measure(  # noqa: PLR0917 - as the other programs, and of which kind
    kind: str, devices: int, tasks_per_device: int, patterns: list[str], longest_us: float, sample_s: float
) -> list[dict[str, Any]]:
    """Check and sweep the patterns on a cluster of this machine.

    Args:
        kind: "dask-threads" for one worker with a thread per device, "dask-processes" for a worker per device.
        devices: How many threads or workers.
        tasks_per_device: Points per device.
        patterns: Names of patterns.
        longest_us: About how long the longest tasks are.
        sample_s: About how long a sample is.
    """
    import distributed

    threads = kind == "dask-threads"
    cluster = distributed.LocalCluster(
        n_workers=1 if threads else devices,
        threads_per_worker=devices if threads else 1,
        processes=not threads,
        dashboard_address=None,
        silence_logs=True,
    )
    figures = []
    with cluster, distributed.Client(cluster) as client:
        for pattern in patterns:
            program = Program(client, pattern, devices * tasks_per_device)
            checksum = program.check()
            points = task_patterns.sweep(program.time, tasks_per_device, longest_us, sample_s)
            figures.append({"pattern": pattern, "checksum": checksum, "points": [vars(point) for point in points]})
    return figures
