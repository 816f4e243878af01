# SPDX-License-Identifier: MIT
"""Who sends what to whom in the patterns of `task_patterns`, if each rank has as many points."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_jobs.benchmarks.granularity import task_patterns


@dataclass(frozen=True)
class Plan:
    """The work of a rank in one step of a round."""

    #: Own points whose tasks read own points only, and the others.
    local: list[int]
    remote: list[int]
    #: (rank, first point, point behind the last) of the points that the tasks read, and that tasks of other ranks read.
    receives: list[tuple[int, int, int]]
    sends: list[tuple[int, int, int]]
    #: Whether every rank reads everything.
    is_all: bool


def plan_of(pattern: str, step: int, width: int, rank: int, size: int) -> Plan:
    """The plan of a rank; every rank has as many points."""
    share = width // size

    def read_from(reader: int, owner: int) -> list[int]:
        points = range(reader * share, (reader + 1) * share)
        read = {j for point in points for j in task_patterns.dependencies(pattern, step, point, width)}
        return sorted(j for j in read if j // share == owner)

    def messages(pairs: list[tuple[int, list[int]]]) -> list[tuple[int, int, int]]:
        return [(other, points[0], points[-1] + 1) for other, points in pairs if points]

    others = [other for other in range(size) if other != rank]
    own = range(rank * share, (rank + 1) * share)
    local = [point for point in own if all(j in own for j in task_patterns.dependencies(pattern, step, point, width))]
    return Plan(
        local,
        [point for point in own if point not in local],
        messages([(other, read_from(rank, other)) for other in others]),
        messages([(other, read_from(other, rank)) for other in others]),
        pattern == "all_to_all" and size > 1,
    )
