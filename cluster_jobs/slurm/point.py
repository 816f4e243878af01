# SPDX-License-Identifier: MIT
"""Runs one point of a sweep inside a job, and leaves a result or the reason why there is none.

Safe to repeat: a point with a result is left alone, every attempt has a folder of its own, and the result appears in
one piece. So a job that is requeued, submitted twice, or killed at any moment neither loses nor mixes anything up.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celerity_py.tools.cli.launchers import find_mpi, first_status, last_words
from cluster_jobs.benchmarks import environment
from cluster_jobs.benchmarks.launching import devices_of
from cluster_jobs.files import read_json, write_json
from cluster_jobs.processes import ROOT, end_group, python_path
from cluster_jobs.slurm import launchers, states
from cluster_jobs.slurm.launchers import Processes
from cluster_jobs.slurm.version import code_version

if TYPE_CHECKING:
    from types import FrameType

    from cluster_jobs.slurm.folder import Folder
    from cluster_jobs.slurm.sweep import Point, Shape, Sweep


class PointError(RuntimeError):
    """A point has no result; the message says why."""


class _Ended(BaseException):
    """Slurm has sent SIGTERM: the time is up, or somebody has cancelled the job."""


def run_point(folder: Folder, submission: Path, array: str, index: int) -> int:
    """Run the point of an array task, unless it has a result; the exit status of the job."""
    plan = read_json(submission / "plan.json")
    sweep = folder.sweep()
    name = plan["arrays"][array]["points"][index]
    point = next(point for point in sweep.points if point.name == name)
    if folder.result(point, sweep.settings) is not None:
        print(f"{name} has its result already.")
        return 0

    job = this_job()
    attempt = folder.attempts_of(point) / f"{job}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"
    attempt.mkdir(parents=True, exist_ok=True)
    status: dict[str, Any] = {"state": "running", "reason": "", "job": job, "started": time.time()}
    status["host"] = socket.gethostname()
    write_json(attempt / "status.json", status)
    signal.signal(signal.SIGTERM, _raise_ended)
    try:
        launcher, vendor = _launcher(submission, plan, point.shape, array, sweep.settings.backend)
        figures = _measure(sweep, point, attempt, _command(sweep, point, launcher, vendor, plan["arrays"][array]))
        _save(folder, sweep, point, figures, {"job": job, "launcher": launcher})
        status |= {"state": "finished"}
    except _Ended:
        status |= _why_ended(job)
    except (PointError, states.SlurmError, OSError) as error:
        ended = _why_ended(job)  # the ranks may have got their SIGTERM before we had ours
        status |= ended if ended["state"] != "ended" else {"state": "failed", "reason": str(error)}
    status["ended"] = time.time()
    write_json(attempt / "status.json", status)
    print(f"{name}: {status['state']}{': ' if status['reason'] else ''}{status['reason']}", flush=True)
    return 0 if status["state"] == "finished" else 1


def this_job() -> str:
    """As Slurm writes it: `17`, or `17_3` in an array."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID", "none")


