# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native import Payload
from celerity_py._native_testing import layout_of


class Layout(NamedTuple):
    """Contiguous bytes, repeated by nested strides."""

    run_bytes: int
    loops: list[tuple[int, int]]


def strided_layout(
    shape: tuple[int, ...], offset: tuple[int, ...], extent: tuple[int, ...], element_size: int
) -> tuple[int, Layout]:
    box: Any = Payload(0, 0, 0, 0, shape, offset, extent, element_size)  # type: ignore[arg-type]  # up to three dimensions
    first_byte, run_bytes, loops = layout_of(box)
    return first_byte, Layout(run_bytes, loops)


@st.composite
def boxes_in_allocations(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    offset = tuple(draw(st.integers(0, allocated - 1)) for allocated in shape)
    extent = tuple(draw(st.integers(0, allocated - start)) for allocated, start in zip(shape, offset, strict=True))
    return shape, offset, extent


def bytes_of(first_byte: int, layout: Layout) -> list[int]:
    starts = [first_byte]
    for count, stride in layout.loops:
        starts = [start + i * stride for i in range(count) for start in starts]
    return [start + byte for start in starts for byte in range(layout.run_bytes)]


@given(boxes_in_allocations(), st.sampled_from([1, 3, 8]))
def test_a_layout_visits_exactly_the_bytes_of_the_box_in_row_major_order(
    box: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], element_size: int
) -> None:
    shape, offset, extent = box
    allocation = np.arange(math.prod(shape) * element_size).reshape((*shape, element_size))
    inside = tuple(slice(start, start + count) for start, count in zip(offset, extent, strict=True))
    first_byte, layout = strided_layout(shape, offset, extent, element_size)
    assert bytes_of(first_byte, layout) == allocation[inside].ravel().tolist()


def test_leading_unit_dimensions_and_the_position_do_not_change_the_layout() -> None:
    first_byte, column = strided_layout((1, 100, 40), (0, 3, 7), (1, 20, 1), 4)
    assert first_byte == (3 * 40 + 7) * 4
    assert column == Layout(4, [(20, 160)])
    assert strided_layout((100, 40), (50, 39), (20, 1), 4)[1] == column


def test_full_inner_dimensions_are_one_run() -> None:
    assert strided_layout((8, 16, 32), (2, 0, 0), (3, 16, 32), 8)[1] == Layout(3 * 16 * 32 * 8, [])


def test_a_box_with_more_than_two_to_the_31_elements_has_a_layout() -> None:
    _, layout = strided_layout((2**33, 3), (5, 1), (2**32, 1), 8)
    assert layout == Layout(8, [(2**32, 24)])
