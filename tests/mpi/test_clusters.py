# SPDX-License-Identifier: MIT
"""`configure(comm=)`: several clusters in one run, which know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ConfigurationError
from tests.mpi.test_programs import random_array, reference_wave, wave_step

pytestmark = pytest.mark.mpi
ONE = access.one_to_one()


@pytest.fixture(params=["host", pytest.param("direct", marks=pytest.mark.direct)])
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    celerity.configure(transport=request.param, devices="cpu:2")
    yield request.param
    celerity.configure(transport=None, devices=None)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Rank 0 and the last one are a cluster, backwards; the ranks between them another one."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    is_outer = world.rank in {0, world.size - 1}
    comm = world.Split(is_outer, key=-world.rank)
    celerity.configure(comm=comm)
    yield comm
    celerity.configure(comm=None)
    comm.Free()


def advance(queue: celerity.Queue, initial: Any, steps: int) -> Any:
    u, u_next = (celerity.Buffer.from_array(initial) for _ in range(2))
    stencil = access.neighborhood(1, 1, shape="axes")
    for _ in range(steps):
        queue.parallel_for(u.shape, wave_step, u_next.read_write(ONE), u.read(stencil), 0.25)
        u, u_next = u_next, u
    return queue.fence(u).result(60)


def test_each_cluster_runs_a_program_of_its_own(cluster: Any, transport: str) -> None:
    """The clusters have different sizes from 3 ranks on, and programs of different lengths, buffers and shapes."""
    from mpi4py import MPI

    if transport == "direct" and cluster.size == 1:
        celerity.configure(transport="auto")
    color = min(cluster.allgather(MPI.COMM_WORLD.rank))
    assert (celerity.rank(), celerity.size()) == (cluster.rank, cluster.size)
    for times in range(1, 3):  # the next runtime on the same communicator
        initial = random_array(24 + color, 20)
        steps = 40 * times if color == 0 else 25
        with celerity.Queue() as queue:
            assert (celerity.rank(), celerity.size()) == (cluster.rank, cluster.size)
            for _ in range(color * 3):
                queue.barrier()
            np.testing.assert_array_equal(advance(queue, initial, steps), reference_wave(initial, steps))
        assert (celerity.rank(), celerity.size()) == (cluster.rank, cluster.size)


def test_collective_host_tasks_get_the_ranks_of_the_cluster(cluster: Any) -> None:
    found = []

    def gather(part: Any) -> None:
        found.append((part.rank, part.size, part.comm.allgather(part.rank)))

    with celerity.Queue() as queue:
        queue.collective(gather)
    assert found == [(cluster.rank, cluster.size, list(range(cluster.size)))]


def test_the_communicator_may_be_freed_after_the_first_queue() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Split(0, key=-MPI.COMM_WORLD.rank)
    celerity.configure(comm=comm)
    initial = random_array(12, 9)
    with celerity.Queue() as queue:
        rank = comm.rank
        comm.Free()
        np.testing.assert_array_equal(advance(queue, initial, 5), reference_wave(initial, 5))
        assert celerity.rank() == rank
    assert celerity.rank() == rank
    celerity.configure(comm=None)
    with celerity.Queue():
        assert celerity.rank() == MPI.COMM_WORLD.rank


def test_a_process_outside_of_the_communicator_is_told() -> None:
    from mpi4py import MPI

    with pytest.raises(ConfigurationError, match="a communicator to which this process belongs, not COMM_NULL"):
        celerity.configure(comm=MPI.COMM_NULL)
