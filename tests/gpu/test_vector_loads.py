# SPDX-License-Identifier: MIT
"""Several items per thread on GPUs, and neighbours that are loaded and stored together, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import UsageError

Launch = Callable[..., celerity.Queue]

# Neighbours that fill 2 to 16 bytes.
TYPES = [
    ("unsigned char", np.uint8, 2),
    ("unsigned char", np.uint8, 16),
    ("short", np.int16, 8),
    ("float", np.float32, 1),
    ("float", np.float32, 2),
    ("float", np.float32, 4),
    ("double", np.float64, 2),
    ("float2", np.complex64, 2),
    ("double2", np.complex128, 1),
]
# Shapes and boxes: rows at a multiple of 16 bytes and rows that are not, whole and from odd columns on.
PLACES = [
    ((36, 64), Box((0, 0), (36, 64))),
    ((37, 53), Box((0, 0), (37, 53))),
    ((37, 64), Box((5, 16), (30, 61))),
    ((41, 101), Box((3, 7), (40, 98))),
    ((2, 3), Box((0, 0), (2, 3))),
    ((50, 1), Box((0, 0), (50, 1))),
]


def copying(type_of_element: str, count: int, asks: bool) -> celerity.CudaKernel:
    """Copies, so many neighbours at once where the chunk has them; if it `asks`, only if they lie together."""
    source = f"""
    constexpr bool ASKS = {str(asks).lower()};
    __global__ void copy(celerity::chunk<2> chunk, accessor<{type_of_element}, 2> out,
                         accessor<const {type_of_element}, 2> values) {{
        constexpr int ROWS = chunk.items(0), COLUMNS = chunk.items(1);
        const auto [top, x] = chunk.item().index;
        for (long long y = top; y < min(top + ROWS, chunk.max[0]); ++y) {{
            const bool lie_together = values.lie_together<COLUMNS>(x) && out.lie_together<COLUMNS>(x);
            if (x + COLUMNS <= chunk.max[1] && (lie_together || !ASKS)) {{
                out.store(values.load<COLUMNS>(y, x), y, x);
            }} else {{
                for (long long i = x; i < chunk.max[1]; ++i) out(y, i) = values(y, i);
            }}
        }}
    }}"""
    return celerity.CudaKernel(source, "copy", block=(4, 8), items=(3, count))


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("bounds_check", [False, True])
def test_neighbours_are_copied_wherever_they_lie(launch: Launch, num_gpus: int, bounds_check: bool, asks: bool) -> None:
    queue = launch(num_gpus, bounds_check=bounds_check)
    random = np.random.default_rng(1)
    for type_of_element, dtype, count in TYPES:
        kernel = copying(type_of_element, count, asks)
        results = []
        for (shape, box), hints in product(PLACES, ([], [celerity.hints.split_2d()])):
            values = random.integers(1, 100, size=shape).astype(dtype)
            source = celerity.Buffer.from_array(values)
            out = celerity.Buffer.from_array(np.zeros(shape, dtype))
            queue.parallel_for(
                box, kernel, out.write(access.one_to_one()), source.read(access.one_to_one()), hints=hints
            )
            expected = np.zeros(shape, dtype)
            expected[box.slices] = values[box.slices]
            results.append((queue.fence(out), expected))
        for future, expected in results:
            np.testing.assert_array_equal(future.result(), expected)


def test_every_item_belongs_to_one_thread(queue: celerity.Queue) -> None:
    source = """
    __global__ void count(celerity::chunk<2> chunk, accessor<int, 2> visits) {
        const auto [first_row, first_column] = chunk.item().index;
        for (long long y = first_row; y < chunk.max[0] && (IN_STEPS || y == first_row); y += chunk.step(0)) {
            for (long long x = first_column; x < chunk.max[1] && (IN_STEPS || x == first_column); x += chunk.step(1)) {
                for (int i = 0; i < chunk.items(0); ++i) {
                    for (int j = 0; j < chunk.items(1); ++j) {
                        if (y + i < chunk.max[0] && x + j < chunk.max[1]) visits(y + i, x + j) += 1;
                    }
                }
            }
        }
    }"""
    for items, grid in product([(2, 3), (5, 1), (1, 7), None], [None, (2, 2)]):
        in_steps = f"constexpr bool IN_STEPS = {str(grid is not None).lower()};"
        kernel = celerity.CudaKernel(in_steps + source, "count", block=(4, 8), grid=grid, items=items)
        visits = celerity.Buffer.from_array(np.zeros((61, 103), np.int32))
        queue.parallel_for(Box((2, 3), (60, 101)), kernel, visits.read_write(access.one_to_one()))
        expected = np.zeros((61, 103), np.int32)
        expected[2:60, 3:101] = 1
        np.testing.assert_array_equal(queue.fence(visits).result(), expected, err_msg=f"{items} {grid}")


def test_a_thread_combines_its_items_before_the_block_does(queue: celerity.Queue) -> None:
    source = """
    __global__ void highest(celerity::chunk<1> chunk, accessor<const double, 1> values,
                            reducer<double, celerity::max> out) {
        const long long first = chunk.item()[0];
        double value = out.identity();
        for (int i = 0; i < chunk.items(0); ++i) {
            if (first + i < chunk.max[0]) value = out.fold(value, values(first + i));
        }
        out.combine_block(value);
    }"""
    kernel = celerity.CudaKernel(source, "highest", block=(64,), items=(5,))
    numbers = -1 - np.random.default_rng(2).random(1003)
    for extra in (0.0, np.nan):
        numbers[977] += extra
        out = celerity.Buffer((), np.float64)
        values = celerity.Buffer.from_array(numbers)
        queue.parallel_for(1003, kernel, values.read(access.one_to_one()), celerity.reduction(out, "max"))
        np.testing.assert_array_equal(queue.fence(out).result(), numbers.max())


def test_neighbours_that_do_not_fit_into_one_access_do_not_compile(launch: Launch) -> None:
    queue = launch()
    buffer = celerity.Buffer.from_array(np.zeros((8, 8)))
    source = "__global__ void f(celerity::chunk<2> chunk, accessor<double, 2> a) { a.store(a.load<4>(0, 0), 0, 0); }"
    with pytest.raises(UsageError, match="access 1, 2, 4, 8 or 16 neighbours, of 16 bytes at most together"):
        queue.parallel_for((8, 8), celerity.CudaKernel(source, "f"), buffer.read_write(access.one_to_one()))
