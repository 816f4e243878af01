# SPDX-License-Identifier: MIT
"""The frame of every benchmark around its measurements: arguments, a table, and a JSON file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cluster_jobs.benchmarks import environment
from cluster_jobs.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_WIDTH = 200  # of a file or pipe; tables use as much of it as they need


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser for `--output`; add the benchmark's own arguments."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    return parser


def names_among(known: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument that takes some of the known names, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if not set(names) <= set(known):
            raise argparse.ArgumentTypeError(f"must be among {','.join(known)}, not {text}")
        return names

    return parse


def integers(text: str) -> list[int]:
    """The type of an argument that takes positive numbers, separated by commas; ascending, each once."""
    values = [int(item) for item in text.split(",")]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"must be positive numbers such as 1,2,4, not {text}")
    return sorted(set(values))


def show(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]], *, num_names: int = 1) -> None:
    """Print a table whose first `num_names` columns are text and the others figures."""
    table = Table(title=title)
    for position, name in enumerate(columns):
        table.add_column(name, justify="left" if position < num_names else "right")
    for line in lines:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def show_rows(
    title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Mapping[str, Any]], *, num_names: int = 1
) -> None:
    """Print a table with a line for each row of figures; a column has a heading and a format, as `"{best_us:.1f}"`."""
    lines = [[text.format_map(row) for _, text in columns] for row in rows]
    show(title, [heading for heading, _ in columns], lines, num_names=num_names)


def number(value: float | None, digits: int = 2) -> str:
    """A figure of a table; "-" if there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def duration(value: float | None) -> str:
    """A time of a table in four digits, or more from 1000 on; "-" if there is none."""
    return "-" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def percentiles(values: Sequence[float], scale: float = 1.0) -> dict[str, float] | None:
    """Median, spread and the 99th percentile, multiplied by `scale`, and their number; None if there are no values."""
    if not values:
        return None
    found = map(float, np.percentile(values, (10, 50, 90, 99)) * scale)
    return {**dict(zip(("p10", "p50", "p90", "p99"), found, strict=True)), "number": len(values)}


def spread(figures: Mapping[str, float] | None) -> str:
    """A median between percentiles, as `percentiles` has them."""
    if not figures:
        return "-"
    return f"{duration(figures['p50'])} ({duration(figures['p10'])} to {duration(figures['p90'])})"


def status_of(problems: Iterable[str]) -> int:
    """Print what went wrong; the exit status."""
    told = list(problems)
    for problem in told:
        print(f"PROBLEM  {problem}", file=sys.stderr)
    return int(bool(told))


def show_plot(save: Callable[[], Iterable[Path]], instead: str = "") -> None:
    """Tell which pictures `save` has drawn, or that there is no matplotlib, and what to do `instead`."""
    try:
        for path in save():
            print(f"Plot: {path.resolve()}")
    except RuntimeError as error:
        print(f"No plot: {error}{instead}")


def write(output: Path | None, rows: Sequence[Any], **more: Any) -> None:
    """Write the figures and their environment to a JSON file, if one is asked for; `more` are further keys."""
    if output is None:
        return
    write_json(output, {"environment": environment.describe(), "rows": rows, **more})
