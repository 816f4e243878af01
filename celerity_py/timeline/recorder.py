# SPDX-License-Identifier: MIT
"""The record of a run for its timeline: events, names, and the differences of the ranks' clocks."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celerity_py import _native

if TYPE_CHECKING:
    from types import CodeType

    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.vocabulary.submissions import Submission

#: Events of a rank that are kept, the latest ones: 30 MiB of memory.
CAPACITY = 1 << 18
_CLOCK_ROUNDS: Final = 32


class Clock(NamedTuple):
    """Converts times of this rank to times of rank 0."""

    #: Where all timelines of the run begin, by rank 0's clock.
    origin_ns: int
    #: To be added to the times of this rank.
    offset_ns: int = 0
    #: Bounds the error of the offset; 0 between ranks of one host, which share a clock.
    error_ns: int = 0


class Tracer:
    """The recorder of this rank, with the names of tasks and buffers in its events."""

    def __init__(self, clock: Clock, rank: int, size: int, capacity: int | None = None) -> None:
        self.recorder = _native.TraceRecorder(capacity or CAPACITY)
        self.clock = clock
        self.rank = rank
        self.size = size
        #: (submission, kind, name, code, offset in the code); older ones have no event left.
        self.submissions: deque[tuple[int, str, str, CodeType, int]] = deque(maxlen=capacity or CAPACITY)
        self.buffers: dict[int, str] = {}
        #: Versions, hardware, settings and the like, for the file.
        self.about: dict[str, Any] = {}

    def note_run(self, about: Mapping[str, Any]) -> None:
        """Add facts about the run that JSON can hold."""
        self.about.update(about)

    def note_submission(self, number: int, submission: Submission, started_ns: int) -> None:
        """Record a submit that began at `started_ns` and ends now."""
        self.recorder.record_call("submit", started_ns, perf_counter_ns(), number)
        self.submissions.append((number, submission.kind, submission.name, submission.code, submission.lasti))

    def note_mapping(self, number: int, started_ns: int) -> None:
        """Record that Python functions have mapped chunks since `started_ns`, in the submit of the next submission."""
        self.recorder.record_call("map", started_ns, perf_counter_ns(), number)

    def note_blocked(self, seconds: float) -> None:
        """Record that a submit was blocked for so long, until now."""
        ended_ns = perf_counter_ns()
        self.recorder.record_call("blocked", ended_ns - round(1e9 * seconds), ended_ns)

    def note_wait(self, started_ns: int, number: int) -> None:
        """Record a wait for a result, from `started_ns` until now."""
        self.recorder.record_call("wait", started_ns, perf_counter_ns(), number)

    def note_buffer(self, number: int, name: str | None) -> None:
        """A buffer was made."""
        if len(self.buffers) >= CAPACITY:
            del self.buffers[next(iter(self.buffers))]
        self.buffers[number] = name or f"B{number}"


def start_trace(communicator: Communicator, *, wanted: bool) -> Tracer | None:
    """Make the tracer of this rank if one is wanted. Collective: every rank calls it, whether or not it wants one."""
    clock = agree_on_clock(communicator)
    return Tracer(clock, communicator.rank, communicator.size) if wanted else None


def agree_on_clock(communicator: Communicator) -> Clock:
    """Compare the clocks of the ranks, unless they share a host, and with it a clock. Collective."""
    told = [
        json.loads(text)
        for text in communicator.exchange(json.dumps([perf_counter_ns(), 0 in communicator.local_ranks]).encode())
    ]
    origin_ns = told[0][0]
    if all(shares_clock for _, shares_clock in told):
        return Clock(origin_ns)
    # No rank can leave an exchange before all have entered it. With `offset` from our clock to that of rank 0:
    # sent + offset <= left_there, and sent_there <= left + offset.
    low, high = -(1 << 62), 1 << 62
    sent = left = 0
    for number in range(_CLOCK_ROUNDS):
        previous_sent, previous_left = sent, left
        sent = perf_counter_ns()
        sent_there, left_there = struct.unpack("qq", communicator.exchange(struct.pack("qq", sent, previous_left))[0])
        left = perf_counter_ns()
        low = max(low, sent_there - left)
        if number > 0:
            high = min(high, left_there - previous_sent)
    if told[communicator.rank][1]:
        return Clock(origin_ns)
    return Clock(origin_ns, (low + high) // 2, (high - low + 1) // 2)
