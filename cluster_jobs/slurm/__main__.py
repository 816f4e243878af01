# SPDX-License-Identifier: MIT
"""Scaling sweeps as Slurm jobs: `python -m cluster_jobs.slurm submit`, `status` and `collect`.

    python -m cluster_jobs.slurm submit --app wave_sim --nodes 1,2,4 --devices-per-node 4 --sizes 16384 --steps 200
    python -m cluster_jobs.slurm status  --folder results/slurm/wave_sim
    python -m cluster_jobs.slurm collect --folder results/slurm/wave_sim

`submit` may be repeated: points that have a result, or a job, are left alone. docs/slurm.md explains the rest.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from rich.console import Console

from cluster_jobs.files import read_json, write_json
from cluster_jobs.processes import python_path
from cluster_jobs.slurm import launchers, point, progress
from cluster_jobs.slurm.collect import collect
from cluster_jobs.slurm.folder import Folder
from cluster_jobs.slurm.launchers import Processes
from cluster_jobs.slurm.states import SlurmError
from cluster_jobs.slurm.submit import Request, check_app, measurable_apps, submit
from cluster_jobs.slurm.sweep import LAYOUTS, Settings, SettingsDifferError, Sweep, all_points
from cluster_jobs.slurm.version import code_version

_DEFAULT_FOLDER = Path("results/slurm")


def main(arguments: list[str] | None = None) -> int:
    """Run the command of the command line; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except SettingsDifferError as error:
        return _refuse(
            f"{options.folder} holds another sweep: {error}. Choose another --folder, so that nothing gets mixed up."
        )
    except BlockingIOError:
        return _refuse(f"Another submit is at work in {options.folder}.")
    except (SlurmError, ValueError, FileNotFoundError) as error:
        return _refuse(str(error))


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


# ---- for people ----------------------------------------------------------------------------------------------------


def _submit(options: argparse.Namespace) -> int:
    check_app(options.app)
    if options.launcher:
        launchers.check_launcher_name(options.launcher)
    for variable in options.set:
        if "=" not in variable:
            raise ValueError(f"--set takes NAME=VALUE, not {variable!r}.")
    settings = Settings(
        options.app,
        options.backend,
        options.steps,
        tuple(options.arguments),
        tuple(sorted(options.set)),
        code_version(),
    )
    points = all_points(
        nodes=options.nodes,
        devices_per_node=options.devices_per_node,
        layouts=options.layout,
        sizes=options.sizes,
        runs=options.repetitions,
    )
    partition = [f"--partition={options.partition}"] if options.partition else []
    request = Request(
        time=options.time,
        cpus_per_rank=options.cpus_per_rank,
        launcher=options.launcher,
        check=not options.no_check,
        at_once=options.at_once,
        options=(*partition, *options.sbatch),
        setup=tuple(options.setup),
        dry_run=options.dry_run,
    )
    options.folder = options.folder or _DEFAULT_FOLDER / options.app
    folder = Folder(options.folder)
    outcome = submit(folder, Sweep(settings, points), request)
    print(
        f"{len(outcome.finished)} of {len(points)} point(s) have a result, {len(outcome.queued)} are in the queue, "
        f"{len(outcome.submitted)} {'would be' if options.dry_run else 'were'} submitted."
    )
    for note in outcome.notes:
        print(note)
    if outcome.folder is not None:
        print(f"Scripts: {outcome.folder}")
        if options.dry_run:
            return 0
        print(f"Next: python -m cluster_jobs.slurm status --folder {shlex.quote(str(options.folder))}")
    return 0


def _status(options: argparse.Namespace) -> int:
    folder = Folder(options.folder)
    folder.sweep()
    is_over = progress.wait(folder, options.wait) if options.wait else True
    points, lines = progress.now(folder)
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(progress.table(points))
    print(progress.summary(points))
    print(*lines, sep="\n")
    if not is_over:
        print(f"Jobs still wait or run after {options.wait:g} s.")
    bad = {"failed", "time limit", "cancelled", "lost", "ended"}
    return int(not is_over or any(entry.state in bad for entry in points))


def _collect(options: argparse.Namespace) -> int:
    try:
        text, pictures, problems = collect(Folder(options.folder))
    except RuntimeError as error:  # no matplotlib; SlurmError does not happen here
        return _refuse(str(error))
    print(text)
    for problem in problems:
        print(problem)
    for picture in pictures:
        print(f"Picture: {picture}")
    if not pictures:
        print("Nothing has a result yet.")
    return int(bool(problems) or not pictures)


# ---- for jobs ------------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    plan = read_json(options.submission / "plan.json")
    processes = _allocated()
    print(f"{processes.nodes} node(s), {processes.per_node} rank(s) on each: {os.environ.get('SLURM_JOB_NODELIST')}")
    choice = launchers.choose(processes, plan["launcher"])
    write_json(options.submission / "launcher.json", choice.to_json())
    print(choice.explanation)
    for warning in (warning for trial in choice.trials for warning in trial.warnings):
        print(warning)
    return int(choice.launcher is None)


def _point(options: argparse.Namespace) -> int:
    return point.run_point(Folder(options.folder), options.submission, options.array, options.index)


