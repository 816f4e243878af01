# SPDX-License-Identifier: MIT
"""Planning, repeating and collecting sweeps, without Slurm."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cluster_jobs.files import write_json, write_whole
from cluster_jobs.slurm import collect, point, progress, submit
from cluster_jobs.slurm.folder import Folder
from cluster_jobs.slurm.point import PointError, read_figures
from cluster_jobs.slurm.scripts import job_script
from cluster_jobs.slurm.states import JobState, SlurmError
from cluster_jobs.slurm.submit import Request
from cluster_jobs.slurm.sweep import Point, Settings, SettingsDifferError, Shape, Sweep, all_points, sweep_from_json

SETTINGS = Settings("wave_sim", "cpu", 20, ("--split-2d",), ("CELERITY_LOOKAHEAD=none",), "abc")
DRY = Request(time="5", cpus_per_rank=2, launcher=None, dry_run=True)


def sweep(nodes: tuple[int, ...] = (1, 2), runs: int = 2, settings: Settings = SETTINGS) -> Sweep:
    points = all_points(nodes=nodes, devices_per_node=[2], layouts=["device"], sizes=[64], runs=runs)
    return Sweep(settings, points)


def result_of(wanted: Point, time_us: float = 100.0, settings: Settings = SETTINGS) -> dict[str, Any]:
    origin = {"job": "1_0", "launcher": "srun --mpi=pmi2", "version": "abc"}
    figures = {"us_per_step": time_us}
    return {"point": wanted.to_json(), "settings": settings.to_json(), "figures": figures, "origin": origin}


def measured(folder: Folder, wanted: Point, time_us: float = 100.0) -> None:
    write_json(folder.result_file(wanted), result_of(wanted, time_us))


# ---- plans -----------------------------------------------------------------------------------------------------------


def test_a_sweep_has_every_combination_once_and_one_layout_where_there_is_one_device() -> None:
    points = all_points(nodes=[1, 2], devices_per_node=[1, 4], layouts=["device", "node"], sizes=[8, 16], runs=3)
    assert len(points) == 2 * 2 * 3 * (1 + 2)
    assert len({entry.name for entry in points}) == len(points)
    shapes = {entry.shape for entry in points}
    assert Shape(2, 1, "device") in shapes
    assert Shape(2, 1, "node") not in shapes


def test_a_rank_has_one_device_or_all_of_its_node() -> None:
    by_device, by_node = Shape(2, 4, "device"), Shape(2, 4, "node")
    assert (by_device.ranks, by_device.ranks_per_node, by_device.devices_per_rank) == (8, 4, 1)
    assert (by_node.ranks, by_node.ranks_per_node, by_node.devices_per_rank) == (2, 1, 4)
    assert by_device.devices == by_node.devices == 8


def test_a_sweep_is_the_same_after_a_journey_through_a_file() -> None:
    assert sweep_from_json(json.loads(json.dumps(sweep().to_json()))) == sweep()


def test_a_sweep_takes_up_further_points_but_no_other_settings() -> None:
    both = sweep((1,)).extended_by(sweep((2,)))
    assert both.points == sweep((1, 2)).points
    with pytest.raises(SettingsDifferError, match="steps was 20 and is now 30"):
        both.extended_by(sweep(settings=dataclasses.replace(SETTINGS, steps=30)))


# ---- results that are whole ------------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    write_whole(file, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[]",
        lambda text: text.replace('"us_per_step": 100.0', '"us_per_step": NaN'),
        lambda text: text.replace('"us_per_step": 100.0', '"us_per_step": 0'),
        lambda text: text.replace('"steps": 20', '"steps": 30'),
        lambda text: text.replace('"repetition": 0', '"repetition": 1'),
    ],
    ids=["half", "empty", "not a result", "no number", "no time", "other settings", "another point"],
)
def test_a_file_that_is_not_the_whole_result_of_this_point_is_none(tmp_path: Path, damage: Any) -> None:
    folder, wanted = Folder(tmp_path), sweep().points[0]
    assert folder.result(wanted, SETTINGS) is None
    measured(folder, wanted)
    assert folder.result(wanted, SETTINGS) is not None
    file = folder.result_file(wanted)
    file.write_text(damage(file.read_text()))
    assert folder.result(wanted, SETTINGS) is None


def figures(**changed: Any) -> str:
    return json.dumps({"size": 64, "ranks": 4, "devices_per_rank": 1, "us_per_step": 5.0, **changed})


def test_figures_are_read_among_other_output() -> None:
    wanted = Point(64, Shape(2, 2, "device"), 0)
    assert read_figures(f"a warning\n{figures()}\n[1]\n", wanted)["us_per_step"] == 5.0


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("nothing\n", "printed no figures: nothing"),
        (f"{figures()}\n{figures()}", "2 processes have printed figures"),
        (figures(ranks=1), "ranks is 1 instead of 4"),
        (figures(devices_per_rank=2), "devices_per_rank is 2 instead of 1"),
        (figures(size=32), "size is 32 instead of 64"),
        (figures(us_per_step=-1), "us_per_step is -1"),
    ],
)
def test_figures_of_anything_but_the_point_are_refused(output: str, reason: str) -> None:
    with pytest.raises(PointError) as caught:
        read_figures(output, Point(64, Shape(2, 2, "device"), 0))
    assert reason in str(caught.value)


# ---- submitting ------------------------------------------------------------------------------------------------------


def test_a_submission_writes_an_array_for_each_number_of_nodes(tmp_path: Path) -> None:
    outcome = submit.submit(Folder(tmp_path), sweep(), DRY)
    assert outcome.folder is not None
    scripts = {file.name: file.read_text() for file in outcome.folder.glob("*.sbatch")}
    assert set(scripts) == {"1x2-device.sbatch", "2x2-device.sbatch", "check.sbatch", "plot.sbatch"}
    script = scripts["2x2-device.sbatch"]
    for option in ("nodes=2", "ntasks-per-node=2", "cpus-per-task=2", "array=0-1", "time=5", "requeue"):
        assert script.count(f"#SBATCH --{option}\n") == 1
    assert "gpu" not in script
    assert script.index("#SBATCH --requeue") < script.index("set -euo pipefail"), "Slurm stops reading at a command"
    assert "#SBATCH --nodes=2\n" in scripts["check.sbatch"]
    plan = json.loads((outcome.folder / "plan.json").read_text())
    assert plan["arrays"]["2x2-device"]["points"] == ["64-2x2-device-run0", "64-2x2-device-run1"]


def test_jobs_on_gpus_ask_for_those_of_the_node_and_leave_dividing_them_to_the_runtime(tmp_path: Path) -> None:
    on_gpus = sweep(settings=dataclasses.replace(SETTINGS, backend="cuda"))
    outcome = submit.submit(Folder(tmp_path), on_gpus, DRY)
    assert outcome.folder is not None
    assert "#SBATCH --gpus-per-node=2\n" in (outcome.folder / "1x2-device.sbatch").read_text()
    assert "--gpus" not in (outcome.folder / "plot.sbatch").read_text()


def test_a_repetition_submits_only_points_without_a_result(tmp_path: Path) -> None:
    folder, points = Folder(tmp_path), sweep().points
    measured(folder, points[0])
    measured(folder, points[3])
    outcome = submit.submit(folder, sweep(), DRY)
    assert outcome.finished == [points[0], points[3]]
    assert outcome.submitted == [points[1], points[2]]
    for entry in outcome.submitted:
        measured(folder, entry)
    assert submit.submit(folder, sweep(), DRY).folder is None
    assert len(folder.submissions()) == 1


def test_a_dry_run_leaves_the_settings_of_the_folder_as_they_are(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    submit.submit(folder, sweep(), DRY)
    assert not folder.has_sweep()
    other = sweep(settings=dataclasses.replace(SETTINGS, steps=7))
    assert submit.submit(folder, other, DRY).folder is not None
    folder.save_sweep(sweep())
    with pytest.raises(SettingsDifferError):
        submit.submit(folder, other, DRY)
    assert folder.sweep() == sweep()


def test_points_whose_jobs_wait_or_run_are_not_submitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[tuple[str, ...]] = []

    def slurm(*command: str) -> str:
        if command[0] == "squeue":
            return "101_1|RUNNING|None|0:10|n1\n103|PENDING|Dependency|0:00|\n" if submitted else ""
        submitted.append(command)
        return f"{99 + len(submitted)};cluster\n"

    monkeypatch.setattr(submit, "slurm", slurm)
    monkeypatch.setattr("cluster_jobs.slurm.states.slurm", slurm)
    folder, request = Folder(tmp_path), dataclasses.replace(DRY, dry_run=False)
    submit.submit(folder, sweep(), request)
    check, first, second, plot = submitted
    assert check[-1].endswith("check.sbatch")
    assert "--dependency=afterok:100" in first
    assert "--kill-on-invalid-dep=yes" in second, "or they would wait for ever if the check fails"
    assert "--dependency=afterany:101:102" in plot
    assert folder.jobs()["64-1x2-device-run1"] == ["101_1"]
    outcome = submit.submit(folder, sweep(), request)
    assert [entry.name for entry in outcome.queued] == ["64-1x2-device-run1"]
    assert len(outcome.submitted) == 3


class RefusingSlurm:
    """Takes so many jobs, and refuses the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
        self.taken: list[str] = []
        self.cancelled: list[str] = []
        self._jobs = jobs
        monkeypatch.setattr(submit, "slurm", self)
        monkeypatch.setattr("cluster_jobs.slurm.states.slurm", self)

    def __call__(self, *command: str) -> str:
        if command[0] == "squeue":
            return ""
        if command[0] == "scancel":
            self.cancelled.append(command[1])
            return ""
        if len(self.taken) == self._jobs:
            raise SlurmError("sbatch: error: invalid account")
        self.taken.append(command[-1])
        return f"{100 + len(self.taken)}\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_slurm_refuses_leaves_a_folder_that_takes_corrected_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    folder, request = Folder(tmp_path), dataclasses.replace(DRY, dry_run=False)
    refusing = RefusingSlurm(monkeypatch, jobs)
    with pytest.raises(SlurmError, match="invalid account"):
        submit.submit(folder, sweep(), request)
    assert refusing.cancelled == ["101"][:jobs], "the check would run for nothing"
    assert set(contents(tmp_path)) == {".lock"}
    corrected = dataclasses.replace(SETTINGS, steps=30)
    RefusingSlurm(monkeypatch, 100)
    assert len(submit.submit(folder, sweep(settings=corrected), request).submitted) == 4


