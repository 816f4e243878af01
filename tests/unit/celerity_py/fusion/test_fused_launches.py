# SPDX-License-Identifier: MIT
"""How the passes of fused kernels are launched, and which columns threads access as vectors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py.fusion.emission
from celerity_py import Box
from celerity_py.fusion.kernels import FusedKernel
from celerity_py.fusion.launches import PassLaunch, Shape, WideMemory
from celerity_py.fusion.tiling import Tile
from tests.support.fused_kernels import (
    Access,
    Given,
    Grid,
    begin_pass,
    compile_texts,
    describe_difference,
    given_to,
    launch,
    make_kernel,
    run_on_numpy,
)

ONE_DIM = PassLaunch(0, 1, Shape((256,), (4,)), (WideMemory(0, 0, 1, 4),), (0, 0), 2, Shape((128,), (1,)))
TWO_DIMS = PassLaunch(
    2,
    2,
    Shape((4, 64), (1, 4)),
    (WideMemory(0, 0, 2, 4), WideMemory(1, 2, 2, 8)),
    (0, 0),
    6,
    Shape((1, 32), (2, 1)),
)
ROWS = [0, 0, 1, 9, 1, 99, 1, 1, 1, 1, 99]


def _wave(chunk: Any, u_next: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 1)
    u_next[inner] = u[inner.shift(-1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)] + u[inner]


def _begin(one: PassLaunch, numbers: list[int], addresses: list[int], strides: list[int]) -> tuple[list[int], Grid]:
    """The columns of vectors and the column at which threads begin; and the grid."""
    assert one.wide_bounds is not None
    given = Given(addresses, strides, list(numbers), np.zeros(2), [])
    grid = begin_pass(one, given)
    return given.numbers[one.wide_bounds : one.wide_bounds + 3], grid


def _make(function: Callable[..., Any], shape: tuple[int, ...], *dtypes: str, **options: Any) -> FusedKernel:
    return make_kernel(
        function, Box([0] * len(shape), shape), *(Access(np.zeros(shape, one)) for one in dtypes), **options
    )


@pytest.mark.parametrize(
    ("low", "high", "address", "expected"),
    [
        (0, 16, 4096, (0, 16)),
        (1, 15, 4096, (4, 12)),
        (1, 15, 4096 - 4, (1, 13)),  # the column 1 is aligned
        (1, 15, 4096 + 4, (3, 15)),
        (-3, 15, 4096, (0, 12)),
        (1, 7, 4096, (1, 1)),
        (1, 15, 4096 + 2, (1, 1)),
    ],
)
def test_vectors_lie_on_aligned_columns_within_the_box(
    low: int, high: int, address: int, expected: tuple[int, int]
) -> None:
    columns, _ = _begin(ONE_DIM, [low, high, low, low, low, low, high], [address], [4])
    assert (columns[0], columns[1]) == expected


def test_columns_that_vectors_touch_beside_their_items_stay_within_the_box() -> None:
    one = replace(ONE_DIM, margins=(1, 3))
    assert _begin(one, [4, 20, 4, 4, 4, 4, 20], [4096], [4])[0] == [8, 16, 0]


@pytest.mark.parametrize(
    ("addresses", "strides", "expected"),
    [
        ([4096, 8192], [400, 4, 800, 8], (4, 96)),
        ([4096, 8192], [404, 4, 800, 8], (1, 1)),  # the rows of the first one have different addresses modulo 16
        ([4096, 8192], [400, 4, 808, 8], (1, 1)),
        ([4096, 8200], [400, 4, 800, 8], (1, 1)),  # never aligned at the same columns
        ([4096, 8192], [400, 4, 800, 16], (1, 1)),  # elements do not lie next to each other
    ],
)
def test_all_memories_must_be_aligned(addresses: list[int], strides: list[int], expected: tuple[int, int]) -> None:
    columns, _ = _begin(TWO_DIMS, ROWS, addresses, strides)
    assert (columns[0], columns[1]) == expected


def test_threads_of_vectors_and_of_single_columns_are_counted() -> None:
    one = replace(TWO_DIMS, shape=Shape((1, 1), (1, 4)), single=Shape((1, 1), (2, 1)))
    assert _begin(one, ROWS, [4096, 8192], [400, 4, 800, 8])[1] == ([25, 8, 1], [1, 1, 1], False)
    assert _begin(one, ROWS, [4096, 8192], [404, 4, 800, 8])[1] == ([98, 4, 1], [1, 1, 1], True)
    many = [0, 0, 1, 1000, 1, 9999, 1, 1, 1, 1, 9999]
    wide = _begin(TWO_DIMS, many, [4096, 8192], [40_000, 4, 80_000, 8])
    assert wide == ([4, 9996, 0], ([40, 250, 1], [64, 4, 1], False))
    single = _begin(TWO_DIMS, many, [4096, 8192], [40_004, 4, 80_000, 8])
    assert single == ([1, 1, 1], ([313, 500, 1], [32, 1, 1], True))


def test_a_pass_without_items_has_no_blocks() -> None:
    assert _begin(ONE_DIM, [3, 3, 3, 3, 3, 3, 3], [4096], [4])[1].blocks == [0, 0, 0]


@pytest.mark.parametrize(
    ("low", "limits", "address", "expected"),
    [
        (0, (0, 64), 4096, (0, 64, 0)),
        (1, (1, 64), 4096, (4, 64, 0)),
        (33, (33, 64), 4096, (36, 64, 32)),
        (1, (1, 64), 4096 + 16, (4, 64, -4)),
        (1, (1, 64), 4096 - 16, (4, 64, -28)),  # column 4 begins a line, and column 1 lies before it
        (0, (70, 99), 4096, (72, 96, 0)),  # an interior whose sides take whole lines
        (3, (70, 99), 4096 + 8, (70, 98, -2)),
        (-40, (-40, 64), 4096, (-40, 64, -64)),
    ],
)
def test_threads_begin_at_cache_lines(
    low: int, limits: tuple[int, int], address: int, expected: tuple[int, int, int]
) -> None:
    assert _begin(ONE_DIM, [low, 99, low, low, low, *limits], [address], [4])[0] == list(expected)


def test_a_launch_that_sets_no_columns_uses_no_vectors() -> None:
    kernel = _make(_wave, (40, 50), "f4", "f4")
    (one,) = kernel.passes
    assert one.wide_bounds is not None
    first, last = kernel.numbers[one.wide_bounds : one.wide_bounds + 2]
    assert first == last == 1


def test_bounds_of_the_grid_are_those_of_the_pass() -> None:
    (one,) = _make(_wave, (40, 50), "f4", "f4").passes
    kernel = _make(_wave, (40, 50), "f4", "f4")
    assert kernel.numbers[one.bounds : one.bounds + 4] == (1, 39, 1, 49)
    assert (one.dims, len(one.shape.block), len(one.shape.items)) == (2, 2, 2)


def test_vectors_have_16_bytes_of_the_widest_type() -> None:
    def copy(chunk: Any, a: Any, b: Any) -> None:
        a[chunk.box] = b[chunk.box]

    def columns(*dtypes: str) -> int:
        return _make(copy, (40, 50), *dtypes).passes[0].shape.items[-1]

    expected = {"f4": 4, "f8": 2, "F": 2, "D": 2, "i1": 4}
    assert {dtype: columns(dtype, dtype) for dtype in expected} == expected
    assert columns("f8", "f4") == 2


def test_rows_share_what_items_with_many_neighbours_load() -> None:
    def function(chunk: Any, a: Any, b: Any) -> None:
        inner = chunk.box.shrink(1, 1, 1)
        shifts = list(itertools.product((-1, 0, 1), repeat=3))
        a[inner] = sum((b[inner.shift(*shift)] for shift in shifts[1:]), b[inner.shift(*shifts[0])])

    (one,) = _make(function, (9, 9, 9), "f4", "f4").passes
    assert one.shape == ((1, 8, 16), (1, 4, 4))
    assert one.single == ((1, 1, 256), (1, 4, 1))


def test_components_of_elements_are_no_vectors() -> None:
    def function(chunk: Any, p: Any) -> None:
        p[chunk.box] += 1

    kernel = make_kernel(function, Box((0,), (9,)), Access(np.zeros((9, 3), "f4"), element_ndim=1))
    (one,) = kernel.passes
    assert (one.wide_bounds, one.dims, one.shape.items, one.single) == (None, 1, (1,), None)


def test_the_parameter_block_has_words_without_gaps() -> None:
    arguments = Access(np.zeros((40, 48), "f4")), Access(np.zeros((40, 48), "f4"))
    kernel = make_kernel(_wave, Box((0, 0), (40, 48)), *arguments)
    given = given_to(kernel, arguments, [one.array for one in arguments])
    assert f"launch_of<2, 4, {len(kernel.numbers)}, 1>" in kernel.text
    assert given.block().nbytes == 8 * (2 + 4 + len(kernel.numbers)) + 16


def test_large_coordinates_need_64_bits() -> None:
    def function(chunk: Any, a: Any) -> None:
        a[chunk.box] = chunk.index(0)

    def fits(low: int) -> bool:
        box = Box((low,), (low + 10,))
        field = np.lib.stride_tricks.as_strided(np.zeros(1), (low + 10,), (0,))
        return make_kernel(function, box, Access(field)).has_small_coordinates

    assert fits(2**29)
    assert not fits(2**30)


def test_a_tile_may_be_chosen() -> None:
    (one,) = _make(_wave, (40, 50), "f4", "f4", choose=lambda *_: Tile(3, 2, (2, 32))).passes
    assert one.shape == ((2, 32), (3, 2))


def test_rows_that_no_grid_covers_are_visited_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(chunk: Any, a: Any) -> None:
        a[chunk.box] += chunk.index(0) + 100 * chunk.index(1)

    monkeypatch.setattr(celerity_py.fusion.emission, "MAX_GRID", 2)
    box, found, expected = Box((0, 0), (70, 9)), Access(np.zeros((70, 9))), Access(np.zeros((70, 9)))
    kernel = make_kernel(function, box, found)
    assert "CELERITY_TILES(y" in kernel.text
    launch(compile_texts([kernel.text], tmp_path), kernel, [found], draws=random.Random(1))
    run_on_numpy(function, box, [expected])
    assert describe_difference(kernel, [expected], [found]) == ""
    assert "CELERITY_TILE(y" in make_kernel(function, Box((0, 0), (16, 9)), found).text
