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


def measure(chunk: Any, u: Any, total: Any, largest: Any) -> None:
    total.combine(u[chunk.box].sum())
    largest.combine(u[chunk.box].max())
    u[chunk.box] = u[chunk.box] + chunk.index(0)


@pytest.mark.parametrize("size", [3, 40_000])
def test_reductions_have_the_same_result_on_all_ranks(size: int) -> None:
    results = []
    for kernel in (celerity.fuse(measure), celerity.kernel(measure)):
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(np.arange(size) % 7, name="u")
            total, largest = (celerity.Buffer((), np.int64, name=name) for name in ("total", "largest"))

            def step(kernel: Any = kernel, u: Any = u, out: Any = (total, largest), queue: Any = queue) -> None:
                reductions = celerity.reduction(out[0], "sum"), celerity.reduction(out[1], "max")
                queue.parallel_for(size, kernel, u.read_write(access.one_to_one()), *reductions)

            queue.replay(queue.record(step), 3)
            results.append([int(queue.fence(one).result()) for one in (total, largest)])
    numbers = np.arange(size) % 7 + 3 * np.arange(size)
    assert results == [[numbers.sum(), numbers.max()]] * 2
