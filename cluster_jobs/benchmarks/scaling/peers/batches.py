# SPDX-License-Identifier: MIT
"""Times batches of steps of hand-written programs, in the fastest of their variants."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from cluster_jobs.benchmarks.scaling.peers.problem import Step


def time_variants(
    variants: dict[str, Step],
    options: argparse.Namespace,
    finish: Callable[[], None],
    agree: Callable[[Any], Any] = lambda value: value,
    slowest: Callable[[float], float] = lambda value: value,
    *,
    are_long: bool = False,
) -> tuple[str, list[float]]:
    """Time batches of the fastest variant.

    Args:
        variants: By name.
        options: `steps`, `batches` and `seconds` of the command line.
        finish: Waits for all of this process's GPUs, and for the other ranks.
        agree: Returns the first rank's argument on all ranks.
        slowest: Returns the greatest argument of all ranks.
        are_long: One step warms up, and one batch chooses; batches may have an odd number of steps.

    Returns:
        The name of the variant, and microseconds per step of each batch.
    """
    steps = options.steps if are_long else options.steps + options.steps % 2
    warm_up, num_trials, steps_of_trial = (1, 1, steps) if are_long else (20, 2, max(20, steps // 4 * 2))

    def batch(step: Step, count: int) -> float:
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


def chosen(variants: dict[str, Step], overlap: str) -> dict[str, Step]:
    """The variants that `--overlap` leaves; a program with a single one has that."""
    if overlap == "auto" or len(variants) == 1:
        return variants
    return {name: step for name, step in variants.items() if (name == "plain") == (overlap == "off")}
