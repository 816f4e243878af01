# SPDX-License-Identifier: MIT
"""Counts the steps of a loop: those that are submitted, and those that are done."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from celerity_py.runtime import lifecycle

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

_MOST_IN_FLIGHT: Final = 64  # before the loop looks by itself which steps are done


class StepCounter:
    """The steps of one loop. A step is done when the executor has retired its last submission.

    `note_step` belongs to the thread of the loop. Any thread may count.
    """

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.submitted = 0
        self.done = 0
        #: The last submission of the newest step.
        self.newest = 0
        #: Whether the loop has ended.
        self.is_over = False
        self._in_flight: deque[tuple[int, int]] = deque()  # (number of a step, its last submission)
        self._counting = threading.Lock()

    def note_step(self) -> None:
        """The program has submitted a step."""
        runtime = self.runtime
        if runtime is None:
            runtime = self.runtime = lifecycle.running()
        if runtime is not None and runtime.live_view is not None:
            runtime.live_view.steps = self
        self.newest = 0 if runtime is None or runtime.state.has_ended else runtime.next_id - 1
        self._in_flight.append((self.submitted + 1, self.newest))
        self.submitted += 1
        if len(self._in_flight) > _MOST_IN_FLIGHT:
            self.count_done()

    def count_done(self) -> int:
        """The number of steps that are done."""
        with self._counting:
            in_flight, retired = self._in_flight, self.last_retired()
            while in_flight and in_flight[0][1] <= retired:
                self.done = in_flight.popleft()[0]
            return self.done

    def last_retired(self) -> int:
        """The newest submission that is complete."""
        return 0 if self.runtime is None else self.runtime.completion.last_retired
