# SPDX-License-Identifier: MIT
"""Waits until the devices of this rank are at rest, before code is loaded.

The driver loads code only when no stream has work left, and holds back all launches until then. A stream that waits for
another rank would wait for ever if that rank needs something that this rank has yet to launch.

This wait is no task, as only the ranks that lack code know that they need it. It cannot deadlock. It ends when the
tasks before the present call have ended, and every rank submits these without waiting for a later task of this rank.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from celerity_py import _native

_FIRST_PAUSE_S: Final = 50e-6
_LONGEST_PAUSE_S: Final = 1e-3


def drain_lanes(scheduler: _native.Scheduler, executor: _native.Executor, check: Callable[[], None]) -> None:
    """Wait until everything submitted so far that needs a lane of a device has ended. Host tasks may still run.

    By the thread that submits, on each rank by itself.

    Args:
        scheduler: Plans what was submitted, also what lookahead holds back.
        executor: Of the same rank.
        check: Raises once the run has failed.
    """
    scheduler.flush()
    scheduler.wait_until_planned()
    num_handed_over = scheduler.statistics()["instructions"]
    pause_s = _FIRST_PAUSE_S
    while not executor.has_empty_lanes(num_handed_over):
        check()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
