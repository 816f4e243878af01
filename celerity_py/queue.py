# SPDX-License-Identifier: MIT
"""Where a program submits its work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from types import FrameType, TracebackType
from typing import Any, NoReturn, SupportsIndex, TypeAlias

from celerity_py import _native
from celerity_py import hints as hint_resolution
from celerity_py._native import Box
from celerity_py.buffer import Buffer, check_alive
from celerity_py.cuda.launches import prepare_launch
from celerity_py.hints import Division, Hint
from celerity_py.kernels import CudaKernel, Kernel, name_of
from celerity_py.reductions import Reduction
from celerity_py.runtime import lifecycle
from celerity_py.runtime.futures import RuntimeFuture
from celerity_py.runtime.statistics import RuntimeStatistics
from celerity_py.runtime.submit_memos import remember
from celerity_py.scheduler.errors import (
    ArgumentTypeError,
    ClosedQueue,
    DimensionMismatch,
    NotAvailableYet,
    OutOfBoundsAccess,
    OutOfMemory,
    UsageError,
)
from celerity_py.submit.arguments import (
    arities,
    check_kernel,
    check_launch,
    check_name,
    collect,
)
from celerity_py.submit.custom_mappers import box_from_slices, resolve_custom
from celerity_py.submit.plain_values import accepted, settle
from celerity_py.submit.violations import translate
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.index_spaces import box_of, boxes, granularity_of
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.submissions import Submission

Range: TypeAlias = "SupportsIndex | Sequence[int] | Box"

get_ident = threading.get_ident
_getframe = sys._getframe


class Queue:
    """Accepts kernels and host tasks, which run as soon as their data is there, on all devices of all ranks.

    All queues feed one program order. Collective: every rank runs the same program and so makes the same calls in the
    same order. A context manager: leaving the block waits for all work, except when it is left by an exception.
    The runtime ends with the last queue.

    Threading: with one rank any thread may submit at any time, and the order is that in which the calls return. With
    several ranks the order must be the same on all of them, so submit from one thread at a time; a call that another
    thread overtakes is refused. An exception that interrupts a call, such as KeyboardInterrupt, leaves the task either
    submitted or not. In a forked child, each call raises `ForkedProcess`.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
        LaunchError: If MPI does not work the way this program was started.
    """

    __slots__ = ("__weakref__", "_runtime")

    def __init__(self) -> None:
        runtime = lifecycle.current()
        runtime.check_usable("Queue()")
        runtime.num_queues += 1
        self._runtime: Any = runtime

    # ---- work

    def parallel_for(
        self,
        shape: Range,
        kernel: Callable[..., Any] | Kernel | CudaKernel,
        *args: Any,
        name: str | None = None,
        hints: Sequence[Hint] | Hint = (),
        constrain: SupportsIndex | Sequence[int] | None = None,
    ) -> None:
        """Submit a kernel over an index space, which is split among the devices of all ranks.

        Args:
            shape: The index space: extents, or a `Box` in global coordinates; an int is one dimension, `()` runs once.
            kernel: Called once per chunk as `kernel(chunk, *args)`, with a view in the place of each access.
            args: Accesses, reductions and plain values. NumPy arrays are copied at each submit, also inside of tuples
                and frozen dataclasses, and cannot be written in the kernel; one that is read-only already is not
                copied. Other objects, such as lists, are shared with the kernel: do not change them before `wait()`.
            name: For messages, traces and graphs; the kernel's name if left out.
            hints: From `celerity.hints`.
            constrain: One int per dimension of `shape`: extents of chunks are multiples of it.

        Raises:
            UsageError: If the index space is empty, an access does not fit, or chunks overlap in what they write;
                nothing is submitted then.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        runtime = self._runtime
        frame = _getframe(1)
        if constrain is None and runtime.repeat(kernel, shape, args, name, hints, frame):
            return
        self._submit_kernel(shape, kernel, args, name, hints, constrain, frame)

    def _submit_kernel(  # noqa: PLR0917 - those of parallel_for
        self,
        shape: Range,
        kernel: Callable[..., Any] | Kernel | CudaKernel,
        args: tuple[Any, ...],
        name: str | None,
        hints: Sequence[Hint] | Hint,
        constrain: SupportsIndex | Sequence[int] | None,
        frame: FrameType,
    ) -> None:
        """A submit with all checks: the first one of a kernel with such arguments, and those that are refused."""
        started = perf_counter_ns()
        runtime = self._runtime
        begun = runtime.next_id
        runtime.check_usable("parallel_for()")
        if name is not None:
            check_name(name)
        if kernel.__class__ is Kernel:
            function: Any = kernel.cuda if runtime.is_cuda else kernel.cpu
            label = name or kernel.name
        else:
            function = kernel
            given = getattr(kernel, "__name__", "")
            label = name or (given if given.__class__ is str and given else name_of(kernel))
        is_native = function.__class__ is CudaKernel and runtime.is_cuda
        try:
            is_known = is_native or arities[id(function.__code__)][1:] == (len(args), function.__class__)
            box = boxes[shape] if is_known else None
        except (KeyError, TypeError, AttributeError):
            box = None
        if box is None:  # not inside of the block above, whose exceptions would become the context of errors
            box = check_launch(shape, kernel, function, len(args), label, is_cuda=runtime.is_cuda)
        undivided = runtime.undivided
        division = hint_resolution.resolve(hints, undivided.oversubscribe) if hints else undivided
        granularity = None if constrain is None else granularity_of(constrain, box, f'kernel "{label}"')

        natives, reductions, kept, is_custom = collect(args, runtime, label)
        # With reductions each device folds its chunk in one go: a fixed order of combination.
        division = division.whole_shares() if reductions else division
        submission = Submission("kernel", label, function, kept, natives, box, frame)
        if is_custom:
            resolve_custom(runtime, submission, args, granularity, division, "kernel")
        launch = prepare_launch(runtime, function, submission) if is_native else None
        blocked = runtime.scheduler.throttle()
        if blocked:
            runtime.note_blocked(blocked, "parallel_for()")
        function, scalars = (None, None) if launch is None else (launch[0].function, launch[1])
        try:
            node = (label, box, natives, reductions, granularity, *division, function, scalars)
            if not runtime.table.submit_kernel(submission, begun, started, *node, runtime.origins.of(submission)):
                runtime.refuse_overtaken(submission)
        except _native.AccessPatternError as error:
            raise translate(error, submission, args) from None
        if reductions:
            runtime.empty_reductions.note(submission)
        elif not (is_custom or constrain is not None):
            remember(runtime, kernel, args, hints, submission, division, launch)
        runtime.submit_ns += perf_counter_ns() - started

    def host_task(
        self,
        fn: Callable[..., Any],
        *args: Any,
        on: str | Range = "once",
        name: str | None = None,
        constrain: SupportsIndex | Sequence[int] | None = None,
        unordered: bool = False,
    ) -> None:
        """Submit a function that runs on the host, as `fn(part, *views)`.

        Host tasks on "once" and "master" run one after the other, in the order of their submission, so that they may
        use the same files. The parts of a host task over an index space run as soon as their data is there.

        Args:
            fn: Called with a part, a view in the place of each access, and the plain values.
            args: Accesses and plain values, as for `parallel_for`.
            on: "once" (on one rank), "master" (on rank 0), or an index space that is split among the ranks.
            name: For messages, traces and graphs; the function's name if left out.
            constrain: Not supported yet for host tasks.
            unordered: The task neither waits for earlier host tasks nor makes later ones wait: only data orders it.

        Raises:
            UsageError: As for `parallel_for`.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        started = perf_counter_ns()
        runtime = self._runtime
        begun = runtime.next_id
        runtime.check_usable("host_task()")
        if name is not None:
            check_name(name)
        label = name or name_of(fn)
        who = f'host task "{label}"'
        if not isinstance(unordered, bool):
            raise ArgumentTypeError(f"{who}: unordered= takes True or False, not {unordered!r}.")
        if constrain is not None:
            raise NotAvailableYet(f"{who}: constrain= is not available for host tasks yet.")
        if isinstance(on, str):
            if on not in {"once", "master"}:
                raise UsageError(
                    f"{who}: on= takes 'once', 'master', or an index space to split among the ranks, not {on!r}."
                )
            distribution, box = on, None
        else:
            distribution, box = "split", box_of(on, who)
        check_kernel(fn, fn, len(args), label, "host task")
        natives: list[tuple[int, int, Any]] = []
        kept: list[Any] = []
        for arg in args:
            if isinstance(arg, Access):
                check_alive(arg.port.record, runtime)
                natives.append(arg.native)
                kept.append(arg.port)
                continue
            if isinstance(arg, Reduction):
                raise ArgumentTypeError(f"{who} got {arg!r}, but only kernels can reduce. Use queue.parallel_for().")
            kept.append(arg if arg.__class__ in accepted else settle(arg, who))
        whole = box if box is not None else Box((), ())
        submission = Submission("host task", label, fn, kept, natives, whole, _getframe(1))
        resolve_custom(runtime, submission, args, None, Division(), "host" if distribution == "split" else "single")
        blocked = runtime.scheduler.throttle()
        if blocked:
            runtime.note_blocked(blocked, "host_task()")
        try:
            origin = runtime.origins.of(submission)
            if not runtime.table.submit_host_task(
                submission, begun, started, label, box, natives, distribution, unordered, origin
            ):
                runtime.refuse_overtaken(submission)
        except _native.AccessPatternError as error:
            raise translate(error, submission, args) from None
        runtime.submit_ns += perf_counter_ns() - started

    def collective(self, fn: Callable[..., Any], *args: Any, group: Any = None, name: str | None = None) -> NoReturn:
        """Submit a function that runs on every rank with a communicator of its own.

        Raises:
            NotAvailableYet: Always, in this version.
        """
        raise NotAvailableYet(
            f"queue.collective({name_of(fn)}) is not available yet in this version of celerity_py. "
            f"Use queue.host_task(fn, on=shape) for work that is split among the ranks."
        )

    # ---- results

    def fence(self, buffer: Buffer, box: Any = None, on: str = "all") -> RuntimeFuture[Any]:
        """Ask for a copy of a buffer, or of a box of it, as it is after everything submitted so far. Collective.

        Args:
            buffer: What to copy.
            box: A `Box` or slices in global coordinates; the whole buffer if left out.
            on: "all" ranks get the copy, or only the "master".

        Returns:
            A `concurrent.futures.Future`, which can be awaited, too, of a fresh, writable array of the box's shape; of
            None on the ranks left out.

        Raises:
            ArgumentTypeError: If `buffer` is no buffer.
            UsageError: If the box is not inside of the buffer, or `on` is something else.
            OutOfMemory: If the host has no memory for the copy.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        runtime = self._runtime
        runtime.check_usable("fence()")
        if not isinstance(buffer, Buffer):
            raise ArgumentTypeError(f"queue.fence() takes a Buffer, not {buffer!r}.")
        record = buffer.record
        check_alive(record, runtime)
        if not isinstance(on, str) or on not in {"all", "master"}:
            raise UsageError(f"The fence of {record.label}: on= takes 'all' or 'master', not {on!r}.")
        whole = record.box
        if box is None:
            box = whole
        elif not isinstance(box, Box):
            try:
                box = box_from_slices(box, record.shape, "A fence takes a Box or")
            except UsageError as error:
                raise type(error)(f"The fence of {record.label} asks for {box!r}. {error}") from None
        if box.ndim != whole.ndim:
            raise DimensionMismatch(
                f"The fence of {record.label} asks for {show(box)}, but the buffer {show(whole)} has "
                f"{whole.ndim} dimension(s)."
            )
        if box not in whole:
            raise OutOfBoundsAccess(
                f"The fence of {record.label} asks for {show(box)}, outside of the buffer {show(whole)}."
            )
        try:
            return runtime.fence(record, box, on == "all", _getframe(1))  # type: ignore[no-any-return]
        except MemoryError as error:
            raise OutOfMemory(
                f"The fence of {record.label} asks for {show(box)}, for which this host has no memory: {error} Fence "
                f"smaller boxes, or let host tasks over an index space, on=shape, look at the parts."
            ) from None

    def wait(self) -> None:
        """Wait until everything submitted so far is done on this rank.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If a task failed; the original exception is the cause.
        """
        runtime = self._runtime
        runtime.check_usable("wait()")
        runtime.wait("none", _getframe(1))

    def barrier(self) -> None:
        """Wait until everything submitted so far is done on all ranks. Collective.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If a task failed; the original exception is the cause.
        """
        runtime = self._runtime
        runtime.check_usable("barrier()")
        runtime.wait("barrier", _getframe(1))

    def flush(self) -> None:
        """Start what the scheduler still holds back to plan memory for; does not wait."""
        runtime = self._runtime
        runtime.check_usable("flush()")
        runtime.scheduler.flush()

    def statistics(self) -> RuntimeStatistics:
        """Counters of this rank since the runtime started."""
        runtime = self._runtime
        runtime.check_usable("statistics()")
        return runtime.statistics()  # type: ignore[no-any-return]

    # ---- life

    def close(self) -> None:
        """Wait for all work, and end the runtime if this is the last queue. Collective; a second call does nothing."""
        self._close(_getframe(1))

    def _close(self, frame: FrameType) -> None:
        runtime = self._runtime
        if runtime is _CLOSED:
            return
        if get_ident() in runtime.inside:
            runtime.check_usable("close()")
        runtime.num_queues -= 1
        try:
            if runtime.num_queues == 0:
                runtime.end(frame)
            else:
                runtime.check_usable("close()")
                runtime.wait("none", frame)
        finally:
            self._runtime = _CLOSED

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self._close(_getframe(1))
            return
        runtime = self._runtime
        if runtime is _CLOSED:
            return
        self._runtime = _CLOSED
        runtime.num_queues -= 1
        # With several ranks nobody knows whether the others are here as well; the exit hook sees to that.
        if runtime.num_queues == 0 and runtime.size == 1 and runtime.state.failure is None:
            runtime.abandon()

    def __repr__(self) -> str:
        runtime = self._runtime
        return "<Queue, closed>" if runtime is _CLOSED else f"<Queue on rank {runtime.rank} of {runtime.size}>"


class _Closed:
    """Stands in for the runtime of a closed queue."""

    next_id = 0

    def repeat(self, *_: Any) -> int:
        return 0

    def check_usable(self, call: str) -> NoReturn:
        raise ClosedQueue(
            f"{call} on a queue that is closed. Submit inside of its `with` block, or make another queue."
        )


_CLOSED: Any = _Closed()
