# SPDX-License-Identifier: MIT
"""Interrupts in the middle of calls, as Ctrl-C in a notebook makes them: `python -m tests.property.interrupts`.

Each call is interrupted in two ways. *By step*: a trace function raises KeyboardInterrupt at the n-th bytecode of the
call, for every n until the call ends first. *By signal*: a timer raises it at a random moment, also while native code
waits. The program catches it and goes on. Its results must be those of the calls that took effect, which the counter of
submissions tells.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

_ELEMENTS = 64
_HANG_S = 60
_CHECK_EVERY = 25
_LONGEST_DELAY_S = 400e-6
_MOST_SUBMITS = {"replay": 200}


@celerity.kernel
def add_one(chunk: Any, view: Any) -> None:
    """A kernel whose later submits native code repeats."""
    view[chunk.box] += 1


@celerity.kernel
def add_slowly(chunk: Any, view: Any) -> None:
    """The same, so slow that those who want the result have to wait."""
    time.sleep(1e-3)
    view[chunk.box] += 1


@celerity.kernel
def count_elements(chunk: Any, total: Any) -> None:
    """Add the number of elements to a reduction."""
    total.combine(chunk.box.size)


class StepInterrupt:
    """Raise KeyboardInterrupt at the n-th bytecode of the calls inside of the block. `happened`: whether it did."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.happened = False

    def __enter__(self) -> StepInterrupt:
        # Python 3.12 sends these events only if some frame asks for them before settrace().
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "__exit__":
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode" and not self.happened:
            self._left -= 1
            if self._left < 0:
                self.happened = True
                raise KeyboardInterrupt
        return self._trace


class SignalInterrupt:
    """Raise KeyboardInterrupt `delay_s` after the begin of the block. `happened`: whether the block still ran then."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self.happened = False

    def __enter__(self) -> SignalInterrupt:
        self._previous = signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, self._delay_s)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous)

    def _handle(self, *_: object) -> None:
        if not self.happened:
            self.happened = True
            raise KeyboardInterrupt


class Program:
    """A running program whose calls are interrupted; it knows the right contents of its buffers."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.counter = celerity.Buffer.from_array(np.zeros(_ELEMENTS, np.int64), name="counter")
        self.total = celerity.Buffer.from_array(np.zeros((), np.int64), name="total")
        self.expected = 0
        self.expected_total = 0
        self.future: Any = None
        self.mapper = lambda chunk: chunk.box
        self.recording = queue.record(self.kernel)
        self.expected += 1

    # ---- calls to interrupt

    def kernel(self) -> None:
        """A submit that native code repeats."""
        self.queue.parallel_for(_ELEMENTS, add_one, self.counter.read_write(access.one_to_one()))

    def function(self) -> None:
        """A submit that takes the long way each time."""

        def add(chunk: Any, view: Any) -> None:
            view[chunk.box] += 1

        self.queue.parallel_for(_ELEMENTS, add, self.counter.read_write(access.one_to_one()))

    def custom_mapper(self) -> None:
        """A submit that calls the user's mapper."""
        self.queue.parallel_for(_ELEMENTS, add_one, self.counter.read_write(self.mapper))

    def host_task(self) -> None:
        """A task on the host."""

        def add(part: Any, view: Any) -> None:
            view[...] += 1

        self.queue.host_task(add, self.counter.read_write(access.all()), on="once")

    def reduction(self) -> None:
        """A submit with a reduction."""
        self.queue.parallel_for(_ELEMENTS, count_elements, celerity.reduction(self.total, "sum", include_current=True))

    def record(self) -> None:
        """A recording of one submit."""
        self.queue.record(self.kernel)

    def replay(self) -> None:
        """Several submits in one call."""
        self.queue.replay(self.recording, _MOST_SUBMITS["replay"])

    def fence(self) -> None:
        """A fence, whose result somebody may have or not."""
        self.future = self.queue.fence(self.counter)

    def wait(self) -> None:
        """A wait behind a kernel that takes its time."""
        self.queue.wait()

    def barrier(self) -> None:
        """The same with a barrier."""
        self.queue.barrier()

    def result(self) -> None:
        """Wait for a result."""
        assert np.all(self.future.result(_HANG_S) == self.expected)

    def buffer(self) -> None:
        """Make a buffer and drop it."""
        celerity.Buffer.from_array(np.ones(_ELEMENTS), name="short-lived")

    # ---- one interrupt

    def prepare(self, call: str) -> None:
        """The preparation of the call, which is not to be interrupted."""
        if call in {"wait", "barrier", "result"}:
            self.queue.parallel_for(_ELEMENTS, add_slowly, self.counter.read_write(access.one_to_one()))
            self.expected += 1
        if call == "result":
            self.future = self.queue.fence(self.counter)

    def interrupt(self, call: str, interrupt: StepInterrupt | SignalInterrupt) -> None:
        """Make one call, and note its effect."""
        self.prepare(call)
        function = getattr(self, call)
        before = self.queue.statistics().num_submissions
        try:
            with interrupt:
                function()
        except KeyboardInterrupt:
            pass
        done = self.queue.statistics().num_submissions - before
        assert 0 <= done <= _MOST_SUBMITS.get(call, 1), f"{call} has submitted {done} tasks"
        if call in {"kernel", "function", "custom_mapper", "host_task", "record", "replay"}:
            self.expected += done
        elif call == "reduction":
            self.expected_total += done * _ELEMENTS
        elif call == "result":
            assert np.all(self.future.result(_HANG_S) == self.expected), "a future has the wrong result"

    def check(self) -> None:
        """The buffers contain the results of the calls that took effect."""
        counter = self.queue.fence(self.counter).result(_HANG_S)
        assert np.all(counter == self.expected), f"{counter} instead of {self.expected}"
        total = self.queue.fence(self.total).result(_HANG_S)
        assert total == self.expected_total, f"{total} instead of {self.expected_total}"
        self.queue.wait()


