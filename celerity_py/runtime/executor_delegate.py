# SPDX-License-Identifier: MIT
"""The answers of the runtime to the executor's threads: calls of user functions, reports, and names for messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from celerity_py import _native
from celerity_py._native import CombineCall, InitializeCall, box_from_flat
from celerity_py.calls.binder import HOST_BINDER, initialize
from celerity_py.executor.failures.user_frames import is_ours, name_of_file
from celerity_py.reductions.host_combination import combine_partials
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.runtime.collective_groups import CollectivePart, CollectiveSubmission
from celerity_py.scheduler.errors import OutOfBoundsAccess
from celerity_py.vocabulary.accesses import Port
from celerity_py.vocabulary.notation import printable, show, widen_mapper
from celerity_py.vocabulary.parts import Part
from celerity_py.vocabulary.submissions import line_of

if TYPE_CHECKING:
    from celerity_py._native import HostTaskCall, KernelCall
    from celerity_py.calls.binder import Binder
    from celerity_py.calls.call_checks import CallChecks
    from celerity_py.executor.failures.failure import Failure
    from celerity_py.graphs.recorder import GraphRecorder
    from celerity_py.reductions.empty_reductions import EmptyReductions
    from celerity_py.runtime.run_state import RunState
    from celerity_py.runtime.submissions_in_flight import Completion
    from celerity_py.runtime.user_memory import UserMemory
    from celerity_py.vocabulary.submissions import Submission

#: Lets the line of a process that a signal ends name the task.
note_call: Final = _native.call_noter()


class RuntimeDelegate:
    """Implements `ExecutorDelegate`, which tells on which thread each method is called."""

    def __init__(
        self,
        completion: Completion,
        state: RunState,
        user_memory: UserMemory,
        *,
        binders: Sequence[Binder],
        checks: CallChecks | None,
        empty_reductions: EmptyReductions,
        labels: Mapping[int, tuple[str, int]],
        rank: int,
        size: int,
        lets_others_pass: Callable[[int], object] | None,
        failed: Callable[[Failure], None],
        graphs: GraphRecorder | None,
    ) -> None:
        """Take the parts of the run that answer.

        Args:
            completion: The table of submissions.
            state: The state of the run.
            user_memory: The arrays of the program that buffers use.
            binders: The objects that call Python kernels, by device.
            checks: The checks of each call; None without CHECK.
            empty_reductions: The search for reductions over nothing.
            labels: The label and number of dimensions of each buffer whose handle lives, by id.
            rank: The rank of this process.
            size: The number of ranks.
            lets_others_pass: A function that takes the ticket of a host task which waits for other ranks; None if
                such a task holds nothing up.
            failed: A function that lets the runtime enter the state *failed*; any thread may call it.
            graphs: Tells stories of tasks; None without PRINT_GRAPHS.
        """
        self._completion = completion
        self._submissions = completion.submissions
        self._user_memory = user_memory
        self._binders = binders
        self._checks = checks
        self._empty_reductions = empty_reductions
        self._labels = labels
        self._rank = rank
        self._size = size
        self._lets_others_pass = lets_others_pass
        self._graphs = graphs
        #: Refuses later calls of the runtime by the calling thread, which may run user code from now on.
        self.enter_thread = state.enter_thread
        #: Lets the runtime enter the state *failed*.
        self.failed = failed

    def run_kernel(self, device: int, call: KernelCall) -> None:
        """Run a device kernel on a launcher thread."""
        submission = self._submissions[call.submission]
        note_call(submission)
        try:
            self._binders[device].run_kernel(submission, device, call, self._checks)
        finally:
            note_call(None)
        if call.reductions:
            self._empty_reductions.look_at(submission, call.chunk)

    def run_host_task(self, call: HostTaskCall | InitializeCall | CombineCall) -> None:
        """Run a part of a host task, compute initial contents, or combine partial results, on a host-task thread."""
        if isinstance(call, InitializeCall):
            record = self._completion.kept[call.buffer]
            initialize(record, call.address, call.allocated_box, call.boxes)
            return
        if isinstance(call, CombineCall):
            record = self._completion.kept[call.buffer]
            if combine_partials(record, call, self._empty_reductions.find):
                self._empty_reductions.report(call.reduction)
            return
        submission = self._submissions[call.submission]
        whole: Any = submission.box
        box = box_from_flat(call.chunk, len(whole.min))
        if isinstance(submission, CollectiveSubmission):
            if self._size > 1:  # on all ranks, whether or not this function asks for it
                # Another rank may have to carry out something else first: a task of another group, or what it sends.
                if self._lets_others_pass is not None:
                    self._lets_others_pass(call.ticket)
                submission.group.connect()
            part: Part = CollectivePart(box, whole, self._rank, self._size, submission.group)
        else:
            part = Part(box, whole, self._rank, self._size)
        note_call(submission)
        try:
            HOST_BINDER.call(submission, part, call.accesses, checks=self._checks)
        finally:
            note_call(None)

    def submission_completed(self, submission_id: int) -> None:
        """Fulfil the future of a fence or epoch, on the executor thread."""
        self._completion.complete(submission_id)

    def submissions_retired(self, last_submission: int) -> None:
        """Drop callables and arguments in a batch."""
        self._completion.retire(last_submission)

    def user_memory_freed(self, raw: int) -> None:
        """Let go of an array that no buffer needs any more."""
        self._user_memory.let_go(raw)

    def reduction_is_empty(self, number: int) -> None:
        """Warn of a reduction for which no chunk has combined a value; any thread."""
        self._empty_reductions.report(number)

    def describe_submission(self, submission_id: int) -> tuple[str, str] | None:
        """The name of a submission in messages, and its "file:line", if it is still known."""
        submission = self._submissions.get(submission_id)
        return None if submission is None else (submission.subject, submission.site)

    def tell_story(self, submission_id: int, most: int) -> list[str]:
        """Up to `most` lines of the story of a submission, if the run keeps graphs."""
        return [] if self._graphs is None else self._graphs.graphs().tell_of_submission(submission_id, most)

    def explain_violation(
        self,
        submission_id: int,
        access: int,
        index: tuple[int, ...],
        declared: Sequence[tuple[int, int, int, int, int, int]],
    ) -> BaseException:
        """See `explain_violation`."""
        return explain_violation(self._submissions[submission_id], access, index, declared)

    def describe_buffer(self, buffer: int, box: tuple[int, ...] | None = None) -> str:
        """How messages call a buffer, or a box of it: with its name, as long as its handle lives."""
        label, ndim = self._labels.get(buffer, (f"B{buffer}", 3))
        return label if box is None else f"{label} {show(_native.Box(box[:ndim], box[3 : 3 + ndim]))}"

    def describe_site(self, number: int) -> str:
        """Return the "file:line" of a line that the submitter has numbered; empty if it is not one of the program.

        If several threads have submitted, the thread follows. So do the repetitions of a replay.
        """
        site = self._completion.submitter.find_site(number)
        if site is None or is_ours(site[0].co_filename):  # the end of a program that leaves it to the interpreter
            return ""
        code, lasti, thread, times = site
        threads = self._completion.submitter.threads
        by = f" by thread {threads[thread]!r}" if len(threads) > 1 else ""
        replay = f", {times} repetition(s) of a recording" if times else ""
        return f"{printable(name_of_file(code.co_filename))}:{line_of(code, lasti)}{by}{replay}"


def explain_violation(
    submission: Submission,
    access: int,
    index: tuple[int, ...],
    declared: Sequence[tuple[int, int, int, int, int, int]],
) -> BaseException:
    """The error of a kernel that would have left the region of an access, or a buffer into which it reduces.

    Args:
        submission: The kernel.
        access: The number of the access, from 0. The reductions follow behind all accesses.
        index: The coordinates of the element in the buffer.
        declared: The boxes of the access; a reduction has none.
    """
    ports = [arg for arg in submission.args if arg.__class__ is Port]
    if access >= len(ports):
        reductions = [arg for arg in submission.args if isinstance(arg, ReductionPort)]
        target = reductions[access - len(ports)].record
        return OutOfBoundsAccess(
            f"{submission.describe()} combines a value into {target.label} at {show(index[: len(target.shape)])}, "
            f"outside of the buffer {show(target.box)}. Test the index in the kernel, or make the buffer larger."
        )
    record = ports[access].record
    ndim = len(record.shape)
    region = _native.Region([_native.box_from_flat(flat, ndim) for flat in declared])
    where = index[:ndim]
    accessed = region.bounding_box if region else _native.Box((0,) * ndim, (0,) * ndim)
    remedy = widen_mapper(where, where, accessed, "use the coordinates of chunk.item()")
    return OutOfBoundsAccess(
        f"{submission.describe()} accesses {record.label} at {show(where)}, outside of its declared "
        f"region {show(region)}. {remedy}, or test the index in the kernel "
        f"(the whole buffer is {show(record.box)})."
    )
