# SPDX-License-Identifier: MIT
"""The same problem on more and more devices, ours against the same by hand.

    python -m cluster_jobs.benchmarks.scaling.strong_scaling --app wave_sim --gpus 1,2,4,8 --output results/wave.json
    python -m cluster_jobs.benchmarks.scaling.strong_scaling --app matmul --layout rank --ablate split
    python -m cluster_jobs.benchmarks.scaling.strong_scaling --app wave_sim --backend cpu --gpus 1,2 --size 256

Two layouts: one process that drives all devices, and one rank per device. In each, the application of `apps/` with
`--benchmark` and the hand-written CuPy program of `peers/` take turns; both time batches of steps in the steady state.
Before that, both are compared with NumPy at a small size, in each layout and variant on the largest number of devices.
All configurations are measured once before any is measured again; medians count. `--ablate` also runs the application
with something taken away, in the same turns. Prints a table, and writes with `--output` JSON and a plot (PNG and SVG)
beside it; `--merge` makes both from the JSON of several runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster_jobs import processes
from cluster_jobs.benchmarks import launching, report
from cluster_jobs.benchmarks.scaling import scaling_plot
from cluster_jobs.benchmarks.scaling.scaling_apps import (
    ABLATIONS,
    APPS,
    LAYOUTS,
    OF_ALL_APPS,
    ScalingApp,
    Variant,
    variants_of,
)

CHILD_TIMEOUT_S = 180.0
PEER_SECONDS = 4.0  # of batches, of which the median counts
PEERS = "cluster_jobs.benchmarks.scaling.peers"
OTHER_WAYS = "cluster_jobs.benchmarks.scaling.other_ways"
LIMITS = "cluster_jobs.benchmarks.scaling.limits"
OURS, BY_HAND = "ours", "by hand"


@dataclass(frozen=True)
class Program:
    """The application in one of its variants, or its peer."""

    label: str
    variant: Variant | None  # None: the peer


@dataclass(frozen=True)
class Configuration:
    """Where it is measured."""

    size: int
    gpus: int
    layout: str


class Runner:
    """Runs and checks the programs of one application."""

    def __init__(self, app: ScalingApp, backend: str, launcher: str, steps: int | None) -> None:
        self.app, self.backend, self.launcher, self.steps = app, backend, launcher, steps

    def _command(self, program: Program, gpus: int, layout: str) -> tuple[list[str], dict[str, str]]:
        command = launching.on_ranks(self.launcher, gpus) if layout == "rank" else []
        if program.variant is None:
            return [*command, sys.executable, "-m", PEERS, self.app.name, layout, "--gpus", str(gpus)], {}
        path = processes.ROOT / "cluster_jobs" / "apps" / f"{self.app.name}.py"
        variables = launching.devices_of(self.backend, layout, gpus) | dict(program.variant.variables)
        through = ("-m", OTHER_WAYS, program.variant.way) if program.variant.way else ()
        return [*command, sys.executable, *through, str(path), *program.variant.arguments], variables

    def check(self, program: Program, gpus: int, layout: str) -> None:
        """Compare with NumPy at a small size.

        Raises:
            RuntimeError: If it differs, or fails.
        """
        command, variables = self._command(program, gpus, layout)
        command += [*self.app.check, "--check" if program.variant is None else "--verify"]
        output = launching.run(command, variables, CHILD_TIMEOUT_S)
        if "Verified" not in output:
            raise RuntimeError(f"{' '.join(command)} verified nothing:\n{output[-2000:]}")

    def figures(self, program: Program, where: Configuration) -> dict[str, Any]:
        """Run a program once; its figures, at least `us_per_step`.

        Raises:
            RuntimeError: If it fails.
        """
        command, variables = self._command(program, where.gpus, where.layout)
        default_steps = 20 if self.backend == "cpu" else self.app.steps_for(where.size)
        command += ["--size", str(where.size), "--steps", str(self.steps or default_steps)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.json"
            if program.variant is None:
                command += ["--seconds", str(PEER_SECONDS), "--output", str(path)]
            else:
                command.append("--benchmark")
            output = launching.run(command, variables, CHILD_TIMEOUT_S)
            text = path.read_text() if program.variant is None else (output.splitlines() or [""])[-1]
        try:
            figures: dict[str, Any] = json.loads(text)
        except ValueError:
            raise RuntimeError(f"{' '.join(command)} printed no figures:\n{output[-2000:]}") from None
        return figures


def programs_of(options: argparse.Namespace) -> list[Program]:
    """The programs that run everywhere, in the order of the first round."""
    variants = variants_of(APPS[options.app], options.ablate) if options.ablate else (Variant(OURS),)
    ours = [Program(variant.label, variant) for variant in variants] if "ours" in options.programs else []
    peer = [Program(BY_HAND, None)] if "peer" in options.programs and options.backend == "cuda" else []
    return ours + peer


def _can_run(program: Program, layout: str, gpus: int) -> bool:
    """A direct transport needs a second rank to reach."""
    transport = None if program.variant is None else program.variant.variables.get("CELERITY_TRANSPORT")
    return transport != "direct" or (layout == "rank" and gpus > 1)


def check(runner: Runner, programs: Sequence[Program], options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Compare all programs with NumPy in all layouts; the checks in words, and the problems."""
    checked, problems = [], []
    gpus = max(options.gpus)
    for layout in options.layout:
        for program in programs:
            if not _can_run(program, layout, gpus):
                continue
            what = f"{program.label}, {layout}, {gpus} device(s): {' '.join(runner.app.check)}"
            try:
                runner.check(program, gpus, layout)
            except RuntimeError as error:
                problems.append(str(error))
                print(f"WRONG    {what}", flush=True)
                continue
            checked.append(what)
            print(f"verified {what}", flush=True)
    return checked, problems


