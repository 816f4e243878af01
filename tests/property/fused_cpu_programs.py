# SPDX-License-Identifier: MIT
"""Random functions on views, compiled by numba, on boxes that are cut into parts.

    python -m tests.property.fused_cpu_programs --kernels 1000 --seed 1

compiles and runs many, and prints how many differ from NumPy.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from celerity_py.cpu.compilation import compile_for_cpu
from celerity_py.fusion.mistakes import NotTakenError
from tests.property.fused_functions import Program, draw, short_texts
from tests.property.fused_programs import report_differences
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import copies, describe_difference, run_on_numpy


def differences(program: Program, folder: Path) -> list[str]:
    """Run a program on its chunks, and describe each difference from NumPy.

    Raises:
        NotTakenError: If it cannot be fused yet.
    """
    function, found = program.function(), []
    for box in program.boxes:
        with short_texts(program):
            kernel = make_cpu_kernel(function, box, *program.arguments, fixes_distances=bool(program.seed % 3))
        expected, given = copies(program.arguments), copies(program.arguments)
        run_on_numpy(function, box, expected)
        compiled = compile_for_cpu(kernel.text, kernel.name, len(kernel.calls), folder=folder)
        run_on_cpu(compiled, kernel, given, num_cuts=program.seed % 4)
        difference = describe_difference(kernel, expected, given)
        if difference:
            found.append(f"program {program.seed}, chunk {box}:\n{program.text}{difference}\n")
    return found


def all_differences(seeds: Iterator[int], count: int, folder: Path) -> Iterator[list[str]]:
    """The differences of so many programs that can be fused."""
    while count:
        try:
            seed = next(seeds)
            found = differences(draw(seed, is_wide=seed % 2 == 0), folder)
        except NotTakenError:
            continue
        count -= 1
        yield found


def main() -> int:
    """Try many programs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        programs = all_differences(itertools.count(arguments.seed * 1_000_000), arguments.kernels, Path(folder))
        return report_differences(programs)


if __name__ == "__main__":
    raise SystemExit(main())
