# SPDX-License-Identifier: MIT
"""Random programs through the real runtime of one rank; `tests/mpi` and `tests/gpu` run others on more.

`python -m tests.property.live_programs` runs as many as you like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import celerity_py as celerity
from tests.property.live_programs import run_programs
from tests.property.live_run import OracleTask


@pytest.fixture(params=["cpu:1", "cpu:2", "cpu:3"])
def devices(request: pytest.FixtureRequest) -> Iterator[str]:
    celerity.configure(devices=request.param)
    yield request.param
    celerity.configure(devices=None)


def test_random_programs_give_the_results_of_a_sequential_run_on_real_devices(devices: str) -> None:
    report = run_programs(1 + 100 * int(devices[-1]), 40)
    assert not report.failure, report.failure
    assert report.programs == 40
    assert report.repeated > 10


def test_random_programs_run_one_instruction_at_a_time_and_with_poisoned_memory(devices: str) -> None:
    celerity.configure(sync=True, check=True)
    try:
        report = run_programs(3001 + 100 * int(devices[-1]), 10)
    finally:
        celerity.configure(sync=None, check=None)
    assert not report.failure, report.failure


def test_a_task_that_leaves_old_contents_is_found_and_the_program_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    overwrite = OracleTask._overwrite

    def forget_some(self: OracleTask, xp: Any, item: Any, *rest: Any) -> None:
        if item.mode != "read_write":
            overwrite(self, xp, item, *rest)

    monkeypatch.setattr(OracleTask, "_overwrite", forget_some)
    celerity.configure(devices="cpu:2")
    try:
        report = run_programs(1, 20)
    finally:
        celerity.configure(devices=None)
    assert "wrong" in report.failure
    program = report.failure.split("\nin\n")[1].splitlines()
    assert sum("read_write" in line for line in program) == 1
    assert len(program) <= 5, report.failure
