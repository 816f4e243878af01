# SPDX-License-Identifier: MIT
"""Measures how short tasks may be: the minimum effective task granularity of Task Bench, beside programs by hand.

    python -m cluster_jobs.benchmarks.granularity.metg --devices 1,8 --output results/metg.json
    python -m cluster_jobs.benchmarks.granularity.metg --backend cpu --devices 1,2
    mpirun -n 2 python -m cluster_jobs.benchmarks.granularity.metg --only celerity --devices 2

METG(50 %) is the smallest average time of a task, waiting included, at which half of the time is useful work. Each step
is a task per point, a few points per device, and a task reads what the pattern says of the step before: nothing
(trivial), its neighbours (stencil_1d), a butterfly partner (fft), its parent (tree), or everything (all_to_all). The
kernel computes for a number of iterations, from about 1 ms on GPUs or 8 ms on CPUs downwards; full efficiency is the
best rate that any of the programs reached on as many devices. Ours runs as one process and as one rank per device, as
a plain loop and with `queue.replay`. By hand there is mpi4py with CuPy, with and without NCCL, on CPUs with NumPy.
Results of all programs are compared with NumPy before they are timed. All programs run once before any runs again;
medians count.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cluster_jobs.benchmarks import launching, report
from cluster_jobs.benchmarks.granularity import task_patterns
from cluster_jobs.benchmarks.granularity.task_patterns import PATTERNS, Point

CHILD_TIMEOUT_S = 300.0
LONGEST_US = {"cuda": 1000.0, "cpu": 8000.0}
#: Of the programs whose first word is not the end of their module's name.
MODULES = {"nccl": "mpi"}


@dataclass(frozen=True)
class Program:
    """One column of the table."""

    label: str
    only: str  # of the command line
    layout: str
    backends: tuple[str, ...]


PROGRAMS = (
    Program("celerity_py, process", "celerity", "process", ("cuda", "cpu")),
    Program("celerity_py, rank", "celerity", "rank", ("cuda", "cpu")),
    Program("celerity_py, replay, process", "celerity-replay", "process", ("cuda", "cpu")),
    Program("celerity_py, replay, rank", "celerity-replay", "rank", ("cuda", "cpu")),
    Program("mpi4py + NumPy", "mpi-numpy", "rank", ("cpu",)),
    Program("mpi4py + CuPy", "mpi-cupy", "rank", ("cuda",)),
    Program("CuPy + NCCL", "nccl", "rank", ("cuda",)),
)


def measure_here(options: argparse.Namespace) -> int:
    """Run one program in this process and print its figures as one line of JSON on rank 0."""
    options.longest_us = options.longest_us or LONGEST_US[options.backend]
    kind = options.only.split("-")[0]
    module = importlib.import_module(f"cluster_jobs.benchmarks.granularity.metg_{MODULES.get(kind, kind)}")
    figures = module.measure(options)
    if figures is not None:
        print(json.dumps(figures), flush=True)
    return 0


def run(program: Program, devices: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a program once on some devices; its figures by pattern.

    Raises:
        RuntimeError: If it fails.
    """
    command = launching.on_ranks(options.mpirun, devices) if program.layout == "rank" else []
    command += [sys.executable, "-m", "cluster_jobs.benchmarks.granularity.metg", "--only", program.only]
    command += ["--backend", options.backend, "--devices", str(devices), "--patterns", ",".join(options.patterns)]
    command += ["--tasks-per-device", str(options.tasks_per_device), "--sample-seconds", str(options.sample_seconds)]
    if options.longest_us:
        command += ["--longest-us", str(options.longest_us)]
    variables = launching.devices_of(options.backend, program.layout, devices)
    lines = launching.run(command, variables, CHILD_TIMEOUT_S).splitlines()
    figures: list[dict[str, Any]] = json.loads(lines[-1]) if lines else []
    if [row["pattern"] for row in figures] != options.patterns:
        raise RuntimeError(f"{' '.join(command)} printed no figures.")
    return figures


