# SPDX-License-Identifier: MIT
"""Handles the failure of a run: once, on every rank, and with an end of the job.

A run is *alive* until its first failure, then *failed* for good. With one rank, the failure is an exception of the next
call and nothing more. With several, the others must not wait for ever: this rank tells them, everyone prints the
failure once, and everyone calls MPI_Abort a little later, so that the job ends with a status that is not 0 even if the
program swallows the exception. Without that it would hang: mpi4py's exit hook calls MPI_Finalize, which waits for all
ranks, so a rank with an uncaught exception does not even exit.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from celerity_py.executor.failures.failure import (
    Failure,
    attempt,
    find_user_line,
    format_user_frames,
    identity_of,
    is_caused_by,
    make_failure,
    print_whole,
)
from celerity_py.executor.thread_flag import Flag

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.executor.network.communicator import Communicator

_LOOK_EVERY_S: Final = 1.0  # whether the thread that deals with failures still is there


@dataclass(frozen=True)
class FailureTimes:
    """The times, in seconds, after which a run that does not move is reported or ended. The documents state them."""

    echo_s: float = (
        0.3  # how long other ranks hold an exception of the program back: rank 0 may be about to tell the same
    )
    abort_s: float = 3.0  # from the first failure to MPI_Abort: time for all ranks to hear of it and to print it
    gone_s: float = 3.0  # no progress for so long: a peer on this host whose process is gone is a failure
    compare_s: float = 2.0  # something is under way for so long: ask the other ranks, and compare programs
    still_s: float = 10.0  # a rank where nothing has moved for so long stands still
    report_s: float = 20.0  # so long without progress while all ranks stand still: print the waits of each rank
    silent_s: float = 25.0  # no progress for so long, and a peer did not answer: that is a failure
    stall_s: float = 60.0  # no progress for so long, and all ranks stand still: that is a failure; 0: never


class _Report(NamedTuple):
    failure: Failure
    story: str
    is_taken: Flag


class FailureHandler:
    """Keeps the first failure of a run and sees to its end. Any thread.

    A thread of its own deals with failures. It is there before anything can fail, so that no thread has to be started
    then, and the thread that reports may be interrupted.

    Args:
        communicator: Of the run.
        times: When to abort.
        on_failure: Called once, with the first failure, on the thread that reports it.
    """

    def __init__(self, communicator: Communicator, times: FailureTimes, on_failure: Callable[[Failure], None]) -> None:
        self._communicator = communicator
        self._times = times
        self._on_failure = on_failure
        self._failure: Failure | None = None
        self._reports: SimpleQueue[_Report | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_ending = Flag()  # the job is going to be aborted

    @property
    def failure(self) -> Failure | None:
        """The first failure, or None as long as there is none."""
        return self._failure

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: If the system has none left.
        """
        thread = threading.Thread(target=self._serve, name="celerity-failure", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Let the thread end, unless the job is about to be aborted."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._reports.put(None)
            if not self._is_ending.is_set():
                thread.join()

    def report(self, failure: Failure, story: str = "") -> bool:
        """Enter the failed state. Return False if the run had failed before; then nothing happens.

        Args:
            failure: The error.
            story: Printed before it.
        """
        if self._failure is not None:
            return False
        report = _Report(failure, story, Flag())
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            self._take(report)
        else:
            self._reports.put(report)
            while not report.is_taken.wait(_LOOK_EVERY_S) and thread.is_alive():
                pass
        return self._failure is failure

    def _serve(self) -> None:
        while (report := self._reports.get()) is not None:
            attempt(self._take, report)
            if self._is_ending.is_set():
                time.sleep(self._times.abort_s)
                self._abort()

    def _take(self, report: _Report) -> None:
        try:
            if self._failure is not None:
                return
            self._failure = report.failure
            if self._communicator.size > 1:
                self._is_ending.set()
                attempt(self._print, report.failure, report.story)
            attempt(self._on_failure, report.failure)
        finally:
            report.is_taken.set()

    def report_program_error(self, error: BaseException, story: str = "") -> None:
        """Enter the failed state because of an exception that the program did not catch.

        Most programs raise it on every rank; it is told in full by the first one that the others hear of.

        Args:
            error: The exception.
            story: Its traceback, if that is not printed yet.
        """
        if self._communicator.rank > 0 and not isinstance(error, KeyboardInterrupt):
            deadline_s = time.monotonic() + self._times.echo_s
            while self._failure is None and time.monotonic() < deadline_s:
                time.sleep(0.01)
        if self.is_known(error):
            return
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
        details = {"site": find_user_line(error), "exit_status": status, "identity": identity_of(error)}
        failure = make_failure(self._communicator.rank, error, **details)
        story = self._prefixed(story)
        if not self.report(failure, story) and story:
            print_whole(story)

    def wait_for_abort(self) -> NoReturn:
        """Keep this process from exiting until the job is aborted: an exit would hang in MPI_Finalize."""
        thread = self._thread
        if thread is not None and self._is_ending.is_set():
            thread.join()
        self._abort()

    def is_known(self, error: BaseException) -> bool:
        """Whether this exception only repeats the failure, which has been printed."""
        failure = self._failure
        if failure is None:
            return False
        origin = failure.exception()
        origins = [origin] if origin.__cause__ is None else [origin, origin.__cause__]  # an exception may have either
        return any(is_caused_by(error, one) for one in origins) or failure.repeats(error)

    def _prefixed(self, story: str) -> str:
        return "".join(f"rank {self._communicator.rank}: {line}" for line in story.splitlines(keepends=True))

    def _print(self, failure: Failure, story: str) -> None:
        rank = self._communicator.rank
        message = failure.message(teller=rank, is_told=bool(story))
        lines = [story, f"celerity_py, rank {rank}: {message}\n"]
        if failure.error is not None and (failure.task or not failure.site):  # with a site it is one of the program
            attempt(lambda error: lines.extend(format_user_frames(error)), failure.error)
        lines.append(f"celerity_py, rank {rank}: the job ends in {self._times.abort_s:g} s\n")
        print_whole("".join(lines))

    def _abort(self) -> NoReturn:
        self._communicator.abort(self._failure.exit_status if self._failure is not None else 1)
