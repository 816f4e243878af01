# SPDX-License-Identifier: MIT
"""The programs that share a GPU in `sharing.py`, and their sizes.

MP-1 and MP-2 are the multi-program cases of KeSCo (ICCD 2023): IMG, VEC twice and HITS; ML, DL and B&S. Their sizes are
not published. Here each program gets the same share of the bytes of a case. The other cases are ours.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster_jobs.benchmarks.dags.dag_programs import Program
from cluster_jobs.benchmarks.dags.dag_regimes import FULL, LEAST, PER_ITEM, SMALL, Grids, make, with_grids


@dataclass(frozen=True)
class Case:
    """Programs that run at the same time."""

    name: str
    what: str
    #: In decreasing priority.
    programs: tuple[str, ...]
    priorities: tuple[int, ...]
    #: Grids of each program.
    grids: tuple[dict[str, Grids], ...]
    #: Bytes of all buffers of all programs, or of each program.
    sizes: dict[str, int | tuple[int, ...]]


#: Of the sizes `small`, `medium` and `large`; `tiny` is for CPU devices.
SIZES = ("tiny", "small", "medium", "large")


def _case(
    name: str, what: str, programs: str, priorities: tuple[int, ...], grids: tuple[dict[str, Grids], ...], *sizes: Any
) -> Case:
    return Case(name, what, tuple(programs.split()), priorities, grids, dict(zip(SIZES, sizes, strict=True)))


_ALL_CASES = (
    _case("MP-1", "IMG, VEC twice and HITS start together", "IMG VEC VEC HITS", (3, 2, 1, 0), (SMALL,) * 4,
          400_000, 8_000_000, 1_000_000_000, 20_000_000_000),
    _case("MP-2", "ML, DL and B&S start together", "ML DL B&S", (2, 1, 0), (SMALL,) * 3,
          600_000, 8_000_000, 1_000_000_000, 15_000_000_000),
    _case("latency", "a small VEC asks again and again, beside an IMG that fills the GPU", "VEC IMG", (1, 0),
          (PER_ITEM, FULL),
          (16_000, 100_000), (1_000_000, 150_000_000), (1_000_000, 600_000_000), (16_000_000, 6_000_000_000)),
    _case("starvation", "two IMG fill the GPU without end, above an IMG, above another one", "IMG IMG IMG IMG",
          (2, 2, 1, 0), (FULL,) * 4, 400_000, 160_000_000, 2_400_000_000, 10_000_000_000),
)  # fmt: skip
CASES = {case.name: case for case in _ALL_CASES}

#: Bytes of all buffers, per element, pixel, row, vertex or price; the powers of the size that they grow with.
_BYTES = {"VEC": (16.0, 1), "B&S": (160.0, 1), "IMG": (36.0, 2), "ML": (1692.0, 1), "HITS": (72.0, 1), "DL": (25.3, 2)}


def build(case: Case, size: str | int) -> list[Program]:
    """The programs of a case.

    Args:
        case: Of `CASES`.
        size: Of `SIZES`, or bytes of all buffers of all programs. In the case `latency`, those of the large program.
    """
    given = case.sizes[size] if isinstance(size, str) else size
    count = len(case.programs)
    if isinstance(given, int) and isinstance(usual := case.sizes["small"], tuple):
        given = (*usual[:-1], given)
    shares = given if isinstance(given, tuple) else (given // count,) * count
    wanted = [(name, _size_of(name, share)) for name, share in zip(case.programs, shares, strict=True)]
    make_one = partial(make, from_host=True, is_regular=True)
    with ThreadPoolExecutor() as threads:  # gigabytes take seconds
        list(threads.map(lambda one: make_one(*one), dict.fromkeys(wanted)))
    return [with_grids(make_one(*one), grids[one[0]]) for one, grids in zip(wanted, case.grids, strict=True)]


def _size_of(name: str, share: int) -> int:
    per_item, power = _BYTES[name]
    size: float = (share / per_item) ** (1 / power)
    return max(LEAST.get(name, 64), round(size))


def bytes_of(program: Program) -> int:
    """Bytes of all buffers."""
    return sum(array.nbytes for array in program.buffers.values())
