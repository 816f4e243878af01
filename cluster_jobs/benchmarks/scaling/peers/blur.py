# SPDX-License-Identifier: MIT
"""Convolution by hand: the problem. Kernel, pixels and weights are those of `cluster_jobs/apps/convolution.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_jobs.benchmarks.scaling.peers.slabs import SlabProblem

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))  # applications import their frame as scripts do
import convolution
import frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from celerity_py.kernels import Kernel

RADIUS = 4  # as the application has it


class Blur(SlabProblem):
    """A picture out of focus."""

    default_size, size_help = 8192, "height of the picture; it is 4/3 as wide"
    rate_name = "billions of pixels/s"
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

    def title(self) -> str:
        """The heading of the table."""
        height, width = self.shape
        return f"Convolution of {height} x {width} pixels, radius {RADIUS}"

    def rate(self, us_per_step: float) -> str:
        """Billions of pixels per second."""
        return f"{self.picture.size / us_per_step / 1e3:.1f}"

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        expected = convolution.reference(self.picture, convolution.gaussian(RADIUS), steps)
        return int(not frame.agrees(np.concatenate(results), expected))
