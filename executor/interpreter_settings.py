# SPDX-License-Identifier: MIT
"""The executor's settings of the Python interpreter: its switch interval during a run, and the order of exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SWITCH_INTERVAL_S: Final = 50e-6  # a thread back from MPI waits so long for the interpreter lock, instead of 5 ms

_lock = threading.Lock()
_num_users = 0
_original_interval_s = 0.0
_hooks, _last_hooks = ExitStack(), ExitStack()
_has_exit_hooks = False


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


def register_exit_hook(hook: Callable[[], None], *, is_last: bool = False) -> None:
    """Call `hook` when the interpreter exits, but not in forked children.

    The hooks run in reverse order. Together they have one place among the exit hooks of the program: that of the first.

    Args:
        hook: Called once. If it raises, the other hooks run all the same.
        is_last: Whether it runs behind all hooks without this, such as MPI_Finalize: the runtime of a single rank
            starts without MPI, and its communicators need MPI when it ends.
    """
    owner = os.getpid()

    def run() -> None:
        if os.getpid() == owner:
            hook()

    global _has_exit_hooks  # noqa: PLW0603 - of the interpreter
    with _lock:
        (_last_hooks if is_last else _hooks).callback(run)
        if not _has_exit_hooks:
            _has_exit_hooks = True
            atexit.register(_run_hooks)


def _run_hooks() -> None:
    with _last_hooks, _hooks:
        pass
