# SPDX-License-Identifier: MIT
"""What the hand-written matrix products share: the kernel, the rows of one GPU, and options.

D = A (B C) in float64 as in `cluster_jobs/apps/matmul.py`, with its kernel and its factors. Each GPU computes some rows
of B C and of D, and keeps the whole of C and of B C; the rows of B C travel in bands, each as soon as it is computed.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import batches

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

    def forget(self) -> None:
        """Overwrite both products, so that the next check sees what is computed then."""
        with self.device:
            self.bc.fill(np.nan)
            self.d.fill(np.nan)
            self.device.synchronize()

    def address(self, row: int) -> int:
        """Where a row of B C lies."""
        return int(self.bc.data.ptr) + row * self.row_bytes


def argument_parser(description: str) -> argparse.ArgumentParser:
    """The options of both programs."""
    parser = batches.argument_parser(description, size=8192, size_help="rows and columns of each matrix")
    parser.set_defaults(steps=2)
    return parser


def variants_of(step: Callable[[int], None], options: argparse.Namespace) -> dict[str, Callable[[int], None]]:
    """By name, what enqueues both products; `step` takes the number of bands in which B C travels."""

    def in_bands(number: int) -> Callable[[int], None]:
        return lambda _parity: step(number)

    variants = {"plain": in_bands(1), "overlapped": in_bands(NUM_BANDS)}
    return batches.chosen(variants, options.overlap)


def report(program: str, gpus: int, variant: str, times: list[float], options: argparse.Namespace) -> None:
    """Print the table, and write the JSON file if asked to."""

    def arithmetic(us_per_step: float) -> str:
        return f"{4 * float(options.size) ** 3 / us_per_step / 1e6:.2f}"

    title = f"Two products of {options.size} x {options.size} float64, {program}"
    rate = ("TFLOP/s", arithmetic)
    batches.report(title, program=program, gpus=gpus, variant=variant, times=times, options=options, rate=rate)


def verdict(result: NDArray[np.float64], size: int) -> int:
    """Compare with NumPy; the exit status."""
    a, b, c = (entries(0, size, size, seed) for seed in (1, 2, 3))
    wrong = int(np.count_nonzero(result != a @ (b @ c)))
    print("Verified: exactly NumPy's." if wrong == 0 else f"WRONG: {wrong} of {result.size} elements differ from NumPy")
    return int(wrong > 0)
