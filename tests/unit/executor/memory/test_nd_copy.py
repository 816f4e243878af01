# SPDX-License-Identifier: MIT
"""Copies of boxes between arrays, compared with NumPy."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from celerity_py import _native_testing
from tests.support.sparse_memory import sparse_zeros

FlatBox = tuple[int, int, int, int, int, int]


def flat(low: tuple[int, ...], high: tuple[int, ...]) -> FlatBox:
    return (*low, *high)  # type: ignore[return-value]


def slices(part: FlatBox, origin: FlatBox) -> tuple[slice, ...]:
    return tuple(slice(part[d] - origin[d], part[d + 3] - origin[d]) for d in range(3))


def shape(box: FlatBox) -> tuple[int, ...]:
    return tuple(box[d + 3] - box[d] for d in range(3))


def random_elements(rng: np.random.Generator, count: int, size: int) -> npt.NDArray[np.void]:
    return rng.integers(0, 256, count * size, np.uint8).view(f"V{size}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[FlatBox, FlatBox, list[FlatBox], int, int]:
    """Source array, destination array, disjoint boxes in both, element size, seed."""
    low = [draw(st.integers(-3, 3)) for _ in range(3)]
    extent = [draw(st.integers(1, 5)) for _ in range(3)]
    common = flat(tuple(low), tuple(a + e for a, e in zip(low, extent, strict=True)))

    def array() -> FlatBox:
        margins = [draw(st.sampled_from([0, 0, 1, 2])) for _ in range(6)]
        return tuple(c - m if d < 3 else c + m for d, (c, m) in enumerate(zip(common, margins, strict=True)))  # type: ignore[return-value]

    boxes = [common]
    for _ in range(draw(st.integers(0, 3))):  # cut the largest in two
        box = boxes.pop(0)
        d = draw(st.integers(0, 2))
        at = draw(st.integers(box[d], box[d + 3]))
        first, second = list(box), list(box)
        first[d + 3] = at
        second[d] = at
        boxes += [tuple(b) for b in (first, second) if b[d] < b[d + 3]]  # type: ignore[misc]
    return array(), array(), boxes, draw(st.sampled_from([1, 2, 3, 4, 8, 12, 16, 24])), draw(st.integers(0, 2**32 - 1))


@given(cases())
def test_boxes_are_copied_between_arrays_of_different_extents(
    case: tuple[FlatBox, FlatBox, list[FlatBox], int, int],
) -> None:
    source_box, destination_box, boxes, size, seed = case
    rng = np.random.default_rng(seed)
    source = random_elements(rng, math.prod(shape(source_box)), size).reshape(shape(source_box))
    destination = random_elements(rng, math.prod(shape(destination_box)), size).reshape(shape(destination_box))
    expected = destination.copy()
    for box in boxes:
        expected[slices(box, destination_box)] = source[slices(box, source_box)]
    _native_testing.copy_boxes(source.ctypes.data, source_box, destination.ctypes.data, destination_box, boxes, size)
    assert np.array_equal(destination, expected)


@given(cases(), st.sampled_from([0, 5, 64]))
def test_boxes_are_packed_one_after_the_other_and_unpacked_again(
    case: tuple[FlatBox, FlatBox, list[FlatBox], int, int], offset: int
) -> None:
    source_box, destination_box, boxes, size, seed = case
    rng = np.random.default_rng(seed)
    source = random_elements(rng, math.prod(shape(source_box)), size).reshape(shape(source_box))
    staging = np.zeros(offset + sum(math.prod(shape(b)) for b in boxes) * size, np.uint8)
    _native_testing.copy_boxes(source.ctypes.data, source_box, staging.ctypes.data + offset, None, boxes, size)
    expected = np.concatenate([source[slices(box, source_box)].reshape(-1) for box in boxes])
    assert np.array_equal(staging[offset:], expected.view(np.uint8))

    destination = np.zeros(shape(destination_box), f"V{size}")
    _native_testing.copy_boxes(
        staging.ctypes.data + offset, None, destination.ctypes.data, destination_box, boxes, size
    )
    for box in boxes:
        assert np.array_equal(destination[slices(box, destination_box)], source[slices(box, source_box)])


WHOLE: FlatBox = (0, 0, 0, 4, 5, 6)


@pytest.mark.parametrize(
    ("source", "destination", "box", "runs"),
    [
        pytest.param(WHOLE, WHOLE, WHOLE, (1, 4 * 5 * 6 * 8), id="whole-arrays-are-one-run"),
        pytest.param(WHOLE, (1, 0, 0, 3, 5, 6), (1, 0, 0, 3, 5, 6), (1, 2 * 5 * 6 * 8), id="whole-planes-are-one-run"),
        pytest.param(WHOLE, WHOLE, (0, 1, 0, 4, 3, 6), (4, 2 * 6 * 8), id="rows-of-a-plane-join"),
        pytest.param(WHOLE, WHOLE, (0, 0, 2, 4, 5, 3), (20, 8), id="columns-are-single-elements"),
        pytest.param(WHOLE, (0, 1, 0, 1, 2, 6), (0, 1, 0, 1, 2, 6), (1, 6 * 8), id="one-row"),
        pytest.param((0, 0, 0, 9, 1, 1), (3, 0, 0, 5, 1, 1), (3, 0, 0, 5, 1, 1), (1, 2 * 8), id="one-dimension"),
        pytest.param((0, 0, 0, 9, 7, 1), (0, 3, 0, 9, 4, 1), (0, 3, 0, 9, 4, 1), (9, 8), id="a-halo-column"),
    ],
)
def test_copies_use_the_longest_contiguous_runs(
    source: FlatBox, destination: FlatBox, box: FlatBox, runs: tuple[int, int]
) -> None:
    assert _native_testing.copy_shape(source, destination, [box], 8) == [runs]


def test_an_empty_box_copies_nothing() -> None:
    destination = np.zeros(4, np.uint8)
    source = np.ones(4, np.uint8)
    empty: FlatBox = (0, 0, 0, 0, 0, 0)
    array: FlatBox = (0, 0, 0, 4, 1, 1)
    _native_testing.copy_boxes(source.ctypes.data, array, destination.ctypes.data, array, [empty], 1)
    assert not destination.any()


HUGE = 2**31 + 7


@pytest.mark.parametrize("huge_side", ["source", "destination", "both"])
@pytest.mark.parametrize(
    ("huge", "box"),
    [
        pytest.param((0, 0, 0, HUGE, 1, 1), (HUGE - 5, 0, 0, HUGE, 1, 1), id="far-in-one-dimension"),
        pytest.param((0, 0, 0, HUGE, 3, 1), (HUGE - 5, 1, 0, HUGE, 2, 1), id="rows-beyond-32-bits"),
        pytest.param((0, 0, 0, 3, 4, HUGE), (1, 1, HUGE - 3, 3, 4, HUGE), id="strides-beyond-32-bits"),
        pytest.param(
            (0, 2**40, 0, 2, 2**40 + HUGE, 3), (0, 2**40 + 2**31 - 2, 1, 2, 2**40 + 2**31 + 2, 3), id="across"
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 8, 12])
def test_boxes_inside_allocations_beyond_32_bits_are_copied_in_place(
    huge: FlatBox, box: FlatBox, size: int, huge_side: str
) -> None:
    source_box, destination_box = huge if huge_side != "destination" else box, huge if huge_side != "source" else box
    source, destination = (sparse_zeros(shape(array), f"V{size}") for array in (source_box, destination_box))
    contents = random_elements(np.random.default_rng(3), math.prod(shape(box)), size).reshape(shape(box))
    source[slices(box, source_box)] = contents
    _native_testing.copy_boxes(source.ctypes.data, source_box, destination.ctypes.data, destination_box, [box], size)
    assert np.array_equal(destination[slices(box, destination_box)], contents)
    around = tuple(slice(max(0, inner.start - 1), inner.stop + 1) for inner in slices(box, destination_box))
    assert np.count_nonzero(destination[around]) == np.count_nonzero(contents)


def test_packing_goes_on_beyond_two_to_the_31_bytes() -> None:
    array: FlatBox = (0, 0, 0, 1, 4, 8)
    source = random_elements(np.random.default_rng(3), 32, 8).reshape(shape(array))
    staging = sparse_zeros((HUGE + 32 * 8,), np.uint8)
    rows: list[FlatBox] = [(0, row, 1, 1, row + 1, 7) for row in range(4)]
    _native_testing.copy_boxes(source.ctypes.data, array, staging.ctypes.data + HUGE, None, rows, 8)
    expected = np.ascontiguousarray(source[:, :, 1:7]).view(np.uint8).reshape(-1)
    assert np.array_equal(staging[HUGE : HUGE + expected.size], expected)
    destination = np.zeros_like(source)
    _native_testing.copy_boxes(staging.ctypes.data + HUGE, None, destination.ctypes.data, array, rows, 8)
    assert np.array_equal(destination[:, :, 1:7], source[:, :, 1:7])
