# SPDX-License-Identifier: MIT
"""Buffers: shapes, types, initial contents, and when they die."""

from __future__ import annotations

import copy
import pickle
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access
from celerity_py.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.runtime import lifecycle
from celerity_py.vocabulary.static_types import ReductionName


@pytest.fixture(autouse=True)
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(devices="cpu:2", horizon_step=1, lookahead="none")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, horizon_step=None, lookahead=None)


def touch(chunk: celerity.Chunk, view: celerity.View) -> None:
    view[chunk.box] += 1


# ---- shape, type, name


@pytest.mark.parametrize(
    ("given", "shape"),
    [(5, (5,)), ((5,), (5,)), ([2, 3], (2, 3)), ((), ()), ((np.int64(2), 1, 4), (2, 1, 4))],
)
def test_a_shape_is_an_int_or_a_sequence_of_up_to_three(given: Any, shape: tuple[int, ...]) -> None:
    buffer = celerity.Buffer(given, name="u")
    assert (buffer.shape, buffer.ndim, buffer.dtype, buffer.name) == (shape, len(shape), np.dtype(np.float32), "u")
    assert repr(buffer) == f'<Buffer B{buffer.record.id} "u", shape {shape}, float32>'


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((1, 2, 3, 4), DimensionMismatch, r"at most 3 dimensions, but the shape \(1, 2, 3, 4\)"),
        ((4, -1), UsageError, r"are 0 or more.*\(4, -1\)"),
        (-1, UsageError, "are 0 or more"),
        ((2**32, 2**31), UsageError, r"fewer than 2\*\*63 elements.*\(4294967296, 2147483648\)"),
        (1.5, ArgumentTypeError, r"not 1\.5"),
        ("12", ArgumentTypeError, "not '12'"),
        ("", ArgumentTypeError, "not ''"),
        (b"12", ArgumentTypeError, "not b'12'"),
        (None, ArgumentTypeError, "not None"),
        (True, ArgumentTypeError, "not True"),
        ((2, True), ArgumentTypeError, r"not \(2, True\)"),
    ],
)
def test_an_impossible_shape_is_an_error(shape: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        celerity.Buffer(shape)


@pytest.mark.parametrize(
    "dtype", [np.uint8, "complex128", np.dtype([("a", "i4"), ("b", "f8", (2,))]), "M8[s]", "S3", ">f4"]
)
def test_any_type_that_numpy_describes_can_be_an_element(queue: celerity.Queue, dtype: Any) -> None:
    contents = np.frombuffer(np.random.default_rng(0).bytes(6 * np.dtype(dtype).itemsize), dtype)
    buffer = celerity.Buffer.from_array(contents)
    target = celerity.Buffer(6, dtype)

    def move(chunk: celerity.Chunk, out: celerity.View, given: celerity.View) -> None:
        out[chunk.box] = given[chunk.box]

    queue.parallel_for(6, move, target.write(access.one_to_one()), buffer.read(access.one_to_one()))
    assert queue.fence(target).result(10).tobytes() == contents.tobytes()


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (object, "Python objects"),
        ([("a", "O")], "Python objects"),
        ("S0", "0 bytes"),
        ("nonsense", "A buffer takes a dtype, such as numpy.float32, not 'nonsense' .* not understood"),
        (None, "takes a dtype, .* not None"),
        (np.float64(2), "such as its float64, not 2.0 of dtype float64"),
        (np.ones(3), "such as its float64, not an array of float64"),
    ],
)
def test_objects_and_types_without_size_are_refused(dtype: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        celerity.Buffer(4, dtype)


def test_a_name_is_text() -> None:
    with pytest.raises(ArgumentTypeError, match="not 3"):
        celerity.Buffer(4, name=3)  # type: ignore[call-overload]


# ---- accesses


def test_only_0d_buffers_may_leave_the_mapper_out(queue: celerity.Queue) -> None:
    scalar = celerity.Buffer.from_array(np.float64(3))
    queue.parallel_for((), lambda chunk, x: x.__setitem__(..., x[...] + 1), scalar.read_write())
    assert queue.fence(scalar).result(10) == 4
    with pytest.raises(UsageError, match=r'"u" needs a range mapper.*has shape \(4,\)'):
        celerity.Buffer(4, name="u").read()


def test_an_access_says_what_it_is() -> None:
    buffer = celerity.Buffer(4, name="u")
    label = f'B{buffer.record.id} "u"'
    assert repr(buffer.read_write(access.neighborhood(1))) == f"<read_write access to {label} by neighborhood(1)>"
    with pytest.raises(ArgumentTypeError, match="needs a mapper"):
        buffer.write("all")  # type: ignore[arg-type]


# ---- initial contents


def test_an_array_is_copied_at_the_call(queue: celerity.Queue) -> None:
    array = np.arange(8)
    buffer = celerity.Buffer.from_array(array)
    array[...] = -1
    np.testing.assert_array_equal(queue.fence(buffer).result(10), np.arange(8))


@pytest.mark.parametrize(
    "array",
    [np.arange(24).reshape(4, 6).T, np.arange(24)[::3], np.asfortranarray(np.ones((3, 4))), [[1, 2], [3, 4]], 2.5],
)
@pytest.mark.parametrize("is_copied", [True, False])
def test_arrays_of_any_layout_and_sequences_are_taken(queue: celerity.Queue, array: Any, is_copied: bool) -> None:
    buffer = celerity.Buffer.from_array(array, copy=is_copied)
    np.testing.assert_array_equal(queue.fence(buffer).result(10), array)


def test_a_borrowed_array_may_change_once_wait_has_returned(queue: celerity.Queue) -> None:
    array = np.arange(1000.0)
    buffer = celerity.Buffer.from_array(array, copy=False)
    queue.parallel_for(Box((0,), (10,)), touch, buffer.read_write(access.one_to_one()))
    queue.wait()
    array[...] = -1
    expected = np.arange(1000.0)
    expected[:10] += 1
    np.testing.assert_array_equal(queue.fence(buffer).result(10), expected)


def test_arrays_that_cannot_be_buffers_are_refused() -> None:
    with pytest.raises(DimensionMismatch):
        celerity.Buffer.from_array(np.zeros((1, 1, 1, 1)))
    with pytest.raises(UsageError, match="Python objects"):
        celerity.Buffer.from_array(np.array([object()]))


def test_a_function_is_asked_for_the_boxes_that_are_needed(queue: celerity.Queue) -> None:
    asked: list[Box] = []

    def contents(box: Box) -> Any:
        asked.append(box)
        return np.add.outer(10 * np.arange(box.min[0], box.max[0]), np.arange(box.min[1], box.max[1]))

    buffer = celerity.Buffer.from_function((6, 5), np.int64, contents, name="f")
    part = queue.fence(buffer, Box((1, 1), (3, 5))).result(10)
    whole = np.add.outer(10 * np.arange(6), np.arange(5))
    np.testing.assert_array_equal(part, whole[1:3, 1:5])
    assert Region(asked) == Region([Box((1, 1), (3, 5))])
    queue.parallel_for((6, 5), touch, buffer.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(buffer).result(10), whole + 1)
    assert sum(box.size for box in asked) == 30


def test_a_function_may_return_a_narrower_type(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_function(4, np.float64, lambda box: np.ones(box.shape, np.int32))
    np.testing.assert_array_equal(queue.fence(buffer).result(10), np.ones(4))
    scalar = celerity.Buffer.from_function((), np.float64, lambda box: 2.5)
    assert queue.fence(scalar).result(10) == 2.5


def test_a_function_must_be_callable() -> None:
    with pytest.raises(ArgumentTypeError, match="not 3"):
        celerity.Buffer.from_function(4, np.float32, 3)  # type: ignore[call-overload]


# ---- death


def test_variables_may_be_swapped_and_dropped_while_tasks_use_the_buffers(queue: celerity.Queue) -> None:
    results = []
    for i in range(30):
        buffer = celerity.Buffer.from_array(np.full(10, float(i)))
        queue.parallel_for(10, touch, buffer.read_write(access.one_to_one()))
        results.append(queue.fence(buffer))
    del buffer
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.result(10), np.full(10, i + 1.0))


def test_memory_of_dead_buffers_is_freed(queue: celerity.Queue) -> None:
    for _ in range(50):
        buffer = celerity.Buffer.from_array(np.zeros(100_000))
        queue.parallel_for(buffer.shape, touch, buffer.read_write(access.one_to_one()))
        del buffer
        queue.wait()
    queue.wait()
    memories = queue.statistics().executor["memories"]
    assert sum(memory["current_bytes"] for memory in memories) <= 2 * 800_000
    assert len(lifecycle.current().user_memory._lent) <= 2


def test_a_handle_dies_with_its_last_reference_even_while_tasks_are_pending(queue: celerity.Queue) -> None:
    let_go = threading.Event()
    buffer = celerity.Buffer.from_array(np.zeros(4))
    queue.parallel_for((), lambda chunk, x: let_go.wait(10), buffer.read_write(access.all()))
    handle = weakref.ref(buffer)
    del buffer
    assert handle() is None
    let_go.set()


def test_the_last_reference_may_die_on_another_thread(queue: celerity.Queue) -> None:
    holder = [celerity.Buffer.from_array(np.zeros(4))]
    queue.parallel_for(4, touch, holder[0].read_write(access.one_to_one()))
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    queue.wait()


def test_a_buffer_that_dies_before_its_access_is_submitted_lives_on_in_the_access(queue: celerity.Queue) -> None:
    total = celerity.Buffer(())
    given = celerity.Buffer.from_array(np.ones(8)).read(access.one_to_one())

    def add(chunk: celerity.Chunk, view: celerity.View, out: celerity.Reducer) -> None:
        out.combine(view[...].sum())

    queue.parallel_for(8, add, given, celerity.reduction(total, "sum"))
    assert queue.fence(total).result(10) == 8


def test_a_handle_cannot_be_copied_or_pickled(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(()))
    handles: list[Any] = [buffer, queue, queue.fence(buffer)]
    handles += [celerity.HostObject([]), celerity.reduction(buffer, "sum")]
    for handle in handles:
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ArgumentTypeError, match="is a handle of this process and cannot be copied or pickled"):
                attempt(handle)


