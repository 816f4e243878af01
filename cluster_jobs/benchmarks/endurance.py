# SPDX-License-Identifier: MIT
"""Memory and speed over a very long loop: `python -m cluster_jobs.benchmarks.endurance`.

Submits a million steps of a tiny kernel on one rank, and prints resident memory and steps per second by tenth of the
run. Both should stay flat after the first tenth: horizons bound what the graphs, the executor and the submission
table keep.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import celerity_py as celerity
from celerity_py import access


@celerity.kernel
def count(chunk: Any, cells: Any) -> None:
    """Add one to every cell."""
    cells.array[...] += 1


def resident_mib() -> float:
    """Resident memory of this process (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmRSS line")


def run(steps: int, parts: int) -> list[dict[str, Any]]:
    """Submit the steps; one row per part of the run."""
    rows = []
    with celerity.Queue() as queue:
        cells = celerity.Buffer.from_array(np.zeros(8, np.int64), name="cells")
        for part in range(parts):
            started = perf_counter()
            for _ in range(steps // parts):
                queue.parallel_for(cells.shape, count, cells.read_write(access.one_to_one()))
            elapsed = perf_counter() - started
            rows.append({"part": part + 1, "steps_per_s": steps // parts / elapsed, "resident_mib": resident_mib()})
        result = queue.fence(cells).result()
    expected = steps // parts * parts
    if not (result == expected).all():
        raise AssertionError(f"{expected} steps ran, but the cells hold {result!r}")
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args(arguments)
    rows = run(options.steps, options.parts)
    table = Table(title=f"{options.steps} steps of a tiny kernel")
    for name in ("part", "steps/s", "resident, MiB"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(str(row["part"]), f"{row['steps_per_s']:.0f}", f"{row['resident_mib']:.1f}")
    Console(width=80).print(table)
    if options.output:
        options.output.write_text(json.dumps({"python": sys.version, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
