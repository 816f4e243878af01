# SPDX-License-Identifier: MIT
"""Memory and speed over a very long loop: `python -m cluster_jobs.benchmarks.endurance`.

Submits a million steps of a tiny kernel on one rank, and prints resident memory and steps per second by tenth of the
run. Both should stay flat after the first tenth: horizons bound what the graphs, the executor and the submission
table keep.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report


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
    parser = report.argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=10)
    options = parser.parse_args(arguments)
    rows = run(options.steps, options.parts)
    report.show(
        f"{options.steps} steps of a tiny kernel",
        ("part", "steps/s", "resident, MiB"),
        ([str(row["part"]), f"{row['steps_per_s']:.0f}", f"{row['resident_mib']:.1f}"] for row in rows),
    )
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
