# SPDX-License-Identifier: MIT
"""Buffers whose elements are arrays, such as fields of vectors and matrices: dimensions that no split cuts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import Box, Region, access
from celerity_py.calls.fill_patterns import fill_of
from celerity_py.errors import (
    ArgumentTypeError,
    DimensionMismatch,
    IncompleteWrite,
    OutOfBoundsAccess,
    UnsupportedIndex,
    UsageError,
)

Array = npt.NDArray[Any]

NOT_INTS: Any = (1.5, "33")
FIELD: Array = np.arange(7 * 5 * 6, dtype=np.float32).reshape(7, 5, 2, 3)


@pytest.fixture(params=[1, 3])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=f"cpu:{request.param}", horizon_step=1)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, horizon_step=None)


def field(name: str = "u") -> celerity.Buffer:
    return celerity.Buffer.from_array(FIELD, element=(2, 3), name=name)


# ---- the buffer


@pytest.mark.usefixtures("queue")
def test_a_buffer_has_a_shape_and_an_element() -> None:
    u = celerity.Buffer((7, 5), np.float64, element=[2, 3], name="u")
    assert (u.shape, u.ndim, u.dtype, u.element) == ((7, 5), 2, np.dtype(np.float64), (2, 3))
    assert repr(u) == f'<Buffer B{u.record.id} "u", shape (7, 5), float64 with element=(2, 3)>'
    assert celerity.Buffer(3, element=2).element == (2,)
    assert celerity.Buffer(3).element == ()
    assert field().shape == (7, 5)
    assert celerity.Buffer.from_array(FIELD[0, 0], element=(2, 3)).shape == ()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: celerity.Buffer(3, element=(0, 3)), UsageError, r"at least one number .* element=\(0, 3\)"),
        (
            lambda: celerity.Buffer(3, element=NOT_INTS[0]),
            ArgumentTypeError,
            r"element= is an int or a sequence .* not 1\.5",
        ),
        (lambda: celerity.Buffer(3, element=NOT_INTS[1]), ArgumentTypeError, "not '33'"),
        (lambda: celerity.Buffer(3, element=(2**20, 2**10)), UsageError, r"fewer than 2\*\*31 bytes, .* has 42949"),
        (
            lambda: celerity.Buffer(3, np.dtype((np.float32, (3, 3)))),
            UsageError,
            r"Buffer\(shape, float32, element=\(3, 3\)\)",
        ),
        (lambda: celerity.Buffer((7, 5, 2, 3)), DimensionMismatch, r"at most 3 .* element=\(3,\)"),
        (
            lambda: celerity.Buffer.from_array(FIELD, element=(3, 2)),
            UsageError,
            r"element=\(3, 2\) and an array of shape \(7, 5, 2, 3\), which does not end",
        ),
        (lambda: celerity.Buffer.from_array(FIELD[0, 0, 0], element=(2, 3)), UsageError, r"\(3,\), which does not"),
        (lambda: celerity.reduction(field(), "sum"), UsageError, r"such as Buffer\(\(7, 5, 2, 3\), float32\)"),
    ],
)
@pytest.mark.usefixtures("queue")
def test_what_no_buffer_of_elements_can_be_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


# ---- contents


@pytest.mark.parametrize("copy", [False, True])
def test_contents_come_from_an_array_and_go_to_a_fence(queue: celerity.Queue, copy: bool) -> None:
    u = celerity.Buffer.from_array(FIELD, element=(2, 3), copy=copy)
    np.testing.assert_array_equal(queue.fence(u).result(10), FIELD)
    np.testing.assert_array_equal(queue.fence(u, Box((2, 1), (6, 3)), to="device").result(10), FIELD[2:6, 1:3])
    np.testing.assert_array_equal(np.from_dlpack(queue.fence(u).result(10)), FIELD)
    whole = celerity.Buffer.from_array(FIELD[0, 0], element=(2, 3))
    np.testing.assert_array_equal(queue.fence(whole).result(10), FIELD[0, 0])


def test_a_function_returns_boxes_with_the_dimensions_of_an_element(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_function((7, 5), np.float32, lambda box: FIELD[box.slices], element=(2, 3))
    np.testing.assert_array_equal(queue.fence(u, Box((1, 0), (3, 5))).result(10), FIELD[1:3])


def test_a_function_that_returns_single_values_is_told_the_shape() -> None:
    def ask(queue: celerity.Queue) -> None:
        u = celerity.Buffer.from_function(2, np.float32, lambda box: np.zeros(box.shape), element=3)
        queue.fence(u).result(10)

    with (
        pytest.raises(UsageError, match=r"shape \(2,\) for the box \[0:2\]. .* of shape \(2, 3\)"),
        celerity.Queue() as queue,
    ):
        ask(queue)


# ---- kernels


def curl(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
    for row in range(chunk.box.min[0], chunk.box.max[0]):
        near = [u[y, :] for y in (row - 1, row + 1) if 0 <= y < u.shape_box.max[0]]
        out[row, :] = sum(near) @ np.ones((3, 4), np.float32)


def test_a_stencil_moves_whole_elements_between_devices(queue: celerity.Queue) -> None:
    u, out = field(), celerity.Buffer((7, 5), element=(2, 4), name="out")
    for _ in range(3):
        queue.parallel_for(u.shape, curl, out.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
    near = np.zeros_like(FIELD)
    near[1:] += FIELD[:-1]
    near[:-1] += FIELD[1:]
    np.testing.assert_array_equal(queue.fence(out).result(10), near @ np.ones((3, 4), np.float32))


def test_data_of_host_tasks_and_replays_has_elements(queue: celerity.Queue) -> None:
    u = field()

    def double(chunk: celerity.Chunk, u: celerity.View) -> None:
        u[chunk.box] *= 2

    def add(part: Any, u: celerity.View) -> None:
        u[...] += np.arange(3)

    def step() -> None:
        queue.parallel_for(u.shape, double, u.read_write(access.one_to_one()))
        queue.host_task(add, u.read_write(access.all()))

    queue.replay(queue.record(step), 2)
    expected = FIELD
    for _ in range(3):
        expected = expected * 2 + np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)


def test_the_dimensions_of_an_element_lie_behind_those_of_an_index(queue: celerity.Queue) -> None:
    seen: list[tuple[int, ...]] = []

    def look(part: Any, u: celerity.View, nothing: celerity.View) -> None:
        arrays: list[Array] = [u.array, u[1, 2], u[:, 3], u[1:1], u[::2, 1], u[Box((0, 0), (2, 1))], u[...]]
        arrays += [np.from_dlpack(u), np.asarray(u), nothing.array, nothing[...]]
        seen.extend(array.shape for array in arrays)
        arrays.clear()  # no array may be kept
        seen.append(u.padded(Box((0, 0), (1, 2)), 1, "edge").shape)
        np.testing.assert_array_equal(u[1, 2], FIELD[1, 2])
        np.testing.assert_array_equal(u[::2, 1], FIELD[::2, 1])
        periodic = np.pad(FIELD, [(1, 1), (0, 0), (0, 0), (0, 0)], "wrap")
        np.testing.assert_array_equal(u.padded(u.box, (1, 0), "wrap"), periodic)
        assert (u.dtype, u.ndim) == (np.dtype(np.float32), 2)
        with pytest.raises(UnsupportedIndex, match=r"the index has 3. .* view\[chunk.box\]\[..., 0\]"):
            u[0, 0, 0]

    u, nothing = field(), field("nothing")
    queue.host_task(look, u.read(access.all()), nothing.read(access.fixed(Box((0, 0), (0, 0)))))
    queue.wait()
    element = (2, 3)
    extents = [(7, 5), (), (7,), (0, 5), (4,), (2, 1), (7, 5), (7, 5), (7, 5), (0, 0), (0, 0), (3, 4)]
    assert seen == [(*each, *element) for each in extents]


def test_an_index_outside_is_told_without_the_dimensions_of_the_element() -> None:
    queue = celerity.Queue()
    queue.host_task(lambda part, u: u[7:8], field().read(access.all()))
    with pytest.raises(OutOfBoundsAccess, match=r"at \[7:8\], outside"):
        queue.wait()
    with contextlib.suppress(celerity.CelerityError):
        queue.close()


def test_regions_with_gaps_are_those_of_elements(queue: celerity.Queue) -> None:
    u, out = field(), celerity.Buffer(2, np.float32, element=(5, 2, 3))
    ends = Region([Box((0, 0), (1, 5)), Box((6, 0), (7, 5))])

    def gather(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        for n in range(chunk.box.min[0], chunk.box.max[0]):
            out[n] = u[6 * n]

    queue.parallel_for(2, gather, out.write(access.one_to_one()), u.read(access.fixed(ends)))
    np.testing.assert_array_equal(queue.fence(out).result(10), FIELD[[0, 6]])


# ---- operations without a kernel of the program


def test_a_fill_takes_a_number_or_an_element(queue: celerity.Queue) -> None:
    u = field()
    queue.fill(u, 3)
    assert (queue.fence(u).result(10) == 3).all()
    one = np.arange(6).reshape(2, 3)
    queue.fill(u, one, Box((1, 1), (3, 4)))
    expected = np.full_like(FIELD, 3)
    expected[1:3, 1:4] = one
    np.testing.assert_array_equal(queue.fence(u).result(10), expected)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (np.float32, [1, 2, 3], r"a number, or an array of shape \(2, 3\)"),
        (np.int8, np.full((2, 3), 300), "Elements go from -128 to 127, and the values from 300 to 300"),
        (np.int8, np.full((2, 3), 0.5), "cannot hold it"),
        (np.float32, np.full((2, 3), 1e300), r"Elements go up to 3\.403e\+38"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_fill_refuses_what_is_no_element(queue: celerity.Queue, dtype: Any, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        queue.fill(celerity.Buffer(4, dtype, element=(2, 3)), value)


def test_a_copy_takes_buffers_of_the_same_element(queue: celerity.Queue) -> None:
    u, v = field(), celerity.Buffer.from_array(np.zeros_like(FIELD), element=(2, 3))
    queue.copy(v, u, Box((2, 0), (6, 5)), Box((0, 0), (4, 5)))
    np.testing.assert_array_equal(queue.fence(v, Box((2, 0), (7, 5))).result(10)[:4], FIELD[:4])
    with pytest.raises(UsageError, match=r"float32 with element=\(2, 3\) there and float32 with element=\(3, 2\) here"):
        queue.copy(celerity.Buffer((7, 5), element=(3, 2)), u)


def test_sums_go_over_all_numbers(queue: celerity.Queue) -> None:
    u, v = field(), field("v")
    wide = FIELD.astype(np.float64)
    assert queue.dot(u, v).result(10) == (wide * wide).sum()
    assert queue.norm(u).result(10) == np.sqrt((wide * wide).sum())
    assert queue.any(u).result(10) is True
    one = celerity.Buffer.from_array(np.array([0, 0, 1]), element=3)
    assert queue.any(one).result(10) is True
    queue.fill(one, 0)
    assert queue.any(one).result(10) is False
    with pytest.raises(UsageError, match=r"has \(7, 5\) and float32 with element=\(2, 3\), and .* element=\(6,\)"):
        queue.dot(u, celerity.Buffer((7, 5), element=6))


def test_a_loop_keeps_elements(queue: celerity.Queue) -> None:
    u = field()

    def add(chunk: celerity.Chunk, u: celerity.View) -> None:
        u[chunk.box] += 1

    def first() -> Any:
        return queue.fence(u, Box((0, 0), (1, 1)))

    for _ in queue.until(first, when=lambda found: found[0, 0, 0, 0] >= 3, at_most=9, keep=lambda: u):
        queue.parallel_for(u.shape, add, u.read_write(access.one_to_one()))
    np.testing.assert_array_equal(queue.fence(u).result(10), FIELD + 3)


# ---- what the graphs and the checks see


def test_bytes_are_those_of_whole_elements() -> None:
    with celerity.Queue() as queue:
        u = field()
        queue.fence(u).result(10)
        queue.wait()
        assert queue.statistics().executor["copied_bytes"]["fence"] == FIELD.nbytes


def leave_an_element(queue: celerity.Queue, dtype: Any) -> None:
    u = celerity.Buffer(4, dtype, element=(2, 3), name="u")

    def partly(chunk: celerity.Chunk, u: celerity.View) -> None:
        u[chunk.box.min[0] + 1] = True

    for _ in range(12):
        queue.parallel_for(4, partly, u.write(access.one_to_one()))
        queue.wait()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.complex64, np.bool_])
def test_an_unwritten_element_is_found(dtype: Any) -> None:
    assert fill_of(np.dtype((dtype, (2, 3)))).num_words == 6 * fill_of(np.dtype(dtype)).num_words
    celerity.configure(check=True, devices="cpu:2")
    try:
        with (
            pytest.raises(IncompleteWrite, match=r"leaves 1 of these 2 elements unwritten, first \[[02]:[13]\]"),
            celerity.Queue() as queue,
        ):
            leave_an_element(queue, dtype)
    finally:
        celerity.configure(check=None, devices=None)
