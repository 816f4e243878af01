# SPDX-License-Identifier: MIT
"""The lanes of the DAG programs: waits between lanes, and kernels that follow each other for no reason."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import pytest

from celerity_py import _native_testing
from celerity_py.configuration import resolve
from cluster_jobs.benchmarks.dags.dag_programs import Program, Use
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES, build, joined
from cluster_jobs.benchmarks.dags.dag_schedules import dependencies, reachable, width_of
from tests.support import mappers
from tests.verification.contexts import Cluster
from tests.verification.graph_records import Record

KERNELS, COPIES = 0, 1
#: Of a GPU.
DEFAULT_LANES = resolve({}, {}).kernel_lanes
LANES = (1, 2, 4, 8, DEFAULT_LANES, 16)


@functools.cache
def _program(name: str) -> Program:
    return joined(name, build(name, REGIMES["R4"], scale=1e-4))


@functools.cache
def _instructions(name: str) -> tuple[list[Record], int]:
    """The instructions of two runs on one device, and the id of the epoch between them."""
    cluster = Cluster()
    program = _program(name)
    handles = {
        buffer: cluster.buffer(array.shape, "array", element_size_bytes=array.itemsize)
        for buffer, array in program.buffers.items()
    }
    for _ in range(2):
        for step in program.steps:
            task = cluster.kernel(step.space, step.kernel.name)
            for arg in step.args:
                if isinstance(arg, Use):  # one chunk: whatever the mapper, all of the buffer
                    getattr(task, arg.mode)(handles[arg.buffer], mappers.all_())
            task.submit()
        cluster.wait()
    records = cluster.traces[0].instructions
    return records, [record["id"] for record in records if record["kind"] == "epoch"][-2]


@dataclass
class Placement:
    """Where the kernels of the second run went; nothing of it completes before all is issued."""

    kernels: list[int] = field(default_factory=list)
    lanes: dict[int, list[int]] = field(default_factory=dict)
    waits: int = 0
    #: Neighbours on a lane that do not depend on each other, while another lane had nothing to do.
    misplaced: list[tuple[int, int]] = field(default_factory=list)
    #: For each kernel, the kernels that lanes and their waits put before it.
    enforced: dict[int, set[int]] = field(default_factory=dict)

    def order_of_steps(self) -> list[set[int]]:
        """Of each step of the program, the steps that come before it."""
        steps = {kernel: step for step, kernel in enumerate(sorted(self.kernels))}
        return [{steps[other] for other in self.enforced[kernel]} for kernel in sorted(self.kernels)]


def _needed(program: Program) -> list[set[int]]:
    """Of each step, the steps that have to come before it, as the program says."""
    after = reachable(dependencies(program), len(program.steps))
    return [{first for first in range(second) if second in after[first]} for second in range(len(after))]


class Run:
    """Drives the engine through a program, with so many lanes for kernels."""

    def __init__(self, name: str, lanes: int, *, at_once: bool) -> None:
        self.records, self.between = _instructions(name)
        self.engine = _native_testing.Engine([("compute", 0, lanes, 0), ("host_to_device", 0, 2, 0)])
        self.num_lanes = lanes
        self.placement = Placement()
        self.before: dict[int, set[int]] = {}
        self.at: dict[tuple[int, int], int] = {}
        for record in self.records:
            self._submit(record)
            if record["id"] > self.between and at_once and record is not self.records[-1]:
                continue
            while (item := self.engine.next()) is not None:
                if item[0] < self.between:
                    self.engine.complete(item[0])  # the first run is over before the second one begins
                else:
                    self._place(*item[:4])

    def _submit(self, record: Record) -> None:
        kind = record["kind"]
        policy = "clock" if kind in {"epoch", "horizon"} else "plain" if kind in {"copy", "device_kernel"} else "host"
        lane_class = COPIES if kind == "copy" else KERNELS
        self.engine.submit(record["id"], record["priority"], record["key"], record["dependencies"], policy, lane_class)
        if record["id"] > self.between:
            before = {d for d in record["dependencies"] if d > self.between}
            self.before[record["id"]] = before.union(*(self.before[d] for d in before))

    def _place(self, kernel: int, lane: int, sequence: int, waits: list[tuple[int, int]]) -> None:
        here = self.placement
        others = here.lanes.setdefault(lane, [])
        if others and others[-1] not in self.before[kernel] and len(here.lanes) < self.num_lanes:
            here.misplaced.append((others[-1], kernel))
        enforced = set()
        for other in [*others[-1:], *(self.at[position] for position in waits)]:
            enforced |= {other} | here.enforced[other]
        others.append(kernel)
        self.at[lane, sequence] = kernel
        here.kernels.append(kernel)
        here.waits += len(waits)
        here.enforced[kernel] = enforced


@pytest.fixture(params=[True, False], ids=["all at once", "one by one"])
def at_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("name", ALL)
def test_with_the_lanes_that_there_are_a_program_waits_as_often_as_any_scheduler_must(name: str, at_once: bool) -> None:
    program = _program(name)
    placement = Run(name, DEFAULT_LANES, at_once=at_once).placement
    assert len(placement.kernels) == len(program.steps)
    assert placement.waits == program.least_waits


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", ALL)
def test_all_that_a_kernel_needs_comes_before_it_and_nothing_else_if_there_are_lanes(
    name: str, lanes: int, at_once: bool
) -> None:
    program = _program(name)
    placement = Run(name, lanes, at_once=at_once).placement
    enforced, needed = placement.order_of_steps(), _needed(program)
    assert all(need <= order for need, order in zip(needed, enforced, strict=True))
    assert placement.misplaced == []
    assert len(placement.lanes) == min(width_of(program), lanes)
    if lanes >= width_of(program):
        assert enforced == needed
