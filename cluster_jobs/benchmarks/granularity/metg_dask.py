# SPDX-License-Identifier: MIT
"""The patterns of `task_patterns` by Dask: a delayed call per task, all steps of a run submitted as one graph."""

from __future__ import annotations

import argparse
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


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Check and sweep the patterns on a cluster of this machine.

    `options.only` is "dask-threads" for one worker with a thread per device, "dask-processes" for a worker per device.
    """
    import distributed

    (devices,) = options.devices
    threads = options.only == "dask-threads"
    shape = (
        {"n_workers": 1, "threads_per_worker": devices} if threads else {"n_workers": devices, "threads_per_worker": 1}
    )
    cluster = distributed.LocalCluster(**shape, processes=not threads, dashboard_address=None, silence_logs=True)
    with cluster, distributed.Client(cluster) as client:
        return task_patterns.measure(lambda pattern, width: Program(client, pattern, width), options)
