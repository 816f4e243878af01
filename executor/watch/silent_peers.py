# SPDX-License-Identifier: MIT
"""Finds ranks that do not answer, and whether those on this host are active."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from celerity_py.executor.watch.program_activity import Activity

if TYPE_CHECKING:
    from celerity_py.executor.network.communicator import Communicator


class _Question:
    """The oldest question to a rank that it has not answered."""

    def __init__(self, process: int | None, now_s: float) -> None:
        self.asked_at_s = self.busy_at_s = now_s
        self.activity = None if process is None else Activity(Path(f"/proc/{process}"), now_s)


class SilentPeers:
    """Executor thread only. Times are those of one monotonic clock, in seconds.

    The executor thread of a rank answers even while its program computes. A rank on this host may be silent for long
    if a kernel holds the interpreter lock; it computes then. A process that is stopped, or whose threads wait for each
    other, uses no processor time: it stands still.

    Args:
        communicator: Of the run.
        patience_s: How long an answer may take.
    """

    def __init__(self, communicator: Communicator, patience_s: float) -> None:
        self._communicator = communicator
        self._patience_s = patience_s
        self._questions: dict[int, _Question] = {}

    def note_question(self, rank: int, now_s: float) -> None:
        """A rank has been asked for its status."""
        if rank not in self._questions:
            self._questions[rank] = _Question(self._communicator.process_of(rank), now_s)

    def note_sign_of_life(self, rank: int) -> None:
        """Something came from `rank`."""
        self._questions.pop(rank, None)

    def forget(self) -> None:
        """Forget all questions: this rank waits no longer."""
        self._questions.clear()

    def unseen(self, now_s: float, patience_s: float | None = None) -> list[int]:
        """The ranks that do not answer, and whose process cannot be seen: on another host, or gone."""
        return [rank for rank in self._silent(now_s, patience_s) if not self._communicator.is_alive(rank)]

    def standing(self, now_s: float, still_s: float) -> list[int]:
        """The ranks that do not answer, and whose process on this host has been inactive for `still_s` or longer."""
        found = []
        for rank in self._silent(now_s):
            question = self._questions[rank]
            if question.activity is None or not self._communicator.is_alive(rank):
                continue
            if question.activity.is_busy(now_s):
                question.busy_at_s = now_s
            elif now_s - question.busy_at_s >= still_s:
                found.append(rank)
        return found

    def describe(self, rank: int) -> str:
        """One line about a rank that does not answer."""
        question = self._questions.get(rank)
        if question is None or question.activity is None or not self._communicator.is_alive(rank):
            return f"rank {rank} does not answer"
        if question.activity.is_stopped():
            return f"rank {rank} does not answer: a signal or a debugger has stopped its process"
        return f"rank {rank} does not answer, and its process computes nothing"

    def _silent(self, now_s: float, patience_s: float | None = None) -> list[int]:
        patience_s = self._patience_s if patience_s is None else patience_s
        return sorted(rank for rank, asked in self._questions.items() if now_s - asked.asked_at_s >= patience_s)
