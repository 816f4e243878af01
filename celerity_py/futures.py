# SPDX-License-Identifier: MIT
"""Futures that the runtime fulfils."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from celerity_py import _native

T = TypeVar("T")

_LOOK_EVERY_S = 0.25


class RuntimeFuture(concurrent.futures.Future[T], Generic[T]):
    """A `concurrent.futures.Future` that can be awaited, and that refuses to be waited for inside of a kernel.

    It cannot be cancelled: the work it stands for is part of a graph that other ranks have as well.
    """

    def __init__(
        self,
        check_caller: Callable[[str], None],
        look_after: Callable[[], None],
        note_seen: Callable[[BaseException], None],
        watch: Callable[[RuntimeFuture[Any], _native.SpinFlag, float], bool] | None = None,
        spin_s: float = 0.0,
    ) -> None:
        """Made by the runtime.

        Args:
            check_caller: Raises if the calling thread must not wait.
            look_after: Called now and then while a thread waits, to report what native threads have to say.
            note_seen: Told about the exception that a caller gets to see.
            watch: Looks at a flag for some seconds, without the interpreter lock; True if it has seen the end, and has
                fulfilled the future unless that is private.
            spin_s: How long a thread that waits does so before it sleeps.
        """
        super().__init__()
        #: What the result will be: the destination of a fence, None for a wait.
        self.array: Any = None
        #: Its allocation in user memory, 0 if there is none.
        self.raw = 0
        #: Its submission.
        self.number = 0
        #: Only a call that waits has it.
        self.is_private = False
        #: With a timeline: whom to tell since when somebody has waited for it.
        self.note_wait: Callable[[int, int], None] | None = None
        self._check_caller = check_caller
        self._look_after = look_after
        self._note_seen = note_seen
        self._watch = watch
        self._spin_s = spin_s
        self._has_listeners = False
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> T:
        """The result, waiting for it if need be.

        Args:
            timeout: In seconds; None waits for as long as it takes.

        Raises:
            TimeoutError: If it takes longer than `timeout`.
            NestedUse: If called inside of a kernel, host task or callback before the result is there.
            CelerityError: If the runtime has failed.
        """
        self._wait("Future.result()", timeout)
        try:
            return super().result(0)
        except BaseException as error:
            self._note_seen(error)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception instead of the result, or None; otherwise as `result`."""
        self._wait("Future.exception()", timeout)
        error = super().exception(0)
        if error is not None:
            self._note_seen(error)
        return error

    def await_end(self) -> None:
        """As `result`, if nobody else has the future: it need not be fulfilled, only failed."""
        if not self._wait("await_end()", None):
            self.result(0)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """As in the base class. Callbacks run on a thread of the runtime, not on one that waits for the result."""
        self._has_listeners = True
        super().add_done_callback(fn)

    @property
    def has_listeners(self) -> bool:
        """Whether somebody else has added callbacks."""
        return self._has_listeners

    def _wait(self, call: str, timeout: float | None) -> bool:
        """Whether `watch` has seen the end."""
        if self.done():
            return False
        self._check_caller(call)
        started_ns = time.perf_counter_ns()
        try:
            return self._block(timeout)
        finally:
            if self.note_wait is not None:
                self.note_wait(started_ns, self.number)

    def _block(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        flag = _native.SpinFlag()
        spin_until = 0.0
        if self._watch is not None and self._spin_s > 0:
            super().add_done_callback(flag.set)
            spin_until = time.monotonic() + self._spin_s
        while not self.done():
            now = time.monotonic()
            left = _LOOK_EVERY_S if deadline is None else min(_LOOK_EVERY_S, deadline - now)
            if self._watch is not None and now < spin_until and left > 0:
                limit_s = min(left, spin_until - now)
                if self._has_listeners:
                    flag.wait(limit_s)
                elif self._watch(self, flag, limit_s):
                    return True
                self._look_after()
                continue
            try:
                super().exception(max(left, 0.0))
            except concurrent.futures.TimeoutError:
                if left <= 0:
                    raise
                self._look_after()
        return False

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def fulfil(self, value: T) -> None:
        """Set the result, unless a failure came first."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_result(value)

    def poison(self, error: BaseException) -> None:
        """Set the exception, unless the result came first."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_exception(error)
