# SPDX-License-Identifier: MIT
"""Programs that reduce by callables, extrema with places, and over all element types. Any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.reductions.operations import OPERATIONS

SIZE = 1003
ONE = access.one_to_one()

ELEMENT_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def is_defined(op: str, kind: str) -> bool:
    """Whether elements of a kind of dtypes have an operation."""
    if kind == "c":
        return op in {"sum", "prod", "and", "or"}
    return op != "xor" or kind != "f"


def result_of(queue: celerity.Queue, buffer: celerity.Buffer[Any]) -> np.ndarray[Any, Any]:
    """The contents of a buffer, which must have the same bits on all ranks."""
    found = queue.fence(buffer).result()
    if celerity.size() > 1:
        from mpi4py import MPI

        assert len(set(MPI.COMM_WORLD.allgather(found.tobytes()))) == 1
    return found


def keep_last(first: Any, second: Any) -> Any:
    """Associative, not commutative: the last element other than 0."""
    return np.where(second != 0, second, first)


def multiply(first: Any, second: Any) -> Any:
    """The product of two matrices."""
    return first @ second


def the_last_value_wins(queue: celerity.Queue) -> None:
    """A callable that does not commute shows the order of combination."""
    out = celerity.Buffer(3, np.int64, name="out")

    def contribute(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        first, last = chunk.box.min[0], chunk.box.max[0] - 1
        out.combine(chunk.xp.asarray([first + 1, 0, 0]))
        out.combine(chunk.xp.asarray([last + 1, last + 1, 0]))

    queue.parallel_for(SIZE, contribute, celerity.reduction(out, keep_last, identity=0))
    assert result_of(queue, out).tolist() == [SIZE, SIZE, 0]
    queue.parallel_for(SIZE, contribute, celerity.reduction(out, keep_last, True, identity=0))
    assert result_of(queue, out).tolist() == [SIZE, SIZE, 0]


def current_value_comes_first(queue: celerity.Queue) -> None:
    """The old value is the first operand, exactly once."""
    word = np.array([[1, 1], [0, 1]])
    total = celerity.Buffer.from_array(np.array([[1, 0], [5, 1]]), name="total")

    def contribute(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        partial = np.linalg.matrix_power(word, chunk.box.size)
        out.combine(chunk.xp.asarray(partial))

    target = celerity.reduction(total, multiply, include_current=True, identity=np.eye(2, dtype=int))
    queue.parallel_for(SIZE, contribute, target)
    expected = np.array([[1, 0], [5, 1]]) @ np.linalg.matrix_power(word, SIZE)
    assert np.array_equal(result_of(queue, total), expected)


def chained(queue: celerity.Queue) -> None:
    """Results are read, overwritten before use, and dropped; the callable is made anew for each reduction."""
    total = celerity.Buffer.from_array(np.array(1.0), name="total")
    expected = 1.0

    def contribute(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        out.combine(float(chunk.box.size))

    for step in range(12):
        includes_current = step % 3 > 0
        target = celerity.reduction(total, lambda a, b: a + b, includes_current, identity=0)
        queue.parallel_for(SIZE, contribute, target)
        expected = SIZE + (expected if includes_current else 0)
        if step % 4 == 3:
            queue.parallel_for((), reset, total.write())
            expected = 1.0
    assert result_of(queue, total) == expected
    assert len(total.record.combinations) == 1


def reset(chunk: celerity.Chunk, out: celerity.View) -> None:
    """Overwrite a result that nobody has read."""
    out[...] = 1.0


def values_at_indices(queue: celerity.Queue) -> None:
    """Indices that repeat combine in their order."""
    keys = np.random.default_rng(3).integers(0, 5, SIZE)
    values = celerity.Buffer.from_array(keys, name="keys")
    last, grid = celerity.Buffer(6, np.int64, name="last"), celerity.Buffer((2, 3), np.int64, name="grid")

    def contribute(chunk: celerity.Chunk, keys: celerity.View, last: celerity.Reducer, grid: celerity.Reducer) -> None:
        items = chunk.xp.arange(chunk.box.min[0], chunk.box.max[0])
        found = keys[chunk.box]
        last.combine_at(found, items + 1)
        grid.combine_at((found % 2, found % 3), 1)

    queue.parallel_for(
        SIZE,
        contribute,
        values.read(ONE),
        celerity.reduction(last, keep_last, identity=0),
        celerity.reduction(grid, np.add, identity=0),
    )
    expected = [int(np.flatnonzero(keys == key).max(initial=-1)) + 1 for key in range(6)]
    assert result_of(queue, last).tolist() == expected
    counts = np.zeros((2, 3), np.int64)
    np.add.at(counts, (keys % 2, keys % 3), 1)
    assert np.array_equal(result_of(queue, grid), counts)


def places_of_extrema(queue: celerity.Queue) -> None:
    """Of equal values the lowest place wins, whatever the split; NaN wins over numbers, as in NumPy."""
    rng = np.random.default_rng(7)
    for values in (
        rng.integers(0, 4, SIZE).astype(np.int16),
        np.full(SIZE, np.inf, np.float32),
        np.where(rng.random(SIZE) < 0.01, np.nan, rng.normal(size=SIZE)),
        rng.integers(0, 2, SIZE).astype(np.bool_),
    ):
        source = celerity.Buffer.from_array(values, name="values")
        low = celerity.Buffer((), celerity.placed(values.dtype), name="low")
        high = celerity.Buffer((), celerity.placed(values.dtype), name="high")
        queue.parallel_for(
            SIZE, extrema, source.read(ONE), celerity.reduction(low, "argmin"), celerity.reduction(high, "argmax")
        )
        for buffer, place in ((low, values.argmin()), (high, values.argmax())):
            found = result_of(queue, buffer)
            assert found["place"] == place
            assert np.array_equal(found["value"], values[place], equal_nan=values.dtype.kind == "f")


def extrema(chunk: celerity.Chunk, values: celerity.View, low: celerity.Reducer, high: celerity.Reducer) -> None:
    """Combine the extrema of a chunk."""
    low.combine(values[chunk.box], chunk.box)
    high.combine(values[chunk.box], chunk.box)


def places_in_a_grid(queue: celerity.Queue) -> None:
    """Coordinates of two dimensions compare as flat indices do, on tiles as on rows."""
    grid = np.random.default_rng(8).integers(0, 9, (31, 29))
    source = celerity.Buffer.from_array(grid, name="grid")
    for hint in ((), celerity.hints.split_2d()):
        low = celerity.Buffer((), celerity.placed(np.int64, 2), name="low")
        high = celerity.Buffer((), celerity.placed(np.int64, 2), name="high")
        queue.parallel_for(
            grid.shape,
            extrema,
            source.read(ONE),
            celerity.reduction(low, "argmin"),
            celerity.reduction(high, "argmax"),
            hints=hint,
        )
        assert tuple(result_of(queue, low)["place"]) == np.unravel_index(grid.argmin(), grid.shape)
        assert tuple(result_of(queue, high)["place"]) == np.unravel_index(grid.argmax(), grid.shape)


def places_of_each_element(queue: celerity.Queue) -> None:
    """Each bin has its own extremum; old values take part."""
    keys = np.random.default_rng(9).integers(0, 4, SIZE)
    weights = np.random.default_rng(10).integers(0, 50, SIZE).astype(np.float32)
    dtype = celerity.placed(np.float32)
    old = np.array([(-1, 5000), (0, 5000), (7000, 5000), (0, 0), (3, 5000)], dtype)
    best = celerity.Buffer.from_array(old, name="best")
    sources = [celerity.Buffer.from_array(array) for array in (keys, weights)]

    def contribute(chunk: celerity.Chunk, keys: celerity.View, weights: celerity.View, best: celerity.Reducer) -> None:
        items = chunk.xp.arange(chunk.box.min[0], chunk.box.max[0])
        best.combine_at(keys[chunk.box], weights[chunk.box], items)

    target = celerity.reduction(best, "argmin", include_current=True)
    queue.parallel_for(SIZE, contribute, *(source.read(ONE) for source in sources), target)
    found = result_of(queue, best)
    expected = old.copy()
    for key in range(4):
        items = np.flatnonzero(keys == key)
        place = items[weights[items].argmin()]
        value = weights[place]
        if (value, place) < (old[key]["value"], old[key]["place"]):
            expected[key] = (value, place)
    assert found.tolist() == expected.tolist()


def fewer_chunks_than_ranks(queue: celerity.Queue) -> None:
    """Ranks and devices without a chunk contribute nothing; hints for more chunks change nothing."""
    for extent in (1, 2, 3, 5):
        for hint in ((), celerity.hints.oversubscribe(3), celerity.hints.cyclic(2), celerity.hints.split_2d()):
            out = celerity.Buffer.from_array(np.array(3, np.int32), name="out")
            low = celerity.Buffer((), celerity.placed(np.int32), name="low")

            def contribute(chunk: celerity.Chunk, out: celerity.Reducer, low: celerity.Reducer) -> None:
                out.combine(chunk.xp.asarray(chunk.box.size, np.int32))
                low.combine(chunk.xp.zeros(chunk.box.shape, np.int32), chunk.box)

            queue.parallel_for(
                celerity.Box((4,), (4 + extent,)),
                contribute,
                celerity.reduction(out, np.add, include_current=True, identity=0),
                celerity.reduction(low, "argmax"),
                hints=hint,
            )
            assert result_of(queue, out) == 3 + extent
            assert result_of(queue, low).tolist() == (0, 4)


def blocks_in_turns(queue: celerity.Queue) -> None:
    """Native code and NumPy combine in one order, whatever the chunks are; `oversubscribe` makes no more of them."""
    values = celerity.Buffer(SIZE, np.float32, name="values")
    cyclic = celerity.hints.cyclic(7)

    def write(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] = 1 / (1 + chunk.xp.arange(chunk.box.min[0], chunk.box.max[0]) % 97)

    def contribute(
        chunk: celerity.Chunk, values: celerity.View, total: celerity.Reducer, other: celerity.Reducer
    ) -> None:
        total.combine(values[chunk.box].sum())
        other.combine(values[chunk.box].sum())

    queue.parallel_for(SIZE, write, values.write(ONE), hints=cyclic)
    found = []
    for hint in ((), celerity.hints.oversubscribe(4), cyclic, celerity.hints.cyclic(1)):
        total, other = celerity.Buffer((), np.float32, name="total"), celerity.Buffer((), np.float32, name="other")
        targets = celerity.reduction(total, "sum"), celerity.reduction(other, np.add, identity=0)
        queue.parallel_for(SIZE, contribute, values.read(ONE), *targets, hints=hint)
        found.append(result_of(queue, total))
        assert found[-1].tobytes() == result_of(queue, other).tobytes(), hint
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-5)


def structures(queue: celerity.Queue) -> None:
    """A callable may combine elements of any dtype."""
    dtype = np.dtype([("count", np.int32), ("sum", np.float64)])
    moments = celerity.Buffer(2, dtype, name="moments")

    def contribute(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        partial = np.zeros(2, dtype)
        partial["count"], partial["sum"] = chunk.box.size, [1, 0.5]
        partial["sum"] *= chunk.box.size
        out.combine(partial)

    queue.parallel_for(SIZE, contribute, celerity.reduction(moments, add_fields, identity=np.zeros((), dtype)))
    assert result_of(queue, moments).tolist() == [(SIZE, SIZE), (SIZE, SIZE / 2)]


#: An element has 7 bytes that belong to no field.
WITH_PADDING = np.dtype([("count", np.int8), ("sum", np.float64)], align=True)


def with_dirt(count: int, fill: int) -> np.ndarray[Any, Any]:
    """Two elements in memory of their own, whose padding has other bytes than 0."""
    array = np.frombuffer(bytearray([fill] * 2 * WITH_PADDING.itemsize), WITH_PADDING)
    array["count"], array["sum"] = count, count / 2
    return array


def padding_is_equal(queue: celerity.Queue) -> None:
    """Bytes between fields differ in what ranks and chunks had there. In combined results they are 0 everywhere."""
    sizes = set()

    def contribute(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        first = chunk.box.min[0]
        sizes.add(chunk.box.size)
        out.combine(with_dirt(chunk.box.size, 0xB0 + first))
        if chunk.xp is np:
            out.array.view(np.uint8).reshape(2, -1)[:, 1:8] = 0xC0 + first

    for includes_current in (False, True):
        old = with_dirt(1, 0xA0 + celerity.rank())
        moments = celerity.Buffer.from_array(old, name="moments", copy=False)
        queue.host_task(lambda part, old: None, moments.read(access.all()), on=celerity.size(), name="bring")
        target = celerity.reduction(moments, add_fields, includes_current, identity=np.zeros((), WITH_PADDING))
        queue.parallel_for(9, contribute, target)
        found = result_of(queue, moments)
        clean = np.frombuffer(bytearray(found.nbytes), WITH_PADDING)
        clean["count"], clean["sum"] = 9 + includes_current, (9 + includes_current) / 2
        assert found.tolist() == clean.tolist()
        assert found.tobytes() == clean.tobytes() or sizes == {9}  # the partial result of one chunk is the result
        queue.wait()  # until then the array is borrowed


def add_fields(first: Any, second: Any) -> Any:
    """Field by field, into the first operand."""
    for field in first.dtype.names:
        first[field] += second[field]
    return first


def replayed(queue: celerity.Queue) -> None:
    """Callables take part in recordings, whose plan repeats."""
    total = celerity.Buffer.from_array(np.array(0), name="total")
    other = celerity.Buffer.from_array(np.zeros(SIZE, int), name="other")

    def contribute(chunk: celerity.Chunk, given: celerity.View, out: celerity.Reducer) -> None:
        out.combine(given[chunk.box].sum())

    def add_one(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] += 1

    def step() -> None:
        queue.parallel_for(SIZE, add_one, other.read_write(ONE))
        queue.parallel_for(SIZE, contribute, other.read(ONE), celerity.reduction(total, np.add, True, identity=0))

    recording = queue.record(step)
    queue.replay(recording, 60)
    assert result_of(queue, total) == SIZE * 61 * 62 // 2


def element_types(queue: celerity.Queue) -> None:
    """Each operation of each element type, with and without the old value; the values make all roundings exact."""
    for name in ELEMENT_TYPES:
        dtype = np.dtype(name)
        numbers = np.random.default_rng(11).integers(1, 3, 11)
        values = (numbers * 1j if dtype.kind == "c" else numbers).astype(dtype)
        source = celerity.Buffer.from_array(values, name="values")
        operations: list[Any] = [op for op in OPERATIONS if is_defined(op, dtype.kind)]
        results = [celerity.Buffer.from_array(np.ones((), dtype), name=op) for op in operations]
        for include_current in (True, False):
            queue.parallel_for(
                values.size,
                combine_each,
                source.read(ONE),
                *(celerity.reduction(*pair, include_current) for pair in zip(results, operations, strict=True)),
            )
            for buffer, op in zip(results, operations, strict=True):
                combine = OPERATIONS[op].combine
                expected = np.ones((), dtype) if include_current else values[0]
                for value in values[0 if include_current else 1 :]:
                    expected = np.asarray(combine(expected, value), dtype)
                assert result_of(queue, buffer) == expected, (name, op, include_current)


def combine_each(chunk: celerity.Chunk, values: celerity.View, *results: celerity.Reducer) -> None:
    """Combine each value of a chunk into each result."""
    for value in values[chunk.box]:
        for out in results:
            out.combine(value)


PROGRAMS: tuple[Callable[[celerity.Queue], None], ...] = (
    the_last_value_wins,
    current_value_comes_first,
    chained,
    values_at_indices,
    places_of_extrema,
    places_in_a_grid,
    places_of_each_element,
    fewer_chunks_than_ranks,
    blocks_in_turns,
    element_types,
    structures,
    padding_is_equal,
    replayed,
)
