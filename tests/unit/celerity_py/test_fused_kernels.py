# SPDX-License-Identifier: MIT
"""Fused kernels from the decorator to the results, on CPU devices."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import (
    ArgumentTypeError,
    CelerityWarning,
    NestedUse,
    OutOfBoundsAccess,
    ReadOnlyAccess,
    UsageError,
)

pytest.importorskip("numba")

Array = np.ndarray[Any, Any]


def filled(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(3).random(shape) * 10).astype(dtype)


def wave(chunk: Any, u: Any, v: Any, c: float) -> None:
    p = v.padded(chunk.box, 1)
    lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * v[chunk.box]
    u[chunk.box] = 2 * v[chunk.box] - u[chunk.box] + c * lap


def run_wave(kernel: Any, shape: tuple[int, int], steps: int, hints: Any = ()) -> Array:
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(filled(shape)) for _ in range(2))
        for step in range(steps):
            queue.parallel_for(
                shape,
                kernel,
                u.read_write(access.one_to_one()),
                v.read(access.neighborhood(1, 1)),
                0.1 + step,
                hints=hints,
            )
            u, v = v, u
        return np.asarray(queue.fence(v).result())


@pytest.mark.parametrize("devices", ["cpu:1", "cpu:3"])
@pytest.mark.parametrize("shape", [(7, 9), (200, 311)])
def test_a_fused_kernel_has_the_bits_of_the_python_kernel(devices: str, shape: tuple[int, int]) -> None:
    celerity.configure(devices=devices)
    fused = run_wave(celerity.fuse(wave), shape, 5)
    assert np.array_equal(fused, run_wave(celerity.kernel(wave), shape, 5))
    assert np.array_equal(fused, run_wave(celerity.fuse(wave), shape, 5, celerity.hints.split_2d()))


def test_a_kernel_may_be_fused_on_one_backend() -> None:
    assert np.array_equal(run_wave(celerity.kernel(cpu=celerity.fuse(wave)), (20, 20), 3), run_wave(wave, (20, 20), 3))


def test_the_function_is_called_once_for_each_kind_of_submit() -> None:
    calls: list[Any] = []
    note = calls.append

    @celerity.fuse
    def scaled(chunk: Any, u: Any, factor: float) -> None:
        note(factor)
        u[chunk.box] *= factor

    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(50))
        for factor in (2.0, 3.0, 4.0):
            queue.parallel_for(50, scaled, u.read_write(access.one_to_one()), factor)
        assert len(calls) == 1
        queue.parallel_for(50, scaled, u.read_write(access.one_to_one()), np.float32(0.5))
        assert len(calls) == 2
        assert np.array_equal(queue.fence(u).result(), np.full(50, 12.0))


def test_values_that_python_needs_make_another_kernel() -> None:
    @celerity.fuse
    def power(chunk: Any, u: Any, times: int) -> None:
        value = u[chunk.box]
        for _ in range(times):
            value = value * 2
        u[chunk.box] = value

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(10))
        for times in (1, 3, 1, 0, 2):
            queue.parallel_for(10, power, u.read_write(access.one_to_one()), times)
        assert np.array_equal(queue.fence(u).result(), np.full(10, 2.0**7))


def test_values_from_outside_are_those_of_the_submit() -> None:
    state = SimpleNamespace(dt=2.0, table=(1, 2))
    bias = 10.0

    @celerity.fuse
    def step(chunk: Any, u: Any) -> None:
        u[chunk.box] = u[chunk.box] * state.dt + bias + state.table[1]

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(8))
        expected = 0.0
        for _ in range(3):
            queue.parallel_for(8, step, u.read_write(access.one_to_one()))
            expected = expected * state.dt + bias + state.table[1]
            state.dt += 1
            bias -= 4
        state.table = (1, 30)
        queue.parallel_for(8, step, u.read_write(access.one_to_one()))
        expected = expected * state.dt + bias + 30
        assert np.array_equal(queue.fence(u).result(), np.full(8, expected))


def test_an_array_from_outside_is_refused() -> None:
    weights = np.ones(4)

    @celerity.fuse
    def weighted(chunk: Any, u: Any) -> None:
        u[chunk.box] *= weights

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(4))
        with pytest.raises(UsageError, match="uses the array 'weights' from outside"):
            queue.parallel_for(4, weighted, u.read_write(access.one_to_one()))


def shift(chunk: Any, u: Any) -> None:
    """A pass into scratch memory, and one out of it."""
    last = u.shape_box.max[0]
    u[1:last] = u[0 : last - 1] + 1
    u[0 : last - 2] = u[2:last]


def test_a_right_side_is_evaluated_first() -> None:
    results = []
    for kernel in (celerity.fuse(shift), celerity.kernel(shift)):
        with celerity.Queue() as queue:
            buffers = [celerity.Buffer.from_array(filled((size,), np.float64)) for size in (300, 90_000, 200_000, 7)]
            for u in (*buffers, *buffers):  # launches in flight have scratch memory of different sizes
                queue.parallel_for(1, kernel, u.read_write(access.all()))
            results.append([queue.fence(u).result() for u in buffers])
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_fused_and_python_kernels_follow_each_other_on_a_device() -> None:
    def plus(chunk: Any, u: Any) -> None:
        u[chunk.box] += 1

    @celerity.fuse
    def twice(chunk: Any, u: Any) -> None:
        u[chunk.box] *= 2

    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        for size in (10, 200_000):
            u = celerity.Buffer.from_array(np.zeros(size))
            expected = 0
            for step in range(40):
                queue.parallel_for(size, plus if step % 3 else twice, u.read_write(access.one_to_one()))
                expected = expected + 1 if step % 3 else expected * 2
            assert np.array_equal(queue.fence(u).result(), np.full(size, float(expected)))


def test_recordings_repeat_fused_kernels() -> None:
    @celerity.fuse
    def step(chunk: Any, u: Any, dt: float) -> None:
        u[chunk.box] = u[chunk.box] + dt

    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(64))

        def loop(dt: float) -> None:
            queue.parallel_for(64, step, u.read_write(access.one_to_one()), dt)

        recorded = queue.record(loop, dt=1.0)
        queue.replay(recorded, 10)
        queue.replay(recorded, 4, dt=0.25)
        queue.replay(recorded, 2)
        assert np.array_equal(queue.fence(u).result(), np.full(64, 14.0))


def test_a_replay_with_a_value_that_python_needs_has_another_kernel() -> None:
    @celerity.fuse
    def power(chunk: Any, u: Any, count: int) -> None:
        for _ in range(count):
            u[chunk.box] *= 2

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(64))

        def loop(count: int) -> None:
            queue.parallel_for(64, power, u.read_write(access.one_to_one()), count)

        recorded = queue.record(loop, count=1)
        queue.replay(recorded, 1, count=3)
        queue.replay(recorded, 2)
        assert np.array_equal(queue.fence(u).result(), np.full(64, 2.0**6))


def test_elements_of_a_buffer_have_components() -> None:
    def collide(chunk: Any, f: Any) -> None:
        density = f[chunk.box][..., 0] + f[chunk.box][..., 1] + f[chunk.box][..., 2]
        for k in range(3):
            f[chunk.box][..., k] += 0.5 * (density / 3 - f[chunk.box][..., k])

    results = []
    for kernel in (celerity.fuse(collide), celerity.kernel(collide)):
        with celerity.Queue() as queue:
            f = celerity.Buffer.from_array(filled((30, 20, 3), np.float64), element=(3,))
            queue.parallel_for((30, 20), kernel, f.read_write(access.one_to_one()))
            results.append(queue.fence(f).result())
    assert np.array_equal(results[0], results[1])


def test_a_chunk_with_nothing_to_read_runs() -> None:
    def add(chunk: Any, out: Any, u: Any) -> None:
        both = chunk.box & u.shape_box if hasattr(u, "shape_box") else chunk.box
        out[chunk.box] = 1.0
        out[both] += u[both]

    results = []
    for kernel in (celerity.fuse(add), celerity.kernel(add)):
        celerity.configure(devices="cpu:3")
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(filled((5,), np.float64))
            out = celerity.Buffer(30, np.float64)
            queue.parallel_for(30, kernel, out.write(access.one_to_one()), u.read(access.all()))
            results.append(queue.fence(out).result())
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda chunk, u: u[chunk.box] + 1, UsageError, "returns an array or number, which nobody gets"),
        (lambda chunk, u: bool(u[chunk.box] > 1) and None, UsageError, "numpy.where"),
        (lambda chunk, u: u[0:99], OutOfBoundsAccess, "outside of its declared region"),
    ],
    ids=["result", "condition", "outside"],
)
def test_a_mistake_is_found_at_the_submit(function: Callable[..., Any], error: Any, message: str) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(9))
        with warnings.catch_warnings():
            warnings.simplefilter("error", CelerityWarning)
            with pytest.raises(error, match=message):
                queue.parallel_for(9, celerity.fuse(function), u.read_write(access.one_to_one()))
        queue.wait()


@pytest.mark.parametrize(
    ("wrong", "error"), [(lambda chunk, u: u[0:99], OutOfBoundsAccess), (lambda chunk, u: int("none"), ValueError)]
)
def test_between_the_lines_of_a_submit_and_of_the_function_is_one_of_ours(wrong: Any, error: Any) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(9))
        with pytest.raises(error) as caught:
            queue.parallel_for(9, celerity.fuse(wrong), u.read_write(access.one_to_one()))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert (files[0], files[-1]) == (__file__, __file__)
    assert len(files) == 3


def test_a_read_access_is_not_written() -> None:
    @celerity.fuse
    def write(chunk: Any, u: Any) -> None:
        u[chunk.box] = 1

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(9))
        with pytest.raises(ReadOnlyAccess):
            queue.parallel_for(9, write, u.read(access.one_to_one()))


def test_a_task_may_not_be_submitted_while_a_function_is_traced() -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(9))

        @celerity.fuse
        def nested(chunk: Any, view: Any) -> None:
            queue.wait()

        with pytest.raises(NestedUse, match="inside"):
            queue.parallel_for(9, nested, u.read_write(access.one_to_one()))


def test_what_is_not_fused_yet_runs_in_python_and_says_so() -> None:
    @celerity.fuse
    def count(chunk: Any, u: Any, out: Any) -> None:
        out.combine_at(u[chunk.box], 1)

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.arange(10) % 3)
        out = celerity.Buffer(3, np.int64)
        with pytest.warns(CelerityWarning, match="runs as a Python kernel"):
            queue.parallel_for(10, count, u.read(access.one_to_one()), celerity.reduction(out, "sum"))
        queue.parallel_for(10, count, u.read(access.one_to_one()), celerity.reduction(out, "sum"))
        assert queue.fence(out).result().tolist() == [4, 3, 3]


@pytest.mark.filterwarnings("ignore:.*runs as a Python kernel")
def test_what_is_not_fused_is_traced_once() -> None:
    calls: list[Any] = []
    note = calls.append

    @celerity.fuse
    def add(chunk: Any, u: Any) -> None:
        note(type(chunk))
        u[chunk.box] += np.zeros(chunk.box.shape)

    celerity.configure(devices=1)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(5))
        for _ in range(3):
            queue.parallel_for(5, add, u.read_write(access.one_to_one()))
        queue.wait()
    assert calls.count(celerity.Chunk) == 3
    assert len(calls) == 4


def test_an_integer_that_does_not_fit_is_refused_at_each_submit() -> None:
    @celerity.fuse
    def add(chunk: Any, u: Any, n: int) -> None:
        u[chunk.box] += n

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(5, np.int8))
        queue.parallel_for(5, add, u.read_write(access.one_to_one()), 100)
        with pytest.raises(UsageError, match="300 does not fit into int8"):
            queue.parallel_for(5, add, u.read_write(access.one_to_one()), 300)
        assert np.array_equal(queue.fence(u).result(), np.full(5, 100, np.int8))


def test_a_fused_function_may_be_called_on_arrays() -> None:
    u, v = filled((6, 6)), filled((6, 6))
    fused = celerity.fuse(lambda chunk, a, b: np.add(a, b, out=a), name="sum")
    fused(None, u, v)
    assert np.array_equal(u, filled((6, 6)) + v)
    assert repr(fused) == "<fused kernel 'sum'>"


@pytest.mark.parametrize("what", [3, celerity.kernel(wave), celerity.CudaKernel("", "f"), celerity.fuse(wave)])
def test_only_functions_are_fused(what: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="takes a function on arrays"):
        celerity.fuse(what)


def test_a_check_of_the_run_calls_the_function() -> None:
    celerity.configure(check=True, devices="cpu:1")
    assert np.array_equal(run_wave(celerity.fuse(wave), (9, 9), 2), run_wave(celerity.kernel(wave), (9, 9), 2))


def test_a_dry_run_plans_fused_kernels() -> None:
    celerity.configure(dry_run_ranks=3, devices=2)
    try:
        with celerity.Queue() as queue:
            u = celerity.Buffer((40, 40), np.float32, name="u")
            for _ in range(2):
                queue.parallel_for(
                    (40, 40), celerity.fuse(wave), u.write(access.one_to_one()), u.read(access.one_to_one()), 1
                )
            queue.wait()
            assert queue.statistics().plan is not None
    finally:
        celerity.configure(dry_run_ranks=None, devices=None)


def red_and_black(chunk: Any, u: Any) -> None:
    i, j = chunk.index(0), chunk.index(1)
    u[chunk.box] = np.where((i + j) % 2 == 0, i, -j)
    inner = chunk.box.shrink(1, 1)
    u[inner] += chunk.index(1, inner)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kernel", [celerity.fuse, celerity.kernel])
def test_a_chunk_gives_the_coordinates_of_its_items(kernel: Any, check: bool) -> None:
    celerity.configure(devices=1, check=check)
    with celerity.Queue() as queue:
        u = celerity.Buffer((6, 7), np.float32)
        queue.parallel_for((6, 7), kernel(red_and_black), u.write(access.one_to_one()))
        i, j = np.indices((6, 7))
        expected = np.where((i + j) % 2 == 0, i, -j).astype(np.float32)
        if not check:  # which divides the kernel
            expected[1:-1, 1:-1] += j[1:-1, 1:-1]
            assert np.array_equal(queue.fence(u).result(), expected)


@pytest.mark.parametrize("kernel", [celerity.fuse, celerity.kernel])
def test_a_dimension_that_there_is_not_is_refused(kernel: Any) -> None:
    def wrong(chunk: Any, u: Any) -> None:
        chunk.index(2)

    message = r"chunk.index\(2\).* has the dimensions 0 to 1"
    with pytest.raises((UsageError, celerity.TaskFailed), match=message), celerity.Queue() as queue:
        queue.parallel_for((6, 7), kernel(wrong), celerity.Buffer((6, 7)).write(access.one_to_one()))
