# SPDX-License-Identifier: MIT
"""Ranks whose programs differ in one call: all end within 10 s, and the message names the call and both lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.failures.launching import Outcome, run

PROGRAM = Path(__file__).with_name("diverging_program.py")
LIMIT_S = 10
ASPECTS = {
    "shape_of": "shape [0:64]",
    "dtype_of": "dtype int32",
    "element_of": "dtype float32 with element=(3, 4)",
    "initializer_of": "initial contents ",
    "kernel": "code ",
    "name": 'kernel "odd"',
    "index_space": "index space [0:63]",
    "mode": "accesses write B1",
    "hint": "division oversubscribe(2)",
    "weights": "division weights((2, 1))",
    "halo": "by neighborhood(2)",
    "constrain": "constrain=(8,)",
    "extra_task": "Call ",
    "missing_task": "Call ",
    "extra_fence": "fence of B",
    "box_of_fence": "box [0:63",
    "extra_wait": "Rank 1: wait",
    "extra_barrier": "Rank 1: barrier",
    "on_of_fence": "receivers master",
    "to_of_fence": "destination device",
    "local_contents": 'host task "from_local"',
    "shape_of_local": "shape [0:65]",
    "on_of_host_task": "division master",
    "unordered": 'differs, in its division. Rank 0: host task "look", division once, in program order',
    "host_objects": 'differs, in its host objects. Rank 0: host task "look", host objects H1',
    "collective": 'host task "meet"',
    "group": "differs, in its host objects and group. Rank 0: host task",
    "group_of_rank": "differs, in its group. Rank 0: host task",
    "identity": "differs, in its reductions. Rank 0: kernel",
    "order": "accesses read B",
    "priority": 'differs, in its priority. Rank 0: kernel "fill", priority 1',
    "early_end": "wait",
    "exit_at_once": "Rank 1: end of the program. All ranks",
    "no_communication": 'kernel "odd"',
}
AT_THE_END = {"last_task": 'kernel "fill"', "last_fence": "fence of B", "last_wait": "Rank 1: wait"}
WITH_VALUES = {
    "scalar": ("plain arguments ", "print these arguments on each rank. Values of celerity.rank()"),
    "value_of_replay": ("plain arguments ", "print these arguments on each rank. Values of celerity.rank()"),
    "contents_of": ("initial contents ", "Buffer.from_array() takes the same array on every rank"),
}


def run_diverging(mistake: str, ranks: int = 2, **variables: str) -> Outcome:
    named = {f"CELERITY_{name}": value for name, value in variables.items()}
    return run(ranks, sys.executable, str(PROGRAM), mistake, variables=named)


def assert_told(outcome: Outcome, aspect: str) -> None:
    assert outcome.status not in {0, 124}, outcome
    assert "do not run the same program" in outcome.errors, outcome.errors
    assert aspect in outcome.errors, outcome.errors
    assert f"(submitted at {PROGRAM}:" in outcome.errors, outcome.errors
    assert "runtime.py" not in outcome.errors, "a line of the program, or none"
    assert "finished" not in outcome.output
    assert outcome.ended_within(LIMIT_S)


# In turns: both transports compare the same digests, at other places.
@pytest.mark.parametrize(
    ("mistake", "transport"), [(mistake, ("host", "direct")[i % 2]) for i, mistake in enumerate(ASPECTS)]
)
def test_a_rank_that_differs_in_one_call_is_told_with_both_lines(mistake: str, transport: str) -> None:
    assert_told(run_diverging(mistake, TRANSPORT=transport), ASPECTS[mistake])


@pytest.mark.parametrize("transport", ["host", "direct"])
def test_ranks_that_replay_different_numbers_of_times_are_told_with_the_line_of_the_replay(transport: str) -> None:
    outcome = run_diverging("replays", TRANSPORT=transport)
    assert_told(outcome, 'Rank 1: kernel "recorded"')
    lines = PROGRAM.read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "queue.replay(recorded, 3 + odd)" in text]
    assert f"(submitted at {PROGRAM}:{line}, 4 repetition(s) of a recording)" in outcome.errors, outcome.errors
    assert re.search(r"Rank 0: .* \(submitted at \S+:\d+, behind 3 repetition\(s\) of a recording\)", outcome.errors)


def test_ranks_that_end_a_loop_after_different_iterations_are_told_with_the_line_of_the_value() -> None:
    outcome = run_diverging("loop")
    assert_told(outcome, "Rank 0: fence of B")
    lines = PROGRAM.read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "queue.until(" in text]
    assert f"(submitted at {PROGRAM}:{line})" in outcome.errors, outcome.errors


@pytest.mark.parametrize("mistake", AT_THE_END)
def test_a_rank_with_a_call_more_at_the_end_is_told(mistake: str) -> None:
    assert_told(run_diverging(mistake), AT_THE_END[mistake])


@pytest.mark.parametrize("mistake", WITH_VALUES)
@pytest.mark.parametrize("check", ["0", "1"])
def test_values_that_differ_are_told(mistake: str, check: str) -> None:
    aspect, remedy = WITH_VALUES[mistake]
    outcome = run_diverging(mistake, CHECK=check)
    assert_told(outcome, aspect)
    assert remedy in outcome.errors


def test_one_of_three_ranks_that_differs_is_named() -> None:
    outcome = run_diverging("halo", ranks=3)
    assert_told(outcome, "by neighborhood(2)")
    assert "Rank 1: " in outcome.errors


@pytest.mark.parametrize(
    ("variable", "values"),
    [("HORIZON_STEP", "2 4"), ("DRY_RUN_RANKS", "2 0"), ("CHECK", "1 0"), ("TRANSPORT", "host auto")],
)
def test_settings_that_differ_are_told_at_the_start(variable: str, values: str) -> None:
    shell = f"case ${{PMI_RANK:-0}} in 0) v={values.split(maxsplit=1)[0]};; *) v={values.split()[1]};; esac; "
    outcome = run(2, "sh", "-c", f"{shell} CELERITY_{variable}=$v exec {sys.executable} {PROGRAM} extra_wait")
    assert outcome.status not in {0, 124}, outcome
    assert f"The setting CELERITY_{variable} is" in outcome.errors, outcome.errors
    assert "on rank 1, but must be the same on all ranks" in outcome.errors
    assert outcome.ended_within(LIMIT_S)
