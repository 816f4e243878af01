# SPDX-License-Identifier: MIT
"""The division of index spaces among ranks and devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native import Box, Region
from celerity_py._native_testing import split, split_by_weights, split_into_blocks

NEVER = float("inf")
COSTS = ((1.0, NEVER, NEVER), (1.0, 1.0, NEVER), (1.0, 1.0, 1.0))


def split_1d(space: Box, granularity: tuple[int, ...], count: int) -> list[Box]:
    return split(space, granularity, COSTS[0], count)


def split_2d(space: Box, granularity: tuple[int, ...], count: int) -> list[Box]:
    return split(space, granularity, COSTS[1], count)


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
    granularity=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    count=st.integers(1, 64),
    weights=st.lists(st.integers(0, 7), min_size=1, max_size=9).filter(any),
)
def test_chunks_partition_the_space_in_multiples_of_the_granularity(
    space: Box, granularity: tuple[int, int, int], count: int, weights: list[int]
) -> None:
    step = granularity[: space.ndim]
    for costs in COSTS:
        chunks = split(space, step, costs, count)
        assert len(chunks) <= count
        assert_partition(chunks, space, granularity)
    weighted = split_by_weights(space, step, weights)
    assert len(weighted) == len(weights)
    assert not any(chunk for chunk, weight in zip(weighted, weights, strict=True) if weight == 0)
    assert_partition([chunk for chunk in weighted if chunk], space, granularity)
    blocks = split_into_blocks(space, step, count)
    assert_partition(blocks, space, granularity)
    assert len({block.shape for block in blocks[1:-1]}) <= 1


def assert_partition(chunks: list[Box], space: Box, granularity: tuple[int, ...]) -> None:
    assert all(chunks)
    assert Region(chunks) == Region([space])
    assert sum(chunk.size for chunk in chunks) == space.size
    for chunk in chunks:
        for d in range(space.ndim):
            is_cut = chunk.shape[d] < space.shape[d]
            assert not is_cut or chunk.shape[d] % granularity[d] == 0 or chunk.max[d] == space.max[d]


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
    assert grid_of(split_2d(whole(64, 1024), (1, 1), 8)) == (1, 8)
    assert grid_of(split_2d(whole(1024, 64), (1, 1), 8)) == (8, 1)
    assert grid_of(split_2d(whole(200, 400), (1, 1), 8)) == (2, 4)


def test_tiles_reach_the_count_asked_for_where_the_shape_allows() -> None:
    assert len(split_2d(whole(2, 1024), (1, 1), 16)) == 16
    assert grid_of(split_2d(whole(1, 1024), (1, 1), 4)) == (1, 4)
    assert grid_of(split_2d(whole(1024, 1), (1, 1), 4)) == (4, 1)
    assert len(split_2d(whole(2, 2), (1, 1), 16)) == 4


def test_tiles_are_in_row_major_order() -> None:
    chunks = split_2d(whole(4, 4), (1, 1), 4)
    assert [chunk.min for chunk in chunks] == [(0, 0), (0, 2), (2, 0), (2, 2)]


def grid_of_3d(shape: tuple[int, ...], costs: tuple[float, float, float], count: int) -> tuple[int, ...]:
    chunks = split(whole(*shape), (1, 1, 1), costs, count)
    return tuple(len({chunk.min[d] for chunk in chunks}) for d in range(3))


def test_a_cube_is_cut_into_cubes() -> None:
    assert grid_of_3d((64, 64, 64), COSTS[2], 8) == (2, 2, 2)
    assert grid_of_3d((64, 64, 64), COSTS[2], 12) == (3, 2, 2)
    assert grid_of_3d((64, 64, 64), COSTS[2], 5) == (5, 1, 1)
    assert grid_of_3d((2, 2, 512), COSTS[2], 8) == (1, 1, 8)
    assert grid_of_3d((2, 3, 2), COSTS[2], 64) == (2, 3, 2)


def test_dear_cuts_are_avoided() -> None:
    assert grid_of_3d((64, 64, 64), (1.0, 5.0, NEVER), 4) == (4, 1, 1)
    assert grid_of_3d((64, 64, 64), (NEVER, 1.0, 1.0), 4) == (1, 2, 2)
    assert grid_of_3d((64, 64, 64), (5.0, 1.0, 1.0), 8) == (1, 4, 2)
    assert grid_of_3d((64, 64, 64), (0.0, 0.0, 0.0), 8) == (8, 1, 1)


def test_shares_are_proportional_to_weights() -> None:
    assert [chunk.shape for chunk in split_by_weights(whole(80, 2), (1, 1), [3, 1])] == [(60, 2), (20, 2)]
    assert [chunk.shape[0] for chunk in split_by_weights(whole(10), (1,), [0.1, 0.2, 0.7])] == [1, 2, 7]
    assert [chunk.shape[0] for chunk in split_by_weights(whole(43), (4,), [1, 1])] == [20, 23]


def test_a_small_weight_gets_an_item_and_no_weight_none() -> None:
    assert [chunk.size for chunk in split_by_weights(whole(10), (1,), [1, 1000, 1])] == [1, 8, 1]
    assert [chunk.size for chunk in split_by_weights(whole(10), (1,), [0, 1, 0, 1, 0])] == [0, 5, 0, 5, 0]
    assert [chunk.size for chunk in split_by_weights(whole(2), (1,), [1, 0, 1, 1])] == [1, 0, 1, 0]
    assert [chunk.size for chunk in split_by_weights(whole(6), (4,), [1, 1])] == [6, 0]


def test_there_are_at_most_65536_blocks() -> None:
    assert len(split_into_blocks(whole(65536), (1,), 1)) == 65536
    assert len(split_into_blocks(whole(65537), (1,), 1)) == 32769
    assert [block.size for block in split_into_blocks(whole(10), (3,), 4)] == [6, 4]
    assert split_into_blocks(whole(10), (1,), 2**62) == [whole(10)]
