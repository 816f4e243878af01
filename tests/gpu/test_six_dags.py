# SPDX-License-Identifier: MIT
"""The DAG programs on a GPU: their results, and how many events their streams wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import celerity_py as celerity
from cluster_jobs.benchmarks.cuda_driver import count_devices
from cluster_jobs.benchmarks.dags.dag_programs import PROGRAMS, ResidentProgram

#: Longer than it takes to issue a whole program, so that nothing is complete when its successors are issued.
HOLD_US = 20_000


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(count_devices() == 0, reason="there is no CUDA device")]


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(backend="cuda", devices="0,")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(backend=None, devices=None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_on_a_gpu_what_numpy_computes(name: str, queue: celerity.Queue) -> None:
    program = PROGRAMS[name]()
    resident = ResidentProgram(program, queue)
    for _ in range(3):
        resident.run()
    program.check(resident.results(), resident.runs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_streams_of_a_program_wait_as_often_as_any_scheduler_must(name: str, queue: celerity.Queue) -> None:
    program = PROGRAMS[name]()
    waits = ResidentProgram(program, queue, HOLD_US).count_waits()
    print(f"{name}: {waits}, at least {program.least_waits}")
    assert set(waits.values()) == {program.least_waits}
