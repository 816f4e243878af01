# SPDX-License-Identifier: MIT
"""Fused kernels read both sides of a periodic buffer, which lie in separate memory where there are several devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access, hints
from celerity_py.errors import OutOfBoundsAccess

pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("only_fused")


def blend(chunk: Any, out: Any, u: Any, factor: float) -> None:
    p = u.padded(chunk.box, (2, 1), mode="wrap")
    out[chunk.box] = factor * p[2:-2, 1:-1] + p[:-4, :-2] + 2 * p[3:-1, 2:] - 3 * p[4:, 1:-1] * p[1:-3, 1:-1]


def along_one(chunk: Any, out: Any, u: Any, factor: float) -> None:
    p = u.padded(chunk.box, (0, 1), mode=("edge", "wrap"))
    out[chunk.box] = factor * p[:, 1:-1] + p[:, :-2] - p[:, 2:] * u[chunk.box]


@pytest.mark.parametrize(
    ("devices", "division", "shape", "check"),
    [
        ("cpu:1", [], (11, 6), True),
        ("cpu:2", [hints.oversubscribe(2)], (11, 6), False),
        ("cpu:4", [hints.split_2d()], (11, 6), False),
        ("cpu:4", [], (1, 5), True),
    ],
)
def test_halos_go_on_at_the_opposite_side(
    devices: str, division: list[Any], shape: tuple[int, int], check: bool
) -> None:
    celerity.configure(devices=devices, check=check)
    near = access.neighborhood(2, 1, wrap=True), access.neighborhood(0, 1, wrap=(False, True))
    array = np.random.default_rng(1).random(shape)
    results: list[list[Any]] = []
    for kind in (celerity.fuse, celerity.kernel) if not check else (celerity.fuse,):
        results.append([])
        for function, mapper in zip((blend, along_one), near, strict=True):
            kernel: Any = kind(function)
            with celerity.Queue() as queue:
                u, out = celerity.Buffer.from_array(array), celerity.Buffer(shape, np.float64)
                for step in range(2):
                    accesses = out.write(access.one_to_one()), u.read(mapper)
                    queue.parallel_for(shape, kernel, *accesses, 0.5 + step, hints=division)
                    results[-1].append(queue.fence(out).result())
            assert not getattr(kernel, "why_not", "")
    for other in results[1:]:
        assert np.array_equal(results[0], other)
    rolled = np.roll(array, (2, 1), (0, 1)), np.roll(array, (-1, -1), (0, 1))
    product = 3 * np.roll(array, -2, 0) * np.roll(array, 1, 0)
    assert np.array_equal(results[0][0], 0.5 * array + rolled[0] + 2 * rolled[1] - product)


def test_an_index_does_not_go_on_at_the_opposite_side() -> None:
    @celerity.fuse
    def beyond(chunk: Any, out: Any, u: Any) -> None:
        out[chunk.box] = u[chunk.box.min[0] + 1 : chunk.box.max[0] + 1]

    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(np.arange(8.0)), celerity.Buffer(8, np.float64)
        accesses = out.write(access.one_to_one()), u.read(access.neighborhood(1, wrap=True))
        with pytest.raises(OutOfBoundsAccess, match="An index does not continue at the opposite side"):
            queue.parallel_for(8, beyond, *accesses)


def test_elements_of_both_sides_are_written_by_a_kernel_in_place() -> None:
    @celerity.fuse
    def mirror(chunk: Any, u: Any) -> None:
        u[chunk.box] = u.padded(chunk.box, 1, mode="wrap")[2:] + u[chunk.box]

    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.arange(9.0))
        queue.parallel_for(9, mirror, u.read_write(access.neighborhood(1, wrap=True)))
        assert np.array_equal(queue.fence(u).result(), np.roll(np.arange(9.0), -1) + np.arange(9.0))
