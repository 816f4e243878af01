# SPDX-License-Identifier: MIT
"""WaveSim by hand: the kernel, the rows of one GPU, and the problem.

The update is that of `cluster_jobs/apps/wave_sim.py`, on the same initial state, and so is the result: to the bit, but
for denormal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import slabs
from cluster_jobs.benchmarks.scaling.peers.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

COURANT_SQUARED = np.float32(0.25)
NEXT_TO_NOTHING = 1e-20
DROPS = ((0.30, 0.35, 0.06), (0.65, 0.60, 0.04), (0.45, 0.80, 0.03))
BLOCK = (32, 8, 1)
BORDER_BLOCK = (256, 1, 1)
SOURCE = r"""
extern "C" __global__ void wave_step(const float* u, float* u_next, const long long columns, const long long first_row,
                                     const long long num_rows, const long long row_step, const float c2) {
    const long long x = 1 + (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long y = (long long)blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns - 1 || y >= num_rows) return;
    const long long i = (first_row + y * row_step) * columns + x;
    const float laplacian = u[i - columns] + u[i + columns] + u[i - 1] + u[i + 1] - 4 * u[i];
    u_next[i] = 2 * u[i] - u_next[i] + __fmul_rn(c2, laplacian); // not fused: the bits of NumPy
}
"""


def drops(first_row: int, end_row: int, size: int) -> NDArray[np.float32]:
    """The initial height of some rows of the pond; computed only where a drop falls."""
    height = np.zeros((end_row - first_row, size), np.float32)
    for row, column, radius in DROPS:
        top, bottom = (int(np.clip((row + side * radius) * size + side, first_row, end_row)) for side in (-1, 1))
        left, right = (int(np.clip((column + side * radius) * size + side, 0, size)) for side in (-1, 1))
        y = (np.arange(top, bottom, dtype=np.float32) / np.float32(size) - np.float32(row)) / np.float32(radius)
        x = (np.arange(left, right, dtype=np.float32) / np.float32(size) - np.float32(column)) / np.float32(radius)
        bump = np.maximum(np.float32(0), 1 - y[:, np.newaxis] ** 2 - x[np.newaxis, :] ** 2)
        height[top - first_row : bottom - first_row, left:right] += bump * bump
    return height


def reference(size: int, steps: int) -> NDArray[np.float32]:
    """The same with plain NumPy."""
    u = drops(0, size, size)
    u_next = u.copy()
    for _ in range(steps):
        u_next[1:-1, 1:-1] = (
            2 * u[1:-1, 1:-1]
            - u_next[1:-1, 1:-1]
            + COURANT_SQUARED * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        )
        u, u_next = u_next, u
    return u


class Slab:
    """The rows of one GPU, twice, each with a halo row above and below: rows 1 to `num_rows` are its own.

    In a step of parity p, `arrays[p]` is read and `arrays[1 - p]` written.
    """

    def __init__(self, device: int, size: int, part: int, parts: int) -> None:
        import cupy

        self.row_elements = size
        self.first_row, self.end_row = slabs.rows_of(size, part, parts, fewest=4)
        self.num_rows = self.end_row - self.first_row
        with cupy.cuda.Device(device):
            self.function = cupy.RawKernel(SOURCE, "wave_step").kernel
            contents = np.zeros((self.num_rows + 2, size), np.float32)
            above, below = max(self.first_row - 1, 0), min(self.end_row + 1, size)
            start = above - self.first_row + 1
            contents[start : start + below - above] = drops(above, below, size)
            self.arrays = [cupy.asarray(contents), cupy.asarray(contents)]
        first = 1 if self.first_row > 0 else 2  # the rim of the pond stays at rest
        last = self.num_rows if self.end_row < size else self.num_rows - 1
        self._launches = {
            "all": self._bind(BLOCK, first, last - first + 1, 1),
            "interior": self._bind(BLOCK, first + 1, last - first - 1, 1),
            "border": self._bind(BORDER_BLOCK, first, 2, last - first),
        }

    def _bind(self, block: tuple[int, int, int], first_row: int, num_rows: int, row_step: int) -> list[Any]:
        """Grid, block and arguments by parity."""
        grid = (-(-(self.row_elements - 2) // block[0]), -(-num_rows // block[1]), 1)
        rows = tuple(map(np.int64, (self.row_elements, first_row, num_rows, row_step)))
        return [(grid, block, (self.arrays[p], self.arrays[1 - p], *rows, COURANT_SQUARED)) for p in (0, 1)]

    def launch(self, part: str, parity: int, stream: Any) -> None:
        """Enqueue the update of "all" rows, of the "border" (the first and the last one), or of the "interior"."""
        grid, block, arguments = self._launches[part][parity]
        self.function(grid, block, arguments, stream=stream)

    def address(self, parity: int, row: int) -> int:
        """Where a row lies; 0 and `num_rows` + 1 are the halo."""
        return int(self.arrays[parity].data.ptr) + row * 4 * self.row_elements

    def result(self) -> NDArray[np.float32]:
        """A copy of the own rows after an even number of steps."""
        rows: NDArray[np.float32] = self.arrays[0][1:-1].get()
        return rows


class Wave(Problem):
    """A pond."""

    default_size, size_help = 16384, "cells along each side of the pond"
    rate_name = "TB/s at 12 bytes per cell"
    starts_over = False
    halo = 1

    def slab(self, device: int, part: int, parts: int) -> Slab:
        """Make one of the slabs."""
        return Slab(device, self.options.size, part, parts)

    def title(self) -> str:
        """The heading of the table."""
        return f"WaveSim {self.options.size} x {self.options.size} float32"

    def rate(self, us_per_step: float) -> str:
        """Terabytes per second."""
        return f"{3 * 4 * self.options.size**2 / us_per_step / 1e6:.2f}"

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status.

        CuPy compiles with `-ftz=true`, always: at the front of a wave, where NumPy has denormal numbers, there are
        zeros. What comes of that, less than 1e-22 in 124 steps, is allowed; all else must have the same bits.
        """
        result = np.concatenate(results)
        wrong = int(np.count_nonzero(np.abs(result - reference(self.options.size, steps)) > NEXT_TO_NOTHING))
        print(
            f"Verified: bit-identical to NumPy, but for what is next to nothing ({NEXT_TO_NOTHING:g})."
            if wrong == 0
            else f"WRONG: {wrong} of {result.size} cells differ from NumPy"
        )
        return int(wrong > 0)
