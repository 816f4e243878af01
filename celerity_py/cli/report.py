# SPDX-License-Identifier: MIT
"""`celerity-py report`: a page with figures, a timeline and advice about a run, or a comparison of two runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from celerity_py.cli.words import CommandError, add_command, names_files

if TYPE_CHECKING:
    from celerity_py.cli.words import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        execute,
        "Make a page of HTML with advice, figures and a timeline of a run.",
        "With the files of two runs, the page compares them.",
    )
    files = parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="the timelines of all ranks, as CELERITY_TRACE=out wrote them; those of a second run may follow",
    )
    output = parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the page to write")
    for action in (files, output):
        names_files(action)


def execute(options: argparse.Namespace) -> int:
    """Read the files, and write the page."""
    from celerity_py.report.make import make_page

    try:
        options.output.write_text(make_page(options.files), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from None
    return 0