def measure(
    runner: Runner, programs: Sequence[Program], options: argparse.Namespace
) -> tuple[list[dict[str, Any]], list[str]]:
    """All rows, with every run of every program, and what went wrong."""
    places = [
        Configuration(size, gpus, layout) for size in options.size for gpus in options.gpus for layout in options.layout
    ]

    def run(item: tuple[Configuration, Program]) -> dict[str, Any]:
        where, program = item
        figures = runner.figures(program, where)
        place = f"{where.size:7} {where.gpus} {where.layout:8}"
        print(f"{place} {program.label:20} {figures['us_per_step']:11.1f} µs", flush=True)
        return figures

    groups = [[(at, program) for program in programs if _can_run(program, at.layout, at.gpus)] for at in places]
    found, problems = launching.in_turns(groups, run, lambda item: f"{item[0]} {item[1].label}", options)
    runs: dict[Configuration, dict[str, list[dict[str, Any]]]] = {where: {} for where in places}
    for (where, program), figures in found:
        runs[where].setdefault(program.label, []).append(figures)
    rows = []
    for where in places:
        medians = {
            program.label: _summary(runs[where][program.label]) for program in programs if program.label in runs[where]
        }
        rows.append({"app": runner.app.name, **vars(where), "programs": medians})
    return rows, problems


def _summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    times = [run["us_per_step"] for run in runs]
    return {"us_per_step": statistics.median(times), "runs_us_per_step": times, "runs": list(runs)}


def add_speedups(rows: Sequence[dict[str, Any]]) -> None:
    """Compare each program with itself on the fewest devices of the same size and layout.

    On one device its speedup is 1; if the fewest are n, theirs is n. Adds `speedup` and `efficiency` to each program of
    a row, and to the row `ratio`, the time of the first of our programs over that of the peer; None if there is none.
    """
    fewest = min((row["gpus"] for row in rows), default=1)
    base = {
        (row["size"], row["layout"], label): program["us_per_step"] * row["gpus"]
        for row in rows
        if row["gpus"] == fewest
        for label, program in row["programs"].items()
    }
    for row in rows:
        programs = row["programs"]
        for label, program in programs.items():
            of_one = base.get((row["size"], row["layout"], label))
            program["speedup"] = of_one / program["us_per_step"] if of_one else None
            program["efficiency"] = program["speedup"] / row["gpus"] if of_one else None
        ours = next((program for label, program in programs.items() if label != BY_HAND), None)
        both = ours is not None and BY_HAND in programs
        row["ratio"] = ours["us_per_step"] / programs[BY_HAND]["us_per_step"] if ours is not None and both else None


def measure_limits(gpus: int) -> dict[str, list[float]]:
    """Measure what each of the first GPUs can do at most, in a process of its own; see `limits`.

    Raises:
        RuntimeError: If that fails.
    """
    output = launching.run([sys.executable, "-m", LIMITS, "--gpus", str(gpus)], {}, CHILD_TIMEOUT_S)
    limits: dict[str, list[float]] = json.loads(output.splitlines()[-1])
    return limits


def add_shares(rows: Sequence[dict[str, Any]], app: ScalingApp, limits: dict[str, list[float]]) -> None:
    """Add to each program of a row `work_per_s` and `share_of_limit`, and to the row `limit_per_s`, of its GPUs."""
    for row in rows:
        row["limit_per_s"] = sum(limits[app.limit][: row["gpus"]])
        for program in row["programs"].values():
            program["work_per_s"] = app.work(program["runs"][-1]) / program["us_per_step"] * 1e6
            program["share_of_limit"] = program["work_per_s"] / row["limit_per_s"]


