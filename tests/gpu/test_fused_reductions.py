# SPDX-License-Identifier: MIT
"""Reductions in fused kernels on a GPU: the same as on arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

pytestmark = pytest.mark.usefixtures("only_fused_on_one_gpu")


def statistics(  # noqa: PLR0917 - a kernel
    chunk: Any, u: Any, low: Any, high: Any, total: Any, where: Any
) -> None:
    """With a store in between, which the sums behind it see."""
    b = chunk.box
    low.combine(u[b].min())
    high.combine(u[b].max())
    where.combine(u[b].argmax())
    u[b] = u[b] * 2
    total.combine((u[b] * u[b]).sum())


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(1,), (100_003,), (4, 4096), (1023, 1025), (40, 50, 60)])
def test_reductions_are_those_of_numpy(shape: tuple[int, ...], dtype: Any, check: bool) -> None:
    celerity.configure(check=check)
    array = (np.random.default_rng(1).standard_normal(shape) * 10).astype(dtype)
    wide = (array * array).sum().dtype
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(array, name="u")
        low, high = (celerity.Buffer((), dtype, name=name) for name in ("low", "high"))
        total, where = celerity.Buffer((), wide, name="total"), celerity.Buffer((), np.int64, name="where")

        def submit() -> None:
            queue.parallel_for(
                shape,
                celerity.fuse(statistics),
                u.read_write(access.one_to_one()),
                celerity.reduction(low, "min"),
                celerity.reduction(high, "max"),
                celerity.reduction(total, "sum"),
                celerity.reduction(where, "max"),
            )

        submit()
        found = [queue.fence(one).result() for one in (low, high, where, total)]
    doubled = array * 2
    assert [one.item() for one in found[:3]] == [array.min(), array.max(), array.argmax()]
    exact = (doubled.astype(np.float64) ** 2).sum() if array.dtype.kind == "f" else (doubled * doubled).sum()
    assert found[3] == pytest.approx(exact, rel=1e-6 if dtype == np.float32 else 1e-13)


def combine_rows(chunk: Any, sums: Any, highs: Any, columns: Any, u: Any) -> None:
    rows = chunk.box.slices[0]
    u[rows] *= 2
    sums[rows] = (u[rows] * u[rows]).sum(axis=1)
    highs[rows] = u[rows].max(axis=1)
    columns[:] = u[:].min(axis=0)


@pytest.mark.parametrize("shape", [(3, 65), (1000, 100), (70, 20_001), (600_000, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_rows_are_combined_as_by_numpy(dtype: Any, shape: tuple[int, int]) -> None:
    array = (np.random.default_rng(2).standard_normal(shape) * 10).astype(dtype)
    wide = (array * array).sum().dtype
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(array)
        sums, highs = celerity.Buffer(shape[0], wide), celerity.Buffer(shape[0], dtype)
        columns = celerity.Buffer(shape[1], dtype)
        targets = sums.write(access.one_to_one()), highs.write(access.one_to_one()), columns.write(access.all())
        queue.parallel_for(shape[0], celerity.fuse(combine_rows), *targets, u.read_write(access.all()))
        found = [queue.fence(one).result() for one in (sums, highs, columns)]
    doubled = array * 2
    np.testing.assert_array_equal(found[1], doubled.max(axis=1))
    np.testing.assert_array_equal(found[2], doubled.min(axis=0))
    exact = (doubled.astype(np.float64) ** 2).sum(axis=1) if array.dtype.kind == "f" else (doubled**2).sum(axis=1)
    np.testing.assert_allclose(found[0], exact, rtol=1e-6 if dtype == np.float32 else 1e-13)


def test_replays_in_graphs_reduce_anew() -> None:
    array = np.random.default_rng(1).standard_normal((512, 512), dtype=np.float32)
    with celerity.Queue() as queue:
        u, largest = celerity.Buffer.from_array(array, name="u"), celerity.Buffer((), np.float32, name="largest")
        kernel = celerity.fuse(halve)

        def step() -> None:
            queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()), celerity.reduction(largest, "max"))

        queue.replay(queue.record(step), 20)
        assert queue.fence(largest).result() == np.abs(array).max() * np.float32(0.5) ** 21


def halve(chunk: Any, u: Any, largest: Any) -> None:
    u[chunk.box] *= 0.5
    largest.combine(np.abs(u[chunk.box]).max())
