# SPDX-License-Identifier: MIT
"""The frame of every benchmark around its measurements: arguments, a table, and a JSON file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from cluster_jobs.benchmarks import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


def show(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]], *, num_names: int = 1) -> None:
    """Print a table whose first `num_names` columns are text and the others figures."""
    table = Table(title=title)
    for position, name in enumerate(columns):
        table.add_column(name, justify="left" if position < num_names else "right")
    for line in lines:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)


def write(output: Path | None, rows: Sequence[Any], **more: Any) -> None:
    """Write the figures and their environment to a JSON file, if one is asked for; `more` are further keys."""
    if output is None:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_suffix(".part")
    part.write_text(json.dumps({"environment": environment.describe(), "rows": rows, **more}, indent=1) + "\n")
    part.replace(output)  # a program that is cut off leaves the file whole
