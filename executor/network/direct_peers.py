# SPDX-License-Identifier: MIT
"""Finds the ranks of this host whose memory this rank can reach, and that can reach its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py.executor.network.communicator import Communicator


class DirectExecutor(Protocol):
    """The part of `_native.Executor` that this module uses."""

    def offer_direct(self, local_ranks: list[int]) -> bytes:
        """The data by which other ranks of this host reach this rank's memory; empty if they cannot."""

    def open_direct(self, rank: int, offer: bytes) -> None:
        """Map the memory of another rank; a RuntimeError gives the reason if that is impossible."""

    def agree_direct(self, ranks: list[int]) -> None:
        """Transfer directly to and from these ranks."""


class DirectPeers(NamedTuple):
    """The pairs of ranks with direct transfers."""

    with_rank: list[bool]  # for every rank, whether this rank's transfers to and from it are direct
    why_not: dict[int, str]  # the reasons, by rank, where this rank's transfers are not


class _Report(NamedTuple):
    """The report of one rank to the others."""

    opened: list[int]  # ranks whose memory it has mapped
    unreachable: list[tuple[int, str]]  # ranks whose memory it could not map, and why
    is_alone: bool  # on its host
    can_transfer: bool
    required: bool


def agree_on_direct_peers(
    native: DirectExecutor, communicator: Communicator, *, wanted: bool, required: bool
) -> DirectPeers:
    """Connect the executors of one host for direct transfers. Collective.

    Args:
        native: The `_native.Executor` of this rank, before its first batch.
        communicator: Of the run.
        wanted: Whether this rank takes part.
        required: Whether it is an error if this rank finds no peer although there are other ranks.

    Returns:
        Who transfers directly; two ranks agree about each other.

    Raises:
        ConfigurationError: On all ranks, if one that requires a peer has none.
    """
    offer = native.offer_direct(list(communicator.local_ranks)) if wanted else b""
    offers = communicator.exchange(offer)
    opened: list[int] = []
    unreachable: dict[int, str] = {}
    for rank in communicator.local_ranks:
        if rank == communicator.rank or not offer or not offers[rank]:
            continue
        try:
            native.open_direct(rank, offers[rank])
        except RuntimeError as error:
            unreachable[rank] = str(error)
        else:
            opened.append(rank)
    is_alone = communicator.local_size == 1
    own = _Report(opened, list(unreachable.items()), is_alone, bool(offer), required)
    reports = [_Report(*json.loads(text)) for text in communicator.exchange(json.dumps(own).encode())]
    peers = [rank for rank in opened if communicator.rank in reports[rank].opened]
    if offer:
        native.agree_direct(peers)
    if communicator.size > 1:
        _check_required(reports)
    others = [rank for rank in range(communicator.size) if rank != communicator.rank and rank not in peers]
    why_not = {rank: _why_not(communicator, reports, rank, wanted=wanted) for rank in others}
    return DirectPeers([rank in peers for rank in range(communicator.size)], why_not)


def _why_not(communicator: Communicator, reports: list[_Report], rank: int, *, wanted: bool) -> str:
    """Why the transfers between this rank and another one are not direct."""
    if rank not in communicator.local_ranks:
        return "on another host"
    if not wanted:
        return "CELERITY_TRANSPORT or CELERITY_SYNC rules it out"
    for teller, other in ((communicator.rank, rank), (rank, communicator.rank)):
        if not reports[teller].can_transfer:
            return f"the devices of rank {teller} cannot transfer directly"
        for peer, text in reports[teller].unreachable:
            if peer == other:
                return f"rank {teller} cannot map the memory of rank {other} ({text})"
    return "one of the two has not offered its memory"


def _check_required(reports: list[_Report]) -> None:
    for rank, report in enumerate(reports):
        if report.required and not any(rank in reports[other].opened for other in report.opened):
            raise ConfigurationError(
                f"CELERITY_TRANSPORT=direct, but rank {rank} reaches no other rank directly: "
                f"{_explain(rank, reports)}. "
                f"Leave CELERITY_TRANSPORT unset to use what there is, or start several ranks per host."
            )


def _explain(rank: int, reports: list[_Report]) -> str:
    """Why a rank has no peer."""
    if reports[rank].is_alone:
        return "it is alone on its host"
    if not reports[rank].can_transfer:
        return "its devices cannot transfer directly"
    tellers = [rank] if reports[rank].unreachable else range(len(reports))
    failures = [
        f"rank {teller} cannot map the memory of rank {peer} ({text})"
        for teller in tellers
        for peer, text in reports[teller].unreachable
    ]
    return "; ".join(failures) or "no other rank of its host takes part"


__all__ = ["DirectPeers", "agree_on_direct_peers"]
