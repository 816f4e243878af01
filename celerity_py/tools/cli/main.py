# SPDX-License-Identifier: MIT
"""The command line: `celerity-py COMMAND`, or `python -m celerity_py COMMAND`.

A command is a module with a function `add_to`, which adds a parser to the commands and sets its `execute`. This file
lists the modules. They import neither MPI nor CUDA before they are executed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from celerity_py import _native
from celerity_py.tools.cli import completion, demo, dry_run, fuse, graph, info, report, run, trace
from celerity_py.tools.cli.words import CommandError

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands

_COMMANDS: Final[tuple[Callable[[Commands], None], ...]] = (
    info.add_to,
    demo.add_to,
    run.add_to,
    dry_run.add_to,
    graph.add_to,
    fuse.add_to,
    trace.add_to,
    report.add_to,
    completion.add_to,
)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(prog="celerity-py", description="Looks after programs that use celerity_py.")
    parser.set_defaults(takes_rest=False, whole_parser=parser)
    parser.add_argument("--version", action="version", version=f"celerity_py {_native.version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add_to in _COMMANDS:
        add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a command.

    Args:
        arguments: Those of the process by default.

    Returns:
        The exit status: 0 if all went well, 1 if the command failed, 2 if the command line is wrong.
    """
    parser = make_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    options, rest = parser.parse_known_args(arguments)
    if rest and not options.takes_rest:
        options.complain(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    try:
        status = int(options.execute(options))
        sys.stdout.flush()
        return status
    except CommandError as error:
        sys.stderr.write(f"celerity-py {options.command}: {error}\n")
        return 1
    except OSError as error:
        if not _output_has_no_place():
            raise
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"celerity-py {options.command}: the output cannot be written: {error.strerror}.\n")
        return 1


def _output_has_no_place() -> bool:
    """Whether the output has no reader, as behind `| head`, or a full disk. Then the rest of it goes nowhere."""
    try:
        print(flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed at the exit
        return True
    return False
