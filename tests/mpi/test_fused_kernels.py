# SPDX-License-Identifier: MIT
"""Fused kernels on several ranks: chunks at the border have structures of their own, and some ranks have no chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

pytest.importorskip("numba")
pytestmark = pytest.mark.mpi


def smooth(chunk: Any, out: Any, u: Any, weight: float, times: int) -> None:
    near = u.padded(chunk.box, 1)
    value = (1 - 2 * weight) * u[chunk.box] + weight * (near[:-2] + near[2:])
    for _ in range(times):
        value = value + 1
    out[chunk.box] = value
    if chunk.box.min[0] == 0:
        out[0:1] = 7


@pytest.mark.parametrize("size", [3, 1000])
def test_ranks_agree_with_python_kernels(size: int) -> None:
    results = []
    for kernel in (celerity.fuse(smooth), celerity.kernel(smooth)):
        with celerity.Queue() as queue:
            u, out = (celerity.Buffer.from_array(np.linspace(0, 1, size)) for _ in range(2))
            for step in range(6):
                queue.parallel_for(
                    size, kernel, out.write(access.one_to_one()), u.read(access.neighborhood(1)), 0.1 * step, step % 3
                )
                u, out = out, u

            def back(kernel: Any = kernel, u: Any = u, out: Any = out, queue: Any = queue) -> None:
                reads = out.read(access.neighborhood(1))
                queue.parallel_for(size, kernel, u.read_write(access.one_to_one()), reads, 0.25, 1)

            recorded = queue.record(back)
            queue.replay(recorded, 5)
            results.append(queue.fence(u).result())
    assert np.array_equal(results[0], results[1])
