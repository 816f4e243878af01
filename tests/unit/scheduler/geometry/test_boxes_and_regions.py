# SPDX-License-Identifier: MIT
"""`Box` and `Region` against element-wise brute force in NumPy, and their named behaviours."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native import Box, Region, box_from_flat
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError

EXTENT = 6
Mask: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"


def boxes(dims: int) -> st.SearchStrategy[Box]:
    corner = st.tuples(*[st.integers(0, EXTENT)] * dims)
    return st.builds(Box, corner, corner)


@st.composite
def two_box_lists(draw: st.DrawFn) -> tuple[int, list[Box], list[Box]]:
    dims = draw(st.integers(0, 3))
    lists = st.lists(boxes(dims), max_size=draw(st.sampled_from([2, 5, 24])))
    return dims, draw(lists), draw(lists)


def mask_of(dims: int, parts: list[Box] | tuple[Box, ...]) -> Mask:
    mask = np.zeros((EXTENT,) * dims, dtype=bool)
    for part in parts:
        mask[part.slices] = True
    return mask


def runs_along(dim: int, parts: list[Box]) -> list[Box]:
    """Join boxes that continue each other in `dim` and are alike otherwise."""
    joined: dict[tuple[int, ...], list[list[int]]] = {}
    for part in sorted(parts, key=lambda b: b.min[dim]):
        others = (*part.min[:dim], *part.min[dim + 1 :], *part.max[:dim], *part.max[dim + 1 :])
        runs = joined.setdefault(others, [])
        if runs and runs[-1][1] == part.min[dim]:
            runs[-1][1] = part.max[dim]
        else:
            runs.append([part.min[dim], part.max[dim]])
    result = []
    for others, runs in joined.items():
        lower, upper = list(others[: len(others) // 2]), list(others[len(others) // 2 :])
        for begin, end in runs:
            result.append(Box((*lower[:dim], begin, *lower[dim:]), (*upper[:dim], end, *upper[dim:])))
    return result


def normal_form(mask: Mask) -> tuple[Box, ...]:
    """By definition: as long as possible in the last dimension first, sorted by min."""
    parts = [Box(tuple(i), tuple(j + 1 for j in i)) for i in np.argwhere(mask).tolist()]
    for dim in reversed(range(mask.ndim)):
        parts = runs_along(dim, parts)
    return tuple(sorted(parts, key=lambda b: (b.min, b.max)))


@given(two_box_lists())
def test_region_operators_agree_with_masks_and_return_the_normal_form(lists: tuple[int, list[Box], list[Box]]) -> None:
    dims, list_a, list_b = lists
    a, b = Region(list_a), Region(list_b)
    mask_a, mask_b = mask_of(dims, list_a), mask_of(dims, list_b)
    assert a.boxes == normal_form(mask_a)
    assert (a | b).boxes == normal_form(mask_a | mask_b)
    assert (a & b).boxes == normal_form(mask_a & mask_b)
    assert (a - b).boxes == normal_form(mask_a & ~mask_b)
    assert a.size == mask_a.sum()
    assert bool(a) == bool(mask_a.any())
    assert (b in a) == bool((mask_a >= mask_b).all())
    assert (a == b) == bool((mask_a == mask_b).all())
    if a == b:
        assert hash(a) == hash(b)
    for part in list_b:
        assert (part in a) == bool(mask_a[part.slices].all())
        assert a | part == part | a == a | Region([part])
        assert a & part == part & a == a & Region([part])
        assert a - part == a - Region([part])
        assert part - a == Region([part]) - a


@given(two_box_lists())
def test_elements_are_found_in_regions_and_boxes(lists: tuple[int, list[Box], list[Box]]) -> None:
    dims, parts, _ = lists
    region = Region(parts)
    mask = mask_of(dims, parts)
    for index in np.ndindex(mask.shape):
        assert (index in region) == bool(mask[index])
        assert any(index in part for part in parts) == bool(mask[index])


@given(st.data(), st.integers(0, 3))
def test_box_methods_agree_with_masks(data: st.DataObject, dims: int) -> None:
    a, b = data.draw(boxes(dims)), data.draw(boxes(dims))
    mask_a, mask_b = mask_of(dims, [a]), mask_of(dims, [b])
    assert (mask_of(dims, [a & b]) == (mask_a & mask_b)).all()
    assert a.size == mask_a.sum()
    assert a.size == np.prod(a.shape, dtype=int)
    assert (b in a) == bool((mask_a >= mask_b).all())
    assert mask_a[a.slices].shape == a.shape
    assert box_from_flat(a.flat(), dims) == a
    hull = Region([a, b]).bounding_box
    assert hull == a or b
    assert a in hull
    assert np.zeros(hull.shape)[a.relative_slices(hull)].shape == a.shape


@given(st.data(), st.integers(1, 3))
def test_shift_grow_and_shrink_move_the_corners(data: st.DataObject, dims: int) -> None:
    box = data.draw(boxes(dims).filter(bool))
    amounts = data.draw(st.tuples(*[st.integers(-3, 3)] * dims))
    moved = box.shift(*amounts)
    assert moved.min == tuple(np.add(box.min, amounts))
    assert moved.shape == box.shape
    assert moved.shift(*(-n for n in amounts)) == box
    grown = Box(tuple(np.subtract(box.min, amounts)), tuple(np.add(box.max, amounts)))
    assert box.grow(*amounts) == grown
    assert box.shrink(*(-n for n in amounts)) == grown


def test_an_empty_box_is_normalised_and_false() -> None:
    empty = Box((3, 1), (3, 5))
    assert not empty
    assert (empty.min, empty.max, empty.shape, empty.size) == ((0, 0), (0, 0), (0, 0), 0)
    assert empty == Box((9, 9), (1, 1)) == Box((0, 0), (4, 4)) & Box((4, 0), (8, 4))
    assert not Box((0, 0), (2, 9)).shrink(1, 1)


def test_an_empty_box_stays_empty_when_it_is_moved_or_grown() -> None:
    empty = Box((0,), (0,))
    assert empty.grow(5) == empty.shift(5) == empty


def test_a_box_without_dimensions_holds_one_element() -> None:
    scalar = Box((), ())
    assert scalar
    assert (scalar.shape, scalar.size, scalar.slices, scalar.ndim) == ((), 1, (), 0)
    assert () in scalar
    assert scalar & scalar == scalar == scalar.shift()
    assert repr(scalar) == "Box((), ())"


def test_the_representation_of_boxes_and_regions_can_be_evaluated() -> None:
    line, square = Box((3,), (5,)), Box((0, 0), (4, 4))
    corner = Region([square, Box((2, 2), (6, 6))])
    assert repr(line) == "Box((3,), (5,))"
    assert repr(square) == "Box((0, 0), (4, 4))"
    for thing in (line, square, corner, Region()):
        assert eval(repr(thing)) == thing


def test_boxes_and_regions_are_values() -> None:
    square = Box((0, 0), (4, 4))
    region = Region([square, Box((2, 2), (6, 6))])
    for thing in (square, region):
        assert copy.deepcopy(thing) == thing
        assert pickle.loads(pickle.dumps(thing)) == thing
        assert {thing: "found"}[copy.copy(thing)] == "found"
    assert square != Box((0, 0, 0), (4, 4, 1))
    assert square != "a square"
    with pytest.raises(AttributeError):
        square.min = (1, 1)  # type: ignore[misc]


def test_integers_of_numpy_are_integers() -> None:
    two: Any = np.int64(2)
    corner: Any = np.array([1, 2])
    assert Box(corner, [two + 1, 4]) == Box((1, 2), (3, 4))
    assert Box((0,), (4,)).shift(two) == Box((2,), (6,))


def test_an_integer_is_an_element_of_a_line() -> None:
    assert 3 in Box((0,), (4,))
    assert 4 not in Region([Box((0,), (4,))])


def test_boxes_of_different_dimensions_do_not_mix() -> None:
    line, square = Box((0,), (4,)), Box((0, 0), (4, 4))
    with pytest.raises(DimensionMismatch, match=r"Box\(\(0, 0\), \(4, 4\)\) & Box\(\(0,\), \(4,\)\)") as error:
        square & line
    assert isinstance(error.value, ValueError)
    with pytest.raises(DimensionMismatch):
        Region([square, line])
    with pytest.raises(DimensionMismatch):
        Region([square]) | line
    with pytest.raises(DimensionMismatch):
        line in square  # noqa: B015
    with pytest.raises(DimensionMismatch):
        (1, 2, 3) in square  # noqa: B015
    with pytest.raises(DimensionMismatch):
        square.relative_slices(line)


@pytest.mark.parametrize("method", ["shift", "grow", "shrink"])
def test_a_wrong_number_of_amounts_names_both_numbers(method: str) -> None:
    square = Box((0, 0), (4, 4))
    with pytest.raises(
        DimensionMismatch, match=rf"{method}\(\) takes one integer per dimension.*has 2, but got \(1,\)"
    ):
        getattr(square, method)(1)
    with pytest.raises(TypeError, match="takes integers"):
        getattr(square, method)(1, 0.5)


def test_corners_must_be_sequences_of_up_to_three_integers() -> None:
    with pytest.raises(DimensionMismatch, match="as many integers for `min` as for `max`"):
        Box((1,), (2, 3))
    with pytest.raises(DimensionMismatch, match="at most 3 dimensions"):
        Box((0,) * 4, (1,) * 4)
    with pytest.raises(TypeError, match=r"takes integers, but got 0\.5"):
        Box((0.5,), (1.5,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write Box\(\(0,\), \(4,\)\)"):
        Box(0, 4)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="Region takes boxes"):
        Region([(0, 4)])  # type: ignore[list-item]


def test_slices_relative_to_a_later_origin_would_be_negative() -> None:
    with pytest.raises(ValueError, match="begins before"):
        Box((0,), (4,)).relative_slices(Box((2,), (4,)))


def test_a_region_of_no_boxes_fits_every_number_of_dimensions() -> None:
    square = Region([Box((0, 0), (4, 4))])
    assert Region() | square == square
    assert square - Region() == square
    assert not Region() & square
    assert Region() == square - square
    assert hash(Region()) == hash(square - square)
    with pytest.raises(ValueError, match="not known"):
        _ = Region().bounding_box


LARGEST = 2**63 - 1
EXTREME = Box((-(2**63),), (LARGEST,))


def test_a_shift_beyond_the_coordinates_is_refused() -> None:
    box = Box((0, 0), (5, 5))
    for offsets in ((LARGEST, 0), (0, LARGEST - 4)):
        with pytest.raises(UsageError, match=r"shifted by .* beyond the coordinates"):
            box.shift(*offsets)
    with pytest.raises(UsageError, match="beyond the coordinates"):
        Box((-5,), (5,)).shift(-LARGEST)
    assert box.shift(LARGEST - 5, 0).max == (LARGEST, 5)
    with pytest.raises(UsageError, match=r"from -2\*\*63 to 2\*\*63 - 1, but got 9223372036854775808"):
        box.shift(2**63, 0)


def test_growing_ends_where_the_coordinates_end() -> None:
    box = Box((2,), (5,))
    assert box.grow(LARGEST) == Box((2 - LARGEST,), (LARGEST,))
    assert box.shrink(-LARGEST) == box.grow(LARGEST)
    assert box.shrink(-(2**63)) == box.grow(LARGEST)
    assert not box.grow(-(2**63))
    assert not box.shrink(LARGEST)


@pytest.mark.parametrize("box", [EXTREME, Box((0, 0), (2**32, 2**31)), Box((0, 0, 0), (2**32, 2**32, 2**32))])
def test_a_box_of_too_many_elements_has_no_size(box: Box) -> None:
    for whole in (box, Region([box])):
        with pytest.raises(UsageError, match=r"has 2\*\*63 elements or more"):
            _ = whole.size
    assert Box((0, 0), (2**32, 2**31 - 1)).size == 2**63 - 2**32
    with pytest.raises(UsageError, match=r"has 2\*\*63 elements or more"):
        _ = Region([Box((-(2**62),), (0,)), Box((1,), (2**62 + 1,)), Box((2**62 + 2,), (LARGEST,))]).size


def test_an_extent_that_is_no_coordinate_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has 2\*\*63 elements or more"):
        _ = EXTREME.shape
    assert Box((0, 0), (2**62, 2**62)).shape == (2**62, 2**62)
    with pytest.raises(UsageError, match="from the first element of the other box"):
        Box((2**62,), (2**62 + 1,)).relative_slices(Box((-(2**62) - 5,), (1,)))


def test_elements_beyond_all_boxes_are_in_none() -> None:
    int64: Any = np.int64
    assert LARGEST not in EXTREME
    assert LARGEST - 1 in EXTREME
    assert int64(3) in Box((0,), (5,))
    assert int64(5) not in Region([Box((0,), (5,))])
    with pytest.raises(UsageError, match="`in` takes integers"):
        _ = 2**63 in EXTREME
    with pytest.raises(UsageError, match="Box takes integers"):
        Box((0,), (2**63,))


LINE = Box((2,), (6,))
REGION = Region([LINE])
ANY: Any = None


def among(container: Any, part: Any) -> bool:
    return part in container


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Box(*ANY or ((3,),)), r"Box\(\(3,\)\): a box takes its first element and one past its last"),
        (lambda: Box(*ANY or ()), r"Box\(\): a box takes"),
        (lambda: Box(*ANY or (0, 0, 4, 4)), r"Box\(0, 0, 4, 4\): a box takes .* Box\(\(0, 0\), \(4, 8\)\)"),
        (lambda: Box(**ANY or {"lo": (0,), "hi": (1,)}), r"Box\(lo=\(0,\), hi=\(1,\)\): a box takes"),
        (lambda: Box((0,), **ANY or {"min": (0,)}), r"Box\(\(0,\), min=\(0,\)\): a box takes"),
        (lambda: Box(*ANY or ("a", "b")), "Box takes integers, but got 'a'"),
        (lambda: Box(None, None), r"Box\(None, None\): a box takes its first element"),  # type: ignore[call-overload]
        (lambda: Box((False,), (True,)), "Box takes integers, but got False"),
        (lambda: Box((np.False_,), (np.True_,)), "Box takes integers, but got"),  # type: ignore[arg-type]
        (lambda: LINE.shift(True), "shift takes integers, but got True"),
        (lambda: LINE.grow(True), "grow takes integers, but got True"),
        (lambda: LINE.shrink(True), "shrink takes integers, but got True"),
        (lambda: LINE.shift(**ANY or {"x": 1}), r"shift\(x=1\): it takes one integer per dimension"),
        (lambda: LINE.grow((1,)), r"grow takes integers, but got \(1,\)"),  # type: ignore[arg-type]
        (lambda: LINE.flat(*ANY or (1,)), r"flat\(1\): it takes nothing"),
        (
            lambda: LINE.relative_slices(*ANY or ()),
            "relative_slices takes the Box from whose first element .* not None",
        ),
        (lambda: LINE.relative_slices(3), r"relative_slices takes the Box .* not 3\."),  # type: ignore[arg-type]
        (
            lambda: among(LINE, None),
            r"None in Box\(\(2,\), \(6,\)\): `in` takes a Box, an element as a tuple of integers",
        ),
        (lambda: True in LINE, r"True in Box\("),
        (lambda: (True,) in LINE, "`in` takes integers, but got True"),
        (lambda: among(LINE, "a"), "'a' in Box"),
        (lambda: among(LINE, 1.5), r"1\.5 in Box"),
        (lambda: among(LINE, REGION), r"Region\(.*\) in Box"),
        (lambda: among(REGION, None), r"None in Region\(.*`in` takes a Region, a Box, an element"),
        (lambda: True in REGION, r"True in Region\("),
        (lambda: Region(3), r"Region\(3\): a region takes one list of boxes"),  # type: ignore[call-overload]
        (lambda: Region(None), r"Region\(None\): a region takes"),  # type: ignore[call-overload]
        (lambda: Region(LINE), r"Region\(Box\(.*\)\): .* write Region\(\[box, \.\.\.\]\)"),
        (lambda: Region(*ANY or (LINE, LINE)), r"write Region\(\[box, \.\.\.\]\)"),
        (lambda: Region(REGION), r"a region takes one list of boxes"),  # type: ignore[call-overload]
        (lambda: Region([3]), "Region takes boxes, but got 3"),  # type: ignore[list-item]
    ],
)
def test_a_wrong_use_is_told_in_words_and_not_by_the_signatures_of_the_binding(use: Any, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message) as caught:
        use()
    assert "incompatible" not in str(caught.value)


def test_corners_may_be_given_by_name_and_elements_as_any_sequence() -> None:
    assert Box(min=(2,), max=(6,)) == Box((2,), max=(6,)) == Box(max=[6], min=[2]) == LINE
    assert Region(boxes=[LINE]) == REGION
    assert [2] in LINE
    assert among(REGION, (np.int64(5),))
    assert LINE.relative_slices(origin=Box((1,), (2,))) == (slice(1, 5),)


@pytest.mark.parametrize(
    ("low", "high"), [((), ()), ((3,), (6,)), ((1, 2), (3, 4)), ((0, 5, 1), (2, 6, 4)), ((2, 2), (2, 5))]
)
def test_the_indices_of_a_box_are_its_elements_in_order(low: tuple[int, ...], high: tuple[int, ...]) -> None:
    box = Box(low, high)
    assert list(box.indices()) == list(itertools.product(*map(range, box.min, box.max)))
    assert all(index in box for index in box.indices())


def test_the_indices_of_a_huge_box_come_one_by_one() -> None:
    assert next(Box((2**62, 7), (2**63 - 1, 2**60)).indices()) == (2**62, 7)


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (list, r"is no sequence\. .*view\[box\], or loop over box\.indices\(\)"),
        (len, r"box\.size is the number of elements"),
        (lambda box: box[0], r"box\[0\]: .*box\.min\[0\] and box\.max\[0\] for its bounds"),
        (lambda box: box + 1, r"box \+ 1: Box\(\(0,\), \(4,\)\) .*box\.shift\(1\) moves it"),
        (lambda box: 1 + box, r"1 \+ box: .*box\.shift\(1\)"),
        (lambda box: box - 1, r"box - 1: .*box\.shrink\(1\)"),
        (lambda box: 2 * box, r"2 \* box: "),
        (lambda box: box / 2, r"box / 2: "),
        (lambda box: box + np.zeros(100), r"box \+ <class 'numpy.ndarray'>: "),
        (lambda box: box | Box((6,), (8,)), r"Write Region\(\[box\]\) \| other"),
        (lambda box: box - Box((2,), (4,)), r"Write Region\(\[box\]\) - other"),
    ],
)
def test_a_box_is_no_number_and_no_sequence(use: Callable[[Any], Any], remedy: str) -> None:
    with pytest.raises(ArgumentTypeError, match=remedy):
        use(Box((0,), (4,)))
