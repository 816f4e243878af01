# SPDX-License-Identifier: MIT
"""WaveSim by hand: the problem. Kernel and initial state are those of `cluster_jobs/apps/wave_sim.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers.slabs import SlabProblem

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))  # applications import their frame as scripts do
import frame
import wave_sim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from celerity_py.kernels import Kernel


class Wave(SlabProblem):
    """A pond."""

    default_size, size_help = 16384, "cells along each side of the pond"
    rate_name = "TB/s at 12 bytes per cell"
    halo = 1

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.shape = (options.size, options.size)

    def rows(self, first: int, end: int) -> NDArray[np.float32]:
        """The height of the water in some rows."""
        size = self.options.size
        return wave_sim.drops(celerity.Box((first, 0), (end, size)), size)

    def kernel_for(self, elements: int) -> Kernel:
        """That of the application."""
        kernel: Kernel = wave_sim.wave_step(wave_sim.best_rows(elements))
        return kernel

    def constant(self) -> Any:
        """The squared Courant number."""
        return wave_sim.COURANT_SQUARED

    def title(self) -> str:
        """The heading of the table."""
        return f"WaveSim {self.options.size} x {self.options.size} float32"

    def rate(self, us_per_step: float) -> str:
        """Terabytes per second."""
        return f"{3 * 4 * self.options.size**2 / us_per_step / 1e6:.2f}"

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        expected = wave_sim.reference(self.options.size, steps)
        return int(not frame.agrees(np.concatenate(results), expected))
