# SPDX-License-Identifier: MIT
"""A forked child is told that it has no runtime, and the parent's goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.failures.launching import Outcome, run

PROGRAM = Path(__file__).with_name("forking_program.py")
RANKS = [None, 2]


def run_program(num_ranks: int | None, name: str, **variables: str) -> Outcome:
    outcome = run(num_ranks, sys.executable, str(PROGRAM), name, variables={"CELERITY_DEVICES": "cpu:2", **variables})
    assert outcome.ended_within(30), outcome
    assert outcome.status == 0, outcome
    return outcome


@pytest.mark.parametrize("num_ranks", RANKS)
def test_every_call_in_a_child_says_that_it_is_forked(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "calls_in_the_child")
    ranks = num_ranks or 1
    assert outcome.output.count("refused\n") - outcome.output.count("result refused\n") == 11 * ranks
    assert "no error" not in outcome.output
    assert outcome.output.count("result refused\n") + outcome.output.count("result 8.0\n") == ranks
    assert outcome.output.count("parent 16.0\n") == ranks
    assert not outcome.errors


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_child_that_exits_does_nothing_at_exit(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "child_exits_normally")
    assert outcome.output.count("child 3\n") == (num_ranks or 1)
    assert outcome.output.count("parent 16.0\n") == (num_ranks or 1)
    assert not outcome.errors


@pytest.mark.parametrize("num_ranks", RANKS)
def test_an_exception_in_a_child_is_its_own(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "child_raises")
    assert outcome.output.count("child 1\n") == (num_ranks or 1)
    assert outcome.output.count("parent 16.0\n") == (num_ranks or 1)
    assert outcome.errors.count("ZeroDivisionError: in the child") == (num_ranks or 1)
    assert "the job ends" not in outcome.errors


def test_a_child_of_a_task_ends_when_its_function_does() -> None:
    outcome = run_program(None, "tasks_fork")
    told = [f"child of a {kind}: {status}" for status in (0, 5, 1) for kind in ("host task", "kernel")]
    assert sorted(outcome.output.splitlines()) == sorted([*told, "parent 16.0"])
    assert outcome.errors.count("ZeroDivisionError: in a task") == 2


@pytest.mark.parametrize("num_ranks", RANKS)
@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("multiprocessing_forks", ["pool 285", "parent 16.0"]),
        ("subprocess_runs", ["subprocess [1. 1. 1. 1.]", "parent 16.0"]),
    ],
)
def test_children_that_do_something_else_are_left_alone(name: str, output: list[str], num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, name)
    assert sorted(outcome.output.splitlines()) == sorted(output * (num_ranks or 1))
    assert not outcome.errors


@pytest.mark.parametrize(("num_ranks", "child"), [(None, "parent 16.0"), (2, "refused")])
def test_a_child_without_mpi_and_cuda_may_have_a_runtime_if_the_parent_has_none(
    num_ranks: int | None, child: str
) -> None:
    outcome = run_program(num_ranks, "fork_between_runtimes")
    assert sorted(outcome.output.splitlines()) == sorted(["parent 16.0", child, "parent 16.0"] * (num_ranks or 1))