def test_what_slurm_refuses_leaves_earlier_submissions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, request = Folder(tmp_path), dataclasses.replace(DRY, dry_run=False)
    RefusingSlurm(monkeypatch, 100)
    submit.submit(folder, sweep((1,)), request)
    before = contents(tmp_path)
    RefusingSlurm(monkeypatch, 0)
    with pytest.raises(SlurmError):
        submit.submit(folder, sweep((1, 2)), request)
    assert contents(tmp_path) == before


def test_jobs_that_slurm_has_taken_are_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, request = Folder(tmp_path), dataclasses.replace(DRY, dry_run=False)
    refusing = RefusingSlurm(monkeypatch, 2)
    with pytest.raises(SlurmError):
        submit.submit(folder, sweep(), request)
    assert not refusing.cancelled
    assert folder.has_sweep()
    assert folder.jobs()["64-1x2-device-run1"] == ["102_1"]


def test_an_option_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one line each"):
        submit.submit(Folder(tmp_path), sweep(), dataclasses.replace(DRY, options=("--comment=a\nb",)))
    assert set(contents(tmp_path)) == {".lock"}


def read_by_sbatch(line: str) -> str:
    """The one option of a line, by the rules of sbatch: a backslash takes any character, quotes take blanks and #."""
    option, quote, position = "", "", 0
    while position < len(line) and (quote or not line[position].isspace()):
        character = line[position]
        position += 1
        if character == "\\":
            option += line[position]
            position += 1
        elif quote:
            quote, option = ("", option) if character == quote else (quote, option + character)
        elif character in "\"'":
            quote = character
        elif character == "#":
            break
        else:
            option += character
    assert not quote
    assert position == len(line)
    return option


