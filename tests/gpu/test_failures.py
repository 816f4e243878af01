# SPDX-License-Identifier: MIT
"""The output of a program that goes wrong on a GPU: the message, the line, and the status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.failures.launching import Outcome
from tests.gpu.launching import line_of, run

pytestmark = pytest.mark.processes

PROGRAM = Path(__file__).with_name("failing_gpu_program.py")


def run_program(name: str, num_ranks: int | None = None, limit_s: float = 120, **variables: str) -> Outcome:
    devices = {} if num_ranks else {"CELERITY_DEVICES": "1"}
    outcome = run(str(PROGRAM), name, num_ranks=num_ranks, variables={**devices, **variables}, limit_s=limit_s)
    print(outcome.output[-2000:], outcome.errors[-6000:], sep="\n----\n")
    return outcome


def assert_failed(outcome: Outcome, *texts: str) -> None:
    assert outcome.status not in {0, 124}, outcome
    for text in texts:
        assert text in outcome.errors, f"{text!r} is not in\n{outcome.errors}"


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_program_without_mistake_ends_with_status_0_and_prints_nothing(num_ranks: int | None) -> None:
    outcome = run_program("nothing_fails", num_ranks)
    assert outcome.status == 0
    assert [line for line in outcome.errors.splitlines() if "celerity_py" in line and "share the" not in line] == []


def test_the_end_of_the_program_waits_for_what_was_submitted() -> None:
    assert run_program("exits_with_work_under_way").status == 0


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_shortage_of_memory_names_what_was_asked_for_who_holds_the_rest_and_the_remedy(num_ranks: int | None) -> None:
    outcome = run_program("memory_is_short", num_ranks)
    assert_failed(outcome, "OutOfMemory", '"huge" in the memory of D', '"held"', "Use more ranks or devices")
    assert re.search(r"there is no room for [0-9.]+ TiB for B2", outcome.errors)
    assert re.search(r"This rank holds [0-9.]+ [MG]iB there", outcome.errors)


def test_what_the_pool_of_cupy_does_not_use_makes_room_for_a_buffer() -> None:
    outcome = run_program("pool_holds_memory")
    assert outcome.status == 0, outcome.errors
    assert "the pool had 0.70, and has 0.00" in outcome.output


def test_a_buffer_of_60_percent_of_the_memory_may_grow_with_lookahead() -> None:
    outcome = run_program("buffer_grows", CELERITY_LOOKAHEAD="auto")
    assert outcome.status == 0, outcome.errors
    assert "resizes: 0" in outcome.output


def test_a_buffer_of_60_percent_of_the_memory_cannot_grow_without_lookahead() -> None:
    outcome = run_program("buffer_grows", CELERITY_LOOKAHEAD="none")
    assert_failed(outcome, "OutOfMemory", '"history"', "in the memory of D", "This rank holds")


def test_runtimes_that_end_in_any_way_leave_no_memory_to_the_next() -> None:
    outcome = run_program("begins_again")
    assert outcome.status == 0, outcome.errors
    *ends, left = outcome.output.splitlines()
    assert ends == ["exception: KeyError", "failure: TaskFailed", "left open: TaskFailed", "too large: OutOfMemory"]
    assert int(left.split()[0]) < 300, "modules and pools of the context"


def test_an_illegal_address_names_the_tasks_in_flight() -> None:
    outcome = run_program("illegal_address")
    assert_failed(outcome, "DeviceError", "stray step", line_of(PROGRAM, "illegal_address"))
    assert re.search(r"illegal (memory )?address|ILLEGAL_ADDRESS", outcome.errors, re.IGNORECASE)
    assert outcome.duration_s < 60


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_an_illegal_address_names_the_one_task_and_its_line_with_sync(num_ranks: int | None) -> None:
    outcome = run_program("illegal_address", num_ranks, CELERITY_SYNC="1")
    assert_failed(outcome, "DeviceError", "stray step", line_of(PROGRAM, "illegal_address"))
    assert "of which any may be the cause" not in outcome.errors
    assert "'before'" not in outcome.errors
    assert "'after'" not in outcome.errors
    assert outcome.duration_s < 60


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_an_exception_in_a_kernel_names_task_and_line(num_ranks: int | None) -> None:
    outcome = run_program("kernel_raises", num_ranks)
    assert_failed(outcome, "task 'step 2'", "ValueError: a bad cell", line_of(PROGRAM, "kernel_raises"))
    assert outcome.duration_s < 60


def test_an_index_outside_of_the_declared_region_names_kernel_buffer_and_line() -> None:
    outcome = run_program("index_is_outside")
    assert_failed(outcome, "OutOfBoundsAccess", "reach_too_far", '"field"', line_of(PROGRAM, "index_is_outside"))


def test_with_bounds_check_a_cuda_kernel_names_the_element_that_is_outside() -> None:
    outcome = run_program("an_element_is_outside", CELERITY_BOUNDS_CHECK="1")
    assert_failed(outcome, "OutOfBoundsAccess", "reach_far", line_of(PROGRAM, "an_element_is_outside"))
    assert_failed(outcome, '"field"', "[2077]", "[0:1000]")


def test_with_bounds_check_a_cuda_kernel_names_the_element_with_which_it_combines_outside() -> None:
    outcome = run_program("a_combined_element_is_outside", CELERITY_BOUNDS_CHECK="1")
    assert_failed(outcome, "OutOfBoundsAccess", "count_far", line_of(PROGRAM, "a_combined_element_is_outside"))
    assert_failed(outcome, '"counts"', "[900]", "[0:10]")


def test_writing_through_a_read_access_is_refused() -> None:
    outcome = run_program("a_read_only_view_is_written")
    assert_failed(outcome, "ReadOnlyAccess", "overwrite", line_of(PROGRAM, "a_read_only_view_is_written"))


def test_a_kernel_that_takes_long_is_reported_as_running_and_not_ended() -> None:
    outcome = run_program("kernel_never_ends", limit_s=180, CELERITY_LOG_LEVEL="info")
    assert outcome.status == 0
    assert "runs or waits on its stream" in outcome.errors
    assert "task 'long step'" in outcome.errors


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_cuda_without_a_visible_gpu_is_an_error_that_says_so(num_ranks: int | None) -> None:
    outcome = run_program("nothing_fails", num_ranks, CELERITY_BACKEND="cuda", CUDA_VISIBLE_DEVICES="")
    assert_failed(outcome, "ConfigurationError", "BACKEND=cuda cannot be used on rank 0")


def test_without_a_visible_gpu_the_cpu_is_used() -> None:
    outcome = run_program("nothing_fails", CELERITY_BACKEND="auto", CUDA_VISIBLE_DEVICES="", CELERITY_DEVICES="1")
    assert outcome.status == 0


@pytest.mark.parametrize("is_seen", [True, False], ids=["by the launcher", "by the other rank"])
def test_a_rank_that_is_killed_while_the_gpu_of_another_waits_for_it_ends_both(is_seen: bool) -> None:
    program = ["-c", _UNSEEN] if not is_seen else []
    outcome = run(*program, str(PROGRAM), "rank_is_killed", num_ranks=2, limit_s=60)
    print(outcome.output[-2000:], outcome.errors[-6000:], sep="\n----\n")
    assert outcome.status not in {0, 124}
    if not is_seen:
        assert "the process of rank 1 is gone" in outcome.errors
    assert outcome.ended_within(30)
    assert run_program("nothing_fails", 2, limit_s=60).status == 0


#: Runs its arguments, and hides from the launcher for a while that they have failed.
_UNSEEN = (
    "import subprocess, sys, time; subprocess.call([sys.executable, *sys.argv[1:]], close_fds=False) and time.sleep(40)"
)
