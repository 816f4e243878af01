# SPDX-License-Identifier: MIT
"""Processor time of ranks that wait: `mpiexec -n 4 python -m cluster_jobs.benchmarks.micro.waiting_cost`.

First every rank is idle for a while, with a queue open and nothing submitted. Then all ranks need data that a kernel
of rank 0 produces only after a sleep, so that all of them are blocked. Prints processor time over wall time, per rank
and in all.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report


def share(wait: Any, *arguments: Any) -> float:
    """Processor time of this process during the call, over its wall time."""
    wall, used = time.perf_counter(), time.process_time()
    wait(*arguments)
    return (time.process_time() - used) / (time.perf_counter() - wall)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table on rank 0, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each wait (default 5)")
    options = parser.parse_args(arguments)

    @celerity.kernel
    def slow_on_the_first_rank(chunk: Any, data: Any) -> None:
        if chunk.box.min[0] == 0 and chunk.global_shape[0] > 1:
            time.sleep(options.seconds)
        data.array[...] = celerity.rank()

    @celerity.kernel
    def collect(chunk: Any, shares: Any, everything: Any) -> None:
        shares.array[...] = own

    with celerity.Queue() as queue:
        size = celerity.size()
        data = celerity.Buffer((max(size, 2) * 64,), np.int32, name="data")
        queue.barrier()
        idle = share(time.sleep, options.seconds)
        queue.barrier()
        queue.parallel_for(data.shape, slow_on_the_first_rank, data.write(access.one_to_one()))
        blocked = share(lambda: queue.fence(data).result())
        own = np.array([idle, blocked], np.float64)
        shares = celerity.Buffer((size, 2), np.float64, name="shares")
        queue.parallel_for((size, 2), collect, shares.write(access.one_to_one()), data.read(access.all()))
        figures = queue.fence(shares).result()
    if not celerity.is_master():
        return 0
    rows = [{"rank": rank, "idle": idle, "blocked": blocked} for rank, (idle, blocked) in enumerate(figures.tolist())]
    idle, blocked = figures.sum(axis=0)
    columns = [("rank", "{rank}"), ("idle", "{idle:.1%}"), ("blocked", "{blocked:.1%}")]
    everybody = {"rank": "all", "idle": idle, "blocked": blocked}
    report.show_rows(f"Processor time over wall time of {size} waiting rank(s)", columns, [*rows, everybody])
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
