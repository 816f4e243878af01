# SPDX-License-Identifier: MIT
"""The interface of the executor to the network.

Pilots (short announcements, ahead of their data) and payloads (boxes, sent and received in place) pass between the
native executor and the native `port`. Python sees notices: control messages about the run itself, such as failures,
goodbyes and signs of life. Every call returns at once; `poll` reports arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol

from celerity_py._native import MessagePort

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

#: Largest notice, in bytes.
NOTICE_LIMIT_BYTES: Final = MessagePort.NOTICE_LIMIT_BYTES
#: Messages up to this size travel with their pilots. The same on all ranks. Tests set less.
LARGEST_SMALL_BYTES = MessagePort.SMALL_LIMIT_BYTES

NOTICE_FAILURE: Final = 1  # the sender has failed; the payload is an encoded `Failure`
NOTICE_CLAIM: Final = 2  # a claim: how far the sender's program has come
NOTICE_QUERY: Final = 3  # a claim, and a question for the receiver's status; the sender has been waiting
NOTICE_STATUS: Final = 4  # the answer: a claim, and the sender's status
NOTICE_DIGESTS: Final = 5  # digests of the sender's program, which differs from the receiver's
NOTICE_ENTRY: Final = 6  # the sender's first entry that differs from the receiver's
NOTICE_LIVE: Final = 7  # the activity of the sender, for rank 0 to print


class Notice(NamedTuple):
    """A control message of another rank."""

    kind: int
    source_rank: int
    content: bytes


class Arrivals(NamedTuple):
    """The result of one `Communicator.poll`."""

    notices: list[Notice]  # in the order sent by each source
    settled: list[int]  # numbers of `settle`


class Communicator(Protocol):
    """Point-to-point transport between the ranks of one run.

    Threading: construction, `exchange` and `close` are collective and block; they happen while no executor thread
    runs. Any thread may call `abort`. Except for `connect_group`, everything else is called by the executor thread only
    and never blocks.
    """

    @property
    def rank(self) -> int:
        """This rank, 0 ≤ rank < size."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    @property
    def library(self) -> str:
        """Name and version of the library that connects the ranks; empty with a single rank."""

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """The ranks that share this host's memory, ascending, this one included."""

    @property
    def local_rank(self) -> int:
        """Position of this rank in `local_ranks`."""

    @property
    def local_size(self) -> int:
        """Number of ranks on this host."""

    @property
    def port(self) -> MessagePort | None:
        """Moves the messages of the native executor; None with a single rank."""

    def exchange(self, data: bytes) -> list[bytes]:
        """Give `data` to all ranks, and return the data of each rank, by rank. Collective, blocks."""

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        """Send up to `NOTICE_LIMIT_BYTES`. Notices between two ranks arrive in order, but overtake pilots.

        Raises:
            ValueError: If the content is longer.
        """

    def settle(self, number: int) -> None:
        """Enter a barrier that completes only when all pilots and notices sent before, by any rank, have arrived.

        Send no pilots afterwards. `poll` returns the number.
        """

    def unasked_payloads(self) -> list[tuple[int, int]]:
        """Return (rank, number of its payloads to here minus receives from it) where they differ; after `settle`."""

    def poll(self) -> Arrivals:
        """Let the transport progress; return arrivals, each notice and number exactly once."""

    def is_alive(self, rank: int) -> bool | None:
        """Whether the process of `rank` exists; None if that cannot be seen from here (another host)."""

    def process_of(self, rank: int) -> int | None:
        """The id of the process of `rank`; None if it cannot be seen from here (another host)."""

    def connect_group(self, number: int) -> Intracomm:
        """Make an mpi4py communicator of all ranks, which `close` frees. Collective, blocks.

        A host-task thread calls it while the executor thread runs, on all ranks in the same order.

        Args:
            number: Another one for each call, below 2**15.
        """

    def abort(self, status: int) -> NoReturn:
        """End every rank now, with `status`. Any thread."""

    def close(self) -> None:
        """Give back the resources of the transport. Collective.

        Unless `settle` was the last call, a message may still be on its way, and no later communicator shall get it.
        """
