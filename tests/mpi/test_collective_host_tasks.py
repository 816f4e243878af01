# SPDX-License-Identifier: MIT
"""Collective host tasks on several ranks: their order, and their communicators."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError

pytestmark = pytest.mark.mpi


def test_ranks_meet_in_the_tasks_of_many_groups(queue: celerity.Queue) -> None:
    """Each rank starts its tasks at other times; a message of another task would have another number."""
    size, rank = celerity.size(), celerity.rank()
    pauses = random.Random(rank)
    sums: list[tuple[str | None, int, int]] = []
    groups = [None, "a", "b", "c"]
    with pytest.raises(ArgumentTypeError):  # a group without a task holds up no other
        queue.collective(lambda part: None, 1, group="refused")

    def meet(part: celerity.CollectivePart, group: str | None, number: int, pause_s: float) -> None:
        time.sleep(pause_s)
        assert (part.rank, part.size) == (part.comm.rank, part.comm.size) == (rank, size)
        assert part.comm.allgather(number) == [number] * size
        sums.append((group, number, part.comm.allreduce(part.rank)))

    for number in range(10):
        for group in groups:
            queue.collective(meet, group, number, pauses.choice([0, 0.001, 0.003]), group=group)
    queue.wait()
    for group in groups:
        expected = [(group, number, sum(range(size))) for number in range(10)]
        assert [entry for entry in sums if entry[0] == group] == expected


@pytest.mark.mpi(min_size=2)
def test_groups_and_messages_go_on_where_one_operation_runs_at_a_time() -> None:
    """Rank 0 may begin with one group and the others with another one, and tasks need what rank 0 has yet to send."""

    def add(chunk: Any, view: Any) -> None:
        time.sleep(0.01)
        view[chunk.box] += 1

    def meet(part: celerity.CollectivePart, *views: Any) -> None:
        part.comm.Barrier()

    celerity.configure(sync=True)
    try:
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_array(np.zeros(1))
            for _ in range(10):
                queue.parallel_for(1, add, u.read_write(access.one_to_one()))
                queue.collective(meet, u.read(access.all()), group="a")
                queue.collective(meet, group="b")
            assert queue.fence(u).result(60)[0] == 10
    finally:
        celerity.configure(sync=None)


def test_a_collective_task_transposes_a_matrix_by_alltoall(queue: celerity.Queue) -> None:
    size = celerity.size()
    rows = 4 * size
    matrix = np.random.default_rng(1).integers(0, 100, (rows, rows)).astype(np.float64)
    source, target = celerity.Buffer.from_array(matrix), celerity.Buffer((rows, rows), np.float64)

    @celerity.kernel
    def double(chunk: Any, view: Any) -> None:
        view[chunk.box] *= 2

    def exchange(part: celerity.CollectivePart, out: Any, given: Any) -> None:
        blocks = given.array.reshape(4, part.size, 4).transpose(1, 0, 2)
        received = np.empty_like(blocks, order="C")
        part.comm.Alltoall(np.ascontiguousarray(blocks), received)
        out[...] = received.transpose(2, 0, 1).reshape(4, rows)

    for _ in range(3):
        queue.parallel_for(matrix.shape, double, source.read_write(access.one_to_one()))
        mapper = access.even_split()
        queue.collective(exchange, target.write(mapper), source.read(mapper))
        source, target = target, source
    assert np.array_equal(queue.fence(source).result(), 8 * matrix.T)


def test_a_replay_repeats_collective_tasks_in_the_same_order(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(8 * celerity.size()))
    totals: list[float] = []

    @celerity.kernel
    def increment(chunk: Any, view: Any) -> None:
        view[chunk.box] += 1

    def add(part: celerity.CollectivePart, view: Any) -> None:
        totals.append(part.comm.allreduce(float(view[...].sum())))

    def step() -> None:
        queue.parallel_for(values.shape, increment, values.read_write(access.one_to_one()))
        queue.collective(add, values.read(access.even_split()))

    queue.replay(queue.record(step), 60)
    queue.wait()
    assert totals == [8.0 * celerity.size() * number for number in range(1, 62)]


def test_communicators_are_separate_and_freed_with_the_runtime(queue: celerity.Queue) -> None:
    from mpi4py import MPI

    comms: dict[str | None, Any] = {}

    def keep(part: celerity.CollectivePart, group: str | None) -> None:
        comms[group] = part.comm

    for group in (None, "other", None):
        queue.collective(keep, group, group=group)
    queue.wait()
    assert MPI.Comm.Compare(comms[None], comms["other"]) == MPI.CONGRUENT
    assert MPI.Comm.Compare(comms[None], MPI.COMM_WORLD) == MPI.CONGRUENT
    queue.close()
    assert [bool(comm) for comm in comms.values()] == [False, False]
