# SPDX-License-Identifier: MIT
"""The instructions of a run: when each began and ended, and the messages between ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from celerity_py.tools.report.runs import Integers, Mask, Rank, Run

#: Kinds of slices in which an instruction is carried out.
LANE_KINDS: Final = ("kernel", "copy", "combine", "signal", "fetch")
HOST_KINDS: Final = ("host task", "initialize", "alloc", "free", "reduce", "fence", "split receive")
MESSAGE_KINDS: Final = ("send", "receive", "barrier")
TRANSFER_KINDS: Final = ("send", "receive", "signal", "fetch", "split receive")


@dataclass
class Instructions:
    """The slices that carry out the instructions of one rank."""

    rank: Rank
    #: Whether a slice carries out an instruction.
    is_work: Mask
    #: By instruction: the slice that begins it, -1 if there is none. A slice on a lane is preferred.
    row_of: Integers
    #: By instruction: the slice with the latest end, -1 if there is none.
    last_row_of: Integers
    #: By instruction: the slice of its message with the latest end, -1 if it has none.
    message_row_of: Integers
    #: By slice: the slice before it on the same lane, -1 if there is none.
    before_on_lane: Integers
    #: Kinds of slices, as words.
    kinds: list[str]

    def begin_row(self, instruction: int) -> int:
        """The slice that begins an instruction, or -1."""
        return int(self.row_of[instruction]) if 0 <= instruction < len(self.row_of) else -1

    def end_row(self, instruction: int) -> int:
        """The slice that ends an instruction, or -1."""
        return int(self.last_row_of[instruction]) if 0 <= instruction < len(self.last_row_of) else -1

    def message_row(self, row: int) -> int:
        """The slice of the message of the instruction in this slice, or -1."""
        instruction = int(self.rank.numbers["instruction"][row])
        return int(self.message_row_of[instruction]) if 0 <= instruction < len(self.message_row_of) else -1


def find_instructions(run: Run, rank: Rank) -> Instructions:
    """Find the slices of the instructions of a rank."""
    on_lane = run.is_kind(rank, *LANE_KINDS)
    is_work = on_lane | run.is_kind(rank, *HOST_KINDS, *MESSAGE_KINDS)
    numbers = rank.numbers["instruction"]
    is_work &= numbers >= 0
    num_instructions = int(numbers.max(initial=-1)) + 1
    row_of = np.full(num_instructions, -1, np.int64)
    last_row_of = np.full(num_instructions, -1, np.int64)
    # Later assignments win: the first slice of each instruction, and then the first one on a lane.
    for rows in (np.flatnonzero(is_work & ~on_lane)[::-1], np.flatnonzero(is_work & on_lane)[::-1]):
        row_of[numbers[rows]] = rows
    rows = np.flatnonzero(is_work)
    rows = rows[np.argsort(rank.end[rows], kind="stable")]
    last_row_of[numbers[rows]] = rows
    message_row_of = np.full(num_instructions, -1, np.int64)
    rows = rows[rank.numbers["message"][rows] >= 0]
    message_row_of[numbers[rows]] = rows

    before_on_lane = np.full(len(rank), -1, np.int64)
    rows = np.flatnonzero(on_lane)
    rows = rows[np.lexsort((rank.start[rows], rank.track[rows]))]
    if len(rows) > 1:
        same = rank.track[rows[1:]] == rank.track[rows[:-1]]
        before_on_lane[rows[1:][same]] = rows[:-1][same]
    kinds = [run.text(kind) for kind in rank.kind]
    return Instructions(rank, is_work, row_of, last_row_of, message_row_of, before_on_lane, kinds)


class Messages:
    """The sends and receives of all ranks, by the message that connects them."""

    def __init__(self, run: Run) -> None:
        self._sends: dict[tuple[int, int, int], int] = {}
        self._receives: dict[tuple[int, int, int], int] = {}
        for number, rank in run.ranks.items():
            peers, messages = rank.numbers["peer"], rank.numbers["message"]
            for row in np.flatnonzero(run.is_kind(rank, "send")).tolist():
                self._sends[number, int(peers[row]), int(messages[row])] = row
            for row in np.flatnonzero(run.is_kind(rank, "receive")).tolist():
                self._receives[int(peers[row]), number, int(messages[row])] = row

    def send_of(self, receiver: int, rank: Rank, row: int) -> tuple[int, int] | None:
        """The rank and slice of the send of a received message."""
        source = int(rank.numbers["peer"][row])
        found = self._sends.get((source, receiver, int(rank.numbers["message"][row])))
        return None if found is None else (source, found)

    def receive_of(self, sender: int, rank: Rank, row: int) -> tuple[int, int] | None:
        """The rank and slice of the receive of a sent message."""
        target = int(rank.numbers["peer"][row])
        found = self._receives.get((sender, target, int(rank.numbers["message"][row])))
        return None if found is None else (target, found)
