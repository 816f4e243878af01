# SPDX-License-Identifier: MIT
"""`celerity-py run -n 4 app.py`: starts a program on several ranks, with the launcher that fits."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from celerity_py.executor.network.launch_detection import detect_launch
from celerity_py.scheduler.errors import LaunchError
from celerity_py.tools.cli import bind_rank
from celerity_py.tools.cli.launcher_process import LauncherProcess
from celerity_py.tools.cli.launchers import candidates, find_mpi, find_mpiexec, offered_interfaces
from celerity_py.tools.cli.restarts import run_again
from celerity_py.tools.cli.words import CommandError, add_command, names_files, positive

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands


class Launch(NamedTuple):
    """The words in front of a program, and why."""

    words: list[str]
    reason: str


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "run",
        execute,
        "Run a program on several ranks.",
        "Inside of a Slurm allocation srun starts it, elsewhere the mpiexec of the MPI library that mpi4py uses. The "
        "ranks of a host divide its cores and GPUs. The exit status is that of the program, and of the rank that has "
        "failed first.",
    )
    parser.add_argument("-n", dest="ranks", type=positive, required=True, metavar="N", help="how many ranks")
    parser.add_argument(
        "--launcher", metavar="WORDS", help="another launcher and its options, such as 'mpiexec -f hosts'"
    )
    parser.add_argument(
        "--restarts",
        type=positive,
        default=0,
        metavar="K",
        help="start the ranks again after a failure, at most so many times; checkpoints in memory outlive the ranks",
    )
    parser.add_argument("--show", action="store_true", help="print the command, and run nothing")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, help="a module as the program, and its arguments"
    )
    names_files(parser.add_argument("program", nargs=argparse.REMAINDER, help="a file and its arguments"))


def execute(options: argparse.Namespace) -> int:
    """Become the launcher, so that its signals are those of this process, or stay beside it for the exit status."""
    launch = choose_launch(options.ranks, os.environ, options.launcher)
    program = [sys.executable, *program_words(options.module, options.program)]
    command = [*launch.words, *program]
    if options.show:
        print(shlex.join(command))
        return 0
    sys.stdout.flush()
    try:
        if options.restarts:
            return run_again(launch.words, program, options.restarts)
        if Path(command[0]).name == "srun":
            return LauncherProcess().run(command, {})
        os.execvp(command[0], command)  # noqa: S606 - the launcher of the user's environment
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be started: {error.strerror}.") from None


def program_words(module: Sequence[str] | None, program: Sequence[str]) -> list[str]:
    """The arguments of the interpreter.

    Raises:
        CommandError: If there is no program, or its file does not exist.
    """
    if module:
        return ["-m", *module]
    if not program:
        raise CommandError("no program is given. Name a file, such as app.py, or a module with -m.")
    if not Path(program[0]).is_file():
        raise CommandError(f"there is no file {program[0]}. Options of celerity-py stand in front of the program.")
    return list(program)


def choose_launch(ranks: int, environment: Mapping[str, str], given: str | None = None) -> Launch:
    """Choose how to start a program.

    Args:
        ranks: How many.
        environment: The environment variables.
        given: The launcher that the user asks for, with options.

    Raises:
        CommandError: If a launcher has started this process as one of several, or nothing fits.
    """
    outer = detect_launch(environment)
    if outer.launcher is not None and outer.size not in {None, 1}:
        raise CommandError(
            f"{outer.launcher} has started this process as one of {outer.size}. Start the program itself with "
            f"{outer.launcher}, or run this command once, without a launcher."
        )
    try:
        if given:
            words = _launcher_words(given)
            is_srun = Path(words[0]).name == "srun"
            options = _srun_options(ranks, environment) if is_srun else _mpiexec_options(ranks, find_mpi().vendor)
            return Launch([*words, *options], "it was asked for")
        if environment.get("SLURM_JOB_ID"):
            return _launch_in_job(ranks, environment)
        if ranks == 1:
            return Launch([], "one rank needs no launcher")
        return _launch_here(ranks)
    except LaunchError as error:
        raise CommandError(str(error)) from None


def _launcher_words(given: str) -> list[str]:
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise CommandError(f"--launcher={given} is not understood: {str(error).lower()}.") from None
    if not words:
        raise CommandError("--launcher names no command, such as 'mpiexec -f hosts'.")
    return words


def _launch_in_job(ranks: int, environment: Mapping[str, str]) -> Launch:
    mpi, mpiexec = find_mpi(), find_mpiexec()
    found = candidates(mpi.vendor, offered_interfaces(), mpiexec)
    if not found:
        raise CommandError(
            f"srun offers nothing that {mpi.label} speaks, and there is no mpiexec beside {sys.executable} or on the "
            "PATH. Load the MPI of the cluster, or name a launcher with --launcher."
        )
    words = shlex.split(found[0])
    job = environment["SLURM_JOB_ID"]
    if words[0] == "srun":
        return Launch(
            [*words, *_srun_options(ranks, environment)], f"Slurm job {job}, whose srun speaks with {mpi.label}"
        )
    reason = f"Slurm job {job}, whose srun does not speak with {mpi.label}"
    return Launch([*words, *_mpiexec_options(ranks, mpi.vendor)], reason)


def _launch_here(ranks: int) -> Launch:
    mpi, mpiexec = find_mpi(), find_mpiexec()
    if mpiexec is None:
        raise CommandError(
            f"there is no mpiexec beside {sys.executable} or on the PATH. Install one (pip install mpich), load the "
            "MPI of the cluster, or name a launcher with --launcher."
        )
    return Launch([mpiexec, *_mpiexec_options(ranks, mpi.vendor)], f"no Slurm allocation; mpi4py uses {mpi.label}")


def _mpiexec_options(ranks: int, vendor: str) -> list[str]:
    """The number of ranks, and the script that binds each to its cores."""
    options = ["-n", str(ranks)]
    if vendor == "Open MPI":  # which would bind each rank to one core, and refuse more ranks than cores
        options += ["--bind-to", "none", "--map-by", "slot:OVERSUBSCRIBE"]
    return [*options, sys.executable, str(Path(bind_rank.__file__))]


def _srun_options(ranks: int, environment: Mapping[str, str]) -> list[str]:
    """Equal numbers of ranks on all nodes, and equal numbers of cores for all ranks. Each rank sees all GPUs.

    The runtime divides the GPUs, and fetches from those of its neighbours.
    """
    options = [f"--ntasks={ranks}"]  # a rank may end with a status while others still end: --kill-on-bad-exit hides it
    if environment.get("SLURM_STEP_ID", "").isdecimal():
        options.append("--overlap")  # with the step of this shell
    nodes = min(int(environment.get("SLURM_JOB_NUM_NODES", "1")), ranks)
    per_node = -(-ranks // nodes)
    options.append(f"--nodes={nodes}")
    if ranks % nodes == 0:
        options.append(f"--ntasks-per-node={per_node}")
    cores = int(environment.get("SLURM_CPUS_ON_NODE", "0")) // per_node
    if cores >= bind_rank.LEAST_CORES:
        options += [f"--cpus-per-task={cores}", "--cpu-bind=cores"]
    return options
