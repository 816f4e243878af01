# SPDX-License-Identifier: MIT
"""The output of a program that goes wrong, with one rank and with several: the message, the line, and the status."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.failures.launching import Outcome, run

PROGRAM = Path(__file__).with_name("failing_program.py")


def run_program(num_ranks: int | None, name: str, **variables: str) -> Outcome:
    return run(num_ranks, sys.executable, str(PROGRAM), name, variables={"CELERITY_DEVICES": "cpu:2", **variables})


def line_of(name: str) -> str:
    """Return "file:line" of the line of the program that is marked with `# LINE name`."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    (number,) = (i for i, line in enumerate(lines, start=1) if line.endswith(f"# LINE {name}"))
    return f"{PROGRAM.name}:{number}"


def assert_all_ranks_ended(outcome: Outcome, num_ranks: int, message: str) -> None:
    """Every rank has printed the message exactly once, and the job has ended in time with a status that is not 0.

    A rank whose program fails prints it at the end of the traceback.
    """
    assert outcome.status not in {0, 124}, outcome
    for rank in range(num_ranks):
        own = f"celerity_py, rank {rank}: ", f"rank {rank}: "
        reports = [line for line in outcome.errors.splitlines() if line.startswith(own)]
        assert sum(message in line for line in reports) == 1, outcome.errors
    assert outcome.ended_within(12), outcome


@pytest.mark.parametrize("num_ranks", [None, 1, 2, 4])
def test_a_program_without_mistake_ends_with_status_0_and_prints_nothing(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "nothing_fails")
    assert outcome.errors == ""
    assert outcome.status == 0


def test_every_rank_warns_of_a_fence_of_data_that_nobody_wrote() -> None:
    outcome = run_program(2, "nothing_is_written")
    assert outcome.status == 0
    for rank in range(2):
        (line,) = (line for line in outcome.errors.splitlines() if line.startswith(f"celerity_py rank {rank}: WARNING"))
        assert "nothing has written it" in line
        assert line_of("nothing_is_written") in line


@pytest.mark.parametrize(
    ("name", "transport"), [("kernel_raises", "host"), ("kernel_raises", "direct"), ("exception_is_swallowed", "host")]
)
def test_a_kernel_that_raises_on_one_of_four_ranks_ends_all_of_them(name: str, transport: str) -> None:
    outcome = run_program(4, name, CELERITY_TRANSPORT=transport)
    assert_all_ranks_ended(outcome, 4, "rank 1: task 'step 2' failed")
    assert "ValueError: a bad cell" in outcome.errors
    assert line_of("kernel_raises") in outcome.errors
    assert outcome.errors.count("Traceback") == 1, outcome.errors


def test_a_kernel_that_raises_with_one_rank_raises_in_the_program() -> None:
    outcome = run_program(None, "kernel_raises")
    assert outcome.status == 1
    assert "ValueError: a bad cell" in outcome.errors
    assert "task 'step 2'" in outcome.errors
    assert line_of("kernel_raises") in outcome.errors
    assert outcome.ended_within(5)


def test_a_failure_that_the_program_does_not_look_at_is_printed_at_exit_and_sets_the_status() -> None:
    outcome = run_program(None, "failure_is_not_looked_at")
    assert outcome.status == 1
    assert "ValueError: a bad cell" in outcome.errors


def test_a_failure_ends_a_loop_that_submits_the_same_kernel_again_and_again() -> None:
    outcome = run_program(None, "failure_between_repeated_submits")
    assert outcome.status == 1
    assert "ValueError: a bad cell" in outcome.errors
    assert outcome.ended_within(20)


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_host_task_that_raises_names_its_task_and_line(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "host_task_raises")
    assert outcome.status not in {0, 124}
    assert "task 'write_file'" in outcome.errors
    assert "OSError: disk full" in outcome.errors
    assert line_of("host_task_raises") in outcome.errors


def test_an_exception_of_the_program_with_one_rank_is_an_ordinary_exception() -> None:
    outcome = run_program(None, "program_raises")
    assert outcome.status == 1
    assert outcome.errors.count("ZeroDivisionError: in the program") == 1


