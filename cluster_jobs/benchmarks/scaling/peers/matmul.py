# SPDX-License-Identifier: MIT
"""Matrix products by hand: the kernel, the rows of one GPU, and the problem.

D = A (B C) in float64, with kernel and factors of `cluster_jobs/apps/matmul.py`. Each GPU computes some rows of B C and
of D, and keeps the whole of C and of B C; the rows of B C travel in bands, each as soon as it is computed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers import kernels
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, rows_of

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))  # applications import their frame as scripts do
import frame
import matmul

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bands that the rows of a GPU are cut into if transfers overlap with computing.
NUM_BANDS = 4


def bands_of(part: int, parts: int, size: int, number: int) -> list[tuple[int, int]]:
    """The rows of a part, cut into bands; some may be empty."""
    first, end = rows_of(size, part, parts)
    cuts = [first + (end - first) * index // number for index in range(number + 1)]
    return list(itertools.pairwise(cuts))


class Share:
    """Factors and products of one GPU."""

    def __init__(self, device: int, size: int, part: int, parts: int) -> None:
        import cupy

        self.size = size
        self.first_row, self.end_row = rows_of(size, part, parts)
        self.row_bytes = 8 * size

        def factor(first: int, end: int, seed: int) -> Any:
            return cupy.asarray(matmul.entries(celerity.Box((first, 0), (end, size)), seed))

        with cupy.cuda.Device(device):
            self.device = cupy.cuda.Device(device)
            self.a, self.b = (factor(self.first_row, self.end_row, seed) for seed in (1, 2))
            self.c = factor(0, size, 3)
            self.bc = cupy.zeros((size, size), np.float64)
            self.d = cupy.zeros((self.end_row - self.first_row, size), np.float64)
        a, b, d = (kernels.accessor(array, self.first_row) for array in (self.a, self.b, self.d))
        c, bc = (kernels.accessor(array) for array in (self.c, self.bc))

        def launch(product: Any, left: Any, right: Any, first: int, end: int) -> kernels.Launch:
            rows = kernels.chunk((first, 0), (end, size), (size, size))
            return kernels.Launch(matmul.multiply, device, rows, product, left, right, np.int64(size))

        bands = {band for number in (1, NUM_BANDS) for band in bands_of(part, parts, size, number) if band[0] < band[1]}
        self._first_products = {band: launch(bc, b, c, *band) for band in bands}
        self._second_product = launch(d, a, bc, self.first_row, self.end_row)

    def first_product(self, band: tuple[int, int], stream: Any) -> None:
        """Enqueue a band of B C."""
        if band in self._first_products:  # it has rows
            self._first_products[band](stream)

    def second_product(self, stream: Any) -> None:
        """Enqueue the own rows of D."""
        self._second_product(stream)

    def result(self) -> NDArray[np.float64]:
        """A copy of the own rows of D."""
        with self.device:
            rows: NDArray[np.float64] = self.d.get()
        return rows

    def reset(self) -> None:
        """Overwrite both products, so that the next check sees new results only."""
        with self.device:
            self.bc.fill(np.nan)
            self.d.fill(np.nan)
            self.device.synchronize()

    def address(self, row: int) -> int:
        """Where a row of B C lies."""
        return int(self.bc.data.ptr) + row * self.row_bytes


def variants_of(step: Step) -> dict[str, Step]:
    """By name, steps that enqueue both products; `step` takes the number of bands in which B C travels."""

    def in_bands(number: int) -> Step:
        return lambda _parity: step(number)

    return {"plain": in_bands(1), "overlapped": in_bands(NUM_BANDS)}


class Products(Problem):
    """D = A (B C)."""

    default_size, size_help, default_steps = 8192, "rows and columns of each matrix", 2
    rate_name = "TFLOP/s"
    has_long_steps = True

    @property
    def checked_steps(self) -> int:
        """Of any number: each step computes the same."""
        return int(self.options.steps)

    def title(self) -> str:
        """The heading of the table."""
        return f"Two products of {self.options.size} x {self.options.size} float64"

    def rate(self, us_per_step: float) -> str:
        """Trillions of operations per second."""
        return f"{4 * float(self.options.size) ** 3 / us_per_step / 1e6:.2f}"

    def verdict(self, results: Sequence[NDArray[np.float64]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        return int(not frame.agrees(np.concatenate(results), matmul.reference(self.options.size)))
