# SPDX-License-Identifier: MIT
"""Types and texts that several commands use."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

#: Shells complete such an argument with the names of files; `shtab` reads this.
_FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files"}


class CommandError(Exception):
    """A command cannot do its work; the message says why, and what to do."""


def add_command(
    commands: Commands, name: str, execute: Callable[[argparse.Namespace], int], summary: str, details: str = ""
) -> argparse.ArgumentParser:
    """Add a command.

    Args:
        commands: Where.
        name: How it is called.
        execute: Called with the parsed arguments; returns the exit status, and may raise `CommandError`.
        summary: One sentence for the list of commands.
        details: Further sentences for the help of the command.

    Returns:
        The parser for the arguments of the command.
    """
    parser = commands.add_parser(name, help=summary, description=f"{summary} {details}".strip(), allow_abbrev=False)
    parser.set_defaults(execute=execute, command=parser.prog.partition(" ")[2])
    return parser


def names_files(action: argparse.Action) -> None:
    """Let shells complete an argument with the names of files."""
    action.complete = _FILES  # type: ignore[attr-defined]


def positive(text: str) -> int:
    """Convert an argument that counts something."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, not {text!r}")
    return value