def show(rows: Sequence[dict[str, Any]], title: str) -> None:
    """Print the table: a line for each program at each place; with resizes, if the application tells them."""
    lines = []
    grows = any("resizes" in program["runs"][-1] for row in rows for program in row["programs"].values())
    for row in rows:
        by_hand = row["programs"].get(BY_HAND)
        for label, program in row["programs"].items():
            times = program["runs_us_per_step"]
            figures = (program["speedup"], program["efficiency"], program.get("share_of_limit"))
            ratio = program["us_per_step"] / by_hand["us_per_step"] if by_hand and label != BY_HAND else None
            name = f"{label} ({_variant(program)})" if _variant(program) else label
            lines.append(
                [
                    f"{row['size']}",
                    row["layout"],
                    name,
                    f"{row['gpus']}",
                    f"{program['us_per_step']:.1f}",
                    f"{min(times):.1f} to {max(times):.1f}",
                    *map(report.number, (figures[0], ratio)),
                    *("-" if share is None else f"{100 * share:.0f} %" for share in figures[1:]),
                    str(len(times)),
                    *(_growth(program["runs"][-1]) if grows else ()),
                ]
            )
    columns = [*("size", "layout", "program", "devices", "µs per step", "runs", "speedup", "/ by hand")]
    columns += ["efficiency", "of limit", "count", *(("resizes, rank 0", "bytes copied for them") if grows else ())]
    report.show(title, columns, sorted(lines, key=lambda line: (-int(line[0]), *line[1:3], int(line[3]))), num_names=3)


def _growth(run: dict[str, Any]) -> tuple[str, str]:
    """The number of resizes in all batches of a run, and the bytes that they copied; "-" for a peer."""
    return (str(run["resizes"]), f"{run['resize_bytes']:,}") if "resizes" in run else ("-", "-")


def _variant(program: dict[str, Any]) -> str:
    return "/".join(sorted({str(run["variant"]) for run in program.get("runs", ()) if run.get("variant")}))


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and fill in what depends on the machine."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--app", choices=tuple(APPS), default="wave_sim", help="what is computed (default wave_sim)")
    parser.add_argument(
        "--gpus", type=report.integers, help="numbers of devices (default 1,2,4,8, as many as there are)"
    )
    parser.add_argument("--layout", type=report.names_among(LAYOUTS), default=list(LAYOUTS), help="process,rank")
    parser.add_argument("--size", type=report.integers, help="one size or several; by application if left out")
    parser.add_argument(
        "--programs", type=report.names_among(("ours", "peer")), default=["ours", "peer"], help="ours,peer"
    )
    parser.add_argument("--ablate", choices=tuple(ABLATIONS), help="also measure with this taken away or changed")
    parser.add_argument("--steps", type=int, help="per batch; by application and size if left out")
    launching.add_arguments(parser, seconds=500)
    parser.add_argument(
        "--merge", type=Path, nargs="+", metavar="FILE", help="measure nothing: table and plot of these JSON files"
    )
    options = parser.parse_args(arguments)
    if options.merge:
        return options
    app = APPS[options.app]
    if options.ablate and options.ablate not in app.ablations | OF_ALL_APPS:
        parser.error(f"{app.name} has no argument for --ablate {options.ablate}")
    options.backend, options.gpus = launching.backend_and_devices(parser, options.backend, options.gpus)
    options.size = options.size or list(app.sizes if options.backend == "cuda" else app.cpu_sizes)
    return options


def merged(files: Sequence[Path]) -> tuple[ScalingApp, list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of several files, with their environments; a later file replaces rows of an earlier one.

    Raises:
        SystemExit: If they are about different applications.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    environments = []
    for file in files:
        figures = json.loads(file.read_text())
        environments.append({"file": file.name, **figures["environment"]})
        for row in figures["rows"]:
            known = rows.setdefault((row["size"], row["layout"], row["gpus"]), row)
            known["programs"] |= row["programs"]
    names = {row["app"] for row in rows.values()}
    if len(names) != 1:
        raise SystemExit(f"--merge takes files of one application, these are of {', '.join(sorted(names)) or 'none'}")
    return APPS[names.pop()], environments, [rows[key] for key in sorted(rows)]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file and the plot if asked to."""
    options = options_of(arguments)
    problems: list[str] = []
    figures: dict[str, Any]
    if options.merge:
        app, environments, rows = merged(options.merge)
        figures = {"environments": environments}
    else:
        app = APPS[options.app]
        programs = programs_of(options)
        if BY_HAND not in [program.label for program in programs] and "peer" in options.programs:
            print("The programs by hand need GPUs: only ours are measured.")
        runner = Runner(app, options.backend, options.mpirun, options.steps)
        checked, problems = check(runner, programs, options)
        rows, failures = measure(runner, programs, options)
        problems += failures
        figures = {"backend": options.backend, "checked": checked}
        if options.backend == "cuda":
            try:
                figures["limits"] = measure_limits(max(options.gpus))
                add_shares(rows, app, figures["limits"])
            except RuntimeError as error:
                problems.append(str(error))
    add_speedups(rows)
    show(rows, f"Strong scaling of {app.name}, medians")
    has_limits = any("limit_per_s" in row for row in rows)
    print(
        f"Limit: {app.limit}, measured on the same GPUs; work: {app.work_name}. Data in a cache exceeds that of a copy."
        if has_limits
        else "Limits are measured on GPUs only."
    )
    if options.output:
        report.write(options.output, rows, **figures, problems=problems)
        merging = f" Where it is installed, --merge {options.output.name} draws it."
        report.show_plot(lambda: scaling_plot.save(rows, app.title, options.output), merging)
    return report.status_of(problems)


if __name__ == "__main__":
    raise SystemExit(main())