@pytest.mark.parametrize(
    "option",
    [
        *("--comment=a b", '--comment="a b"', '--comment="a"', "--comment=it's", "--comment=#1", "--comment=a\\b"),
        *("--comment=a\tb", '--comment=a\\"b c\\', "--account=physics", "--comment='x y' #z"),
    ],
)
def test_sbatch_reads_every_option_as_it_was_given(option: str) -> None:
    (line,) = [
        line for line in job_script("plot", {}, more_options=[option], settings={}).splitlines() if option[:9] in line
    ]
    assert read_by_sbatch(line.removeprefix("#SBATCH ")) == option


def test_a_second_submit_at_the_same_time_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.locked(), pytest.raises(BlockingIOError):
        submit.submit(folder, sweep(), DRY)


def test_applications_without_a_benchmark_are_refused_with_those_that_have_one() -> None:
    with pytest.raises(ValueError, match=r"no application 'no_such'.*wave_sim"):
        submit.check_app("no_such")
    with pytest.raises(ValueError, match=r"frame has no .*--benchmark.*these can: .*wave_sim"):
        submit.check_app("frame")
    submit.check_app("wave_sim")


def test_options_with_blanks_are_quoted_and_setup_comes_before_the_program() -> None:
    settings = {"FOLDER": "/a b"}
    script = job_script(
        "plot", {"comment": "a b"}, more_options=["--qos=x"], settings=settings, setup=["module load x"]
    )
    assert '#SBATCH "--comment=a b"\n#SBATCH --qos=x\n' in script
    assert "FOLDER='/a b'" in script
    assert script.index("module load x") < script.index("cluster_jobs.slurm collect")
    with pytest.raises(ValueError, match="one line each"):
        job_script("plot", {}, more_options=["--a\nrm"], settings={})


