# SPDX-License-Identifier: MIT
"""What hand-written programs share that divide an array into slabs of rows and exchange border rows after each step.

In a step of parity p, array p of a slab is read and array 1 - p written. Rows 0 to `halo` - 1 and the last `halo` rows
belong to the neighbours, or to nobody.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import batches

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from numpy.typing import NDArray


class Slab(Protocol):
    """The rows of one GPU, on it."""

    num_rows: int  # without the halo
    row_elements: int  # float32 each

    def launch(self, part: str, parity: int, stream: Any) -> None:
        """Enqueue a step of "all" rows, of the "border" (the first and last `halo` ones), or of the "interior"."""

    def address(self, parity: int, row: int) -> int:
        """Where a row lies, halo rows counted."""

    def own_rows(self, parity: int) -> NDArray[np.float32]:
        """A copy of the own rows."""


class Problem(Protocol):
    """What is computed."""

    halo: int
    options: argparse.Namespace

    def slab(self, device: int, part: int, parts: int) -> Slab:
        """Make one of the slabs; SystemExit if there are too few rows for so many."""

    def verdict(self, result: NDArray[np.float32], steps: int) -> int:
        """Compare with NumPy, and print; the exit status."""

    def report(self, program: str, gpus: int, variant: str, times: list[float]) -> None:
        """Print the table, and write the JSON file if asked to."""


def rows_of(rows: int, part: int, parts: int, fewest: int) -> tuple[int, int]:
    """The first row of a part and the one behind its last.

    Raises:
        SystemExit: If a part has fewer than `fewest`.
    """
    if rows // parts < fewest:
        raise SystemExit(f"{rows} rows are too few for {parts} GPUs")
    first, end = (rows * index // parts for index in (part, part + 1))
    return first, end


def exchanged_rows(slab: Slab, halo: int) -> dict[int, tuple[int, int]]:
    """By the step to the neighbour, -1 or 1: the first row that it gets, and the first one that comes from it."""
    return {-1: (halo, 0), 1: (slab.num_rows, slab.num_rows + halo)}


class Worker(ABC):
    """Who computes a slab: the whole of it and then exchanges its border on the same stream, or the border first.

    A layout says how rows are exchanged.
    """

    def __init__(self, slab: Slab) -> None:
        import cupy

        self.slab = slab
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.border_stream = cupy.cuda.Stream(non_blocking=True)
        self.interior_done = cupy.cuda.Event(disable_timing=True)
        self.border_done = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()

    def begin(self, parity: int, stream: Any) -> None:  # noqa: B027 - most often, nothing
        """What comes first on the stream that computes the border."""

    @abstractmethod
    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of border rows after a step of this parity."""

    def plain(self, parity: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.begin(parity, self.stream)
        self.slab.launch("all", parity, self.stream)
        self.exchange(parity, self.stream)

    def overlapped(self, parity: int) -> None:
        """Enqueue a step: border and exchange on one stream, interior on the other.

        Each reads what the other wrote in the step before, and overwrites what it read then.
        """
        self.begin(parity, self.border_stream)
        self.border_stream.wait_event(self.interior_done)
        self.stream.wait_event(self.border_done)
        self.slab.launch("border", parity, self.border_stream)
        self.border_done.record(self.border_stream)
        self.exchange(parity, self.border_stream)
        self.slab.launch("interior", parity, self.stream)
        self.interior_done.record(self.stream)

    def synchronize(self) -> None:
        """Wait for both streams."""
        self.stream.synchronize()
        self.border_stream.synchronize()


def check(
    problem: Problem,
    variants: dict[str, Callable[[int], None]],
    collect: Callable[[], NDArray[np.float32] | None],
) -> int:
    """Run all variants one after the other and compare what has become of the array; the exit status.

    Args:
        problem: What is computed.
        variants: By name, what enqueues a step of a parity.
        collect: Waits for all, and returns all rows of array 0; None on ranks that have nothing to say.
    """
    status = 0
    pairs = problem.options.steps // 2 + 1
    for number, (name, step) in enumerate(variants.items(), 1):
        for _ in range(pairs):
            step(0)
            step(1)
        result = collect()
        if result is not None:
            print(name, end=": ")
            status |= problem.verdict(result, number * pairs * 2)
    return status


def variants_of(
    plain: Callable[[int], None], overlapped: Callable[[int], None], options: argparse.Namespace
) -> dict[str, Callable[[int], None]]:
    """Both ways to do a step, or the one that is asked for."""
    return batches.chosen({"plain": plain, "overlapped": overlapped}, options.overlap)
