# SPDX-License-Identifier: MIT
"""Types and texts that several commands use."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from celerity_py.runtime.outputs import check_file
from celerity_py.scheduler.errors import ConfigurationError

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
    parser.set_defaults(execute=execute, command=parser.prog.partition(" ")[2], complain=parser.error)
    return parser


def names_files(action: argparse.Action) -> None:
    """Let shells complete an argument with the names of files."""
    action.complete = _FILES  # type: ignore[attr-defined]


def check_output(path: Path, example: str) -> None:
    """Find out before the work whether the file of --output can be written; makes its folder.

    Args:
        path: The file.
        example: The name of such a file.

    Raises:
        CommandError: If it cannot.
    """
    try:
        check_file("--output", str(path), path, example)
    except ConfigurationError as error:
        raise CommandError(str(error)) from None


def add_timelines(parser: argparse.ArgumentParser, which: str, output: str) -> None:
    """Add the arguments of a command that reads timelines, `files`, and writes a file, `output`, with their help."""
    names_files(parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=which))
    names_files(parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=output))


@contextmanager
def reading_timelines(options: argparse.Namespace, example: str) -> Iterator[None]:
    """Check the arguments of `add_timelines`, and carry out a block that reads the one and writes the other.

    Args:
        options: The parsed arguments.
        example: The name of such an output.

    Raises:
        CommandError: If files cannot be read or written, or a file is no timeline.
    """
    _check_timelines(options.files, options.output)
    check_output(options.output, example)
    try:
        yield
    except OSError as error:
        raise failure_of_file(error, options.output) from None
    except ValueError as error:
        raise CommandError(str(error)) from None


def _check_timelines(files: Sequence[Path], output: Path) -> None:
    """Refuse names that are no files to read timelines from, and an output that would overwrite one.

    Raises:
        CommandError: For the first such name.
    """
    for path in files:
        if path.is_dir():
            raise CommandError(f"{path} is a folder. Name the timelines in it, such as {path / 'out.*.json'}.")
        if not path.exists():
            raise CommandError(
                f"there is no file {path}. A run with CELERITY_TRACE=out writes out.json, or out.0.json, out.1.json "
                f"and so on if it has several ranks."
            )
        if output.exists() and output.samefile(path):
            raise CommandError(f"--output={output}: this is one of the timelines to read. Name another file.")


def failure_of_file(error: OSError, output: Path) -> CommandError:
    """A file cannot be read or written. The error of a full disk names none: then it is the output."""
    return CommandError(f"{error.filename or output}: {error.strerror or error}.")


def positive(text: str) -> int:
    """Convert an argument that counts something."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, not {text!r}")
    return value
