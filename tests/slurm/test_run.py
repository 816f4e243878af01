# SPDX-License-Identifier: MIT
"""`celerity-py run` inside of a Slurm allocation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.slurm.conftest import Cluster, Outcome

PROGRAM = """
import sys
import celerity_py as celerity
with celerity.Queue() as queue:
    queue.barrier()
sys.exit(int(sys.argv[1]))
"""


def run_in_job(cluster: Cluster, *arguments: str) -> Outcome:
    allocate = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2", "--time=00:05:00")
    return cluster.run(*allocate, sys.executable, "-m", "celerity_py", "run", *arguments, CELERITY_BACKEND="cpu")


@pytest.mark.parametrize("num_ranks", [1, 3, 4])
def test_srun_starts_ranks_that_find_each_other(cluster: Cluster, num_ranks: int) -> None:
    small = ("--size", "64", "--steps", "10")
    status, output = run_in_job(cluster, "-n", str(num_ranks), "-m", "celerity_py", "demo", *small)
    assert status == 0, output
    assert f"{num_ranks} rank(s) with 1 CPU device(s) each" in output
    assert "Verified: bit-identical to NumPy." in output


def test_info_tells_of_both_nodes(cluster: Cluster) -> None:
    status, output = run_in_job(cluster, "-n", "4", "-m", "celerity_py", "info")
    assert status == 0, output
    assert "Rank 0 drives 1 CPU device(s). It exchanges data by direct transfers with rank 1 and messages" in output
    assert "not direct with ranks 2-3: on another host" in output


@pytest.mark.parametrize("expected", [0, 7])
def test_the_exit_status_passes_through(cluster: Cluster, tmp_path: Path, expected: int) -> None:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM)
    status, output = run_in_job(cluster, "-n", "4", str(program), str(expected))
    assert status == expected, output


def test_a_rank_that_fails_ends_the_others(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(PROGRAM.replace("queue.barrier()", "celerity.rank() == 1 and 1 / 0; queue.barrier()"))
    status, output = run_in_job(cluster, "-n", "4", str(program), "0")
    assert status != 0
    assert "ZeroDivisionError: division by zero" in output


def test_a_shell_inside_of_a_step_may_start_ranks(cluster: Cluster) -> None:
    shell = ("salloc", "--quiet", "--nodes=1", "--ntasks-per-node=2", "srun", "--ntasks=1", "--overlap")
    command = (sys.executable, "-m", "celerity_py", "run", "-n", "2", "-m", "celerity_py", "demo", "--size", "64")
    status, output = cluster.run(*shell, *command, CELERITY_BACKEND="cpu")
    assert status == 0, output
    assert "2 rank(s) with 1 CPU device(s) each" in output