# ---- buffers that can be reduced into


@pytest.mark.parametrize(
    ("dtype", "op", "message"),
    [
        (np.float32, "mean", "'xor', 'argmin', 'argmax', or a callable, not 'mean'"),
        (np.complex64, "max", "needs an order"),
        (np.longdouble, "sum", "not float128"),
        (np.dtype([("a", "f4")]), "sum", "needs elements of"),
        (np.dtype(">f4"), "sum", "not >f4"),
    ],
)
def test_a_reduction_needs_an_operation_that_the_type_has(dtype: Any, op: ReductionName, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        celerity.reduction(celerity.Buffer((), dtype), op)


@pytest.mark.parametrize("value", [None, 0, 1.0, "yes", np.zeros(2), []])
def test_a_call_takes_a_truth_value_and_nothing_that_has_one(value: Any) -> None:
    total = celerity.Buffer((), np.float64)
    calls: list[tuple[str, Callable[[Any], Any]]] = [
        ("reduction(include_current=...)", lambda flag: celerity.reduction(total, "sum", flag)),
        ("reduction(deterministic=...)", lambda flag: celerity.reduction(total, "sum", deterministic=flag)),
        ("from_array(copy=...)", lambda flag: celerity.Buffer.from_array(np.zeros(3), copy=flag)),
        ("from_local(copy=...)", lambda flag: celerity.Buffer.from_local(3, np.float64, [], copy=flag)),
        ("neighborhood(wrap=...)", lambda flag: access.neighborhood(1, wrap=flag)),
    ]
    for name, call in calls:
        with pytest.raises(ArgumentTypeError, match=re.escape(f"{name} takes True or False, not {value!r}")):
            call(value)
        call(np.bool_(True))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((None,), ArgumentTypeError, "placed.. takes a dtype, such as numpy.float32, not None"),
        (("real",), ArgumentTypeError, "not 'real' .* not understood"),
        ((np.complex64,), UsageError, "values with an order"),
        ((np.float32, True), UsageError, "1, 2 or 3 dimensions, not True"),
        ((np.float32, np.ones(2)), UsageError, "1, 2 or 3 dimensions, not array"),
        ((np.float32, 4), UsageError, "1, 2 or 3 dimensions, not 4"),
    ],
)
def test_values_with_places_have_an_order_and_up_to_three_coordinates(
    arguments: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        celerity.placed(*arguments)


def test_a_reduction_needs_a_buffer() -> None:
    with pytest.raises(ArgumentTypeError, match="needs a Buffer, not 3"):
        celerity.reduction(3, "sum")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        ("and", [True, True, False], False),
        ("or", [False, True, False], True),
        ("xor", [True, True, True], True),
        ("min", [True, False], False),
        ("max", [False, True], True),
    ],
)
def test_truth_values_can_be_reduced(
    queue: celerity.Queue, op: ReductionName, values: list[bool], expected: bool
) -> None:
    result = celerity.Buffer((), np.bool_)

    def combine(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        for value in values[chunk.box.min[0] : chunk.box.max[0]]:
            out.combine(value)

    queue.parallel_for(len(values), combine, celerity.reduction(result, op))
    assert queue.fence(result).result(10) == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float64, np.complex128])
def test_chunks_that_combine_nothing_leave_the_result_alone(queue: celerity.Queue, dtype: Any) -> None:
    operations: list[ReductionName] = ["sum", "prod"] if np.dtype(dtype).kind == "c" else ["sum", "prod", "min", "max"]
    for op in operations:
        result = celerity.Buffer((1,), dtype)

        def combine(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
            if chunk.box.min[0] == 0:
                out.combine(np.array([3], out._base.dtype))

        queue.parallel_for(2, combine, celerity.reduction(result, op))
        assert queue.fence(result).result(10) == [3]
