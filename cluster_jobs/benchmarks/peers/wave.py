# SPDX-License-Identifier: MIT
"""What the hand-written WaveSim programs share: the kernel, the rows of one GPU, and how batches are timed.

The update is that of `cluster_jobs/apps/wave_sim.py`, on the same initial state, and so is the result, to the bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

COURANT_SQUARED = np.float32(0.25)
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

        self.size = size
        self.first_row, self.end_row = (size * index // parts for index in (part, part + 1))
        self.num_rows = self.end_row - self.first_row
        if self.num_rows < 4:
            raise SystemExit(f"{size} rows are too few for {parts} GPUs")
        self.row_bytes = 4 * size
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
        grid = (-(-(self.size - 2) // block[0]), -(-num_rows // block[1]), 1)
        rows = tuple(map(np.int64, (self.size, first_row, num_rows, row_step)))
        return [(grid, block, (self.arrays[p], self.arrays[1 - p], *rows, COURANT_SQUARED)) for p in (0, 1)]

    def launch(self, part: str, parity: int, stream: Any) -> None:
        """Enqueue the update of "all" rows, of the "border" (the first and the last one), or of the "interior"."""
        grid, block, arguments = self._launches[part][parity]
        self.function(grid, block, arguments, stream=stream)

    def address(self, parity: int, row: int) -> int:
        """Where a row lies; 0 and `num_rows` + 1 are the halo."""
        return int(self.arrays[parity].data.ptr) + row * self.row_bytes

    def own_rows(self, parity: int) -> NDArray[np.float32]:
        """A copy of the own rows."""
        rows: NDArray[np.float32] = self.arrays[parity][1:-1].get()
        return rows


def argument_parser(description: str) -> argparse.ArgumentParser:
    """The options that both programs have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=16384, help="cells along each side of the pond")
    parser.add_argument("--steps", type=int, default=200, help="steps per batch, rounded up to an even number")
    parser.add_argument("--batches", type=int, default=7, help="batches, of which the median counts")
    parser.add_argument("--seconds", type=float, default=10, help="no further batch begins after so long")
    parser.add_argument(
        "--overlap",
        choices=("auto", "on", "off"),
        default="auto",
        help="halo behind the interior: auto takes the faster",
    )
    parser.add_argument("--check", action="store_true", help="compare with NumPy instead; for small sizes")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    return parser


def time_variants(
    variants: dict[str, Callable[[int], None]],
    options: argparse.Namespace,
    finish: Callable[[], None],
    agree: Callable[[Any], Any],
    slowest: Callable[[float], float],
) -> tuple[str, list[float]]:
    """Time batches of the fastest variant.

    Args:
        variants: By name, what enqueues a step of a parity.
        options: From `argument_parser`.
        finish: Waits for all of this process's GPUs, and for the other ranks.
        agree: Returns the first rank's argument on all ranks.
        slowest: Returns the greatest argument of all ranks.

    Returns:
        The name of the variant, and microseconds per step of each batch.
    """
    steps = options.steps + options.steps % 2

    def batch(step: Callable[[int], None], count: int) -> float:
        finish()
        begun = time.perf_counter()
        for _ in range(count // 2):
            step(0)
            step(1)
        finish()
        return slowest((time.perf_counter() - begun) * 1e6 / count)

    trials = {}
    for name, step in variants.items():
        batch(step, 20)
        trials[name] = min(batch(step, max(20, steps // 4 * 2)) for _ in range(2))
    best = agree(min(trials, key=lambda name: trials[name]))
    deadline = time.perf_counter() + options.seconds
    times: list[float] = []
    while agree(not times or (len(times) < options.batches and time.perf_counter() < deadline)):
        times.append(batch(variants[best], steps))
    return best, times


def chosen(variants: dict[str, Callable[[int], None]], overlap: str) -> dict[str, Callable[[int], None]]:
    """The variants that `--overlap` leaves."""
    if overlap == "auto":
        return variants
    name = "overlapped" if overlap == "on" else "plain"
    return {name: variants[name]}


def report(program: str, gpus: int, variant: str, times: list[float], options: argparse.Namespace) -> None:
    """Print the table, and write the JSON file if asked to."""
    median = statistics.median(times)
    bandwidth = 3 * 4 * options.size**2 / median / 1e6
    table = Table(title=f"WaveSim {options.size} x {options.size} float32, {program}")
    for column in ("GPUs", "variant", "µs per step", "min to max", "batches", "TB/s at 12 bytes per cell"):
        table.add_column(column, justify="right")
    spread = f"{min(times):.1f} to {max(times):.1f}"
    table.add_row(str(gpus), variant, f"{median:.1f}", spread, str(len(times)), f"{bandwidth:.2f}")
    Console(width=110).print(table)
    if options.output:
        figures = {
            "program": program,
            "size": options.size,
            "gpus": gpus,
            "variant": variant,
            "us_per_step": median,
            "batches_us_per_step": times,
            "python": sys.version,
        }
        options.output.write_text(json.dumps(figures, indent=1) + "\n")


def verdict(result: NDArray[np.float32], options: argparse.Namespace, steps: int) -> int:
    """Compare with NumPy; the exit status."""
    wrong = int(np.count_nonzero(result != reference(options.size, steps)))
    print(
        "Verified: bit-identical to NumPy."
        if wrong == 0
        else f"WRONG: {wrong} of {result.size} cells differ from NumPy"
    )
    return int(wrong > 0)
