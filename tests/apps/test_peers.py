# SPDX-License-Identifier: MIT
"""What can be said of the hand-written programs without a GPU."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster_jobs.benchmarks.scaling.peers import batches

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


@pytest.mark.parametrize("are_long", [False, True])
def test_the_faster_variant_is_timed_in_steps_of_both_parities(*, are_long: bool) -> None:
    parities: list[int] = []

    def slow(parity: int) -> None:
        time.sleep(1e-3)

    options = argparse.Namespace(steps=3, batches=2, seconds=60.0)
    variants = {"slow": slow, "fast": parities.append}
    best, times = batches.time_variants(variants, options, lambda: None, are_long=are_long)
    assert best == "fast"
    assert len(times) == 2
    steps = 3 if are_long else 4
    assert parities[-2 * steps :] == [number % 2 for number in range(steps)] * 2
