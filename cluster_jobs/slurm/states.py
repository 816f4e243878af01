# SPDX-License-Identifier: MIT
"""The states of jobs by Slurm: `squeue` for current jobs, `scontrol` and `sacct` for those that have ended.

`sacct` needs a database that many installations (and the local cluster of the tests) do not have; `scontrol` forgets a
job some minutes after its end. What a job has left in its folder therefore comes first, and this only fills the gaps.
"""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LIMIT_S = 60
_QUEUE_FORMAT = "%i|%T|%r|%M|%N"
_ACTIVE = {
    "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
    "RESIZING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "RESV_DEL_HOLD",
}  # fmt: skip
_EXPLANATIONS = {
    "TIMEOUT": "ran into its time limit",
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "took more memory than it was given",
    "NODE_FAIL": "lost a node",
    "PREEMPTED": "made room for another job",
    "BOOT_FAIL": "got a node that did not start",
    "DEADLINE": "could not end before its deadline",
    "FAILED": "failed",
    "COMPLETED": "ended",
}


class SlurmError(RuntimeError):
    """Slurm is not there, or refuses."""


@dataclass(frozen=True)
class JobState:
    """A job or array task as Slurm sees it."""

    job: str  # "17", or "17_3" for a task of an array
    state: str  # as squeue spells it: "RUNNING"
    reason: str = ""  # why it waits, or was ended
    detail: str = ""  # how long it has run, or its exit code
    ran_s: int | None = None
    limit_s: int | None = None  # None: it has none, or is not known

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in _ACTIVE

    def explained(self) -> str:
        """As the end of a sentence."""
        reason = f" ({self.reason})" if self.reason not in {"", "None"} else ""
        return f"{_EXPLANATIONS.get(self.state, f'ended as {self.state}')}{reason}"


def slurm(*command: str) -> str:
    """Run a command of Slurm and return its output.

    Raises:
        SlurmError: If it does not exist, fails, or does not answer.
    """
    path = shutil.which(command[0])
    if path is None:
        raise SlurmError(f"There is no {command[0]} on the PATH: is this a login node of a cluster with Slurm?")
    try:
        result = subprocess.run(  # noqa: S603 - commands of Slurm, arguments are no shell's
            [path, *command[1:]], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} has not answered within {_LIMIT_S} s.") from None
    if result.returncode != 0:
        raise SlurmError(f"{' '.join(command)}: {(result.stderr or result.stdout).strip() or 'failed'}")
    return result.stdout


def parse_squeue(text: str) -> dict[str, JobState]:
    """Jobs by id, from `squeue --array --noheader` in our format."""
    states = {}
    for line in text.splitlines():
        if line.count("|") < 4:
            continue
        job, state, reason, elapsed, _nodes = line.strip().split("|", 4)
        states[job] = JobState(job, state, "" if reason == "None" else reason, elapsed)
    return states


def parse_scontrol(text: str) -> dict[str, JobState]:
    """Jobs by id, from `scontrol --oneliner show job`; array tasks that have not been told apart yet are left out."""
    states = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\S+?)=(\S*)", line))
        if "JobState" not in fields:
            continue
        job = fields["JobId"]
        if "ArrayJobId" in fields:
            if not fields.get("ArrayTaskId", "").isdecimal():
                continue  # "4-7%2": several that wait
            job = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"
        states[job] = JobState(
            job,
            fields["JobState"],
            fields.get("Reason", ""),
            fields.get("ExitCode", ""),
            parse_duration(fields.get("RunTime", "")),
            parse_duration(fields.get("TimeLimit", "")),
        )
    return states


def parse_duration(text: str) -> int | None:
    """Seconds of Slurm's `[days-]hours:minutes:seconds`; None for `UNLIMITED` and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_sacct(text: str) -> dict[str, JobState]:
    """Jobs by id, from `sacct --allocations --noheader --parsable2 --format=JobID,State,ExitCode`."""
    states = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) < 3 or not re.fullmatch(r"\d+(_\d+)?", fields[0]):
            continue
        state, _, by = fields[1].partition(" ")  # "CANCELLED by 1000"
        states[fields[0]] = JobState(fields[0], state, by, fields[2])
    return states


def queued() -> dict[str, JobState]:
    """All jobs of this user that wait or run.

    Raises:
        SlurmError: If it cannot be asked.
    """
    everything = parse_squeue(
        slurm("squeue", "--array", "--noheader", f"--user={getpass.getuser()}", f"--format={_QUEUE_FORMAT}")
    )
    return {job: state for job, state in everything.items() if state.is_active}


def ended(jobs: Iterable[str]) -> dict[str, JobState]:
    """The records of jobs (ids without the task of an array) that have ended; Slurm may have forgotten them."""
    states: dict[str, JobState] = {}
    wanted = sorted({job.split("_")[0] for job in jobs}, key=int)
    if wanted:
        states.update(_or_nothing("sacct", wanted))
    for job in wanted:
        states.update(_or_nothing("scontrol", [job]))
    return states


def _or_nothing(source: str, jobs: Sequence[str]) -> dict[str, JobState]:
    try:
        if source == "scontrol":
            return parse_scontrol(slurm("scontrol", "--oneliner", "show", "job", jobs[0]))
        listed = ",".join(jobs)
        fields = "--format=JobID,State,ExitCode"
        return parse_sacct(slurm("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={listed}", fields))
    except SlurmError:
        return {}  # forgotten, or no accounting
