# SPDX-License-Identifier: MIT
"""Convolution by hand: the kernel, the rows of one GPU, and the problem.

Pixels, weights and arithmetic are those of `cluster_jobs/apps/convolution.py`, and so is the result: to the bit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import slabs
from cluster_jobs.benchmarks.scaling.peers.problem import Problem

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))  # applications import their frame as scripts do
import convolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

RADIUS = 4  # as the application has it
BLOCK = (32, 8, 1)
# `picture` and `blurred` begin with the row `top` of the picture. Blocks of the second layer have rows further down.
SOURCE = r"""
__device__ long long clamp(const long long value, const long long end) {
    return value < 0 ? 0 : value >= end ? end - 1 : value;
}

extern "C" __global__ void blur(const float* picture, float* blurred, const float* weights, const long long height,
                                const long long width, const long long top, const long long first_row,
                                const long long num_rows, const long long to_second_layer) {
    constexpr int radius = RADIUS, tile_width = 32 + 2 * radius, tile_height = 8 + 2 * radius;
    __shared__ float tile[tile_height * tile_width];
    const long long begin = first_row + blockIdx.z * to_second_layer, end = begin + num_rows;
    const long long x = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long y = begin + (long long)blockIdx.y * blockDim.y + threadIdx.y;
    for (int i = threadIdx.y; i < tile_height; i += blockDim.y) {
        // A block that overhangs must not read further than the rows that are there.
        const long long wanted = y - threadIdx.y - radius + i;
        const long long row = clamp(wanted < end + radius ? wanted : end + radius - 1, height) - top;
        for (int j = threadIdx.x; j < tile_width; j += blockDim.x) {
            tile[i * tile_width + j] = picture[row * width + clamp(x - threadIdx.x - radius + j, width)];
        }
    }
    __syncthreads();
    if (x >= width || y >= end) return;
    float total = 0;
    for (int i = 0; i <= 2 * radius; ++i) {
        const float* row = tile + (threadIdx.y + i) * tile_width + threadIdx.x;
        for (int j = 0; j <= 2 * radius; ++j) {
            total += __fmul_rn(weights[i * (2 * radius + 1) + j], row[j]); // not fused: the bits of NumPy
        }
    }
    blurred[(y - top) * width + x] = total;
}
""".replace("RADIUS", str(RADIUS))


class Slab:
    """Rows of the picture, twice, each with `RADIUS` rows of the neighbours above and below."""

    def __init__(self, device: int, picture: NDArray[np.float32], part: int, parts: int) -> None:
        import cupy

        height, width = picture.shape
        self.row_elements = int(width)
        first, end = slabs.rows_of(height, part, parts, fewest=2 * RADIUS)
        self.num_rows = end - first
        with cupy.cuda.Device(device):
            self.function = cupy.RawKernel(SOURCE, "blur").kernel
            self.weights = cupy.asarray(convolution.gaussian(RADIUS))
            contents = np.zeros((self.num_rows + 2 * RADIUS, self.row_elements), np.float32)
            above, below = max(first - RADIUS, 0), min(end + RADIUS, height)
            start = above - first + RADIUS
            contents[start : start + below - above] = picture[above:below]
            self.arrays = [cupy.asarray(contents), cupy.asarray(contents)]
        fixed = (self.weights, *map(np.int64, (height, self.row_elements, first - RADIUS)))
        self._launches = {
            "all": self._bind(fixed, first, self.num_rows, 1),
            "interior": self._bind(fixed, first + RADIUS, self.num_rows - 2 * RADIUS, 1),
            "border": self._bind(fixed, first, RADIUS, 2),
        }

    def _bind(self, fixed: tuple[Any, ...], first_row: int, num_rows: int, layers: int) -> list[Any]:
        """Grid and arguments by parity."""
        grid = (-(-self.row_elements // BLOCK[0]), max(1, -(-num_rows // BLOCK[1])), layers)
        rows = tuple(map(np.int64, (first_row, num_rows, self.num_rows - RADIUS)))
        return [(grid, (self.arrays[p], self.arrays[1 - p], *fixed, *rows)) for p in (0, 1)]

    def launch(self, part: str, parity: int, stream: Any) -> None:
        """Enqueue a pass over "all" rows, the "border" or the "interior"."""
        grid, arguments = self._launches[part][parity]
        self.function(grid, BLOCK, arguments, stream=stream)

    def address(self, parity: int, row: int) -> int:
        """Where a row lies; the halo is counted."""
        return int(self.arrays[parity].data.ptr) + row * 4 * self.row_elements

    def result(self) -> NDArray[np.float32]:
        """A copy of the own rows after an even number of steps."""
        rows: NDArray[np.float32] = self.arrays[0][RADIUS:-RADIUS].get()
        return rows


class Blur(Problem):
    """A picture out of focus."""

    default_size, size_help = 8192, "height of the picture; it is 4/3 as wide"
    rate_name = "billions of pixels/s"
    starts_over = False
    halo = RADIUS

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        make = convolution.photograph if options.check else convolution.mosaic
        self.picture = make(options.size, options.size * 4 // 3)

    def slab(self, device: int, part: int, parts: int) -> Slab:
        """Make one of the slabs."""
        return Slab(device, self.picture, part, parts)

    def title(self) -> str:
        """The heading of the table."""
        height, width = self.picture.shape
        return f"Convolution of {height} x {width} pixels, radius {RADIUS}"

    def rate(self, us_per_step: float) -> str:
        """Billions of pixels per second."""
        return f"{self.picture.size / us_per_step / 1e3:.1f}"

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        expected: NDArray[np.float32] = convolution.reference(self.picture, convolution.gaussian(RADIUS), steps)
        wrong = int(np.count_nonzero(np.concatenate(results) != expected))
        print(
            "Verified: bit-identical to NumPy."
            if wrong == 0
            else f"WRONG: {wrong} of {expected.size} pixels differ from NumPy"
        )
        return 1 if wrong else 0
