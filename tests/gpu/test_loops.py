# SPDX-License-Identifier: MIT
"""Loops that stop on data on GPUs: kept contents and flags of all kinds of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

ONE = access.one_to_one()


def assign(chunk: Any, out: Any, value: Any) -> None:
    out[chunk.box] = value


@pytest.mark.parametrize("shape", [(), (1001,), (37, 70), (5, 6, 7)])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float16", "float64", "complex64"])
def test_a_loop_keeps_the_contents_of_the_last_needed_iteration(
    queue: celerity.Queue, dtype: str, shape: tuple[int, ...]
) -> None:
    """The values are 0, 1, 2, 3, 4, 0, 1, ...: those of iterations 0, 5 and 10 are false."""
    values = [np.dtype(dtype).type(i % 5) for i in range(30)]
    u = celerity.Buffer(shape, dtype)
    loop = queue.until(lambda: queue.any(u), every=6, at_most=30, keep=lambda: u, when=lambda found: not found)
    for i in loop:
        queue.parallel_for(shape, assign, u.write(ONE), values[i])
    assert (loop.iterations, loop.stopped) == (6, True)
    assert i == 11
    np.testing.assert_array_equal(queue.fence(u).result(60), np.full(shape, values[5]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex128"])
def test_any_finds_a_single_element(queue: celerity.Queue, dtype: str) -> None:
    for where in (0, 70_000, 99_999):
        flags = np.zeros(100_000, dtype)
        assert queue.any(celerity.Buffer.from_array(flags)).result(60) is False
        flags[where] = 1
        assert queue.any(celerity.Buffer.from_array(flags)).result(60) is True
