# SPDX-License-Identifier: MIT
"""Futures that the runtime fulfils."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RuntimeFuture(concurrent.futures.Future[T], Generic[T]):
    """A `concurrent.futures.Future` that can be awaited, and that refuses to be waited for inside of a kernel.

    It cannot be cancelled: the work it stands for is part of a graph that other ranks have as well.
    """

    def __init__(self, check_caller: Callable[[str], None], note_seen: Callable[[BaseException], None]) -> None:
        """Made by the runtime.

        Args:
            check_caller: Raises if the calling thread must not wait.
            note_seen: Told about the exception that a caller gets to see.
        """
        super().__init__()
        self._check_caller = check_caller
        self._note_seen = note_seen
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
        if not self.done():
            self._check_caller("Future.result()")
        try:
            return super().result(timeout)
        except BaseException as error:
            self._note_seen(error)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception instead of the result, or None; otherwise as `result`."""
        if not self.done():
            self._check_caller("Future.exception()")
        error = super().exception(timeout)
        if error is not None:
            self._note_seen(error)
        return error

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()

    def fulfil(self, value: T) -> None:
        """Set the result, unless a failure came first."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_result(value)

    def poison(self, error: BaseException) -> None:
        """Set the exception, unless the result came first."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_exception(error)
