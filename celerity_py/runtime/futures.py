# SPDX-License-Identifier: MIT
"""Futures that the runtime fulfils.

A thread of the program may be interrupted anywhere, also while it holds a lock. So the runtime never takes a lock that
such a thread may hold: the outcome of a future is one attribute, and threads wait for it on a native flag. The state of
the base class in `concurrent.futures`, with its locks, is updated by threads of their own. They do so only for futures
with a callback, or in `concurrent.futures.wait` or `as_completed`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Final, Generic, NamedTuple, TypeVar

from celerity_py import _native
from celerity_py.runtime.run_state import RunState
from celerity_py.vocabulary.refused_operators import StandsForArray

T = TypeVar("T")

_LOOK_EVERY_S: Final = 0.25
_MOST_NOTIFIERS: Final = 32
_LONGEST_STOP_S: Final = 2.0
_RUNNING: Final = "RUNNING"  # as in the base class
_FINISHED: Final = "FINISHED"
#: If a thread holds a lock of the standard library for longer, an interrupted call has left it behind.
_LONGEST_HELD_S: Final = 1.0

_log = logging.getLogger(__name__)


class _Outcome(NamedTuple):
    value: Any
    error: BaseException | None


class Future(StandsForArray, concurrent.futures.Future[T], Generic[T]):
    """A `concurrent.futures.Future` that can be awaited, and that refuses to be waited for inside of a kernel.

    It cannot be cancelled: its work is part of a graph that other ranks have as well. Any thread may use it, on any
    rank by itself.
    """

    #: Set once and for all, by `dict.setdefault`.
    _outcome: _Outcome | None = None

    def __init__(  # does not call the base class, which makes locks
        self,
        state: RunState,
        look_after: Callable[[], None],
        watch: Callable[[Future[Any], _native.SpinFlag, float], bool] | None = None,
        spin_s: float = 0.0,
        notifiers: Notifiers | None = None,
    ) -> None:
        """Made by the runtime.

        Args:
            state: Of the run, which refuses waits inside of tasks, and is told about exceptions that a caller gets.
            look_after: Called now and then while a thread waits, to report the notices of native threads.
            watch: Looks at a flag for some seconds, without the interpreter lock; True if it has seen the end, and has
                fulfilled the future unless that is private.
            spin_s: How long a thread that waits does so before it sleeps.
            notifiers: The threads that call callbacks.
        """
        #: The future result: the destination of a fence, None for a wait.
        self.array: Any = None
        #: Its allocation in user memory, 0 if there is none.
        self.raw = 0
        #: Its submission.
        self.number = 0
        #: The name of the awaited contents in messages.
        self.subject = ""
        #: Whether all ranks get the same result.
        self.is_for_all = True
        #: Whether only the call that waits has this future.
        self.is_private = False
        #: With a timeline: called with the time since which a thread has waited, and the submission.
        self.note_wait: Callable[[int, int], None] | None = None
        self._run_state = state
        self._look_after = look_after
        self._watch = watch
        self._spin_s = spin_s
        self._notifiers = notifiers or Notifiers()
        self._is_over = _native.SpinFlag()
        self._spinning: list[_native.SpinFlag] = []
        self._callbacks: deque[Callable[[Any], object]] = deque()
        self._is_listened_to = False
        # Attributes that the standard library reads.
        self._lock = threading.RLock()
        self._state = _RUNNING
        self._waiters: list[Any] = []

    # ---- for the program

    def done(self) -> bool:
        """Whether the result, or the failure, is there."""
        return self._outcome is not None

    def running(self) -> bool:
        """Whether the result is still to come."""
        return self._outcome is None

    def cancel(self) -> bool:
        """False. A future of the runtime goes on."""
        return False

    def cancelled(self) -> bool:
        """False, because no future of the runtime can be cancelled."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """The result, waiting for it if need be.

        Args:
            timeout: In seconds; None waits for as long as it takes.

        Raises:
            TimeoutError: If it takes longer than `timeout`.
            NestedUse: If called inside of a kernel, host task or callback before the result is there.
            CelerityError: If the runtime has failed.
        """
        outcome = self._await("Future.result()", timeout)
        if outcome.error is None:
            return outcome.value  # type: ignore[no-any-return]
        try:
            raise outcome.error
        finally:
            del outcome, self  # the traceback of the error would keep them

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception instead of the result, or None, waiting for it if need be.

        Args:
            timeout: In seconds; None waits for as long as it takes.

        Raises:
            TimeoutError: If it takes longer than `timeout`.
            NestedUse: If called inside of a kernel, host task or callback before the result is there.
        """
        return self._await("Future.exception()", timeout).error

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """Have a function called when the future is done, at once if it is already.

        A callback that comes later runs on a thread of the runtime, not on one that waits for the result.

        Args:
            fn: Called as `fn(future)`. An exception of it is logged, and goes no further.
        """
        self._notifiers.start()
        self._callbacks.append(fn)
        # In this order: a thread that ends the future sets the outcome first, and then reads the flag.
        self._is_listened_to = True
        if self._outcome is not None:
            self._call_back()

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        outcome = self._outcome
        state = "pending" if outcome is None else "finished" if outcome.error is None else "failed"
        return f"<{type(self).__name__} of {self.subject or f'submission {self.number}'}, {state}>"

    def _explain(self, use: str) -> str:
        return f"{self!r} is {use}, but it is a future and not the result. Write .result() behind it, which waits."

    # ---- for the runtime

    def await_end(self) -> None:
        """As `result`, if nobody else has the future: it need not be fulfilled, only failed."""
        if not self._wait("await_end()", None):
            self.result(0)

    @property
    def has_listeners(self) -> bool:
        """Whether somebody else has added callbacks."""
        return self._is_listened_to

    def fulfil(self, value: T) -> None:
        """Set the result, unless a failure came first."""
        self._end(_Outcome(value, None))

    def poison(self, error: BaseException) -> None:
        """Set the exception, unless the result came first."""
        self._end(_Outcome(None, error))

    def _end(self, outcome: _Outcome) -> None:
        outcome = self.__dict__.setdefault("_outcome", outcome)  # a step that no thread can split
        # The executor thread lets go of flags in its next `run`, and there may be none after a failure.
        is_last = outcome.error is not None
        for flag in (*self._spinning, self._is_over):
            flag.set_at_once() if is_last else flag.set()
        if self._is_listened_to:
            self._notifiers.post(self)

    # ---- waiting

    def _await(self, call: str, timeout: float | None) -> _Outcome:
        """The outcome, of which the program gets to see an error now."""
        self._wait(call, timeout)
        outcome = self._outcome
        assert outcome is not None
        if outcome.error is not None:
            self._run_state.note_seen(outcome.error)
        return outcome

    def _wait(self, call: str, timeout: float | None) -> bool:
        """Whether `watch` has seen the end."""
        if self._outcome is not None:
            return False
        self._run_state.check_waiter(call)
        started_ns = time.perf_counter_ns()
        try:
            return self._block(timeout)
        finally:
            if self.note_wait is not None:
                self.note_wait(started_ns, self.number)

    def _block(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        spin_until = 0.0
        flag = self._is_over
        if self._watch is not None and self._spin_s > 0:
            flag = _native.SpinFlag()
            self._spinning.append(flag)
            spin_until = time.monotonic() + self._spin_s
        while self._outcome is None:
            now = time.monotonic()
            left = _LOOK_EVERY_S if deadline is None else min(_LOOK_EVERY_S, deadline - now)
            if left <= 0:
                raise TimeoutError
            if self._watch is not None and now < spin_until:
                limit_s = min(left, spin_until - now)
                if self._is_listened_to:
                    flag.wait(limit_s)
                elif self._watch(self, flag, limit_s):
                    return True
            else:
                self._is_over.sleep(left)
            if self._outcome is None:
                self._look_after()
        return False

    # ---- for the standard library

    @property
    def _condition(self) -> Any:  # type: ignore[override] # an attribute of the base class
        """`concurrent.futures.wait` and `as_completed` read this before they read `_state` and `_waiters`."""
        self._notifiers.start()
        self._is_listened_to = True
        if self._outcome is not None:
            self._adopt(self._outcome)  # no thread has read it before
        return self._lock

    def _adopt(self, outcome: _Outcome) -> None:
        self._result, self._exception = outcome.value, outcome.error
        self._state = _FINISHED

    def publish(self) -> None:
        """Hand the outcome to all waiters and callbacks, on a thread that may block here."""
        outcome = self._outcome
        assert outcome is not None
        is_held = self._lock.acquire(timeout=_LONGEST_HELD_S)
        try:
            if self._state != _FINISHED:
                self._adopt(outcome)
                for waiter in list(self._waiters):
                    (waiter.add_result if outcome.error is None else waiter.add_exception)(self)
        finally:
            if is_held:
                self._lock.release()
        self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                callback(self)
            except Exception:  # noqa: BLE001 - of the user; as the base class does
                _log.exception("A callback of %r raised an exception.", self)


class Notifiers:
    """Threads that publish the outcomes of futures. One more starts if all are busy, because a callback may block.

    Args:
        enter: Called at the beginning of each thread.
    """

    def __init__(self, enter: Callable[[], object] = lambda: None) -> None:
        self._enter = enter
        self._posted: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle: deque[None] = deque()  # an entry per idle thread

    def start(self) -> None:
        """Start the first thread, so that nothing can go wrong with that when a future ends."""
        if not self._threads:
            self._grow()
            self._idle.append(None)

    def post(self, future: Future[Any]) -> None:
        """Have the outcome of a future published. Neither blocks nor fails."""
        self._posted.put(future)
        try:
            self._idle.pop()
        except IndexError:
            if len(self._threads) < _MOST_NOTIFIERS:
                with contextlib.suppress(RuntimeError, MemoryError):  # a busy thread takes it later
                    self._grow()

    def stop(self) -> None:
        """Let the threads end after the futures that were posted, and wait a little for them."""
        for _ in self._threads:
            self._posted.put(None)
        deadline = time.monotonic() + _LONGEST_STOP_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0))

    def _grow(self) -> None:
        thread = threading.Thread(target=self._work, name=f"celerity-callbacks-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        self._enter()
        while (future := self._posted.get()) is not None:
            try:
                future.publish()
            except Exception:  # noqa: BLE001 - of the standard library; the next future comes all the same
                _log.exception("The outcome of %r could not be told to all who wait for it.", future)
            del future  # and its array
            self._idle.append(None)
