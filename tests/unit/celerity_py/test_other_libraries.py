# SPDX-License-Identifier: MIT
"""Arrays of torch, JAX, numba and Warp on the host: into buffers, in kernels, and out of fences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import ArgumentTypeError, KeptArray

VALUES = np.arange(24.0).reshape(6, 4)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def jax() -> Any:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    return jax


@pytest.fixture
def numba() -> Any:
    return pytest.importorskip("numba", reason="numba is not installed")


@pytest.fixture
def warp() -> Any:
    warp = pytest.importorskip("warp", reason="Warp is not installed")
    warp.config.quiet = True
    warp.init()
    return warp


def test_a_tensor_of_torch_goes_into_a_buffer_and_comes_out_of_a_fence(queue: celerity.Queue, torch: Any) -> None:
    tensor = torch.from_numpy(VALUES.copy())
    u = celerity.Buffer.from_array(tensor.t())
    halves = [(Box((0, 0), (3, 4)), tensor[:3]), (Box((3, 0), (6, 4)), tensor[3:].float())]
    v = celerity.Buffer.from_local((6, 4), np.float64, halves)
    tensor[...] = -1
    np.testing.assert_array_equal(queue.fence(u).result(10), VALUES.T)
    for to in ("host", "device"):
        result: Any = queue.fence(v, to=to).result(10)
        taken = torch.from_dlpack(result)
        assert torch.equal(taken, torch.from_numpy(VALUES))
        taken[0, 0] = 7
        assert result[0, 0] == 7, "the same memory"


def test_a_tensor_that_needs_a_gradient_is_refused_with_a_remedy(queue: celerity.Queue, torch: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"tensor\.detach\(\)"):
        celerity.Buffer.from_array(torch.ones(3, requires_grad=True))


def test_a_kernel_computes_with_torch_in_the_memory_of_a_view(queue: celerity.Queue, torch: Any) -> None:
    def kernel(chunk: celerity.Chunk, u: Any, v: Any) -> None:
        target = torch.from_dlpack(u[chunk.box])
        target += torch.from_dlpack(v[chunk.box].copy())
        torch.mul(target, 2, out=target)

    u, v = celerity.Buffer.from_array(VALUES), celerity.Buffer.from_array(VALUES)
    queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()), v.read(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(u).result(10), 4 * VALUES)


def test_a_tensor_over_a_view_must_not_be_kept(torch: Any) -> None:
    kept: list[Any] = []

    def keep() -> None:
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(VALUES)
            queue.host_task(lambda part, view: kept.append(torch.from_dlpack(view)), u.read_write(access.all()))

    with pytest.raises(KeptArray, match="keeps an array"):
        keep()
    kept.clear()


def test_an_array_of_jax_goes_in_is_assigned_and_comes_out(queue: celerity.Queue, jax: Any) -> None:
    def kernel(chunk: celerity.Chunk, out: Any, u: Any) -> None:
        out[chunk.box] = jax.numpy.asarray(u[chunk.box]) * 2

    u = celerity.Buffer.from_array(jax.numpy.asarray(VALUES))
    v = celerity.Buffer.from_function((6, 4), np.float64, lambda box: jax.numpy.asarray(VALUES)[box.slices])
    for given in (u, v):
        out = celerity.Buffer((6, 4), np.float64)
        queue.parallel_for((6, 4), kernel, out.write(access.one_to_one()), given.read(access.one_to_one()))
        result = jax.dlpack.from_dlpack(queue.fence(out, to="device").result(10))
        np.testing.assert_array_equal(np.asarray(result), 2 * VALUES)


def test_a_kernel_calls_a_function_that_numba_has_compiled(queue: celerity.Queue, numba: Any) -> None:
    def add_rows(out: Any, u: Any) -> None:
        for row in range(out.shape[0]):
            for column in range(out.shape[1]):
                out[row, column] = u[row, column] + row

    compiled = numba.njit(nogil=True)(add_rows)

    def kernel(chunk: celerity.Chunk, out: Any, u: Any) -> None:
        compiled(out[chunk.box], u[chunk.box])

    u, out = celerity.Buffer.from_array(VALUES), celerity.Buffer((6, 4), np.float64)
    space = Box((0, 0), (1, 4))
    queue.parallel_for(space, kernel, out.write(access.fixed(space)), u.read(access.fixed(space)))
    np.testing.assert_array_equal(queue.fence(out, space).result(10), VALUES[:1])


def test_a_kernel_launches_a_kernel_of_warp_on_the_memory_of_a_view(queue: celerity.Queue, warp: Any) -> None:
    def double(values: Any) -> None:
        row, column = warp.tid()
        values[row, column] = warp.float64(2.0) * values[row, column]

    double.__annotations__ = {"values": warp.array2d(dtype=warp.float64)}
    compiled = warp.kernel(double)

    def kernel(chunk: celerity.Chunk, u: Any) -> None:
        warp.launch(compiled, dim=chunk.box.shape, inputs=[warp.from_dlpack(u[chunk.box])], device="cpu")

    u = celerity.Buffer.from_array(VALUES)
    queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(u).result(60), 2 * VALUES)
