# SPDX-License-Identifier: MIT
"""A real Slurm of two virtual nodes on this machine, and our tool on it. `make slurm-test` installs Slurm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LOCAL_CLUSTER = ROOT / "cluster_jobs" / "slurm" / "local_cluster.sh"
LIMIT_S = 240


class Outcome(NamedTuple):
    status: int
    output: str  # with what was written to the standard error, and blanks as narrow as they can be


class Cluster:
    """Runs commands in the environment of the cluster."""

    def __init__(self, configuration: Path) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PMI", "CELERITY_"))
        }
        self.environment = {
            **inherited,
            "SLURM_CONF": str(configuration),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, *command: str, **variables: str) -> Outcome:
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Outcome(result.returncode, re.sub(r"\s+", " ", result.stdout))

    def tool(self, *arguments: str | Path, **variables: str) -> Outcome:
        return self.run(sys.executable, "-m", "cluster_jobs.slurm", *map(str, arguments), **variables)

    def submit(self, folder: Path, *arguments: str) -> Outcome:
        """A small sweep of WaveSim on CPU devices; later arguments win."""
        sweep = ["--app", "wave_sim", "--backend", "cpu", "--sizes", "256", "--steps", "20", "--repetitions", "1"]
        return self.tool("submit", *sweep, "--time", "00:05:00", "--folder", folder, *arguments)

    def wait(self, folder: Path) -> Outcome:
        return self.tool("status", "--folder", folder, "--wait", "200")

    def job_states(self, job: str) -> list[str]:
        """Of a job, or all tasks of an array."""
        return re.findall(r"JobState=(\S+)", self.run("scontrol", "--oneliner", "show", "job", job).output)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("There is no Slurm on this machine; `make slurm-test` installs it.")
    with tempfile.TemporaryDirectory(
        prefix="slurm-", dir="/tmp", ignore_cleanup_errors=True
    ) as parent:  # a short name, for sockets
        folder = Path(parent, "cluster")
        started = subprocess.run(
            ["bash", str(LOCAL_CLUSTER), "start", str(folder)], capture_output=True, text=True, timeout=60, check=False
        )
        assert started.returncode == 0, started.stderr
        try:
            yield Cluster(folder / "slurm.conf")
        finally:
            subprocess.run(["bash", str(LOCAL_CLUSTER), "stop", str(folder)], timeout=60, check=False)
