# SPDX-License-Identifier: MIT
"""Random numbers and arrays of NumPy in fused kernels on a GPU: those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access, random
from celerity_py.errors import TaskFailed

SHAPES = [(1,), (100_003,), (513, 257), (7, 33, 129)]


pytestmark = pytest.mark.usefixtures("only_fused_on_one_gpu")


@celerity.fuse
def draw(chunk: Any, bits: Any, flat: Any, bell: Any, seed: int, stream: int) -> None:  # noqa: PLR0917 - a kernel
    bits[chunk.box] = random.bits(chunk, seed, stream)
    flat[chunk.box] = random.uniform(chunk, seed, stream)
    bell[chunk.box] = random.normal(chunk, seed, stream, dtype=np.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("replayed", [False, True])
def test_random_numbers_are_those_of_numpy(shape: tuple[int, ...], replayed: bool) -> None:
    box = Box((0,) * len(shape), shape)
    with celerity.Queue() as queue:
        bits = celerity.Buffer(shape, np.uint32, element=(4,))
        flat, bell = celerity.Buffer(shape, np.float32), celerity.Buffer(shape, np.float64)
        writes = [buffer.write(access.one_to_one()) for buffer in (bits, flat, bell)]
        for stream in range(3):

            def submit(stream: int = stream) -> None:
                queue.parallel_for(shape, draw, *writes, 7, stream)

            if replayed:
                queue.replay(queue.record(submit), 20)
            else:
                submit()
            np.testing.assert_array_equal(queue.fence(bits).result(), random.bits(box, 7, stream))
            np.testing.assert_array_equal(queue.fence(flat).result(), random.uniform(box, 7, stream))
            np.testing.assert_array_equal(queue.fence(bell).result(), random.normal(box, 7, stream, dtype=np.float64))


@celerity.fuse
def look_up(chunk: Any, out: Any, u: Any, weights: Any, colours: Any) -> None:
    b = chunk.box
    out[b] = weights[1] * u[b] + colours[u[b] % 5] + colours[-1]
    for k in range(3):
        out[b] += weights[k : k + 1]


@pytest.mark.parametrize("size", [1, 1000, 100_003])
def test_arrays_among_the_arguments_have_the_values_of_their_submit(size: int) -> None:
    array = np.arange(size)
    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(array), celerity.Buffer(size, np.float64)
        for step in range(5):
            weights, colours = np.array([1.0, 2.0, 3.0]) + step, np.linspace(0, 1, 5) * step
            expected = weights[1] * array + colours[array % 5] + colours[-1]
            for k in range(3):
                expected += weights[k]
            accesses = out.write(access.one_to_one()), u.read(access.one_to_one())
            queue.parallel_for(size, look_up, *accesses, weights, colours)
            weights[:] = colours[:] = np.nan  # the submit has taken a copy
            assert np.array_equal(queue.fence(out).result(), expected)


@celerity.fuse
def pick(chunk: Any, out: Any, u: Any, table: Any) -> None:
    out[chunk.box] = table[u[chunk.box]]


def test_an_index_outside_of_an_array_gives_its_ends_and_is_an_error_with_check() -> None:
    indices = np.array([-100, -1, 0, 3, 4, 100])

    def run() -> Any:
        with celerity.Queue() as queue:
            u, out = celerity.Buffer.from_array(indices), celerity.Buffer(6, np.float64)
            accesses = out.write(access.one_to_one()), u.read(access.one_to_one())
            queue.parallel_for(6, pick, *accesses, np.arange(4.0))
            return queue.fence(out).result()

    assert list(run()) == [0, 3, 0, 3, 3, 3]
    celerity.configure(check=True)
    with pytest.raises(TaskFailed):
        run()
