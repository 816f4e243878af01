# SPDX-License-Identifier: MIT
"""How long the executor thread may sleep between two looks at the network."""

from __future__ import annotations

from typing import Final

# MPI cannot wake a thread, so whoever waits for a message must look for it. Looking costs the interpreter lock, which
# the application wants, and a core, which kernels and other ranks want.
_TIGHT_S: Final = 300e-6  # after progress, with cores to spare: the next message is likely close
_TIGHT_SHARED_S: Final = 100e-6  # after progress, with one core per rank
_PATIENCE: Final = 1 / 8  # sleep for this part of what was waited so far, so a message is late by at most this part
_SHORTEST_SLEEP_S: Final = 20e-6
_LONGEST_SLEEP_S: Final = 2e-3
_DIRECT_S: Final = 50e-6  # what is awaited most likely does not come through the network
_IDLE_SLEEP_S: Final = 50e-3  # nothing awaited: only failures of other ranks can come


class Pacing:
    """Decides between spinning, sleeping and blocking, from the time since something last moved.

    Args:
        is_spinning: Never sleep while something is awaited.
        cores_per_rank: Cores that this rank has, shared ones counted in part.
        has_other_ways: Some of what is awaited does not come through the network.
    """

    def __init__(self, *, is_spinning: bool, cores_per_rank: float, has_other_ways: bool = False) -> None:
        self._least_s = _DIRECT_S if has_other_ways else 0.0
        self._is_spinning = is_spinning
        self._tight_s = _TIGHT_S if cores_per_rank >= 2 else _TIGHT_SHARED_S if cores_per_rank >= 1 else 0.0

    def timeout_s(self, since_progress_s: float, *, is_awaiting: bool) -> float:
        """Return how long to wait for local work before the next poll."""
        if not is_awaiting:
            return _IDLE_SLEEP_S
        if self._is_spinning or since_progress_s < self._tight_s:
            return self._least_s
        return max(self._least_s, min(max(since_progress_s * _PATIENCE, _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S))
