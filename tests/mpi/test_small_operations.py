# SPDX-License-Identifier: MIT
"""Fills, copies and random numbers over several ranks: the same contents on all, and no more traffic than needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access, random

pytestmark = pytest.mark.mpi


def sent_bytes(queue: celerity.Queue) -> int:
    queue.wait()
    return sum(queue.statistics().executor["sent_bytes"].values())


def test_a_copy_sends_the_elements_that_other_ranks_lack() -> None:
    """Each rank holds 4 rows. The rows move up by one: each rank sends its first row, except rank 0."""
    rows = 4 * celerity.size()
    expected = np.zeros((rows, 10))
    with celerity.Queue() as queue:
        u, v = celerity.Buffer(expected.shape, np.float64), celerity.Buffer(expected.shape, np.float64)
        queue.fill(u, 0)
        queue.fill(v, 0)
        for rank in range(celerity.size()):
            queue.fill(u, rank + 1, Box((4 * rank, 0), (4 * rank + 4, 10)))
            expected[4 * rank : 4 * rank + 4] = rank + 1
        queue.copy(v, u)  # each rank fetches its rows, which the fills have divided otherwise
        before = sent_bytes(queue)
        queue.copy(u, v)
        assert sent_bytes(queue) == before
        queue.copy(u, v, (slice(0, rows - 1), ...), (slice(1, rows), ...))
        expected[: rows - 1] = expected[1:].copy()
        assert sent_bytes(queue) - before < 2 * 10 * 8 * celerity.size()
        np.testing.assert_array_equal(queue.fence(u).result(60), expected)


def test_random_numbers_are_those_of_a_single_rank() -> None:
    def draw(chunk: Any, out: Any, seed: int) -> None:
        out[chunk.box] = random.normal(chunk, seed)

    with celerity.Queue() as queue:
        u = celerity.Buffer((13, 5))
        queue.parallel_for(u.shape, draw, u.write(access.one_to_one()), 6)
        np.testing.assert_array_equal(queue.fence(u).result(60), random.normal(Box((0, 0), (13, 5)), 6))
