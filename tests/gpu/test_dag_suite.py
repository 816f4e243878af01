# SPDX-License-Identifier: MIT
"""The DAG suite on a GPU, small: all variants of all programs run, and compute what NumPy computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster_jobs.benchmarks.dags.dag_regimes import ALL

ROOT = Path(__file__).parents[2]


def _run(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    output = tmp_path / "dags.json"
    command = [sys.executable, "-m", "cluster_jobs.benchmarks.dags.dag_suite", "--backend", "cuda", *arguments]
    command += ["--scale", "0.01", "--rounds", "5", "--output", str(output)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    rows: list[dict[str, Any]] = json.loads(output.read_text())["rows"]
    return rows


@pytest.mark.parametrize("name", ALL)
def test_all_variants_of_a_program_run_and_are_right(name: str, tmp_path: Path) -> None:
    for row in _run(tmp_path, "--programs", name):
        assert row["variants"].keys() == {"a0", "a1", "b", "c", "d", "d'"}
        assert row["variants"]["b"]["waits"] == row["least_waits"]


def test_each_order_of_kernels_is_measured_beside_streams_by_hand(tmp_path: Path) -> None:
    arguments = ("--programs", "IMG", "--regimes", "R3", "--variants", "b,d", "--orders", "age,path,predecessors")
    rows = _run(tmp_path, *arguments)
    assert [row["program"] for row in rows] == ["IMG", "IMG, path", "IMG, predecessors"]
    assert all(row["variants"].keys() == {"b", "d"} for row in rows)
