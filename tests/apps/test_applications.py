# SPDX-License-Identifier: MIT
"""The example applications, run as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
APPS = ROOT / "cluster_jobs" / "apps"
TIME_LIMIT_S = 120

# Small, of odd sizes that no number of devices divides.
RUNS = {
    "wave_sim": ["--size", "131", "--steps", "60"],
    "wave_sim --replay": ["--size", "131", "--steps", "61", "--replay"],
    "wave_sim --recompute": ["--size", "131", "--steps", "61", "--replay", "--recompute", "2"],
    "matmul": ["--size", "97"],
    "matmul --split-2d": ["--size", "97", "--split-2d"],
    "matmul --replay": ["--size", "97", "--steps", "3", "--replay"],
    "convolution": ["--size", "67", "--radius", "3", "--passes", "3"],
    "convolution --border": ["--size", "67", "--radius", "3", "--passes", "3", "--border", "4"],
    "convolution --split-2d": ["--size", "67", "--radius", "3", "--passes", "3", "--split-2d"],
    "convolution --replay": ["--size", "67", "--passes", "7", "--replay"],
    "jacobi": ["--size", "41", "--tolerance", "0.5", "--check-every", "10"],
    "jacobi, an odd number of further steps": ["--size", "41", "--tolerance", "0.5", "--check-every", "7"],
    "rsim_pattern": ["--size", "53", "--steps", "25"],
    "rsim": ["--patches", "150", "--steps", "40"],
    "rsim --replay": ["--patches", "150", "--steps", "40", "--replay"],
}
# Compared within the errors that their source states: results in float32 with float64, or sums in another order.
ROUNDED_RUNS = {
    "conjugate_gradient": ["--size", "41"],
    "conjugate_gradient, replayed": ["--size", "41", "--check-every", "3", "--replay"],
    "conjugate_gradient, up to the last step": ["--size", "67", "--tolerance", "0", "--steps", "35"],
    "nbody": ["--bodies", "131", "--steps", "20"],
    "nbody, some of many": ["--bodies", "4099", "--steps", "2"],
    "nbody, replayed": ["--bodies", "131", "--steps", "21", "--replay"],
}


# Runs the application that is its first argument, in which replays do nothing.
WITHOUT_REPLAYS = """
import runpy, sys
import celerity_py
celerity_py.Queue.replay = lambda queue, recording, times: None
del sys.argv[0]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _run(
    app: str,
    *arguments: str,
    ranks: int = 1,
    devices: str = "cpu:2",
    variables: Mapping[str, str] = MappingProxyType({}),
    through: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *through, str(APPS / f"{app}.py"), *arguments]
    if ranks > 1:
        mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        if mpiexec is None:
            pytest.skip("there is no mpiexec")
        command = [mpiexec, "-n", str(ranks), *command]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    environment |= {"CELERITY_DEVICES": devices, "CELERITY_BACKEND": "cpu", "PYTHONPATH": str(ROOT)}
    environment |= variables
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("run", RUNS)
def test_an_application_computes_bit_for_bit_what_numpy_computes(run: str, ranks: int) -> None:
    result = _run(run.replace(",", "").split()[0], *RUNS[run], "--verify", ranks=ranks)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("Verified: bit-identical to plain NumPy.") == 1
    assert f"{ranks} rank(s)" in result.stdout


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("run", ROUNDED_RUNS)
def test_an_application_computes_what_numpy_computes_but_for_rounding(run: str, ranks: int) -> None:
    result = _run(run.split(",", maxsplit=1)[0], *ROUNDED_RUNS[run], "--verify", ranks=ranks)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("Verified: within") == 1
    assert f"{ranks} rank(s)" in result.stdout


@pytest.mark.parametrize("run", [run for run in RUNS | ROUNDED_RUNS if "replay" in run])
def test_an_application_notices_a_replay_that_writes_nothing(run: str) -> None:
    arguments = (RUNS | ROUNDED_RUNS)[run]
    result = _run(run.replace(",", "").split()[0], *arguments, "--verify", through=("-c", WITHOUT_REPLAYS))
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.count("WRONG:") == 1, result.stdout + result.stderr


