# SPDX-License-Identifier: MIT
"""The arguments that the benchmarks of DAG programs have in common."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cluster_jobs.benchmarks import launching, report
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES

CPU_SCALE = 1e-3


def add_arguments(
    parser: argparse.ArgumentParser, programs: Sequence[str], regimes: Sequence[str], *, rounds: int, seconds: float
) -> None:
    """Add the arguments, with their defaults."""
    names, kinds = report.names_among(ALL), report.names_among(tuple(REGIMES))
    parser.add_argument("--programs", type=names, default=list(programs), help=",".join(ALL))
    parser.add_argument("--regimes", type=kinds, default=list(regimes), help=f"{','.join(REGIMES)} (default {regimes})")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds that count, at most (default {rounds})")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"time for all programs (default {seconds:g})")
    parser.add_argument("--scale", type=float, help=f"factor for the amount of data (default 1, on CPUs {CPU_SCALE})")
    launching.add_backend(parser)


def settle(parser: argparse.ArgumentParser, options: argparse.Namespace, *, fewest_rounds: int) -> None:
    """Fill in what depends on the machine, and refuse too few rounds."""
    launching.settle_backend(parser, options)
    options.scale = options.scale or (CPU_SCALE if options.backend == "cpu" else 1.0)
    if options.rounds < fewest_rounds:
        parser.error(f"--rounds is at least {fewest_rounds}")
