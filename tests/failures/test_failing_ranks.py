# SPDX-License-Identifier: MIT
"""The end of runs with several ranks when something goes wrong: never an endless wait, never status 0."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from celerity_py.executor.failures.failure import WHAT_THEN
from tests.failures.launching import REPOSITORY, run

PROGRAM = (sys.executable, str(Path(__file__).with_name("scripted_program.py")))


def test_a_run_without_failure_ends_with_status_0_and_prints_nothing() -> None:
    outcome = run(4, *PROGRAM, "nothing")
    assert outcome.errors == ""
    assert outcome.status == 0


@pytest.mark.parametrize("scenario", ["kernel_raises", "exception_is_swallowed"])
def test_a_kernel_that_raises_on_one_rank_ends_all_with_one_message_each(scenario: str) -> None:
    outcome = run(4, *PROGRAM, scenario)
    assert outcome.status not in {0, 124}
    message = "task 'step' failed (submitted at program.py:1): ValueError: bad step"
    for rank in range(4):
        where = "" if rank == 1 else "rank 1: "
        assert outcome.errors.count(f"celerity_py, rank {rank}: {where}{message}") == 1, outcome.errors
    assert outcome.errors.count("Traceback") == 1, outcome.errors
    assert outcome.ended_within(10)


def test_an_exception_of_the_program_on_one_rank_ends_all() -> None:
    outcome = run(4, *PROGRAM, "program_raises")
    assert outcome.status not in {0, 124}
    assert outcome.errors.count("Traceback") == 1, outcome.errors
    for rank in range(4):
        who = "the program" if rank == 1 else "rank 1"
        assert f"celerity_py, rank {rank}: {who} failed at {PROGRAM[1]}:" in outcome.errors
    assert outcome.errors.count("ZeroDivisionError: in the program") == 4, "once by each rank"
    assert outcome.ended_within(10)


BAD_CONTENTS = """
import celerity_py as celerity

def contents(box):
    return 1 / 0

with celerity.Queue() as queue:
    u = celerity.Buffer.from_function(8, float, contents, name="u")
    queue.fence(u).result()
"""


def test_contents_that_cannot_be_computed_are_told_once_with_the_line_that_raised(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(BAD_CONTENTS)
    outcome = run(2, sys.executable, str(program))
    assert outcome.status not in {0, 124}
    assert 'The function of B1 "u"' in outcome.errors
    assert f'File "{program}", line 5, in contents' in outcome.errors
    assert f"{REPOSITORY}/celerity_py" not in outcome.errors, "frames of ours"
    assert WHAT_THEN not in outcome.errors, "the exception of result() repeats what has been told"


def test_a_rank_that_exits_early_is_named_by_those_that_go_on() -> None:
    outcome = run(3, *PROGRAM, "exits_early")
    assert outcome.status not in {0, 124}
    assert "do not run the same program. Call 2 is the first that differs." in outcome.errors
    assert ": wait." in outcome.errors
    assert "Rank 1: end of the program." in outcome.errors
    assert outcome.ended_within(10)


def test_an_interrupt_on_one_rank_ends_all() -> None:
    outcome = run(2, *PROGRAM, "is_interrupted")
    assert outcome.status not in {0, 124}
    assert outcome.errors.count("celerity_py, rank 0: rank 1 failed") == 1, outcome.errors
    assert outcome.errors.count("celerity_py, rank 1: the program failed") == 1, outcome.errors
    assert outcome.ended_within(10)


def test_a_killed_rank_ends_all_through_the_launcher() -> None:
    outcome = run(4, *PROGRAM, "is_killed")
    assert outcome.status not in {0, 124}
    assert outcome.ended_within(10)


def test_a_killed_rank_is_named_where_the_launcher_does_not_see_it() -> None:
    outcome = run(3, "sh", "-c", f"{' '.join(PROGRAM)} is_killed hasty || sleep 60")
    assert outcome.status not in {0, 124}
    assert "the process of rank 1 is gone" in outcome.errors, outcome.errors
    assert outcome.ended_within(15)
