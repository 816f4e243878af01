# SPDX-License-Identifier: MIT
"""`celerity-py report`: a page with figures, a timeline and advice about a run, or a comparison of two runs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from celerity_py.executor.quantities import format_bytes
from celerity_py.tools.cli.words import add_command, add_timelines, reading_timelines
from celerity_py.vocabulary.tables import Table, write_tables

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands

#: Of each part of the page.
_MOST_FINDINGS: Final = 3


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        execute,
        "Make a page of HTML with advice, figures and a timeline of a run.",
        "With the files of two runs, the page compares them. Prints the greatest findings.",
    )
    which = "the timelines of all ranks, as CELERITY_TRACE=out wrote them; those of a second run may follow"
    add_timelines(parser, which, "the page to write")


def execute(options: argparse.Namespace) -> int:
    """Read the files, write the page, and print its gist."""
    from celerity_py.tools.report.make import make_report

    with reading_timelines(options, "report.html"):
        report = make_report(options.files)
        size = options.output.write_bytes(report.page.encode())
    parts: list[Table | str] = [f"{options.output}, {format_bytes(size)}: {report.title}"]
    for heading, findings in report.findings.items():
        parts.append(Table([(finding,) for finding in findings[:_MOST_FINDINGS]], heading, is_cut=True))
        if len(findings) > _MOST_FINDINGS:
            parts.append(f"  The page has {len(findings) - _MOST_FINDINGS} more.")
    write_tables(parts, sys.stdout)
    return 0
