# SPDX-License-Identifier: MIT
"""A flag between threads, one of which may be interrupted anywhere."""

from __future__ import annotations

import contextlib
import time
from queue import Empty, SimpleQueue
from typing import Final

_LONGEST_SLEEP_S: Final = 0.1  # a thread may be interrupted between its wake-up and the wake-up of others


class Flag:
    """A flag that is set once: a `threading.Event` without a lock that an interrupted thread could leave behind."""

    def __init__(self) -> None:
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Set the flag, and wake the threads that wait. Any thread."""
        self._is_set = True
        self._bell.put(None)

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the flag is set, or the time is up; return whether it is set. Any thread."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = _LONGEST_SLEEP_S if deadline_s is None else min(_LONGEST_SLEEP_S, deadline_s - time.monotonic())
            if left_s <= 0:
                break
            with contextlib.suppress(Empty):
                self._bell.get(timeout=left_s)
                self._bell.put(None)
        return self._is_set
