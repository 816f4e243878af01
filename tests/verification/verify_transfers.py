# SPDX-License-Identifier: MIT
"""Each send of a rank is announced, and arrives exactly once at the ranks that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.support.allocations import AllocationId
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import Oracle, VerificationError, describe

PHASES = {"send": 0, "receive": 1, "work": 2}
Transfer: TypeAlias = tuple[int, int, int]


def sort_key(record: Record) -> tuple[int, int]:
    """Keys order the instructions of all ranks together."""
    task, phase = record["key"]
    return task, PHASES[phase]


@dataclass
class Arrival:
    """The data that a rank receives for one transfer."""

    elements: int = 0
    split: dict[AllocationId, int] = field(default_factory=dict)
    """Elements of split receives that were not awaited yet, by destination."""
    least_key: tuple[int, int] | None = None
    gathered_from: list[int] = field(default_factory=list)


@dataclass
class RankTransfers:
    """All that one rank sends and receives."""

    trace: Trace
    sends: list[Record] = field(default_factory=list)
    arrivals: dict[Transfer, Arrival] = field(default_factory=dict)


def verify_transfers(oracle: Oracle, ranks: Sequence[RankTransfers]) -> None:
    for rank in ranks:
        _verify_messages(rank)
    _verify_arrivals(oracle, ranks)


def _verify_messages(rank: RankTransfers) -> None:
    """No two messages to one rank have the same number."""
    messages: set[tuple[int, int]] = set()
    for send in rank.sends:
        message = (send["destination_rank"], send["message"])
        if message in messages:
            raise VerificationError(f"rank {rank.trace.rank}: message {send['message']} is sent twice: {send}")
        messages.add(message)


def _verify_arrivals(oracle: Oracle, ranks: Sequence[RankTransfers]) -> None:
    """A rank receives exactly the data sent to it for a transfer; keys of sends are smaller than those of receives."""
    sent: dict[tuple[Transfer, int], int] = {}
    senders: dict[tuple[Transfer, int], list[int]] = {}
    for rank in ranks:
        for record in rank.sends:
            transfer = (record["transfer"][0], record["transfer"][1], record["transfer"][2])
            target = record["destination_rank"]
            arrival = ranks[target].arrivals.get(transfer)
            what = f"rank {rank.trace.rank}, {describe(record)}"
            if arrival is None or arrival.least_key is None:
                raise VerificationError(f"{what}\n  rank {target} receives nothing for this transfer")
            if sort_key(record) >= arrival.least_key:
                raise VerificationError(f"{what}\n  key is not smaller than that of the receive, {arrival.least_key}")
            senders.setdefault((transfer, target), []).append(rank.trace.rank)
            elements = oracle.mask(rank.trace.buffer_numbers[transfer[1]], [record["sent_box"]])
            already = sent.get((transfer, target), 0)
            if already & elements and not transfer[2]:
                raise VerificationError(f"{what}\n  sends elements that are sent to rank {target} already")
            sent[(transfer, target)] = already | elements
    for rank in ranks:
        for transfer, arrival in rank.arrivals.items():
            key = (transfer, rank.trace.rank)
            if transfer[2]:
                if sorted(arrival.gathered_from) != sorted(senders.get(key, [])):
                    raise VerificationError(
                        f"rank {rank.trace.rank} gathers {transfer} from {arrival.gathered_from}, "
                        f"it is sent by {senders.get(key)}"
                    )
            elif sent.get(key, 0) != arrival.elements:
                raise VerificationError(
                    f"rank {rank.trace.rank} receives other elements for {transfer} than are sent to it"
                )
