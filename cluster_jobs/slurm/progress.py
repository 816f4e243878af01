# SPDX-License-Identifier: MIT
"""The progress of a sweep: from its folder first, then from Slurm."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from cluster_jobs.files import read_json
from cluster_jobs.slurm import states

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cluster_jobs.slurm.folder import Folder
    from cluster_jobs.slurm.states import JobState
    from cluster_jobs.slurm.sweep import Point

_POLL_S = 3.0
_COLOURS = {"finished": "green", "running": "cyan", "waiting": "cyan", "not submitted": "dim"}


@dataclass(frozen=True)
class Progress:
    """Of one point."""

    point: Point
    state: str  # finished, waiting, running, failed, time limit, cancelled, lost, not submitted
    job: str
    detail: str


def progress(folder: Folder, active: Mapping[str, JobState], over: Mapping[str, JobState]) -> list[Progress]:
    """Tell the state of every point.

    Args:
        folder: Of the sweep.
        active: Jobs that wait or run.
        over: What Slurm still knows of others.
    """
    sweep, jobs = folder.sweep(), folder.jobs()
    entries = []
    for point in sweep.points:
        result = folder.result(point, sweep.settings)
        if result is not None:
            time_us = result["figures"]["us_per_step"]
            entries.append(Progress(point, "finished", result["origin"]["job"], f"{time_us:.1f} µs per step"))
        else:
            entries.append(_without_result(folder, point, jobs.get(point.name, []), active, over))
    return entries


def _without_result(
    folder: Folder,
    point: Point,
    jobs: list[str],
    active: Mapping[str, JobState],
    over: Mapping[str, JobState],
) -> Progress:
    for job in reversed(jobs):
        if job in active:
            queued = active[job]
            is_waiting = queued.state in {"PENDING", "CONFIGURING"}
            detail = queued.reason if is_waiting else f"for {queued.detail}"
            return Progress(point, "waiting" if is_waiting else "running", job, detail)
    if not jobs:
        return Progress(point, "not submitted", "", "")
    job, attempt = jobs[-1], folder.last_attempt(point)
    own = attempt["state"] if attempt is not None and attempt["job"] == job else "running"
    if attempt is not None and (own in {"failed", "time limit"} or (own != "running" and job not in over)):
        return Progress(point, own, job, attempt["reason"])
    if job in over:  # killed before it could say anything, or before it could know why; or never begun
        state = {"TIMEOUT": "time limit", "CANCELLED": "cancelled"}.get(over[job].state, "lost")
        return Progress(point, state, job, f"job {job} {over[job].explained()}")
    return Progress(point, "lost", job, f"job {job} has ended without a word, and Slurm has forgotten it")


def checks(folder: Folder, active: Mapping[str, JobState]) -> list[str]:
    """A line or more on the check of the last submission."""
    submissions = folder.submissions()
    if not submissions:
        return []
    submission: Path = submissions[-1]
    plan, jobs = read_json(submission / "plan.json") or {}, read_json(submission / "jobs.json") or {}
    if not plan.get("check", True):
        return [f"launcher: {plan['launcher'] or 'each job finds one'}, not checked beforehand"]
    choice = read_json(submission / "launcher.json")
    if choice is None:
        job = jobs.get("check")
        if job is None:
            return []
        return [
            f"launcher: being checked by job {job}"
            if job in active
            else f"launcher: its check, job {job}, left nothing"
        ]
    if choice["launcher"]:
        return [f"launcher: {choice['launcher']} (checked)", *_warnings(choice)]
    return ["launcher: none", *(f"  {line}" for line in choice["explanation"].splitlines())]


def _warnings(choice: dict[str, Any]) -> list[str]:
    return [f"  {warning}" for trial in choice["trials"] for warning in trial["warnings"]]


def now(folder: Folder) -> tuple[list[Progress], list[str]]:
    """Ask Slurm, and tell the state of every point, and of the check.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    active = states.queued()
    jobs = [tasks[-1] for tasks in folder.jobs().values() if tasks[-1] not in active]
    return progress(folder, active, states.ended(jobs)), checks(folder, active)


def wait(folder: Folder, limit_s: float) -> bool:
    """Wait until no job of the sweep waits or runs, its plot included; whether that came within the limit.

    Raises:
        SlurmError: If Slurm does not answer.
    """
    deadline = time.monotonic() + limit_s
    while True:
        mine = {job for tasks in folder.jobs().values() for job in tasks}
        for submission in folder.submissions():
            jobs = read_json(submission / "jobs.json") or {}
            mine |= {str(jobs.get(kind)) for kind in ("check", "plot")}
        if not mine & set(states.queued()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def table(points: list[Progress]) -> Table:
    """One line per point."""
    shown = Table()
    for column in ("point", "state", "job", "detail"):
        shown.add_column(column, overflow="fold")
    for entry in points:
        colour = _COLOURS.get(entry.state, "red")
        shown.add_row(entry.point.name, f"[{colour}]{entry.state}[/]", entry.job, entry.detail.replace("[", "\\["))
    return shown


def summary(points: list[Progress]) -> str:
    """The number of points by state."""
    counts = Counter(entry.state for entry in points)
    return f"{len(points)} point(s): " + ", ".join(f"{count} {state}" for state, count in counts.items())
