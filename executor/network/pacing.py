# SPDX-License-Identifier: MIT
"""How long the executor thread may sleep between two looks at the network."""

from __future__ import annotations

import os
from typing import Final

# MPI cannot wake a thread, so a thread that waits for a message must poll. Polls take the interpreter lock, which the
# application wants, and a core, which kernels and other ranks want.
_TIGHT_S: Final = 300e-6  # after progress, with cores to spare: the next message is likely close
_TIGHT_SHARED_S: Final = 100e-6  # after progress, with one core per rank
_PATIENCE: Final = 1 / 8  # sleep for this part of the wait so far: a message is late by at most this part
_SHORTEST_SLEEP_S: Final = 20e-6
_LONGEST_SLEEP_S: Final = 2e-3
_DIRECT_S: Final = 50e-6  # some awaited data comes through shared memory, which needs no poll of the network
_DIRECT_QUIET_S: Final = 400e-6  # all of it seems to, because the network has been quiet for a while
_QUIET_AFTER_S: Final = 5e-3
_DIRECT_PATIENCE: Final = 1 / 16  # as above, of the time for which the network has been quiet
_IDLE_SLEEP_S: Final = 50e-3  # nothing awaited: only failures of other ranks can come


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def sleep_s(waited_s: float) -> float:
    """How long a thread that has waited so long for a message may sleep before it looks again, in seconds."""
    return min(max(waited_s * _PATIENCE, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S)


class Pacing:
    """Decides between spinning, sleeping and blocking, from the time since something last moved.

    Args:
        is_spinning: Never sleep while something is awaited.
        cores_per_rank: Cores that this rank has, shared ones counted in part.
        has_other_ways: Some awaited data does not come through the network.
    """

    def __init__(self, *, is_spinning: bool, cores_per_rank: float, has_other_ways: bool = False) -> None:
        self._has_other_ways = has_other_ways
        self._is_spinning = is_spinning
        self._tight_s = _TIGHT_S if cores_per_rank >= 2 else _TIGHT_SHARED_S if cores_per_rank >= 1 else 0.0

    def timeout_s(
        self, since_progress_s: float, since_arrival_s: float, *, is_awaiting: bool, has_requests: bool = False
    ) -> float:
        """Return how long to wait for local work before the next poll.

        Args:
            since_progress_s: Since anything has moved.
            since_arrival_s: Since the network has brought something, or was given something.
            is_awaiting: Whether something is awaited from other ranks.
            has_requests: Whether some of that will come through the network for sure.
        """
        if not is_awaiting:
            return _IDLE_SLEEP_S
        least_s = 0.0
        if self._has_other_ways:
            least_s = _DIRECT_S
            if since_arrival_s > _QUIET_AFTER_S:
                least_s = _DIRECT_QUIET_S
                if not self._is_spinning and not has_requests:
                    least_s = min(max(since_arrival_s * _DIRECT_PATIENCE, least_s), _LONGEST_SLEEP_S)
        if self._is_spinning or since_progress_s < self._tight_s:
            return least_s
        return max(least_s, sleep_s(since_progress_s))
