# SPDX-License-Identifier: MIT
"""Fills and copies on GPUs, in CUDA C++ and by CuPy, for all kinds of elements."""

from __future__ import annotations

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box

DTYPES = ["bool", "int8", "uint16", "float16", "float32", "complex64", "complex128"]


@pytest.mark.parametrize("shape", [(), (1001,), (37, 70), (5, 6, 7)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fills_and_copies_write_all_elements(queue: celerity.Queue, dtype: str, shape: tuple[int, ...]) -> None:
    u, v = celerity.Buffer(shape, dtype), celerity.Buffer(shape, dtype)
    queue.fill(u, 1)
    queue.copy(v, u)
    np.testing.assert_array_equal(queue.fence(v).result(60), np.ones(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_move_boxes(queue: celerity.Queue, dtype: str) -> None:
    expected = np.arange(37 * 70).reshape(37, 70).astype(dtype)
    u = celerity.Buffer.from_array(expected.copy())
    queue.copy(u, u, Box((0, 3), (20, 33)), Box((17, 40), (37, 70)))
    expected[:20, 3:33] = expected[17:, 40:]
    queue.fill(u, 1, (slice(30, None), slice(0, 1)))
    expected[30:, :1] = 1
    np.testing.assert_array_equal(queue.fence(u).result(60), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "float64", "complex64"])
def test_dot_and_norm_are_those_of_numpy_in_double_precision(queue: celerity.Queue, dtype: str) -> None:
    random = np.random.default_rng(3)
    factors = (1 + 2j, 3 - 1j) if dtype == "complex64" else (1, 1)
    u, v = (np.asarray(random.integers(1, 99, (370, 701)) * factor).astype(dtype) for factor in factors)
    wide = {"i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}[np.dtype(dtype).kind]
    a, b = (celerity.Buffer.from_array(each) for each in (u, v))
    np.testing.assert_allclose(queue.dot(a, b).result(60), np.vdot(u.astype(wide), v.astype(wide)), rtol=1e-13)
    np.testing.assert_allclose(queue.norm(a).result(60), np.linalg.norm(u.astype(wide).ravel()), rtol=1e-13)
