# SPDX-License-Identifier: MIT
"""Host objects on several ranks: each has its own, and orders its own tasks."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

pytestmark = pytest.mark.mpi


def test_each_rank_uses_its_own_object_in_program_order(queue: celerity.Queue) -> None:
    size, rank = celerity.size(), celerity.rank()
    own = celerity.HostObject([f"of rank {rank}"])
    values = celerity.Buffer.from_array(np.zeros(size))

    @celerity.kernel
    def increment(chunk: Any, view: Any) -> None:
        view[chunk.box] += 1

    def note(part: Any, number: int, view: Any, notes: list[str]) -> None:
        time.sleep(0.003 if (number + rank) % 3 == 0 else 0)
        notes.append(f"{number}: {view[part.box].sum() if part.box.ndim else view[0]:g}")

    for number in range(12):
        queue.parallel_for(size, increment, values.read_write(access.one_to_one()))
        if number % 4 == 3:  # on rank 0 alone
            queue.host_task(note, number, values.read(access.all()), own.side_effect(), unordered=True)
        else:
            queue.host_task(note, number, values.read(access.one_to_one()), own.side_effect(), on=size)
    expected = [f"{number}: {number + 1}" for number in range(12) if rank == 0 or number % 4 != 3]
    assert queue.fence(own).result() == [f"of rank {rank}", *expected]


def test_a_rank_may_have_no_object(queue: celerity.Queue) -> None:
    shared = celerity.HostObject([1] if celerity.is_master() else None)
    queue.host_task(lambda part, given: given.append(2), shared.side_effect(), on="master")
    assert queue.fence(shared).result() == ([1, 2] if celerity.is_master() else None)
    assert queue.fence(shared, on="master").result() == ([1, 2] if celerity.is_master() else None)