def measure(programs: Sequence[Program], options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """All sweeps, as rows of program, devices, pattern and points; and what went wrong."""

    def describe(item: tuple[int, Program]) -> str:
        return f"{item[0]} device(s), {item[1].label}"

    def measure_one(item: tuple[int, Program]) -> list[dict[str, Any]]:
        begun = time.monotonic()
        figures = run(item[1], item[0], options)
        print(f"measured {describe(item)}, verified, {time.monotonic() - begun:.0f} s", flush=True)
        return [{"program": item[1].label, "devices": item[0], **row} for row in figures]

    groups = [[(devices, program) for program in programs] for devices in options.devices]
    found, problems = launching.in_turns(groups, measure_one, describe, options)
    return [sweep for _, sweeps in found for sweep in sweeps], problems


def evaluate(sweeps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The METG of each program, pattern and number of devices.

    Args:
        sweeps: Rows of `program`, `devices`, `pattern` and `points`, of one run or several.

    Returns:
        Rows with `metg_us`, the median of the runs or None if none is known, and `runs_us`.
    """
    points = [[Point(**point) for point in sweep["points"]] for sweep in sweeps]
    peaks: dict[int, float] = {}
    for sweep, measured in zip(sweeps, points, strict=True):
        best = task_patterns.full_rate(measured)
        peaks[sweep["devices"]] = max(best, peaks.get(sweep["devices"], 0.0))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sweep, measured in zip(sweeps, points, strict=True):
        key = (sweep["devices"], sweep["pattern"], sweep["program"])
        names = dict(zip(("devices", "pattern", "program"), key, strict=True))
        row = rows.setdefault(key, names | {"runs_us": []})
        row["runs_us"].append(task_patterns.metg_us(measured, peaks[sweep["devices"]]))
    for row in rows.values():
        known = [time_us for time_us in row["runs_us"] if time_us is not None]
        row["metg_us"] = statistics.median(known) if known else None
    return list(rows.values())


def show(rows: Sequence[dict[str, Any]], tasks_per_device: int) -> None:
    """Print the table: a line for each pattern and number of devices, a column for each program."""
    labels = list(dict.fromkeys(row["program"] for row in rows))
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    for row in rows:
        cells.setdefault((row["pattern"], row["devices"]), {})[row["program"]] = report.number(row["metg_us"], 1)
    order = sorted(cells, key=lambda key: (PATTERNS.index(key[0]), key[1]))
    report.show(
        f"METG(50 %) in µs, {tasks_per_device} tasks per device and step",
        ("pattern", "devices", *labels),
        ([pattern, str(devices), *(cells[pattern, devices].get(label, "-") for label in labels)]
         for pattern, devices in order),
    )  # fmt: skip


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and fill in what depends on the machine."""
    parser = report.argument_parser(__doc__)
    help_text = "numbers of devices (default 1,2,4,8, as many as there are; 2 on CPUs)"
    parser.add_argument("--devices", type=report.integers, help=help_text)
    parser.add_argument(
        "--patterns", type=report.names_among(PATTERNS), default=list(PATTERNS), help=",".join(PATTERNS)
    )
    parser.add_argument("--tasks-per-device", type=int, default=4, help="tasks of a step on each device (default 4)")
    parser.add_argument("--longest-us", type=float, help="length of the longest tasks; by backend if left out")
    parser.add_argument("--sample-seconds", type=float, default=0.03, help="length of a sample (default 0.03)")
    launching.add_arguments(parser, seconds=540)
    parser.add_argument(
        "--only", choices=sorted({program.only for program in PROGRAMS}), help="this program, in this process"
    )
    options = parser.parse_args(arguments)
    options.backend, options.devices = launching.backend_and_devices(parser, options.backend, options.devices)
    if options.tasks_per_device < 1 or (options.only and len(options.devices) != 1):
        parser.error("--tasks-per-device is at least 1, and --only takes one number of --devices")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    options = options_of(arguments)
    if options.only:
        return measure_here(options)
    programs = [program for program in PROGRAMS if options.backend in program.backends]
    sweeps, problems = measure(programs, options)
    rows = evaluate(sweeps)
    show(rows, options.tasks_per_device)
    report.write(options.output, rows, backend=options.backend, sweeps=sweeps, problems=problems)
    return report.status_of(problems)


if __name__ == "__main__":
    raise SystemExit(main())
