# SPDX-License-Identifier: MIT
"""The communicator of a run with one rank: no MPI, no messages."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from celerity_py.executor.network.communicator import Arrivals
from celerity_py.scheduler.errors import LaunchError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class LocalCommunicator:
    """A `Communicator` of size 1. `settle` completes at the next poll; there is no rank to send to."""

    rank = 0
    size = 1
    local_ranks = (0,)
    local_rank = 0
    local_size = 1
    library = ""
    port = None

    def __init__(self) -> None:
        self._settled: list[int] = []
        self._groups: dict[int, Intracomm] = {}

    def exchange(self, data: bytes) -> list[bytes]:
        return [data]

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        raise AssertionError(f"a run with one rank has no rank {destination_rank}; this is a bug in celerity_py")

    def settle(self, number: int) -> None:
        self._settled.append(number)

    def unasked_payloads(self) -> list[tuple[int, int]]:
        return []

    def poll(self) -> Arrivals:
        settled, self._settled = self._settled, []
        return Arrivals([], settled)

    def is_alive(self, rank: int) -> bool | None:
        return rank == self.rank

    def process_of(self, rank: int) -> int | None:
        return os.getpid() if rank == self.rank else None

    def connect_group(self, number: int) -> Intracomm:
        try:
            from celerity_py.executor.network.mpi_library import MPI
        except (ImportError, RuntimeError) as error:
            raise LaunchError(
                f"part.comm of a collective host task needs an MPI library, also with a single rank, but none can be "
                f"loaded ({error}). Install one, such as with pip install mpich, or leave part.comm out if part.size "
                f"is 1."
            ) from error
        comm = self._groups[number] = MPI.COMM_SELF.Dup()
        return comm

    def abort(self, status: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def close(self) -> None:
        self._settled.clear()
        for comm in self._groups.values():
            if comm:  # the program has not freed it
                comm.Free()
        self._groups.clear()
