# SPDX-License-Identifier: MIT
"""In which sizes, grids and mixtures the DAG programs are measured.

R1: data on the device, grids as small as those that GrCUDA was measured with, so that one kernel leaves room for
others. R2: data on the device, grids that fill it. R3: as R1, but the host renews the dirty inputs before each run,
and reads an element of each result after it. R4: so little data that only overhead is left.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.dags.dag_kernels import FOLD_BLOCKS, FOLD_THREADS
from cluster_jobs.benchmarks.dags.dag_programs import PROGRAMS, Program, Step, Use

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Grids:
    """Threads per block and blocks of the kernels, by dimensions of their index space; x is the last one.

    No blocks: one thread per item.
    """

    threads: tuple[tuple[int, ...] | None, ...]
    blocks: tuple[tuple[int, ...] | None, ...]
    #: Of kernels that fold everything into one element.
    fold: tuple[int, int] = (FOLD_THREADS, FOLD_BLOCKS)
    #: Threads per block of the kernel that has a block per column.
    column_threads: int = 256


@dataclass(frozen=True)
class Regime:
    """One way to measure a program."""

    name: str
    sizes: dict[str, int]
    grids: dict[str, Grids]
    #: Dirty inputs come from the host, and the host reads an element of each result.
    from_host: bool = False


#: The least pixels per side of programs on images; other programs have at least 64 elements.
LEAST = {"IMG": 16, "DL": 64}
#: Elements, prices per stock, pixels per side, rows, vertices, pixels per side.
LARGE = {"VEC": 1 << 26, "B&S": 1 << 21, "IMG": 4096, "ML": 1 << 17, "HITS": 1 << 21, "DL": 4096}
TINY = {"VEC": 1 << 16, "B&S": 1 << 13, "IMG": 128, "ML": 1 << 10, "HITS": 1 << 14, "DL": 256}

# 640 blocks of 32 threads, and for IMG 16 x 16 blocks of 16 x 16, as GrCUDA's programs have on a V100 or A100. ML has
# 64 blocks of 32 there; here they are 8 x 8 for its kernels over rows and classes. 640 would mean millions of empty
# blocks for DL: it has 16 x 16 blocks of 8 x 8.
_SMALL = Grids((None, (32,), (8, 8), (1, 8, 8)), (None, (640,), (16, 16), (16, 16, 1)), column_threads=32)
SMALL = {
    **dict.fromkeys(PROGRAMS, _SMALL),
    "IMG": dataclasses.replace(_SMALL, threads=(None, (32,), (16, 16), None)),
    "ML": dataclasses.replace(_SMALL, blocks=(None, (64,), (32, 2), None)),
}
# At least 8 blocks of 256 threads for each of 132 multiprocessors.
_FULL = Grids((None, (256,), (8, 32), (4, 8, 8)), (None, (2112,), None, None), (256, 1056), column_threads=512)
FULL = {
    **dict.fromkeys(PROGRAMS, _FULL),
    # Ten classes: narrow blocks.
    "ML": dataclasses.replace(_FULL, threads=(None, (256,), (16, 16), None), blocks=(None, (2112,), (2112, 1), None)),
}
_PER_ITEM = Grids((None, (256,), (8, 32), (4, 8, 8)), (None, None, None, None))
PER_ITEM = {
    **dict.fromkeys(PROGRAMS, _PER_ITEM),
    "ML": dataclasses.replace(_PER_ITEM, threads=(None, (256,), (16, 16), None)),
}

REGIMES = {
    regime.name: regime
    for regime in (
        Regime("R1", LARGE, SMALL),
        Regime("R2", LARGE, FULL),
        Regime("R3", LARGE, SMALL, from_host=True),
        Regime("R4", TINY, PER_ITEM),
    )
}

#: Our own mixtures, run as one program; their parts have a quarter of the size. The two of two programs are as wide as
#: the multi-task programs M1 (6 kernels) and M2 (12 kernels) of KeSCo, whose parts are not published.
MIXES = {
    "VEC+IMG": ("VEC", "IMG"),
    "B&S+ML": ("B&S", "ML"),
    "VEC+IMG+DL": ("VEC", "IMG", "DL"),
    "B&S+ML+HITS": ("B&S", "ML", "HITS"),
}
ALL = (*PROGRAMS, *MIXES)


def parts_of(name: str) -> tuple[str, ...]:
    """The programs that a program consists of: itself, if it is no mixture."""
    return MIXES.get(name, (name,))


def build(name: str, regime: Regime, *, scale: float = 1.0) -> list[Program]:
    """The parts of a program, with the sizes and grids of a regime.

    Args:
        name: Of `ALL`.
        regime: Of `REGIMES`.
        scale: Factor for the amount of data, to try things out.
    """
    parts = parts_of(name)
    if len(parts) > 1 and regime.sizes is LARGE:
        scale /= 4
    return [
        with_grids(make(part, _scaled(part, regime, scale), from_host=regime.from_host), regime.grids[part])
        for part in parts
    ]


def _scaled(name: str, regime: Regime, scale: float) -> int:
    return max(LEAST.get(name, 64), round(regime.sizes[name] * (scale**0.5 if name in LEAST else scale)))


@functools.cache
def make(name: str, size: int, *, from_host: bool, is_regular: bool = False) -> Program:
    """One of the six. It is kept, with its arrays and what NumPy computes of it: users differ in grids only.

    Args:
        name: Of `PROGRAMS`.
        size: Elements, prices per stock, pixels per side, rows or vertices.
        from_host: The dirty inputs come from the host; this changes ML.
        is_regular: The graph of HITS is regular.
    """
    how = {"ML": {"from_host": from_host}, "HITS": {"is_regular": is_regular}}.get(name, {})
    return PROGRAMS[name](size, **how)


def with_grids(program: Program, grids: Grids) -> Program:
    """The same program with other grids."""
    threads, blocks = grids.fold
    steps = []
    for step in program.steps:
        if step.kernel.is_fold:
            shape: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = ((threads,), (blocks,))
        elif step.grid is not None:  # a block per column
            shape = ((grids.column_threads,), step.grid)
        else:
            shape = grids.threads[len(step.space)], grids.blocks[len(step.space)]
        steps.append(dataclasses.replace(step, block=shape[0], grid=shape[1]))
    partials = {name: np.zeros(blocks, np.float32) for name in program.buffers if name.endswith("_partials")}
    return dataclasses.replace(program, steps=steps, buffers=program.buffers | partials)


def in_turns(counts: Sequence[int]) -> list[tuple[int, int]]:
    """The order of steps of several programs that take turns: (program, step of it)."""
    return [(part, step) for step in range(max(counts)) for part, count in enumerate(counts) if step < count]


class Mixture(Program):
    """Several programs as one, whose steps take turns; their buffers get prefixes."""

    def __init__(self, name: str, parts: Sequence[Program]) -> None:
        self.parts = parts

        def all_of(attribute: str) -> tuple[str, ...]:
            return tuple(f"{part.name}.{buffer}" for part in parts for buffer in getattr(part, attribute))

        super().__init__(name, sum(part.least_waits for part in parts), all_of("results"), 0.0, all_of("dirty"))
        self.read_back = all_of("read_back")
        self.is_iterative = any(part.is_iterative for part in parts)
        self.buffers = {f"{part.name}.{key}": array for part in parts for key, array in part.buffers.items()}
        for part, number in in_turns([len(part.steps) for part in parts]):
            self.steps.append(_renamed(parts[part].steps[number], parts[part].name))

    def expected(self, runs: int = 1) -> dict[str, NDArray[Any]]:
        """The results by NumPy."""
        return {f"{part.name}.{key}": array for part in self.parts for key, array in part.expected(runs).items()}

    def check(self, results: dict[str, NDArray[Any]], runs: int) -> None:
        """Compare each part with NumPy, with its own tolerance.

        Raises:
            AssertionError: If a result differs.
        """
        for part in self.parts:
            part.check({key: results[f"{part.name}.{key}"] for key in part.results}, runs)


def _renamed(step: Step, prefix: str) -> Step:
    args = tuple(
        dataclasses.replace(arg, buffer=f"{prefix}.{arg.buffer}") if isinstance(arg, Use) else arg for arg in step.args
    )
    return dataclasses.replace(step, args=args)


def joined(name: str, parts: Sequence[Program]) -> Program:
    """One program of one or several parts."""
    return parts[0] if len(parts) == 1 else Mixture(name, parts)
