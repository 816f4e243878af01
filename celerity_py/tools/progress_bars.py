# SPDX-License-Identifier: MIT
"""A line of progress on rank 0: steps that are submitted, and steps that are done.

The number of finished steps comes from the submissions that the executor has retired, a horizon at a time. So nothing
waits for the devices, and the number is late by some steps. A thread draws, because the program may be blocked, and
because steps go on when the loop has ended. The line is plain text: a library that hides the cursor would leave it
hidden if another rank ends the job.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sized
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from celerity_py.executor.failures.failure import attempt, print_whole
from celerity_py.executor.network.launch_detection import find_place
from celerity_py.executor.thread_flag import Flag
from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.tools.step_counter import StepCounter
from celerity_py.vocabulary.notation import printable

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")

_INTERVAL_S: Final = 0.1
_JOIN_S: Final = 1.0  # a terminal may take no more text
_WIDTH: Final = 30
_shown: Final[list[Bar]] = []  # one draws, and further ones wait for it
_latest: StepCounter | None = None  # of the outermost loop


def progress(iterable: Iterable[Item], *, total: int | None = None, label: str = "steps") -> Iterator[Item]:
    """Show how far a loop has come: `for step in celerity.progress(range(400)):`.

    One iteration is a step. A line on standard error tells the steps that are submitted and those that are done, on
    rank 0 if standard error is a terminal, or in a notebook. Elsewhere, and in a loop inside of another one with a
    line, nothing is shown. Nothing waits for the devices. The line stays until all steps are done or the last queue is
    closed. `CELERITY_LIVE=1` tells the steps per second of each rank. Any rank may call this by itself, and the thread
    that makes the loop runs it.

    Args:
        iterable: The steps.
        total: Their number, if `len(iterable)` does not tell.
        label: The name of the steps in the line.

    Returns:
        The items of `iterable`.

    Raises:
        ArgumentTypeError: If `iterable` is none, `total` no integer, or `label` no string.
        UsageError: If `total` is negative.
    """
    try:
        items = iter(iterable)
    except TypeError:
        raise ArgumentTypeError(
            f"celerity.progress() got {iterable!r}, which is not iterable. A number of steps is written as "
            f"range({iterable!r})."
        ) from None
    if total is None:
        total = len(iterable) if isinstance(iterable, Sized) else None
    elif not isinstance(total, int) or isinstance(total, bool):
        raise ArgumentTypeError(f"celerity.progress() got total={total!r}: expected an integer or None.")
    elif total < 0:
        raise UsageError(f"celerity.progress() got total={total}: a number of steps is not negative.")
    if not isinstance(label, str):
        raise ArgumentTypeError(f"celerity.progress() got label={label!r}: expected a string.")
    write = _find_screen()
    steps = StepCounter()
    bar = Bar(printable(label), total, write, steps) if write is not None and _is_first_rank() else None
    return _watched(items, steps, bar)


def _watched(items: Iterator[Item], steps: StepCounter, bar: Bar | None) -> Iterator[Item]:
    global _latest  # noqa: PLW0603 - loops know each other by nothing else
    if _latest is not None and not _latest.is_over:  # this loop is inside of another one
        yield from items
        return
    _latest = steps
    try:
        if bar is not None:
            bar.start()
        for item in items:
            yield item
            steps.note_step()
            if bar is not None:
                bar.note_runtime()
    finally:
        steps.is_over = True
        if bar is not None:
            bar.finish()


def _is_first_rank() -> bool:
    """Without a connection of the ranks, which would be collective."""
    runtime = lifecycle.running()
    if runtime is not None:
        return runtime.rank == 0
    place = find_place(os.environ)
    return place is None or place.rank == 0


def _find_screen() -> Callable[[str, bool], object] | None:
    """The function that shows a line and whether it is the last one; None if nobody would see it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _notebook_line()
    if sys.stderr is not None and sys.stderr.isatty():
        return _terminal_line
    return None


