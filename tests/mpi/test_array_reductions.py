# SPDX-License-Identifier: MIT
"""Reductions into arrays: partial results of all ranks meet, and the result has the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

import celerity_py as celerity
from celerity_py import access

pytestmark = pytest.mark.mpi

SIZE, BINS = 1003, 7


def test_a_histogram_of_all_ranks_and_a_write_of_a_part_of_it(queue: celerity.Queue) -> None:
    data = np.random.default_rng(5).integers(0, BINS, SIZE)
    weights = np.random.default_rng(6).random(SIZE)

    def count(
        chunk: celerity.Chunk,
        bins: celerity.View,
        given: celerity.View,
        number: celerity.Reducer,
        sums: celerity.Reducer,
    ) -> None:
        number.combine_at(bins[chunk.box], 1)
        sums.combine_at((bins[chunk.box] % 2, bins[chunk.box]), given[chunk.box])

    def clear(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] = 0

    one = access.one_to_one()
    keys, values = celerity.Buffer.from_array(data), celerity.Buffer.from_array(weights)
    numbers, sums = celerity.Buffer(BINS, np.int64), celerity.Buffer((2, BINS), np.float64)
    expected = np.bincount(data, minlength=BINS)
    for times in (1, 2):
        options = {"include_current": times > 1, "deterministic": times > 1}
        targets = [celerity.reduction(buffer, "sum", **options) for buffer in (numbers, sums)]
        queue.parallel_for(SIZE, count, keys.read(one), values.read(one), *targets)
        found = queue.fence(sums, on="all").result()
        assert all(np.array_equal(found, other) for other in MPI.COMM_WORLD.allgather(found))
        np.testing.assert_allclose(found.sum(axis=0), times * np.bincount(data, weights, minlength=BINS))
    queue.parallel_for(celerity.Box((2,), (5,)), clear, numbers.write(one))
    assert np.array_equal(
        queue.fence(numbers, on="all").result(), np.where(np.isin(np.arange(BINS), (2, 3, 4)), 0, 2 * expected)
    )
