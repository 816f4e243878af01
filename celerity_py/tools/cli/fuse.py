# SPDX-License-Identifier: MIT
"""`celerity-py fuse app.py`: the kernels that are made of the fused functions of a program, in a dry run."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celerity_py.tools.cli.planned_run import plan_program
from celerity_py.tools.cli.run import program_words
from celerity_py.tools.cli.words import add_command, names_files, positive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celerity_py.tools.cli.words import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "fuse",
        execute,
        "Show the kernels that are made of the fused functions of a program.",
        "The program is planned, and nothing is executed or compiled. Tells of each function its structures, the "
        "passes over memory with the lines of their statements, and the scratch memory of a chunk; or why Python runs "
        "it. "
        "Options that this command does not know go to the program.",
    )
    names_files(parser.add_argument("program", metavar="FILE", help="the program"))
    parser.add_argument("--devices", type=positive, default=1, metavar="D", help="devices (1)")
    parser.add_argument("--gpu", action="store_true", help="make the kernels for GPUs, which need not be here")
    parser.add_argument("--source", action="store_true", help="print the text of each structure")
    parser.set_defaults(takes_rest=True)


def execute(options: argparse.Namespace) -> int:
    """Let a dry run of the program list its fused functions, and print the list."""
    program = program_words(None, [options.program, *options.rest])
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "functions.json"
        target = "gpu" if options.gpu else "cpu"
        words = ["-m", "celerity_py.tools.fused_listing", str(written), target, *program]
        run = plan_program(words, 0, 1, options.devices, {})._replace(program=options.program)
        if not written.exists():
            run.refuse("are no kernels")
        functions = json.loads(written.read_text(encoding="utf-8"))
    for line in _describe(functions, with_source=options.source):
        print(line)
    return run.pass_on()


def _describe(functions: list[dict[str, Any]], *, with_source: bool) -> Iterator[str]:
    if not functions:
        yield "The program has made no fused function."
    for function in functions:
        yield f"{function['name']} ({function['line']})"
        for number, structure in enumerate(function["structures"], start=1):
            yield f"  structure {number}: {_count(structure['passes'])}, {_scratch(structure['scratch'])}"
            for place, lines in enumerate(structure["passes"], start=1):
                yield f"    pass {place}: {', '.join(lines)}"
            if with_source:
                yield f"\n{structure['source'].strip()}\n"
        if function["why_not"]:
            yield f"  Python runs it: {function['why_not']}"
        elif not function["structures"]:
            yield "  no kernel is made of it in this run"


def _count(passes: list[Any]) -> str:
    return f"{len(passes)} pass" if len(passes) == 1 else f"{len(passes)} passes"


def _scratch(memories: list[str]) -> str:
    return f"scratch memory {', '.join(memories)}" if memories else "no scratch memory"
