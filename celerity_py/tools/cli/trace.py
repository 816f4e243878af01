# SPDX-License-Identifier: MIT
"""`celerity-py trace merge`: the timelines of all ranks of a run in one file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from celerity_py.timeline.chrome import merge
from celerity_py.tools.cli.words import (
    CommandError,
    add_command,
    check_output,
    check_timelines,
    failure_of_file,
    names_files,
)

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands


def add_to(commands: Commands) -> None:
    """Add the command, which has commands of its own."""
    parser = commands.add_parser("trace", help="Work with timelines.", description="Work with timelines.")
    own = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    merging = add_command(own, "merge", execute, "Merge the timelines of the ranks of a run into one file.")
    files = merging.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="out.0.json out.1.json ..., as CELERITY_TRACE=out wrote them",
    )
    output = merging.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write")
    for action in (files, output):
        names_files(action)


def execute(options: argparse.Namespace) -> int:
    """Merge the files."""
    check_timelines(options.files, options.output)
    check_output(options.output, "merged.json")
    try:
        merge(options.files, options.output)
    except OSError as error:
        raise failure_of_file(error, options.output) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    return 0