def test_an_exception_of_the_program_on_one_rank_ends_all_of_them() -> None:
    outcome = run_program(4, "program_raises")
    assert_all_ranks_ended(outcome, 4, "ZeroDivisionError: in the program")
    assert line_of("program_raises") in outcome.errors
    assert outcome.errors.count("Traceback") == 1, outcome.errors


def test_an_exception_that_all_ranks_raise_is_told_in_full_once() -> None:
    outcome = run_program(4, "all_ranks_raise")
    assert_all_ranks_ended(outcome, 4, 'UsageError: kernel "fill": the extents of an index space are 0 or more')
    assert line_of("all_ranks_raise") in outcome.errors
    told = [line for line in outcome.errors.splitlines() if "Traceback" in line]
    assert told == ["rank 0: Traceback (most recent call last):"]


def test_different_exceptions_of_all_ranks_are_all_told_and_not_mixed() -> None:
    outcome = run_program(4, "every_rank_raises_its_own")
    assert outcome.status not in {0, 124}
    lines = outcome.errors.splitlines()
    for rank in range(4):
        begin = lines.index(f"rank {rank}: Traceback (most recent call last):")
        end = lines.index(f"rank {rank}: ZeroDivisionError: of rank {rank}")
        assert end - begin > 4
        assert all(line.startswith(f"rank {rank}: ") for line in lines[begin:end]), outcome.errors


def test_an_exception_before_the_first_queue_ends_the_ranks_that_wait_for_this_one() -> None:
    outcome = run_program(3, "program_raises_early")
    assert outcome.status not in {0, 124}
    assert outcome.errors.count("ZeroDivisionError: before the first queue") == 1
    assert outcome.ended_within(12)


def test_a_rank_that_leaves_before_mpi_starts_is_named_and_ends_those_that_wait() -> None:
    outcome = run_program(3, "leaves_before_mpi")
    assert outcome.status not in {0, 124}
    ended = r"rank [02]: waiting for other ranks for \d+ s, .*The process of rank 1 has ended without a queue or buffer"
    assert re.search(ended, outcome.errors), outcome.errors
    assert outcome.ended_within(20)


def test_a_rank_that_leaves_between_the_start_of_mpi_and_its_first_queue_is_named_and_ends_those_that_wait() -> None:
    outcome = run_program(3, "leaves_before_the_first_queue", CELERITY_STALL_S="1")
    assert outcome.status not in {0, 124}
    assert re.search(r"rank 0: waiting for .*The process of rank 1 has ended without a queue", outcome.errors)
    assert "This process ends" in outcome.errors
    assert outcome.ended_within(20)


def test_a_rank_that_never_comes_ends_those_that_wait() -> None:
    outcome = run_program(3, "never_comes", CELERITY_STALL_S="6")
    assert outcome.status not in {0, 124}
    assert re.search(r"rank 0: .* for [6-9] s, .*Rank 1 .* has not come .*This process ends", outcome.errors)
    assert outcome.duration_s < 20


@pytest.mark.parametrize(("program", "stall_s"), [("computes_before_it_comes", "6"), ("comes_late", "0")])
def test_a_rank_that_computes_before_it_comes_or_may_take_for_ever_is_waited_for(program: str, stall_s: str) -> None:
    outcome = run_program(3, program, CELERITY_STALL_S=stall_s)
    assert outcome.status == 0, outcome.errors


def test_a_rank_that_comes_late_is_named_and_waited_for() -> None:
    outcome = run_program(3, "comes_late")
    assert outcome.status == 0
    late = r"rank 0: waiting for other ranks for .*Rank 1 \(process \d+\) has not come to its first queue or buffer"
    assert re.search(late, outcome.errors)
    assert "Rank 2" not in outcome.errors
    assert outcome.errors.count("waiting") == 1


def test_an_exception_on_another_thread_of_one_rank_ends_all_of_them() -> None:
    assert_all_ranks_ended(run_program(2, "thread_raises"), 2, "ZeroDivisionError: in a thread")


def test_a_rank_that_exits_while_others_go_on_ends_all_of_them() -> None:
    outcome = run_program(3, "rank_exits")
    assert outcome.status not in {0, 124}
    assert "do not run the same program" in outcome.errors
    assert "Rank 1: end of the program" in outcome.errors
    assert line_of("rank_exits") in outcome.errors
    assert outcome.ended_within(12)


