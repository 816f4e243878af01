# SPDX-License-Identifier: MIT
"""The runtime: all parts of a run, and the calls of queues and buffers that use them."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from celerity_py import _native
from celerity_py.calls.call_checks import CallChecks
from celerity_py.comparison.agreement import agree_on_settings
from celerity_py.comparison.program_digests import Origins
from celerity_py.comparison.pure_tables import PureTables
from celerity_py.configuration import thaw
from celerity_py.executor.failures.failure import attempt
from celerity_py.executor.network.direct_peers import DirectPeers, agree_on_direct_peers
from celerity_py.graphs.recorder import start_graphs
from celerity_py.hints import Division
from celerity_py.reductions.cuda_reductions import ReduceKernels
from celerity_py.reductions.empty_reductions import EmptyReductions
from celerity_py.runtime.collective_groups import CollectiveGroups
from celerity_py.runtime.devices import choose_devices
from celerity_py.runtime.draining import drain_lanes
from celerity_py.runtime.executor_delegate import RuntimeDelegate
from celerity_py.runtime.forks import Fork, keep_for_ever
from celerity_py.runtime.futures import Future, Notifiers
from celerity_py.runtime.live_view import LiveView
from celerity_py.runtime.native_objects import (
    Watchers,
    binders_of,
    least_direct_bytes,
    make_executor,
    make_live_executor,
    make_scheduler,
    make_submitter,
)
from celerity_py.runtime.outputs import check_outputs, path_of_rank, write_graphs, write_output, write_timeline
from celerity_py.runtime.planning_notices import Notices
from celerity_py.runtime.profiling import ProfiledDelegate, note_submissions, start_ranges
from celerity_py.runtime.run_state import Phase, RunState
from celerity_py.runtime.run_summary import describe_for_trace, log_choices
from celerity_py.runtime.shares import Shares
from celerity_py.runtime.spinning import spin_times, warn_of_bound_ranks
from celerity_py.runtime.statistics import RuntimeStatistics, collect_statistics, write_statistics
from celerity_py.runtime.submissions_in_flight import Completion
from celerity_py.runtime.user_memory import UserArray, UserMemory, describe_buffer
from celerity_py.scheduler.errors import CelerityError, ClosedQueue
from celerity_py.timeline.recorder import start_trace
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.configuration import Configuration
    from celerity_py.executor.failures.failure import Failure
    from celerity_py.executor.live_executor import LiveExecutor
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.vocabulary.buffer_records import BufferRecord


#: Seconds for pictures after a failure; the job ends soon.
_FAILED_DRAWING_S = 1.5


class Runtime:
    """Everything of one run: scheduler, executor, and the table of submissions.

    Any thread may submit; with several ranks, one at a time. The executor's threads call the runtime through
    `RuntimeDelegate`. A thread of the program may be interrupted anywhere: a step that must not be half done is one
    call of native code, and the program's threads hold no lock for which a thread of the executor waits.
    """

    def __init__(self, settings: Configuration, communicator: Communicator, forget: Callable[[], None]) -> None:
        """Start the threads. Collective.

        Args:
            settings: Validated configuration.
            communicator: Connects the ranks; owned by the caller.
            forget: Called at the end, when another runtime may start.
        """
        self.configuration = settings
        self.communicator = communicator
        self.rank = settings.dry_run_rank or communicator.rank
        self.size = settings.dry_run_ranks or communicator.size
        agree_on_settings(settings, communicator)
        check_outputs(settings, self.rank, self.size)
        self.devices = choose_devices(settings, communicator)
        self.num_devices = self.devices.count
        self.binders = binders_of(self.devices)
        self.spin = spin_times(settings.poll, communicator.local_size, self.devices)
        warn_of_bound_ranks(communicator)
        self.is_dry = settings.dry_run_ranks > 0
        # There is no submitter yet.
        self.state = RunState(lambda: self.submitter.refuse(), is_alone=communicator.size == 1)  # noqa: PLW0108
        self.check_usable, self.check_readable = self.state.check, self.state.check_reading
        self.inside = self.state.inside
        #: By id, until they are retired.
        self.submissions: dict[int, Submission] = {}
        #: Results of `access.pure` mappers, kept between submits.
        self.pure_tables = PureTables()
        self.warned_mappers: set[Any] = set()  # (code of a mapper, line that submits) that a warning has named
        self.num_queues = 0
        self.of_io: dict[type, Any] = {}  # what `celerity_py.io` knows of files and signals, by its class
        #: Called before the threads stop.
        self.at_stop: list[Callable[[], None]] = []
        self._host_objects = itertools.count(1)
        #: Of collective host tasks.
        self.groups = CollectiveGroups(self.size, communicator, self._host_objects)
        #: Records events for the timeline; None without TRACE.
        self.tracer = start_trace(communicator, wanted=bool(settings.trace))
        #: Names the work for a profiler; None without NVTX.
        self.ranges = start_ranges(settings.nvtx, os.environ)
        #: Keeps the graphs; None without PRINT_GRAPHS.
        self.graphs = start_graphs(settings, communicator, self.tracer, lambda: self.state.failure is not None)
        #: Label and number of dimensions of buffers whose handles live, by id.
        self.labels: dict[int, tuple[str, int]] = {}
        self._forget_me = forget
        self._end_lock = threading.Lock()  # several threads may give a failed run up
        #: The digests that the ranks compare; None with a single rank.
        self.program = _native.ProgramLog(self.size) if communicator.size > 1 and not self.is_dry else None
        #: Call the callbacks of futures.
        self.notifiers = Notifiers(self.state.enter_thread)
        #: A program on one device is checked as if there were two: kernels run in two chunks at least.
        self.undivided = Division().in_parts(2 if settings.check and self.size * self.num_devices == 1 else 1)
        self.empty_reductions = EmptyReductions()
        #: Looks at each call of a kernel or host task; None without CHECK.
        self.call_checks = CallChecks() if settings.check else None
        self.executor: _native.Executor | None = None  # none in a dry run
        self.live: LiveExecutor | None = None
        self.live_view: LiveView | None = None
        self._make_natives()
        if self.executor is not None:
            self.live = self.notices.live = self._make_live_executor(self.executor)
        try:
            self._start_threads()
        except BaseException:
            self._stop_threads()
            raise

    # ---- start and end

    def _make_natives(self) -> None:
        settings, communicator = self.configuration, self.communicator
        watchers = Watchers(self.recorder, self.ranges, self.program, self.graphs)
        #: Combine partial results on GPUs; None on CPU devices.
        self.reduce_kernels = ReduceKernels() if self.devices.is_cuda else None
        #: The ranks that exchange data with this one from device memory to device memory.
        self.direct_peers = DirectPeers([False] * self.size, why_not={})
        if not self.is_dry:
            self.executor = make_executor(
                *(settings, communicator, self.devices, watchers),
                reduce_kernels=self.reduce_kernels,
                may_be_direct=self.may_be_direct,
                idle_spin_s=self.spin.idle_s,
            )
            self.direct_peers = agree_on_direct_peers(
                self.executor,
                communicator,
                wanted=self.may_be_direct,
                required=settings.transport == "direct" and not settings.sync,
            )
        log_choices(settings, communicator, self.devices, self.direct_peers.with_rank)
        if self.tracer is not None:
            self.tracer.note_run(describe_for_trace(settings, communicator, self.devices))
        self.user_memory = UserMemory(self.executor)
        self.scheduler = make_scheduler(
            *(settings, communicator, self.devices, watchers, self.executor),
            direct_ranks=self.direct_peers.with_rank,
            idle_spin_s=self.spin.idle_s,
        )
        self.origins = Origins(is_compared=self.program is not None, checks=self.call_checks)
        self.submitter = make_submitter(
            *(self.scheduler, self.executor, self.submissions),
            size=self.size,
            observer=note_submissions(self.ranges, self.tracer, self.graphs),
        )
        self.submit_kernel = self.submitter.submit_kernel
        self.submit_host_task = self.submitter.submit_host_task
        #: Of the multiprocessors, by the queues that ask for them.
        self.shares = Shares()
        self.notices = Notices(self.scheduler, self.state, self.submissions, checks=settings.check)
        self.completion = Completion(
            self.submissions,
            scheduler=self.scheduler,
            submitter=self.submitter,
            executor=self.executor,
            state=self.state,
            notices=self.notices,
            user_memory=self.user_memory,
        )

    def _make_live_executor(self, executor: _native.Executor) -> LiveExecutor:
        settings = self.configuration
        if settings.live:
            self.live_view = LiveView(self.rank, executor, self.scheduler, self.completion, self.at_stop)
        kind = RuntimeDelegate if self.ranges is None else partial(ProfiledDelegate, self.ranges)
        delegate = kind(
            self.completion,
            self.state,
            self.user_memory,
            binders=self.binders,
            checks=self.call_checks,
            empty_reductions=self.empty_reductions,
            labels=self.labels,
            rank=self.rank,
            size=self.size,
            lets_others_pass=executor.host_task_waits if settings.sync else None,
            failed=self.failed,
            graphs=self.graphs,
        )
        return make_live_executor(
            *(settings, self.communicator, executor, delegate),
            num_devices=self.num_devices,
            direct=any(self.direct_peers.with_rank) and least_direct_bytes(settings, self.devices) == 0,
            program=self.program,
            reporter=self.live_view,
        )

    @property
    def may_be_direct(self) -> bool:
        """Whether this rank offers its memory to the other ranks of its host."""
        settings = self.configuration
        return settings.transport in {"auto", "direct"} and not settings.sync and self.communicator.local_size > 1

    @property
    def recorder(self) -> _native.TraceRecorder | None:
        """The ring of events of the timeline, if there is one."""
        return None if self.tracer is None else self.tracer.recorder

    def _start_threads(self) -> None:
        if self.live is not None:
            self.live.start()
        try:
            self.scheduler.start()
        except RuntimeError as error:
            from celerity_py.executor.live_executor import no_thread

            raise no_thread(error) from error

    def end(self, frame: FrameType) -> None:
        """Wait for everything, then stop all threads. Collective.

        Raises:
            CelerityError: If the runtime has failed.
        """
        if self.state.phase is Phase.ENDED:
            return
        self.check_usable("closing the last queue")
        self._stop_calls()
        self._submit_epoch("shutdown", "shutdown", frame)
        if self.live is not None:
            while not self.live.wait_shutdown(0.1):
                pass
            self.check_usable("closing the last queue")
        self.notices.report()
        self.completion.last_retired = self.next_id - 1
        statistics = self.statistics()
        self._stop_threads()
        if self.live is not None:
            self.live.release()
        self._forget()
        self.communicator.close()
        if self.configuration.stats:
            path = path_of_rank(self.configuration.stats, self.rank, self.size)
            write_output("STATS", path, lambda path: write_statistics(path, statistics))
        if self.tracer is not None:
            self.tracer.note_run({"statistics": statistics.as_plain()})
        self._write_records()

    def abandon(self) -> None:
        """Stop without finishing the submitted work. For a single rank, also after a failure, or at exit."""
        with self._end_lock:
            if self.state.has_ended:
                return
            if self.executor is not None:
                self.executor.fail()
            self.scheduler.release()
            self._stop_calls()
            if self._stop_threads():
                self.communicator.close()
                if self.live is not None:
                    self.live.release()
            reason = ClosedQueue("The runtime was stopped because an exception left its last queue.")
            self.completion.poison(reason if self.state.failure is None else self.state.error())
            self._forget()
        self._write_records()

    def leave(self) -> None:
        """At interpreter exit: the clean end if nothing went wrong, and none that could block otherwise."""
        if self.state.has_ended:
            return
        if self.state.failure is not None:
            self._write_records()
            if self.live is not None:
                self.live.leave_failed(unseen=not self.state.was_failure_seen)
        elif self.size == 1 and not self.is_dry and hasattr(sys, "last_value"):  # an uncaught exception
            self.abandon()
        else:
            try:
                self.end(sys._getframe())
            except CelerityError:
                if self.state.failure is None or self.live is None:
                    raise
                self.live.leave_failed(unseen=True)  # there is no program left to catch it

    def disown(self, fork: Fork) -> None:
        """In a forked child: refuse all calls, and never touch threads or locks that only the parent has."""
        self.state.disown(fork)
        keep_for_ever(self.scheduler, self.executor, self.submitter, self.recorder)
        self.tracer = self.graphs = None
        self.completion.poison(fork.error("Future.result()"))

    def _forget(self) -> None:
        self.state.end()
        self.completion.clear()
        self.pure_tables.clear()
        self.user_memory.clear()
        _native.release_temporary_memory()
        self._forget_me()

    def _write_records(self) -> None:
        self._write_graphs()
        tracer, self.tracer = self.tracer, None
        if tracer is None:
            return
        lanes = self.executor.lanes() if self.executor is not None else ()
        write_timeline(self.configuration.trace, tracer, lanes)

    def _write_graphs(self, limit_s: float = 120.0) -> None:
        if self.graphs is not None:
            write_graphs(self.graphs, self.configuration.print_graphs, limit_s)

    def _stop_calls(self) -> None:
        """Refuse the calls of other threads, and wait until those under way have returned or raised."""
        self.state.begin_end()
        while self.submitter.num_calls_of_others > 0:
            time.sleep(0.001)

    def _stop_threads(self) -> bool:
        """Whether all threads that run user code have ended."""
        for stop in list(self.at_stop):
            attempt(stop)
        self.scheduler.stop()
        have_ended = self.live is None or self.live.stop()
        self.notifiers.stop()
        return have_ended

    def prepare_queue(self, priority: int, share: float | None) -> None:
        """Let planner and executor know that there is a queue of this priority, and make streams for its kernels.

        Raises:
            UsageError: If a GPU has no such share of multiprocessors, or an earlier queue has another one.
            ResourceError: If the driver of the GPUs refuses.
        """
        with self.shares.lock:
            self.shares.prepare(priority, share, self.rank, self.executor, self.devices, submitter=self.submitter)
            self.scheduler.announce(priority)

    # ---- submitting

    def new_future(self, kind: type[Future[Any]] = Future) -> Future[Any]:
        """A pending future whose exceptions count as seen by the user."""
        future = kind(self.state, self.notices.report, self.completion.watch, self.spin.wait_s, self.notifiers)
        if self.tracer is not None:
            future.note_wait = self.tracer.note_wait
        return future

    @property
    def next_id(self) -> int:
        """The id that the next submission is going to have."""
        return self.scheduler.next_submission()

    def _submit_epoch(self, action: str, name: str, frame: FrameType) -> Future[Any]:
        future = self.new_future()
        submission = Submission("epoch", name, None, [], None, frame, future)
        self.submitter.submit_epoch(submission, action)
        self.poison_late(future)
        if self.is_dry:
            self.scheduler.wait_until_planned()
            future.fulfil(None)
        return future

    def poison_late(self, future: Future[Any]) -> None:
        """Poison a future that was made when the run had failed."""
        if self.state.failure is not None:  # the thread that poisons all futures may have missed this one
            future.poison(self.state.error())

    def wait(self, action: str, frame: FrameType) -> None:
        """Wait for everything that was submitted, and for the other ranks if `action` is "barrier"."""
        future = self._submit_epoch(action, "barrier" if action == "barrier" else "wait", frame)
        future.is_private = True
        future.await_end()
        self.completion.retire(future.number)  # sooner than the executor thread does it
        self.check_readable("wait()")
        self.user_memory.return_borrowed()

    def drain(self) -> None:
        """Wait until no stream of this rank waits for another rank, or is going to. Each rank by itself."""
        if self.executor is not None and any(self.direct_peers.with_rank):
            drain_lanes(self.scheduler, self.executor, lambda: self.check_usable("loading a kernel"))

    def refuse_in_recording(self, call: str) -> None:
        """Refuse a call in a function that is being recorded, as no replay could carry it out again.

        Raises:
            UsageError: If this thread runs such a function.
        """
        opened = self.submitter.open_recording
        if opened is not None and opened.thread == threading.get_ident():
            opened.refuse(call)

    # ---- buffers

    def create_buffer(
        self, record: BufferRecord, parts: Sequence[tuple[Box, UserArray]], held_by_ranks: Sequence[Sequence[Box]]
    ) -> None:
        """Announce a buffer to the graphs; sets the record's id and runtime.

        Args:
            record: The buffer.
            parts: Boxes of initial contents of this rank, and the arrays with them.
            held_by_ranks: The boxes of each rank, if the arrays differ; empty if every rank has the whole contents.
        """
        self.check_usable(f"making a buffer of shape {record.shape}")
        self.refuse_in_recording(f"Making a buffer of shape {record.shape}")
        self.submitter.take_turn(f"A buffer of shape {record.shape}")
        record.runtime = self
        info = describe_buffer(record, parts, held_by_ranks, self.user_memory)
        whole = None if held_by_ranks or not parts else parts[0][1].array
        info.contents_digest = self.origins.of_contents(whole, record.initializer)
        if self.program is not None:
            info.site = self.submitter.number_site(record.site.code, record.site.lasti)
        record.id = self.scheduler.create_buffer(info)
        self.labels[record.id] = (record.label, len(record.shape))
        if self.tracer is not None:
            self.tracer.note_buffer(record.id, record.name)
        if record.initializer is not None:
            self.keep_record(record)

    @property
    def checks_values(self) -> bool:
        """Whether the values of arrays are checked that go into buffers, and not only their dtypes."""
        return self.call_checks is not None

    def keep_record(self, record: BufferRecord) -> None:
        """Keep the record of a buffer of which the executor calls functions; any thread."""
        self.completion.kept[record.id] = record

    def destroy_buffer(self, record: BufferRecord) -> None:
        """Free a buffer after its last use; called when the user's handle dies, on any thread."""
        if self.state.has_ended:
            return
        try:
            if record.id in self.completion.kept:
                self.completion.note_death(record.id)
            self.scheduler.destroy_buffer(record.id, record.num_bytes)
            self.labels.pop(record.id, None)
        except Exception:  # noqa: BLE001, S110 - an interpreter that goes down has taken contextlib away
            pass

    # ---- host objects

    def number_host_object(self) -> int:
        """The number of the next host object, from 1; the graphs order the tasks of each number."""
        self.check_usable("celerity.HostObject()")
        self.refuse_in_recording("celerity.HostObject()")
        return next(self._host_objects)

    # ---- failure

    def failed(self, failure: Failure) -> None:
        """Refuse later calls, and poison futures. Called once, from any thread."""
        if not self.state.fail(failure):
            return
        if self.state.allows_another:
            thaw()
        attempt(self.scheduler.release)
        attempt(self.completion.poison, self.state.error())
        attempt(self.notices.report)  # they may name the cause
        if self.size > 1 and not self.is_dry:
            attempt(self._write_graphs, _FAILED_DRAWING_S)  # nothing of this process stays after the abort of the job

    # ---- numbers

    def statistics(self) -> RuntimeStatistics:
        """Counters of this rank so far."""
        parts = (self.rank, self.size, self.devices, self.scheduler, self.submitter)
        return collect_statistics(*parts, executor=self.executor, is_dry=self.is_dry)
