# SPDX-License-Identifier: MIT
"""Random fused functions through a queue: submits, launches and scratch memory of the runtime.

    python -m tests.property.fused_queue_programs --kernels 1000 --seed 1

runs many, and prints how many differ from NumPy.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import CelerityWarning
from tests.property.fused_functions import Program, draw, short_texts
from tests.property.fused_programs import report_differences
from tests.support.fused_kernels import Access, Result, copies, differing, run_on_numpy


def differences(program: Program) -> list[str]:
    """Submit a program for its chunks several times, and describe each difference from NumPy.

    Raises:
        CelerityWarning: If it cannot be fused yet.
    """
    function, found = program.function(), []
    kernel = celerity.fuse(function)
    with celerity.Queue() as queue, warnings.catch_warnings():
        warnings.simplefilter("error", CelerityWarning)
        for box in (*program.boxes, program.boxes[0]):
            expected, given = copies(program.arguments), copies(program.arguments)
            buffers = {id(one.array): _buffer_of(one) for one in given if isinstance(one, Access)}
            for _ in range(1 + program.seed % 2):
                run_on_numpy(function, box, expected)
                with short_texts(program):
                    queue.parallel_for(box, kernel, *(_argument_of(one, buffers) for one in given))
            for position, (a, b) in enumerate(zip(expected, given, strict=True)):
                if isinstance(b, Access) and differing(a.array, queue.fence(buffers[id(b.array)]).result()).any():
                    found.append(f"program {program.seed}, chunk {box}, argument {position}:\n{program.text}")
    return found


def _buffer_of(one: Access) -> celerity.Buffer[Any]:
    return celerity.Buffer.from_array(one.array, element=one.array.shape[one.array.ndim - one.element_ndim :])


def _argument_of(one: Any, buffers: dict[int, celerity.Buffer[Any]]) -> Any:
    if not isinstance(one, Access):
        return one
    buffer = buffers[id(one.array)]
    if isinstance(one, Result):
        return celerity.reduction(buffer, one.op)
    mapper = access.all() if one.box is None else access.fixed(one.box)
    return buffer.read_write(mapper) if one.writable else buffer.read(mapper)


def all_differences(seeds: Iterator[int], count: int) -> Iterator[list[str]]:
    """The differences of so many programs that can be fused and submitted."""
    while count:
        seed = next(seeds)
        program = draw(seed, is_wide=seed % 3 == 0)
        accesses = [one for one in program.arguments if isinstance(one, Access)]
        written = [id(one.array) for one in accesses if one.writable]
        if any([id(one.array) for one in accesses].count(array) > 1 for array in written):
            continue  # refused: two accesses of a buffer, one of which writes
        try:
            with np.errstate(all="ignore"):
                found = differences(program)
        except CelerityWarning:
            continue
        count -= 1
        yield found


def main() -> int:
    """Try many programs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kernels", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    celerity.configure(devices=1)
    return report_differences(all_differences(itertools.count(arguments.seed * 1_000_000), arguments.kernels))


if __name__ == "__main__":
    raise SystemExit(main())
