# SPDX-License-Identifier: MIT
"""The whole interface on GPUs, from one to all of them, against NumPy."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import Box, access, hints
from celerity_py.vocabulary.static_types import ReductionName

Array = npt.NDArray[Any]
Launch = Callable[..., celerity.Queue]

SHAPES = [(1,), (1000,), (37, 53), (1, 64), (9, 11, 13), (64, 1, 5)]


def random_array(*shape: int, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(11).integers(0, 100, shape).astype(dtype)


@celerity.kernel
def increment(chunk: Any, values: Any) -> None:
    values[chunk.box] += 1


@celerity.kernel
def copy_box(chunk: Any, out: Any, values: Any) -> None:
    out[chunk.box] = values[chunk.box]


@celerity.kernel
def transpose(chunk: Any, out: Any, values: Any) -> None:
    rows, columns = chunk.box.slices
    out[chunk.box] = values[columns, rows].T


def copied(queue: celerity.Queue, values: celerity.Buffer, box: Box | None = None) -> celerity.Buffer:
    """A buffer of which the box, or everything, has been written on the devices."""
    result = celerity.Buffer(values.shape, values.dtype)
    one_to_one = access.one_to_one()
    queue.parallel_for(
        values.shape if box is None else box, copy_box, result.write(one_to_one), values.read(one_to_one)
    )
    return result


# ---- contents and copies


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["array", "borrowed", "function"])
def test_initial_contents_reach_the_devices(queue: celerity.Queue, shape: tuple[int, ...], how: str) -> None:
    initial = random_array(*shape)
    if how == "function":
        values = celerity.Buffer.from_function(shape, np.float64, lambda box: initial[box.slices])
    else:
        values = celerity.Buffer.from_array(initial, copy=how == "array")
    queue.parallel_for(shape, increment, values.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(values).result(), initial + 1)


def test_a_borrowed_array_may_change_after_a_wait(queue: celerity.Queue) -> None:
    initial = random_array(100)
    expected = initial.copy()
    values = celerity.Buffer.from_array(initial, copy=False)
    queue.wait()
    initial[:] = -1
    np.testing.assert_array_equal(queue.fence(copied(queue, values)).result(), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.complex128, bool])
def test_element_types_of_all_sizes_are_copied(queue: celerity.Queue, dtype: Any) -> None:
    initial = random_array(17, 19, dtype=dtype)
    result = copied(queue, celerity.Buffer.from_array(initial))
    np.testing.assert_array_equal(queue.fence(result).result(), initial)


@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_at_any_offset_are_fenced(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    initial = random_array(*shape)
    values = copied(queue, celerity.Buffer.from_array(initial))
    boxes = []
    for low, high in product((0, 1, 3), (1, 2, 0)):
        box = Box([min(low, n - 1) for n in shape], [max(min(low, n - 1) + 1, n - high) for n in shape])
        boxes.append((box, queue.fence(values, box)))
    for box, future in boxes:
        np.testing.assert_array_equal(future.result(), initial[box.slices])


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((100,), (13,), (87,)), ((40, 30), (7, 3), (33, 29)), ((12, 11, 10), (1, 2, 3), (9, 11, 8))],
)
def test_kernels_on_a_part_of_a_buffer_leave_the_rest(
    queue: celerity.Queue, shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]
) -> None:
    initial, box = random_array(*shape), Box(low, high)
    values = celerity.Buffer.from_array(initial)
    expected = initial.copy()
    for _ in range(3):
        queue.parallel_for(box, increment, values.read_write(access.one_to_one()))
        queue.parallel_for(shape, increment, values.read_write(access.one_to_one()))
        expected[box.slices] += 1
        expected += 1
    np.testing.assert_array_equal(queue.fence(values).result(), expected)


def test_planes_of_a_cube_are_copied_in_every_direction(queue: celerity.Queue) -> None:
    initial = random_array(8, 9, 10)
    values = copied(queue, celerity.Buffer.from_array(initial))

    @celerity.kernel
    def add_planes(chunk: Any, out: Any, cube: Any, dim: int) -> None:
        out[chunk.box] = cube[...].sum(axis=dim)

    for dim in range(3):
        shape = initial.shape[:dim] + initial.shape[dim + 1 :]
        out = celerity.Buffer(shape, np.float64)
        queue.parallel_for(shape, add_planes, out.write(access.one_to_one()), values.read(access.slice(dim)), dim)
        np.testing.assert_array_equal(queue.fence(out).result(), initial.sum(axis=dim))


def test_a_transposition_moves_strided_blocks_between_devices(queue: celerity.Queue) -> None:
    initial = random_array(70, 50)
    values = celerity.Buffer.from_array(initial)
    turned = celerity.Buffer((50, 70), np.float64)
    for source, target in ((values, turned), (turned, values), (values, turned)):
        queue.parallel_for(
            target.shape, transpose, target.write(access.one_to_one()), source.read(access.permute(1, 0))
        )
    np.testing.assert_array_equal(queue.fence(turned).result(), initial.T)


@celerity.kernel
def shift_cube(chunk: Any, out: Any, values: Any, offset: tuple[int, ...]) -> None:
    shifted = chunk.box.shift(*offset) & values.shape_box
    back = shifted.shift(*(-step for step in offset))
    out[chunk.box] = chunk.xp.zeros(chunk.box.shape, out.dtype)
    if shifted:
        out[back] = values[shifted]


@pytest.mark.parametrize("offset", [(1, 0, 0), (0, 2, -1), (-3, 1, 2)])
def test_shifted_boxes_of_a_cube_move_between_devices(queue: celerity.Queue, offset: tuple[int, ...]) -> None:
    shape = (16, 12, 10)
    initial = random_array(*shape)
    expected = initial
    values, out = celerity.Buffer.from_array(initial), celerity.Buffer(shape, np.float64)

    def shifted(chunk: Any) -> Box:
        box: Box = chunk.box.shift(*offset)
        return box & Box((0, 0, 0), shape)

    for _ in range(3):
        queue.parallel_for(
            shape, shift_cube, out.write(access.one_to_one()), values.read(shifted), offset, hints=hints.split_2d()
        )
        values, out = out, values
        before, expected = expected, np.zeros_like(expected)
        for place in product(*map(range, shape)):
            source = tuple(p + o for p, o in zip(place, offset, strict=True))
            if all(0 <= s < n for s, n in zip(source, shape, strict=True)):
                expected[place] = before[source]
    np.testing.assert_array_equal(queue.fence(values).result(), expected)


@pytest.mark.slow_when_sanitized
def test_rows_too_long_for_a_pitched_copy_are_copied_all_the_same(queue: celerity.Queue) -> None:
    # 2-D copies take rows of less than 2 GiB.
    shape = (3, (1 << 31) + 4096)
    values = celerity.Buffer(shape, np.uint8, name="wide")
    box = Box((0, 1000), (3, 3000))

    @celerity.kernel
    def number(chunk: Any, out: Any) -> None:
        for row in range(chunk.box.min[0], chunk.box.max[0]):
            out[row, :] = row + 1
        out[chunk.box][:, 1000:3000] += 10

    queue.parallel_for(shape, number, values.write(access.one_to_one()))
    found = queue.fence(values, box).result()
    np.testing.assert_array_equal(found, np.repeat(np.array([[11], [12], [13]], np.uint8), 2000, axis=1))


# ---- splits


@pytest.mark.parametrize(
    "hint", [hints.split_1d(), hints.split_2d(), hints.oversubscribe(3), hints.border_first(2)], ids=repr
)
def test_a_stencil_exchanges_its_halos_between_devices(queue: celerity.Queue, hint: Any) -> None:
    initial = random_array(61, 47)
    u, u_next = celerity.Buffer.from_array(initial), celerity.Buffer.from_array(initial)

    @celerity.kernel
    def step(chunk: Any, out: Any, old: Any) -> None:
        box = chunk.box & old.shape_box.shrink(1, 1)
        if box:
            out[box] = old[box.shift(-1, 0)] + old[box.shift(1, 0)] - old[box.shift(0, -1)] + old[box.shift(0, 1)]

    a, b = initial.copy(), initial.copy()
    for _ in range(12):
        halo = access.neighborhood(1, 1, shape="axes")
        queue.parallel_for(u.shape, step, u_next.read_write(access.one_to_one()), u.read(halo), hints=hint)
        u, u_next = u_next, u
        b[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] - a[1:-1, :-2] + a[1:-1, 2:]
        a, b = b, a
    np.testing.assert_array_equal(queue.fence(u).result(), a)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 2)])
def test_buffers_smaller_than_the_machine_work(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    values = celerity.Buffer.from_array(np.zeros(shape))
    for _ in range(3):
        queue.parallel_for(shape, increment, values.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(values).result(), np.full(shape, 3.0))


def test_each_kernel_runs_on_the_stream_and_device_of_its_chunk(queue: celerity.Queue, num_gpus: int) -> None:
    import cupy

    seen: list[tuple[int, int, bool]] = []

    def look(chunk: Any, out: Any) -> None:
        current = cupy.cuda.get_current_stream().ptr == chunk.stream.ptr != 0
        seen.append((chunk.device, out[chunk.box].device.id, current))
        out[chunk.box] = chunk.device

    out = celerity.Buffer((4 * num_gpus,), np.int32)
    queue.parallel_for(out.shape, look, out.write(access.one_to_one()))
    found = queue.fence(out).result()
    np.testing.assert_array_equal(found, np.repeat(np.arange(num_gpus), 4))
    assert sorted(device for device, _, _ in seen) == list(range(num_gpus))
    assert len({ordinal for _, ordinal, _ in seen}) == num_gpus
    assert all(current for _, _, current in seen)


# ---- host tasks, reductions, several queues


def test_host_tasks_see_what_kernels_wrote_and_the_other_way_round(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros((30, 7)))
    sums: list[float] = []

    def double(part: Any, view: Any) -> None:
        view[part.box] *= 2

    for _ in range(4):
        queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
        queue.host_task(double, values.read_write(access.one_to_one()), on=values.shape)
        queue.host_task(lambda part, view: sums.append(float(view[...].sum())), values.read(access.all()))
    np.testing.assert_array_equal(queue.fence(values).result(), np.full((30, 7), 30.0))
    queue.wait()  # the fence may be over before the last host task is
    assert sums == [2.0 * 210, 6.0 * 210, 14.0 * 210, 30.0 * 210]


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int8])
def test_integers_are_reduced_exactly(queue: celerity.Queue, op: ReductionName, dtype: Any) -> None:
    initial = (random_array(1000) % 3 + 1).astype(dtype)
    values, total = celerity.Buffer.from_array(initial), celerity.Buffer((), dtype)
    names = {"sum": "sum", "prod": "prod", "min": "min", "max": "max", "and": "all", "or": "any"}

    @celerity.kernel
    def fold(chunk: Any, out: Any, items: Any) -> None:
        part = items[chunk.box]
        if op == "xor":
            host = chunk.xp.asnumpy(part) if hasattr(chunk.xp, "asnumpy") else part
            out.combine(dtype(np.bitwise_xor.reduce(host)))
        elif op in {"sum", "prod"}:
            out.combine(getattr(part, names[op])(dtype=dtype))
        else:
            out.combine(getattr(part, names[op])())

    queue.parallel_for(values.shape, fold, celerity.reduction(total, op), values.read(access.one_to_one()))
    ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "xor": np.bitwise_xor}
    expected: Any = {"and": initial.all(), "or": initial.any()}[op] if op in {"and", "or"} else None
    if expected is None:
        expected = ufunc[op].reduce(initial, dtype=dtype)
    assert queue.fence(total).result() == dtype(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_a_reduction_includes_the_old_value_once_and_feeds_kernels(queue: celerity.Queue, dtype: Any) -> None:
    initial = random_array(777, dtype=dtype)
    values, total = celerity.Buffer.from_array(initial), celerity.Buffer.from_array(np.array(5, dtype))

    @celerity.kernel
    def add_up(chunk: Any, out: Any, items: Any) -> None:
        out.combine(items[chunk.box].sum())

    @celerity.kernel
    def add(chunk: Any, items: Any, amount: Any) -> None:
        items[chunk.box] += amount[...]

    queue.parallel_for(
        values.shape,
        add_up,
        celerity.reduction(total, "sum", include_current=True),
        values.read(access.one_to_one()),
    )
    queue.parallel_for(values.shape, add, values.read_write(access.one_to_one()), total.read())
    amount = dtype(initial.sum() + 5)
    assert queue.fence(total).result() == amount
    np.testing.assert_array_equal(queue.fence(values).result(), initial + amount)


def test_many_queues_feed_one_program_order(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(100))
    queues = [celerity.Queue() for _ in range(5)]
    for step in range(40):
        queues[step % 5].parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
    for other in queues:
        other.close()
    np.testing.assert_array_equal(queue.fence(values).result(), np.full(100, 40.0))


def test_one_runtime_after_another_in_the_same_process(launch: Launch, num_gpus: int) -> None:
    for value in range(4):
        with launch(num_gpus) as queue:
            values = celerity.Buffer.from_array(np.full(17, float(value)))
            queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
            np.testing.assert_array_equal(queue.fence(values).result(), np.full(17, value + 1.0))


# ---- memory


@pytest.mark.slow_when_sanitized
def test_memory_of_buffers_that_died_is_used_again(queue: celerity.Queue) -> None:
    import cupy

    size = 256 << 20
    free_before, total = cupy.cuda.runtime.memGetInfo()
    rounds = 3 * total // size
    out = celerity.Buffer.from_array(np.zeros(8))

    @celerity.kernel
    def fill(chunk: Any, values: Any, value: int) -> None:
        values[chunk.box] = value

    @celerity.kernel
    def add_first(chunk: Any, sums: Any, values: Any) -> None:
        sums[chunk.box] += values[chunk.box.min[0]]

    for number in range(rounds):
        values = celerity.Buffer((size,), np.uint8)
        queue.parallel_for(size, fill, values.write(access.one_to_one()), number % 7)
        queue.parallel_for(8, add_first, out.read_write(access.one_to_one()), values.read(lambda chunk: chunk.box))
        del values
        if number % 16 == 15:
            queue.wait()
    expected = float(sum(number % 7 for number in range(rounds)))
    np.testing.assert_array_equal(queue.fence(out).result(), np.full(8, expected))
    gc.collect()
    queue.wait()
    memories = queue.statistics().executor["memories"]
    assert all(memory["current_bytes"] < size for memory in memories[2:]), memories
    assert cupy.cuda.runtime.memGetInfo()[0] > free_before // 4


@pytest.mark.parametrize("lookahead", ["none", "auto"])
def test_a_buffer_that_grows_row_by_row_keeps_its_contents(launch: Launch, num_gpus: int, lookahead: str) -> None:
    queue = launch(num_gpus, lookahead=lookahead)
    rows, columns = 40, 1000
    history = celerity.Buffer((rows, columns), np.int64, name="history")

    @celerity.kernel
    def add_row(chunk: Any, new: Any, old: Any, row: int) -> None:
        past = old[...]
        new[...] = past.sum(axis=0, keepdims=True) + row if row else chunk.xp.ones((1, chunk.box.shape[0]), np.int64)

    for row in range(rows):
        queue.parallel_for(
            columns,
            add_row,
            history.write(lambda chunk, row=row: Box((row, chunk.box.min[0]), (row + 1, chunk.box.max[0]))),
            history.read(lambda chunk, row=row: Box((0, chunk.box.min[0]), (row, chunk.box.max[0]))),
            row,
        )
    expected = np.zeros((rows, columns), np.int64)
    for row in range(rows):
        expected[row] = expected[:row].sum(axis=0) + row if row else 1
    np.testing.assert_array_equal(queue.fence(history).result(), expected)
    resizes = queue.statistics().executor["copies"]["resize"]
    assert (resizes == 0) if lookahead == "auto" else (resizes > 0)


def test_waits_barriers_and_fences_in_between_do_not_disturb(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(50))
    futures = []
    for step in range(24):
        queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
        if step % 3 == 0:
            queue.barrier()
        if step % 4 == 0:
            queue.wait()
        if step % 2 == 0:
            futures.append((step, queue.fence(values, Box((step,), (step + 2,)))))
    for step, future in futures:
        np.testing.assert_array_equal(future.result(), np.full(2, step + 1.0))


@pytest.mark.parametrize("settings", [{"sync": True}, {"check": True}, {"horizon_step": 1}, {"run_ahead": 2}], ids=str)
def test_a_program_gives_the_same_under_other_settings(launch: Launch, num_gpus: int, settings: Any) -> None:
    queue = launch(num_gpus, **settings)
    initial = random_array(60, 40)
    values = celerity.Buffer.from_array(initial)
    for _ in range(30):
        turned = celerity.Buffer(values.shape[::-1], np.float64)
        queue.parallel_for(
            turned.shape, transpose, turned.write(access.one_to_one()), values.read(access.permute(1, 0))
        )
        queue.parallel_for(turned.shape, increment, turned.read_write(access.one_to_one()))
        values = turned
    np.testing.assert_array_equal(queue.fence(values).result(), initial + 30)
