# SPDX-License-Identifier: MIT
"""Whether a run takes calls, and why it refuses them."""

from __future__ import annotations

import threading
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NoReturn

from celerity_py import _native
from celerity_py.executor.failures.failure import HOW_TO_GO_ON, WHAT_THEN
from celerity_py.scheduler.errors import CelerityError, ClosedQueue, DeviceError, NestedUse, TaskFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.executor.failures.failure import Failure
    from celerity_py.runtime.forks import Fork


class Phase(Enum):
    """The phase of a run's life. All but the first refuse calls."""

    RUNNING = auto()
    #: One thread closes the last queue: it alone may call.
    ENDING = auto()
    FAILED = auto()
    ENDED = auto()
    #: This process is a forked child; the run belongs to its parent.
    DISOWNED = auto()


_NEXT: Final = {
    Phase.RUNNING: {Phase.ENDING, Phase.FAILED, Phase.ENDED, Phase.DISOWNED},
    Phase.ENDING: {Phase.ENDING, Phase.FAILED, Phase.ENDED, Phase.DISOWNED},
    Phase.FAILED: {Phase.ENDED, Phase.DISOWNED},
    Phase.ENDED: {Phase.DISOWNED},
    Phase.DISOWNED: set(),
}


class RunState:
    """The phase of one run, and the errors that its calls raise. Any thread.

    Args:
        refuse: Lets native code refuse submits as well; called at each change of phase.
        is_alone: The run has a single rank.
    """

    def __init__(self, refuse: Callable[[], None], *, is_alone: bool = True) -> None:
        self.phase = Phase.RUNNING
        #: The first failure of the run; it stays when the run ends.
        self.failure: Failure | None = None
        self.fork: Fork | None = None
        #: The thread that ends the run.
        self.ender: threading.Thread | None = None
        #: Whether a call of the program has raised the failure.
        self.was_failure_seen = False
        #: Set once the failure has been noted.
        self.has_failed = _native.SpinFlag()
        #: Threads that run user code for the runtime, and may not call it.
        self.inside: set[int] = set()
        self._refuse = refuse
        self._is_alone = is_alone

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing left to end in this process."""
        return self.phase is Phase.ENDED or self.phase is Phase.DISOWNED

    @property
    def allows_another(self) -> bool:
        """Whether another run may follow a failure in this process. A GPU that has failed serves no process again."""
        return self._is_alone and not (self.failure is not None and isinstance(self.failure.error, DeviceError))

    @property
    def makes_way(self) -> bool:
        """Whether this thread may end the run and start another: it has failed, and the program has seen why."""
        is_over = self.phase is Phase.FAILED and self.was_failure_seen
        return is_over and self.allows_another and threading.get_ident() not in self.inside

    def describe_end(self) -> str:
        """Why the objects of this run cannot be used any more, after "belongs to a runtime that"."""
        failure = self.failure
        if failure is None:
            return "ended with its last queue"
        return f"has failed: {failure.message(failure.rank).rstrip('.')}"

    def fail(self, failure: Failure) -> bool:
        """Note the failure of the run; False if it has come too late."""
        if Phase.FAILED not in _NEXT[self.phase]:
            return False
        self.failure = failure
        self._enter(Phase.FAILED)
        self.has_failed.set_at_once()
        return True

    def begin_end(self) -> None:
        """From now on only the calling thread may call, if the run has not failed."""
        if Phase.ENDING in _NEXT[self.phase]:
            self.ender = threading.current_thread()
            self._enter(Phase.ENDING)

    def end(self) -> None:
        """All threads of the run have stopped."""
        self._enter(Phase.ENDED)

    def disown(self, fork: Fork) -> None:
        """In a forked child: the run is the parent's."""
        self.fork = fork
        self._enter(Phase.DISOWNED)

    def _is_ender(self) -> bool:
        return self.ender is not None and self.ender.ident == threading.get_ident()

    def _enter(self, phase: Phase) -> None:
        assert phase in _NEXT[self.phase], (self.phase, phase)
        self.phase = phase
        self._refuse()

    def enter_thread(self) -> None:
        """The calling thread runs user code from now on."""
        self.inside.add(threading.get_ident())

    def check(self, call: str) -> None:
        """Refuse calls from inside of tasks, after a failure, after the end, and in forked processes.

        Raises:
            ForkedProcess: If the runtime belongs to the parent of this process.
            NestedUse: If the calling thread runs a kernel, host task, mapper or callback.
            CelerityError: If the runtime has failed; the original exception is the cause.
            ClosedQueue: If the runtime has ended, or another thread ends it.
        """
        may_call = self.phase is Phase.RUNNING or (self.phase is Phase.ENDING and self._is_ender())
        if not may_call or threading.get_ident() in self.inside:
            self._refuse_call(call)

    def check_reading(self, call: str) -> None:
        """As `check`, for a call that submits nothing: while one thread closes the last queue, others may read."""
        if self.phase is not Phase.ENDING or threading.get_ident() in self.inside:
            self.check(call)

    def _refuse_call(self, call: str) -> NoReturn:
        if self.fork is not None:
            raise self.fork.error(call)
        if threading.get_ident() in self.inside:
            raise NestedUse(
                f"{call} was called from inside a kernel, host task, mapper or callback of the runtime. "
                f"These run in the middle of other calls: submit and wait in the main program instead."
            )
        if self.failure is not None:
            self.was_failure_seen = True
            raise self.error()
        own, ender = threading.current_thread(), self.ender
        if ender is not None and ender is not own:
            closes = "closes" if self.phase is Phase.ENDING else "has closed"
            raise ClosedQueue(
                f"{call} of thread {own.name!r}: thread {ender.name!r} {closes} the last queue. Join all threads that "
                f"submit or wait before the queue is closed."
            )
        raise ClosedQueue(f"{call}: the runtime has ended with its last queue. Do this before the queue is closed.")

    def check_waiter(self, call: str) -> None:
        """Refuse to wait for a future inside of a task; its outcome tells the rest."""
        if threading.get_ident() in self.inside:
            self.check(call)

    def note_seen(self, error: BaseException) -> None:
        """The program has got this exception out of a future."""
        if self.failure is not None and isinstance(error, CelerityError):
            self.was_failure_seen = True

    def error(self) -> CelerityError:
        """A new exception for the failure: of the class of the original if that is one of ours."""
        failure = self.failure
        assert failure is not None
        original = failure.exception()
        if type(original) is TaskFailed and original.__cause__ is not None:
            original = original.__cause__  # told with its context by us
        kind: type[CelerityError] = TaskFailed
        if isinstance(original, CelerityError) and not failure.is_remote:
            kind = type(original)
        try:
            advice = HOW_TO_GO_ON if self.allows_another else WHAT_THEN
            error = kind(f"{failure.message().rstrip('.')}. {advice}")
        except Exception:  # noqa: BLE001 - a class of the user with other arguments
            error = TaskFailed(failure.message())
        error.__cause__ = original
        return error
