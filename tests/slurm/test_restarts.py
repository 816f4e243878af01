# SPDX-License-Identifier: MIT
"""`celerity-py run --restarts` inside of a Slurm allocation."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.slurm.conftest import Outcome

if TYPE_CHECKING:
    from tests.slurm.conftest import Cluster

PROGRAM = """
import os, signal, sys
import numpy as np
import celerity_py as celerity
from celerity_py import access

@celerity.kernel
def increase(chunk, u):
    u[chunk.box] += 1

with celerity.Queue() as queue:
    restored = celerity.restore(sys.argv[1], missing_ok=True)
    first, u = (restored.step, restored["u"]) if restored else (0, celerity.Buffer.from_array(np.arange(40.0)))
    for step in range(first, 12):
        queue.parallel_for(40, increase, u.read_write(access.one_to_one()))
        celerity.checkpoint(queue, sys.argv[1], {"u": u}, step=step + 1)
        queue.barrier()
        if restored is None and step == 7 and celerity.rank() == celerity.size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
    result = queue.fence(u).result()
if celerity.is_master():
    print("from step", first, "to the right result:", (result == np.arange(40.0) + 12).all())
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM)
    return path


def run_in_job(cluster: Cluster, folder: Path, nodes: int, *arguments: str | Path) -> Outcome:
    """In a batch script, so that `celerity-py run` is on the first node."""
    command = (
        sys.executable,
        "-m",
        "celerity_py",
        "run",
        "-n",
        str(2 * nodes),
        "--restarts",
        "1",
        *map(str, arguments),
    )
    output = folder / "output"
    allocate = ("sbatch", "--wait", f"--nodes={nodes}", "--ntasks-per-node=2", "--time=00:05:00", f"--output={output}")
    status = cluster.run(*allocate, f"--wrap={shlex.join(command)}", CELERITY_BACKEND="cpu").status
    return Outcome(status, output.read_text())


def test_ranks_of_one_node_go_on_from_memory(cluster: Cluster, program: Path, tmp_path: Path) -> None:
    status, output = run_in_job(cluster, tmp_path, 1, program, "memory")
    assert status == 0, output
    assert "celerity-py run: rank 1 was killed by SIGKILL. The program starts again: the newest snapshot in" in output
    assert re.search("from step [78] to the right result: True", output), output


def test_ranks_of_several_nodes_go_on_from_a_folder(cluster: Cluster, program: Path, tmp_path: Path) -> None:
    status, output = run_in_job(cluster, tmp_path, 2, program, tmp_path / "states")
    assert status == 0, output
    assert "The program starts again" in output
    assert re.search("from step [78] to the right result: True", output), output


@pytest.mark.parametrize(("nodes", "told"), [(1, "Start celerity-py run on that host"), (2, "need ranks of one host")])
def test_snapshots_in_memory_of_other_hosts_are_refused(cluster: Cluster, program: Path, nodes: int, told: str) -> None:
    allocate = ("salloc", "--quiet", f"--nodes={nodes}", "--ntasks-per-node=1", "--time=00:05:00")
    command = (sys.executable, "-m", "celerity_py", "run", "-n", str(nodes), "--restarts", "1", str(program), "memory")
    status, output = cluster.run(*allocate, *command, CELERITY_BACKEND="cpu")
    assert status != 0
    assert told in output