def _raise_ended(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough; what follows must not be interrupted
    raise _Ended


def _why_ended(job: str) -> dict[str, str]:
    """The state of this job by Slurm and the reason for its end; `state` is "ended" if Slurm did not end it."""
    known = states.ended([job]).get(job)
    if known is None or known.state != "COMPLETING":
        return {"state": "ended", "reason": "it was told to end, but not by Slurm"}
    # Why it is ending is told only afterwards; how long it was allowed to run, and has run, now.
    if known.limit_s is not None and known.ran_s is not None and known.ran_s >= known.limit_s:
        return {"state": "time limit", "reason": f"job {job} ran into its time limit of {known.limit_s} s"}
    return {
        "state": "cancelled",
        "reason": f"job {job} was ended by Slurm after {known.ran_s} s: cancelled, or preempted",
    }


def _launcher(submission: Path, plan: dict[str, Any], shape: Shape, array: str, backend: str) -> tuple[str, str]:
    """The launcher that the check has found good, or the one that is to be taken without a check; and MPI's vendor."""
    checked = read_json(submission / "launcher.json")
    if checked is not None and checked["launcher"]:
        return checked["launcher"], checked["mpi"]["vendor"]
    if plan["launcher"] and not plan["check"]:
        return plan["launcher"], find_mpi().vendor
    choice = launchers.choose(processes_of(shape, plan["arrays"][array]["cpus_per_rank"], backend), plan["launcher"])
    if choice.launcher is None:
        raise PointError(choice.explanation)
    return choice.launcher, choice.mpi.vendor


def processes_of(shape: Shape, cpus_per_rank: int, backend: str) -> Processes:
    """The ranks of a shape."""
    return Processes(
        shape.nodes, shape.ranks_per_node, cpus_per_rank, shape.devices_per_node if backend == "cuda" else 0
    )


def _command(sweep: Sweep, point: Point, launcher: str, vendor: str, array: dict[str, Any]) -> list[str]:
    settings, shape = sweep.settings, point.shape
    layout = "rank" if shape.layout == "device" else "process"
    variables = devices_of(settings.backend, layout, shape.devices_per_node)
    if settings.backend == "cuda":
        variables.pop(
            "CELERITY_DEVICES", None
        )  # all that the job was given, whether or not the launcher has divided them
    given = [f"{name}={value}" for name, value in {**variables, "PYTHONPATH": python_path()}.items()]
    program = [sys.executable, str(ROOT / "cluster_jobs" / "apps" / f"{settings.app}.py"), "--size", str(point.size)]
    steps = [] if settings.steps is None else ["--steps", str(settings.steps)]
    start = launchers.command(launcher, processes_of(shape, array["cpus_per_rank"], settings.backend), vendor)
    # By env, because not every launcher takes variables to other nodes.
    return [*start, "env", *given, *settings.variables, *program, *steps, "--benchmark", *settings.arguments]


def _measure(sweep: Sweep, point: Point, attempt: Path, words: list[str]) -> dict[str, Any]:
    """Run the application; its figures.

    Raises:
        PointError: If it fails, or has run on something else than asked for.
    """
    print(f"{shlex.join(words)}\n  on {os.environ.get('SLURM_JOB_NODELIST', socket.gethostname())}", flush=True)
    output, errors = attempt / "stdout.txt", attempt / "stderr.txt"
    with output.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(  # noqa: S603 - an application of this repository
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            returncode = process.wait()
        except _Ended:
            end_group(process)
            raise
    if returncode != 0:
        told = errors.read_text(errors="replace")
        said = last_words(told or output.read_text(errors="replace"))
        raise PointError(f"{sweep.settings.app} ended with status {first_status(returncode, told)}: {said}")
    return read_figures(output.read_text(errors="replace"), point)


def read_figures(output: str, point: Point) -> dict[str, Any]:
    """The figures that an application printed, if they are of this point.

    Raises:
        PointError: If there are none, or several, or they were measured on something else.
    """
    found = []
    for line in output.splitlines():
        try:
            figures = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(figures, dict) and "us_per_step" in figures:
            found.append(figures)
    if not found:
        raise PointError(f"it has ended with success but printed no figures: {last_words(output)}")
    shape = point.shape
    if len(found) > 1:
        raise PointError(
            f"{len(found)} processes have printed figures: each has run the whole program for itself. The launcher and "
            "MPI do not fit together; submit without --no-check to find one that does."
        )
    expected = {"size": point.size, "ranks": shape.ranks, "devices_per_rank": shape.devices_per_rank}
    wrong = [
        f"{key} is {found[0].get(key)} instead of {value}"
        for key, value in expected.items()
        if found[0].get(key) != value
    ]
    if wrong:
        raise PointError(f"it has run on something else than {shape}: {', '.join(wrong)}")
    time_us = found[0]["us_per_step"]
    if not isinstance(time_us, int | float) or not math.isfinite(time_us) or time_us <= 0:
        raise PointError(f"us_per_step is {time_us!r}")
    return found[0]


def _save(folder: Folder, sweep: Sweep, point: Point, figures: dict[str, Any], origin: dict[str, str]) -> None:
    if folder.result(point, sweep.settings) is not None:
        return  # another job was faster; its result stays
    result = {
        "point": point.to_json(),
        "settings": sweep.settings.to_json(),
        "figures": figures,
        "origin": {
            **origin,
            "version": code_version(),
            "nodes": os.environ.get("SLURM_JOB_NODELIST", socket.gethostname()),
            "time": time.time(),
            "environment": environment.describe(),
        },
    }
    write_json(folder.result_file(point), result)
