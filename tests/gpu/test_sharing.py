# SPDX-License-Identifier: MIT
"""Programs that share a GPU, small: all ways run, and have the same results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(tmp_path: Path, module: str, *arguments: str) -> dict[str, object]:
    output = tmp_path / "figures.json"
    command = [sys.executable, "-m", f"cluster_jobs.benchmarks.dags.{module}", "--backend", "cuda", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    result = subprocess.run(
        [*command, "--output", str(output)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    figures: dict[str, object] = json.loads(output.read_text())
    assert figures["problems"] == []
    return figures


@pytest.mark.parametrize(
    ("case", "prefetch", "inside"),
    [
        ("MP-1", "off", "ours"),
        ("MP-1", "on", "hand"),
        ("MP-2", "on", "ours"),
        ("MP-2", "off", "hand"),
        ("latency,starvation", "on", "ours"),
    ],
)
def test_programs_that_share_a_gpu_are_right_in_all_ways(case: str, prefetch: str, inside: str, tmp_path: Path) -> None:
    ways = "priorities,one,slices,streams" + (",mps" if shutil.which("nvidia-cuda-mps-control") else "")
    figures = _run(
        tmp_path, "sharing", "--case", case, "--prefetch", prefetch, "--inside", inside, "--ways", ways,
        "--size", "small", "--rounds", "3", "--seconds", "12",
    )  # fmt: skip
    rows = figures["rows"]
    assert isinstance(rows, list)
    assert {row["way"] for row in rows} == set(figures["ways"])  # type: ignore[call-overload]


def test_each_order_of_kernels_is_measured_beside_streams_by_hand(tmp_path: Path) -> None:
    figures = _run(tmp_path, "kernel_orders", "--scale", "0.01", "--rounds", "3", "--seconds", "30")
    rows = figures["rows"]
    assert isinstance(rows, list)
    assert all(of["d_over_b"] > 0 for of in rows[0]["orders"].values())
