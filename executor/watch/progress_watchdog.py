# SPDX-License-Identifier: MIT
"""Notices a run that does not move: reports the waits of each rank, finds lost peers, and ends the run."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from celerity_py._native import ActiveInstruction
from celerity_py.executor.delegate import Activity
from celerity_py.executor.failures.failure import Failure, print_whole
from celerity_py.executor.network.communicator import NOTICE_QUERY
from celerity_py.executor.watch.silent_peers import SilentPeers
from celerity_py.scheduler.errors import CommunicationError, Stalled

if TYPE_CHECKING:
    from collections.abc import Collection

    from celerity_py.executor.delegate import ExecutorDelegate, NativeExecutor
    from celerity_py.executor.failures.failure_handler import FailureTimes
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.executor.watch.blocked_calls import BlockedCalls
    from celerity_py.executor.watch.program_activity import ProgramActivity
    from celerity_py.executor.watch.program_comparison import ProgramComparison

_log = logging.getLogger(__name__)

_CHECK_INTERVAL_S: Final = 1.0
_LONGEST_REPORT: Final = 10  # lines, without the story of the task that stands still
_LONGEST_STORY: Final = 4
_LONGEST_QUERY_INTERVAL_S: Final = 5.0
_MOST_RANKS_NAMED: Final = 3  # in the failure, which is one line
_LONGEST_WORD: Final = 300  # characters of a status, which take up to six bytes each


@dataclass(frozen=True)
class RankStatus:
    """The status of a rank, its answer to another rank that has been waiting."""

    rank: int
    still_s: float = 0.0  # since something moved
    is_computing: bool = False  # code of the user runs, or the program itself is busy
    is_waiting: bool = False  # instructions are under way
    waits_for: str = ""  # the oldest of them
    line: str = ""  # "file:line" of the program's thread


class ProgressWatchdog:
    """Executor thread only. Times are those of one monotonic clock, in seconds.

    A stall begins when the set of active instructions stops changing. It ends the run if all ranks stand still and none
    computes. A peer counts as silent if it was asked for its status, did not answer, and cannot be seen to run: its
    executor thread answers even while its program computes, unless a kernel holds the interpreter lock for as long. A
    silent peer that can be seen stands still if its process uses no processor time.

    Args:
        native: Of this rank.
        communicator: Of the run.
        delegate: Names tasks and buffers.
        activity: Of the thread that runs the program.
        comparison: Of the programs; None with one rank.
        times: When to ask, to report, and to end the run.
        now_s: The time now.
        blocked: Finds calls of tasks that look blocked; None if nobody wants to know.
    """

    def __init__(  # noqa: PLR0917 - a record
        self,
        native: NativeExecutor,
        communicator: Communicator,
        delegate: ExecutorDelegate,
        activity: ProgramActivity,
        comparison: ProgramComparison | None,
        times: FailureTimes,
        now_s: float,
        blocked: BlockedCalls | None = None,
    ) -> None:
        self._native = native
        self._blocked = blocked
        self._communicator = communicator
        self._delegate = delegate
        self._activity = activity
        self._comparison = comparison
        self._times = times
        self._others = [rank for rank in range(communicator.size) if rank != communicator.rank]
        self._moved_at_s = now_s
        self._next_check_s = now_s + _CHECK_INTERVAL_S
        self._active: list[ActiveInstruction] = []
        self._silent = SilentPeers(communicator, times.compare_s)
        self._next_query_s = 0.0
        self._query_interval_s = 0.0
        self._statuses: dict[int, tuple[float, RankStatus]] = {}  # with the time of the answer
        self._has_reported = self._has_told_calls = False
        self._leaving_since_s: float | None = None

    def note_progress(self, moved_at_s: float) -> None:
        """Something has moved at this time; earlier times than a known one count for nothing."""
        if moved_at_s > self._moved_at_s:
            self._moved_at_s = moved_at_s
            self._has_reported = self._has_told_calls = False

    def note_leaving(self, now_s: float) -> None:
        """All of this rank's work is done; it waits for the other ranks to end as well."""
        self._leaving_since_s = now_s

    def note_sign_of_life(self, rank: int) -> None:
        """Something came from `rank`."""
        self._silent.note_sign_of_life(rank)

    def describe_self(self, now_s: float) -> bytes:
        """The answer to another rank that waits."""
        return json.dumps(asdict(self._own_status(now_s, self._read_active(now_s)))).encode("ascii")

    def look(self) -> Activity:
        """What this rank does at this moment."""
        active = self._native.active_instructions()
        if any(entry.is_computing for entry in active):
            return Activity(is_computing=True)
        awaited = next((entry for entry in active if entry.transfer is not None and entry.kind != "send"), None)
        if awaited is None:
            return Activity()
        what = self._delegate.describe_buffer(awaited.buffer, awaited.where) if awaited.buffer else awaited.kind
        return Activity(is_waiting=True, peer=awaited.peer, what=what[:_LONGEST_WORD])

    def take_status(self, content: bytes, now_s: float) -> None:
        """Another rank has answered."""
        status = RankStatus(**json.loads(content))
        self._statuses[status.rank] = now_s, status

    def check(self, now_s: float) -> Failure | None:
        """Look after the run, at most once a second; return a failure if a peer is lost, or if no rank moves."""
        if now_s < self._next_check_s:
            return None
        self._next_check_s = now_s + _CHECK_INTERVAL_S
        active = self._read_active(now_s)
        if [entry._replace(age_s=0) for entry in active] != [entry._replace(age_s=0) for entry in self._active]:
            self.note_progress(now_s)
        self._active = active
        self._tell_of_long_calls(now_s, active)
        if self._blocked is not None and (told := self._blocked.look(now_s, self._moved_at_s, active)):
            print_whole(told)
        is_overdue = any(not entry.is_computing and entry.age_s >= self._times.compare_s for entry in active)
        if not is_overdue:
            self._query_interval_s = 0.0
            return None
        if self._others:
            self._ask(now_s)
        if any(entry.is_computing for entry in active):
            return None
        return self._consider_stall(now_s, active)

    def _tell_of_long_calls(self, now_s: float, active: list[ActiveInstruction]) -> None:
        """A call that runs for long is no stall; log it once, so that the user sees why the run takes long."""
        if not self._has_told_calls and active and now_s - self._moved_at_s >= self._times.report_s:
            self._has_told_calls = True
            for entry in [entry for entry in active if entry.is_computing][:_LONGEST_REPORT]:
                _log.info("for %.0f s: %s", entry.age_s, self._describe(entry))

    def _read_active(self, now_s: float) -> list[ActiveInstruction]:
        active = self._native.active_instructions()
        if self._leaving_since_s is not None:
            age_s = now_s - self._leaving_since_s
            active.append(ActiveInstruction(age_s=age_s, text="the other ranks to end as well"))
        return active

    def _ask(self, now_s: float) -> None:
        """Ask the others for their status, less often the longer it takes; each question compares the programs, too."""
        if self._query_interval_s == 0.0:
            self._silent.forget()
            self._statuses.clear()
            self._query_interval_s = self._times.compare_s
            self._next_query_s = now_s
        if now_s < self._next_query_s:
            return
        self._query_interval_s = min(2 * self._query_interval_s, _LONGEST_QUERY_INTERVAL_S)
        self._next_query_s = now_s + self._query_interval_s
        claim = self._comparison.claim() if self._comparison is not None else b""
        for rank in self._others:
            self._communicator.send_notice(rank, NOTICE_QUERY, claim)
            self._silent.note_question(rank, now_s)

    def _consider_stall(self, now_s: float, active: list[ActiveInstruction]) -> Failure | None:
        stalled_s = now_s - self._moved_at_s
        if stalled_s >= self._times.gone_s:
            for rank in self._others:
                if self._communicator.is_alive(rank) is False:
                    return self._lose(f"the process of rank {rank} is gone", stalled_s)
        lost = self._silent.unseen(now_s, self._times.silent_s / 2)
        if stalled_s >= self._times.silent_s and lost:
            return self._lose(f"rank {lost[0]} does not answer any more", stalled_s)
        unseen, standing = self._silent.unseen(now_s), self._silent.standing(now_s, self._times.still_s)
        own = self._own_status(now_s, active)
        silent = {*unseen, *standing}
        if stalled_s < self._times.report_s or own.is_computing:
            return None
        if not self._is_first_of_all_that_stand(own, now_s, silent):
            return None
        if not self._has_reported:
            self._has_reported = True
            print_whole(self._describe_stall(own, silent))
        if 0 < self._times.stall_s <= stalled_s and not unseen:  # unseen ranks count as lost soon
            return self._give_up(own, standing)
        return None

    def _is_first_of_all_that_stand(self, own: RankStatus, now_s: float, silent: Collection[int]) -> bool:
        """Whether no rank moves, by the latest answers, and no rank with a smaller number waits as well."""
        for rank in self._others:
            told_at_s, status = self._statuses.get(rank, (0.0, own))
            is_fresh = rank in self._statuses and now_s - told_at_s <= 2 * _LONGEST_QUERY_INTERVAL_S
            if not is_fresh:
                if rank in silent:
                    continue
                return False
            if status.is_computing or status.still_s < self._times.still_s:
                return False
            if status.is_waiting and rank < own.rank:
                return False
        return True

    def _own_status(self, now_s: float, active: list[ActiveInstruction]) -> RankStatus:
        return RankStatus(
            rank=self._communicator.rank,
            still_s=round(now_s - self._moved_at_s, 1),
            is_computing=any(entry.is_computing for entry in active) or self._activity.is_busy(now_s),
            is_waiting=bool(active),
            waits_for=self._describe(active[0])[:_LONGEST_WORD] if active else "",
            line=self._activity.line()[-_LONGEST_WORD:],
        )

    def _lose(self, what: str, stalled_s: float) -> Failure:
        text = f"{what}, and nothing has moved for {stalled_s:.0f} s; look for its last output, or a kill by the system"
        return self._fail(text, CommunicationError)

    def _give_up(self, own: RankStatus, silent: Collection[int]) -> Failure:
        told = [_tell(own), *self._tell_others(silent)][:_MOST_RANKS_NAMED]
        text = (
            f"nothing has moved for {own.still_s:.0f} s, and no rank computes: {'; '.join(told)}. "
            f"CELERITY_STALL_S says after how many seconds such a run ends (0: never)"
        )
        return self._fail(text, Stalled)

    def _fail(self, text: str, kind: type[CommunicationError]) -> Failure:
        return Failure(self._communicator.rank, f"{kind.__name__}: {text}", error=kind(text))

    def _describe(self, entry: ActiveInstruction) -> str:
        parts = [entry.text]
        if entry.buffer:
            parts.append(self._delegate.describe_buffer(entry.buffer, entry.where))
        if entry.peer is not None:
            parts.append(f"peer rank {entry.peer}")
        if entry.transfer is not None:
            parts.append(f"transfer {show_transfer(entry.transfer)}")
        if entry.submission and (found := self._delegate.describe_submission(entry.submission)) is not None:
            parts.append(f"{found[0]} (submitted at {found[1]})")
        return ", ".join(parts)

    def _tell_others(self, silent: Collection[int]) -> list[str]:
        """One line about each other rank. Silent ranks come first, because the others wait for them."""
        answered = [self._statuses[rank][1] for rank in sorted(self._statuses) if rank not in silent]
        return [*map(self._silent.describe, sorted(silent)), *map(_tell, answered)]

    def _describe_stall(self, own: RankStatus, silent: Collection[int]) -> str:
        limit_s = self._times.stall_s
        end = f"The run ends after {limit_s:g} s." if limit_s else "It goes on, as CELERITY_STALL_S=0."
        lines = [f"celerity_py: nothing has moved for {own.still_s:.0f} s, and no rank computes. {end}", _tell(own)]
        lines += [f"    also {self._describe(entry)}" for entry in self._active[1:3]]
        stalled = next((entry.submission for entry in self._active if entry.submission), 0)
        lines += [f"    {line}" for line in self._delegate.tell_story(stalled, _LONGEST_STORY)] if stalled else []
        told = self._tell_others(silent)
        room = max(_LONGEST_REPORT - len(lines), 2)
        if len(told) > room:
            told[room - 1 :] = [f"and {len(told) - room + 1} more ranks"]
        return "\n  ".join([*lines, *told]) + "\n"


def _tell(status: RankStatus) -> str:
    """One line about a rank."""
    wait = f"waits for {status.waits_for}" if status.is_waiting else "has nothing to do"
    line = f" (its program is at {status.line})" if status.line else ""
    return f"rank {status.rank} {wait}{line}"


def show_transfer(transfer: tuple[int, int, int]) -> str:
    """Show a transfer by its consumer task, its buffer, and its reduction if there is one."""
    task, buffer, reduction = transfer
    return f"T{task}.B{buffer}" + (f".R{reduction}" if reduction else "")


__all__ = ["ProgressWatchdog", "RankStatus"]
