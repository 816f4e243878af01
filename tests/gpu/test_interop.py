# SPDX-License-Identifier: MIT
"""Arrays of the user on GPUs: they go into buffers and come out of them without the host, for CuPy and torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import UsageError
from tests.gpu.launching import run

ROWS, COLUMNS = 640, 40


def iota(chunk: Any, out: Any) -> None:
    out[chunk.box] = chunk.xp.arange(chunk.box.min[0], chunk.box.max[0])[:, None]


def double(chunk: Any, u: Any) -> None:
    u[chunk.box] *= 2


def assert_without_host(queue: celerity.Queue) -> None:
    executor = queue.statistics().executor
    assert executor["memories"][1]["allocations"] == 0, "memory of the host"
    assert executor["copies"]["staging"] == 0
    assert executor["copies"]["initial"] >= 1


def add_ones_and_double(queue: celerity.Queue, add_ones: Callable[[Any, Any], None]) -> None:
    """Kernels that add 50 by another library, in turns with such of CuPy, must wait for each other."""
    u = celerity.Buffer.from_array(np.zeros((ROWS, COLUMNS)))
    expected = 0.0
    for _ in range(20):
        queue.parallel_for(u.shape, add_ones, u.read_write(access.one_to_one()))
        queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
        expected = 2 * (expected + 50)
    np.testing.assert_array_equal(queue.fence(u).result(), expected)


def values() -> Any:
    return np.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)


def test_a_fence_to_the_device_gives_a_fresh_array_on_the_first_gpu(queue: celerity.Queue) -> None:
    import cupy

    u = celerity.Buffer((64, 40), np.float64)
    queue.parallel_for(u.shape, iota, u.write(access.one_to_one()))
    first = queue.fence(u, Box((3, 2), (60, 30)), to="device").result()
    second = queue.fence(u, to="device").result()
    assert isinstance(first, cupy.ndarray)
    assert first.device.id == second.device.id == 0
    expected = np.broadcast_to(np.arange(64.0)[:, None], (64, 40))
    second[...] = -1
    np.testing.assert_array_equal(first.get(), expected[3:60, 2:30])
    np.testing.assert_array_equal(queue.fence(u).result(), expected)


@pytest.mark.parametrize("copy", [True, False])
def test_a_number_on_a_gpu_becomes_a_buffer_without_dimensions(queue: celerity.Queue, copy: bool) -> None:
    import cupy

    total = celerity.Buffer.from_array(cupy.array(3.0), copy=copy)
    assert total.shape == ()
    queue.parallel_for((), lambda chunk, total: total.__setitem__(..., 2 * total[...]), total.read_write(access.all()))
    assert queue.fence(total).result() == 6


def test_memory_that_the_program_still_uses_is_no_destination(queue: celerity.Queue) -> None:
    import cupy

    u = celerity.Buffer.from_array(np.ones(1 << 20))
    for _ in range(20):
        scratch = cupy.full(1 << 20, 7.0)
        for _ in range(50):
            scratch = cupy.sqrt(scratch * scratch)  # drops arrays whose kernels have not run yet
        del scratch
        assert (queue.fence(u, to="device").result() == 1).all()


def test_a_fence_to_the_device_refuses_elements_that_cupy_lacks(queue: celerity.Queue) -> None:
    with pytest.raises(UsageError, match=r"CuPy has no arrays of .* Fence to='host'"):
        queue.fence(celerity.Buffer(4, np.dtype([("a", "i4")])), to="device")


@pytest.mark.parametrize("copy", [True, False])
def test_nothing_passes_through_the_host_from_array_to_array(queue: celerity.Queue, copy: bool) -> None:
    import cupy

    given = cupy.asarray(values())
    u = celerity.Buffer.from_array(given.T, copy=copy)  # not C-contiguous
    v = celerity.Buffer.from_array(given, copy=copy)
    if copy:
        given[...] = -1
    for buffer in (u, v):
        queue.parallel_for(buffer.shape, double, buffer.read_write(access.one_to_one()))
    results = [queue.fence(buffer, to="device").result() for buffer in (u, v)]
    assert_without_host(queue)
    np.testing.assert_array_equal(results[0].get(), 2 * values().T)
    np.testing.assert_array_equal(results[1].get(), 2 * values())


@pytest.mark.needs_cupti
@pytest.mark.processes
def test_the_driver_copies_nothing_from_or_to_the_host(num_gpus: int) -> None:
    program = str(Path(__file__).with_name("interop_programs.py"))
    outcome = run(program, variables={"CELERITY_DEVICES": str(num_gpus)})
    assert outcome.status == 0, outcome.errors
    assert outcome.output == "no copy from or to the host\n"


def test_a_borrowed_array_on_a_gpu_is_copied_there_by_the_wait(queue: celerity.Queue) -> None:
    import cupy

    given = cupy.asarray(values())
    u = celerity.Buffer.from_array(given, copy=False)
    queue.wait()
    given[...] = -1
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(queue.fence(u, to="device").result().get(), values())
    executor = queue.statistics().executor
    assert executor["memories"][1]["allocations"] == 0


def test_each_gpu_of_the_rank_gives_its_part(queue: celerity.Queue, num_gpus: int) -> None:
    import cupy

    parts = []
    for gpu in range(num_gpus):
        box = Box((ROWS * gpu // num_gpus, 0), (ROWS * (gpu + 1) // num_gpus, COLUMNS))
        with cupy.cuda.Device(gpu):
            parts.append((box, cupy.asarray(values()[box.slices].astype(np.float32))))
    u = celerity.Buffer.from_local((ROWS, COLUMNS), np.float64, parts)
    queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()), hints=celerity.hints.split_1d())
    result = queue.fence(u, to="device").result()
    assert_without_host(queue)
    np.testing.assert_array_equal(result.get(), 2 * values())


def test_work_of_numba_on_its_default_stream_is_ordered_with_the_lane(
    queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    monkeypatch.setitem(sys.modules, "numba.cuda", SimpleNamespace())  # the test launches in its place

    def on_default_stream(chunk: Any, u: Any) -> None:
        array = u[chunk.box]
        with cupy.cuda.Stream.null:
            for _ in range(50):
                cupy.add(array, 1.0, out=array)

    add_ones_and_double(queue, on_default_stream)


@pytest.mark.needs_module("numba_cuda")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of numba's import
def test_a_kernel_launches_kernels_of_numba(queue: celerity.Queue) -> None:
    from numba import cuda

    def add_one(values: Any) -> None:
        row, column = cuda.grid(2)
        if row < values.shape[0] and column < values.shape[1]:
            values[row, column] += 1.0

    compiled = cuda.jit(add_one)

    def add_ones(chunk: Any, u: Any) -> None:
        values = cuda.as_cuda_array(u[chunk.box])
        for _ in range(50):
            # Small blocks: numba warns of fewer than 128.
            compiled[tuple(-(-extent // 4) for extent in values.shape), (4, 4)](values)

    add_ones_and_double(queue, add_ones)


@pytest.mark.needs_module("warp")
def test_a_kernel_launches_kernels_of_warp(queue: celerity.Queue) -> None:
    import warp

    warp.config.quiet = True
    warp.init()

    def add_one(values: Any) -> None:
        row, column = warp.tid()
        values[row, column] = values[row, column] + warp.float64(1.0)

    add_one.__annotations__ = {"values": warp.array2d(dtype=warp.float64)}
    compiled = warp.kernel(add_one)

    def add_ones(chunk: Any, u: Any) -> None:
        part = u[chunk.box]
        values = warp.from_dlpack(part)
        for _ in range(50):
            warp.launch(compiled, dim=part.shape, inputs=[values], device=f"cuda:{part.device.id}")

    add_ones_and_double(queue, add_ones)


@pytest.mark.parametrize(
    "_",
    [pytest.param(name, marks=pytest.mark.needs_module(name)) for name in ("jax_cuda12_plugin", "jax_cuda13_plugin")],
)
def test_a_kernel_computes_with_jax(queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch, _: str) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import cupy
    import jax

    jax.config.update("jax_enable_x64", True)

    def add_ones(chunk: Any, u: Any) -> None:
        values = jax.dlpack.from_dlpack(u[chunk.box].copy())
        for _ in range(50):
            values = values + 1.0
        u[chunk.box] = cupy.from_dlpack(jax.block_until_ready(values))

    add_ones_and_double(queue, add_ones)


@pytest.mark.needs_module("torch")
def test_torch_uses_the_stream_of_the_lane_in_a_kernel(queue: celerity.Queue) -> None:
    import torch

    seen: list[tuple[int, int]] = []

    def multiply(chunk: Any, u: Any) -> None:
        tensor = torch.from_dlpack(u[chunk.box])
        for _ in range(50):
            tensor.add_(1.0)
        seen.append((torch.cuda.current_stream().cuda_stream, chunk.stream.ptr))

    before = torch.cuda.current_stream().cuda_stream
    add_ones_and_double(queue, multiply)
    assert all(current == lane != before for current, lane in seen)
    assert torch.cuda.current_stream().cuda_stream == before


@pytest.mark.needs_module("torch")
def test_tensors_of_torch_go_in_and_come_out_without_the_host(queue: celerity.Queue) -> None:
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):  # the array is complete when this stream is
        tensor = torch.zeros((ROWS, COLUMNS), dtype=torch.float64, device="cuda:0")
        for _ in range(200):
            tensor += 1.0
        u = celerity.Buffer.from_array(tensor)
    queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
    result = torch.from_dlpack(queue.fence(u, to="device").result())
    assert_without_host(queue)
    assert result.device == torch.device("cuda:0")
    assert bool((result == 400.0).all())