# ---- progress --------------------------------------------------------------------------------------------------------


def test_the_state_of_a_point_is_told_by_its_folder_first_and_by_slurm_where_that_is_silent(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    points = all_points(nodes=[1], devices_per_node=[1], layouts=["device"], sizes=[64], runs=7)
    folder.save_sweep(Sweep(SETTINGS, points))
    submission = folder.new_submission()
    plan = {"launcher": None, "check": True, "arrays": {"a": {"points": [entry.name for entry in points[:6]]}}}
    write_json(submission / "plan.json", plan)
    write_json(submission / "jobs.json", {"check": "4", "arrays": {"a": "5"}, "plot": "6"})
    measured(folder, points[0])
    for index, state in ((1, "failed"), (2, "running"), (3, "running"), (4, "running")):
        status = {"state": state, "reason": "it says why", "job": f"5_{index}", "started": 1.0}
        write_json(folder.attempts_of(points[index]) / f"5_{index}.0" / "status.json", status)
    active = {"5_2": JobState("5_2", "RUNNING", "", "0:10"), "4": JobState("4", "RUNNING")}
    over = {"5_3": JobState("5_3", "OUT_OF_MEMORY"), "5_5": JobState("5_5", "CANCELLED", "DependencyNeverSatisfied")}
    entries = progress.progress(folder, active, over)
    assert [entry.state for entry in entries] == [
        "finished", "failed", "running", "lost", "lost", "cancelled", "not submitted",
    ]  # fmt: skip
    assert entries[1].detail == "it says why"
    assert "took more memory" in entries[3].detail
    assert "without a word" in entries[4].detail
    assert progress.checks(folder, active) == ["launcher: being checked by job 4"]


def test_an_attempt_of_an_earlier_job_says_nothing_about_the_last_one(tmp_path: Path) -> None:
    folder, only = Folder(tmp_path), sweep().points[0]
    folder.save_sweep(Sweep(SETTINGS, (only,)))
    for job in ("5", "7"):
        submission = folder.new_submission()
        write_json(submission / "plan.json", {"arrays": {"a": {"points": [only.name]}}})
        write_json(submission / "jobs.json", {"arrays": {"a": job}})
    status = {"state": "failed", "reason": "old", "job": "5_0", "started": 1.0}
    write_json(folder.attempts_of(only) / "5_0.0" / "status.json", status)
    (entry,) = progress.progress(folder, {}, {})
    assert (entry.state, entry.job) == ("lost", "7_0")


def test_a_point_with_a_result_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    outcome = submit.submit(folder, sweep(), DRY)
    assert outcome.folder is not None
    folder.save_sweep(sweep())
    measured(folder, sweep().points[0])
    monkeypatch.setattr(point, "_measure", lambda *_: pytest.fail("it was measured"))
    assert point.run_point(folder, outcome.folder, "1x2-device", 0) == 0
    assert not folder.attempts_of(sweep().points[0]).exists()


# ---- collecting ------------------------------------------------------------------------------------------------------


def test_speedup_is_over_the_fewest_devices_of_the_same_size_and_missing_points_are_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    points = all_points(nodes=[1, 2], devices_per_node=[1, 2], layouts=["device", "node"], sizes=[64], runs=3)
    folder.save_sweep(Sweep(SETTINGS, points))
    times = {Shape(1, 1, "device"): 120.0, Shape(1, 2, "device"): 80.0, Shape(2, 2, "device"): 40.0}
    for entry in points:
        if entry.shape in times:
            measured(folder, entry, times[entry.shape] + entry.repetition - 1)
    text, pictures, problems = collect.collect(folder)
    rows = {row["devices"]: row for line in json.loads((tmp_path / "results.json").read_text())["series"] for row in
            line["rows"] if row["us_per_step"] is not None}  # fmt: skip
    assert {devices: row["speedup"] for devices, row in rows.items()} == {1: 1.0, 2: 1.5, 4: 3.0}
    assert rows[4]["efficiency"] == 0.75
    assert rows[2]["runs_us_per_step"] == [79.0, 80.0, 81.0]
    assert "3 of 3" in text
    assert "0 of 3" in text
    assert len(problems) == len([entry for entry in points if entry.shape not in times])
    assert all("is missing (not measured yet)" in problem for problem in problems)
    assert [file.suffix for file in pictures] == [".png", ".svg"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_layouts_share_the_single_device_where_device_counts_are_distinct() -> None:
    shapes = [
        Shape(1, width, layout) for width in (1, 2, 4) for layout in (("device",) if width == 1 else ("device", "node"))
    ]
    rows = [
        {
            "size": 64,
            "layout": shape.layout,
            "devices": shape.devices,
            "devices_per_node": shape.devices_per_node,
            "us_per_step": 100.0 / shape.devices,
        }
        for shape in shapes
    ]
    lines = collect.series(rows)
    assert [line["label"] for line in lines] == ["size 64, one rank per device", "size 64, one rank per node"]
    assert [[row["devices"] for row in line["rows"]] for line in lines] == [[1, 2, 4], [1, 2, 4]]


def test_results_of_different_versions_or_launchers_are_pointed_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.save_sweep(sweep((1,)))
    for entry, version in zip(sweep((1,)).points, ("abc", "def"), strict=True):
        changed = result_of(entry)
        changed["origin"] |= {"version": version, "launcher": f"mpiexec of {version}"}
        write_json(folder.result_file(entry), changed)
    _, _, problems = collect.collect(folder)
    assert "different versions of the code: abc, def" in problems[0]
    assert "different launchers" in problems[1]


def test_collecting_nothing_makes_no_plot(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        collect.collect(folder)
    folder.save_sweep(sweep())
    text, pictures, problems = collect.collect(folder)
    assert "0 of 2" in text
    assert pictures == []
    assert len(problems) == 4
