# SPDX-License-Identifier: MIT
"""The DAG programs: what they compute, and that the engine needs no more waits between streams than anyone must."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import celerity_py as celerity
from celerity_py import _native
from cluster_jobs.benchmarks.dag_programs import PROGRAMS, Program, ResidentProgram, Use
from tests import mappers
from tests.contexts import Cluster
from tests.trace import Record

# The lanes of one device that the CUDA backend has.
KERNELS, COPIES = 0, 1
LANES = [("compute", 0, 4, 0), ("host_to_device", 0, 2, 0)]


def _instructions_of_two_runs(program: Program) -> tuple[list[Record], int]:
    """The instructions of one device, and the id of the epoch between the runs."""
    cluster = Cluster()
    handles = {
        name: cluster.buffer(array.shape, "array", element_size_bytes=array.itemsize)
        for name, array in program.buffers.items()
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


def _submit(engine: _native.Engine, record: Record) -> None:
    kind = record["kind"]
    target = "clock" if kind in {"epoch", "horizon"} else "lane" if kind in {"copy", "device_kernel"} else "host"
    lane_class = COPIES if kind == "copy" else KERNELS
    engine.submit(record["id"], record["priority"], record["key"], record["dependencies"], target, lane_class)


@pytest.mark.parametrize("at_once", [True, False], ids=["all at once", "one by one"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_resident_data_waits_as_often_as_any_scheduler_must(name: str, at_once: bool) -> None:
    program = PROGRAMS[name]()
    records, between = _instructions_of_two_runs(program)
    engine = _native.Engine(LANES)
    waits = kernels = 0
    for record in records:
        _submit(engine, record)
        if record["id"] > between and at_once and record is not records[-1]:
            continue
        while (item := engine.next()) is not None:
            if item[0] < between:
                engine.complete(item[0])  # the first run is over before the second one begins
            else:
                waits += len(item[3])
                kernels += 1
    assert kernels == len(program.steps)
    assert waits == program.least_waits


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(backend="cpu", devices="cpu:1")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(backend=None, devices=None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_numpy_computes_step_by_step(name: str, queue: celerity.Queue) -> None:
    program = PROGRAMS[name]()
    resident = ResidentProgram(program, queue)
    resident.run()
    resident.run()
    program.check(resident.results(), runs=2)
