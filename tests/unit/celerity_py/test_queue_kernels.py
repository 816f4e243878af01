# SPDX-License-Identifier: MIT
"""Kernels, reductions and host tasks: what runs, and with what; on the CPU backend of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access
from celerity_py.vocabulary.static_types import ReductionName
from tests.support.kernels import iota, scale
from tests.support.scripts import line_of, run


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


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((8, 3), celerity.hints.cyclic(3)),
        ((8, 3), celerity.hints.split_auto()),
        ((2, 3, 5), celerity.hints.split_3d()),
        ((1, 30), ()),
    ],
    ids=repr,
)
def test_a_stencil_gives_the_same_under_each_hint(queue: celerity.Queue, shape: tuple[int, ...], hint: Any) -> None:
    initial = np.random.default_rng(1).random(shape)
    u, v = celerity.Buffer.from_array(initial), celerity.Buffer(shape, np.float64)
    seen: list[Box] = []

    def sums(chunk: celerity.Chunk, out: celerity.View, values: celerity.View) -> None:
        seen.append(chunk.box)
        out[chunk.box] = values[chunk.box]
        inner = chunk.box & values.shape_box.shrink(*(0 for _ in shape[1:]), 1)
        out[inner] += values[inner.shift(*(0 for _ in shape[1:]), 1)]

    for _ in range(2):
        queue.parallel_for(
            shape, sums, v.write(access.one_to_one()), u.read(access.neighborhood(*(1 for _ in shape))), hints=hint
        )
        u, v = v, u
    expected = initial.copy()
    for _ in range(2):
        expected[..., 1:-1] += expected[..., 2:].copy()
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)
    num_devices = queue.statistics().num_devices
    assert len(seen) == 2 * (3 if hint == celerity.hints.cyclic(3) and num_devices > 1 else num_devices)


def test_too_many_weights_are_refused_at_the_submit(queue: celerity.Queue) -> None:
    with pytest.raises(celerity.errors.UsageError, match="has 7 weights, but this run has 1 rank with"):
        queue.parallel_for(8, lambda chunk: None, hints=celerity.hints.weights([1] * 7))


def test_a_kernel_returns_no_array(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        u = celerity.Buffer.from_array(np.ones(8), name="u")
        total = celerity.Buffer((), name="total")
        with celerity.Queue() as queue:
            queue.host_task(lambda part, u: u[...], u.read(access.all()))  # may return what it likes
            queue.parallel_for(8, lambda chunk, u: True, u.read(access.one_to_one()))  # the event of a wait(), perhaps
            doubled = u.read_write(access.one_to_one())
            queue.parallel_for(8, lambda chunk, u: np.multiply(u.array, 2, out=u.array), doubled)  # memory of the view
            queue.wait()
            reads = u.read(access.one_to_one()), celerity.reduction(total, "sum")
            queue.parallel_for(8, lambda chunk, u, total: u[chunk.box].sum(), *reads)
            print(queue.fence(total).result())
        """,
    )
    assert result.stdout == ""
    assert "failed: UsageError: kernel" in result.stderr
    line = line_of(tmp_path, "*reads")
    assert (
        f"(submitted at {line}) returns an array or number, which nobody gets. A kernel gives its results by"
        in result.stderr
    )


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


def test_borders_are_chunks_of_their_own(queue: celerity.Queue) -> None:
    seen: list[Box] = []
    queue.parallel_for(64, lambda chunk: seen.append(chunk.box), hints=celerity.hints.border_first(2))
    queue.wait()
    devices = queue.statistics().num_devices
    assert sum(box.size for box in seen) == 64
    assert sum(box.size == 2 for box in seen) == 2 * (devices - 1)


def test_plain_arguments_but_arrays_are_passed_on_as_they_are(queue: celerity.Queue) -> None:
    given: list[Any] = [3, np.float32(0.5), [np.ones(2)], {"a": 1}, None, "text", object()]
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
def test_a_reduction_combines_all_chunks(queue: celerity.Queue, op: ReductionName, dtype: Any, expected: int) -> None:
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
