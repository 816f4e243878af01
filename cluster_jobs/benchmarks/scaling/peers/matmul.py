# SPDX-License-Identifier: MIT
"""Matrix products by hand: the kernel, the rows of one GPU, and the problem.

D = A (B C) in float64 as in `cluster_jobs/apps/matmul.py`, with its kernel and its factors. Each GPU computes some rows
of B C and of D, and keeps the whole of C and of B C; the rows of B C travel in bands, each as soon as it is computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE = 32
#: Bands that the rows of a GPU are cut into if transfers overlap with computing.
NUM_BANDS = 4
SOURCE = r"""
constexpr int TILE = 32;

extern "C" __global__ void multiply(const double* left, const double* right, double* product, const long long rows,
                                    const long long size) {
    __shared__ double a[TILE][TILE], b[TILE][TILE];
    const int y = threadIdx.y, x = threadIdx.x;
    const long long row = (long long)blockIdx.y * TILE + y, column = (long long)blockIdx.x * TILE + x;
    double sum = 0;
    for (long long k = 0; k < size; k += TILE) {
        a[y][x] = row < rows && k + x < size ? left[row * size + k + x] : 0;
        b[y][x] = column < size && k + y < size ? right[(k + y) * size + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (row < rows && column < size) product[row * size + column] = sum;
}
"""


def entries(first_row: int, end_row: int, size: int, seed: int) -> NDArray[np.float64]:
    """Some rows of a factor: small whole numbers, so that every sum is exact."""
    rows = np.arange(first_row, end_row)[:, np.newaxis]
    columns = np.arange(size)[np.newaxis, :]
    return ((rows * 31 + columns * 17 + rows * columns * 7 + seed) % 15 - 7).astype(np.float64)


def rows_of(part: int, parts: int, size: int) -> tuple[int, int]:
    """First row of a part, and the row behind its last."""
    return size * part // parts, size * (part + 1) // parts


def bands_of(part: int, parts: int, size: int, number: int) -> list[tuple[int, int]]:
    """The rows of a part, cut into bands; some may be empty."""
    first, end = rows_of(part, parts, size)
    cuts = [first + (end - first) * index // number for index in range(number + 1)]
    return list(itertools.pairwise(cuts))


class Share:
    """Factors and products of one GPU."""

    def __init__(self, device: int, size: int, part: int, parts: int) -> None:
        import cupy

        self.size = size
        self.first_row, self.end_row = rows_of(part, parts, size)
        self.row_bytes = 8 * size
        with cupy.cuda.Device(device):
            self.function = cupy.RawKernel(SOURCE, "multiply").kernel
            self.device = cupy.cuda.Device(device)
            self.a, self.b = (cupy.asarray(entries(self.first_row, self.end_row, size, seed)) for seed in (1, 2))
            self.c = cupy.asarray(entries(0, size, size, 3))
            self.bc = cupy.zeros((size, size), np.float64)
            self.d = cupy.zeros((self.end_row - self.first_row, size), np.float64)

    def launch(self, left: Any, right: Any, product: Any, stream: Any) -> None:
        """Enqueue `product = left @ right` for some rows of left and product."""
        rows = left.shape[0]
        if rows == 0:
            return
        grid = (-(-self.size // TILE), -(-rows // TILE), 1)
        arguments = (left, right, product, np.int64(rows), np.int64(self.size))
        self.function(grid, (TILE, TILE, 1), arguments, stream=stream)

    def first_product(self, band: tuple[int, int], stream: Any) -> None:
        """Enqueue a band of B C."""
        own = slice(band[0] - self.first_row, band[1] - self.first_row)
        self.launch(self.b[own], self.c, self.bc[band[0] : band[1]], stream)

    def second_product(self, stream: Any) -> None:
        """Enqueue the own rows of D."""
        self.launch(self.a, self.bc, self.d, stream)

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
        a, b, c = (entries(0, self.options.size, self.options.size, seed) for seed in (1, 2, 3))
        expected = a @ (b @ c)
        wrong = int(np.count_nonzero(np.concatenate(results) != expected))
        size = expected.size
        print("Verified: exactly NumPy's." if wrong == 0 else f"WRONG: {wrong} of {size} elements differ from NumPy")
        return int(wrong > 0)
