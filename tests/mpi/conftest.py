# SPDX-License-Identifier: MIT
"""Where the ranks of these tests are, the same on all of them, or they would run different tests; and their queue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

import celerity_py as celerity
from celerity_py.executor.network import communicator as network
from celerity_py.runtime import native_objects
from tests.support.mpi_ports import Inbox, end

if TYPE_CHECKING:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator


def pytest_configure(config: pytest.Config) -> None:
    native_objects.OVERWRITES_WAIT = os.environ.get("TEST_OVERWRITES_WAIT") != "host"  # the same on all ranks
    network.LARGEST_SMALL_BYTES = int(os.environ.get("TEST_SMALL_BYTES", "4096"))  # likewise
    config.addinivalue_line("markers", "direct: needs ranks that share a host, as far as MPI knows")


@cache
def _are_apart() -> bool:
    """Whether no rank has another one on its host, as with MPIR_CVAR_NOLOCAL."""
    from mpi4py import MPI

    host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    is_alone = host.Get_size() == 1 < MPI.COMM_WORLD.Get_size()
    host.Free()
    return is_alone


@pytest.fixture(autouse=True)
def _skip_direct_transfers_between_hosts(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("direct") is not None and _are_apart():
        pytest.skip("the ranks do not share a host")


@pytest.fixture(params=["cpu:1", "cpu:2", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    """A queue over ranks with this many devices each, and with many horizons."""
    celerity.configure(devices=request.param, horizon_step=2)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, horizon_step=None)


@pytest.fixture
def communicator() -> Iterator[MpiCommunicator]:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    communicator = MpiCommunicator()
    yield communicator
    end(communicator)


@pytest.fixture
def inbox(communicator: MpiCommunicator) -> Inbox:
    return Inbox(communicator)
