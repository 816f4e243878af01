# SPDX-License-Identifier: MIT
"""Mistakes in calls of `Queue.redistribute`; `tests/mpi/test_redistributions.py` tests the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.scheduler.errors import ArgumentTypeError, OverlappingAccess, UsageError


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    with celerity.Queue() as queue:
        yield queue


COUNTS = [[2, 1], [0, 3]]


@pytest.mark.parametrize(
    ("counts", "error", "text"),
    [
        ([[2, 1]], None, ""),
        ([[4, 1], [0, 3]], UsageError, r"counts of block 0 add up to 5 rows, but a block has 4\. The 2 rows of counts"),
        ([[2, 1], [3, -1]], UsageError, "block 1 has -1 rows for bucket 1"),
        ([2, 1], ArgumentTypeError, "takes counts with a row per block of the source and a column per bucket"),
        ([[2.0, 1.0]], ArgumentTypeError, "not "),
        (np.zeros((0, 3), int), ArgumentTypeError, "shape"),
        (None, ArgumentTypeError, "not None"),
    ],
)
def test_counts_fit_the_blocks(queue: celerity.Queue, counts: Any, error: type[Exception] | None, text: str) -> None:
    source, target = (celerity.Buffer.from_array(np.arange(8), name=name) for name in ("source", "target"))
    if error is None:
        assert queue.redistribute(target, source, counts).tolist() == [0, 2, 3]
        return
    with pytest.raises(error, match=text):
        queue.redistribute(target, source, counts)


def test_the_target_has_room_for_all_rows(queue: celerity.Queue) -> None:
    source, target = celerity.Buffer.from_array(np.arange(8)), celerity.Buffer(5, np.int64)
    with pytest.raises(UsageError, match="add up to 6 rows, but the target has 5"):
        queue.redistribute(target, source, COUNTS)


def test_buffers_have_rows_of_one_kind(queue: celerity.Queue) -> None:
    source = celerity.Buffer((8, 2), np.int64, name="source")
    for other in (celerity.Buffer((8, 3), np.int64), celerity.Buffer((8, 2), np.int32), celerity.Buffer((), np.int64)):
        with pytest.raises(UsageError, match="takes buffers of rows of equal shape and dtype, but they have"):
            queue.redistribute(other, source, COUNTS)  # type: ignore[misc]
    with pytest.raises(OverlappingAccess, match="needs two buffers"):
        queue.redistribute(source, source, COUNTS)
    with pytest.raises(ArgumentTypeError, match=r"takes Buffers, not an array"):
        queue.redistribute(source, np.zeros((8, 2)), COUNTS)  # type: ignore[arg-type]


def test_nothing_is_submitted_for_counts_of_zero(queue: celerity.Queue) -> None:
    source, target = (celerity.Buffer.from_array(np.arange(8), name=name) for name in ("source", "target"))
    assert queue.redistribute(target, source, np.zeros((2, 3), int)).tolist() == [0, 0, 0, 0]
    assert queue.fence(target).result().tolist() == list(range(8))
