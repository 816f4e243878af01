# SPDX-License-Identifier: MIT
"""Kernels that several tests submit."""

from __future__ import annotations

import numpy as np

import celerity_py as celerity


@celerity.kernel
def iota(chunk: celerity.Chunk, out: celerity.View) -> None:
    """Each element becomes its row-major index."""
    shape = out.shape_box.shape
    out[chunk.box] = np.arange(np.prod(shape, dtype=int)).reshape(shape)[chunk.box.slices]


@celerity.kernel
def scale(chunk: celerity.Chunk, out: celerity.View, factor: float) -> None:
    out[chunk.box] *= factor
