# SPDX-License-Identifier: MIT
"""The division of index spaces among ranks and devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native import Box, Region
from celerity_py._native_testing import split_1d, split_2d


def whole(*shape: int) -> Box:
    return Box((0,) * len(shape), shape)


@given(
    space=st.integers(0, 3).flatmap(
        lambda dims: st.builds(
            lambda origin, shape: Box(origin, tuple(o + s for o, s in zip(origin, shape, strict=True))),
            st.tuples(*[st.integers(0, 50)] * dims),
            st.tuples(*[st.integers(1, 300)] * dims),
        )
    ),
    granularity=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    count=st.integers(1, 64),
)
def test_chunks_partition_the_space_in_multiples_of_the_granularity(
    space: Box, granularity: tuple[int, int], count: int
) -> None:
    for split in (split_1d, split_2d):
        chunks = split(space, granularity[: space.ndim], count)
        assert all(chunks)
        assert len(chunks) <= count
        assert Region(chunks) == Region([space])
        assert sum(chunk.size for chunk in chunks) == space.size
        for chunk in chunks:
            for d in range(min(space.ndim, 2 if split is split_2d else 1)):
                assert chunk.shape[d] % granularity[d] == 0 or chunk.max[d] == space.max[d]


def test_larger_chunks_come_first() -> None:
    assert [chunk.shape[0] for chunk in split_1d(whole(10, 3), (1, 1), 4)] == [3, 3, 2, 2]
    assert [chunk.shape[0] for chunk in split_1d(whole(40), (4,), 4)] == [12, 12, 8, 8]


def test_the_last_chunk_takes_what_is_no_multiple() -> None:
    assert [chunk.shape[0] for chunk in split_1d(whole(43), (4,), 4)] == [12, 12, 8, 11]


def test_there_are_fewer_chunks_than_asked_for_rather_than_empty_ones() -> None:
    assert len(split_1d(whole(3, 100), (1, 1), 8)) == 3
    assert len(split_1d(whole(100), (30,), 8)) == 3
    assert split_1d(whole(5), (8,), 4) == [whole(5)]
    assert split_1d(whole(), (), 4) == [whole()]
    assert split_1d(whole(0), (1,), 4) == []


def test_a_split_keeps_the_offset_of_the_space() -> None:
    assert split_1d(Box((100, 7), (110, 9)), (1, 1), 2) == [Box((100, 7), (105, 9)), Box((105, 7), (110, 9))]


def grid_of(chunks: list[Box]) -> tuple[int, int]:
    return len({chunk.min[0] for chunk in chunks}), len({chunk.min[1] for chunk in chunks})


def test_a_square_is_cut_into_tiles_with_more_cuts_in_dimension_0() -> None:
    assert grid_of(split_2d(whole(128, 128), (1, 1), 4)) == (2, 2)
    assert grid_of(split_2d(whole(128, 128), (1, 1), 8)) == (4, 2)
    assert grid_of(split_2d(whole(128, 128), (1, 1), 6)) == (3, 2)
    assert grid_of(split_2d(whole(128, 128), (1, 1), 7)) == (7, 1)


def test_a_long_space_is_cut_where_it_is_long() -> None:
    assert grid_of(split_2d(whole(64, 1024), (1, 1), 8)) == (2, 4)
    assert grid_of(split_2d(whole(1024, 64), (1, 1), 8)) == (4, 2)


def test_tiles_reach_the_count_asked_for_where_the_shape_allows() -> None:
    assert len(split_2d(whole(2, 1024), (1, 1), 16)) == 16
    assert grid_of(split_2d(whole(1, 1024), (1, 1), 4)) == (1, 4)
    assert grid_of(split_2d(whole(1024, 1), (1, 1), 4)) == (4, 1)
    assert len(split_2d(whole(2, 2), (1, 1), 16)) == 4


def test_tiles_are_in_row_major_order() -> None:
    chunks = split_2d(whole(4, 4), (1, 1), 4)
    assert [chunk.min for chunk in chunks] == [(0, 0), (0, 2), (2, 0), (2, 2)]
