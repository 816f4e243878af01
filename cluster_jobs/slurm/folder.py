# SPDX-License-Identifier: MIT
"""The folder of a sweep, from which everything can be told again after any process has died at any moment.

sweep.json                               the points and their settings
points/POINT/result.json                 appears whole or not at all; whoever finds it does not measure again
points/POINT/attempts/JOB/               output of the application in a job, and status.json
submissions/NNN/                         the scripts of a `submit`, plan.json, jobs.json, launcher.json
logs/                                    output of the jobs themselves
table.txt, results.json, speedup.png     what `collect` made of it
"""

from __future__ import annotations

import contextlib
import fcntl
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster_jobs.files import read_json, write_json
from cluster_jobs.slurm.sweep import Point, Settings, Sweep, point_from_json, sweep_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator


class Folder:
    """Reads and writes the files of a sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    # ---- the plan --------------------------------------------------------------------------------------------------

    def sweep(self) -> Sweep:
        """The sweep that this folder holds.

        Raises:
            FileNotFoundError: If nothing was ever submitted.
            ValueError: If its description is damaged.
        """
        file = self.path / "sweep.json"
        if not file.exists():
            raise FileNotFoundError(f"{self.path} holds no sweep: nothing was submitted with this folder.")
        try:
            return sweep_from_json(read_json(file))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{file} does not describe a sweep: {error!r}") from error

    def has_sweep(self) -> bool:
        """Whether something was submitted with this folder."""
        return (self.path / "sweep.json").exists()

    def save_sweep(self, sweep: Sweep) -> None:
        """Keep the plan."""
        write_json(self.path / "sweep.json", sweep.to_json())

    def forget_sweep(self) -> None:
        """Be a folder with which nothing was ever submitted."""
        (self.path / "sweep.json").unlink(missing_ok=True)

    @property
    def logs(self) -> Path:
        """The folder for the output of the jobs."""
        return self.path / "logs"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other submits out, which would not know of the jobs of this one.

        Raises:
            BlockingIOError: If another one is at it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go when the process ends, however it ends
            yield

    # ---- points ----------------------------------------------------------------------------------------------------

    def result_file(self, point: Point) -> Path:
        """Where the result of a point is, or will be."""
        return self.path / "points" / point.name / "result.json"

    def result(self, point: Point, settings: Settings) -> dict[str, Any] | None:
        """The result of a point, if there is a whole one of this very point with these settings."""
        result = read_json(self.result_file(point))
        try:
            if point_from_json(result["point"]) != point or result["settings"] != settings.to_json():
                return None
            time_us = float(result["figures"]["us_per_step"])
        except (KeyError, TypeError, ValueError):
            return None
        return result if math.isfinite(time_us) and time_us > 0 else None

    def attempts_of(self, point: Point) -> Path:
        """The folder for the output of the application."""
        return self.path / "points" / point.name / "attempts"

    def last_attempt(self, point: Point) -> dict[str, Any] | None:
        """The status of the attempt that began last."""
        statuses = [read_json(file) for file in self.attempts_of(point).glob("*/status.json")]
        return max((status for status in statuses if status), key=lambda status: float(status["started"]), default=None)

    # ---- submissions -----------------------------------------------------------------------------------------------

    def new_submission(self) -> Path:
        """Make the folder of a submission."""
        submissions = self.path / "submissions"
        submissions.mkdir(parents=True, exist_ok=True)
        number = max((int(path.name) for path in submissions.iterdir() if path.name.isdecimal()), default=0) + 1
        submission = submissions / f"{number:03}"
        submission.mkdir()
        return submission

    def submissions(self) -> list[Path]:
        """The folders of all submissions, oldest first."""
        return sorted(path for path in (self.path / "submissions").glob("*") if path.name.isdecimal())

    def jobs(self) -> dict[str, list[str]]:
        """Name of a point -> its array tasks as Slurm writes them, such as `17_3`, oldest first."""
        tasks: dict[str, list[str]] = {}
        for submission in self.submissions():
            plan, jobs = read_json(submission / "plan.json") or {}, read_json(submission / "jobs.json") or {}
            for array, job in jobs.get("arrays", {}).items():
                for index, name in enumerate(plan["arrays"][array]["points"]):
                    tasks.setdefault(name, []).append(f"{job}_{index}")
        return tasks
