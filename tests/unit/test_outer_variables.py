# SPDX-License-Identifier: MIT
"""With CHECK: variables from outside of a task's function that change between its submit and its run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from celerity_py.calls.outer_variables import OuterVariables
from celerity_py.scheduler.errors import UsageError
from tests.support.scripts import line_of, run

factor: Any = 1
handed_on: Any = 0


class FakeSubmission(SimpleNamespace):
    def describe(self) -> str:
        return 'kernel "step" (submitted at app.py:12)'


def submission_of(function: Any) -> Any:
    return FakeSubmission(function=function)


def use_factor() -> Any:
    return [factor for _ in range(2)]


def hand_on() -> None:
    global handed_on  # noqa: PLW0603
    handed_on += 1


def use_what_is_handed_on() -> Any:
    return handed_on


def closure_over(value: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def use() -> Any:
        return [value for _ in range(2)]

    def change(new: Any) -> None:
        nonlocal value
        value = new

    return use, change


@pytest.mark.parametrize(
    ("then", "now", "shown"),
    [
        (0, 7, "which was 0 at the submit and is 7 when"),
        (0, 0.0, "which was 0 at the submit and is 0.0 when"),
        ((1, "a"), (1, "b"), "which was (1, 'a') at the submit and is (1, 'b') when"),
        (None, 3, "which was None at"),
        (np.float32(1), np.float32(2), "which was np.float32(1.0) at"),
        ("x" * 100, "y", f"which was '{'x' * 56}... at"),
    ],
)
def test_a_variable_with_another_value_is_told(then: Any, now: Any, shown: str) -> None:
    variables, (use, change) = OuterVariables(), closure_over(then)
    submission = submission_of(use)
    variables.note(submission)
    variables.compare(submission)
    change(now)
    with pytest.raises(UsageError, match=re.escape(f"uses the variable 'value' from outside, {shown}")):
        variables.compare(submission)


@pytest.mark.parametrize(("then", "now"), [(float("nan"), float("nan")), ([1], [2]), (np.ones(1), np.zeros(1))])
def test_what_has_the_same_value_or_may_change_is_not_told(then: Any, now: Any) -> None:
    variables, (use, change) = OuterVariables(), closure_over(then)
    submission = submission_of(use)
    variables.note(submission)
    change(now)
    variables.compare(submission)


def test_global_variables_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    variables, submission = OuterVariables(), submission_of(use_factor)
    variables.note(submission)
    monkeypatch.setitem(globals(), "factor", 2)
    with pytest.raises(UsageError, match="the variable 'factor' from outside, which was 1 at the submit and is 2"):
        variables.compare(submission)
    variables.note(submission)
    variables.compare(submission)


def test_tasks_may_hand_values_to_each_other() -> None:
    variables = OuterVariables()
    first, second = submission_of(hand_on), submission_of(use_what_is_handed_on)
    variables.note(second)
    variables.note(first)
    hand_on()
    variables.compare(first)
    variables.compare(second)


def test_objects_that_can_be_called_are_left_alone() -> None:
    variables, submission = OuterVariables(), submission_of(np.add)
    variables.note(submission)
    variables.compare(submission)


PROGRAM = """
import threading
go = threading.Event()
u = celerity.Buffer.from_array(np.zeros(8), name="u")
with celerity.Queue() as queue:
    queue.host_task(lambda part, u: go.wait(20) and None, u.read_write(access.all()))
    for i in range(3):
        queue.SUBMIT  # the line
    go.set()
    queue.wait()
print("finished")
"""
TASKS = {
    "kernel": "parallel_for(8, lambda chunk, u: u[chunk.box].fill(i), u.read_write(access.one_to_one()))",
    "host task": "host_task(lambda part, u: u[...].fill(i), u.read_write(access.all()))",
}


@pytest.mark.parametrize("kind", TASKS)
def test_a_loop_variable_that_has_gone_on_is_told_with_the_line(kind: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("SUBMIT", TASKS[kind])
    assert run(tmp_path, program).stdout == "finished\n"
    result = run(tmp_path, program, CELERITY_CHECK="1")
    assert result.returncode == 1
    assert (
        f"{kind} \"<lambda>\" (submitted at {line_of(tmp_path, '# the line')}) uses the variable 'i'" in result.stderr
    )
    assert "which was 0 at the submit and is 2 when the task runs" in result.stderr
    passed = program.replace("u: u", "u, i: u").replace(")  # the line", ", i)  # the line")
    assert run(tmp_path, passed, CELERITY_CHECK="1").stdout == "finished\n"
