# SPDX-License-Identifier: MIT
"""What Python keeps of submissions until they are over, and does then, on whichever thread sees it first."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celerity_py._native import SpinFlag
    from celerity_py.futures import RuntimeFuture
    from celerity_py.submissions import Submission


class Completion:
    """The table of submissions. The application adds to it; the executor thread, and threads that wait, take away."""

    def __init__(self, runtime: Any) -> None:
        #: By id, until they are retired.
        self.submissions: dict[int, Submission] = {}
        #: Records of buffers with a function for their contents, by id.
        self.initialised: dict[int, Any] = {}
        self._runtime = runtime
        self._oldest_id = 1
        self._dying: deque[tuple[int, int]] = deque()  # (newest submission, buffer) at the death of a handle
        self._lock = threading.RLock()  # a collection of garbage may run destructors anywhere

    def start(self) -> None:
        """Count from the next submission on."""
        self._oldest_id = self._runtime.next_id

    def clear(self) -> None:
        """Forget everything: the runtime has ended."""
        self.submissions.clear()
        self.initialised.clear()

    def poison(self, error: BaseException) -> None:
        """Fail all futures that are not fulfilled yet."""
        for submission in list(self.submissions.values()):
            if submission.future is not None:
                submission.future.poison(error)

    def note_death(self, buffer: int) -> None:
        """Keep the record of a buffer with initial contents for what has been submitted so far; any thread."""
        self._dying.append((self._runtime.next_id - 1, buffer))

    def watch(self, future: RuntimeFuture[Any], flag: SpinFlag, limit_s: float) -> bool:
        """Look at the flag of a future, and fulfil it here: the executor thread would have to get the GIL first."""
        if not self._runtime.executor.watch(future.number, flag, limit_s) or future.has_listeners:
            return False
        if not future.is_private:
            self._fulfil(future)
        return True

    def complete(self, submission_id: int) -> None:
        """Fulfil the future of a submission, if it has one."""
        submission = self.submissions.get(submission_id)
        if submission is not None and submission.future is not None:
            self._fulfil(submission.future)

    def retire(self, last_submission: int) -> None:
        """Forget everything up to this submission."""
        self._runtime.report_messages()  # which name the lines of these submissions
        pop = self.submissions.pop
        with self._lock:
            forgotten: list[Any] = [pop(number, None) for number in range(self._oldest_id, last_submission + 1)]
            self._oldest_id = max(self._oldest_id, last_submission + 1)
            dying = self._dying
            while dying and dying[0][0] <= last_submission:
                self.initialised.pop(dying.popleft()[1], None)
        for submission in forgotten:
            if submission is not None and submission.future is not None and not submission.future.done():
                self._fulfil_late(submission.future)

    def _fulfil(self, future: RuntimeFuture[Any]) -> None:
        runtime = self._runtime
        runtime.report_messages()  # before anybody sees a result that is none
        with self._lock:
            raw, future.raw = future.raw, 0
        runtime.user_memory.withdraw(raw)
        if runtime.failure is None:
            future.fulfil(future.array)
        else:
            future.poison(runtime.failure_error())

    def _fulfil_late(self, future: RuntimeFuture[Any]) -> None:
        """Whoever has seen the end was interrupted before it could fulfil the future."""
        if future.is_private:
            return
        inside, thread = self._runtime.inside, threading.get_ident()
        was_inside = thread in inside
        try:
            inside.add(thread)  # it may run callbacks of the user
            self._fulfil(future)
        finally:
            if not was_inside:
                inside.discard(thread)
