# SPDX-License-Identifier: MIT
"""The programs of GrCUDA and KeSCo on one GPU: ours beside the same kernels by hand, in the same process and run.

    python -m cluster_jobs.benchmarks.dags.dag_suite --output results/dags.json
    python -m cluster_jobs.benchmarks.dags.dag_suite --programs VEC,IMG --regimes R1,R4 --variants a1,b,d
    python -m cluster_jobs.benchmarks.dags.dag_suite --programs IMG --regimes R3 --variants b,d --orders age,path
    python -m cluster_jobs.benchmarks.dags.dag_suite --backend cpu        # only tries ours out

Programs: VEC, B&S, IMG, ML, HITS, DL, and four mixtures of our own. Variants: a0, one stream, waited for behind each
kernel, pageable copies; a1, one stream, pinned copies; b, streams and events by hand with the fewest waits; c, a CUDA
graph of its kernels; d, celerity_py; d', celerity_py with a recording that it replays. Regimes: R1, data on the device
and small grids; R2, grids that fill the device; R3, the host renews inputs and reads an element of each result; R4,
tiny.

Each variant is compared with NumPy before it is timed. Rounds go through the variants in turns. A run is timed by
itself, until the host knows that it is over, and in a row of runs that are waited for once; in R3 only by itself, and
without the time in which the host renews the inputs. Each program and each order of equal kernels has a process of its
own, so that nothing that goes wrong in one stops the others; with --output, the file is written after each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import celerity_py as celerity
from cluster_jobs.benchmarks import launching, report
from cluster_jobs.benchmarks.dags import dag_measure, dag_table
from cluster_jobs.benchmarks.dags.dag_measure import Ours, Pace, Replayed, Variant
from cluster_jobs.benchmarks.dags.dag_programs import Program
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES, Regime, build, joined
from cluster_jobs.benchmarks.dags.dag_schedules import dependencies, least_waits_of, reduced, schedule_of, width_of

CPU_SCALE = 1e-3
ORDERS = ("age", "path", "predecessors")
VARIANTS = ("a0", "a1", "b", "c", "d", "d'")
OURS = {kind.name: kind for kind in (Ours, Replayed)}
GRACE_S = 120.0  # for a program to start, to compute with NumPy and to end, besides its time for measuring


# ---- one program, in this process


def _make_variants(
    program: Program, name: str, regime: Regime, queue: celerity.Queue, options: argparse.Namespace
) -> tuple[list[Variant], dict[str, str]]:
    """The variants that there are in this regime and on this machine, and what went wrong with others."""
    arrays: list[Any] = []

    def make(kind: str) -> Variant:
        if kind in OURS:
            return OURS[kind](program, queue, from_host=regime.from_host)
        from cluster_jobs.benchmarks.dags import dags_by_hand

        if not arrays:
            arrays.append(dags_by_hand.Arrays(program, from_host=regime.from_host))
        return dags_by_hand.HandWritten(kind, arrays[0], schedule_of(name), from_host=regime.from_host)

    problems: dict[str, str] = {}
    made = [dag_measure.attempt(problems, kind, partial(make, kind)) for kind in options.variants]
    return [variant for variant in made if variant is not None], problems


def measure_regime(
    name: str, regime: Regime, queue: celerity.Queue, options: argparse.Namespace, until: float
) -> dict[str, Any]:
    """Check and time the variants of a program in a regime; a row of the file."""
    program = joined(name, build(name, regime, scale=options.scale))
    row: dict[str, Any] = {"program": name, "regime": regime.name, **_structure(program)}
    variants, problems = _make_variants(program, name, regime, queue, options)
    first: dict[str, Any] = {}
    for each in variants:
        check = partial(dag_measure.first_results, each, program, from_host=regime.from_host)
        first[each.name] = dag_measure.attempt(problems, each.name, check)
    variants = [variant for variant in variants if variant.name not in problems]
    samples: dict[str, dag_measure.Samples] = {}
    if variants:
        slowest = next((variant for variant in variants if variant.name != "a0"), variants[0])
        pace = Pace.of(slowest, from_host=regime.from_host)
        samples, failed = dag_measure.measure(variants, pace, options.rounds, until)
        problems |= failed
        for each in (variant for variant in variants if variant.name not in failed):
            again = partial(dag_measure.check_again, each, first[each.name], from_host=regime.from_host)
            dag_measure.attempt(problems, each.name, again)
    row["variants"] = {
        variant.name: _figures(variant, samples[variant.name], len(program.steps))
        for variant in variants
        if variant.name not in problems
    }
    row["problems"] = problems
    return row


def _structure(program: Program) -> dict[str, Any]:
    return {
        "kernels": len(program.steps),
        "edges": len(reduced(dependencies(program), len(program.steps))),
        "width": width_of(program),
        "least_waits": least_waits_of(program),
        "megabytes": sum(array.nbytes for array in program.buffers.values()) / 1e6,
        "dirty_megabytes": sum(program.buffers[name].nbytes for name in program.dirty) / 1e6,
    }


def _figures(variant: Variant, samples: dag_measure.Samples, kernels: int) -> dict[str, Any]:
    submit = report.percentiles(samples.submit)
    figures: dict[str, Any] = {
        "in_a_row": report.percentiles(samples.in_a_row),
        "alone": report.percentiles(samples.alone),
        "submit_us_per_kernel": submit["p50"] / kernels if submit else None,
        "samples_in_a_row_us": samples.in_a_row,
    }
    for attribute in ("waits", "streams"):
        if getattr(variant, attribute, None) is not None:
            figures[attribute] = getattr(variant, attribute)
    return figures


def measure_here(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one program in this process; everything that the file has on it, also written to it after each regime."""
    begun = time.monotonic()
    celerity.configure(backend=options.backend, devices="cpu:1" if options.backend == "cpu" else "0,")
    figures: dict[str, Any] = {"counted": {}, "rows": [], "problems": []}
    if "d" in options.variants:
        small = joined(name, build(name, REGIMES["R4"], scale=0.1 if options.backend == "cuda" else CPU_SCALE))
        problems: dict[str, str] = {}
        count = partial(dag_measure.count_ours, small, is_cuda=options.backend == "cuda")
        figures["counted"] = dag_measure.attempt(problems, "waits of d", count) or {}
        figures["problems"] += [f"{name}, {what}: {text}" for what, text in problems.items()]
    with celerity.Queue() as queue:
        for number, regime in enumerate(options.regimes):
            left = begun + options.seconds - time.monotonic()
            until = time.monotonic() + left / (len(options.regimes) - number)
            failed: dict[str, str] = {}
            measure = partial(measure_regime, name, REGIMES[regime], queue, options, until)
            row = dag_measure.attempt(failed, "all", measure) or {
                "program": name, "regime": regime, "variants": {}, "problems": failed,
            }  # fmt: skip
            if "d" in row["variants"]:
                counted = figures["counted"]
                kind = "driver_waits" if options.backend == "cuda" else "lane_waits"
                row["variants"]["d"] |= {"waits": counted.get(kind), "streams": counted.get("streams")}
            figures["problems"] += _problems_of(row)
            figures["rows"].append(row)
            print(dag_table.line_of(row), flush=True)
            report.write(options.output, **figures)
    dag_table.show_program(figures["rows"])
    return figures


