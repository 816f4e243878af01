# SPDX-License-Identifier: MIT
"""Scheduling cost by number of ranks: `python -m cluster_jobs.benchmarks.micro.dry_run_scaling`.

Rank 0 of N, with 4 devices, plans wave_sim (1024 x 1024 cells, row-wise split) in a dry run. Microseconds of the
scheduler thread per task, and the addition of each further rank.
"""

from __future__ import annotations

from typing import Any

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.internals import _native_testing
from cluster_jobs.benchmarks.micro.wave_planner import DEVICES, WavePlanner

RANKS = (1, 16, 128)
SIZE = 1024


def plan(ranks: int, steps: int) -> float:
    """Plan the steps; busy microseconds of the scheduler thread per task."""
    planner = WavePlanner(ranks, SIZE, run_ahead=16)
    for _ in range(steps):
        _native_testing.throttle(planner.native)
        planner.step()
    _native_testing.submit_task(planner.native, _native_testing.make_epoch())
    return planner.finish() * 1e6 / (steps + 2)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=6)
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for ranks in RANKS:
        cost = min(plan(ranks, options.steps) for _ in range(options.repetitions))
        growth = (cost - rows[0]["us_per_task"]) / (ranks - 1) if rows else 0.0
        rows.append({"ranks": ranks, "devices": DEVICES, "us_per_task": cost, "us_per_further_rank": growth})
    columns = [("ranks", "{ranks}"), ("µs per task", "{us_per_task:.1f}")]
    columns.append(("per further rank", "{us_per_further_rank:.3f}"))
    report.show_rows(f"Dry run of wave_sim, {DEVICES} devices per rank: scheduler thread, µs per task", columns, rows)
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
