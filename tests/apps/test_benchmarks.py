# SPDX-License-Identifier: MIT
"""The scaling benchmark on CPU devices, small, and what it makes of its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster_jobs.benchmarks import launching, scaling_apps, scaling_plot, strong_scaling

ROOT = Path(__file__).parents[2]
TIME_LIMIT_S = 240
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
needs_a_launcher = pytest.mark.skipif(shutil.which("mpiexec", path=PATH) is None, reason="there is no mpiexec")


def _benchmark(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"cluster_jobs.benchmarks.{name}", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )


@needs_a_launcher
def test_scaling_measures_each_place_in_both_layouts_checks_it_and_draws_a_plot(tmp_path: Path) -> None:
    output = tmp_path / "wave.json"
    result = _benchmark(
        "strong_scaling", "--backend", "cpu", "--gpus", "1,2", "--size", "64", "--steps", "4", "--repetitions", "1",
        "--output", str(output),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(output.read_text())
    assert figures["problems"] == []
    assert len(figures["checked"]) == 2
    assert [(row["gpus"], row["layout"]) for row in figures["rows"]] == [
        (1, "process"), (1, "rank"), (2, "process"), (2, "rank"),
    ]  # fmt: skip
    for row in figures["rows"]:
        (run,) = row["programs"]["ours"]["runs"]
        assert run["ranks"] == (row["gpus"] if row["layout"] == "rank" else 1)
        assert run["ranks"] * run["devices_per_rank"] == row["gpus"]
        assert run["size"] == 64
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in output.with_suffix(".svg").read_text()


def test_an_ablation_measures_all_variants_and_one_that_fails_its_check_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], variables: dict[str, str], limit_s: float) -> str:
        seen.append((command, variables))
        if "--verify" in command:
            if "--split-2d" in command:
                raise RuntimeError("WRONG: 3 elements differ")
            return "Verified: bit-identical"
        return '{"us_per_step": 2.0}'

    monkeypatch.setattr(launching, "run", run)
    output = tmp_path / "split.json"
    arguments = ["--backend", "cpu", "--gpus", "2", "--layout", "process", "--ablate", "split", "--output", str(output)]
    assert strong_scaling.main([*arguments, "--repetitions", "2"]) == 1
    figures = json.loads(output.read_text())
    assert figures["problems"] == ["WRONG: 3 elements differ"]
    assert set(figures["rows"][0]["programs"]) == {"split 1-D", "split 2-D"}
    measured = ["--split-2d" in command for command, _ in seen if "--benchmark" in command]
    assert measured == [False, True, True, False], "each once before any twice, and in turns"


def _row(gpus: int, ours: list[float], by_hand: list[float]) -> dict[str, Any]:
    programs = {
        name: strong_scaling._summary([{"us_per_step": time} for time in times])
        for name, times in (("ours", ours), ("by hand", by_hand))
    }
    return {"app": "wave_sim", "size": 8, "gpus": gpus, "layout": "rank", "programs": programs}


def test_speedup_is_the_median_relative_to_the_own_time_on_one_device() -> None:
    rows = [_row(1, [80.0, 90.0, 1000.0], [100.0]), _row(4, [30.0], [20.0])]
    strong_scaling.add_speedups(rows)
    assert rows[1]["programs"]["ours"]["speedup"] == pytest.approx(3.0)
    assert rows[1]["programs"]["ours"]["efficiency"] == pytest.approx(0.75)
    assert rows[1]["programs"]["by hand"]["efficiency"] == pytest.approx(1.25)
    assert [row["ratio"] for row in rows] == [pytest.approx(0.9), pytest.approx(1.5)]


def test_without_a_run_on_one_device_the_fewest_are_taken_for_ideal() -> None:
    rows = [_row(2, [50.0], [50.0]), _row(8, [25.0], [12.5])]
    strong_scaling.add_speedups(rows)
    assert rows[0]["programs"]["ours"]["efficiency"] == pytest.approx(1.0)
    assert rows[1]["programs"]["ours"]["speedup"] == pytest.approx(4.0)
    assert rows[1]["programs"]["by hand"]["efficiency"] == pytest.approx(1.0)


def test_files_of_several_runs_are_merged_into_one_table_and_plot(tmp_path: Path) -> None:
    for name, rows in (("a", [_row(1, [8.0], [8.0])]), ("b", [_row(2, [5.0], [4.0])])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"environment": {"commit": name}, "rows": rows}))
    output = tmp_path / "both.json"
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert strong_scaling.main(["--merge", *files, "--output", str(output)]) == 0
    figures = json.loads(output.read_text())
    assert [item["commit"] for item in figures["environments"]] == ["a", "b"]
    assert figures["rows"][1]["programs"]["ours"]["speedup"] == pytest.approx(1.6)
    assert output.with_suffix(".svg").exists()


def test_every_registered_application_and_peer_is_there() -> None:
    for app in scaling_apps.APPS.values():
        assert (ROOT / "cluster_jobs" / "apps" / f"{app.name}.py").exists()
        for module in app.peers.values():
            assert (ROOT / "cluster_jobs" / "benchmarks" / "peers" / f"{module}.py").exists()


def test_the_plot_leaves_out_what_was_not_measured(tmp_path: Path) -> None:
    rows = [_row(1, [8.0], [8.0]), _row(2, [5.0], [4.0])]
    del rows[1]["programs"]["by hand"]
    strong_scaling.add_speedups(rows)
    assert rows[1]["ratio"] is None
    assert all(file.exists() for file in scaling_plot.save(rows, "{size}", tmp_path / "plot.json"))
