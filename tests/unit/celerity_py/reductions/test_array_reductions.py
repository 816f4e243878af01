# SPDX-License-Identifier: MIT
"""Reductions into buffers with more than one element: each element is a reduction of its own."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import OutOfBoundsAccess, UsageError

SIZE, BINS = 1003, 7
ONE = access.one_to_one()
DATA = np.random.default_rng(5).integers(0, BINS, SIZE)


def count(chunk: celerity.Chunk, values: celerity.View, bins: celerity.Reducer) -> None:
    bins.combine_at(values[chunk.box], 1)


def count_at_once(chunk: celerity.Chunk, values: celerity.View, bins: celerity.Reducer) -> None:
    bins.combine(np.bincount(values[chunk.box], minlength=BINS))


def count_in_place(chunk: celerity.Chunk, values: celerity.View, bins: celerity.Reducer) -> None:
    np.add.at(bins.array, values[chunk.box], 1)


def count_by_assignment(chunk: celerity.Chunk, values: celerity.View, bins: celerity.Reducer) -> None:
    bins.array += np.bincount(values[chunk.box], minlength=BINS)


@pytest.mark.parametrize("kernel", [count, count_at_once, count_in_place, count_by_assignment])
def test_a_histogram(queue: celerity.Queue, kernel: Any) -> None:
    values = celerity.Buffer.from_array(DATA)
    bins = celerity.Buffer(BINS, np.int64)
    expected = np.bincount(DATA, minlength=BINS)
    for times in (1, 2, 3):
        target = celerity.reduction(bins, "sum", include_current=times > 1)
        queue.parallel_for(SIZE, kernel, values.read(ONE), target)
        assert np.array_equal(queue.fence(bins).result(), times * expected)


def test_several_reductions_of_any_shape_in_one_kernel(queue: celerity.Queue) -> None:
    points = np.random.default_rng(6).normal(size=(SIZE, 3))

    def summarise(
        chunk: celerity.Chunk,
        given: celerity.View,
        low: celerity.Reducer,
        products: celerity.Reducer,
        is_any: celerity.Reducer,
    ) -> None:
        rows = given[chunk.box.min[0] : chunk.box.max[0], :]
        low.combine(rows.min(axis=0))
        products.combine(rows.T @ rows)
        is_any.combine(rows.max() > 2)

    buffer = celerity.Buffer.from_array(points)
    low, products = celerity.Buffer(3, np.float64), celerity.Buffer((3, 3), np.float64)
    is_any = celerity.Buffer((), np.bool_)
    queue.parallel_for(
        SIZE,
        summarise,
        buffer.read(lambda chunk: (slice(*_rows(chunk)), slice(None))),
        celerity.reduction(low, "min"),
        celerity.reduction(products, "sum"),
        celerity.reduction(is_any, "or"),
    )
    assert np.array_equal(queue.fence(low).result(), points.min(axis=0))
    np.testing.assert_allclose(queue.fence(products).result(), points.T @ points)
    assert queue.fence(is_any).result() == (points.max() > 2)


def _rows(chunk: celerity.MapperChunk) -> tuple[int, int]:
    return chunk.box.min[0], chunk.box.max[0]


def test_a_write_of_some_elements_keeps_the_results_of_the_others(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(DATA)
    bins = celerity.Buffer(BINS, np.int64)

    def clear(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] = -1

    queue.parallel_for(SIZE, count, values.read(ONE), celerity.reduction(bins, "sum"))
    queue.parallel_for(celerity.Box((2,), (5,)), clear, bins.write(ONE))
    expected = np.bincount(DATA, minlength=BINS)
    expected[2:5] = -1
    assert np.array_equal(queue.fence(bins).result(), expected)


@pytest.mark.parametrize(
    ("shape", "body", "error", "message"),
    [
        (BINS, lambda out: out.combine(3), UsageError, r"combines a scalar into .*whose shape is \(7,\)"),
        (
            BINS,
            lambda out: out.combine(np.zeros(6, int)),
            UsageError,
            r"an array of shape \(6,\) into .*shape is \(7,\)",
        ),
        (BINS, lambda out: out.combine(np.zeros(BINS)), UsageError, "float64"),
        (BINS, lambda out: out.combine_at([0, 1], [0.5, 1.5]), UsageError, "float64"),
        (1, lambda out: out.combine_at([0], 1), UsageError, r"has a single element. Use combine\(value\)"),
        (
            BINS,
            lambda out: out.combine_at([0.0, 1.0], 1),
            UsageError,
            r"do not fit, an array of float64 and shape \(2,\)",
        ),
        (
            BINS,
            lambda out: out.combine_at([0, 1, 2], [1, 2]),
            UsageError,
            r"shape \(2,\) into .* as many values as ind",
        ),
        (
            (2, 3),
            lambda out: out.combine_at(([0], [0], [0]), 1),
            UsageError,
            r"whose shape is \(2, 3\), at indices that",
        ),
        (
            BINS,
            lambda out: setattr(out, "array", np.ones(BINS, int)),
            UsageError,
            r"to out\.array, the array of .* Write out\.combine",
        ),
    ],
)
def test_values_and_indices_that_do_not_fit_are_refused(
    queue: celerity.Queue, shape: int | tuple[int, ...], body: Any, error: type[Exception], message: str
) -> None:
    told = []

    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        with pytest.raises(error, match=message) as caught:
            body(out)
        told.append(str(caught.value))

    bins = celerity.Buffer(shape, np.int64, name="bins")
    queue.parallel_for(3, kernel, celerity.reduction(bins, "sum"))
    assert not queue.fence(bins).result().any()
    assert told
    assert '"bins"' in told[0]


@pytest.mark.parametrize(
    ("shape", "body", "message"),
    [
        (BINS, lambda out: out.combine_at([0, BINS], 1), r"at index 7 of .*\(7,\)\. .* from 0 to 6"),
        (BINS, lambda out: out.combine_at([0, -1], 1), "at index -1 of dimension 0 .*modulo 7 if"),
        ((2, 3), lambda out: out.combine_at((1, np.array([2, 3])), 1), "index 3 of dimension 1 of"),
        ((2, 3), lambda out: out.combine_at((slice(0, 1), [-2]), 1), "index -2 of dimension 1 of"),
    ],
)
def test_indices_outside_of_the_buffer_fail_the_task(shape: int | tuple[int, ...], body: Any, message: str) -> None:
    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        with contextlib.suppress(OutOfBoundsAccess):  # which is told all the same
            body(out)

    queue = celerity.Queue()
    bins = celerity.Buffer(shape, np.int64, name="bins")
    queue.parallel_for(3, kernel, celerity.reduction(bins, "sum"))
    with pytest.raises(OutOfBoundsAccess, match=message):
        queue.fence(bins).result()
    with contextlib.suppress(celerity.CelerityError):
        queue.close()


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        (..., [[1, 1, 1], [1, 1, 1]]),
        ((..., -1), [[0, 0, 1], [0, 0, 1]]),
        (np.array([[True, False, True], [False, True, False]]), [[1, 0, 1], [0, 1, 0]]),
        ((slice(None), [0, 0, 2]), [[2, 0, 1], [2, 0, 1]]),
        (np.zeros(0, int), [[0, 0, 0], [0, 0, 0]]),
    ],
)
def test_other_indices_are_those_of_numpy(queue: celerity.Queue, indices: Any, expected: list[list[int]]) -> None:
    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        if chunk.box.min == (0,):
            out.combine_at(indices, 1)

    bins = celerity.Buffer((2, 3), np.int64, name="bins")
    queue.parallel_for(3, kernel, celerity.reduction(bins, "sum", include_current=False))
    assert queue.fence(bins).result().tolist() == expected