def _problems_of(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['program']}, {row['regime']}, {kind}: {text}" for kind, text in row["problems"].items()]


# ---- all programs, in processes of their own


def _command(name: str, options: argparse.Namespace, seconds: float, output: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "cluster_jobs.benchmarks.dags.dag_suite", "--here", "--programs", name),
        *("--regimes", ",".join(options.regimes), "--variants", ",".join(options.variants)),
        *("--rounds", str(options.rounds), "--seconds", f"{seconds:.1f}", "--scale", str(options.scale)),
        *("--backend", options.backend, "--output", str(output)),
    ]


def run(name: str, order: str, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Measure a program in a process of its own, and print what it printed; what it left, if it comes to grief."""
    problems, variables = [], {"CELERITY_KERNEL_ORDER": order}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "program.json"
        try:
            print(launching.run(_command(name, options, seconds, output), variables, seconds + GRACE_S), end="")
        except RuntimeError as error:
            problems.append(f"{name}: {error}")
        figures: dict[str, Any] = {"counted": {}, "rows": [], "problems": []}
        if output.exists():
            figures = json.loads(output.read_text())
    figures["problems"] = figures["problems"] or problems  # it has said why itself, or cannot
    missing = [regime for regime in options.regimes if regime not in {row["regime"] for row in figures["rows"]}]
    if missing:
        figures["problems"].append(f"{name}: left no figures of {', '.join(missing)}")
    return figures


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """All programs in all orders, one after the other; the names of orders other than by age stand behind a program."""
    about = {key: getattr(options, key) for key in ("backend", "regimes", "variants", "rounds", "scale", "orders")}
    figures: dict[str, Any] = {**about, "counted": {}, "rows": [], "problems": []}
    deadline = time.monotonic() + options.seconds
    jobs = [(program, order) for program in options.programs for order in options.orders]
    for number, (program, order) in enumerate(jobs):
        name = program if order == ORDERS[0] else f"{program}, {order}"
        begun = time.monotonic()
        seconds = (deadline - begun) / (len(jobs) - number)
        if seconds <= 0:
            figures["problems"].append(f"{name}: no time to run it; raise --seconds")
            continue
        print(f"{name}: at most {seconds:.0f} s", flush=True)
        found = run(program, order, options, seconds)
        print(f"{name}: took {time.monotonic() - begun:.0f} s", flush=True)
        figures["counted"][name] = found["counted"]
        figures["rows"] += [row | {"program": name} for row in found["rows"]]
        figures["problems"] += found["problems"]
        figures["summary"] = dag_table.summarize(figures["rows"])
        report.write(options.output, **figures)
    return figures


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and fill in what depends on the machine."""
    parser = report.argument_parser(__doc__)
    chosen = {"programs": ALL, "regimes": tuple(REGIMES), "variants": VARIANTS}
    for name, known in chosen.items():
        parser.add_argument(f"--{name}", type=report.names_among(known), default=list(known), help=",".join(known))
    orders_help = f"of equal kernels, {','.join(ORDERS)} (default {ORDERS[0]})"
    parser.add_argument("--orders", type=report.names_among(ORDERS), default=[ORDERS[0]], help=orders_help)
    parser.add_argument("--rounds", type=int, default=30, help="rounds that count, at most (default 30)")
    parser.add_argument("--seconds", type=float, default=400, help="time for all programs (default 400)")
    parser.add_argument("--scale", type=float, help=f"factor for the amount of data (default 1, on CPUs {CPU_SCALE})")
    launching.add_backend(parser)
    parser.add_argument("--here", action="store_true", help="measure a single program, in this process")
    options = parser.parse_args(arguments)
    launching.settle_backend(parser, options)
    options.scale = options.scale or (CPU_SCALE if options.backend == "cpu" else 1.0)
    if options.rounds < dag_measure.FEWEST_ROUNDS:
        parser.error(f"--rounds is at least {dag_measure.FEWEST_ROUNDS}")
    if options.backend == "cpu":
        options.variants = [name for name in options.variants if name in OURS]
        if not options.variants:
            parser.error("by hand there are only programs for GPUs, and there is none")
    if options.here and len(options.programs) != 1:
        parser.error("--here takes a single program")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, and write the JSON file if asked to; 1 if anything went wrong."""
    options = options_of(arguments)
    if options.here:
        problems = measure_here(options.programs[0], options)["problems"]
    else:
        figures = run_all(options)
        problems = figures["problems"]
        if figures["rows"]:
            dag_table.show_all(figures["rows"], figures["summary"])
    return report.status_of(problems)


if __name__ == "__main__":
    raise SystemExit(main())