#: Each with arguments of a short run, of one that goes on from it, and what it then says.
CHECKPOINTED = {
    "wave_sim": (["--size", "131", "--steps", "40"], ["--steps", "61"], "Verified: bit-identical"),
    "nbody": (["--bodies", "131", "--steps", "10"], ["--steps", "15"], "Verified: within"),
    "conjugate_gradient": (["--size", "41", "--steps", "40"], ["--steps", "1000"], "Verified: within"),
}
# Runs the application that is its first argument, with a signal after each question for one.
WITH_SIGNAL = """
import runpy, signal, sys
import celerity_py
ask = celerity_py.stop_requested
def ask_after_signal(**options):
    answer = ask(**options)
    signal.raise_signal(signal.SIGUSR1)
    return answer
celerity_py.stop_requested = ask_after_signal
del sys.argv[0]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("app", CHECKPOINTED)
def test_an_application_goes_on_from_its_checkpoint_on_another_number_of_ranks(app: str, tmp_path: Path) -> None:
    short, longer, verdict = CHECKPOINTED[app]
    folder = ["--checkpoint", str(tmp_path), "--checkpoint-every", "10"]
    result = _run(app, *short, *folder)
    assert result.returncode == 0, result.stdout + result.stderr
    before = sorted(path.name for path in tmp_path.iterdir())
    assert before == [f"step-{step:012}" for step in ((30, 40) if app != "nbody" else (10,))]
    result = _run(app, *short, *longer, *folder, "--verify", ranks=2)
    assert result.returncode == 0, result.stdout + result.stderr
    assert verdict in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) != before


def test_an_application_that_gets_a_signal_writes_a_checkpoint_and_ends(tmp_path: Path) -> None:
    folder = ["--checkpoint", str(tmp_path), "--checkpoint-every", "20"]
    arguments = ["--size", "131", "--steps", "100", *folder]
    result = _run("wave_sim", *arguments, through=("-c", WITH_SIGNAL))
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Stopped after 20 of 100 steps. Start it again: it goes on from {tmp_path}." in result.stdout
    assert (tmp_path / "step-000000000020").is_dir()


def test_looking_ahead_saves_all_resizes_of_a_history_that_grows() -> None:
    figures = {}
    for lookahead in ("auto", "none"):
        result = _run(
            "rsim", "--patches", "60", "--steps", "24", "--benchmark",
            variables={"CELERITY_LOOKAHEAD": lookahead, "CELERITY_LOG_LEVEL": "error"},
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        figures[lookahead] = json.loads(result.stdout.splitlines()[-1])
    assert figures["auto"]["size"] == 60
    assert figures["auto"]["resizes"] == figures["auto"]["resize_bytes"] == 0
    assert figures["none"]["resizes"] > 24
    assert figures["none"]["resize_bytes"] > 0


@pytest.mark.parametrize("most_verified_fully", [1000, 10])
def test_light_that_arrives_a_step_too_late_is_found(
    most_verified_fully: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(APPS)
    import room
    import rsim

    monkeypatch.setattr(rsim, "MOST_VERIFIED_FULLY", most_verified_fully)
    monkeypatch.setattr(rsim, "SAMPLES", 9)
    scene, steps = room.furnish(60), 20
    (found,) = rsim.transport_to(scene.geometry, slice(None), rsim.reach_of(steps))
    for late, is_right in ((0, True), (1, False)):
        history = np.zeros((steps, len(scene.emission)), np.float32)
        for step in range(steps):
            history[step] = scene.emission + rsim.arriving(history, found[1], found[2] + np.uint8(late), step)
        assert rsim.verify(scene, history, rounding=rsim.ROUNDING) is is_right
        assert ("WRONG" in capsys.readouterr().out) is not is_right


def test_light_is_not_multiplied_by_reflection_and_boxes_cast_shadows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(APPS)
    import room
    import rsim

    scene = room.furnish(1000)
    parts = list(rsim.transport_to(scene.geometry, slice(None), rsim.reach_of(96)))
    factors = np.concatenate([factors for _, factors, _ in parts])
    assert factors.min() == 0
    assert (factors.sum(axis=1) <= scene.geometry[room.REFLECTANCE] * np.float32(1.0001)).all()
    lamp = np.flatnonzero(scene.emission)
    height, (x, _, z) = scene.geometry[1], scene.geometry[:3]
    on_floor = (height == 0) & (np.abs(x - 0.34) < 0.08) & (np.abs(z - 0.64) < 0.08)
    on_tall_box = np.isclose(height, 0.6)
    assert on_floor.any()
    assert on_tall_box.any()
    assert factors[np.ix_(on_floor, lamp)].max() == 0
    assert factors[np.ix_(on_tall_box, lamp)].min() > 0


@pytest.mark.parametrize("num_bodies", [100, 4100])
def test_bodies_that_miss_a_thousandth_of_a_step_are_found(
    num_bodies: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(APPS)
    import nbody

    start = nbody.galaxies(num_bodies)
    fields = [start[0]] * (num_bodies > nbody.MOST_VERIFIED_FULLY)
    pull = nbody.accelerations(start[0], start[0], nbody.SOFTENING**2)
    for share, is_right in ((1, True), (0.999, False)):
        positions, velocities = (values.copy() for values in start)
        velocities[:, :3] += pull * (nbody.TIME_STEP * np.float32(share))
        positions[:, :3] += velocities[:, :3] * nbody.TIME_STEP
        assert nbody.verify(start, (positions, velocities), 1, fields) is is_right
        assert ("WRONG" in capsys.readouterr().out) is not is_right


@pytest.mark.parametrize("app", sorted({run.split()[0].rstrip(",") for run in [*RUNS, *ROUNDED_RUNS]}))
def test_an_application_explains_itself(app: str) -> None:
    result = _run(app, "--help")
    assert result.returncode == 0, result.stderr
    assert "--verify" in result.stdout


@pytest.mark.parametrize("app", ["conjugate_gradient", "convolution", "matmul", "nbody", "rsim", "wave_sim"])
def test_an_application_that_is_measured_prints_one_line_of_figures(app: str) -> None:
    result = _run(app, "--size", "64", "--steps", "3", "--benchmark", ranks=2)
    assert result.returncode == 0, result.stdout + result.stderr
    (line,) = result.stdout.splitlines()
    figures = json.loads(line)
    assert (figures["size"], figures["steps"], figures["ranks"], figures["devices_per_rank"]) == (64, 3, 2, 2)
    assert figures["us_per_step"] in figures["batches_us_per_step"]


def test_a_solver_has_the_same_bits_on_one_rank_and_on_four(tmp_path: Path) -> None:
    results = []
    for ranks, devices in ((1, "cpu:3"), (4, "cpu:1")):
        folder = tmp_path / str(ranks)
        arguments = ["--size", "41", "--steps", "60", "--checkpoint", str(folder), "--checkpoint-every", "60"]
        result = _run("conjugate_gradient", *arguments, "--verify", ranks=ranks, devices=devices)
        assert result.returncode == 0, result.stdout + result.stderr
        (checkpoint,) = folder.iterdir()
        # A file per rank and buffer, which has its rows.
        rows = {name: [np.load(path) for path in sorted(checkpoint.glob(f"{name}.*.npy"))] for name in "xrp"}
        assert [len(parts) for parts in rows.values()] == [ranks] * 3
        results.append({name: np.concatenate(parts).tobytes() for name, parts in rows.items()})
    assert results[0] == results[1]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_solver_takes_the_same_steps_with_and_without_a_fence_in_each(ranks: int) -> None:
    result = _run(
        "conjugate_gradient", "--size", "33", "--steps", "25", "--check-every", "4", "--benchmark", ranks=ranks
    )
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(result.stdout)
    assert (figures["size"], figures["steps"], figures["ranks"], figures["check_every"]) == (33, 25, ranks, 4)
    assert figures["same_iterates"] is True
    assert figures["ratio"] == figures["us_per_step_with_fences"] / figures["us_per_step"]


@pytest.mark.parametrize("app", ["conjugate_gradient", "convolution", "matmul", "nbody", "rsim"])
def test_an_application_draws_its_result(app: str, tmp_path: Path) -> None:
    picture = tmp_path / "result.png"
    result = _run(app, "--size", "64", "--output", str(picture))
    assert result.returncode == 0, result.stdout + result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_a_run_is_written_once_and_its_place_is_printed(tmp_path: Path) -> None:
    picture = tmp_path / "pictures" / "wave.png"
    result = _run("wave_sim", "--size", "64", "--steps", "20", "--output", str(picture), ranks=2)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count(f"Picture: {picture}") == 1
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("app", ["wave_sim", "rsim"])
def test_an_application_can_be_planned_for_many_ranks_and_prints_no_rates_then(app: str) -> None:
    result = _run(app, "--size", "256", "--steps", "20", devices="cpu:4", variables={"CELERITY_DRY_RUN_RANKS": "64"})
    assert result.returncode == 0, result.stderr
    assert "time to plan, nothing computed" in result.stdout
    assert "/s" not in result.stdout


@pytest.mark.parametrize("app", ["conjugate_gradient", "convolution", "matmul", "nbody", "rsim", "wave_sim"])
def test_a_benchmark_in_a_dry_run_prints_no_rates(app: str) -> None:
    result = _run(app, "--size", "128", "--benchmark", devices="cpu:2", variables={"CELERITY_DRY_RUN_RANKS": "4"})
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert figures["us_per_step_to_plan"] > 0
    assert not {"us_per_step", "batches_us_per_step", "interactions_per_s"} & set(figures)


def test_a_single_device_is_enough() -> None:
    result = _run("wave_sim", "--size", "64", "--steps", "20", "--verify", devices="cpu:1")
    assert result.returncode == 0, result.stdout + result.stderr
