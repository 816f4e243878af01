# SPDX-License-Identifier: MIT
"""Programs on a communicator of their own: what they refuse, and for whom they wait. tests/mpi has several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.scripts import run

PROGRAM = """
from mpi4py import MPI

comm = MPI.COMM_WORLD.Split(0)
celerity.rank()
celerity.configure(comm=comm)
try:
    celerity.Queue()
except errors.ConfigurationError as error:
    print(error)
celerity.configure(comm=None)
with celerity.Queue() as queue:
    pass
celerity.configure(comm=comm)
with celerity.Queue() as queue:
    print(celerity.rank(), celerity.size(), queue.fence(celerity.Buffer.from_array(np.arange(3))).result())
comm.Free()
print(celerity.size())
try:
    celerity.Queue()
except errors.LaunchError as error:
    print(error)
"""


def test_a_communicator_that_comes_too_late_or_has_been_freed_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, PROGRAM)
    assert outcome.returncode == 0, outcome.stderr
    late, running, size, freed = outcome.stdout.splitlines()
    assert late.startswith("configure(comm=...) comes too late: celerity.rank()")
    assert (running, size) == ("0 1 [0 1 2]", "1")
    assert freed == "The communicator of configure(comm=...) has been freed. Keep it until the first queue exists."


def test_a_cluster_waits_for_its_own_ranks_only() -> None:
    """Rank 1 is awaited and has not come. Rank 2 has ended, which is nothing to this cluster."""
    watch = """
import time
from celerity_py import _native

with _native.StartWatch("TEST_RANK", 0, 3, True, {0, 1}, first_report_s=0.5, still_limit_s=60):
    time.sleep(3)
"""
    late = subprocess.Popen(["sleep", "10"], env=os.environ | {"TEST_RANK": "1"})
    environment = os.environ | {"TEST_RANK": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        outcome = subprocess.run(
            [sys.executable, "-c", watch], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        late.kill()
        late.wait()
    assert outcome.returncode == 0, outcome.stderr
    assert f"Rank 1 (process {late.pid}) has not come" in outcome.stderr
    assert "rank 2" not in outcome.stderr.lower()
