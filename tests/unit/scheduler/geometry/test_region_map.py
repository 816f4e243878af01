# SPDX-License-Identifier: MIT
"""The region map, with integers for values, against an array."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native import Box, Region
from celerity_py._native_testing import RegionMap, split

TILES = (1.0, 1.0, float("inf"))  # the costs of cuts


def boxes(shape: tuple[int, ...]) -> st.SearchStrategy[Box]:
    corner = st.tuples(*[st.integers(0, extent) for extent in shape])
    return st.builds(Box, corner, corner)


def whole(shape: tuple[int, ...]) -> Box:
    return Box((0,) * len(shape), shape)


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, Region, int]], list[Box]]:
    shape = draw(st.sampled_from([(), (9,), (200,), (6, 6), (40, 30), (4, 5, 4)]))
    num_values = draw(st.sampled_from([2, 3, 1000]))
    where = st.lists(boxes(shape), max_size=3).map(Region)
    step = st.tuples(
        st.sampled_from(["update", "update", "modify", "transform"]), where, st.integers(0, num_values - 1)
    )
    return shape, draw(st.lists(step, max_size=60)), draw(st.lists(boxes(shape), max_size=5))


@given(histories())
def test_a_region_map_remembers_what_an_array_remembers(
    history: tuple[tuple[int, ...], list[tuple[str, Region, int]], list[Box]],
) -> None:
    shape, steps, queries = history
    values = np.zeros(shape, dtype=np.int64)
    region_map = RegionMap(whole(shape), 0)
    for operation, where, value in steps:
        if operation == "transform":
            region_map.transform(0, value)
            values[...] = value
        elif operation == "update":
            region_map.update(where, value)
        else:
            region_map.modify(where, -1, value)
        if operation != "transform":
            for box in where.boxes:
                values[box.slices] = value if operation == "update" else value - values[box.slices]
        if (values == values.flat[0]).all():
            assert len(region_map) == 1
    for box in [*queries, whole(shape)]:
        parts = region_map.query(box)
        assert sum(part.size for part, _ in parts) == box.size
        for part, value in parts:
            assert part
            assert part in box
            assert (values[part.slices] == value).all()
    assert sum(part.size for part, _ in region_map.entries()) == values.size


@given(st.permutations(range(16)), st.permutations(range(16)))
def test_writing_a_partition_with_one_value_gives_one_entry(first: list[int], second: list[int]) -> None:
    tiles = split(whole((64, 64)), (1, 1), TILES, 16)
    region_map = RegionMap(whole((64, 64)), 0)
    for i in first:
        region_map.update(tiles[i], i + 1)
    assert len(region_map) == 16
    for i in second:
        region_map.update(tiles[i], 7)
    assert region_map.entries() == [(whole((64, 64)), 7)]


def test_a_pinwheel_of_equal_values_is_one_entry() -> None:
    pinwheel = [
        Box(a, b) for a, b in [((0, 0), (2, 4)), ((0, 4), (4, 6)), ((4, 2), (6, 6)), ((2, 0), (6, 2)), ((2, 2), (4, 4))]
    ]
    for order in itertools.permutations(range(5)):
        region_map = RegionMap(whole((6, 6)), 0)
        for i, box in enumerate(pinwheel):
            region_map.update(box, i + 1)
        for i in order:
            region_map.update(pinwheel[i], 9)
        assert len(region_map) == 1


def test_a_transformation_that_makes_all_values_equal_leaves_one_entry() -> None:
    region_map = RegionMap(whole((64, 64)), 0)
    for i, tile in enumerate(split(whole((64, 64)), (1, 1), TILES, 64)):
        region_map.update(tile, i)
    region_map.transform(0, 3)
    assert region_map.entries() == [(whole((64, 64)), 3)]


def test_writing_the_value_that_is_there_changes_nothing() -> None:
    region_map = RegionMap(whole((8, 8)), 5)
    region_map.update(Box((2, 2), (4, 4)), 5)
    assert len(region_map) == 1


def test_a_hole_that_is_filled_again_disappears() -> None:
    region_map = RegionMap(whole((8, 8)), 0)
    region_map.update(Box((2, 2), (4, 6)), 1)
    assert len(region_map) == 5
    region_map.update(Box((2, 2), (3, 6)), 0)
    region_map.update(Box((3, 2), (4, 6)), 0)
    assert len(region_map) == 1


def test_updates_and_queries_are_clamped_to_the_domain() -> None:
    region_map = RegionMap(Box((2, 2), (6, 6)), 0)
    region_map.update(Box((0, 0), (4, 100)), 1)
    assert sorted(region_map.query(Box((-5, 0), (100, 100))), key=lambda entry: entry[0].min) == [
        (Box((2, 2), (4, 6)), 1),
        (Box((4, 2), (6, 6)), 0),
    ]
    assert region_map.query(Box((6, 6), (9, 9))) == []


def test_modifying_part_of_an_entry_cuts_it() -> None:
    region_map = RegionMap(whole((10,)), 1)
    region_map.modify(Box((4,), (6,)), 1, 10)
    assert sorted(region_map.entries(), key=lambda entry: entry[0].min) == [
        (Box((0,), (4,)), 1),
        (Box((4,), (6,)), 11),
        (Box((6,), (10,)), 1),
    ]


def test_a_map_does_not_grow_with_rows_that_all_look_alike() -> None:
    rows, columns = 3000, 8
    region_map = RegionMap(whole((rows, columns)), 1)
    for row in range(rows):  # the rest of the row is cut off what is below, and not written
        region_map.update(Box((row, 0), (row + 1, 3)), 0)
        assert len(region_map) < 50
    region_map.transform(1, 0)
    assert sorted(region_map.entries(), key=lambda entry: entry[1]) == [
        (Box((0, 0), (rows, 3)), 0),
        (Box((0, 3), (rows, columns)), 1),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_entries_come_and_go(seed: int) -> None:
    shuffled = list(range(3000))
    random.Random(seed).shuffle(shuffled)
    region_map = RegionMap(whole((3000, 8)), -1)
    for i in shuffled:
        region_map.update(Box((i, 0), (i + 1, 8)), i)
    assert len(region_map) == 3000
    for i in shuffled[:100]:
        assert region_map.query(Box((i, 2), (i + 1, 3))) == [(Box((i, 2), (i + 1, 3)), i)]
    for i in shuffled:
        region_map.update(Box((i, 0), (i + 1, 8)), -1)
    assert len(region_map) == 1
