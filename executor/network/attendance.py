# SPDX-License-Identifier: MIT
"""Whether all ranks come to the next start of a runtime, or some have come to the end of their programs instead.

MPI would let a rank wait for ever: in a collective call for a rank that is in MPI_Finalize already. So each rank says
that it comes before it enters collective calls, and at its end that it leaves. Rank 0 collects the messages, and
answers. They travel on a communicator of their own, which lives as long as the process.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from typing import TYPE_CHECKING, Final

from celerity_py.executor.network.mpi_library import MPI
from celerity_py.executor.network.pacing import sleep_s

if TYPE_CHECKING:
    from collections.abc import Callable

_HUB: Final = 0
_COMES: Final = -1  # from another rank to the hub
_ALL_COME: Final = -2  # the hub's answer; all other messages are the number of a rank that has left
_TAG: Final = 0
_LEAVE_PATIENCE_S: Final = 1.0  # MPI_Finalize waits for the others as well, so little is lost


class Attendance:
    """The presence of the ranks of a communicator. One thread at a time.

    Args:
        parent: Whose ranks are meant; all of them construct together.
    """

    def __init__(self, parent: MPI.Intracomm | None) -> None:
        self._comm = (parent if parent is not None else MPI.COMM_WORLD).Dup()
        self.rank: Final = self._comm.Get_rank()
        self._others = [rank for rank in range(self._comm.Get_size()) if rank != self.rank]
        self._sends: list[tuple[MPI.Request, array[int]]] = []
        self._gone: int | None = None  # the first rank known to have left
        self._has_left = False

    def arrive(self) -> int | None:
        """Wait until all ranks have called this as often; return a rank that has left instead, if there is one."""
        if self._gone is not None or not self._others:
            return self._gone
        if self.rank == _HUB:
            self._gone = self._collect()
            for rank in self._others:
                self._send(rank, _ALL_COME if self._gone is None else self._gone)
        else:
            self._send(_HUB, _COMES)
            answers: list[int] = []
            _poll(lambda: self._has_taken(_HUB, answers))
            self._gone = None if answers[0] == _ALL_COME else answers[0]
        self._forget_sent()
        return self._gone

    def leave(self) -> None:
        """Tell the others that this rank makes no further call. At the end of the process, before MPI_Finalize."""
        if self._has_left or MPI.Is_finalized():
            return
        self._has_left = True
        for rank in self._others if self.rank == _HUB else [_HUB]:
            self._send(rank, self.rank)
        # Ranks that end at the same time take each other's messages, so that MPI ends without one under way.
        awaited = set(self._others if self.rank == _HUB else [_HUB])
        ignored: list[int] = []

        def is_over() -> bool:
            awaited.difference_update([rank for rank in awaited if self._has_taken(rank, ignored)])
            return not awaited

        if self._gone is None:
            _poll(is_over, _LEAVE_PATIENCE_S)
        self._forget_sent()

    def _collect(self) -> int | None:
        missing = set(self._others)
        told: list[int] = []

        def is_over() -> bool:
            missing.difference_update([rank for rank in missing if self._has_taken(rank, told)])
            return not missing or any(number != _COMES for number in told)

        _poll(is_over)
        return next((number for number in told if number != _COMES), None)

    def _send(self, rank: int, number: int) -> None:
        content = array("q", [number])
        self._sends.append((self._comm.Isend([content, 1, MPI.INT64_T], rank, _TAG), content))

    def _has_taken(self, rank: int, taken: list[int]) -> bool:
        """Take a message of `rank` if there is one. It names its source: see `mpi_communicator`."""
        if not self._comm.Iprobe(rank, _TAG):
            return False
        content = array("q", [0])
        self._comm.Recv([content, 1, MPI.INT64_T], rank, _TAG)
        taken.append(content[0])
        return True

    def _forget_sent(self) -> None:
        self._sends = [(request, content) for request, content in self._sends if not request.Test()]


def _poll(is_over: Callable[[], bool], limit_s: float | None = None) -> None:
    start_s = time.monotonic()
    while not is_over():
        waited_s = time.monotonic() - start_s
        if limit_s is not None and waited_s > limit_s:
            return
        time.sleep(sleep_s(waited_s))


def leave_all(attendances: list[Attendance]) -> None:
    """Leave each of them, also if MPI refuses one: a program may have freed everything."""
    for attendance in attendances:
        with contextlib.suppress(MPI.Exception):
            attendance.leave()
