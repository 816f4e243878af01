# SPDX-License-Identifier: MIT
"""Views: global coordinates over an allocation that holds only a part of the buffer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from celerity_py._native import Box, Region
from celerity_py.calls.views import View
from celerity_py.errors import DimensionMismatch, OutOfBoundsAccess, ReadOnlyAccess, UnsupportedIndex, UsageError


class FakeBuffer:
    def __init__(self, shape: tuple[int, ...], dtype: Any = np.int64) -> None:
        self.box = Box((0,) * len(shape), shape)
        self.dtype = np.dtype(dtype)
        self.label = 'B3 "u"'
        self.checks_values = False


class FakeTask:
    def describe(self) -> str:
        return 'kernel "step" (submitted at app.py:12)'


def contents(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)


def view_of(
    shape: tuple[int, ...],
    box: Box,
    allocated: Box | None = None,
    declared: Region | None = None,
    writable: bool = True,
) -> View:
    allocated = allocated or box
    where: Any = (*allocated.slices, ...)
    base = contents(shape)[where].copy()
    base.flags.writeable = writable
    buffer: Any = FakeBuffer(shape)
    task: Any = FakeTask()
    return View(base, allocated, box, declared, writable, buffer, task)


@pytest.fixture
def inner() -> View:
    """Rows 4 to 8 of a 10x6 buffer, in an allocation of rows 2 to 10."""
    return view_of((10, 6), Box((4, 0), (8, 6)), allocated=Box((2, 0), (10, 6)))


WHOLE = contents((10, 6))


def test_array_is_the_bounding_box_of_the_access(inner: View) -> None:
    np.testing.assert_array_equal(inner.array, WHOLE[4:8])
    assert inner.box == Box((4, 0), (8, 6))
    assert inner.shape_box == Box((0, 0), (10, 6))
    assert (inner.ndim, inner.dtype) == (2, np.dtype(np.int64))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (Box((5, 1), (7, 3)), WHOLE[5:7, 1:3]),
        ((slice(5, 7), slice(1, 3)), WHOLE[5:7, 1:3]),
        (slice(5, 7), WHOLE[5:7]),
        (slice(None), WHOLE[4:8]),
        (..., WHOLE[4:8]),
        ((...,), WHOLE[4:8]),
        ((slice(6, None), slice(None, 2)), WHOLE[6:8, :2]),
        ((slice(None, 6), ...), WHOLE[4:6]),
        ((..., 3), WHOLE[4:8, 3]),
        ((5, ...), WHOLE[5]),
        (5, WHOLE[5]),
        (np.int32(5), WHOLE[5]),
        ((slice(4, 8, 2), slice(0, 6, 3)), WHOLE[4:8:2, 0:6:3]),
        (slice(None, None, 3), WHOLE[4:8:3]),
        ((slice(4, 8), 2), WHOLE[4:8, 2]),
    ],
)
def test_indices_are_global_coordinates(inner: View, index: Any, expected: np.ndarray[Any, Any]) -> None:
    result = inner[index]
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


def test_an_index_by_integers_alone_gives_a_0d_array_that_aliases(inner: View) -> None:
    cell = inner[5, 2]
    assert isinstance(cell, np.ndarray)
    assert cell.shape == ()
    cell[()] = -7
    assert inner.array[1, 2] == -7


def test_arrays_alias_the_allocation(inner: View) -> None:
    inner[Box((4, 0), (5, 6))][...] = 0
    inner[5, :] = 1
    inner[6:8, 2] = [2, 3]
    inner[...][3, 5] = 4
    expected = WHOLE[4:8].copy()
    expected[0] = 0
    expected[1] = 1
    expected[2:, 2] = [2, 3]
    expected[3, 5] = 4
    np.testing.assert_array_equal(inner.array, expected)


def test_updates_in_place_work_for_small_and_large_boxes() -> None:
    for extent in (8, 100_000):
        view = view_of((extent,), Box((0,), (extent,)))
        view[Box((2,), (extent,))] += 5
        view[:2] *= 3
        expected = contents((extent,))
        expected[2:] += 5
        expected[:2] *= 3
        np.testing.assert_array_equal(view.array, expected)


@pytest.mark.parametrize("index", [Box((5, 5), (5, 5)), (slice(5, 5), slice(0, 6)), (slice(7, 5),), slice(9, 9)])
def test_an_empty_box_gives_an_empty_array(inner: View, index: Any) -> None:
    assert inner[index].size == 0
    inner[index] = 3  # no element, no error


def test_an_empty_slice_keeps_the_other_extents(inner: View) -> None:
    assert inner[5:5, 0:6].shape == (0, 6)
    assert inner[5, 3:3].shape == (0,)
    assert inner[4:8:2, 3:3].shape == (2, 0)


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        (Box((3, 0), (5, 6)), "[3:5, 0:6]"),
        (Box((4, 0), (8, 7)), "[4:8, 0:7]"),
        ((slice(3, 5), slice(None)), "[3:5, :]"),
        ((slice(4, 100), 2), "[4:100, 2]"),
        (3, "[3]"),
        ((5, 6), "[5, 6]"),
        ((slice(2, 8, 2), 0), "[2:8:2, 0]"),
        (Box((-1, 0), (5, 6)), "[-1:5, 0:6]"),
    ],
)
def test_an_index_outside_of_the_declared_region_names_kernel_buffer_index_and_region(
    inner: View, index: Any, shown: str
) -> None:
    with pytest.raises(OutOfBoundsAccess) as caught:
        inner[index]
    message = str(caught.value)
    assert 'kernel "step" (submitted at app.py:12)' in message
    assert 'B3 "u"' in message
    assert f"at {shown}, outside of its declared region [4:8, 0:6]" in message
    assert "[0:10, 0:6]" in message
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, UsageError)


def test_an_index_outside_of_the_buffer_is_not_blamed_on_a_mapper_that_was_clamped(inner: View) -> None:
    with pytest.raises(OutOfBoundsAccess, match=r"Widen the range mapper.* \[0:10, 0:6\]"):
        inner[Box((3, 0), (5, 6))]
    with pytest.raises(OutOfBoundsAccess, match=r"clamped: intersect .* view\.shape_box .* \[0:10, 0:6\]") as caught:
        inner[Box((6, 0), (12, 6))]
    assert "Widen" not in str(caught.value)


@pytest.mark.parametrize("index", [0, slice(0, 4), (slice(1, 3), 2), Box((0, 0), (4, 6))])
def test_an_index_that_may_count_from_the_beginning_of_the_view_is_told_so(inner: View, index: Any) -> None:
    with pytest.raises(
        OutOfBoundsAccess, match=r"region \[4:8, 0:6\]\. Indices are global .* add view\.box\.min.* Otherwise widen the"
    ):
        inner[index]
    for elsewhere in (Box((3, 0), (8, 6)), slice(2, 5)):
        with pytest.raises(OutOfBoundsAccess, match=r"region \[4:8, 0:6\]\. Widen the range mapper"):
            inner[elsewhere]


def test_an_access_that_clamping_left_nothing_of_says_so() -> None:
    nothing = view_of((10, 6), Box((0, 0), (0, 0)))
    with pytest.raises(OutOfBoundsAccess, match=r"outside of its declared region for this chunk, which is empty"):
        nothing[Box((2, 0), (3, 6))]


@pytest.mark.parametrize("index", [-1, (5, -2), (slice(-3, None),), (slice(4, -1), 0), np.int64(-1)])
def test_negative_indices_do_not_count_from_the_end(inner: View, index: Any) -> None:
    with pytest.raises(OutOfBoundsAccess, match="negative ones do not count from the end"):
        inner[index]


@pytest.mark.parametrize(
    ("index", "why"),
    [
        ((slice(4, 8, 0),), "positive step, not 0"),
        ((slice(7, 4, -1),), "positive step, not -1"),
        ((1, 2, 3), "2 dimension.s., the index has 3"),
        ((..., ...), "More than one"),
        ([4, 5], "view.array"),
        (np.array([4, 5]), "view.array"),
        (np.zeros((4, 6), bool), "view.array"),
        (True, "view.array"),
        (None, "view.array"),
        (4.0, "view.array"),
        (slice(4.0, 5.0), "must be integers"),
        (slice(4, True), "must be integers"),
        ((slice(4, 8, True), 0), "must be integers"),
        (Region([Box((4, 0), (5, 6))]), "box by box"),
    ],
)
def test_other_kinds_of_indices_are_refused_with_a_remedy(inner: View, index: Any, why: str) -> None:
    with pytest.raises(UnsupportedIndex, match=why):
        inner[index]


def test_a_box_of_other_dimensions_is_refused_with_names(inner: View) -> None:
    with pytest.raises(DimensionMismatch, match=r'"step".*B3 "u" at \[4:5\], which has 1 dimension.*has 2') as caught:
        inner[Box((4,), (5,))]
    assert "of 2 dimension(s), or write view[...] for all of the access, [4:8, 0:6]." in str(caught.value)


@pytest.mark.parametrize(
    ("index", "shape", "message"),
    [
        (Box((4, 0), (6, 6)), (10, 6), r"\[4:6, 0:6\], where .* shape \(2, 6\)\. .*value\[chunk\.box\.slices\]"),
        (slice(4, 6), (3, 6), r"shape \(2, 6\)\. Assign an array of that shape"),
        (4, (2, 6), r"shape \(6,\)\. Assign"),
        (..., (4,), r"shape \(4, 6\)\. Assign"),
    ],
)
def test_an_array_of_another_shape_is_refused_with_both_shapes(
    inner: View, index: Any, shape: tuple[int, ...], message: str
) -> None:
    before = inner.array.copy()
    given = f'"step" .* assigns an array of int64 and shape {re.escape(str(shape))} to B3 "u" at'
    with pytest.raises(UsageError, match=f"{given} .*{message}"):
        inner[index] = np.ones(shape, np.int64)
    np.testing.assert_array_equal(inner.array, before)


def test_the_array_of_a_view_is_updated_in_place_and_not_replaced(inner: View) -> None:
    expected = inner.array + 1
    inner.array += 1
    np.testing.assert_array_equal(inner.array, expected)
    with pytest.raises(
        UsageError, match=r'"step" .* assigns an array .* to view.array of B3 "u", .*view\.array\[\.\.\.\] ='
    ):
        inner.array = expected + 1
    np.testing.assert_array_equal(inner.array, expected)


@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 1), (2, 6), (1, 2, 6), (1, 1, 1, 1)])
def test_an_array_that_broadcasts_is_assigned(inner: View, shape: tuple[int, ...]) -> None:
    inner[4:6] = np.full(shape, 7, np.int64)
    assert (inner[4:6] == 7).all()


def test_a_region_that_is_no_box_is_checked_exactly() -> None:
    cross = Region([Box((3, 4), (6, 5)), Box((4, 3), (5, 6))])
    view = view_of((10, 10), Box((3, 3), (6, 6)), declared=cross)
    whole = contents((10, 10))
    np.testing.assert_array_equal(view[Box((3, 4), (6, 5))], whole[3:6, 4:5])
    np.testing.assert_array_equal(view[4, 3:6], whole[4, 3:6])
    np.testing.assert_array_equal(view[3:6:2, 4], whole[3:6:2, 4])
    np.testing.assert_array_equal(view.array, whole[3:6, 3:6])
    for index in (Box((3, 3), (4, 4)), (slice(3, 6), slice(3, 6)), ..., (3, 5), (slice(3, 6, 2), slice(3, 6, 2))):
        with pytest.raises(OutOfBoundsAccess, match=r"declared region \{.*\}\. .* between the boxes .* one by one \("):
            view[index]


def test_steps_may_skip_over_what_was_not_declared() -> None:
    rows = Region([Box((0, 0), (1, 6)), Box((2, 0), (3, 6)), Box((4, 0), (5, 6))])
    view = view_of((10, 6), Box((0, 0), (5, 6)), declared=rows)
    np.testing.assert_array_equal(view[0:5:2], WHOLE[0:5:2])
    with pytest.raises(OutOfBoundsAccess):
        view[0:5:3]


def test_a_read_access_cannot_be_written_through() -> None:
    view = view_of((4, 4), Box((0, 0), (4, 4)), writable=False)
    with pytest.raises(ReadOnlyAccess, match=r'kernel "step" .* read access to B3 "u", at \[1:2, :\].*read_write'):
        view[1:2, :] = 0
    with pytest.raises(ValueError, match="read-only"):
        view[...] += 1
    with pytest.raises(ValueError, match="read-only"):
        view[0][...] = 0
    with pytest.raises(ValueError, match="read-only"):
        view.array[0, 0] = 0


@pytest.mark.parametrize("index", [..., (), Box((), ()), (...,)])
def test_a_0d_buffer_has_one_element(index: Any) -> None:
    view = view_of((), Box((), ()))
    assert view[index].shape == ()
    view[index] = 5
    assert view.array[()] == 5
    with pytest.raises(UnsupportedIndex):
        view[0]


def test_a_3d_view_indexes_like_numpy() -> None:
    shape = (5, 6, 7)
    view = view_of(shape, Box((1, 2, 3), (5, 6, 7)))
    whole = contents(shape)
    np.testing.assert_array_equal(view[1:3, 2, 4:7:2], whole[1:3, 2, 4:7:2])
    np.testing.assert_array_equal(view[2, ..., 5], whole[2, 2:6, 5])
    np.testing.assert_array_equal(view[Box((1, 2, 3), (2, 3, 4))], whole[1:2, 2:3, 3:4])


def test_the_box_of_a_task_that_runs_once_is_no_index(inner: View) -> None:
    with pytest.raises(
        DimensionMismatch, match=r"has 0 dimension\(s\), but .* runs once .* write view\[\.\.\.\] for all"
    ):
        inner[Box((), ())]


def test_a_view_converts_to_its_array_but_does_not_iterate(inner: View) -> None:
    np.testing.assert_array_equal(np.asarray(inner), WHOLE[4:8])
    assert np.shares_memory(np.asarray(inner), inner.array)
    with pytest.raises(TypeError):
        iter(inner)
    with pytest.raises(TypeError):
        3 in inner  # type: ignore[operator]  # noqa: B015


def test_a_view_prints_what_it_shows(inner: View) -> None:
    assert repr(inner) == '<writable view of B3 "u", [4:8, 0:6]>'
