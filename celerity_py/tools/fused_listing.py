# SPDX-License-Identifier: MIT
"""Runs a program, and lists what is made of its fused functions: `-m celerity_py.tools.fused_listing FILE cpu app.py`.

`celerity-py fuse` does so in a dry run.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

from celerity_py import fused_functions
from celerity_py.executor.failures.user_frames import name_of_file
from celerity_py.fused_functions import FusedFunction, Listing


def main(output: str, target: str, program: str, *arguments: str) -> None:
    """Run the program, and write the list also if the program ends with an exception.

    Args:
        output: The file.
        target: "cpu" or "gpu": for which devices kernels are made.
        program: The file of the program.
        arguments: Of the program.
    """
    listing = fused_functions.LISTING = Listing(for_gpus=target == "gpu")
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).resolve().parent)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        text = json.dumps([_describe(function) for function in listing.functions])
        Path(output).write_text(text, encoding="utf-8")


def _describe(fused: FusedFunction) -> dict[str, Any]:
    code = getattr(fused.function, "__code__", None)
    line = "an unknown line" if code is None else f"{name_of_file(code.co_filename)}:{code.co_firstlineno}"
    structures = [
        {
            "passes": [[*dict.fromkeys(lines)] for lines in made.lines],
            "scratch": [f"{memory.shape} of {memory.dtype}" for memory in made.scratch],
            "source": made.text,
        }
        for made in fused.made.values()
    ]
    return {"name": fused.name, "line": line, "structures": structures, "why_not": fused.why_not}


if __name__ == "__main__":
    main(*sys.argv[1:])
