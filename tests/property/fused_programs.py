# SPDX-License-Identifier: MIT
"""Compiles random functions on views by g++, and runs them: `python -m tests.property.fused_programs --kernels 1000`.

Prints how many chunks differ from NumPy.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from celerity_py.fusion.kernels import FusedKernel
from celerity_py.fusion.mistakes import NotTakenError
from celerity_py.fusion.tiling import Tile
from tests.property.fused_functions import Program, draw, short_texts
from tests.support.fused_kernels import (
    compile_texts,
    copies,
    describe_difference,
    launch,
    make_kernel,
    run_on_numpy,
)

UNIT = 100
#: Whatever the maker chooses, and others.
_TILES = (None, None, *(Tile(rows, columns) for rows in (1, 2, 3) for columns in (1, 2, 4, 8)))


@dataclass(frozen=True)
class Made:
    """A program with the kernels of its chunks."""

    program: Program
    kernels: tuple[FusedKernel, ...]


def make_all(seeds: Iterator[int], count: int) -> tuple[list[Made], int]:
    """So many programs that can be fused, and how many could not yet."""
    made: list[Made] = []
    num_refused = 0
    while len(made) < count:
        program = draw(next(seeds))
        function = program.function()
        try:
            kernels = []
            for place, box in enumerate(program.boxes):
                fixes = bool(program.seed % 3)
                name = f"k{len(made)}_{place}"
                tile = random.Random(program.seed).choice(_TILES)
                options = {} if tile is None else {"choose": lambda *_, tile=tile: tile}
                with short_texts(program):
                    made_of = make_kernel(
                        function, box, *program.arguments, name=name, fixes_distances=fixes, **options
                    )
                kernels.append(made_of)
        except NotTakenError:
            num_refused += 1
            continue
        made.append(Made(program, tuple(kernels)))
    return made, num_refused


@dataclass
class Findings:
    """What was found out about programs."""

    #: Chunks whose results differ from NumPy's, described.
    differences: list[str] = field(default_factory=list)
    #: Passes in which threads accessed vectors.
    num_wide: int = 0


def find(made: list[Made], folder: Path, name: str) -> Findings:
    """Compile programs as one unit, and run them."""
    texts = []
    for one in made:
        first, second = one.kernels
        texts.append(first.text)
        if not _same_structure(first, second):
            texts.append(second.text)
    seed = made[0].program.seed
    library = compile_texts(texts, folder, name, "int" if seed % 2 else "long long")
    findings = Findings()
    for one in made:
        first, second = one.kernels
        for box, kernel in zip(one.program.boxes, one.kernels, strict=True):
            expected, given = copies(one.program.arguments), copies(one.program.arguments)
            run_on_numpy(one.program.function(), box, expected)
            shared = first.name if _same_structure(first, second) else kernel.name
            draws = random.Random(one.program.seed)
            findings.num_wide += launch(library, kernel, given, name=shared, draws=draws)
            difference = describe_difference(kernel, expected, given)
            if difference:
                findings.differences.append(
                    f"program {one.program.seed}, chunk {box}:\n{one.program.text}{difference}\n"
                )
    return findings


def _same_structure(first: FusedKernel, second: FusedKernel) -> bool:
    return first.text.replace(first.name, "") == second.text.replace(second.name, "")


def report_differences(programs: Iterator[list[str]]) -> int:
    """Print the differences of programs as they come, and how many there are. Returns the status of a process."""
    begin, num_different = time.monotonic(), 0
    for number, found in enumerate(programs, start=1):
        num_different += len(found)
        print("".join(f"{one}\n" for one in found), end="", flush=True)
        if number % 50 == 0:
            seconds = time.monotonic() - begin
            print(f"{number} programs, {num_different} differ, {seconds:.0f} s", flush=True)
    return int(num_different > 0)


def main() -> int:
    """Try many programs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seeds = iter(range(arguments.seed * 1_000_000, (arguments.seed + 1) * 1_000_000))
    begin, num_done, num_refused, num_different, num_wide = time.monotonic(), 0, 0, 0, 0
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        while num_done < arguments.kernels:
            made, refused = make_all(seeds, min(UNIT, arguments.kernels - num_done))
            found = find(made, Path(folder), f"unit{num_done}")
            num_done += len(made)
            num_refused += refused
            num_different += len(found.differences)
            num_wide += found.num_wide
            print("\n".join(found.differences))
            print(
                f"{num_done} programs, {num_refused} not fused yet, {num_different} chunks differ, {num_wide} passes "
                f"with vectors, {time.monotonic() - begin:.0f} s"
            )
    return int(num_different > 0)


if __name__ == "__main__":
    raise SystemExit(main())
