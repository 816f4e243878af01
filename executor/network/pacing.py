# SPDX-License-Identifier: MIT
"""The cores of a process, and the pauses of a thread of Python that waits for messages of other ranks.

The executor thread has pauses of its own: `executor/core/network/look_times.hpp`.
"""

from __future__ import annotations

import os
from typing import Final

# MPI cannot wake a thread, so a thread that waits for a message must poll.
_PATIENCE: Final = 1 / 8  # sleep for this part of the wait so far: a message is late by at most this part
_SHORTEST_SLEEP_S: Final = 20e-6
_LONGEST_SLEEP_S: Final = 2e-3


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def sleep_s(waited_s: float) -> float:
    """How long a thread that has waited so long for a message may sleep before it looks again, in seconds."""
    return min(max(waited_s * _PATIENCE, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S)
