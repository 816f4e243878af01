# SPDX-License-Identifier: MIT
"""Names the call of a task that blocks for ever, as far as that can be seen. Such a run is not ended."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celerity_py.executor.failures.user_frames import is_library, is_ours
from celerity_py.executor.watch.program_activity import Activity

if TYPE_CHECKING:
    import threading

    from celerity_py._native import ActiveInstruction
    from celerity_py.executor.delegate import ExecutorDelegate

_REPORT_INTERVAL_S: Final = 60.0
_MOST_NAMED: Final = 3


class _Call(NamedTuple):
    """A call under way, and the times since which its thread is the same in some respect."""

    ticket: int
    submission: int
    line: str
    activity: Activity
    at_line_since_s: float
    idle_since_s: float  # infinity while the thread uses processor time


class BlockedCalls:
    """Executor thread only.

    A call looks blocked if nothing else of this rank moves, and its thread has used no processor time all the while,
    or has used it in a single line of Python: calls of MPI that wait spin.

    Args:
        delegate: Names tasks.
        rank: This one.
        threads: Those that run code of the user. Others may be added.
        loops: The code of the functions in which these threads take their calls, as a variable `call`; and of the one
            in which they wait for the next call.
        limit_s: After so many seconds a call looks blocked; 0: never.
    """

    def __init__(
        self,
        delegate: ExecutorDelegate,
        rank: int,
        threads: Sequence[threading.Thread],
        loops: tuple[Collection[CodeType], CodeType],
        limit_s: float,
    ) -> None:
        self._delegate = delegate
        self._rank = rank
        self._threads = threads
        self._loops, self._waits = loops
        self._limit_s = limit_s
        self._calls: dict[int, _Call] = {}  # by the number of the thread
        self._next_report_s = 0.0

    def look(self, now_s: float, moved_at_s: float, active: Sequence[ActiveInstruction]) -> str:
        """Look at the calls under way, about once a second. The line to print now, or an empty text.

        Args:
            now_s: The time now.
            moved_at_s: When something has moved on this rank for the last time.
            active: The instructions of this rank that are under way.
        """
        computing = {entry.submission for entry in active if entry.is_computing and entry.submission}
        if self._limit_s == 0 or not computing:
            self._calls.clear()
            return ""
        self._calls = running = self._find_calls(computing, now_s)
        if now_s - moved_at_s < self._limit_s or now_s < self._next_report_s:
            return ""
        told = [text for call in running.values() if (text := self._describe(call, now_s))]
        on_devices = computing - {call.submission for call in running.values()}
        told += [f"{self._name(each)} runs on its device" for each in sorted(on_devices)]
        if not told:
            return ""
        self._next_report_s = now_s + _REPORT_INTERVAL_S
        more = [f"and {len(told) - _MOST_NAMED} more"] if len(told) > _MOST_NAMED else []
        return (
            f"celerity_py: rank {self._rank}: nothing has moved for {now_s - moved_at_s:.0f} s but "
            f"{'; '.join([*told[:_MOST_NAMED], *more])}. If a call waits for a lock, a message or another task that "
            f"cannot come, end the program. A call that computes may go on: this does not end the run.\n"
        )

    def _find_calls(self, computing: set[int], now_s: float) -> dict[int, _Call]:
        running = {}
        frames = sys._current_frames()
        for thread in list(self._threads):
            frame = frames.get(thread.ident or 0)
            found = None if frame is None else self._call_of(frame)
            if found is not None and found[0].submission in computing:
                running[thread.native_id or 0] = self._follow(thread.native_id or 0, *found, now_s)
        frames.clear()  # it has the frame of this call, too: the cycle would keep the variables of all user functions
        return running

    def _call_of(self, frame: FrameType) -> tuple[Any, str] | None:
        """The call that a thread runs, and the line of the user's code where it is; None if it waits for a call."""
        line = ""
        for depth, each in enumerate(_outwards(frame)):
            code = each.f_code
            if code is self._waits or (code in self._loops and depth == 0):
                return None
            if code in self._loops:
                call = each.f_locals.get("call")
                # Initial contents and combinations of partial results belong to no submission.
                return (call, line) if hasattr(call, "submission") else None
            if not line and not is_ours(code.co_filename) and not is_library(code.co_filename):
                line = f"{code.co_filename}:{each.f_lineno}"
        return None

    def _follow(self, thread: int, call: Any, line: str, now_s: float) -> _Call:
        known = self._calls.get(thread)
        if known is None or known.ticket != call.ticket:
            activity = Activity(Path(f"/proc/self/task/{thread}"), now_s)
            return _Call(call.ticket, call.submission, line, activity, now_s, float("inf"))
        idle_since_s = float("inf") if known.activity.is_busy(now_s) else min(known.idle_since_s, now_s)
        at_line_since_s = known.at_line_since_s if line == known.line else now_s
        return known._replace(line=line, at_line_since_s=at_line_since_s, idle_since_s=idle_since_s)

    def _describe(self, call: _Call, now_s: float) -> str:
        """The blocked call as a part of a sentence; empty if it does not look blocked."""
        where = f"at {call.line}" if call.line else "in a library"
        # A look each second, and the activity of a few seconds, find the beginning late.
        limit_s = self._limit_s - 5.0 if self._limit_s > 10.0 else self._limit_s / 2
        if now_s - call.idle_since_s >= limit_s:
            return f"{self._name(call.submission)} is {where} and has used no processor time"
        is_busy = call.activity.is_measured and call.idle_since_s == float("inf")
        if is_busy and now_s - call.at_line_since_s >= limit_s:
            return f"{self._name(call.submission)} is {where} all the while, and uses processor time"
        return ""

    def _name(self, submission: int) -> str:
        found = self._delegate.describe_submission(submission) if submission else None
        return "a call of the runtime" if found is None else f"{found[0]} (submitted at {found[1]})"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
