# SPDX-License-Identifier: MIT
"""Python's record of each submission, kept until it completes. The first thread that notices runs the completion.

A thread of the program may be interrupted anywhere in here. So each step can be repeated, and the executor thread
repeats it. No submission is forgotten before its future is fulfilled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celerity_py._native import Executor, Scheduler, SpinFlag, Submitter
    from celerity_py.runtime.futures import Future
    from celerity_py.runtime.planning_notices import Notices
    from celerity_py.runtime.run_state import RunState
    from celerity_py.runtime.user_memory import UserMemory
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.submissions import Submission


class Completion:
    """The table of submissions. The application adds to it; the executor thread, and threads that wait, take away."""

    def __init__(
        self,
        submissions: dict[int, Submission],
        *,
        scheduler: Scheduler,
        submitter: Submitter,
        executor: Executor | None,
        state: RunState,
        notices: Notices,
        user_memory: UserMemory,
    ) -> None:
        #: By id, until they are retired; the submitter adds to them.
        self.submissions = submissions
        #: Records of buffers by id, of which the executor calls functions: for their contents, or to combine.
        self.kept: dict[int, BufferRecord] = {}
        #: All submissions up to this one are complete on this rank.
        self.last_retired = 0
        self.submitter = submitter
        self._scheduler = scheduler
        self._executor = executor
        self._state = state
        self._notices = notices
        self._user_memory = user_memory
        self._dying: dict[int, int] = {}  # buffer -> newest submission at the death of its handle

    def clear(self) -> None:
        """Forget everything: the runtime has ended."""
        self.submissions.clear()
        self.kept.clear()

    def poison(self, error: BaseException) -> None:
        """Fail all futures that are not fulfilled yet."""
        for submission in list(self.submissions.values()):
            future = submission.future  # another thread may fulfil and drop it
            if future is not None:
                future.poison(error)

    def note_death(self, buffer: int) -> None:
        """Keep the record of a buffer until all submissions so far are retired; any thread."""
        self._dying[buffer] = self._scheduler.next_submission() - 1

    def watch(self, future: Future[Any], flag: SpinFlag, limit_s: float) -> bool:
        """Look at the flag of a future, and fulfil it here: the executor thread would have to get the GIL first."""
        assert self._executor is not None
        if not self._executor.watch(future.number, flag, limit_s) or future.has_listeners:
            return False
        if not future.is_private:
            self._fulfil(future)
        return True

    def complete(self, submission_id: int) -> None:
        """Fulfil the future of a submission, if it has one."""
        submission = self.submissions.get(submission_id)
        future = submission.future if submission is not None else None
        if future is not None:
            self._fulfil(future)

    def retire(self, last_submission: int) -> None:
        """Forget everything up to this submission."""
        self._notices.report()  # they name the lines of these submissions
        self.last_retired = max(self.last_retired, last_submission)
        for future in self.submitter.futures_until(last_submission):
            self._fulfil(future)
        self.submitter.forget_until(last_submission)
        for buffer, newest in list(self._dying.items()):
            if newest <= last_submission:
                self.kept.pop(buffer, None)
                self._dying.pop(buffer, None)

    def _fulfil(self, future: Future[Any]) -> None:
        self._notices.report()  # before a program sees a result that is wrong
        self._user_memory.withdraw(future.raw)
        if self._state.failure is None:
            future.fulfil(future.array)
        else:
            future.poison(self._state.error())
        submission = self.submissions.get(future.number)
        if submission is not None:  # the result may be large, and belongs to the program now
            submission.future = None
