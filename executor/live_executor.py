# SPDX-License-Identifier: MIT
"""The threads that execute, and the loop that connects the native engine, the network and the runtime.

The executor thread stays in the native `run`, without the interpreter lock, which moves messages as well. It leaves
`run` only for work that needs Python: notices of other ranks, and the runtime's bookkeeping. Python kernels run on one
launcher thread per device. Host tasks run on a pool of threads, which grows while all are busy, because host tasks may
wait for each other.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from celerity_py.executor.failures import uncaught_exceptions
from celerity_py.executor.failures.failure import (
    Failure,
    attempt,
    decode_failure,
    describe_error,
    format_user_frames,
    make_failure,
    print_whole,
)
from celerity_py.executor.failures.failure_handler import FailureHandler, FailureTimes
from celerity_py.executor.failures.forked_calls import end_child
from celerity_py.executor.failures.native_failures import explain, explain_device, is_lost_device
from celerity_py.executor.interpreter_settings import restore_switch_interval, shorten_switch_interval
from celerity_py.executor.network.communicator import (
    NOTICE_CLAIM,
    NOTICE_DIGESTS,
    NOTICE_ENTRY,
    NOTICE_FAILURE,
    NOTICE_LIVE,
    NOTICE_QUERY,
    NOTICE_STATUS,
    Notice,
)
from celerity_py.executor.network.pacing import num_cores
from celerity_py.executor.thread_flag import Flag
from celerity_py.executor.watch.blocked_calls import BlockedCalls
from celerity_py.executor.watch.leftovers import find_leftovers
from celerity_py.executor.watch.program_activity import ProgramActivity
from celerity_py.executor.watch.program_comparison import ProgramComparison
from celerity_py.executor.watch.progress_watchdog import ProgressWatchdog
from celerity_py.scheduler.errors import DeviceError, KeptArray, ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py._native import KernelCall, NeighbourWatch, ProgramLog
    from celerity_py.executor.delegate import ExecutorDelegate, LiveReporter, NativeExecutor
    from celerity_py.executor.network.communicator import Communicator

_MOST_HOST_TASK_THREADS: Final = 64
_JOIN_UNFINISHED_S: Final = 2.0  # user code may never return; its thread is a daemon and dies with the process
_FAILED_POLL_S: Final = 2e-3
_LIVE_INTERVAL_S: Final = 1.0
_LOOK_INTERVAL_S: Final = 0.05  # between two looks after the run
# Numbers of `Communicator.settle`. At the end of a run, when all messages have arrived, each rank
# looks for those that no receive has claimed. The second barrier holds every rank until all have looked.
_ALL_HAS_ARRIVED: Final = 1
_ALL_HAVE_LOOKED: Final = 2

_kept: Final[list[NativeExecutor]] = []  # arrays of the program lie in their memory


class LiveExecutor:
    """Runs the instructions that the scheduler hands to the native executor.

    Args:
        native: A `_native.Executor` on which no other thread calls `run`.
        communicator: Of the run; only the executor thread uses it between `start` and `stop`.
        delegate: The runtime.
        num_devices: Of this rank.
        poll: "adaptive" sleeps between looks at the network, the longer nothing has moved; "spin" does not.
        direct: Some transfers need no network, so it is looked at less often.
        times: When to give up.
        program: The digests that the ranks compare; None with a single rank.
        reporter: Tells of the activity of the ranks each second; None if nobody wants to know, the same on all ranks.
        neighbour: Watches the process of another rank; stopped when the run ends or fails.
    """

    def __init__(
        self,
        native: NativeExecutor,
        communicator: Communicator,
        delegate: ExecutorDelegate,
        *,
        num_devices: int,
        poll: str = "adaptive",
        direct: bool = False,
        times: FailureTimes | None = None,
        program: ProgramLog | None = None,
        reporter: LiveReporter | None = None,
        neighbour: NeighbourWatch | None = None,
    ) -> None:
        self._neighbour, self._reporter = neighbour, reporter
        self._next_report_s = 0.0
        self._native = native
        self._communicator = communicator
        self._delegate = delegate
        self._times = times or FailureTimes()
        self._failures = FailureHandler(communicator, self._times, self._enter_failed_state)
        self._comparison: ProgramComparison | None = None
        if program is not None:
            self._comparison = ProgramComparison(program, communicator, delegate.describe_site)
        now_s = time.monotonic()
        activity = ProgramActivity(now_s)
        self._threads = [threading.Thread(target=self._execute, name="celerity-executor", daemon=True)]
        calls = {LiveExecutor._launch_kernels.__code__, LiveExecutor._run_host_tasks.__code__}
        loops = calls, LiveExecutor._next_kernel.__code__
        blocked = BlockedCalls(delegate, communicator.rank, self._threads, loops, self._times.stall_s)
        self._watchdog = ProgressWatchdog(
            native, communicator, delegate, activity, self._comparison, self._times, now_s, blocked
        )
        if communicator.port is not None:
            cores_per_rank = num_cores() / communicator.local_size
            native.connect(
                communicator.port, spins=poll == "spin", cores_per_rank=cores_per_rank, has_other_ways=direct
            )
        self._outbox: deque[Notice] = deque()  # notices from other threads; here `source_rank` is the destination
        self._is_leaving = False  # the shutdown epoch of this rank is complete
        self._leftovers_since_s: float | None = None
        self._keeps_interval_short = False
        self._process = os.getpid()
        self._stop_requested = Flag()
        self._has_shut_down = Flag()
        for device in range(num_devices):
            name = f"celerity-device-{device}"
            self._threads.append(threading.Thread(target=self._launch_kernels, args=(device,), name=name, daemon=True))
        self._pool_lock = threading.Lock()
        self._num_idle_host_threads = self._num_host_threads = 0
        self._actions: dict[str, Callable[[Any], None]] = {
            "completed": lambda item: delegate.submission_completed(item.submission),
            "retired": lambda item: delegate.submissions_retired(item.last_submission),
            "user_free": lambda item: delegate.user_memory_freed(item.raw),
            "empty_reduction": lambda item: delegate.reduction_is_empty(item.reduction),
            "failed": lambda item: self.fail(*explain(item.failure, communicator, delegate)),
            "shutdown": lambda _: self._settle(_ALL_HAS_ARRIVED),
            "stopped": lambda _: None,
        }

    @property
    def failure(self) -> Failure | None:
        """The first failure of the run, or None."""
        return self._failures.failure

    def start(self) -> None:
        """Start the threads. Application thread.

        Raises:
            ResourceError: If the system has not enough threads.
        """
        shorten_switch_interval()
        self._keeps_interval_short = True
        try:
            self._failures.start()
            if self._communicator.size > 1:
                uncaught_exceptions.attach(self._failures)
            for thread in self._threads:
                thread.start()
            self._add_host_thread()
        except (RuntimeError, MemoryError) as error:
            raise no_thread(error) from error

    def wait_shutdown(self, timeout_s: float) -> bool:
        """Wait until the shutdown epoch is complete on all ranks, or the run has failed. False on timeout."""
        return self._has_shut_down.wait(timeout_s)

    def fail(self, error: BaseException, submission: int | None = None) -> None:
        """Enter the failed state; does nothing if the run has failed already. Any thread."""
        name = site = ""
        with contextlib.suppress(Exception):
            name, site = (self._delegate.describe_submission(submission) if submission else None) or ("", "")
        rank = self._communicator.rank
        self._failures.report(make_failure(rank, error, task=name, site=site, submission=submission))

    def stop(self) -> bool:
        """Stop and join all threads. Application thread, after `wait_shutdown`, a failure, or when giving up.

        Returns:
            Whether all threads have ended. User code may never return: then its thread is left.
        """
        self._stop_requested.set()
        self._native.stop()
        self._ignore_processes()
        is_finished = self._has_shut_down.is_set() and self.failure is None
        deadline = time.monotonic() + _JOIN_UNFINISHED_S
        for thread in list(self._threads):
            while thread.is_alive() and thread is not threading.current_thread():
                if not is_finished and time.monotonic() > deadline:
                    break
                thread.join(0.1)
        if self.failure is None:
            uncaught_exceptions.detach(self._failures)
        self._failures.stop()
        if self._keeps_interval_short:  # an interrupt may have ended an earlier call
            self._keeps_interval_short = False
            restore_switch_interval()
        return not any(thread.is_alive() for thread in self._threads)

    def release(self) -> None:
        """Give the memory, streams and graphs of the devices back. After `stop`, if all threads have ended.

        Arrays of the program may lie in this memory. The frames of a failure let go of theirs. If the failure is that
        a task keeps an array, all memory stays. Operations may run on a GPU for longer than this waits: then
        everything stays until nothing refers to the executor.
        """
        error = None if self.failure is None else self.failure.error
        if error is not None and not _let_go(error):
            _kept.append(self._native)
            return
        deadline = time.monotonic() + _JOIN_UNFINISHED_S
        while not self._native.release_devices() and time.monotonic() < deadline:
            time.sleep(_FAILED_POLL_S)

    def leave_failed(self, *, unseen: bool = False) -> None:
        """Leave a failed run for good, at exit: with several ranks, wait for the abort; with one, stop the threads.

        Args:
            unseen: No call and no future has raised the failure, so that it must be printed, and the exit status set.
        """
        failure = self.failure
        assert failure is not None
        if self._communicator.size > 1:
            self._failures.wait_for_abort()
        self.stop()
        if unseen:
            lines = [f"celerity_py: {failure.message()}\n"]
            if failure.error is not None:
                attempt(lambda error: lines.extend(format_user_frames(error)), failure.error)
            print_whole("".join(lines))
            self._communicator.abort(failure.exit_status)

    # ---- executor thread

    def _execute(self) -> None:
        try:
            self._delegate.enter_thread()
            self._loop()
        except BaseException as error:  # noqa: BLE001 - the run cannot go on, and all ranks must know
            self.fail(error)
        while not self._stop_requested.wait(_FAILED_POLL_S if self._communicator.size > 1 else None):
            # MPI itself may have failed, so each step is attempted by itself.
            with contextlib.suppress(Exception):
                self._empty_outbox()
            with contextlib.suppress(Exception):
                self._communicator.poll()

    def _loop(self) -> None:
        native, communicator, watchdog = self._native, self._communicator, self._watchdog
        next_look_s = time.monotonic()
        while not self._stop_requested.is_set() and self.failure is None:
            items = native.run(_LOOK_INTERVAL_S)
            if self._outbox:
                self._empty_outbox()
            for item in items:
                self._actions[item.kind](item)
            arrivals = communicator.poll()
            for notice in arrivals.notices:
                watchdog.note_sign_of_life(notice.source_rank)
                self._take_notice(notice)
            for number in arrivals.settled:  # after the notices: the end of the run looks at the last claims
                self._note_settled(number)

            now_s = time.monotonic()
            if self._is_leaving:
                self._look_for_leftovers(now_s)
            if now_s >= next_look_s:
                next_look_s = now_s + _LOOK_INTERVAL_S
                watchdog.note_progress(now_s - native.still_s)
                self._look_after_the_run(now_s)

    def _look_after_the_run(self, now_s: float) -> None:
        """End the run if a peer is lost, if no rank moves, or if the ranks run different programs."""
        failure = self._watchdog.check(now_s)
        if failure is None and self._comparison is not None:
            failure = self._comparison.check(now_s, is_leaving=self._is_leaving)
        if failure is not None:
            self._failures.report(failure)
        # At the end, notices would arrive in the next run.
        if self._reporter is not None and not self._is_leaving:
            self._reporter.note(self._watchdog.look())
            if now_s >= self._next_report_s:
                self._next_report_s = now_s + _LIVE_INTERVAL_S
                self._tell_of_activity(self._reporter, now_s)

    def _tell_of_activity(self, reporter: LiveReporter, now_s: float) -> None:
        report = reporter.report(now_s)
        if not report:
            return
        if self._communicator.rank == 0:
            reporter.take(report, now_s)
        else:
            self._communicator.send_notice(0, NOTICE_LIVE, report)

    def _note_settled(self, number: int) -> None:
        if number == _ALL_HAS_ARRIVED:
            # Pilots and claims of the same poll have been handed over before. Who finds something keeps all ranks here.
            if self._comparison is not None and self._comparison.has_diverged:
                return
            if find_leftovers(self._native, self._communicator, self._delegate) is None:
                self._settle(_ALL_HAVE_LOOKED)
        elif number == _ALL_HAVE_LOOKED:
            self._has_shut_down.set()

    def _look_for_leftovers(self, now_s: float) -> None:
        """Fail for messages that no receive has claimed, unless it turns out that the sender runs another program."""
        leftovers = find_leftovers(self._native, self._communicator, self._delegate)
        if leftovers is None:
            self._leftovers_since_s = None
        elif self._leftovers_since_s is None:
            self._leftovers_since_s = now_s
        elif now_s - self._leftovers_since_s >= self._times.compare_s:
            self.fail(leftovers)

    def _settle(self, number: int) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._watchdog.note_leaving(time.monotonic())
            if self._comparison is not None:  # a rank that goes on hears that this one has come to its end
                self._tell_everyone(NOTICE_CLAIM, self._comparison.claim())
                self._empty_outbox()
        self._communicator.settle(number)
        self._native.wake()  # a single rank has settled at the next poll

    def _take_notice(self, notice: Notice) -> None:
        """Act on a control message. If it carries a claim, compare the sender's program with this one first."""
        kind, source_rank, content = notice
        comparison, watchdog = self._comparison, self._watchdog
        if comparison is not None and kind in {NOTICE_CLAIM, NOTICE_QUERY, NOTICE_STATUS}:
            content = comparison.take_claim(source_rank, content)
        if kind == NOTICE_FAILURE:
            self._failures.report(decode_failure(content))
        elif kind == NOTICE_QUERY:
            claim = b"" if comparison is None else comparison.claim()
            answer = claim + watchdog.describe_self(time.monotonic())
            self._communicator.send_notice(source_rank, NOTICE_STATUS, answer)
        elif kind == NOTICE_LIVE and self._reporter is not None:
            self._reporter.take(content, time.monotonic())
        elif kind == NOTICE_STATUS:
            watchdog.take_status(content, time.monotonic())
        elif comparison is not None and kind == NOTICE_DIGESTS:
            comparison.take_digests(source_rank, content)
        elif comparison is not None and kind == NOTICE_ENTRY:
            self._failures.report(comparison.take_entry(source_rank, content))

    def _tell_everyone(self, kind: int, content: bytes) -> None:
        self._outbox.extend(
            Notice(kind, rank, content) for rank in range(self._communicator.size) if rank != self._communicator.rank
        )
        self._native.wake()

    def _empty_outbox(self) -> None:
        while self._outbox:
            notice = self._outbox.popleft()
            self._communicator.send_notice(notice.source_rank, notice.kind, notice.content)

    def _ignore_processes(self) -> None:
        """From now on the processes of other ranks end as they should."""
        if self._neighbour is not None:
            self._neighbour.stop()

    def _enter_failed_state(self, failure: Failure) -> None:
        attempt(self._ignore_processes)
        attempt(self._native.fail)
        if not failure.is_remote:
            attempt(lambda: self._tell_everyone(NOTICE_FAILURE, failure.encode()))
        attempt(self._delegate.failed, failure)
        self._has_shut_down.set()
        attempt(self._native.wake)

    # ---- threads for user code

    def _launch_kernels(self, device: int) -> None:
        self._delegate.enter_thread()
        while (call := self._next_kernel(device)) is not None:
            try:
                self._delegate.run_kernel(device, call)
                self._check_process(None)
                self._native.kernel_returned(call.ticket)
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                self._check_process(error)
                self._fail_kernel(error, call.submission)

    def _check_process(self, error: BaseException | None) -> None:
        """Behind a user function: a child that it has forked ends here."""
        if os.getpid() != self._process:
            end_child(error)

    def _fail_kernel(self, error: BaseException, submission: int) -> None:
        failed: tuple[BaseException, int | None] = error, submission
        if is_lost_device(error):
            with contextlib.suppress(Exception):
                in_flight = self._kernels_in_flight(submission)
                failed = explain_device(str(error), in_flight, submission, self._delegate)
        self.fail(*failed)

    def _kernels_in_flight(self, newest: int) -> list[int]:
        """Submissions of the kernels that a device has not finished, in their order."""
        active = self._native.active_instructions()
        return sorted({entry.submission for entry in active if entry.kind == "device_kernel"} | {newest})

    def _next_kernel(self, device: int) -> KernelCall | None:
        try:
            return self._native.next_kernel(device)
        except RuntimeError as error:  # the device has failed
            self.fail(DeviceError(str(error)))
            return None

    def _run_host_tasks(self) -> None:
        self._delegate.enter_thread()
        while (call := self._native.next_host_task()) is not None:
            with self._pool_lock:
                self._num_idle_host_threads -= 1
                is_last = self._num_idle_host_threads == 0 and self._num_host_threads < _MOST_HOST_TASK_THREADS
            if is_last and not self._stop_requested.is_set():
                with contextlib.suppress(RuntimeError, MemoryError):  # an existing thread takes it later
                    self._add_host_thread()
            try:
                self._delegate.run_host_task(call)
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                self._check_process(error)
                self.fail(error, call.submission if call.kind == "host_task" else None)
            else:
                self._check_process(None)
                self._native.host_task_done(call.ticket)
            with self._pool_lock:
                self._num_idle_host_threads += 1

    def _add_host_thread(self) -> None:
        with self._pool_lock:
            name = f"celerity-host-{self._num_host_threads}"
            thread = threading.Thread(target=self._run_host_tasks, name=name, daemon=True)
            thread.start()  # may fail, and changes nothing then
            self._num_host_threads += 1
            self._num_idle_host_threads += 1
            self._threads.append(thread)


def _let_go(error: BaseException) -> bool:
    """Clear the frames of an exception. False if arrays of the program are known to outlive them."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, KeptArray):
            return False
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return True


def no_thread(error: BaseException) -> ResourceError:
    """The error of a runtime that cannot have the threads that it needs."""
    return ResourceError(
        f"The runtime cannot start its threads ({describe_error(error)}). Raise the limits of processes (ulimit -u), "
        f"of memory (ulimit -v), and of the container (pids.max), or use fewer devices (CELERITY_DEVICES)."
    )
