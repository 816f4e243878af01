# SPDX-License-Identifier: MIT
"""`celerity-py trace merge`: the timelines of all ranks of a run in one file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from celerity_py.timeline.chrome import merge
from celerity_py.tools.cli.words import add_command, add_timelines, reading_timelines

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands


def add_to(commands: Commands) -> None:
    """Add the command, which has commands of its own."""
    parser = commands.add_parser("trace", help="Work with timelines.", description="Work with timelines.")
    own = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    merging = add_command(own, "merge", execute, "Merge the timelines of the ranks of a run into one file.")
    add_timelines(merging, "out.0.json out.1.json ..., as CELERITY_TRACE=out wrote them", "the file to write")


def execute(options: argparse.Namespace) -> int:
    """Merge the files."""
    with reading_timelines(options, "merged.json"):
        merge(options.files, options.output)
    return 0
