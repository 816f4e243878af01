# SPDX-License-Identifier: MIT
"""Which order of equal kernels suits a DAG program: by age, by the longest path behind them, by their predecessors.

    python -m cluster_jobs.benchmarks.dags.kernel_orders --output results/kernel_orders.json
    python -m cluster_jobs.benchmarks.dags.kernel_orders --programs IMG,DL --regimes R1,R3 --seconds 140
    python -m cluster_jobs.benchmarks.dags.kernel_orders --backend cpu        # only tries it out

Each order gets a runtime of its own in each round, because a runtime keeps its order for life. The orders take turns.
In a round, the suite's variants d (celerity_py) and b (streams by hand) take turns as in `dag_suite.py`. "d over b" is
the time of b divided by that of d. Each variant is compared with NumPy in its first round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.dags import dag_measure, dag_options
from cluster_jobs.benchmarks.dags.dag_measure import Ours, Pace, Variant
from cluster_jobs.benchmarks.dags.dag_regimes import REGIMES, build, joined
from cluster_jobs.benchmarks.dags.dag_schedules import schedule_of

ORDERS = ("age", "path", "predecessors")
FEWEST_ROUNDS = 3


def measure(name: str, regime: str, options: argparse.Namespace, until: float) -> dict[str, Any]:
    """A program in a regime, with each order; a row of the file."""
    kind = REGIMES[regime]
    program = joined(name, build(name, kind, scale=options.scale))
    hand: list[Variant] = []
    if options.backend == "cuda":
        from cluster_jobs.benchmarks.dags.dags_by_hand import Arrays, HandWritten

        arrays = Arrays(program, from_host=kind.from_host)
        hand.append(HandWritten("b", arrays, schedule_of(name), from_host=kind.from_host))
        first_by_hand = dag_measure.first_results(hand[0], program, from_host=kind.from_host)
    samples: dict[str, list[dict[str, Any]]] = {order: [] for order in options.orders}
    begun, rounds = time.monotonic(), 0
    while rounds < options.rounds:
        begin = time.monotonic()
        longest = (begin - begun) / rounds if rounds else 0.0
        if rounds >= FEWEST_ROUNDS and begin + longest > until:
            break
        turn = rounds % len(options.orders)
        for number, order in enumerate((*options.orders[turn:], *options.orders[:turn])):
            left = (until - time.monotonic()) / max(1, FEWEST_ROUNDS - rounds) / (len(options.orders) - number)
            devices = "cpu:1" if options.backend == "cpu" else "0,"
            celerity.configure(backend=options.backend, devices=devices, kernel_order=order)
            with celerity.Queue() as queue:
                ours = Ours(program, queue, from_host=kind.from_host)
                ours.reset()
                first = None if rounds else dag_measure.first_results(ours, program, from_host=kind.from_host)
                variants = [ours, *hand]
                pace = Pace.of(ours, from_host=kind.from_host)
                end = time.monotonic() + max(0.2, min(options.block_s, left))
                found, problems = dag_measure.measure(variants, pace, options.samples, end)
                if problems:
                    raise RuntimeError(str(problems))
                if first is not None:
                    dag_measure.check_again(ours, first, from_host=kind.from_host)
                samples[order].append({name: sample.alone for name, sample in found.items()})
        rounds += 1
    if hand:
        dag_measure.check_again(hand[0], first_by_hand, from_host=kind.from_host)
    return {"program": name, "regime": regime, "rounds": rounds, "orders": _figures(samples)}


def _figures(samples: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Of each order: all times together, and the ratio of each round."""
    figures = {}
    for order, rounds in samples.items():
        ratios = [float(np.median(of["b"]) / np.median(of["d"])) for of in rounds if "b" in of]
        figures[order] = {
            **{kind: dag_measure.summary([value for of in rounds for value in of.get(kind, [])]) for kind in "db"},
            "d_over_b_by_round": ratios,
            "d_over_b": float(np.median(ratios)) if ratios else None,
        }
    return figures


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a line for each program, regime and order."""
    lines = []
    for row in rows:
        for order, figures in row["orders"].items():
            ratios = figures["d_over_b_by_round"]
            times = [report.spread(figures[kind], "_us") for kind in "db"]
            over = [f"{figures['d_over_b']:.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"] if ratios else ["-", "-"]
            lines.append([row["program"], row["regime"], order, *times, *over, str(row["rounds"])])
    columns = ("program", "regime", "order", "d, µs: median (10 % to 90 %)", "b, µs", "d over b", "of rounds", "rounds")
    report.show("Runs by themselves, by the order of equal kernels", columns, lines, num_names=3)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line, and fill in what depends on the machine."""
    parser = report.argument_parser(__doc__)
    dag_options.add_arguments(parser, ["IMG"], ["R3"], rounds=8, seconds=120)
    orders = report.names_among(ORDERS)
    parser.add_argument("--orders", type=orders, default=list(ORDERS), help=f"{','.join(ORDERS)} (default all)")
    parser.add_argument("--samples", type=int, default=60, help="runs per order and round, at most (default 60)")
    parser.add_argument("--block-s", type=float, default=3.0, help="seconds per order and round, at most (default 3)")
    options = parser.parse_args(arguments)
    dag_options.settle(parser, options, fewest_rounds=FEWEST_ROUNDS)
    if options.samples < dag_measure.FEWEST_ROUNDS:
        parser.error(f"--samples is at least {dag_measure.FEWEST_ROUNDS}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to; 1 if anything went wrong."""
    options = options_of(arguments)
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    deadline = time.monotonic() + options.seconds
    pairs = [(name, regime) for name in options.programs for regime in options.regimes]
    for number, (name, regime) in enumerate(pairs):
        until = time.monotonic() + (deadline - time.monotonic()) / (len(pairs) - number)
        row = dag_measure.attempt(problems, f"{name}, {regime}", partial(measure, name, regime, options, until))
        rows += [row] if row else []
        report.write(options.output, rows, problems=[f"{what}: {text}" for what, text in problems.items()])
    show(rows)
    return report.status_of(f"{what}: {text}" for what, text in problems.items())


if __name__ == "__main__":
    raise SystemExit(main())
