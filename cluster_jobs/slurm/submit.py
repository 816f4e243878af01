# SPDX-License-Identifier: MIT
"""Plans a sweep, leaves out what has a result or is in the queue already, and submits the rest."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_jobs.files import read_json, write_json, write_whole
from cluster_jobs.processes import ROOT, python_path
from cluster_jobs.slurm import states
from cluster_jobs.slurm.scripts import job_script
from cluster_jobs.slurm.states import SlurmError, slurm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster_jobs.slurm.folder import Folder
    from cluster_jobs.slurm.sweep import Point, Shape, Sweep

_APPS = ROOT / "cluster_jobs" / "apps"
_NEEDED_ARGUMENTS = ("--size", "--steps", "--benchmark")
_CHECK_NODES = 2


@dataclass(frozen=True)
class Request:
    """The options of the jobs, besides the points."""

    time: str  # of each point, as sbatch takes it
    cpus_per_rank: int | None = None  # None: an equal share of a node
    launcher: str | None = None  # None: whichever the check finds
    check: bool = True
    at_once: int | None = None  # tasks of an array; None: as many as fit
    options: tuple[str, ...] = ()  # of sbatch
    setup: tuple[str, ...] = ()  # lines of shell
    dry_run: bool = False


@dataclass(frozen=True)
class Submitted:
    """The requested points, by their fate."""

    finished: list[Point]
    queued: list[Point]
    submitted: list[Point]
    folder: Path | None = None  # of the submission
    notes: tuple[str, ...] = ()


def check_app(name: str) -> None:
    """Make sure that an application can be measured.

    Raises:
        ValueError: If it cannot, or does not exist; with those that can.
    """
    file = _APPS / f"{name}.py"
    if not re.fullmatch(r"\w+", name) or not file.exists():
        raise ValueError(f"There is no application {name!r}; those with --benchmark: {', '.join(measurable_apps())}.")
    result = subprocess.run(  # noqa: S603 - an application of this repository
        [sys.executable, str(file), "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    if result.returncode != 0:
        raise ValueError(f"{file} --help fails: {result.stderr.strip()[-1000:]}")
    missing = [argument for argument in _NEEDED_ARGUMENTS if not re.search(rf"{argument}\b", result.stdout)]
    if missing:
        raise ValueError(
            f"{name} has no {' and no '.join(missing)}, and cannot be measured; these can: "
            f"{', '.join(measurable_apps())}."
        )


def measurable_apps() -> list[str]:
    """The applications with `--benchmark`, by their text."""
    return [
        file.stem
        for file in sorted(_APPS.glob("*.py"))
        if "frame.add_benchmark_arguments(" in file.read_text() and file.stem != "frame"
    ]


def cpus_per_node(options: Sequence[str]) -> int:
    """Cores of the smallest node of the partition that the jobs go to.

    Raises:
        SlurmError: If Slurm does not tell.
    """
    named = [option.partition("=")[2] for option in options if option.startswith("--partition=")]
    wanted = ["--partition=" + named[-1]] if named else []
    try:
        told = slurm("sinfo", "--noheader", "--format=%P|%c", *wanted)
    except SlurmError as error:
        raise SlurmError(
            f"How many cores a node has is not known: {error} Give --cpus-per-rank to do without."
        ) from None
    lines = [line.split("|") for line in told.splitlines()]
    counts = [int(cpus.rstrip("+")) for partition, cpus in lines if named or partition.endswith("*")]
    if not counts:
        raise SlurmError("sinfo names no default partition: choose one with --partition, or give --cpus-per-rank.")
    return min(counts)


def submit(folder: Folder, sweep: Sweep, request: Request) -> Submitted:
    """Submit the points that need it.

    Raises:
        SettingsDifferError: If the folder holds results of other settings.
        SlurmError: If Slurm refuses.
        BlockingIOError: If another submit is at work in the folder.
    """
    with folder.locked():
        everything = folder.sweep().extended_by(sweep) if folder.has_sweep() else sweep
        active = {} if request.dry_run else states.queued()
        jobs = folder.jobs()
        finished, queued, to_submit = [], [], []
        for point in sweep.points:
            if folder.result(point, sweep.settings) is not None:
                finished.append(point)
            elif any(job in active for job in jobs.get(point.name, ())):
                queued.append(point)
            else:
                to_submit.append(point)
        if not to_submit:
            return Submitted(finished, queued, to_submit)
        arrays = _arrays(to_submit, request)  # may fail; nothing is written before
        with _undone_if_refused(folder) as submission:
            if not request.dry_run:  # else the folder would refuse other settings afterwards
                folder.save_sweep(everything)
            plan = {"launcher": request.launcher, "check": request.check, "arrays": arrays}
            write_json(submission / "plan.json", plan)
            _write_scripts(folder, submission, sweep, arrays, request)
            notes = () if request.dry_run else _submit_scripts(submission, arrays, request)
        return Submitted(finished, queued, to_submit, submission, notes)


@contextlib.contextmanager
def _undone_if_refused(folder: Folder) -> Iterator[Path]:
    """Make a submission; if it is refused before any point has a job, the folder becomes what it was.

    Otherwise the refused settings would stay, and the folder would refuse the corrected ones.
    """
    before = folder.sweep() if folder.has_sweep() else None
    had_logs = folder.logs.exists()
    submission = folder.new_submission()
    try:
        yield submission
    except (SlurmError, ValueError):
        jobs = read_json(submission / "jobs.json") or {}
        if jobs.get("arrays"):
            raise
        if jobs.get("check"):
            with contextlib.suppress(SlurmError):  # over already, perhaps
                slurm("scancel", jobs["check"])
        shutil.rmtree(submission)
        if not had_logs:
            shutil.rmtree(folder.logs, ignore_errors=True)
        if before is None:
            folder.forget_sweep()
        else:
            folder.save_sweep(before)
        raise


def _arrays(points: Sequence[Point], request: Request) -> dict[str, dict[str, Any]]:
    """Name of a shape -> its points, and the cores of a rank."""
    arrays: dict[str, dict[str, Any]] = {}
    cpus = None if request.cpus_per_rank is not None else cpus_per_node(request.options)
    for point in points:
        share = request.cpus_per_rank or max(1, (cpus or 1) // point.shape.ranks_per_node)
        arrays.setdefault(point.shape.name, {"points": [], "cpus_per_rank": share})["points"].append(point.name)
    return arrays


def _write_scripts(
    folder: Folder, submission: Path, sweep: Sweep, arrays: dict[str, dict[str, Any]], request: Request
) -> None:
    settings = {"FOLDER": str(folder.path), "SUBMISSION": str(submission)}
    logs = folder.logs
    logs.mkdir(exist_ok=True)
    app, backend = sweep.settings.app, sweep.settings.backend
    shapes = {point.shape.name: point.shape for point in sweep.points}

    def write(template: str, name: str, options: dict[str, str], **more: str) -> None:
        text = job_script(
            template, options, more_options=request.options, settings={**settings, **more}, setup=request.setup
        )
        write_whole(submission / f"{name}.sbatch", text)

    for name, array in arrays.items():
        throttle = f"%{request.at_once}" if request.at_once else ""
        options = {
            "job-name": f"{app}-{name}",
            **_resources(shapes[name], array["cpus_per_rank"], backend),
            "time": request.time,
            "array": f"0-{len(array['points']) - 1}{throttle}",
            "output": f"{logs}/%x-%A_%a.txt",
        }
        write("points", name, options, ARRAY=name)
    if request.check:
        shape, cpus = _shape_to_check(arrays, shapes)
        options = {"job-name": f"{app}-check", **_resources(shape, cpus, backend), "output": f"{logs}/%x-%j.txt"}
        write("check", "check", options)
    write("plot", "plot", {"job-name": f"{app}-plot", "output": f"{logs}/%x-%j.txt"})


def _resources(shape: Shape, cpus_per_rank: int, backend: str) -> dict[str, str]:
    resources = {
        "nodes": str(shape.nodes),
        "ntasks-per-node": str(shape.ranks_per_node),
        "cpus-per-task": str(cpus_per_rank),
    }
    return resources | ({"gpus-per-node": str(shape.devices_per_node)} if backend == "cuda" else {})


def _shape_to_check(arrays: dict[str, dict[str, Any]], shapes: dict[str, Shape]) -> tuple[Shape, int]:
    """The shape with most ranks, on as few nodes as show whether nodes are connected."""
    name = max(arrays, key=lambda name: (shapes[name].nodes > 1, shapes[name].ranks_per_node))
    largest = shapes[name]
    nodes = min(_CHECK_NODES, largest.nodes)
    return type(largest)(nodes, largest.devices_per_node, largest.layout), int(arrays[name]["cpus_per_rank"])


def _submit_scripts(submission: Path, arrays: dict[str, Any], request: Request) -> tuple[str, ...]:
    """Submit check, arrays and plot; notes on missing results."""
    jobs: dict[str, Any] = {"check": None, "arrays": {}, "plot": None}
    dependency: list[str] = []
    if request.check:
        jobs["check"] = _sbatch(submission / "check.sbatch")
        write_json(submission / "jobs.json", jobs)
        # Otherwise they would wait for ever if the check fails.
        dependency = [f"--dependency=afterok:{jobs['check']}", "--kill-on-invalid-dep=yes"]
    for name in arrays:
        jobs["arrays"][name] = _sbatch(submission / f"{name}.sbatch", *dependency)
        write_json(submission / "jobs.json", jobs)  # after each: no submitted job must be forgotten
    try:
        jobs["plot"] = _sbatch(submission / "plot.sbatch", f"--dependency=afterany:{':'.join(jobs['arrays'].values())}")
    except SlurmError as error:  # a partition for GPUs only, perhaps
        return (f"The job for the plot was refused; collect by hand. {error}",)
    write_json(submission / "jobs.json", jobs)
    return ()


def _sbatch(script: Path, *options: str) -> str:
    return slurm("sbatch", "--parsable", *options, str(script)).strip().partition(";")[0]
