# SPDX-License-Identifier: MIT
"""Starts programs as processes of their own, alone or on several ranks, for benchmarks that compare programs."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cluster_jobs import processes
from cluster_jobs.benchmarks.cuda_driver import count_devices

T = TypeVar("T")
R = TypeVar("R")

# Threads of a rank must not share one core, and a host may have fewer slots than GPUs. MPICH's launcher does not bind.
_OPEN_MPI = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_GPUS = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "NCCL_NVLS_ENABLE": "0"}


def default_launcher() -> str:
    """The `mpirun` or `mpiexec` of this interpreter's environment, else of the path; "mpirun" if there is none."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return shutil.which("mpirun", path=path) or shutil.which("mpiexec", path=path) or "mpirun"


def on_ranks(launcher: str, num_ranks: int) -> list[str]:
    """The first words of a command for several ranks; `launcher` may have options, as in "mpirun --bind-to none"."""
    return [*shlex.split(launcher), "-n", str(num_ranks)]


def add_arguments(parser: argparse.ArgumentParser, *, seconds: float) -> None:
    """Add the arguments of a benchmark that starts each of its programs several times."""
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"begin no run after so long ({seconds:g})")
    parser.add_argument("--mpirun", default=default_launcher(), help="the launcher and its options")
    add_backend(parser)


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add the argument that `settle_backend` and `backend_and_devices` look at."""
    choices = ("auto", "cuda", "cpu")
    parser.add_argument("--backend", choices=choices, default="auto", help="auto: GPUs if there are any, else CPUs")


def settle_backend(
    parser: argparse.ArgumentParser, options: argparse.Namespace, count: Callable[[], int] = count_devices
) -> None:
    """Decide what "auto" means for a benchmark of one device, and refuse a GPU where there is none."""
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # streams that share a queue would wait for each other
    available = count() if options.backend != "cpu" else 0
    if options.backend == "auto":
        options.backend = "cuda" if available else "cpu"
    if options.backend == "cuda" and not available:
        parser.error("there is no CUDA device; --backend cpu tries the program out")


def backend_and_devices(
    parser: argparse.ArgumentParser, backend: str, asked: Sequence[int] | None
) -> tuple[str, list[int]]:
    """The backend that stands for "auto", and the numbers of devices to measure; refuses what this host lacks."""
    available = count_devices() if backend != "cpu" else 0
    if backend == "auto":
        backend = "cuda" if available else "cpu"
    if backend == "cpu":
        available = max(asked or (2,))
    numbers = list(asked or [count for count in (1, 2, 4, 8) if count <= available])
    if not numbers or min(numbers) < 1 or max(numbers) > available:
        parser.error(f"there are {available} GPUs, so numbers of devices cannot be {numbers}")
    return backend, numbers


def devices_of(backend: str, layout: str, count: int) -> dict[str, str]:
    """The variables that let a program use `count` devices of this host.

    Args:
        backend: "cuda" or "cpu".
        layout: "process" if one process drives all of them, "rank" if each rank has one.
        count: How many in all.
    """
    devices = "".join(f"{index}," for index in range(count))  # of the host, divided among its ranks
    variables = {"CELERITY_BACKEND": backend, "CELERITY_DEVICES": devices}
    if backend == "cpu":  # a device is a core: BLAS would take them all for each
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        variables |= {"CELERITY_DEVICES": f"cpu:{count if layout == 'process' else 1}", **one_thread}
    return variables


def run(command: Sequence[str], variables: Mapping[str, str], limit_s: float) -> str:
    """Run a command at the root of the repository and return its output.

    Args:
        command: The program and its arguments, behind a launcher if it is to run on several ranks.
        variables: Environment variables besides those of this process.
        limit_s: It is stopped after so long; the ranks of a launcher with it.

    Raises:
        RuntimeError: If it cannot be started, ends with a status other than 0, or is stopped; with the end of what it
            printed.
    """
    environment = os.environ | _OPEN_MPI | _GPUS | {"PYTHONPATH": processes.python_path()} | dict(variables)
    shown = shlex.join(command)
    try:
        process = processes.start(command, environment)
    except OSError as error:
        raise RuntimeError(f"{shown} cannot be started: {error}") from error
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _stop(process)
        raise RuntimeError(f"{shown} had not ended after {limit_s:g} s.") from None
    except BaseException:
        _stop(process)
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{shown} ended with {process.returncode}:\n{(output + errors)[-3000:]}")
    return output


def _stop(process: subprocess.Popen[str]) -> None:
    processes.end_group(process)
    process.communicate()


def in_turns(
    groups: Sequence[Sequence[T]], call: Callable[[T], R], describe: Callable[[T], str], options: argparse.Namespace
) -> tuple[list[tuple[T, R]], list[str]]:
    """Call all items once before any is called again; every other time, each group begins with its last item.

    Args:
        groups: What may be measured.
        call: Measures one; a RuntimeError is a problem, and the others go on.
        describe: An item in words.
        options: `repetitions` and `seconds` of `add_arguments`.

    Returns:
        What was measured, with its figures, and what went wrong.
    """
    found: list[tuple[T, R]] = []
    problems: list[str] = []
    deadline = time.monotonic() + options.seconds
    for repetition in range(options.repetitions):
        for item in (item for group in groups for item in (group if repetition % 2 == 0 else reversed(group))):
            if time.monotonic() > deadline:
                if repetition == 0:
                    problems.append(f"{describe(item)}: no time to run it; raise --seconds")
                continue
            try:
                found.append((item, call(item)))
            except RuntimeError as error:
                problems.append(str(error))
                print(f"FAILED   {describe(item)}", flush=True)
    return found, problems
