# SPDX-License-Identifier: MIT
"""`access.gather`: the rows of a chunk, the arguments that are refused, and products with sparse matrices."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access
from celerity_py.errors import ArgumentTypeError, DimensionMismatch, OutOfBoundsAccess, UsageError
from celerity_py.vocabulary.gathered_rows import MOST_BOXES, GatheredRows

Array = npt.NDArray[Any]


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(devices="cpu:3")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None)


def rows_of(mapper: access.PureMapper, begin: int, end: int, *shape: int) -> Region:
    chunk: Any = SimpleNamespace(box=Box((begin,), (end,)))
    return mapper.function(chunk, shape)  # type: ignore[no-any-return]


def intervals(region: Region) -> list[tuple[int, int]]:
    return [(box.min[0], box.max[0]) for box in region.boxes]


def random_lists(rng: np.random.Generator, items: int, rows: int) -> tuple[Array, Array, list[Array]]:
    """Lists of different lengths around a few places: indices, offsets, and the lists."""
    places = rng.integers(0, rows, 4)
    lists = [(rng.choice(places, 1) + rng.integers(0, 9, rng.integers(0, 5))) % rows for _ in range(items)]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    return np.concatenate([np.zeros(0, np.int64), *lists]), offsets, lists


def test_rows_that_lie_far_apart_take_no_memory_between_them(queue: celerity.Queue) -> None:
    tracemalloc.start()
    try:
        found = rows_of(access.gather([[0, 2**50, 7], [2**50 + 1, 0, 0]], gap=0), 0, 2, 2**51)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert intervals(found) == [(0, 1), (7, 8), (2**50, 2**50 + 2)]
    assert intervals(rows_of(access.gather(np.array([[3, 255]], np.uint8), gap=0), 0, 1, 256)) == [(3, 4), (255, 256)]
    u, out = celerity.Buffer(2**51, np.int64), celerity.Buffer(2, np.int64)
    queue.fill(u, 5, slice(0, 1))
    queue.fill(u, 7, slice(2**50, 2**50 + 1))

    def look(chunk: Any, out: Any, u: Any) -> None:
        for i in range(chunk.box.min[0], chunk.box.max[0]):
            out[i] = u[i * 2**50]

    queue.parallel_for(2, look, out.write(access.one_to_one()), u.read(access.gather([0, 2**50], gap=0)))
    assert queue.fence(out).result(20).tolist() == [5, 7]


def test_lists_that_are_made_anew_for_each_step_go_with_their_mapper(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(100), name="u")
    out = celerity.Buffer(100, np.int64)
    alive = []

    @celerity.kernel
    def look(chunk: Any, out: Any, u: Any) -> None:
        out[chunk.box] = 1

    for step in range(40):
        mapper = access.gather(np.full((100, 1), step))
        alive.append(weakref.ref(mapper.rows))
        for _ in range(2):
            queue.parallel_for(100, look, out.write(access.one_to_one()), u.read(mapper))
    queue.wait()
    assert mapper.rows is not None
    assert sum(each() is not None for each in alive) == 1
    assert len(queue._runtime.pure_tables) == 1


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_the_rows_of_a_chunk_are_those_in_its_lists_and_in_small_gaps(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    indices, offsets, lists = random_lists(rng, 30, 250)
    gap = int(rng.integers(0, 12))
    mapper = access.gather(indices.astype(dtype), offsets, gap=gap)
    for _ in range(20):
        begin, end = sorted(rng.integers(0, 31, 2))
        listed = sorted({int(row) for each in lists[begin:end] for row in each})
        expected = {row for a, b in pairwise(listed) if b - a <= gap + 1 for row in range(a, b)}
        found = rows_of(mapper, begin, end, 250, 3)
        assert found == Region([Box((row, 0), (row + 1, 3)) for row in expected.union(listed)] or [Box((0, 0), (0, 0))])
        part = rows_of(mapper, begin, (begin + end) // 2, 250, 3)
        assert part == part & found


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 3)])
def test_without_offsets_each_item_has_as_many_rows(shape: tuple[int, ...]) -> None:
    indices = np.random.default_rng(5).integers(0, 1000, shape)
    found = rows_of(access.gather(indices.tolist(), gap=0), 7, 19, 1000)
    assert found == Region([Box((row,), (row + 1,)) for row in indices[7:19].ravel().tolist()])


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1000, 100_003])
def test_a_chunk_has_a_bounded_number_of_boxes(rows: int) -> None:
    step = rows // MOST_BOXES
    for distance in (2, max(step, 1), step + 1, step + 2, step + 3):
        indices = np.arange(0, rows, distance)
        found = rows_of(access.gather(indices), 0, len(indices), rows)
        assert len(found.boxes) <= MOST_BOXES
    if rows > 1000:
        assert len(rows_of(access.gather(np.arange(0, rows, step + 3)), 0, 60, rows).boxes) == 60


def test_lists_may_end_at_the_ends_of_their_type() -> None:
    assert intervals(rows_of(access.gather(np.array([0, 255], np.uint8)), 0, 2, 256)) == [(0, 1), (255, 256)]
    assert intervals(rows_of(access.gather(np.array([127, 126], np.int8)), 0, 2, 256)) == [(126, 128)]
    assert intervals(rows_of(access.gather(np.array([2**40], np.uint64)), 0, 1, 2**41)) == [(2**40, 2**40 + 1)]


def test_empty_lists_access_nothing() -> None:
    assert not rows_of(access.gather([], [0, 0, 0]), 0, 2, 10, 4)
    assert not rows_of(access.gather([3], [0, 0, 1]), 0, 1, 10)


def test_indices_keep_the_values_that_they_had_at_the_call() -> None:
    indices, offsets = np.array([1, 5]), np.array([0, 1, 2])
    mapper = access.gather(indices, offsets, gap=0)
    indices[:], offsets[:] = 7, 0
    assert intervals(rows_of(mapper, 0, 2, 10)) == [(1, 2), (5, 6)]


@pytest.mark.parametrize(
    ("arguments", "gap", "error", "message"),
    [
        (([0.5],), None, ArgumentTypeError, "takes integers as indices, not an array of float64"),
        (([True],), None, ArgumentTypeError, "not an array of bool"),
        ((np.zeros((2, 2, 2), int),), None, UsageError, r"shape \(items,\) or \(items, k\), not \(2, 2, 2\)"),
        ((3,), None, UsageError, r"\(items, k\), not \(\)"),
        (([[4, 2], [3, -1]],), None, UsageError, r"got the index -1 at \[1, 1\].* repeat an index of that list"),
        (([0, 1], [[0, 2]]), None, UsageError, r"The shapes are \(2,\) and \(1, 2\)"),
        (([[0, 1]], [0, 2]), None, UsageError, r"two arrays of one dimension.* The shapes are \(1, 2\) and \(2,\)"),
        (([], []), None, UsageError, r"one offset more than there are items"),
        (([0, 1], [0, 1]), None, UsageError, "offsets from 0 to 1, but they go from 0 to the number of indices, 2"),
        (([0, 1], [1, 2]), None, UsageError, "offsets from 1 to 2"),
        (([0, 1], [0, 2, 1, 2]), None, UsageError, "fall from 2 to 1. The indices of item 1 are"),
        (([0, 1], [0.0, 2.0]), None, ArgumentTypeError, "takes integers as offsets"),
        (([0],), -1, UsageError, "an integer of at least 0 rows, not gap=-1"),
        (([0],), 0.5, UsageError, "not gap=0.5"),
    ],
)
def test_other_arguments_are_refused(arguments: Any, gap: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        access.gather(*arguments, gap=gap)


def test_index_spaces_and_buffers_that_do_not_fit_are_refused(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(10.0), name="u")
    single = celerity.Buffer.from_array(np.array(1.0), name="single")
    too_long = access.gather([1, 2, 3])
    with pytest.raises(OutOfBoundsAccess, match=r'"u".* by gather\(.* \[0:4\] has items .* for items 0 to 2'):
        queue.parallel_for(4, lambda chunk, u: None, u.read(too_long))
    with pytest.raises(OutOfBoundsAccess, match=r"reach row 10, but the buffer of shape \(10,\) has rows 0 to 9"):
        queue.parallel_for(2, lambda chunk, u: None, u.read(access.gather([3, 10])))
    with pytest.raises(DimensionMismatch, match=r"the buffer has the shape \(\)"):
        queue.parallel_for(3, lambda chunk, u: None, single.read(too_long))
    with pytest.raises(DimensionMismatch, match="at least one dimension are needed"):
        queue.parallel_for((), lambda chunk, u: None, u.read(too_long))


def test_only_exact_rows_are_written(queue: celerity.Queue) -> None:
    values = np.arange(12.0)
    order = np.random.default_rng(2).permutation(12)[:9]
    u = celerity.Buffer.from_array(values, name="u")
    with pytest.raises(UsageError, match=r'write access to B\d+ "u" has the mapper access.gather.* pass gap=0'):
        u.write(access.gather(order))
    with pytest.raises(UsageError, match="read_write access"):
        u.read_write(access.gather(order, gap=1))

    def negate(chunk: celerity.Chunk, u: celerity.View) -> None:
        for row in order[chunk.box.slices]:
            u[int(row)] = -u[int(row)]

    queue.parallel_for(9, negate, u.read_write(access.gather(order, gap=0)))
    values[order] *= -1
    np.testing.assert_array_equal(queue.fence(u).result(), values)


def test_rows_are_found_once_for_all_submits(queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    find = GatheredRows.map

    def count(self: GatheredRows, chunk: Any, buffer_shape: tuple[int, ...]) -> Region:
        calls.append(chunk)
        return find(self, chunk, buffer_shape)

    monkeypatch.setattr(GatheredRows, "map", count)
    u = celerity.Buffer.from_array(np.arange(6.0), name="u")
    out = celerity.Buffer(6, np.float64, name="out")
    mapper = access.gather([5, 4, 3, 2, 1, 0])

    def reverse(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        out[chunk.box] = u[...][::-1]

    for _ in range(4):
        queue.parallel_for(6, reverse, out.write(access.one_to_one()), u.read(mapper))
        u, out = out, u
    np.testing.assert_array_equal(queue.fence(u).result(), np.arange(6.0))
    assert len(calls) == 4  # the whole, and the chunks of three devices


def test_a_matrix_in_csr_multiplies_the_rows_of_a_buffer(queue: celerity.Queue) -> None:
    rng = np.random.default_rng(9)
    indices, offsets, lists = random_lists(rng, 50, 90)
    values = rng.integers(0, 9, (90, 4)).astype(float)
    x = celerity.Buffer.from_array(values, name="x")
    y = celerity.Buffer((50, 4), np.float64, name="y")

    def add_up(chunk: celerity.Chunk, y: celerity.View, x: celerity.View) -> None:
        for item in range(chunk.box.min[0], chunk.box.max[0]):
            y[item, :] = x.array[lists[item] - x.box.min[0]].sum(axis=0) if len(lists[item]) else 0

    queue.parallel_for(50, add_up, y.write(access.slice(1)), x.read(access.gather(indices, offsets)))
    expected = np.array([values[each].sum(axis=0) for each in lists])
    np.testing.assert_array_equal(queue.fence(y).result(), expected)
