# SPDX-License-Identifier: MIT
"""Fills, copies and random numbers over several ranks: the same contents on all, and no more traffic than needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access, hints, random

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


def test_numbers_made_of_buffers_are_the_same_on_all_ranks(queue: celerity.Queue) -> None:
    u = np.arange(77.0).reshape(11, 7)
    v = np.where(u == 40, 1, 0)
    first, second, flags = (
        celerity.Buffer.from_array(u),
        celerity.Buffer.from_array(u - 38),
        celerity.Buffer.from_array(v),
    )
    assert queue.dot(first, second).result(60) == (u * (u - 38)).sum()
    assert queue.norm(first).result(60) == np.sqrt((u * u).sum())
    assert queue.any(flags).result(60) is True
    queue.fill(flags, 0, Box((5, 0), (6, 7)))
    assert queue.any(flags).result(60) is False


def test_a_field_of_matrices_is_filled_copied_and_exchanged(queue: celerity.Queue) -> None:
    shape, turn = (9, 5), np.array([[0, -1], [1, 0]])
    field = np.random.default_rng(4).integers(-9, 9, (*shape, 2, 2))

    def step(chunk: Any, after: Any, before: Any, turns: Any) -> None:
        near = before.padded(chunk.box, 1, mode="wrap")
        after[chunk.box] = turns[chunk.box] @ near[2:, 1:-1] + near[1:-1, :-2]

    before = celerity.Buffer.from_array(field, element=(2, 2))
    after, turns = (celerity.Buffer(shape, np.int64, element=(2, 2)) for _ in range(2))
    queue.fill(turns, turn)
    near, one = access.neighborhood(1, 1, wrap=True), access.one_to_one()
    for hint in (hints.cyclic(2), hints.split_2d(), hints.border_first(1)):
        queue.parallel_for(shape, step, after.write(one), before.read(near), turns.read(one), hints=hint)
        before, after = after, before
        field = turn @ np.roll(field, -1, axis=0) + np.roll(field, 1, axis=1)
    queue.copy(after, before)
    queue.copy(after, before, (slice(0, 4), ...), (slice(5, 9), ...))
    np.testing.assert_array_equal(queue.fence(after).result(60), np.concatenate([field[5:], field[4:]]))


def test_random_numbers_are_those_of_a_single_rank() -> None:
    def draw(chunk: Any, out: Any, seed: int) -> None:
        out[chunk.box] = random.normal(chunk, seed)

    with celerity.Queue() as queue:
        u = celerity.Buffer((13, 5))
        queue.parallel_for(u.shape, draw, u.write(access.one_to_one()), 6)
        np.testing.assert_array_equal(queue.fence(u).result(60), random.normal(Box((0, 0), (13, 5)), 6))
