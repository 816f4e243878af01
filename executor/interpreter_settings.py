# SPDX-License-Identifier: MIT
"""The executor's settings of the Python interpreter: its switch interval during a run, and the order of exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SWITCH_INTERVAL_S: Final = 50e-6  # a thread back from MPI waits so long for the interpreter lock, instead of 5 ms

_lock = threading.Lock()
_num_users = 0
_original_interval_s = 0.0


def shorten_switch_interval() -> None:
    """Let threads that come back from native code get the interpreter lock soon. Counted; see the counterpart."""
    global _num_users, _original_interval_s  # noqa: PLW0603 - the interval is a global of the interpreter
    with _lock:
        if _num_users == 0:
            _original_interval_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_SWITCH_INTERVAL_S, _original_interval_s))
        _num_users += 1


def restore_switch_interval() -> None:
    """Undo one `shorten_switch_interval`; the last call restores the interval from before the first."""
    global _num_users  # noqa: PLW0603
    with _lock:
        _num_users -= 1
        if _num_users == 0:
            sys.setswitchinterval(_original_interval_s)


def register_exit_hook(hook: Callable[[], None]) -> None:
    """Call `hook` when the interpreter exits, but not in forked children.

    Exit hooks run in reverse order, so one that is registered after MPI was imported runs before MPI_Finalize.
    """
    owner = os.getpid()

    def run() -> None:
        if os.getpid() == owner:
            hook()

    atexit.register(run)
