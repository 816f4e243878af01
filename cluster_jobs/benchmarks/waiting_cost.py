# SPDX-License-Identifier: MIT
"""Processor time of ranks that wait: `mpiexec -n 4 python -m cluster_jobs.benchmarks.waiting_cost`.

First every rank is idle for a while, with a queue open and nothing submitted. Then all ranks need data that a kernel
of rank 0 produces only after a sleep, so that all of them are blocked. Prints processor time over wall time, per rank
and in all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import celerity_py as celerity
from celerity_py import access


def share(wait: Any, *arguments: Any) -> float:
    """Processor time of this process during the call, over its wall time."""
    wall, used = time.perf_counter(), time.process_time()
    wait(*arguments)
    return (time.process_time() - used) / (time.perf_counter() - wall)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table on rank 0, and write the JSON file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each wait (default 5)")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args(arguments)

    @celerity.kernel
    def slow_on_the_first_rank(chunk: Any, data: Any) -> None:
        if chunk.box.min[0] == 0 and chunk.global_shape[0] > 1:
            time.sleep(options.seconds)
        data.array[...] = celerity.rank()

    @celerity.kernel
    def report(chunk: Any, shares: Any, everything: Any) -> None:
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
        queue.parallel_for((size, 2), report, shares.write(access.one_to_one()), data.read(access.all()))
        figures = queue.fence(shares).result()
    if not celerity.is_master():
        return 0
    table = Table(title=f"Processor time over wall time of {size} waiting rank(s)")
    for name in ("rank", "idle", "blocked"):
        table.add_column(name, justify="right")
    for rank, row in enumerate(figures):
        table.add_row(str(rank), *(f"{value:.1%}" for value in row))
    table.add_row("all", *(f"{value:.1%}" for value in figures.sum(axis=0)))
    Console(width=80).print(table)
    if options.output:
        options.output.write_text(json.dumps({"python": sys.version, "shares": figures.tolist()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
