# SPDX-License-Identifier: MIT
"""Says what a run is waiting for when it does not move, and finds peers that are gone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from celerity_py.executor.communicator import NOTICE_PING
from celerity_py.executor.failure import Failure
from celerity_py.scheduler.errors import CommunicationError

if TYPE_CHECKING:
    from celerity_py.executor.communicator import Communicator
    from celerity_py.executor.delegate import ExecutorDelegate, NativeExecutor
    from celerity_py.executor.failure_handler import FailureTimes

_CHECK_INTERVAL_S: Final = 1.0
_LONGEST_REPORT: Final = 12  # instructions


class ProgressWatchdog:
    """Executor thread only. Times are those of one monotonic clock, in seconds.

    A stall begins when the set of active instructions stops changing. A peer counts as silent if it was asked for a
    sign of life, did not give one, and cannot be seen to run: its executor thread answers even while its program
    computes, unless a kernel holds the interpreter lock for as long.
    """

    def __init__(
        self,
        native: NativeExecutor,
        communicator: Communicator,
        delegate: ExecutorDelegate,
        times: FailureTimes,
        now_s: float,
    ) -> None:
        self._native = native
        self._communicator = communicator
        self._delegate = delegate
        self._times = times
        self._stalled_since_s = now_s
        self._next_check_s = now_s + _CHECK_INTERVAL_S
        self._last_active: list[tuple[Any, ...]] = []
        self._silent: set[int] = set()  # asked, and no answer yet
        self._has_asked = False
        self._has_reported = False

    def note_progress(self, now_s: float) -> None:
        """Something moved."""
        self._stalled_since_s = now_s
        self._next_check_s = now_s + _CHECK_INTERVAL_S
        self._has_asked = self._has_reported = False

    def note_sign_of_life(self, rank: int) -> None:
        """Something came from `rank`."""
        self._silent.discard(rank)

    def check(self, now_s: float) -> Failure | None:
        """Look after the run, at most once a second; return a failure if a peer is lost."""
        if now_s < self._next_check_s:
            return None
        self._next_check_s = now_s + _CHECK_INTERVAL_S
        active = self._native.active_instructions()
        if not active or [entry[1:] for entry in active] != [entry[1:] for entry in self._last_active]:
            self._last_active = active
            self.note_progress(now_s)
            return None
        self._last_active = active
        return self._consider_stall(now_s - self._stalled_since_s, active)

    def _consider_stall(self, stalled_s: float, active: list[tuple[Any, ...]]) -> Failure | None:
        others = [rank for rank in range(self._communicator.size) if rank != self._communicator.rank]
        if stalled_s >= self._times.ping_s and not self._has_asked:
            self._has_asked = True
            self._silent = set(others)
            for rank in others:
                self._communicator.send_notice(rank, NOTICE_PING, b"")
        if stalled_s >= self._times.report_s and not self._has_reported:
            self._has_reported = True
            sys.stderr.write(self._describe_stall(stalled_s, active))
            sys.stderr.flush()
        if stalled_s >= self._times.gone_s:
            for rank in others:
                if self._communicator.is_alive(rank) is False:
                    return self._lose(rank, f"the process of rank {rank} is gone", stalled_s)
        if stalled_s >= self._times.silent_s and self._unseen():
            rank = min(self._unseen())
            return self._lose(rank, f"rank {rank} does not answer any more", stalled_s)
        return None

    def _unseen(self) -> set[int]:
        return {rank for rank in self._silent if not self._communicator.is_alive(rank)}

    def _lose(self, rank: int, what: str, stalled_s: float) -> Failure:
        text = f"{what}, and nothing has moved for {stalled_s:.0f} s; look for its last output, or a kill by the system"
        error = CommunicationError(text)
        return Failure(self._communicator.rank, f"CommunicationError: {text}", error=error)

    def _describe(self, entry: tuple[Any, ...]) -> str:
        _, text, submission, buffer, box, peer, transfer = entry
        parts = [text]
        if buffer:
            parts.append(f"{self._delegate.describe_buffer(buffer)} {show_box(box)}".rstrip())
        if peer >= 0:
            parts.append(f"peer rank {peer}")
        if transfer is not None:
            task, transferred, reduction = transfer
            parts.append(f"transfer T{task}.B{transferred}" + (f".R{reduction}" if reduction else ""))
        if submission and (description := self._delegate.describe_submission(submission)) is not None:
            parts.append(f"task '{description[0]}' (submitted at {description[1]})")
        return ", ".join(parts)

    def _describe_stall(self, stalled_s: float, active: list[tuple[Any, ...]]) -> str:
        lines = [f"celerity_py, rank {self._communicator.rank}: no progress for {stalled_s:.0f} s. Under way:"]
        lines += [f"  for {entry[0]:.0f} s: {self._describe(entry)}" for entry in active[:_LONGEST_REPORT]]
        if len(active) > _LONGEST_REPORT:
            lines.append(f"  and {len(active) - _LONGEST_REPORT} more")
        unanswered_s = stalled_s - self._times.ping_s
        lines += [f"  rank {rank} has not answered for {unanswered_s:.0f} s" for rank in sorted(self._unseen())]
        return "\n".join(lines) + "\n"


def show_box(flat: tuple[int, ...] | None) -> str:
    """Show a flat box without the unit dimensions that pad it to three."""
    if flat is None:
        return ""
    ranges = list(zip(flat[:3], flat[3:], strict=True))
    while ranges and ranges[-1] == (0, 1):
        ranges.pop()
    return f"[{', '.join(f'{start}:{stop}' for start, stop in ranges)}]"
