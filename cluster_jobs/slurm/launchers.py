# SPDX-License-Identifier: MIT
"""Which command connects the ranks of a job: candidates from what Slurm and MPI offer, tried in the allocation itself.

`srun` and an MPI library that do not fit together often fail without a word: every process is rank 0 of 1, and the exit
status is 0. And what is offered need not be usable: `srun --mpi=list` names plug-ins whose library is missing. So a
candidate counts only when its ranks have found each other.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celerity_py.errors import LaunchError
from celerity_py.tools.cli.launchers import (
    Mpi,
    candidates,
    find_mpi,
    find_mpiexec,
    first_status,
    last_words,
    offered_interfaces,
)
from cluster_jobs.processes import end_group, python_path, start
from cluster_jobs.slurm.states import SlurmError

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK_LIMIT_S = 90.0  # a failed step may keep its cores for half a minute, for which the next one waits
# For its proxies, which are processes of their own. Hydra binds nothing.
_OPEN_MPI_OPTIONS = ("--bind-to", "none")


@dataclass(frozen=True)
class Processes:
    """The ranks to start."""

    nodes: int
    per_node: int
    cpus_per_rank: int | None = None  # None: Slurm's own number
    gpus_per_node: int = 0  # how many the ranks of a node should see, all together; 0: none is needed

    @property
    def count(self) -> int:
        """Of all nodes."""
        return self.nodes * self.per_node


def check_launcher_name(launcher: str) -> None:
    """Refuse what we do not know the options of.

    Raises:
        ValueError: If it is neither srun nor mpiexec.
    """
    words = shlex.split(launcher)
    if not words or Path(words[0]).name not in {"srun", "mpiexec", "mpirun", "mpiexec.hydra"}:
        raise ValueError(f"A launcher is srun, mpiexec or mpirun, with options if need be, not {launcher!r}.")


def command(launcher: str, processes: Processes, vendor: str) -> list[str]:
    """The first words of a command for all ranks."""
    words = shlex.split(launcher)
    if Path(words[0]).name == "srun":
        # Said in full: srun would put three of four ranks onto the first of two nodes, and since Slurm 22.05 it does
        # not take over --cpus-per-task of the job. Of the GPUs every rank sees all of its node: the runtime divides
        # them, and can fetch from those of its neighbours.
        options = [f"--nodes={processes.nodes}", f"--ntasks={processes.count}"]
        options += [f"--ntasks-per-node={processes.per_node}", "--kill-on-bad-exit=1", "--input=none"]
        if processes.cpus_per_rank is not None:
            options.append(f"--cpus-per-task={processes.cpus_per_rank}")
        return [*words, *options]
    if vendor == "Open MPI":
        return [*words, "-n", str(processes.count), "--map-by", f"ppr:{processes.per_node}:node", *_OPEN_MPI_OPTIONS]
    return [*words, "-n", str(processes.count), "-ppn", str(processes.per_node)]


# ---- trying --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """The result of trying a launcher."""

    launcher: str
    problem: str  # "": it is good
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For launcher.json."""
        return {"launcher": self.launcher, "problem": self.problem, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class Choice:
    """The launcher of a job, or why there is none."""

    launcher: str | None
    mpi: Mpi
    trials: tuple[Trial, ...]
    explanation: str

    def to_json(self) -> dict[str, Any]:
        """For launcher.json."""
        trials = [trial.to_json() for trial in self.trials]
        mpi = {"vendor": self.mpi.vendor, "version": self.mpi.version}
        return {"launcher": self.launcher, "mpi": mpi, "trials": trials, "explanation": self.explanation}


def choose(processes: Processes, wanted: str | None = None, *, limit_s: float = CHECK_LIMIT_S) -> Choice:
    """Find a launcher that connects the ranks; to be called inside an allocation.

    Args:
        processes: What to start; the allocation must have room for it.
        wanted: The only one that will do. The others are tried only to say which of them would.
        limit_s: For each.

    Raises:
        SlurmError: If there is no MPI, or nothing to try.
    """
    try:
        mpi = find_mpi()
    except LaunchError as error:
        raise SlurmError(f"{error} The option --setup 'module load ...' does so in each job.") from error
    found = candidates(mpi.vendor, offered_interfaces(), find_mpiexec())
    to_try = [wanted, *(other for other in found if other != wanted)] if wanted else found
    if not to_try:
        raise SlurmError(
            f"srun offers nothing that {mpi.label} speaks, and there is no mpiexec beside {sys.executable} or on the "
            "PATH."
        )
    trials: list[Trial] = []
    for launcher in to_try:
        trials.append(try_launcher(launcher, processes, mpi, limit_s=limit_s))
        if not trials[-1].problem:
            break
    good = None if trials[-1].problem else trials[-1].launcher
    chosen = good if wanted in {None, good} else None
    return Choice(chosen, mpi, tuple(trials), explain(mpi, trials, wanted))


def explain(mpi: Mpi, trials: Sequence[Trial], wanted: str | None) -> str:
    """The result in words, for people."""
    lines = [f"{trial.launcher}: {trial.problem or 'connects all ranks'}" for trial in trials]
    good = None if trials[-1].problem else trials[-1].launcher
    if good is None:
        lines.append(
            f"No launcher connects the ranks with {mpi.label}: load another MPI, or ask who runs this cluster."
        )
    elif wanted not in {None, good}:
        lines.append(f"{wanted} does not fit {mpi.label}; {good} does: leave --launcher out, or name that one.")
    return "\n".join(lines)


def try_launcher(launcher: str, processes: Processes, mpi: Mpi, *, limit_s: float = CHECK_LIMIT_S) -> Trial:
    """Start `rank_report.py` and judge its report."""
    program = [sys.executable, "-m", "cluster_jobs.slurm.rank_report"]
    # Not in our own environment: mpiexec of Open MPI takes nothing of that to other nodes.
    words = [*command(launcher, processes, mpi.vendor), "env", f"PYTHONPATH={python_path()}", *program]
    status, output, errors = _run(words, limit_s)
    if status is None:
        return Trial(launcher, f"was not done within {limit_s:g} s")
    reports = _reports(output)
    problem = judge(reports, processes, mpi.label)
    if problem and status != 0 and not reports:
        problem = f"ended with status {first_status(status, errors)}: {last_words(errors or output)}"
    return Trial(launcher, problem, tuple(find_warnings(reports, processes)))


def _run(words: Sequence[str], limit_s: float) -> tuple[int | None, str, str]:
    """Exit status (None: it took too long), output and errors."""
    try:
        process = start(words)
    except OSError as error:
        return 127, "", str(error)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        end_group(process)
        return None, "", ""
    return process.returncode, output, errors


def _reports(output: str) -> list[list[dict[str, Any]]]:
    """One list of ranks per MPI world that has reported."""
    worlds = []
    for line in output.splitlines():
        if line.startswith('{"ranks"'):
            with contextlib.suppress(json.JSONDecodeError):
                worlds.append(json.loads(line)["ranks"])
    return worlds


# ---- judging -------------------------------------------------------------------------------------------------------


def judge(worlds: Sequence[Sequence[dict[str, Any]]], processes: Processes, mpi: str) -> str:
    """The fault of a launch in words; "" if there is none.

    Args:
        worlds: For each COMM_WORLD that has reported, what its ranks see.
        processes: What should have been started.
        mpi: Name of the library.
    """
    if not worlds:
        return "its ranks have not reported"
    if len(worlds) > 1 and all(len(world) == 1 for world in worlds):
        return (
            f"started {len(worlds)} processes, but for MPI ({mpi}) each of them is alone: rank 0 of 1. It would have "
            "run the whole program that many times, and reported success"
        )
    ranks = worlds[0]
    if len(worlds) > 1 or len(ranks) != processes.count:
        return f"gave {len(ranks)} rank(s) instead of {processes.count}"
    per_node = Counter(str(rank["node"]) for rank in ranks)
    if len(per_node) != processes.nodes or set(per_node.values()) != {processes.per_node}:
        spread = ", ".join(f"{count} on {node}" for node, count in sorted(per_node.items()))
        return f"spread the ranks as {spread} instead of {processes.per_node} on each of {processes.nodes} node(s)"
    return _judge_gpus(ranks, processes.gpus_per_node) if processes.gpus_per_node else ""


def _judge_gpus(ranks: Sequence[dict[str, Any]], per_node: int) -> str:
    for node in sorted({str(rank["node"]) for rank in ranks}):
        there = [rank for rank in ranks if rank["node"] == node]
        seen = [frozenset(rank["gpus"]) for rank in there]
        everything = frozenset().union(*seen)
        told = ", ".join(f"rank {rank['rank']}: {rank['cuda_visible_devices']}" for rank in there)
        if not all(seen):
            return f"left a rank on {node} without a GPU (CUDA_VISIBLE_DEVICES of {told})"
        # All see all, and the runtime divides them; or the launcher has.
        divided = len(everything) == sum(len(gpus) for gpus in seen) and len({len(gpus) for gpus in seen}) == 1
        if len(everything) != per_node or not (divided or len(set(seen)) == 1):
            return (
                f"shows {len(everything)} GPU(s) on {node} to its ranks instead of the same {per_node} to all, or an "
                f"equal share to each (CUDA_VISIBLE_DEVICES of {told})"
            )
    return ""


def find_warnings(worlds: Sequence[Sequence[dict[str, Any]]], processes: Processes) -> list[str]:
    """The properties of a launch that make it slow, in words."""
    cramped = [rank["rank"] for world in worlds for rank in world if rank["cpus"] < 2]
    if not cramped:
        return []
    ranks = ", ".join(map(str, cramped))
    return [f"rank(s) {ranks} may use one core only, and their threads take turns: give more --cpus-per-rank"]
