# SPDX-License-Identifier: MIT
"""The benchmarks of scaling and of task granularity on CPU devices, small, and the evaluation of their figures."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from celerity_py.queue import Queue
from cluster_jobs.benchmarks import launching
from cluster_jobs.benchmarks.dags import dag_suite
from cluster_jobs.benchmarks.granularity import metg, metg_mpi, task_patterns
from cluster_jobs.benchmarks.micro import dispatch
from cluster_jobs.benchmarks.scaling import other_ways, scaling_apps, scaling_plot, strong_scaling
from cluster_jobs.benchmarks.scaling.peers import matmul
from cluster_jobs.benchmarks.scaling.peers.__main__ import PEERS, PROGRAMS

if TYPE_CHECKING:
    pass

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
        "scaling.strong_scaling",
        "--backend", "cpu", "--gpus", "1,2", "--size", "64", "--steps", "4", "--repetitions", "1",
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


def test_the_share_of_the_limit_is_that_of_as_many_gpus() -> None:
    rows = [_row(1, [2.0, 4.0, 3.0], [6.0]), _row(2, [1.0], [3.0])]
    for row in rows:
        for program in row["programs"].values():
            program["runs"][-1]["size"] = 1000  # 12 MB in a step
    strong_scaling.add_shares(rows, scaling_apps.APPS["wave_sim"], {"copy": [8e12, 4e12, 1e15]})
    assert [row["limit_per_s"] for row in rows] == [8e12, 12e12]
    shares = [[program["share_of_limit"] for program in row["programs"].values()] for row in rows]
    assert shares == [[pytest.approx(0.5), pytest.approx(0.25)], [pytest.approx(1.0), pytest.approx(1 / 3)]]


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


def _help_of(app: str) -> str:
    command = [sys.executable, str(ROOT / "cluster_jobs" / "apps" / f"{app}.py"), "--help"]
    return launching.run(command, {}, TIME_LIMIT_S)


def test_every_registered_application_has_a_peer_in_each_layout() -> None:
    assert set(PEERS) == set(scaling_apps.APPS)
    assert set(PROGRAMS) == set(scaling_apps.LAYOUTS)


@pytest.mark.parametrize("way", other_ways.WAYS)
def test_no_other_way_changes_a_result(way: str) -> None:
    command = [sys.executable, "-m", strong_scaling.OTHER_WAYS, way]
    command += [str(ROOT / "cluster_jobs" / "apps" / "wave_sim.py"), "--size", "61", "--steps", "20", "--verify"]
    assert "Verified: bit-identical" in launching.run(command, {"CELERITY_DEVICES": "cpu:2"}, TIME_LIMIT_S)


def test_every_way_of_an_ablation_is_known() -> None:
    variants = [variant for variants in scaling_apps.ABLATIONS.values() for variant in variants]
    assert {variant.way for variant in variants} - {""} == set(other_ways.WAYS)


def test_planning_inline_waits_for_each_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    submitted: list[int] = []
    scheduler = SimpleNamespace(wait_until_planned=lambda: waits.append(len(submitted)))
    queue: Any = SimpleNamespace(_runtime=SimpleNamespace(scheduler=scheduler))
    monkeypatch.setattr(Queue, "parallel_for", lambda queue, *args, **named: submitted.append(len(args)))
    other_ways.plan_inline()
    for _ in range(2):
        Queue.parallel_for(queue, 10, print, 1)
    assert waits == [1, 2]
    assert submitted == [3, 3]


def test_every_registered_application_is_there_and_has_the_arguments_of_its_ablations() -> None:
    for app in scaling_apps.APPS.values():
        text = _help_of(app.name)
        assert {"--size", "--steps", "--benchmark", "--verify"} <= set(re.findall(r"--[a-z0-9-]+", text))
        ablations = app.ablations | scaling_apps.OF_ALL_APPS
        arguments = [variant.arguments for name in ablations for variant in scaling_apps.variants_of(app, name)]
        assert all(given[0] in text for given in arguments if given)


def test_the_plot_leaves_out_what_was_not_measured(tmp_path: Path) -> None:
    rows = [_row(1, [8.0], [8.0]), _row(2, [5.0], [4.0])]
    del rows[1]["programs"]["by hand"]
    strong_scaling.add_speedups(rows)
    assert rows[1]["ratio"] is None
    assert all(file.exists() for file in scaling_plot.save(rows, "{size}", tmp_path / "plot.json"))


@needs_a_launcher
def test_metg_checks_and_sweeps_every_program_of_this_machine(tmp_path: Path) -> None:
    output = tmp_path / "metg.json"
    result = _benchmark(
        "granularity.metg",
        "--backend", "cpu", "--devices", "2", "--patterns", "tree", "--tasks-per-device", "2",
        "--longest-us", "400", "--sample-seconds", "0.002", "--repetitions", "1", "--output", str(output),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(output.read_text())
    assert figures["problems"] == []
    programs = {row["program"] for row in figures["rows"]}
    assert programs >= {"celerity_py, process", "celerity_py, replay, rank", "mpi4py + NumPy"}
    assert len({sweep["checksum"] for sweep in figures["sweeps"]}) == 1, "all programs compute the same"
    assert all(sweep["points"][0]["iterations"] > sweep["points"][-1]["iterations"] for sweep in figures["sweeps"])


@needs_a_launcher
@pytest.mark.parametrize("pattern", task_patterns.PATTERNS)
def test_ours_and_by_hand_leave_on_three_ranks_what_numpy_computes(pattern: str) -> None:
    for only in ("celerity", "celerity-replay", "mpi-numpy"):
        command = launching.on_ranks(launching.default_launcher(), 3)
        command += [sys.executable, "-m", "cluster_jobs.benchmarks.granularity.metg", "--only", only]
        command += ["--backend", "cpu"]
        command += ["--devices", "3", "--patterns", pattern, "--tasks-per-device", "3", "--longest-us", "1"]
        variables = {**launching.devices_of("cpu", "rank", 3), "CELERITY_CHECK": "1"}
        lines = launching.run([*command, "--sample-seconds", "0.0001"], variables, TIME_LIMIT_S).splitlines()
        (figures,) = json.loads(lines[-1])
        expected = task_patterns.reference(pattern, 9, task_patterns.CHECK_STEPS)
        assert figures["checksum"] == int(expected.sum(dtype="uint64")) & task_patterns.MASK


def test_a_result_that_misses_a_dependency_is_found() -> None:
    for pattern in task_patterns.PATTERNS:
        result = task_patterns.reference(pattern, 12, 5)
        task_patterns.require_reference(result, pattern, 5)
        others = [task_patterns.reference(other, 12, 5) for other in task_patterns.PATTERNS if other != pattern]
        for wrong in others:
            with pytest.raises(SystemExit, match="WRONG"):
                task_patterns.require_reference(wrong, pattern, 5)


def test_a_program_with_a_fixed_overhead_has_twice_its_granularity() -> None:
    overhead_us, us_per_iteration, tasks = 30.0, 0.25, 4

    def run(iterations: int, steps: int) -> float:
        return (overhead_us + us_per_iteration * iterations) * tasks * steps / 1e6

    points = task_patterns.sweep(run, tasks, 5000.0, 0.01)
    assert points[0].us_per_task > 5000
    found = task_patterns.metg_us(points, 1 / us_per_iteration)
    assert found == pytest.approx(2 * overhead_us, rel=0.02)
    assert task_patterns.metg_us(points, 100 / us_per_iteration) is None, "never half effective"


def test_the_peak_is_that_of_the_best_program_on_as_many_devices() -> None:
    def sweep(program: str, devices: int, slowdown: float) -> dict[str, Any]:
        points = [{"iterations": n, "us_per_task": slowdown * n + 10, "steps": 8} for n in (10000, 1000, 100, 10, 1)]
        return {"program": program, "devices": devices, "pattern": "tree", "points": points}

    rows = metg.evaluate([sweep("a", 2, 1.0), sweep("b", 2, 4.0), sweep("b", 1, 4.0)])
    assert [row["metg_us"] is None for row in rows] == [False, True, False]
    assert rows[0]["metg_us"] == pytest.approx(20, rel=0.3)


def test_what_one_rank_sends_the_other_receives() -> None:
    for pattern in task_patterns.PATTERNS:
        for step in range(task_patterns.rounds_of(pattern, 16)):
            plans = [metg_mpi.plan_of(pattern, step, 16, rank, 4) for rank in range(4)]
            sent = {(rank, other, *span) for rank, plan in enumerate(plans) for other, *span in plan.sends}
            received = {(other, rank, *span) for rank, plan in enumerate(plans) for other, *span in plan.receives}
            assert sent == received
            assert bool(sent) == (pattern != "trivial" and (pattern, step) not in {("fft", 0), ("fft", 1)})


@pytest.mark.parametrize(("size", "parts", "number"), [(397, 8, 4), (16, 4, 4), (5, 4, 4)])
def test_the_bands_of_all_parts_are_all_rows_once(size: int, parts: int, number: int) -> None:
    bands = [matmul.bands_of(part, parts, size, number) for part in range(parts)]
    assert all(len(spans) == number for spans in bands)
    assert [row for spans in bands for first, end in spans for row in range(first, end)] == list(range(size))


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("options_of", [strong_scaling.options_of, metg.options_of, dag_suite.options_of])
def test_without_a_driver_programs_try_themselves_out_on_the_cpu(options_of: Any) -> None:
    assert options_of([]).backend == "cpu"


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_its_benchmark_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dispatch.main([])
    assert "there is no CUDA device" in capsys.readouterr().err


def test_dispatch_tries_itself_out_on_the_cpu(tmp_path: Path) -> None:
    output = tmp_path / "dispatch.json"
    result = _benchmark("micro.dispatch", "--backend", "cpu", "--rounds", "1", "--tasks", "20", "--output", str(output))
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert len(rows) == 4
    assert all(row["by_hand_us"] is None and row["ours_us"] > 0 for row in rows[2:])


def test_a_fused_wave_is_measured_beside_the_python_kernel_with_the_same_bits(tmp_path: Path) -> None:
    output = tmp_path / "fused.json"
    result = _benchmark("micro.fused", "--sizes", "20", "--steps", "2", "--programs", "wave", "--output", str(output))
    assert result.returncode == 0, result.stdout + result.stderr
    (row,) = json.loads(output.read_text())["rows"]
    assert min(row[key] for key in ("plain_us", "replayed_us", "python_plain_us", "limit_us", "first_ms")) > 0


def test_a_histogram_is_measured_beside_that_of_numpy_and_its_counts_are_checked(tmp_path: Path) -> None:
    output = tmp_path / "histogram.json"
    small = ["--size", "5000", "--bins", "16", "--times", "2", "--repetitions", "2", "--checks", "3"]
    result = _benchmark("micro.histogram", *small, "--output", str(output))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The bits of 3 sums of weights are the same on all 1 rank(s)." in result.stdout
    figures = json.loads(output.read_text())
    assert figures["problems"] == []
    assert [row["program"].split()[0] for row in figures["rows"]] == [
        "celerity_py,",
        "numpy.bincount",
        "numpy.histogram",
    ]
    assert min(row["ratio"] for row in figures["rows"][1:]) == 1


@needs_a_launcher
def test_ranks_compare_the_bits_of_their_histograms() -> None:
    program = """
import celerity_py as celerity, numpy as np
from cluster_jobs.benchmarks.micro import histogram
with celerity.Queue() as queue:
    same = [np.arange(5), np.zeros(3), np.ones(2)]
    different = [np.arange(5), np.zeros(3) - (0.0 if celerity.rank() else 1e-300), np.ones(2)]
    assert histogram.count_different(queue, same) == 0
    assert histogram.count_different(queue, different) == 1
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": PATH}
    command = ["mpiexec", "-n", "2", sys.executable, "-c", program]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("mode", [["--steps", "400"], ["--minutes", "0.01"], ["--restarts", "2"]])
def test_endurance_tells_memory_by_rank_and_part(mode: list[str], tmp_path: Path) -> None:
    output = tmp_path / "endurance.json"
    result = _benchmark("micro.endurance", *mode, "--parts", "2", "--output", str(output))
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert [row["part"] for row in rows] == [1, 2]
    assert all(len(row["resident_mib"]) == 1 and row["per_s"] > 0 for row in rows)
