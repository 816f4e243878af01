# SPDX-License-Identifier: MIT
"""The command that runs many random programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.property.many_programs import Kind, Share


def run_command(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.property.many_programs", *arguments]
    finished = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    return finished.returncode, finished.stdout


@pytest.mark.parametrize("kind", ["simulated", "recorded"])
def test_the_table_counts_the_programs_of_all_processes(kind: str) -> None:
    status, output = run_command(kind, "--programs", "3", "--processes", "2")
    assert status == 0
    assert "3 of 3 programs are right" in output
    assert "fence" in output


def test_a_process_that_fails_is_shown_with_its_command_and_output() -> None:
    counts, failure = Share(Kind("no_such_module", 5), seed=7, count=5, ranks=1).run(60)
    assert not counts
    assert "No module named tests.property.no_such_module" in failure
    assert "tests.property.no_such_module --programs 5 --seed 7" in failure


def test_a_process_that_takes_too_long_ends() -> None:
    counts, failure = Share(Kind("live_programs", 10**6), seed=1, count=10**6, ranks=1).run(0.5)
    assert not counts
    assert "has not ended after 0.5 s" in failure