CALLS = (
    "kernel",
    "function",
    "custom_mapper",
    "host_task",
    "reduction",
    "record",
    "replay",
    "fence",
    "wait",
    "barrier",
    "result",
    "buffer",
)


def interrupt_by_step(program: Program, call: str, count: int) -> int:
    """Interrupt a call at each of its bytecodes in turn, again and again.

    Returns:
        The number of different places.
    """
    number = happened = places = 0
    program.interrupt(call, StepInterrupt(sys.maxsize))  # so that native code repeats it where it can
    while happened < count:
        interrupt = StepInterrupt(number)
        program.interrupt(call, interrupt)
        happened += interrupt.happened
        number = number + 1 if interrupt.happened else 0
        places = max(places, number)
        if happened % _CHECK_EVERY == 0:
            program.check()
    program.check()
    return places


def interrupt_by_signal(program: Program, call: str, count: int, rng: random.Random) -> int:
    """Interrupt a call at random moments.

    Returns:
        The number of attempts.
    """
    happened = attempts = 0
    longest_s = _LONGEST_DELAY_S
    while happened < count:
        interrupt = SignalInterrupt(rng.uniform(1e-6, longest_s))
        program.interrupt(call, interrupt)
        attempts += 1
        happened += interrupt.happened
        longest_s *= 1.02 if interrupt.happened else 0.97
        longest_s = min(max(longest_s, 20e-6), 4e-3)
        if attempts % _CHECK_EVERY == 0:
            program.check()
    program.check()
    return attempts


def run(count: int, seed: int, report: Callable[[str], object], calls: tuple[str, ...] = CALLS) -> None:
    """Interrupt each call `count` times in each way, in one program."""
    rng = random.Random(seed)
    with celerity.Queue() as queue:
        program = Program(queue)
        for call in calls:
            faulthandler.dump_traceback_later(_HANG_S * 10, exit=True)
            started = time.monotonic()
            places = interrupt_by_step(program, call, count)
            attempts = interrupt_by_signal(program, call, count, rng)
            report(
                f"{call:14s} {count} interrupts by step at {places} places, {count} by signal in {attempts} calls, "
                f"{time.monotonic() - started:.1f} s"
            )
        program.check()
    faulthandler.cancel_dump_traceback_later()


def main() -> int:
    """Run, and print a line per call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", nargs="*", choices=CALLS, default=CALLS)
    options = parser.parse_args()
    run(options.count, options.seed, lambda line: print(line, flush=True), tuple(options.calls))
    print("all results right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
