# SPDX-License-Identifier: MIT
"""Random numbers on GPUs: the bits of NumPy, in CUDA C++ and by CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, CudaKernel, access, random

ONE = access.one_to_one()
TYPES = {"float": np.float32, "double": np.float64}
SHAPES = [(), (70_001,), (237, 301), (5, 60, 71)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["uniform", "normal"])
@pytest.mark.parametrize("kind", TYPES)
def test_cuda_c_and_cupy_have_the_bits_of_numpy(
    queue: celerity.Queue, kind: str, name: str, shape: tuple[int, ...]
) -> None:
    dims = len(shape)
    source = f"""
    __global__ void draw(celerity::chunk<{dims}> chunk, accessor<{kind}, {dims}> out, unsigned seed, unsigned stream) {{
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = celerity::random::{name}<{kind}>(item, seed, stream);
    }}
    """
    make = getattr(random, name)

    def draw(chunk: Any, out: Any, seed: int, stream: int) -> None:
        out[chunk.box] = make(chunk, seed, stream, dtype=TYPES[kind])

    expected = make(Box([0] * dims, shape), 2**32 - 5, 17, dtype=TYPES[kind])
    for kernel in (CudaKernel(source, "draw"), draw):
        out = celerity.Buffer(shape, TYPES[kind])
        queue.parallel_for(shape, kernel, out.write(ONE), 2**32 - 5, 17)
        np.testing.assert_array_equal(queue.fence(out).result(60), expected)


def test_cupy_has_the_bits_of_numpy_far_from_the_origin() -> None:
    cupy = pytest.importorskip("cupy")
    for box in (Box((2**40 + 3,), (2**40 + 999,)), Box((2, 2**33, 3), (4, 2**33 + 5, 9)), Box((3, 3), (3, 9))):
        np.testing.assert_array_equal(cupy.asnumpy(random.bits(box, 1, 2, xp=cupy)), random.bits(box, 1, 2))
