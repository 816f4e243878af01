# SPDX-License-Identifier: MIT
"""Queues: kernels, host tasks, fences, waits, and the life of the runtime; on the CPU backend of this process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import itertools
import json
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access, lifecycle
from celerity_py.errors import (
    ArgumentTypeError,
    ClosedQueue,
    ConfigurationError,
    DimensionMismatch,
    InconsistentMapper,
    MapperError,
    NestedUse,
    NotAvailableYet,
    OutOfBoundsAccess,
    OverlappingAccess,
    UsageError,
)


@pytest.fixture(params=[1, 3])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    """On one device, and on three with separate memories."""
    celerity.configure(devices=f"cpu:{request.param}", horizon_step=2)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, horizon_step=None)


@celerity.kernel
def iota(chunk: celerity.Chunk, out: celerity.View) -> None:
    """Each element becomes its row-major index."""
    shape = out.shape_box.shape
    out[chunk.box] = np.arange(np.prod(shape, dtype=int)).reshape(shape)[chunk.box.slices]


@celerity.kernel
def scale(chunk: celerity.Chunk, out: celerity.View, factor: float) -> None:
    out[chunk.box] *= factor


# ---- kernels


@pytest.mark.parametrize("shape", [(7,), (5, 4), (3, 4, 5), ()])
def test_a_kernel_writes_its_chunks_in_any_number_of_dimensions(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    buffer = celerity.Buffer(shape, np.int64)
    queue.parallel_for(buffer.shape, iota, buffer.write(access.one_to_one()))
    result = queue.fence(buffer).result(10)
    np.testing.assert_array_equal(result, np.arange(result.size).reshape(shape))


def test_an_index_space_is_an_int_a_sequence_or_a_box_with_an_offset(queue: celerity.Queue) -> None:
    spaces: list[Any] = [
        (6, [1] * 6 + [0] * 2),
        ([6], [1] * 6 + [0] * 2),
        (np.int64(6), [1] * 6 + [0] * 2),
        (Box((2,), (7,)), [0, 0, 1, 1, 1, 1, 1, 0]),
    ]
    for space, expected in spaces:
        buffer = celerity.Buffer.from_array(np.zeros(8))

        def mark(chunk: celerity.Chunk, out: celerity.View) -> None:
            out[chunk.box] += 1

        queue.parallel_for(space, mark, buffer.read_write(access.one_to_one()))
        np.testing.assert_array_equal(queue.fence(buffer).result(10), expected)


def test_chunks_partition_the_index_space_and_tell_device_and_module(queue: celerity.Queue) -> None:
    seen: list[Any] = []

    def note(chunk: celerity.Chunk) -> None:
        seen.append((chunk.box, chunk.global_box, chunk.global_shape, chunk.device, chunk.xp, chunk.stream))

    queue.parallel_for((8, 3), note)
    queue.wait()
    num_devices = queue.statistics().num_devices
    assert Region([box for box, *_ in seen]) == Region([Box((0, 0), (8, 3))])
    assert sum(box.size for box, *_ in seen) == 24
    assert sorted(device for *_, device, _, _ in seen) == list(range(num_devices))
    assert {entry[1:3] + entry[4:] for entry in seen} == {(Box((0, 0), (8, 3)), (8, 3), np, None)}


def test_a_0d_kernel_runs_once(queue: celerity.Queue) -> None:
    seen: list[Box] = []
    queue.parallel_for((), lambda chunk: seen.append(chunk.box))
    queue.wait()
    assert seen == [Box((), ())]


def test_chunks_are_multiples_of_the_constraint(queue: celerity.Queue) -> None:
    seen: list[int] = []
    queue.parallel_for(12, lambda chunk: seen.append(chunk.box.size), constrain=4)
    queue.wait()
    assert sum(seen) == 12
    assert all(size % 4 == 0 for size in seen)


def test_oversubscription_makes_more_chunks(queue: celerity.Queue) -> None:
    seen: list[Box] = []
    queue.parallel_for(64, lambda chunk: seen.append(chunk.box), hints=celerity.hints.oversubscribe(4))
    queue.wait()
    assert len(seen) == 4 * queue.statistics().num_devices


def test_plain_arguments_are_passed_on_as_they_are(queue: celerity.Queue) -> None:
    given: list[Any] = [3, np.float32(0.5), np.ones(2), {"a": 1}, None, "text", object()]
    got: list[Any] = []
    queue.parallel_for((), lambda chunk, *args: got.append(args), *given)
    queue.wait()
    assert all(a is b for a, b in zip(got[0], given, strict=True))


def test_a_stencil_equals_its_numpy_program(queue: celerity.Queue) -> None:
    @celerity.kernel
    def step(chunk: celerity.Chunk, u_next: celerity.View, u: celerity.View, c2: np.float32) -> None:
        inner = chunk.box & u.shape_box.shrink(1, 1)
        neighbours = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
        u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (neighbours - 4 * u[inner])

    initial = np.random.default_rng(1).random((13, 9), np.float32)
    u = celerity.Buffer.from_array(initial, name="u")
    u_next = celerity.Buffer.from_array(initial, name="u_next")
    a, b = initial.copy(), initial.copy()
    for _ in range(20):
        accesses = u_next.read_write(access.one_to_one()), u.read(access.neighborhood(1, 1, shape="axes"))
        queue.parallel_for(u.shape, step, *accesses, np.float32(0.25))
        u, u_next = u_next, u
        inside = a[1:-1, 1:-1]
        neighbours = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        b[1:-1, 1:-1] = 2 * inside - b[1:-1, 1:-1] + np.float32(0.25) * (neighbours - 4 * inside)
        a, b = b, a
    np.testing.assert_array_equal(queue.fence(u).result(10), a)


def test_a_loop_with_python_mappers_uses_the_loop_variable(queue: celerity.Queue) -> None:
    history = celerity.Buffer.from_array(np.zeros((6, 8), np.int64), name="history")

    def add_rows(chunk: celerity.Chunk, row: celerity.View, before: celerity.View) -> None:
        row[...] = 1 + before[:, chunk.box.slices[0]].sum(axis=0)

    for t in range(1, 6):
        queue.parallel_for(
            8,
            add_rows,
            history.write(lambda chunk: Box((t, chunk.box.min[0]), (t + 1, chunk.box.max[0]))),  # noqa: B023
            history.read(lambda chunk, shape: (slice(0, t), slice(0, shape[1]))),  # noqa: B023 - called at once
        )
    result = queue.fence(history).result(10)
    np.testing.assert_array_equal(result[:, 0], [0, 1, 2, 4, 8, 16])
    assert (result == result[:, :1]).all()


def test_transposed_access_moves_data_between_devices(queue: celerity.Queue) -> None:
    matrix = np.random.default_rng(2).random((6, 9))
    source = celerity.Buffer.from_array(matrix)
    target = celerity.Buffer((9, 6), np.float64)

    def transpose(chunk: celerity.Chunk, out: celerity.View, given: celerity.View) -> None:
        out[chunk.box] = given[...].T

    queue.parallel_for(target.shape, transpose, target.write(access.one_to_one()), source.read(access.permute(1, 0)))
    np.testing.assert_array_equal(queue.fence(target).result(10), matrix.T)


def test_structured_dtypes_travel(queue: celerity.Queue) -> None:
    dtype = np.dtype([("position", np.float32, 3), ("kind", np.uint8)])
    buffer = celerity.Buffer(10, dtype)

    def fill(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[...]["kind"] = np.arange(chunk.box.min[0], chunk.box.max[0])
        out[...]["position"] = 1.5

    queue.parallel_for(10, fill, buffer.write(access.one_to_one()))
    result = queue.fence(buffer).result(10)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result["kind"], np.arange(10))
    assert (result["position"] == 1.5).all()


# ---- reductions


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("sum", np.int64, 4950),
        ("max", np.float32, 99),
        ("min", np.int32, 0),
        ("prod", np.float64, 0),
    ],
)
def test_a_reduction_combines_all_chunks(queue: celerity.Queue, op: str, dtype: Any, expected: int) -> None:
    function: Any = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}[op]

    def reduce(chunk: celerity.Chunk, given: celerity.View, out: celerity.Reducer) -> None:
        out.combine(function(given[chunk.box]))

    source = celerity.Buffer.from_array(np.arange(100).astype(dtype))
    result = celerity.Buffer((), dtype, name="result")
    for _ in range(2):  # the second time replaces the first
        queue.parallel_for(100, reduce, source.read(access.one_to_one()), celerity.reduction(result, op))
        assert queue.fence(result).result(10) == expected


def test_a_reduction_may_include_the_current_value_once(queue: celerity.Queue) -> None:
    total = celerity.Buffer.from_array(np.array([100.0]), name="total")

    def count(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        for _ in range(chunk.box.size):
            out.combine(1)

    for expected in (112, 124):
        queue.parallel_for(12, count, celerity.reduction(total, "sum", include_current=True))
        assert queue.fence(total).result(10) == [expected]


def test_the_result_of_a_reduction_can_be_read_by_kernels(queue: celerity.Queue) -> None:
    total = celerity.Buffer((), np.int64)
    out = celerity.Buffer(9, np.int64)
    queue.parallel_for(9, lambda chunk, t: t.combine(chunk.box.size), celerity.reduction(total, "sum"))

    def spread(chunk: celerity.Chunk, out: celerity.View, total: celerity.View) -> None:
        out[...] = total[...]

    queue.parallel_for(9, spread, out.write(access.one_to_one()), total.read())
    np.testing.assert_array_equal(queue.fence(out).result(10), [9] * 9)


# ---- host tasks


def test_host_tasks_run_once_with_data_in_host_memory(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(10, np.int64)
    seen: list[Any] = []
    queue.parallel_for(10, iota, buffer.write(access.one_to_one()))
    for on in ("once", "master"):
        queue.host_task(lambda part, view: seen.append((part.box, view.array.copy())), buffer.read(access.all()), on=on)
    queue.wait()
    assert [box for box, _ in seen] == [Box((), ())] * 2
    for _, array in seen:
        np.testing.assert_array_equal(array, np.arange(10))


def test_distributed_host_tasks_cover_their_index_space(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros((4, 3)))

    def add(part: celerity.Part, view: celerity.View, amount: int) -> None:
        view[part.box] += amount

    queue.host_task(add, buffer.read_write(access.one_to_one()), 5, on=(4, 3), name="add five")
    queue.parallel_for((4, 3), scale, buffer.read_write(access.one_to_one()), 2.0)
    assert (queue.fence(buffer).result(10) == 10).all()


# ---- fences and waits


def test_a_fence_gives_a_fresh_writable_array_of_the_box(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((6, 5), np.int64)
    queue.parallel_for((6, 5), iota, buffer.write(access.one_to_one()))
    first = queue.fence(buffer, Box((1, 2), (4, 5)))
    assert isinstance(first, concurrent.futures.Future)
    second = queue.fence(buffer, (slice(1, 4), slice(2, None)))
    expected = np.arange(30).reshape(6, 5)[1:4, 2:5]
    first.result(10)[...] = -1
    np.testing.assert_array_equal(second.result(10), expected)
    assert second.result().flags.writeable
    assert queue.fence(buffer, Box((2, 2), (2, 2))).result(10).shape == (0, 0)


def test_a_fence_sees_what_was_submitted_before_it_and_nothing_after(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(8))
    futures = []
    for _ in range(5):
        futures.append(queue.fence(buffer, on="master"))
        queue.parallel_for(8, scale, buffer.read_write(access.one_to_one()), 2.0)
    assert [future.result(10)[0] for future in futures] == [1, 2, 4, 8, 16]


def test_a_fence_can_be_awaited(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(10, np.int64)

    async def program() -> Any:
        queue.parallel_for(10, iota, buffer.write(access.one_to_one()))
        first, second = await asyncio.gather(*(queue.fence(buffer, Box((i,), (i + 2,))) for i in (0, 5)))
        return [*first, *second, *(await queue.fence(buffer, slice(9, 10)))]

    assert asyncio.run(program()) == [0, 1, 5, 6, 9]


def test_a_pending_fence_times_out_and_cannot_be_cancelled(queue: celerity.Queue) -> None:
    let_go = threading.Event()
    buffer = celerity.Buffer.from_array(np.zeros(4))
    queue.parallel_for((), lambda chunk, out: let_go.wait(10), buffer.read_write(access.all()))
    future = queue.fence(buffer)
    with pytest.raises(TimeoutError):
        future.result(0.05)
    with pytest.raises(TimeoutError):
        future.exception(0)
    assert not future.cancel()
    let_go.set()
    assert future.exception(10) is None
    assert future.result().shape == (4,)


def test_wait_returns_when_everything_is_done(queue: celerity.Queue) -> None:
    done: list[int] = []

    def slow(chunk: celerity.Chunk, number: int) -> None:
        time.sleep(0.05)
        done.append(number)

    queue.parallel_for((), slow, 1)
    queue.wait()
    assert done == [1]
    queue.parallel_for((), slow, 2)
    queue.barrier()
    assert done == [1, 2]


def test_flush_starts_what_lookahead_holds_back() -> None:
    celerity.configure(lookahead="infinite")
    with celerity.Queue() as queue:
        started = threading.Event()
        buffer = celerity.Buffer(4)
        queue.parallel_for(4, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))
        assert not started.wait(0.05)
        queue.flush()
        assert started.wait(10)
    celerity.configure(lookahead=None)


# ---- errors at submit: nothing is enqueued


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (0, UsageError, r"index space \(0,\) is empty"),
        ((4, 0), UsageError, r"index space \(4, 0\) is empty"),
        (Box((3,), (3,)), UsageError, "is empty"),
        ((1, 1, 1, 1), DimensionMismatch, "at most 3 dimensions"),
        ("ab", ArgumentTypeError, "not 'ab'"),
        (2.5, ArgumentTypeError, r"not 2\.5"),
    ],
)
def test_an_impossible_index_space_is_an_error(
    queue: celerity.Queue, space: Any, error: type[Exception], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(error, match=f'kernel "named".*{message}') as caught:
            queue.parallel_for(space, lambda chunk: None, name="named")
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__, "of no interest to the user"


@pytest.mark.parametrize("kernel", [scale, print, celerity.CudaKernel("", "scale")])
def test_an_index_space_in_the_place_of_the_kernel_is_recognised(queue: celerity.Queue, kernel: Any) -> None:
    message = r"index space first .* write parallel_for\(shape, (scale|print), \.\.\.\), not .*, \(8, 8\)"
    swapped: Any = (8, 8)
    for args in [(), (3,)]:
        with pytest.raises(ArgumentTypeError, match=message) as caught:
            queue.parallel_for(kernel, swapped, *args)
        assert caught.value.__context__ is None


def test_arguments_that_no_kernel_can_use_are_errors(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(4, name="u")
    for foreign, message in [
        (buffer, r'bare buffer B\d+ "u".*u\.read\(mapper\)'),
        (queue, "a task cannot use"),
        (access.all(), "a task cannot use"),
        (celerity.hints.split_2d(), "a task cannot use"),
    ]:
        for _ in range(2):
            with pytest.raises(ArgumentTypeError, match=message) as caught:
                queue.parallel_for(4, lambda chunk, x: None, foreign)
            assert isinstance(caught.value, TypeError)


def test_a_kernel_must_take_its_arguments(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match=r'kernel "scale" is called with a chunk and 1 argument.*factor'):
        queue.parallel_for(4, scale, celerity.Buffer(4).write(access.one_to_one()))
    with pytest.raises(ArgumentTypeError, match="not 5"):
        queue.parallel_for(4, 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match='host task "<lambda>" is called with a part and 1'):
        queue.host_task(lambda part: None, 3)

    async def coroutine(chunk: celerity.Chunk) -> None: ...

    with pytest.raises(ArgumentTypeError, match="would never run"):
        queue.parallel_for(4, coroutine)


def test_a_cuda_kernel_is_refused_with_the_form_that_works(queue: celerity.Queue) -> None:
    source = celerity.CudaKernel("__global__ void f() {}", "f")
    for kernel in (source, celerity.kernel(cuda=source, name="f")):
        with pytest.raises(UsageError, match=r"kernel\(cpu=f, cuda=f\)"):
            queue.parallel_for(4, kernel)


def test_overlapping_writes_name_task_buffer_chunks_and_box() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8), name="u")
        with pytest.raises(OverlappingAccess) as caught:
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(access.all()), name="clash")
        for part in ('kernel "clash"', '"u"', "all()", "[0:4]", "[4:8]", "Nothing was submitted"):
            assert part in str(caught.value)
        reading = buffer.read(access.neighborhood(1))
        with pytest.raises(OverlappingAccess, match=r"neighborhood\(1\)"):
            queue.parallel_for(8, lambda chunk, a, b: None, buffer.read_write(access.one_to_one()), reading)
        with pytest.raises(OverlappingAccess, match="the mapper"):
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(lambda chunk: Box((0,), (1,))))
        np.testing.assert_array_equal(queue.fence(buffer).result(10), np.zeros(8))
    celerity.configure(devices=None)


def test_a_mapper_whose_whole_differs_from_its_parts_is_an_error() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8, name="u")

        def more_for_the_whole(chunk: Any) -> Box:
            return Box((0,), (8,)) if chunk.box == chunk.global_box else Box(chunk.box.min, (chunk.box.min[0] + 1,))

        with pytest.raises(InconsistentMapper, match=r'kernel "partial".*"u".*more_for_the_whole'):
            queue.parallel_for(8, lambda chunk, out: None, buffer.write(more_for_the_whole), name="partial")
    celerity.configure(devices=None)


def test_a_mapper_of_the_wrong_dimensions_is_an_error(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((4, 4), name="u")
    with pytest.raises(DimensionMismatch, match=r'kernel "k".*one_to_one\(\).*2 dimensions'):
        queue.parallel_for(4, lambda chunk, x: None, buffer.write(access.one_to_one()), name="k")
    with pytest.raises(DimensionMismatch, match=r'kernel "k" .*, read access to B\d+ "u".*\[0:1\]'):
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(lambda chunk: Box((0,), (1,))), name="k")


def test_an_exception_in_a_mapper_leaves_nothing_behind(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(4))

    def mapper(chunk: Any) -> Any:
        raise ZeroDivisionError

    before = queue.statistics().num_submissions
    with pytest.raises(MapperError) as caught:
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(mapper))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert queue.statistics().num_submissions == before
    queue.parallel_for(4, scale, buffer.read_write(access.one_to_one()), 2.0)
    assert (queue.fence(buffer).result(10) == 0).all()


def test_a_mapper_cannot_submit(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(4)

    def mapper(chunk: Any) -> Any:
        queue.wait()

    with pytest.raises(MapperError) as caught:
        queue.parallel_for(4, lambda chunk, x: None, buffer.read(mapper))
    assert isinstance(caught.value.__cause__, NestedUse)
    queue.wait()


def test_a_fence_checks_buffer_box_and_place(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((4, 4), name="u")
    with pytest.raises(ArgumentTypeError, match="takes a Buffer, not 3"):
        queue.fence(3)  # type: ignore[arg-type]
    with pytest.raises(OutOfBoundsAccess, match=r'"u" asks for \[0:5, 0:4\], outside of the buffer \[0:4, 0:4\]'):
        queue.fence(buffer, Box((0, 0), (5, 4)))
    with pytest.raises(DimensionMismatch, match=r"asks for \[0:4\]"):
        queue.fence(buffer, Box((0,), (4,)))
    with pytest.raises(UsageError, match="'all' or 'master', not 'some'"):
        queue.fence(buffer, on="some")


def test_a_constraint_needs_one_positive_int_per_dimension(queue: celerity.Queue) -> None:
    for constrain, message in [((2,), "one int per dimension"), ((2, 0), "positive ints"), ("ab", "one int per dim")]:
        with pytest.raises(UsageError, match=message):
            queue.parallel_for((4, 4), lambda chunk: None, constrain=constrain)  # type: ignore[arg-type]


def test_a_host_task_takes_no_reductions_kernels_or_other_places(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match="only kernels can reduce"):
        queue.host_task(lambda part, x: None, celerity.reduction(celerity.Buffer(()), "sum"))
    with pytest.raises(UsageError, match="'once', 'master', or an index space"):
        queue.host_task(lambda part: None, on="everywhere")
    with pytest.raises(ArgumentTypeError, match="takes a Python function"):
        queue.host_task(celerity.CudaKernel("", "f"))  # type: ignore[arg-type]


def test_collective_host_tasks_and_host_objects_are_not_available_yet(queue: celerity.Queue) -> None:
    with pytest.raises(NotAvailableYet, match="not available yet"):
        queue.collective(print)
    with pytest.raises(NotAvailableYet, match=r"HostObject\(list\) is not available yet"):
        celerity.HostObject([])


# ---- life


def test_the_runtime_ends_with_the_last_queue_and_starts_again() -> None:
    threads = threading.active_count()
    first = celerity.Queue()
    with celerity.Queue() as second:
        first.close()
        second.wait()
        runtime = lifecycle.current()
    assert runtime.has_ended
    assert threading.active_count() == threads
    with celerity.Queue():
        assert lifecycle.current() is not runtime


def test_a_buffer_may_come_before_the_first_queue() -> None:
    buffer = celerity.Buffer.from_array(np.arange(4))
    with celerity.Queue() as queue:
        np.testing.assert_array_equal(queue.fence(buffer).result(10), np.arange(4))


def test_leaving_the_block_waits_for_the_work() -> None:
    done: list[int] = []

    def slow(chunk: celerity.Chunk) -> None:
        time.sleep(0.1)
        done.append(1)

    with celerity.Queue() as queue:
        queue.parallel_for((), slow)
    assert done == [1]


def test_a_closed_queue_and_its_buffers_cannot_be_used() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(4, name="old")
    for call in (queue.wait, queue.barrier, queue.flush, lambda: queue.parallel_for(4, lambda chunk: None)):
        with pytest.raises(ClosedQueue, match="closed"):
            call()
    queue.close()
    with celerity.Queue() as queue:
        with pytest.raises(
            ClosedQueue, match=r'B\d+ "old" \(made at .*test_queue.py:\d+\) belongs to a runtime that ended'
        ):
            queue.parallel_for(4, lambda chunk, x: None, buffer.write(access.one_to_one()))
        with pytest.raises(ClosedQueue):
            queue.fence(buffer)


def test_an_exception_leaves_the_block_without_waiting() -> None:
    ran = []
    let_go = threading.Event()
    with pytest.raises(ZeroDivisionError), celerity.Queue() as queue:  # noqa: PT012 - the block is what is left
        buffer = celerity.Buffer.from_array(np.zeros(2))
        queue.parallel_for((), lambda chunk, x: let_go.wait(0.3), buffer.read_write(access.all()))
        queue.parallel_for((), lambda chunk, x: ran.append(1), buffer.read_write(access.all()))
        future = queue.fence(buffer)
        raise ZeroDivisionError
    assert ran == []
    with pytest.raises(ClosedQueue):
        future.result(1)
    let_go.set()
    with celerity.Queue() as queue:
        queue.wait()


def test_the_configuration_is_fixed_while_the_runtime_lives() -> None:
    with celerity.Queue(), pytest.raises(ConfigurationError, match="too late"):
        celerity.configure(check=True)
    celerity.configure(check=None)


def test_a_wrong_variable_is_found_at_start_and_can_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_LOOKAHED", "none")
    with pytest.raises(ConfigurationError, match="Did you mean CELERITY_LOOKAHEAD"):
        celerity.Queue()
    monkeypatch.delenv("CELERITY_LOOKAHED")
    with celerity.Queue() as queue:
        queue.wait()


def test_rank_and_size_are_known_without_a_runtime() -> None:
    assert (celerity.rank(), celerity.size(), celerity.is_master()) == (0, 1, True)


def test_callables_and_arguments_are_dropped_once_their_tasks_are_retired(queue: celerity.Queue) -> None:
    class Payload: ...

    payload = Payload()
    gone = weakref.ref(payload)
    queue.parallel_for((), lambda chunk, x: None, payload)
    del payload
    for _ in range(3):
        queue.wait()
    gc.collect()
    assert gone() is None
    assert len(lifecycle.current().submissions) < 5


def test_a_long_loop_keeps_a_bounded_table_of_submissions(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(4))
    longest = 0
    for _ in range(20_000):
        queue.parallel_for(4, scale, buffer.read_write(access.one_to_one()), 1.0)
        longest = max(longest, len(lifecycle.current().submissions))
    queue.wait()
    assert longest < 10_000


# ---- inside of tasks


def test_calls_from_inside_of_a_task_raise_nested_use(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(4))
    pending = threading.Event()
    errors: list[Any] = []

    def attempt(*calls: Any) -> None:
        for call in calls:
            try:
                call()
                errors.append(call)
            except NestedUse as error:
                errors.append(error)

    calls = [
        queue.wait,
        lambda: queue.parallel_for(4, lambda chunk: None),
        lambda: queue.host_task(print),
        lambda: queue.fence(buffer),
        lambda: celerity.Buffer(4),
        celerity.Queue,
        queue.close,
    ]
    queue.parallel_for((), lambda chunk: attempt(*calls))
    queue.host_task(lambda part: attempt(*calls))
    queue.parallel_for((), lambda chunk, x: pending.wait(10), buffer.read_write(access.all()))
    future = queue.fence(buffer)

    def after(done: concurrent.futures.Future[Any]) -> None:
        assert done.result() is not None  # it is there, so that asking for it is allowed
        attempt(*calls, queue.barrier)

    future.add_done_callback(after)
    queue.parallel_for((), lambda chunk: attempt(lambda: future.result(5)))
    time.sleep(0.05)
    pending.set()
    queue.wait()
    assert len(errors) == 3 * len(calls) + 2
    assert all(isinstance(error, NestedUse) for error in errors)
    assert isinstance(errors[0], RuntimeError)


# ---- numbers


def test_statistics_count_submissions_and_tell_submit_time_from_blocked_time(queue: celerity.Queue) -> None:
    for _ in range(10):
        queue.parallel_for(4, lambda chunk: None)
    queue.wait()
    statistics = queue.statistics()
    assert statistics.num_submissions == 11
    assert 0 < statistics.submit_seconds < 1
    assert statistics.blocked_seconds >= 0
    assert statistics.executor["instructions"]["device_kernel"] == 10 * statistics.num_devices


def test_a_slow_device_blocks_the_submitting_program() -> None:
    celerity.configure(run_ahead=2, horizon_step=1, lookahead="none")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(2))
        for _ in range(30):
            queue.parallel_for((), lambda chunk, x: time.sleep(0.01), buffer.read_write(access.all()))
            time.sleep(0.002)  # lets the scheduler plan it
        assert queue.statistics().blocked_seconds > 0.02
    celerity.configure(run_ahead=None, horizon_step=None, lookahead=None)


def test_statistics_are_written_as_json_at_the_end(tmp_path: Path) -> None:
    celerity.configure(stats=tmp_path / "run" / "stats")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(2))
        queue.parallel_for(2, scale, buffer.read_write(access.one_to_one()), 2.0)
    celerity.configure(stats=None)
    written = json.loads((tmp_path / "run" / "stats.json").read_text())
    assert written["rank"] == 0
    assert written["num_submissions"] == 2
    assert written["executor"]["instructions"]["device_kernel"] == 1


def test_a_dry_run_plans_for_many_ranks_and_executes_nothing() -> None:
    celerity.configure(dry_run_ranks=8, devices="cpu:2")
    with celerity.Queue() as queue:
        assert celerity.size() == 8
        buffer = celerity.Buffer((64, 4))
        executed: list[Any] = []
        for _ in range(20):
            queue.parallel_for((64, 4), lambda chunk, x: executed.append(chunk), buffer.write(access.one_to_one()))
            queue.parallel_for((64, 4), lambda chunk, x: None, buffer.read(access.neighborhood(1, 0)))
        with pytest.warns(celerity.CelerityWarning, match="dry run"):
            assert not queue.fence(buffer).result(10).any()
        queue.wait()
        statistics = queue.statistics()
        assert not executed
        assert statistics.scheduler["tasks"] > 40
        assert statistics.scheduler["instructions"] > 100
    celerity.configure(dry_run_ranks=None, devices=None)


def test_a_wait_in_a_dry_run_returns_when_the_statistics_count_everything_before_it() -> None:
    celerity.configure(dry_run_ranks=2, devices="cpu:1", horizon_step=100)
    with celerity.Queue() as queue:
        buffer = celerity.Buffer((64,))
        tasks = []
        for _ in range(50):
            for _ in range(8):
                queue.parallel_for((64,), lambda chunk, x: None, buffer.write(access.one_to_one()))
            queue.wait()
            tasks.append(queue.statistics().scheduler["tasks"])
    assert {later - earlier for earlier, later in itertools.pairwise(tasks)} == {9}
    celerity.configure(dry_run_ranks=None, devices=None, horizon_step=None)
