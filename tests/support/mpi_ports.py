# SPDX-License-Identifier: MIT
"""Sends and receives by a communicator of MPI, without an executor."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from celerity_py import _native_testing
from celerity_py._native import Payload

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from celerity_py.executor.network.communicator import Notice
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

PATIENCE_S = 30.0
_requests = itertools.count(1)


class Inbox:
    """Polls a communicator and keeps what arrived."""

    def __init__(self, communicator: MpiCommunicator) -> None:
        self.communicator = communicator
        self.pilots: list[tuple[int, bytes]] = []
        self.completed: list[int] = []
        self.notices: list[Notice] = []

    def poll_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.pilots, self.completed, self.notices)
            notices, settled = self.communicator.poll()
            pilots, completed = _native_testing.take_messages(self.communicator.port)
            self.pilots += pilots
            self.completed += completed + settled
            self.notices += notices
            if not (notices or settled or pilots or completed):
                time.sleep(0)

    def wait(self, *requests: int) -> None:
        self.poll_until(lambda: set(requests) <= set(self.completed))


def send_pilot(communicator: MpiCommunicator, destination_rank: int, pilot: bytes) -> None:
    _native_testing.send_pilot(communicator.port, destination_rank, pilot)


def send(communicator: MpiCommunicator, payload: Payload) -> None:
    _native_testing.send_payload(communicator.port, payload)


def send_small(communicator: MpiCommunicator, pilot: bytes, payload: Payload) -> bool:
    return _native_testing.send_small(communicator.port, pilot, payload)


def receive(communicator: MpiCommunicator, payload: Payload) -> None:
    _native_testing.receive_payload(communicator.port, payload)


def end(communicator: MpiCommunicator) -> Inbox:
    """Close the communicator; return the messages that arrived at the end."""
    inbox = Inbox(communicator)
    request = next(_requests)
    communicator.settle(request)
    inbox.wait(request)
    communicator.close()
    return inbox


def neighbours(communicator: MpiCommunicator) -> tuple[int, int]:
    return (communicator.rank + 1) % communicator.size, (communicator.rank - 1) % communicator.size


def box_of(array: npt.NDArray[np.generic], peer_rank: int, message_id: int, offset: Any, extent: Any) -> Payload:
    return Payload(
        request=next(_requests),
        peer_rank=peer_rank,
        message=message_id,
        address=array.ctypes.data,
        allocated_shape=array.shape,
        offset=offset,
        extent=extent,
        element_size_bytes=array.itemsize,
    )
