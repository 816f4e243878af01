# SPDX-License-Identifier: MIT
"""What all hand-written programs share: their options, how batches of steps are timed, and what is reported of them.

A step has a parity: of two arrays, the first is read and the second written in even steps, the other way round in odd.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def argument_parser(description: str, *, size: int, size_help: str) -> argparse.ArgumentParser:
    """The options that all programs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=size, help=size_help)
    parser.add_argument("--steps", type=int, default=200, help="steps per batch, rounded up to an even number")
    parser.add_argument("--batches", type=int, default=7, help="batches, of which the median counts")
    parser.add_argument("--seconds", type=float, default=10, help="no further batch begins after so long")
    parser.add_argument(
        "--overlap",
        choices=("auto", "on", "off"),
        default="auto",
        help="transfers behind kernels, where there is such a variant: auto takes the fastest",
    )
    parser.add_argument("--check", action="store_true", help="compare with NumPy instead; for small sizes")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    return parser


def time_variants(
    variants: dict[str, Callable[[int], None]],
    options: argparse.Namespace,
    finish: Callable[[], None],
    agree: Callable[[Any], Any] = lambda value: value,
    slowest: Callable[[float], float] = lambda value: value,
    *,
    are_long: bool = False,
) -> tuple[str, list[float]]:
    """Time batches of the fastest variant.

    Args:
        variants: By name, what enqueues a step of a parity.
        options: From `argument_parser`.
        finish: Waits for all of this process's GPUs, and for the other ranks.
        agree: Returns the first rank's argument on all ranks.
        slowest: Returns the greatest argument of all ranks.
        are_long: One step warms up, and one batch chooses; batches may have an odd number of steps.

    Returns:
        The name of the variant, and microseconds per step of each batch.
    """
    steps = options.steps if are_long else options.steps + options.steps % 2
    warm_up, num_trials, steps_of_trial = (1, 1, steps) if are_long else (20, 2, max(20, steps // 4 * 2))

    def batch(step: Callable[[int], None], count: int) -> float:
        parities = [number % 2 for number in range(count)]
        finish()
        begun = time.perf_counter()
        for parity in parities:
            step(parity)
        finish()
        return slowest((time.perf_counter() - begun) * 1e6 / count)

    trials = {}
    for name, step in variants.items():
        batch(step, warm_up)
        trials[name] = min(batch(step, steps_of_trial) for _ in range(num_trials))
    best = agree(min(trials, key=lambda name: trials[name]))
    return best, repeat(lambda: batch(variants[best], steps), options, agree)


def repeat(batch: Callable[[], float], options: argparse.Namespace, agree: Callable[[Any], Any]) -> list[float]:
    """The figures of as many batches as `options` ask for and have time for, at least one; the same on all ranks."""
    deadline = time.perf_counter() + options.seconds
    times: list[float] = []
    while agree(not times or (len(times) < options.batches and time.perf_counter() < deadline)):
        times.append(batch())
    return times


def chosen(variants: dict[str, Callable[[int], None]], overlap: str) -> dict[str, Callable[[int], None]]:
    """The variants that `--overlap` leaves; a program with a single one has that."""
    if overlap == "auto" or len(variants) == 1:
        return variants
    return {name: step for name, step in variants.items() if (name == "plain") == (overlap == "off")}


def report(
    title: str,
    *,
    program: str,
    gpus: int,
    variant: str,
    times: list[float],
    options: argparse.Namespace,
    rate: tuple[str, Callable[[float], str]],
) -> None:
    """Print the table, and write the JSON file if asked to.

    Args:
        title: Of the table.
        program: What it is, for the file.
        gpus: How many.
        variant: The one that was timed.
        times: Microseconds per step of each batch.
        options: From `argument_parser`.
        rate: What the last column is called, and what it says of so many microseconds per step.
    """
    median = statistics.median(times)
    table = Table(title=title)
    for column in ("GPUs", "variant", "µs per step", "min to max", "batches", rate[0]):
        table.add_column(column, justify="right")
    spread = f"{min(times):.1f} to {max(times):.1f}"
    table.add_row(str(gpus), variant, f"{median:.1f}", spread, str(len(times)), rate[1](median))
    Console(width=110).print(table)
    if options.output:
        figures = {
            "program": program,
            "size": options.size,
            "gpus": gpus,
            "variant": variant,
            "us_per_step": median,
            "batches_us_per_step": times,
            "python": sys.version,
        }
        options.output.write_text(json.dumps(figures, indent=1) + "\n")
