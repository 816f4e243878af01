# SPDX-License-Identifier: MIT
"""Scheduling cost by number of ranks: `python -m cluster_jobs.benchmarks.micro.dry_run_scaling`.

Rank 0 of N, with 4 devices, plans wave_sim (1024 x 1024 cells, row-wise split) in a dry run. Microseconds of the
scheduler thread per task, and the addition of each further rank.
"""

from __future__ import annotations

from typing import Any

from celerity_py import Box, _native, access
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.internals import _native_testing

RANKS = (1, 16, 128)
DEVICES = 4
SIZE = 1024


def plan(ranks: int, steps: int) -> float:
    """Plan the steps; busy microseconds of the scheduler thread per task."""
    planning = _native.PlanningSettings(
        num_ranks=ranks,
        rank=0,
        num_devices=DEVICES,
        user_device_peers=False,
        lookahead="auto",
        horizon_step=4,
        horizon_max_parallelism=64,
    )
    scheduler = _native.Scheduler(planning, None, run_ahead=16)
    scheduler.start()
    mapper = access.one_to_one()
    neighborhood = access.neighborhood(1, 1, shape="axes")
    whole = _native.Task.kernel(Box((0, 0), (SIZE, SIZE)))

    def submit(accesses: list[tuple[int, int, _native.RangeMapper]], name: str) -> None:
        _native_testing.submit_task(scheduler, _native_testing.with_accesses(whole, accesses, name))

    u, u_next = (
        scheduler.create_buffer(_native.BufferInfo(shape=(SIZE, SIZE), element_size=4, name=name))
        for name in ("u", "u_next")
    )
    for buffer in (u, u_next):
        submit([(buffer, 1, mapper)], "fill")
    for _ in range(steps):
        _native_testing.throttle(scheduler)
        submit([(u_next, 2, mapper), (u, 0, neighborhood)], "step")
        u, u_next = u_next, u
    _native_testing.submit_task(scheduler, _native_testing.make_epoch())
    scheduler.wait_until_planned()
    scheduler.stop()
    return float(scheduler.statistics()["busy_s"]) * 1e6 / (steps + 2)


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
    report.show(
        f"Dry run of wave_sim, {DEVICES} devices per rank: scheduler thread, µs per task",
        ("ranks", "µs per task", "per further rank"),
        ([str(row["ranks"]), f"{row['us_per_task']:.1f}", f"{row['us_per_further_rank']:.3f}"] for row in rows),
    )
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
