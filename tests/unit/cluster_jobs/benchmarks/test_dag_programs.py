# SPDX-License-Identifier: MIT
"""The results of the DAG programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import celerity_py as celerity
from cluster_jobs.benchmarks.dags.dag_programs import PROGRAMS, ResidentProgram


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