def _terminal_line(text: str, is_last: bool) -> None:
    # Not through a buffer of Python: its lock, held by this thread at the end of the program, would end it by a crash.
    print_whole(f"\r\x1b[K{text}" + ("\n" if is_last else ""))


def _notebook_line() -> Callable[[str, bool], object]:
    """A display of the cell that began the loop, whichever cell runs meanwhile."""
    from IPython.display import display

    def bundle(text: str) -> dict[str, str]:
        return {"text/plain": text}

    show: Any = display  # whose types IPython does not tell
    handle = show(bundle(""), raw=True, display_id=True)
    return lambda text, _: handle.update(bundle(text), raw=True)


class Bar:
    """The line of one loop, and the thread that draws it.

    Args:
        label: Of the steps.
        total: Number of steps, if known.
        write: Shows a text.
        steps: Those of the loop.
    """

    def __init__(self, label: str, total: int | None, write: Callable[[str, bool], object], steps: StepCounter) -> None:
        self._label = label
        self._total = total
        self._write = write
        self._steps = steps
        self._previous: Bar | None = None
        self._stops_with_runtime = False
        self._began_s = monotonic()
        self._drawn = ""
        self._stop_requested = Flag()
        self._thread = threading.Thread(target=self._draw_until_done, name="celerity-progress", daemon=True)

    # ---- program's thread

    def start(self) -> None:
        """Begin to draw, once the steps of earlier loops are done."""
        self._previous = _shown[-1] if _shown else None
        _shown.append(self)
        self._thread.start()

    def note_runtime(self) -> None:
        """End the line with the runtime, as soon as there is one."""
        if not self._stops_with_runtime and self._steps.runtime is not None:
            self._stops_with_runtime = True
            self._steps.runtime.at_stop.append(self.stop)

    def finish(self) -> None:
        """The loop is over; steps may be under way. If none is, the program's next line comes below this one."""
        if self._steps.newest <= self._steps.last_retired():
            self._thread.join(_JOIN_S)

    def stop(self) -> None:
        """Draw for the last time: the run ends."""
        self._stop_requested.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def wait(self) -> None:
        """Wait until the line is complete."""
        self._thread.join()

    # ---- the thread that draws

    def _draw_until_done(self) -> None:
        if self._previous is not None:
            self._previous.wait()
            self._previous = None
            self._began_s = monotonic()
        while not self._is_last():
            self._draw(is_last=False)
            self._stop_requested.wait(_INTERVAL_S)
        self._draw(is_last=True)
        _shown.remove(self)
        runtime = self._steps.runtime
        if runtime is not None and self.stop in runtime.at_stop:
            runtime.at_stop.remove(self.stop)

    def _is_last(self) -> bool:
        steps, runtime = self._steps, self._steps.runtime
        has_failed = runtime is not None and runtime.state.failure is not None
        is_complete = steps.count_done() == steps.submitted and steps.is_over
        return self._stop_requested.is_set() or has_failed or is_complete

    def _draw(self, *, is_last: bool) -> None:
        text = self._text(monotonic() - self._began_s)
        if text != self._drawn or is_last:
            self._drawn = text
            attempt(self._write, text, is_last)

    def _text(self, seconds: float) -> str:
        done, submitted, total = self._steps.done, self._steps.submitted, self._total
        rate = done / seconds if seconds > 0 else 0.0
        parts = [f"{done} done, {submitted} submitted" + (f" of {total}" if total is not None else "")]
        parts.append(f"{rate:.1f}/s" if rate >= 1 or rate == 0 else f"{1 / rate:.1f} s each")
        if total is not None and 0 < done < total:
            parts.append(f"{_clock((total - done) / rate)} left")
        elif done:
            parts.append(f"in {_clock(seconds)}")
        return "  ".join([self._label, *self._meter(), *parts])

    def _meter(self) -> list[str]:
        if not self._total:
            return []
        done, submitted = (
            min(_WIDTH, _WIDTH * count // self._total) for count in (self._steps.done, self._steps.submitted)
        )
        return ["█" * done + "▒" * (submitted - done) + "·" * (_WIDTH - submitted)]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
