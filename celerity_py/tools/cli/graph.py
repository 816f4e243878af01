# SPDX-License-Identifier: MIT
"""`celerity-py graph app.py`: the graphs of a program, planned for any number of ranks, as texts and pictures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from celerity_py.configuration import Configuration, parse_window
from celerity_py.graphs.drawing import to_svg
from celerity_py.runtime.outputs import check_folder
from celerity_py.scheduler.errors import ConfigurationError, ResourceError
from celerity_py.tools.cli.planned_run import PlannedRun, plan_program
from celerity_py.tools.cli.run import program_words
from celerity_py.tools.cli.words import CommandError, add_command, failure_of_file, names_files, positive

if TYPE_CHECKING:
    from celerity_py.tools.cli.words import Commands

_FOLDER: Final = "celerity_graphs"


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "graph",
        execute,
        "Draw the graphs of tasks, commands and instructions of a program.",
        "The program is planned, and nothing is executed. Options that this command does not know go to the program. "
        "With a folder that CELERITY_PRINT_GRAPHS has written, the command draws the texts that have no picture.",
    )
    names_files(parser.add_argument("source", metavar="FILE", help="the program, or a folder of graphs"))
    parser.add_argument("--ranks", type=positive, default=1, metavar="N", help="how many ranks (1)")
    parser.add_argument("--devices", type=positive, default=1, metavar="D", help="devices of each rank (1)")
    parser.add_argument("--rank", type=int, default=0, metavar="R", help="the rank whose instructions are shown (0)")
    parser.add_argument(
        "--window",
        type=_window,
        default=str(Configuration().print_graphs_window),
        metavar="W",
        help="the tasks to show: 10:40 (T10 to T39), -20: (the last 20), H2:H5 (between horizons), or : for all "
        "(%(default)s). A window that begins with a minus needs the equals sign: --window=-20:",
    )
    parser.add_argument(
        "--limit", type=positive, default=60, metavar="S", help="seconds for each picture of a folder (60)"
    )
    output = parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help=f"where files go ({_FOLDER})")
    names_files(output)
    parser.set_defaults(takes_rest=True)


def _window(text: str) -> str:
    try:
        return str(parse_window(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {error}, not {text!r}") from None


def execute(options: argparse.Namespace) -> int:
    """Draw a folder, or let a dry run of the program write and draw its graphs; print the names of the files."""
    source = Path(options.source)
    written, run = (_draw(source, options), None) if source.is_dir() else _plan(options)
    for path in written:
        print(path)
    return 0 if run is None else run.pass_on()


def _draw(folder: Path, options: argparse.Namespace) -> list[Path]:
    """The pictures that a folder lacks."""
    if options.rest:
        raise CommandError(f"{folder} is a folder of graphs, and takes no option {options.rest[0]}.")
    if options.output is not None and options.output != folder:
        raise CommandError(f"the pictures of {folder} go into this folder. Leave --output out.")
    texts = sorted(folder.glob("*.dot"))
    if not texts:
        raise CommandError(f"the folder {folder} has no graphs. CELERITY_PRINT_GRAPHS={folder} lets a run write them.")
    drawn = []
    for text in texts:
        picture = text.with_suffix(".svg")
        if picture.exists() and picture.stat().st_mtime_ns >= text.stat().st_mtime_ns:
            continue
        try:
            drawing = to_svg(text.read_text(encoding="utf-8"), f"graph {text}", options.limit)
            picture.write_text(drawing, encoding="utf-8")
        except OSError as error:
            raise failure_of_file(error, picture) from None
        except UnicodeDecodeError as error:
            raise CommandError(f"{text} is no text in UTF-8: {error}. Was the file changed?") from None
        except ResourceError as error:
            raise CommandError(str(error)) from None
        drawn.append(picture)
    if not drawn:
        sys.stderr.write(f"All graphs in {folder} have their pictures.\n")
    return drawn


def _plan(options: argparse.Namespace) -> tuple[list[Path], PlannedRun]:
    """The files of a dry run, and the end of its program."""
    if not 0 <= options.rank < options.ranks:
        raise CommandError(f"--rank names rank {options.rank}, but the ranks are 0 to {options.ranks - 1}.")
    program = program_words(None, [options.source, *options.rest])
    folder = options.output or Path(_FOLDER)
    try:
        check_folder("--output", str(folder))
    except ConfigurationError as error:
        raise CommandError(str(error)) from None
    before = _times(folder)
    wanted = {"CELERITY_PRINT_GRAPHS": str(folder), "CELERITY_PRINT_GRAPHS_WINDOW": options.window}
    run = plan_program(program, options.rank, options.ranks, options.devices, wanted)
    written = [path for path, time_ns in _times(folder).items() if before.get(path) != time_ns]
    if not written:
        run.refuse("are no graphs")
    return written, run


def _times(folder: Path) -> dict[Path, int]:
    """The graphs of a folder, with their times of change."""
    return {path: path.stat().st_mtime_ns for path in sorted(folder.glob("*")) if path.suffix in {".dot", ".svg"}}
