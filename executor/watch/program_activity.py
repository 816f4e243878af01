# SPDX-License-Identifier: MIT
"""Finds out whether a thread or process is active, and at which line the program's thread is."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Final

from celerity_py.executor.failures.user_frames import is_library, is_ours

_BUSY_SHARE: Final = 0.05  # of a core: a thread that waits for the runtime takes less
_BUSY_BYTES_PER_S: Final = 1 << 20  # read or written
_SHORTEST_SPAN_S: Final = 2.0
_SECONDS_PER_TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")


class Activity:
    """Watches a thread or a process. Its methods belong to one thread.

    Args:
        folder: Of the thread or process in /proc.
        now_s: The time now, on the clock that the other calls take their times from.
    """

    def __init__(self, folder: Path, now_s: float) -> None:
        self._folder = folder
        self._measured_at_s = now_s
        self._measured = self._read()
        self._is_busy = True
        #: Whether `is_busy` has measured; it says yes before.
        self.is_measured = False

    def is_busy(self, now_s: float) -> bool:
        """Whether the process has computed, read or written in the last 2 s or somewhat more.

        A thread that sleeps, or waits for a lock, a message or a person, is not busy.
        """
        span_s = now_s - self._measured_at_s
        if span_s >= _SHORTEST_SPAN_S:
            cpu_s, num_bytes = self._read()
            before_s, bytes_before = self._measured
            is_computing = cpu_s - before_s >= _BUSY_SHARE * span_s
            self._is_busy = is_computing or num_bytes - bytes_before >= _BUSY_BYTES_PER_S * span_s
            self._measured, self._measured_at_s = (cpu_s, num_bytes), now_s
            self.is_measured = True
        return self._is_busy

    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        with contextlib.suppress(OSError, IndexError):
            return self._read_state()[0] in {"T", "t"}
        return False

    def _read(self) -> tuple[float, int]:
        """Processor time in seconds, and bytes read and written; zeroes where the system does not tell."""
        cpu_s, num_bytes = 0.0, 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = self._read_state()
            cpu_s = (int(fields[11]) + int(fields[12])) * _SECONDS_PER_TICK
        with contextlib.suppress(OSError, ValueError):
            counters = dict(entry.split(": ") for entry in (self._folder / "io").read_text().splitlines())
            num_bytes = int(counters.get("rchar", 0)) + int(counters.get("wchar", 0))
        return cpu_s, num_bytes

    def _read_state(self) -> list[str]:
        """The fields of `stat` from the state on; the name before it may hold blanks and brackets."""
        return (self._folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


class ProgramActivity(Activity):
    """Watches the thread that has made it. Its methods belong to one other thread.

    Args:
        now_s: The time now, on the clock that the other calls take their times from.
    """

    def __init__(self, now_s: float) -> None:
        super().__init__(Path(f"/proc/self/task/{threading.get_native_id()}"), now_s)
        self._thread = threading.get_ident()

    def line(self) -> str:
        """Return the "file:line" of the innermost frame that is no library's; empty if the thread has ended."""
        frame = sys._current_frames().get(self._thread)
        while frame is not None and (is_ours(frame.f_code.co_filename) or is_library(frame.f_code.co_filename)):
            frame = frame.f_back
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
