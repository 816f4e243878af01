# SPDX-License-Identifier: MIT
"""Which ranks of a host transfer directly: those that both sides can reach."""

from __future__ import annotations

import threading
from typing import Any

from celerity_py.executor.network.direct_peers import agree_on_direct_peers
from celerity_py.scheduler.errors import ConfigurationError


class Host:
    """All ranks, on one or several hosts; `unreachable` are pairs (who, whom) whose memory cannot be mapped."""

    def __init__(self, hosts: list[tuple[int, ...]], unreachable: set[tuple[int, int]]) -> None:
        self.hosts = hosts
        self.size = sum(map(len, hosts))
        self.unreachable = unreachable
        self.barrier = threading.Barrier(self.size)
        self.board: list[bytes] = [b""] * self.size


class Rank:
    """The communicator and the executor of one rank."""

    def __init__(self, host: Host, rank: int) -> None:
        self.host = host
        self.rank = rank
        self.size = host.size
        self.local_ranks = next(ranks for ranks in host.hosts if rank in ranks)
        self.local_size = len(self.local_ranks)
        self.agreed: list[int] | None = None

    def exchange(self, data: bytes) -> list[bytes]:
        self.host.board[self.rank] = data
        self.host.barrier.wait(10)
        result = list(self.host.board)
        self.host.barrier.wait(10)
        return result

    def offer_direct(self, host_ranks: list[int]) -> bytes:
        assert tuple(host_ranks) == self.local_ranks
        return b"offer %d" % self.rank

    def open_direct(self, peer: int, offer: bytes) -> None:
        assert offer == b"offer %d" % peer
        if (self.rank, peer) in self.host.unreachable:
            raise RuntimeError("Permission denied")

    def agree_direct(self, peers: list[int]) -> None:
        self.agreed = peers


def agree(
    hosts: list[tuple[int, ...]],
    unreachable: set[tuple[int, int]] | None = None,
    unwilling: tuple[int, ...] = (),
    *,
    required: bool = False,
) -> list[Any]:
    """The result on every rank: its direct peers, or an error."""
    host = Host(hosts, unreachable or set())
    found: list[Any] = [None] * host.size

    def run(number: int) -> None:
        rank: Any = Rank(host, number)
        try:
            peers = agree_on_direct_peers(rank, rank, wanted=number not in unwilling, required=required)
        except ConfigurationError as error:
            found[number] = str(error)
            return
        found[number] = [other for other, is_peer in enumerate(peers.with_rank) if is_peer]
        assert rank.agreed == (None if number in unwilling else found[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(host.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_all_ranks_of_a_host_are_peers_and_no_others() -> None:
    assert agree([(0, 1, 2), (3, 4)]) == [[1, 2], [0, 2], [0, 1], [4], [3]]


def test_who_takes_no_part_is_nobodys_peer() -> None:
    assert agree([(0, 1, 2)], unwilling=(1,)) == [[2], [], [0]]


def test_peers_reach_each_other_both_ways() -> None:
    assert agree([(0, 1, 2)], {(0, 1)}) == [[2], [2], [0, 1]]


def test_one_rank_needs_no_peer() -> None:
    assert agree([(0,)], required=True) == [[]]


def test_all_ranks_refuse_to_run_if_one_that_must_be_direct_is_alone() -> None:
    found = agree([(0, 1), (2,)], required=True)
    assert len(set(found)) == 1
    assert "CELERITY_TRANSPORT=direct, but rank 2 reaches no other rank directly: it is alone on its host." in found[0]


def test_the_error_says_why_memory_cannot_be_mapped() -> None:
    found = agree([(0, 1)], {(1, 0)}, required=True)
    assert len(set(found)) == 1
    assert found[0].startswith("CELERITY_TRANSPORT=direct, but rank 0 reaches no other rank directly")
    assert "rank 1 cannot map the memory of rank 0 (Permission denied)" in found[0]
