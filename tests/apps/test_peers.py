# SPDX-License-Identifier: MIT
"""What can be said of the hand-written programs without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = [
    f"{name}_{layout}"
    for name in ("convolution", "matmul", "nbody", "rsim", "wave_sim")
    for layout in ("nccl", "process")
]


def _run(peer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"cluster_jobs.benchmarks.scaling.peers.{peer}", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("peer", PEERS)
def test_a_program_by_hand_has_the_options_that_the_scaling_benchmark_gives_it(peer: str) -> None:
    result = _run(peer, "--help")
    assert result.returncode == 0, result.stderr
    for option in ("--size", "--steps", "--gpus", "--seconds", "--output", "--check", "--overlap"):
        assert option in result.stdout


def test_a_check_that_numpy_takes_too_long_for_is_refused() -> None:
    result = _run("nbody_process", "--check", "--size", "5000")
    assert result.returncode == 1
    assert "up to 4096 bodies, not 5000" in result.stderr
