# SPDX-License-Identifier: MIT
"""`celerity-py info`: what the runtime finds here and chooses, and why; the text to paste into a report of a bug."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import celerity_py as celerity
from celerity_py import _native, configuration
from celerity_py.executor.network.communicator_choice import make_communicator
from celerity_py.executor.network.launch_detection import detect_launch, find_place
from celerity_py.executor.network.pacing import num_cores
from celerity_py.executor.quantities import format_bytes
from celerity_py.runtime import lifecycle
from celerity_py.runtime.run_summary import describe_division, describe_rank, describe_ranks, describe_run
from celerity_py.scheduler.errors import LaunchError
from celerity_py.tools.cli.launchers import find_mpi
from celerity_py.tools.cli.run import choose_launch
from celerity_py.tools.cli.words import CommandError, add_command
from celerity_py.vocabulary.tables import Table, write_tables

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands

_LIMIT_S: Final = 60
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - of MPICH
_MOST_FILES: Final = 3
_GPU_FIELDS: Final = "index,name,memory.total,compute_cap,pci.bus_id,mig.mode.current,driver_version"
#: Variables of other programs that change what the runtime finds.
_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "OMP_NUM_THREADS", "SLURM_JOB_ID")


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "info",
        execute,
        "Tell what the runtime finds here and chooses, and why.",
        "Paste the text into a report of a bug. Under a launcher all ranks take part, and rank 0 prints.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(options: argparse.Namespace) -> int:
    """Print the facts of this process before the runtime starts, because the start may fail."""
    place = find_place(os.environ)
    prints = place is None or place.rank == 0
    facts = _facts() if prints else {}
    if prints and not options.json:
        write_tables(_show(facts), sys.stdout)
    try:
        run = _describe_run_here()
    except (celerity.CelerityError, RuntimeError, MemoryError) as error:
        if prints and options.json:
            print(json.dumps({**facts, "problem": f"{type(error).__name__}: {error}"}, indent=2), flush=True)
        elif prints:
            print(f"\nproblem\n  The runtime does not start. {type(error).__name__}: {error}", flush=True)
        if place is None:
            return 1
        raise  # which ends the other ranks, too
    if prints:
        if options.json:
            print(json.dumps({**facts, **run, "problem": None}, indent=2))
        else:
            write_tables(_show_run(run), sys.stdout)
    return 0


# ---- before the runtime starts


def _facts() -> dict[str, Any]:
    return {"software": _software(), "host": _host(), "launch": _launch(), "gpus": _gpus()}


def _software() -> dict[str, str]:
    try:
        mpi = find_mpi().label
    except LaunchError as error:
        mpi = f"none: {error}"
    cupy = [name for name in ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x") if _version_of(name)]
    return {
        "celerity_py": f"{_native.version()} in {Path(celerity.__file__).parent}",
        "Python": f"{platform.python_version()} ({sys.executable})",
        "NumPy": _version_of("numpy") or "not installed",
        "numba": _version_of("numba")
        or "not installed: Python runs fused kernels of CPU devices (pip install 'celerity_py[fuse]')",
        "CuPy": ", ".join(f"{_version_of(name)} ({name})" for name in cupy) or "not installed",
        "mpi4py": _version_of("mpi4py") or "not installed",
        "MPI": mpi,
        "system": f"{platform.platform()}",
    }


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _host() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "name": platform.node(),
        "cores": f"{num_cores()} of {os.cpu_count()} for this process",
        "memory": format_bytes(memory),
        "left in /dev/shm": _left_behind(_SHARED_MEMORY, Path("/proc")),
    }


def _left_behind(folder: Path, processes: Path) -> str:
    """The files of MPICH in shared memory that belong to this user, and that no process of the user maps.

    Args:
        folder: Of shared memory.
        processes: The folder /proc.
    """
    files = {}
    with contextlib.suppress(OSError):
        own = ((path, path.stat()) for path in folder.glob("mpich_shm_*"))
        files = {str(path): status.st_size for path, status in own if status.st_uid == os.getuid()}
    for maps in processes.glob("[0-9]*/maps") if files else ():
        with contextlib.suppress(OSError):
            text = maps.read_text(encoding="utf-8", errors="replace")
            files = {name: size for name, size in files.items() if name not in text}
    if not files:
        return "nothing"
    total = format_bytes(sum(files.values()))
    command = f"rm {' '.join(sorted(files))}" if len(files) <= _MOST_FILES else f"rm {folder}/mpich_shm_*"
    when = "" if len(files) <= _MOST_FILES else ", while none of your MPI programs runs"
    return f"{len(files)} file(s) of killed MPI programs, {total}. Remove with: {command}{when}"


def _launch() -> dict[str, str]:
    launch = detect_launch(os.environ)
    started = "directly, as one process"
    if launch.launcher is not None:
        started = f"by {launch.launcher}, as one of {launch.size or 'several'}"
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    variables |= {name: text for name, text in sorted(os.environ.items()) if name.startswith(configuration.PREFIX)}
    told = {"started": started, "variables": ", ".join(f"{name}={text}" for name, text in variables.items()) or "none"}
    if launch.launcher is None:
        try:
            chosen = choose_launch(2, os.environ)
            told["celerity-py run"] = f"uses {chosen.words[0]}: {chosen.reason}"
        except CommandError as error:
            told["celerity-py run"] = f"cannot start several ranks: {error}"
    return told


def _gpus() -> dict[str, Any]:
    """The GPUs of the host and their links, from the driver's own tool: it counts also GPUs that are hidden here."""
    listed = _ask_driver(f"--query-gpu={_GPU_FIELDS}", "--format=csv,noheader")
    if not listed:
        return {"driver": "none: nvidia-smi is missing or finds no GPU", "host": [], "links": []}
    names = _GPU_FIELDS.split(",")
    gpus = [dict(zip(names, (cell.strip() for cell in line.split(",")), strict=False)) for line in listed]
    links = _ask_driver("topo", "-m")
    legend = next((number for number, line in enumerate(links) if line.startswith("Legend")), len(links))
    return {
        "driver": gpus[0].get("driver_version", ""),
        "host": gpus,
        "links": [line for line in links[:legend] if line],
    }


