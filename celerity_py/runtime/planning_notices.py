# SPDX-License-Identifier: MIT
"""Words the notices of the native planner, as warnings or as the failure of the run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from celerity_py.scheduler.errors import CelerityError, InternalError, UninitializedRead
from celerity_py.vocabulary.notation import label_of_buffer, show

if TYPE_CHECKING:
    from celerity_py._native import PlanningNotice, Scheduler
    from celerity_py.executor.live_executor import LiveExecutor
    from celerity_py.runtime.run_state import RunState
    from celerity_py.vocabulary.submissions import Submission

_log = logging.getLogger(__name__)


class Notices:
    """The notices of the scheduler of one runtime."""

    def __init__(
        self, scheduler: Scheduler, state: RunState, submissions: dict[int, Submission], *, checks: bool
    ) -> None:
        #: Fails the run; none in a dry run.
        self.live: LiveExecutor | None = None
        self._scheduler = scheduler
        self._state = state
        self._submissions = submissions
        self._checks = checks

    def report(self) -> None:
        """Log all notices, or let the run fail because of one; any thread."""
        scheduler, live = self._scheduler, self.live
        if not scheduler.has_notices:
            return
        if live is not None:
            # Notices stay until the run has failed: if this thread is interrupted here, another thread reports them.
            for notice in scheduler.notices():
                if (error := self._error_of(notice)) is not None:
                    live.fail(error(self._word(notice)), notice.submission)
                    while not self._state.has_failed.sleep(1):
                        pass
        for notice in scheduler.take_notices():
            if live is None or self._error_of(notice) is None:
                _log.warning("%s", self._word(notice))

    def _error_of(self, notice: PlanningNotice) -> type[CelerityError] | None:
        """The error with which the run fails; None for a warning."""
        if notice.kind == "fault":
            return InternalError
        if notice.kind == "unwritten_read" and self._checks:
            return UninitializedRead
        return None

    def _word(self, notice: PlanningNotice) -> str:
        text = describe(notice)
        submission = self._submissions.get(notice.submission)
        return text if submission is None else f"{text} Submitted at {submission.site}."


def describe(notice: PlanningNotice) -> str:
    """The sentences for the user: the event, and the remedy."""
    buffer = label_of_buffer(notice.buffer, notice.buffer_name)
    if notice.kind == "unwritten_read":
        is_fence = notice.task == 0
        who = "a fence" if is_fence else f'task T{notice.task} "{notice.task_name}"'
        remedy = "or write it before the fence" if is_fence else "write it first, or declare the access as write()"
        return (
            f"{who} reads buffer {buffer} {show(notice.where)}, but nothing has written it. "
            f"Give the buffer initial contents, {remedy}."
        )
    if notice.kind == "many_allocations":
        where = "host memory" if notice.device is None else f"the memory of device {notice.device}"
        return (
            f"buffer {buffer} was allocated {notice.number} times so far in {where}, because its accesses keep growing "
            f"or are scattered. Where they grow, a larger allocation takes over the contents by a copy: let one of the "
            f"first tasks access all that later ones will, or look further ahead (CELERITY_LOOKAHEAD=auto, or "
            f"infinite). Scattered boxes have allocations of their own, without copies."
        )
    if notice.kind == "full_lookahead":
        return (
            f"lookahead held back {notice.number} commands that keep asking for more memory; they are compiled now, "
            f"and buffers may be resized. Call queue.flush() now and then, or set CELERITY_LOOKAHEAD=auto."
        )
    return notice.text
