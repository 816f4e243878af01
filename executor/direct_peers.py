# SPDX-License-Identifier: MIT
"""Finds the ranks of this host whose memory this rank can reach, and that can reach its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py.executor.communicator import Communicator


class DirectPeers(NamedTuple):
    """Who transfers directly."""

    with_rank: list[bool]  # for every rank, whether this rank's transfers to and from it are direct
    anywhere: bool  # whether any two ranks of the run do; the same on all ranks


def agree_on_direct_peers(native: Any, communicator: Communicator, *, wanted: bool, required: bool) -> DirectPeers:
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
    failures: list[str] = []
    for rank in communicator.local_ranks:
        if rank == communicator.rank or not offer or not offers[rank]:
            continue
        try:
            native.open_direct(rank, offers[rank])
        except RuntimeError as error:
            failures.append(f"rank {communicator.rank} cannot map the memory of rank {rank} ({error})")
        else:
            opened.append(rank)
    if communicator.local_size == 1:
        failures.append("it is alone on its host")
    elif not offer:
        failures.append("its devices cannot transfer directly")
    report = json.dumps({"opened": opened, "failures": failures, "required": required})
    reports = [json.loads(text) for text in communicator.exchange(report.encode())]
    peers = [rank for rank in opened if communicator.rank in reports[rank]["opened"]]
    if offer:
        native.agree_direct(peers)
    if communicator.size > 1:
        _check_required(reports)
    anywhere = any(rank in reports[peer]["opened"] for rank, report in enumerate(reports) for peer in report["opened"])
    return DirectPeers([rank in peers for rank in range(communicator.size)], anywhere)


def _check_required(reports: list[dict[str, Any]]) -> None:
    for rank, report in enumerate(reports):
        if report["required"] and not any(rank in reports[other]["opened"] for other in report["opened"]):
            others = [text for other in reports for text in other["failures"] if text.endswith(")")]
            reason = "; ".join(report["failures"] or others) or "no other rank of its host takes part"
            raise ConfigurationError(
                f"CELERITY_TRANSPORT=direct, but rank {rank} reaches no other rank directly: {reason}. "
                f"Leave CELERITY_TRANSPORT unset to use what there is, or start several ranks per host."
            )


__all__ = ["DirectPeers", "agree_on_direct_peers"]
