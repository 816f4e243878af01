# SPDX-License-Identifier: MIT
"""WaveSim and convolution by hand: the problems. Kernels and initial states are those of the applications."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers.applications import convolution, frame, wave_sim
from cluster_jobs.benchmarks.scaling.peers.slabs import SlabProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from celerity_py.kernels import Kernel

RADIUS = 4  # as the application has it


class Wave(SlabProblem):
    """A pond."""

    default_size, size_help = 16384, "cells along each side of the pond"
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

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        expected = wave_sim.reference(self.options.size, steps)
        return int(not frame.agrees(np.concatenate(results), expected))


class Blur(SlabProblem):
    """A picture out of focus."""

    default_size, size_help = 8192, "height of the picture; it is 4/3 as wide"
    halo = RADIUS

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        make = convolution.photograph if options.check else convolution.mosaic
        self.picture = make(options.size, options.size * 4 // 3)
        self.shape = self.picture.shape
        self._kernel: Kernel = convolution.blur_kernel(RADIUS)

    def rows(self, first: int, end: int) -> NDArray[np.float32]:
        """Some rows of the picture."""
        return self.picture[first:end]

    def kernel_for(self, elements: int) -> Kernel:
        """That of the application, for any number."""
        return self._kernel

    def constant(self) -> Any:
        """The weights."""
        return convolution.gaussian(RADIUS)

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        expected = convolution.reference(self.picture, convolution.gaussian(RADIUS), steps)
        return int(not frame.agrees(np.concatenate(results), expected))