def test_an_interrupt_on_one_rank_ends_all_of_them() -> None:
    assert_all_ranks_ended(run_program(2, "rank_is_interrupted"), 2, "KeyboardInterrupt")


@pytest.mark.parametrize("transport", ["host", "direct"])
def test_a_killed_rank_ends_all_of_them_through_the_launcher(transport: str) -> None:
    outcome = run_program(4, "rank_is_killed", CELERITY_TRANSPORT=transport)
    assert outcome.status not in {0, 124}
    assert outcome.ended_within(10)


def test_a_killed_rank_is_named_by_those_who_wait_for_its_memory() -> None:
    command = f"{sys.executable} {PROGRAM} rank_is_killed"
    variables = {"CELERITY_DEVICES": "cpu:2", "CELERITY_TRANSPORT": "direct"}
    outcome = run(3, "sh", "-c", f"{command} || sleep 60", variables=variables)  # the launcher does not see it
    assert outcome.status not in {0, 124}
    assert "the process of rank 1 is gone" in outcome.errors, outcome.errors


def test_a_message_that_nobody_asks_for_ends_all_ranks_instead_of_meeting_the_next_runtime() -> None:
    outcome = run_program(2, "message_is_for_nobody", CELERITY_TRANSPORT="host")
    assert outcome.status not in {0, 124}
    for who in ("rank 0: rank 1", "rank 1: the program"):
        assert f"celerity_py, {who} failed: InternalError: The program has ended" in outcome.errors
    assert re.search(r'rank 0 sent message \d+ with B1 "field" \[0:32, 0:32\] for transfer T999.B1', outcome.errors)
    assert outcome.ended_within(10)


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_mapper_that_lets_chunks_write_the_same_elements_raises_at_submit(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "mapper_overlaps")
    assert outcome.status not in {0, 124}
    assert "OverlappingAccess" in outcome.errors
    assert 'kernel "fill"' in outcome.errors
    assert "field" in outcome.errors


@pytest.mark.parametrize("num_ranks", [None, 4])
def test_an_index_outside_of_the_declared_region_names_kernel_buffer_index_and_region(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "mapper_names_too_little")
    assert outcome.status not in {0, 124}
    assert "OutOfBoundsAccess" in outcome.errors
    assert "reach_too_far" in outcome.errors
    assert "field" in outcome.errors
    assert line_of("mapper_names_too_little") in outcome.errors
    assert outcome.ended_within(12)


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_a_misspelled_variable_is_an_error_that_suggests_the_right_one(num_ranks: int | None) -> None:
    outcome = run_program(num_ranks, "nothing_fails", CELERITY_LOKAHEAD="auto")
    assert outcome.status not in {0, 124}
    assert "CELERITY_LOKAHEAD" in outcome.errors
    assert "CELERITY_LOOKAHEAD" in outcome.errors
    assert outcome.ended_within(10)


def test_processes_that_a_launcher_started_but_mpi_does_not_connect_are_an_error() -> None:
    outcome = run_program(None, "nothing_fails", SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0")
    assert outcome.status == 1
    assert "LaunchError" in outcome.errors
    assert "srun started 2 processes" in outcome.errors
    assert "--mpi=pmi2" in outcome.errors


@pytest.mark.parametrize(("num_ranks", "transport"), [(None, "host"), (2, "host"), (2, "direct")])
def test_a_shortage_of_memory_names_what_was_asked_for_who_holds_the_rest_and_the_remedy(
    num_ranks: int | None, transport: str
) -> None:
    outcome = run_program(num_ranks, "memory_is_short", CELERITY_TRANSPORT=transport)
    assert outcome.status not in {0, 124}
    assert "OutOfMemory" in outcome.errors
    assert "task 'total' failed (submitted at " in outcome.errors
    assert re.search(r'there is no room for [0-9.]+ TiB for B2 "huge" in the memory of D0', outcome.errors)
    assert re.search(r'This rank holds [0-9.]+ KiB there: [0-9.]+ KiB for B1 "held"', outcome.errors)
    assert "Use more ranks or devices" in outcome.errors
    assert outcome.ended_within(12)
