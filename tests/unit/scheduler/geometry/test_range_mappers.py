# SPDX-License-Identifier: MIT
"""Which part of a buffer each built-in range mapper gives to a chunk."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from celerity_py import access
from celerity_py._native import Box, RangeMapper, Region
from celerity_py._native_testing import check_dimensions, map_chunk, split_into_blocks
from celerity_py.submit.violations import explain_misfit

if TYPE_CHECKING:
    from collections.abc import Callable

EXTENT = 9
SHAPES = ("box", "axes")


def whole(*shape: int) -> Box:
    return Box((0,) * len(shape), shape)


def region(*parts: Box) -> Region:
    return Region(parts)


@st.composite
def chunks_and_buffers(draw: st.DrawFn) -> tuple[Box, tuple[int, ...], tuple[int, ...]]:
    """A chunk of a cube, the shape of a buffer, and an extent in each dimension."""
    dims = draw(st.integers(0, 3))
    corner = st.tuples(*[st.integers(0, EXTENT)] * dims)
    shape = draw(st.tuples(*[st.integers(1, EXTENT + 2)] * dims))
    return Box(draw(corner), draw(corner)), shape, draw(st.tuples(*[st.integers(0, 3)] * dims))


@given(chunks_and_buffers(), st.sampled_from(SHAPES))
def test_a_neighborhood_is_a_dilation(case: tuple[Box, tuple[int, ...], tuple[int, ...]], shape: str) -> None:
    chunk, buffer_shape, extents = case
    dims = len(buffer_shape)
    expected = np.zeros(buffer_shape, dtype=bool)
    offsets = (
        itertools.product(*[range(-e, e + 1) for e in extents])
        if shape == "box"
        else [tuple(n if i == d else 0 for i in range(dims)) for d, e in enumerate(extents) for n in range(-e, e + 1)]
        or [()]
    )
    for offset in offsets:
        expected[(chunk.shift(*offset) & whole(*buffer_shape)).slices] = True
    result = map_chunk(
        RangeMapper.built_in("neighborhood", extents, (SHAPES.index(shape),)),
        chunk,
        whole(*[EXTENT] * dims),
        buffer_shape,
    )
    mask = np.zeros(buffer_shape, dtype=bool)
    for box in result.boxes:
        mask[box.slices] = True
    assert (mask == expected).all()
    assert result == Region(result.boxes)


@given(chunks_and_buffers())
def test_one_to_one_is_the_chunk_clamped_to_the_buffer(case: tuple[Box, tuple[int, ...], tuple[int, ...]]) -> None:
    chunk, shape, _ = case
    result = map_chunk(access.one_to_one(), chunk, whole(*[EXTENT] * len(shape)), shape)
    assert result == region(chunk & whole(*shape))


def test_all_and_fixed_do_not_depend_on_the_chunk() -> None:
    space = whole(8)
    part = region(Box((0, 0), (2, 2)), Box((4, 4), (6, 9)))
    for chunk in split_into_blocks(space, (1,), 2):
        assert map_chunk(access.all(), chunk, space, (5, 5)) == region(whole(5, 5))
        assert map_chunk(RangeMapper.fixed(Box((1, 1), (9, 2))), chunk, space, (5, 5)) == region(Box((1, 1), (5, 2)))
        assert map_chunk(RangeMapper.fixed(part), chunk, space, (5, 5)) == part & whole(5, 5)


def test_a_slice_is_whole_in_its_dimension() -> None:
    chunk = Box((2, 3), (4, 5))
    assert map_chunk(access.slice(0), chunk, whole(8, 8), (16, 8)) == region(Box((0, 3), (16, 5)))
    assert map_chunk(access.slice(1), chunk, whole(8, 8), (8, 16)) == region(Box((2, 0), (4, 16)))


def test_a_slice_of_a_buffer_with_one_dimension_more_takes_the_others_in_order() -> None:
    line, tile = Box((2,), (4,)), Box((2, 3), (4, 5))
    assert map_chunk(access.slice(0), line, whole(8), (7, 8)) == region(Box((0, 2), (7, 4)))
    assert map_chunk(access.slice(1), line, whole(8), (8, 7)) == region(Box((2, 0), (4, 7)))
    assert map_chunk(access.slice(1), tile, whole(8, 8), (8, 7, 8)) == region(Box((2, 0, 3), (4, 7, 5)))
    assert map_chunk(access.slice(0), Box((), ()), Box((), ()), (7,)) == region(whole(7))


def test_slice_at_an_index_is_one_element_thick() -> None:
    line, tile = Box((2,), (4,)), Box((2, 3), (4, 5))
    assert map_chunk(access.slice(0, at=6), line, whole(8), (7, 8)) == region(Box((6, 2), (7, 4)))
    assert map_chunk(access.slice(1, at=0), line, whole(8), (8, 7)) == region(Box((2, 0), (4, 1)))
    assert map_chunk(access.slice(1, at=3), tile, whole(8, 8), (8, 7, 8)) == region(Box((2, 3, 3), (4, 4, 5)))
    assert map_chunk(access.slice(0, at=5), tile, whole(8, 8), (16, 8)) == region(Box((5, 3), (6, 5)))
    assert map_chunk(access.slice(0, at=6), line, whole(8), (7, 3)) == region(Box((6, 2), (7, 3)))  # clamped
    for outside in (7, 2**63 - 1):
        assert not map_chunk(access.slice(0, at=outside), line, whole(8), (7, 8))


def test_a_permutation_transposes() -> None:
    chunk = Box((0, 1, 2), (3, 5, 7))
    assert map_chunk(RangeMapper.built_in("permute", (1, 0)), Box((2, 3), (4, 8)), whole(8, 8), (8, 8)) == region(
        Box((3, 2), (8, 4))
    )
    assert map_chunk(RangeMapper.built_in("permute", (2, 0, 1)), chunk, whole(8, 8, 8), (8, 8, 8)) == region(
        Box((2, 0, 1), (7, 3, 5))
    )
    assert map_chunk(RangeMapper.built_in("permute", (2,)), chunk, whole(8, 8, 8), (5,)) == region(Box((2,), (5,)))


@given(extent=st.integers(1, 200), items=st.integers(1, 12), granularity=st.integers(1, 20), offset=st.integers(0, 5))
def test_an_even_split_deals_blocks_of_the_granularity(extent: int, items: int, granularity: int, offset: int) -> None:
    mapper = access.even_split(granularity)
    space = Box((offset,), (offset + items,))
    parts = [map_chunk(mapper, Box((i,), (i + 1,)), space, (extent, 3)) for i in range(offset, offset + items)]
    step = extent // (items * granularity) * granularity
    num_larger = (extent - items * step) // granularity
    sizes = [step + (granularity if i < num_larger else 0) for i in range(items)]
    sizes[-1] += extent - sum(sizes)
    assert [part.size for part in parts] == [3 * size for size in sizes]
    assert map_chunk(mapper, space, space, (extent, 3)) == region(whole(extent, 3))
    begin = 0
    for part, size in zip(parts, sizes, strict=True):
        assert part == region(Box((begin, 0), (begin + size, 3)))
        begin += size
    middle = Box((offset + items // 2,), (offset + items,))
    assert map_chunk(mapper, middle, space, (extent, 3)).size == sum(part.size for part in parts[items // 2 :])


def test_an_empty_chunk_maps_to_nothing() -> None:
    empty = Box((0, 0), (0, 0))
    for mapper in (
        access.one_to_one(),
        access.slice(1),
        access.slice(1, at=4),
        access.neighborhood(1, 1),
        access.neighborhood(1, 1, shape="axes"),
        RangeMapper.built_in("permute", (1, 0)),
    ):
        assert not map_chunk(mapper, empty, whole(8, 8), (8, 8))
    assert not map_chunk(access.even_split(), Box((0,), (0,)), whole(4), (8,))


def test_huge_extents_saturate() -> None:
    huge = 2**63 - 1
    chunk = Box((2,), (4,))
    for shape in ("box", "axes"):
        assert map_chunk(access.neighborhood(huge, shape=shape), chunk, whole(8), (8,)) == region(whole(8))
    assert map_chunk(access.even_split(huge), Box((1,), (2,)), whole(2), (8,)) == region(whole(8))


def test_a_table_answers_for_its_chunks_only() -> None:
    space = whole(64)
    chunks = split_into_blocks(space, (1,), 10)
    mapper = RangeMapper.table([(chunk, chunk.shift(1)) for chunk in chunks])
    for chunk in [*chunks, *reversed(chunks)]:
        assert map_chunk(mapper, chunk, space, (64,)) == region(chunk.shift(1) & space)
    with pytest.raises(RuntimeError, match="no range mapper result"):
        map_chunk(mapper, space, space, (64,))


@pytest.mark.parametrize(
    ("make", "kernel_dims", "buffer_dims", "parts"),
    [
        (access.one_to_one, 2, 3, ["one_to_one()", "2 dimensions", "3 dimensions", "slice"]),
        (lambda: RangeMapper.fixed(Box((0,), (4,))), 1, 2, ["fixed(Box((0,), (4,)))", "1 dimension", "2 dimensions"]),
        (lambda: access.slice(2), 2, 2, ["slice(2)", "2 dimensions"]),
        (lambda: access.slice(0), 3, 2, ["slice(0)", "3 dimensions", "2 dimensions"]),
        (
            lambda: access.neighborhood(1, 2, shape="axes"),
            1,
            1,
            ["neighborhood(1, 2, shape='axes')", "2 dimensions", "1 dimension"],
        ),
        (lambda: access.even_split(4), 2, 2, ["even_split(4)", "1 dimension"]),
        (lambda: RangeMapper.built_in("permute", (1, 0)), 2, 3, ["permute(1, 0)", "3 dimensions"]),
        (lambda: RangeMapper.built_in("permute", (2, 0)), 2, 2, ["permute(2, 0)", "dimension 2 of the kernel"]),
    ],
)
def test_a_mismatch_of_dimensions_is_explained(
    make: Callable[[], RangeMapper], kernel_dims: int, buffer_dims: int, parts: list[str]
) -> None:
    mapper = make()
    misfit = check_dimensions(mapper, kernel_dims, buffer_dims)
    sentence = f"{mapper.describe()} {explain_misfit(*misfit, whole(*[4] * kernel_dims), (4,) * buffer_dims)}"
    assert sentence.endswith(".")
    for part in parts:
        assert part in sentence


FITS = ("none", 0)


def test_fitting_dimensions_are_accepted() -> None:
    for dims in range(4):
        assert check_dimensions(access.one_to_one(), dims, dims) == FITS
        assert check_dimensions(access.all(), 1, dims) == FITS
        assert check_dimensions(RangeMapper.fixed(whole(*[4] * dims)), 1, dims) == FITS
        assert check_dimensions(RangeMapper.built_in("neighborhood", (1,) * dims), dims, dims) == FITS
        assert check_dimensions(RangeMapper.built_in("permute", tuple(range(dims))), 3, dims) == FITS
    assert check_dimensions(access.slice(0), 1, 2) == check_dimensions(access.slice(1), 2, 2) == FITS
    assert check_dimensions(access.even_split(), 1, 3) == FITS


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        (("neighborhood", (1, -1)), r"neighborhood\(1, -1\) needs extents of at least 0"),
        (("even_split", (0,)), r"even_split\(0\) needs a granularity of at least 1"),
        (("permute", (0, 0)), r"permute\(0, 0\) needs different dimensions"),
        (("permute", (0, 3)), "between 0 and 2"),
        (("slice", (3,)), r"slice\(3\) needs a dimension between 0 and 2"),
        (("slice", ()), "a dimension"),
        (("slice", (0,), (-2,)), r"slice\(0, at=-2\) needs an index of at least 0"),
        (("all", (1,)), "no numbers"),
        (("fixed", (1,)), "no such mapper"),
        (("round",), "is one of one_to_one, all, slice"),
    ],
)
def test_senseless_parameters_are_refused(given: tuple[Any, ...], needs: str) -> None:
    with pytest.raises(ValueError, match=needs):
        RangeMapper.built_in(*given)
