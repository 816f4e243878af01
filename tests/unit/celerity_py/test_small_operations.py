# SPDX-License-Identifier: MIT
"""`Queue.fill` and `Queue.copy`: what they write, what they move, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import (
    ArgumentTypeError,
    ClosedQueue,
    DimensionMismatch,
    NestedUse,
    OutOfBoundsAccess,
    OverlappingAccess,
    UsageError,
)

RECORD = np.dtype([("id", np.int32), ("weight", np.float64)])


def make(queue: celerity.Queue, shape: tuple[int, ...], dtype: Any = np.float64, name: str = "u") -> tuple[Any, Any]:
    """A buffer of different elements, and its contents."""
    contents = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(dtype)
    return celerity.Buffer.from_array(contents, name=name), contents


# ---- fill


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 4), (3, 4, 5)])
def test_a_fill_writes_the_whole_buffer(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    u = celerity.Buffer(shape, np.float64)
    queue.fill(u, 2)
    np.testing.assert_array_equal(queue.fence(u).result(10), np.full(shape, 2.0))


@pytest.mark.parametrize("box", [Box((1, 2), (4, 3)), (slice(1, 4), slice(2, 3)), Box((4, 0), (5, 4)), ...])
def test_a_fill_writes_a_box_and_nothing_else(queue: celerity.Queue, box: Any) -> None:
    u, expected = make(queue, (5, 4))
    queue.fill(u, -1.5, box)
    expected[box.slices if isinstance(box, Box) else box] = -1.5
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.bool_, True),
        (np.int8, -128),
        (np.uint64, 2**64 - 1),
        (np.int16, np.int64(300)),
        (np.float16, 0.1),
        (np.float32, np.float64(0.1)),
        (np.float32, np.inf),
        (np.float64, np.nan),
        (np.complex64, 1 + 2j),
        (np.complex128, 3),
        (">i4", 258),
        ("S4", b"abc"),
        ("M8[s]", np.datetime64("2024-02-03")),
        (RECORD, (3, 0.5)),
        (np.float64, np.array(2.5)),
    ],
)
def test_a_fill_takes_each_value_that_an_element_holds(queue: celerity.Queue, dtype: Any, value: Any) -> None:
    u = celerity.Buffer(6, dtype)
    queue.fill(u, value)
    np.testing.assert_array_equal(queue.fence(u).result(10), np.full(6, np.asarray(value, dtype), dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int32, 0.6),
        (np.int8, 128),
        (np.int8, np.int64(300)),
        (np.uint8, -1),
        (np.uint8, np.int8(-1)),
        (np.bool_, 2),
        (np.float32, 1j),
        (np.float32, 1e300),
        (np.float16, 70_000),
        (np.float64, "1.5"),
        ("S2", b"abc"),
        (RECORD, (1, 2, 3)),
    ],
)
def test_a_fill_refuses_a_value_that_the_elements_cannot_hold(dtype: Any, value: Any) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(4, dtype), name="u")
        with pytest.raises(UsageError, match=r'queue.fill\(\) got .* for B\d+ "u", .*elements'):
            queue.fill(u, value)
        np.testing.assert_array_equal(queue.fence(u).result(10), np.zeros(4, dtype))


@pytest.mark.parametrize("value", [None, [1.0, 2.0], np.zeros(2), object()])
def test_a_fill_takes_one_value(value: Any) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer(4, name="u")
        with pytest.raises(ArgumentTypeError, match=r'queue.fill\(\) got .* for B\d+ "u"\. It takes one value'):
            queue.fill(u, value)
        with pytest.raises(ArgumentTypeError, match=r'queue.fill\(\) of B\d+ "u" got a masked array'):
            queue.fill(u, np.ma.masked)


def test_the_runtime_divides_a_fill_among_all_devices() -> None:
    celerity.configure(devices="cpu:4")
    with celerity.Queue() as queue:
        u = celerity.Buffer((8, 3), name="u")
        queue.fill(u, 1)
        queue.wait()
        assert queue.statistics().executor["instructions"]["device_kernel"] == 4
    celerity.configure(devices=None)


# ---- copy


@pytest.mark.parametrize("shape", [(), (7,), (5, 4), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, ">i4", RECORD])
def test_a_copy_writes_the_whole_buffer(queue: celerity.Queue, shape: tuple[int, ...], dtype: Any) -> None:
    source = np.zeros(shape, dtype) if dtype is RECORD else np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    u, v = celerity.Buffer.from_array(source), celerity.Buffer(shape, dtype)
    queue.copy(v, u)
    np.testing.assert_array_equal(queue.fence(v).result(10), source)


BOXES = [
    (Box((0, 0), (5, 4)), Box((0, 0), (5, 4))),
    (Box((1, 0), (4, 2)), Box((3, 5), (6, 7))),
    (Box((4, 3), (5, 4)), Box((0, 0), (1, 1))),
    ((slice(0, 5), slice(0, 1)), (slice(2, 7), slice(7, 8))),
]


@pytest.mark.parametrize(("there", "here"), BOXES)
def test_a_copy_moves_a_box_to_another_place(queue: celerity.Queue, there: Any, here: Any) -> None:
    target, expected = make(queue, (5, 4))
    source, given = make(queue, (7, 8), name="v")
    queue.copy(target, source, there, here)
    slices = [box.slices if isinstance(box, Box) else box for box in (there, here)]
    expected[slices[0]] = -given[slices[1]] * -1
    np.testing.assert_array_equal(queue.fence(target).result(10), expected)
    np.testing.assert_array_equal(queue.fence(source).result(10), given)


def test_a_copy_moves_a_box_within_a_buffer(queue: celerity.Queue) -> None:
    u, expected = make(queue, (6, 4))
    queue.copy(u, u, Box((0, 0), (3, 4)), Box((3, 0), (6, 4)))
    queue.copy(u, u, (slice(3, 4), ...), (slice(2, 3), ...))
    expected[:3] = expected[3:].copy()
    expected[3] = expected[2]
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)


def test_a_copy_moves_only_the_elements_that_a_device_lacks() -> None:
    """The devices hold rows 0:2, 2:4, 4:6 and 6:8. Rows 0:4 become rows 4:8: the devices get one row each."""
    celerity.configure(devices="cpu:4")
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer((8, 100), np.float64) for _ in range(2))
        queue.fill(u, 1)
        queue.fill(v, 0)
        queue.copy(v, u)
        queue.wait()
        assert queue.statistics().executor["copied_bytes"]["coherence"] == 0
        queue.copy(v, u, (slice(4, 8), ...), (slice(0, 4), ...))
        queue.wait()
        moved = queue.statistics().executor["copied_bytes"]["coherence"]
        assert moved == 3 * 800  # the first row is where it is needed
    celerity.configure(devices=None)


U, V, W = "u", "v", "w"


@pytest.mark.parametrize(
    ("boxes", "error", "text"),
    [
        ((U, V, None, None), UsageError, r"extents \(4, 6\) and \(6, 4\)"),
        ((U, V, Box((0, 0), (2, 2)), Box((0, 0), (2, 3))), UsageError, r"extents \(2, 3\) and \(2, 2\)"),
        ((U, V, Box((0, 0), (7, 2)), None), OutOfBoundsAccess, r"The copy into B\d+ \"u\" asks for \[0:7, 0:2\]"),
        ((U, V, None, Box((0, 5), (2, 7))), OutOfBoundsAccess, r"The copy of B\d+ \"v\" asks for \[0:2, 5:7\]"),
        ((U, V, slice(0, 2), None), DimensionMismatch, r"The copy into .* dimension"),
        ((U, V, 3, None), ArgumentTypeError, r"A copy takes a Box or one slice per dimension"),
        ((U, W, slice(0, 1), None), UsageError, r"The copy into"),
        ((U, W, None, None), UsageError, r"elements are int32 there and float64 here"),
        ((U, U, Box((0, 0), (3, 4)), Box((2, 0), (5, 4))), OverlappingAccess, r"overlap at \[2:3, 0:4\]"),
        ((U, U, None, None), OverlappingAccess, r"overlap at \[0:6, 0:4\]"),
    ],
)
def test_a_copy_refuses_boxes_and_buffers_that_do_not_fit(boxes: Any, error: type[UsageError], text: str) -> None:
    with celerity.Queue() as queue:
        buffers = {
            U: make(queue, (6, 4), name="u")[0],
            V: make(queue, (4, 6), name="v")[0],
            W: make(queue, (6, 4), np.int32, name="w")[0],
        }
        target, source, there, here = boxes
        with pytest.raises(error, match=text):
            queue.copy(buffers[target], buffers[source], there, here)


def test_a_copy_between_buffers_of_other_dimensions_is_refused() -> None:
    with celerity.Queue() as queue:
        u, v = celerity.Buffer((4, 4), name="u"), celerity.Buffer(4, name="v")
        with pytest.raises(DimensionMismatch, match=r'The copy from \[0:4\] of B\d+ "v" to \[0:4, 0:4\] of B\d+ "u"'):
            queue.copy(u, v)


# ---- dot and norm


@pytest.mark.parametrize("shape", [(), (37,), (5, 4), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.float32, np.complex64, ">f8"])
def test_dot_and_norm_are_those_of_numpy_in_double_precision(
    queue: celerity.Queue, dtype: Any, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(3)
    factors = (1 + 2j, 3 - 1j) if np.dtype(dtype).kind == "c" else (1, 1)
    u, v = (np.asarray(random.integers(1, 99, shape) * factor).astype(dtype) for factor in factors)
    real = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    wide = {"i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}[np.dtype(dtype).kind]
    a, b = (celerity.Buffer.from_array(each) for each in (u, v))
    found, length = queue.dot(a, b), queue.norm(a)
    u, v = u.astype(wide), v.astype(wide)
    assert type(found.result(10)) in {int, float, complex}
    np.testing.assert_allclose(found.result(10), np.vdot(u, v), rtol=1e-13)
    np.testing.assert_allclose(length.result(10), np.linalg.norm(u.ravel().astype(real)), rtol=1e-13)


def test_the_sum_of_small_integers_has_64_bits(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.full(1000, -128, np.int8))
    assert queue.dot(u, u).result(10) == 1000 * 128**2


@pytest.mark.parametrize("values", [np.full(5, 2**31 - 1, np.int32), np.array([2**63, 1], np.uint64), [-(2**62)] * 3])
def test_the_norm_of_large_integers_does_not_wrap_around(queue: celerity.Queue, values: Any) -> None:
    u = celerity.Buffer.from_array(values)
    np.testing.assert_allclose(queue.norm(u).result(10), np.linalg.norm(np.asarray(values, np.float64)), rtol=1e-13)


def test_dot_refuses_what_has_no_products() -> None:
    with celerity.Queue() as queue:
        u, v, w = (celerity.Buffer(*given, name="u") for given in ((4, np.float32), (4, np.float64), (4, np.bool_)))
        with pytest.raises(UsageError, match=r"equal shape and dtype, but B\d+ .* has \(4,\) and float32, and B\d+"):
            queue.dot(u, v)
        with pytest.raises(UsageError, match=r"queue.norm\(\) takes buffers of numbers, but B\d+ .* has bool"):
            queue.norm(w)
        with pytest.raises(ArgumentTypeError, match=r"queue.dot\(\) takes a Buffer"):
            queue.dot(u, np.zeros(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["any", "norm", "fence"])
def test_a_dry_run_warns_at_the_line_of_the_program(call: str) -> None:
    celerity.configure(dry_run_ranks=2)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(4))
        with pytest.warns(celerity.CelerityWarning, match="nothing is computed in a dry run") as caught:
            getattr(queue, call)(u).result(10)
    celerity.configure(dry_run_ranks=None)
    assert [warning.filename for warning in caught] == [__file__]


# ---- the calls


@pytest.mark.parametrize("call", ["fill", "copy"])
def test_a_foreign_object_and_a_closed_queue_are_refused(call: str) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer(4, name="u")
        with pytest.raises(ArgumentTypeError, match=rf"queue.{call}\(\) takes a Buffer, not an array of float64"):
            getattr(queue, call)(np.zeros(4), u)
        with pytest.raises(ArgumentTypeError, match=r"takes a Buffer"):
            queue.copy(u, np.zeros(4))  # type: ignore[arg-type]
    with pytest.raises(ClosedQueue, match=rf"{call}\(\) on a queue that is closed"):
        getattr(queue, call)(u, u)
    with celerity.Queue() as queue, pytest.raises(ClosedQueue, match="belongs to a runtime that ended"):
        getattr(queue, call)(u, u)


def test_fills_and_copies_inside_of_a_task_are_refused() -> None:
    told: list[str] = []

    def nested(part: Any) -> None:
        calls: list[Callable[[], None]] = [lambda: queue.fill(u, 1), lambda: queue.copy(u, v)]
        for call in calls:
            with pytest.raises(NestedUse) as caught:
                call()
            told.append(str(caught.value))

    with celerity.Queue() as queue:
        u, v = celerity.Buffer(4, name="u"), celerity.Buffer(4, name="v")
        queue.host_task(nested)
    assert ["fill()" in told[0], "copy()" in told[1]] == [True, True]


def test_a_recording_repeats_fills_and_copies(queue: celerity.Queue) -> None:
    u, v = celerity.Buffer.from_array(np.arange(6)), celerity.Buffer.from_array(np.zeros(6, int))

    def add(chunk: Any, u: Any, v: Any) -> None:
        v[chunk.box] += u[chunk.box]

    def turn() -> None:
        queue.copy(u, v, slice(0, 3), slice(3, 6))
        queue.fill(u, 1, slice(3, 6))
        queue.parallel_for(6, add, u.read(access.one_to_one()), v.read_write(access.one_to_one()))

    queue.replay(queue.record(turn), 4)
    np.testing.assert_array_equal(queue.fence(v).result(10), [10, 10, 10, 5, 5, 5])


def test_a_fill_is_told_by_the_line_of_its_call() -> None:
    celerity.configure(check=True)
    with celerity.Queue() as queue:
        u, v = celerity.Buffer(4, name="u"), celerity.Buffer(4, name="v")
        queue.fill(u, 0.5)
        queue.copy(v, u)
        assert queue.fence(v).result(10).tolist() == [0.5] * 4
    celerity.configure(check=None)