def _launch(options: argparse.Namespace) -> int:
    program = options.program[options.program[:1] == ["--"] :]
    if not program:
        raise ValueError("Which program? Name it behind `launch --`.")
    if options.launcher:
        launchers.check_launcher_name(options.launcher)
    processes = _allocated()
    choice = launchers.choose(processes, options.launcher)
    print(choice.explanation, file=sys.stderr, flush=True)
    if choice.launcher is None:
        return 1
    variables = [f"PYTHONPATH={python_path()}"]
    # Where the launcher does not take our environment to other nodes.
    variables += [f"{name}={value}" for name, value in os.environ.items() if name.startswith("CELERITY_")]
    words = [*launchers.command(choice.launcher, processes, choice.mpi.vendor), "env", *variables, *program]
    return os.execvp(words[0], words)  # noqa: S606 - in our place: signals of Slurm go to it


def _allocated() -> Processes:
    """The resources of the job that this process is in.

    Raises:
        ValueError: If we are in none.
    """
    environment = os.environ
    try:
        nodes, per_node = int(environment["SLURM_JOB_NUM_NODES"]), environment.get("SLURM_NTASKS_PER_NODE")
    except KeyError:
        raise ValueError(
            "This is for the inside of a Slurm job: sbatch cluster_jobs/slurm/rank_per_gpu.sbatch ..."
        ) from None
    if per_node is None:
        raise ValueError("The job does not say how many ranks each node gets: sbatch --ntasks-per-node=...")
    cpus = environment.get("SLURM_CPUS_PER_TASK")
    gpus = int(environment.get("SLURM_GPUS_ON_NODE", "0"))
    return Processes(nodes, int(per_node), int(cpus) if cpus else None, gpus)


# ---- the command line ----------------------------------------------------------------------------------------------


def _counts(text: str) -> list[int]:
    counts = [int(item) for item in text.split(",")]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"must be numbers from 1, not {text}")
    return sorted(set(counts))


def _layouts(text: str) -> list[str]:
    layouts = text.split(",")
    if set(layouts) - set(LAYOUTS):
        raise argparse.ArgumentTypeError(f"must be of {', '.join(LAYOUTS)}, not {text}")
    return layouts


def _positive(text: str) -> int:
    (value,) = _counts(text)
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cluster_jobs.slurm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="submit|status|collect|launch")
    _add_submit(commands.add_parser("submit", help="write and submit the jobs of a sweep"))
    status = commands.add_parser("status", help="what became of each point; exit status 1 if something went wrong")
    status.add_argument("--wait", type=float, metavar="SECONDS", help="until no job waits or runs, but no longer")
    status.set_defaults(action=_status)
    collecting = commands.add_parser(
        "collect", help="table and plot of what is there; exit status 1 if something is missing"
    )
    collecting.set_defaults(action=_collect)
    checking, pointing = commands.add_parser("check"), commands.add_parser("point")  # of check.sbatch and points.sbatch
    for command in (status, collecting, checking, pointing):
        command.add_argument("--folder", type=Path, required=True, help="of the sweep, as given to or named by submit")
    for command in (checking, pointing):
        command.add_argument("--submission", type=Path, required=True)
    checking.set_defaults(action=_check)
    pointing.add_argument("--array", required=True)
    pointing.add_argument("--index", type=int, required=True)
    pointing.set_defaults(action=_point)
    launching = commands.add_parser("launch", help="inside a job: choose and check the launcher, then start a program")
    launching.add_argument("--launcher", help="instead of choosing one, e.g. 'srun --mpi=pmix'")
    launching.add_argument("program", nargs=argparse.REMAINDER, help="and its arguments, behind --")
    launching.set_defaults(action=_launch)
    return parser


def _add_submit(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=_submit)
    add = parser.add_argument
    add("--app", required=True, help=f"of cluster_jobs/apps: {', '.join(measurable_apps())}")
    add("--nodes", type=_counts, required=True, metavar="N,N", help="numbers of nodes")
    add("--devices-per-node", type=_counts, default=[1], metavar="D,D", help="GPUs, or CPU devices (default 1)")
    add(
        "--layout",
        type=_layouts,
        default=["device"],
        metavar="L,L",
        help="device: a rank for each (default); node: for each node",
    )
    add("--sizes", type=_counts, required=True, metavar="S,S", help="--size of the application")
    add("--steps", type=_positive, metavar="S", help="--steps of the application (default: its own)")
    add("--repetitions", type=_positive, default=3, metavar="R", help="runs of each (default 3)")
    add("--backend", choices=("cuda", "cpu"), default="cuda", help="what the devices are (default cuda)")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="variable for the application, e.g. CELERITY_LOOKAHEAD=none",
    )
    add("--folder", type=Path, help=f"for everything (default {_DEFAULT_FOLDER}/APP)")
    add("--time", default="00:30:00", help="limit of each run, as for sbatch (default 00:30:00)")
    add("--partition", help="default: the cluster's")
    add(
        "--sbatch", action="append", default=[], metavar="OPTION", help="e.g. --sbatch=--account=physics; for every job"
    )
    add(
        "--setup",
        action="append",
        default=[],
        metavar="LINE",
        help="of shell, before Python starts: 'module load cuda'",
    )
    add("--cpus-per-rank", type=_positive, metavar="C", help="default: an equal share of the node")
    add("--at-once", type=_positive, metavar="K", help="runs of a job array at the same time (default: as many as fit)")
    add("--launcher", help="instead of the one that the check finds, e.g. 'srun --mpi=pmix'")
    add("--no-check", action="store_true", help="no job that checks the launcher before the others")
    add("--dry-run", action="store_true", help="write the scripts only")
    add("arguments", nargs="*", metavar="-- ARGUMENT", help="of the application")


if __name__ == "__main__":
    sys.exit(main())
