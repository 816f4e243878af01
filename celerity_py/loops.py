# SPDX-License-Identifier: MIT
"""Loops that stop on data: the next iterations are submitted while the value that may end the loop is under way."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from celerity_py.buffer import Buffer, check_alive, make_buffer
from celerity_py.kernels import name_of
from celerity_py.runtime.futures import Future
from celerity_py.scheduler.errors import ArgumentTypeError, CelerityWarning, UsageError
from celerity_py.small_operations import copy_box
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.type_rules import describe_type

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

#: A function that returns the buffers to keep.
Keep: TypeAlias = "Callable[[], Buffer | tuple[Buffer, ...] | list[Buffer]]"

_getframe = sys._getframe


class LoopOptions(NamedTuple):
    """The arguments of `Queue.until` that have names."""

    every: SupportsIndex
    at_most: SupportsIndex
    keep: Keep | None
    when: Callable[[Any], Any] | None
    in_dry_run: Any


class _Check(NamedTuple):
    """A value that the loop has asked for."""

    iterations: int  # before it
    future: Future[Any]


class Loop(Iterator[int]):
    """The iterations of a loop that stops on data, numbered from 0. `Queue.until` makes it, for one thread at a time.

    Each iteration is collective: all ranks run the loop, and end it after the same iteration.

    Attributes:
        iterations: In the loop: the number of iterations before this one. After the loop: the number of needed
            iterations, up to the one whose value has ended the loop.
        stopped: Whether a value has ended the loop. False if `at_most` has ended it, or a `break`.
        value: The value that the loop has looked at last; None before the first one.
    """

    def __init__(
        self, runtime: Runtime, future_of: Callable[[], Future[Any]], options: LoopOptions, *, priority: int
    ) -> None:
        """See `Queue.until`."""
        keep, when = options.keep, options.when
        if not callable(future_of):
            _refuse("future_of", "a function that returns a future, such as lambda: queue.fence(done)", future_of)
        if keep is not None and not callable(keep):
            _refuse("keep", "a function that returns buffers, such as lambda: u", keep)
        if when is not None and not callable(when):
            _refuse("when", "a function of the value", when)
        self.iterations = 0
        self.stopped = False
        self.value: Any = None
        self._every = _count("every", options.every, least=1)
        self._at_most = _count("at_most", options.at_most, least=0)
        self._runtime = runtime
        self._future_of = future_of
        self._keep = keep
        self._priority = priority
        self._when = when
        self._in_dry_run = options.in_dry_run if runtime.is_dry else None
        self._begun = 0  # iterations
        self._is_over = False
        self._pending: _Check | None = None
        self._copies: list[Buffer] = []  # of the kept buffers, as they were at the pending check

    def __iter__(self) -> Loop:
        return self

    def __next__(self) -> int:
        if self._is_over:
            raise StopIteration
        self._is_over = True  # also if a function of the program raises
        self.iterations = self._begun
        if self._begun and (self._begun % self._every == 0 or self._begun == self._at_most):
            self._check(_getframe(1))
        if self.stopped or self._begun == self._at_most:
            self._copies.clear()
            raise StopIteration
        self._is_over = False
        self._begun += 1
        return self.iterations

    def __repr__(self) -> str:
        return f"<Loop of queue.until(), {self.iterations} of at most {self._at_most} iteration(s)>"

    # ---- values

    def _check(self, frame: FrameType) -> None:
        """Look at the value of the check before this one. Unless it ends the loop, ask for the next value."""
        if self._pending is not None and self._ends_loop(self._pending):
            self.iterations = self._pending.iterations
            self._copy(self._copies, self._kept(), frame)
            return
        self._pending = _Check(self._begun, self._ask())
        if self._begun == self._at_most:
            self._ends_loop(self._pending)
            return
        kept = self._kept()
        if not self._copies:
            self._copies = [
                make_buffer(each.shape, each.record.dtype, f"{each.name or each.record.label} kept", frame)
                for each in kept
            ]
        self._copy(kept, self._copies, frame)

    def _ask(self) -> Future[Any]:
        with nullcontext() if self._in_dry_run is None else warnings.catch_warnings():
            if self._in_dry_run is not None:  # the loop looks at no value of a fence
                warnings.simplefilter("ignore", CelerityWarning)
            future = self._future_of()
        if not isinstance(future, Future):
            raise ArgumentTypeError(
                f"The function {name_of(self._future_of)!r} of queue.until() returns {future!r}, which is no future of "
                f"this runtime. Let it return queue.fence(buffer) or queue.any(buffer), without .result(). Compare the "
                f"value in when=, as in when=lambda value: value < 1e-6."
            )
        if not future.is_for_all:
            raise UsageError(
                f"The function {name_of(self._future_of)!r} of queue.until() returns {future!r}, whose result is "
                f"not the same on all ranks, but all of them end the loop after the same iteration. Return the fence "
                f"of a buffer, without on='master'."
            )
        return future

    def _ends_loop(self, check: _Check) -> bool:
        self.value = check.future.result() if self._in_dry_run is None else self._in_dry_run
        verdict = self.value if self._when is None else self._when(self.value)
        if verdict is None or np.size(verdict) != 1:
            whose = "value" if self._when is None else f"result of when={name_of(self._when)!r}"
            what = f"an array of shape {np.shape(verdict)}" if np.ndim(verdict) else repr(verdict)
            raise UsageError(
                f"The {whose} after iteration {check.iterations - 1} of queue.until() is {what}, which is neither "
                f"true nor false. Fence a single element, use queue.any(buffer), or let when= return a bool."
            )
        kind = np.asarray(verdict).dtype
        if self._when is None and kind.kind not in "biu":
            raise UsageError(
                f"The value after iteration {check.iterations - 1} of queue.until() is {np.asarray(verdict).item()!r}, "
                f"of the type {describe_type(kind)}. Only a bool or an integer says by itself that the loop ends: any "
                f"other than 0. Say when it ends: when=lambda value: value < 1e-6."
            )
        self.stopped = bool(verdict)
        return self.stopped

    # ---- contents of the last needed iteration

    def _kept(self) -> list[Buffer]:
        """The buffers for which the names in `keep` stand now."""
        if self._keep is None:
            return []
        given = self._keep()
        kept = [*given] if isinstance(given, list | tuple) else [given]
        for each in kept:
            if not isinstance(each, Buffer):
                _refuse("keep", "a function that returns a buffer or a tuple of buffers", given)
            check_alive(each.record, self._runtime)
        before, now = ([(each.shape, each.record.type_name) for each in buffers] for buffers in (self._copies, kept))
        if before and before != now:
            raise UsageError(
                f"The function keep={name_of(self._keep)!r} of queue.until() returned buffers of the shapes and types "
                f"{before} at first, and {now} after iteration {self._begun - 1}. Let it return equal ones each time."
            )
        return kept

    def _copy(self, sources: list[Buffer], targets: list[Buffer], frame: FrameType) -> None:
        for source, target in zip(sources, targets, strict=True):
            whole = source.record.box
            copy_box(self._runtime, target, source, (whole, whole), frame, self._priority, "queue.until keeps")


def _refuse(what: str, takes: str, given: Any) -> NoReturn:
    raise ArgumentTypeError(f"queue.until({what}=...) takes {takes}, not {given!r}.")


def _count(what: str, given: Any, *, least: int) -> int:
    try:
        count = to_int(given)
    except TypeError:
        raise ArgumentTypeError(f"queue.until({what}=...) takes a number of iterations, not {given!r}.") from None
    if count < least:
        raise UsageError(f"queue.until({what}={count}): at least {least} is needed.")
    return count
