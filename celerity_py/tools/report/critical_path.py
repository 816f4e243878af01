# SPDX-License-Identifier: MIT
"""The critical path: from the end of a run back to its begin, always along the event that was waited for.

The path goes back from an instruction to the dependency that was complete last, or to the instruction before it on
its lane. If neither explains when it began, it goes to the executor's issue, to the scheduler's planning, and to the
application's submit. A receive leads to the rank that sent the data too late.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Final, NamedTuple

import numpy as np

from celerity_py.tools.report.instructions import TRANSFER_KINDS, Instructions, Messages
from celerity_py.tools.report.runs import Integers, Rank, Run

#: The causes of time on the path, in the order in which reports show them.
CAUSES: Final = (
    "kernel",
    "host task",
    "copy",
    "transfer",
    "allocation",
    "planning",
    "issuing",
    "application",
    "peer",
)
_CAUSE_OF: Final = {
    "kernel": "kernel",
    "combine": "kernel",
    "host task": "host task",
    "initialize": "host task",
    "copy": "copy",
    "alloc": "allocation",
    "free": "allocation",
    **dict.fromkeys(TRANSFER_KINDS, "transfer"),
}

#: Clocks of devices and of other hosts are right to a few microseconds.
_EPSILON_US: Final = 5.0
#: The executor issues an instruction within this time, if it can.
_PROMPT_US: Final = 50.0
#: If the scheduler had nothing to plan for so long, then it waited for the next submit.
_IDLE_SCHEDULER_US: Final = 20.0


class Segment(NamedTuple):
    """A piece of the path, with times in microseconds."""

    rank: int
    start: float
    end: float
    cause: str
    #: The slice, or -1 for a wait between two slices.
    row: int


@dataclass
class CriticalPath:
    """The pieces of a path, the latest first. They are disjoint, and cover the time from the first to the last."""

    segments: list[Segment]

    @cached_property
    def length(self) -> float:
        """Microseconds."""
        return sum(segment.end - segment.start for segment in self.segments)

    def by_cause(self) -> dict[str, float]:
        """Microseconds by cause, in the order of `CAUSES`."""
        return self._by_cause

    @cached_property
    def _by_cause(self) -> dict[str, float]:
        spent: dict[str, float] = dict.fromkeys(CAUSES, 0.0)
        for segment in self.segments:
            spent[segment.cause] += segment.end - segment.start
        return spent

    def share(self, *causes: str) -> float:
        """The part of the path that these causes have, from 0 to 1."""
        spent, length = self.by_cause(), self.length
        return sum(spent[cause] for cause in causes) / length if length > 0 else 0.0

    def by_name(self, run: Run) -> dict[tuple[str, str], float]:
        """Microseconds by cause and name, the greatest first. Copies and allocations go by their buffer."""
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for segment in self.segments:
            name = "" if segment.row < 0 else _name_of(run, run.ranks[segment.rank], segment)
            spent[segment.cause, name] += segment.end - segment.start
        return dict(sorted(spent.items(), key=lambda item: -item[1]))


class _Host:
    """The planning and the calls of the application on one rank, for searches by time."""

    def __init__(self, run: Run, rank: Rank, work: Instructions) -> None:
        def rows_of(*kinds: str) -> Integers:
            return np.flatnonzero(run.is_kind(rank, *kinds))

        self.plans = rows_of("plan")
        self.plan_starts: list[float] = rank.start[self.plans].tolist()
        submits = rows_of("submit")
        numbers = rank.numbers["submission"][submits]
        self.submit_of: dict[int, int] = dict(zip(numbers.tolist(), submits.tolist(), strict=True))
        self.submit_ends: list[float] = np.sort(rank.end[submits]).tolist()
        waits = rows_of("wait", "blocked")
        self.waits = waits[np.argsort(rank.end[waits], kind="stable")]
        self.wait_ends: list[float] = rank.end[self.waits].tolist()
        done = np.flatnonzero(work.is_work)
        self.done = done[np.argsort(rank.end[done], kind="stable")]
        self.done_ends: list[float] = rank.end[self.done].tolist()
        self.barriers = rows_of("barrier")
        own = rows_of("kernel", "combine", "copy", "host task", "initialize")
        self.own = own[np.argsort(rank.end[own], kind="stable")]
        self.own_ends: list[float] = rank.end[self.own].tolist()


def _last(times: Sequence[float], at: float) -> int:
    """The last of the ascending times that is not after `at`, or -1."""
    return bisect_right(times, at) - 1


class PathFinder:
    """Finds critical paths in a run."""

    def __init__(self, run: Run, works: dict[int, Instructions], messages: Messages) -> None:
        self._run = run
        self._works = works
        self._messages = messages
        self._hosts = {number: _Host(run, rank, works[number]) for number, rank in run.ranks.items()}

    def of_run(self) -> CriticalPath:
        """The path to the last instruction of all ranks. It crosses ranks."""
        ends = {number: float(host.done_ends[-1]) for number, host in self._hosts.items() if len(host.done_ends)}
        if not ends:
            return CriticalPath([])
        return _Walk(self._run, self._works, self._messages, self._hosts, crosses=True).go_back(
            max(ends, key=ends.__getitem__)
        )

    def of_rank(self, rank: int) -> CriticalPath:
        """The path to the last instruction of a rank. It stays there: a wait for another rank has the cause "peer"."""
        if not len(self._hosts[rank].done_ends):
            return CriticalPath([])
        return _Walk(self._run, self._works, self._messages, self._hosts, crosses=False).go_back(rank)


class _Walk:
    """One way back. `time` never grows."""

    def __init__(
        self,
        run: Run,
        works: dict[int, Instructions],
        messages: Messages,
        hosts: dict[int, _Host],
        *,
        crosses: bool,
    ) -> None:
        self._run, self._works, self._messages, self._hosts, self._crosses = run, works, messages, hosts, crosses
        self._segments: list[Segment] = []
        self._number = 0
        self._time = 0.0
        self._first = run.start

    def go_back(self, rank: int) -> CriticalPath:
        """The path to the last instruction of a rank."""
        self._number = rank
        row = int(self._hosts[rank].done[-1])
        self._time = float(self._rank.end[row])
        limit = 4 * sum(len(rank) for rank in self._run.ranks.values()) + 16
        while row >= 0 and self._time > self._first and limit > 0:
            limit -= 1
            row = self._before(row)
        return CriticalPath(self._segments)

    @property
    def _rank(self) -> Rank:
        return self._run.ranks[self._number]

    @property
    def _work(self) -> Instructions:
        return self._works[self._number]

    @property
    def _host(self) -> _Host:
        return self._hosts[self._number]

    def _take(self, until: float, cause: str, row: int = -1) -> None:
        """The time back to `until` has this cause."""
        until = max(until, self._first)
        if until < self._time:
            self._segments.append(Segment(self._number, until, self._time, cause, row))
            self._time = until

    def _before(self, row: int) -> int:
        """From the end of a slice to the end of the one for which it waited; -1 at the begin of the run."""
        kind = self._work.kinds[row]
        start = float(self._rank.start[row])
        if kind in {"receive", "fetch"} and not self._crosses:
            return self._receive_here(row)
        if kind == "barrier":
            row = self._meet(row)
        elif kind in {"receive", "fetch"}:
            row = self._receive(row)
        elif kind in {"send", "signal"}:
            row = self._send(row)
        else:
            self._take(start, _CAUSE_OF.get(kind, "issuing"), row)
        return self._wait_of(row)

    def _meet(self, row: int) -> int:
        """A barrier ends when the last rank has come."""
        place = int(np.searchsorted(self._host.barriers, row))
        latest, late_row, at = self._number, row, float(self._rank.start[row])
        for number, host in self._hosts.items():
            if place < len(host.barriers):
                came = float(self._run.ranks[number].start[host.barriers[place]])
                if came > at:
                    latest, late_row, at = number, int(host.barriers[place]), came
        self._take(at, "transfer", row)
        if latest == self._number or not self._crosses:
            self._take(float(self._rank.start[row]), "peer", row)
            return row
        self._number = latest
        return late_row

    def _receive(self, row: int) -> int:
        """Data that comes late leads to its sender."""
        start, message = float(self._rank.start[row]), self._work.message_row(row)
        sent = None if message < 0 else self._messages.send_of(self._number, self._rank, message)
        if sent is None:
            is_known = message >= 0 and int(self._rank.numbers["peer"][message]) in self._run.ranks
            self._take(start, "transfer" if is_known else "peer", row)
            return row
        source, send_row = sent
        ready = self._ready_to_send(source, send_row)
        self._take(max(ready, start), "transfer", row)
        if ready <= start:
            return row
        self._number = source
        return send_row

    def _receive_here(self, row: int) -> int:
        """From the end of a receive to the latest work of this rank: from there on, it waited for the other rank."""
        host, message = self._host, self._work.message_row(row)
        sent = None if message < 0 else self._messages.send_of(self._number, self._rank, message)
        ready = self._time if sent is None else self._ready_to_send(*sent)
        last = _last(host.own_ends, self._time)
        before = float(host.own_ends[last]) if last >= 0 else self._first
        self._take(max(ready, before), "transfer", row)
        self._take(before, "peer", row)
        return int(host.own[last]) if last >= 0 else -1

    def _send(self, row: int) -> int:
        """A send ends when the receiver has the data, which it may fetch late."""
        start, message = float(self._rank.start[row]), self._work.message_row(row)
        got = None if message < 0 else self._messages.receive_of(self._number, self._rank, message)
        if got is not None:
            target, receive_row = got
            peer, work = self._run.ranks[target], self._works[target]
            begin_row = work.begin_row(int(peer.numbers["instruction"][receive_row]))
            asked = float(peer.start[begin_row]) if begin_row >= 0 else 0.0
            if start < asked < self._time:
                self._take(asked, "transfer", row)
                if self._crosses:
                    self._number = target
                    return begin_row
                self._take(start, "peer", row)
                return row
        self._take(start, "transfer", row)
        return row

    def _ready_to_send(self, source: int, row: int) -> float:
        """When the data of a send was there."""
        rank, work = self._run.ranks[source], self._works[source]
        begin_row = work.begin_row(int(rank.numbers["instruction"][row]))
        after = work.end_row(int(rank.numbers["after"][row]))
        produced = float(rank.end[after]) if after >= 0 else 0.0
        begun = float(rank.start[row]) if begin_row < 0 else float(rank.start[begin_row])
        # A flag that is written on the stream of its producer has no slice of its own, and is issued early.
        return max(produced, begun)

    def _wait_of(self, row: int) -> int:
        """From the begin of a slice, or from now, to the end of the slice that it waited for."""
        rank, work = self._rank, self._work
        known = _or(rank.times["known_us"][row], 0.0)
        begun = min(self._time, float(rank.start[row]))
        handed = begun - known
        issued = begun - _or(rank.times["queued_us"][row], 0.0)
        blocker, blocked_until = -1, float("-inf")
        for candidate in (work.end_row(int(rank.numbers["after"][row])), int(work.before_on_lane[row])):
            if candidate < 0:
                continue
            end = float(rank.end[candidate])
            if end > self._time + _EPSILON_US:  # the host has noticed later than the lane that data is there
                end = float(rank.end[work.begin_row(int(rank.numbers["instruction"][candidate]))])
            if blocked_until < end <= self._time + _EPSILON_US:
                blocker, blocked_until = candidate, end
        # If it was issued late, then the completion of another instruction has made the executor issue it.
        last = _last(self._host.done_ends, issued)
        if last >= 0 and max(handed, blocked_until) + _PROMPT_US < issued and self._host.done_ends[last] > handed:
            blocker, blocked_until = int(self._host.done[last]), float(self._host.done_ends[last])
        if blocker >= 0 and blocked_until >= handed:
            self._take(blocked_until, "issuing")
            return blocker
        self._take(issued, "issuing")
        self._take(handed, "issuing")
        return self._planning()

    def _planning(self) -> int:
        """From the hand-over of an instruction to the submit that made the scheduler plan it."""
        rank, host = self._rank, self._host
        place = _last(host.plan_starts, self._time)
        while place >= 0:
            row = int(host.plans[place])
            self._take(float(rank.end[row]), "issuing")
            self._take(float(rank.start[row]), "planning", row)
            submit = host.submit_of.get(int(rank.numbers["submission"][row]), -1)
            submitted = float(rank.end[submit]) if submit >= 0 else float("-inf")
            if submit < 0 and (last := _last(host.submit_ends, self._time)) >= 0:
                submitted = float(host.submit_ends[last])
            previous = float(rank.end[host.plans[place - 1]]) if place > 0 else float("-inf")
            if previous < submitted or previous < self._time - _IDLE_SCHEDULER_US:
                # The end of a buffer is no submit. The scheduler was idle before it, since the last submit.
                if submit >= 0 or submitted >= self._time - _IDLE_SCHEDULER_US:
                    self._take(submitted, "planning")
                break
            self._take(previous, "planning")
            place -= 1
        return self._application()

    def _application(self) -> int:
        """Back to the last wait of the application, and to the instruction that ended the wait."""
        rank, host = self._rank, self._host
        for place in range(_last(host.wait_ends, self._time), -1, -1):
            row = int(host.waits[place])
            self._take(float(rank.end[row]), "application")
            done = _last(host.done_ends, self._time)
            if done >= 0 and host.done_ends[done] > rank.start[row]:
                self._take(float(host.done_ends[done]), "issuing")
                return int(host.done[done])
        self._take(self._first, "application")
        return -1


def _name_of(run: Run, rank: Rank, segment: Segment) -> str:
    """Without the size, which differs from copy to copy."""
    name, buffer = run.text(rank.name[segment.row]), run.text(rank.texts["buffer"][segment.row])
    if segment.cause == "copy" and buffer:
        return f"{buffer}: {run.text(rank.texts['reason'][segment.row])}"
    if segment.cause == "allocation":
        return f"alloc {buffer}" if buffer else name.split(" ")[0]
    return name


def _or(time: float, otherwise: float) -> float:
    """The time, unless the file does not tell it."""
    return otherwise if isnan(time) else float(time)
