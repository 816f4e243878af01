# SPDX-License-Identifier: MIT
"""Failures that are hard to report end the program all the same: exceptions without text, no threads, no memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.failures.launching import Outcome, run

PROGRAM = Path(__file__).with_name("hard_failures_program.py")
RANKS = [None, 2]


def run_program(num_ranks: int | None, name: str, **variables: str) -> Outcome:
    outcome = run(num_ranks, sys.executable, str(PROGRAM), name, variables={"CELERITY_DEVICES": "cpu:2", **variables})
    assert outcome.ended_within(12), outcome
    return outcome


@pytest.mark.parametrize("num_ranks", RANKS)
@pytest.mark.parametrize("name", ["kernel_raises_what_has_no_text", "host_task_raises_what_has_no_text"])
def test_an_exception_without_text_is_told_by_its_class(name: str, num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, name)
    assert outcome.status not in {0, 124}
    assert "task 'faulty' failed" in outcome.errors
    assert "UnprintableError, whose message cannot be told: its __str__ raised LookupError" in outcome.errors


def test_an_error_of_a_class_with_other_arguments_is_told() -> None:
    outcome = run_program(None, "kernel_raises_an_error_with_arguments")
    assert outcome.status == 1
    assert "task 'faulty' failed (submitted at " in outcome.errors
    assert "Particular: 1 and 2" in outcome.errors


@pytest.mark.parametrize("num_ranks", RANKS)
@pytest.mark.parametrize("name", ["kernel_raises_without_a_thread_left", "kernel_raises_without_memory_left"])
def test_a_failure_needs_no_new_thread(name: str, num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, name)
    assert outcome.status not in {0, 124}
    assert "task 'faulty' failed" in outcome.errors
    assert "ValueError: a bad cell" in outcome.errors


def test_host_tasks_run_on_the_threads_that_there_are() -> None:
    outcome = run_program(None, "host_tasks_without_a_thread_left")
    assert outcome.status == 0, outcome.errors
    assert outcome.output == "40.0\n"


@pytest.mark.parametrize("name", ["no_thread_at_the_start", "no_memory_at_the_start"])
def test_a_runtime_that_cannot_start_says_why_and_may_start_later(name: str) -> None:
    outcome = run_program(None, name)
    assert outcome.status == 0, outcome.errors
    told, result = outcome.output.splitlines()
    assert told.startswith("ResourceError The runtime cannot start")
    assert "ulimit" in told
    assert result == "8.0"