def _ask_driver(*arguments: str) -> list[str]:
    path = shutil.which("nvidia-smi")
    if path is None:
        return []
    try:
        result = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=_LIMIT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return []
    return result.stdout.rstrip().splitlines() if result.returncode == 0 else []


# ---- with a runtime


def _describe_run_here() -> dict[str, Any]:
    """Start and end a runtime. Collective; only the result on rank 0 has all ranks."""
    with celerity.Queue():
        runtime = lifecycle.current()
        settings, communicator, devices = runtime.configuration, runtime.communicator, runtime.devices
        others = [rank for rank in range(communicator.size) if rank != communicator.rank]
        summary = describe_run(settings, communicator, devices)
        own = {
            "rank": communicator.rank,
            "host": platform.node(),
            "cores": num_cores(),
            "devices": devices.describe(),
            "why_no_gpus": devices.why_no_gpus,
            "multiprocessors": [describe_division(ordinal) for ordinal in devices.ordinals],
            "summary": describe_rank(communicator, devices, runtime.direct_peers.with_rank),
            "transports": {rank: "direct" if runtime.direct_peers.with_rank[rank] else "host" for rank in others},
            "why_not_direct": {rank: why for rank, why in runtime.direct_peers.why_not.items() if rank != runtime.rank},
        }
    communicator = make_communicator(configuration.communicator())
    try:
        ranks = [json.loads(told) for told in communicator.exchange(json.dumps(own).encode())]
    finally:
        communicator.close()
    return {"run": summary, "ranks": ranks}


# ---- texts


def _show(facts: dict[str, Any]) -> list[Table | str]:
    gpus = facts["gpus"]
    parts: list[Table | str] = []
    for title in ("software", "host", "launch"):
        parts += [Table(list(facts[title].items()), title), ""]
    parts.append(Table([("driver", gpus["driver"])], "gpus"))
    if gpus["host"]:
        heads = [name.partition(".")[0].replace("_", " ") for name in _GPU_FIELDS.split(",")[:-1]]
        rows = [heads, *(list(gpu.values())[:-1] for gpu in gpus["host"])]
        parts += ["", Table(rows, "gpus of this host", has_heads=True)]
    parts += [f"  {line}" for line in gpus["links"]]
    return parts


def _show_run(run: dict[str, Any]) -> list[Table | str]:
    lines: list[Table | str] = ["", Table([], "run"), f"  {run['run']}"]
    for rank in run["ranks"]:
        lines.append(f"  {rank['summary']} Host {rank['host']}, {rank['cores']} core(s).")
        lines += [f"    {told}." for told in rank["multiprocessors"]]
        reasons: dict[str, list[int]] = {}
        for other, why in rank["why_not_direct"].items():
            reasons.setdefault(why, []).append(int(other))
        lines += [f"    not direct with {describe_ranks(others)}: {why}" for why, others in reasons.items()]
    return lines
