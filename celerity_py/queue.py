# SPDX-License-Identifier: MIT
"""The queue, to which a program submits its tasks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import EllipsisType, FrameType
from typing import TYPE_CHECKING, Any, Literal, Never, SupportsIndex, TypeAlias, overload

from celerity_py._native import Box
from celerity_py.buffer import Buffer
from celerity_py.fences import fence_of
from celerity_py.graphs.recorder import graphs_of
from celerity_py.hints import Hint
from celerity_py.host_objects import HostObject, Object
from celerity_py.kernels import CudaKernel, Kernel
from celerity_py.loops import Keep, Loop, LoopOptions
from celerity_py.recordings import Recording, record, replay
from celerity_py.redistribution import redistribute
from celerity_py.runtime import lifecycle
from celerity_py.runtime.closed import CLOSED
from celerity_py.runtime.futures import Future
from celerity_py.runtime.statistics import RuntimeStatistics
from celerity_py.small_operations import any_of, copy, dot, fill, norm, reduce_nothing
from celerity_py.submit.arguments import check_priority, check_share, refuse_names
from celerity_py.submit.delegate import connect
from celerity_py.vocabulary.index_spaces import NothingToDo
from celerity_py.vocabulary.refused_operators import IsHandle
from celerity_py.vocabulary.static_types import FencePlace, FenceRanks

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from celerity_py.graphs.graphs import Graphs
    from celerity_py.submit.arguments import Argument
    from celerity_py.vocabulary.static_types import Element, HostTaskPlace

Range: TypeAlias = "SupportsIndex | Sequence[int] | Box"
_Slice: TypeAlias = "slice | EllipsisType"
BufferBox: TypeAlias = "Box | _Slice | tuple[_Slice, ...] | None"

_getframe = sys._getframe


class Queue(IsHandle):
    """Accepts kernels and host tasks. They run on the devices of all ranks, each as soon as its data is there.

    All queues feed one program order. Collective: every rank runs the same program, and so makes the same calls in the
    same order. A queue is a context manager: the end of the block waits for all work, except after an exception.
    The runtime ends with the last queue.

    Threading: with one rank any thread may submit at any time, and the order is that in which the calls return. With
    several ranks the order must be the same on all of them. A call of another thread than the last one raises
    `UsageError`, unless it comes from a thread that was started after the last one has ended (or after the last call of
    the first thread), or from the first or main thread after the last one has ended. After an interrupt of a call, such
    as KeyboardInterrupt, its task is submitted completely or not at all. In a forked child, each call raises
    `ForkedProcess`.

    Args:
        priority: From 0 to 4, the same on all ranks. The work of a queue with a higher priority is issued before the
            work of lower ones: kernels, copies, transfers, host tasks and fences. On GPUs its kernels run on streams of
            higher priority. A kernel that has begun ends first, and results stay the same. No queue waits for ever:
            docs/how_to/sharing.md has the rules.
        multiprocessors: A share above 0 and below 1; it needs a priority from 1 on. The kernels of this queue run on
            that share of the multiprocessors of each GPU, rounded to the steps of the driver, and those of queues
            without a share on the rest. A run has one split: all shares are equal, and use the same
            multiprocessors. On CPU devices a share changes nothing.

    Raises:
        ArgumentTypeError: If `priority` is no integer, or `multiprocessors` no number.
        UsageError: If `priority` is below 0 or above 4; if a share is out of range, without a priority, other than that
            of an earlier queue or of its priority, too small or large for a GPU, or comes after the first submission.
        ResourceError: If the driver cannot make streams, or cannot divide the multiprocessors.
        ConfigurationError: If a `CELERITY_` variable is wrong.
        LaunchError: If MPI does not work the way this program was started.
    """

    __slots__ = ("__weakref__", "_priority", "_runtime", "_share")

    def __init__(self, *, priority: SupportsIndex = 0, multiprocessors: float | None = None) -> None:
        self._priority = check_priority(priority)
        self._share = check_share(multiprocessors, self._priority)
        runtime = lifecycle.current()
        runtime.check_usable("Queue()")
        connect(runtime)
        runtime.prepare_queue(self._priority, self._share)
        runtime.num_queues += 1
        self._runtime: Any = runtime

    @property
    def priority(self) -> int:
        """The priority of the queue, as given."""
        return self._priority

    @property
    def multiprocessors(self) -> float | None:
        """The share of the multiprocessors, as given. `statistics` has their number on each GPU."""
        return self._share

    # ---- work

    def parallel_for(
        self,
        shape: Range,
        kernel: Callable[..., Any] | Kernel | CudaKernel,
        *args: Argument,
        name: str | None = None,
        hints: Sequence[Hint] | Hint = (),
        constrain: SupportsIndex | Sequence[int] | None = None,
        **unknown: Never,
    ) -> None:
        """Submit a kernel over an index space, which the runtime divides among the devices of all ranks. Collective.

        The call returns before the kernel runs. It blocks while the program is too far ahead of the execution.

        Args:
            shape: The index space: extents in items, or a `Box` in global coordinates. An int is one dimension; with
                `()` the kernel runs once. Over an empty index space the kernel does not run: nothing is written, and a
                reduction gives the identity of its operation, or the current value with `include_current`.
            kernel: Called once per chunk as `kernel(chunk, *args)`, on a thread of the runtime, with a view in the
                place of each access and a `Reducer` in the place of each reduction.
            args: Accesses, reductions and plain values. The runtime copies arrays at each submit, also inside of tuples
                and frozen dataclasses. The copies are read-only arrays of NumPy, also for arrays of other libraries
                with DLPack; an array that is read-only already is not copied. The kernel shares other objects, such as
                lists: do not change them before `wait()`.
            name: The task's name in messages and timelines; by default that of the kernel.
            hints: One or several of `celerity.hints`.
            constrain: One int per dimension of `shape`, in items: extents of chunks are multiples of it.
            unknown: Refused, because `args` have no names.

        Raises:
            UsageError: If an access does not fit, or two chunks write overlapping parts;
                nothing is submitted then.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        if unknown:
            refuse_names("parallel_for(shape, kernel", unknown, "name", "hints", "constrain")
        # Native: submitter::submit_kernel. As an attribute, CPython finds it sooner than as a method.
        submit_kernel = self._runtime.submit_kernel
        try:
            submit_kernel(kernel, shape, args, name, hints, constrain, _getframe(1), self._priority)
        except NothingToDo as nothing:
            reduce_nothing(self._runtime, nothing.submission, args, _getframe(1), self._priority)

    def host_task(
        self,
        fn: Callable[..., Any],
        *args: Argument,
        on: HostTaskPlace | Range = "once",
        name: str | None = None,
        constrain: SupportsIndex | Sequence[int] | None = None,
        unordered: bool = False,
        **unknown: Never,
    ) -> None:
        """Submit a function that runs on the host, as `fn(part, *args)`. Collective.

        Host tasks on "once" and "master" run one after the other, in the order of their submits, so that they may use
        the same files. The parts of a host task over an index space run as soon as their data is there.

        Args:
            fn: Called on a thread of the runtime with a `Part`, a view of NumPy arrays in the place of each access, and
                the plain values.
            args: Accesses, side effects on host objects, and plain values, as for `parallel_for`. The function gets the
                object in the place of a side effect.
            on: "once" (on one rank), "master" (on rank 0), or an index space that the ranks divide among themselves.
            name: The task's name in messages and timelines; by default that of the function.
            constrain: For an index space only: one int per dimension, in items. The extents of shares are multiples of
                it, but the last share takes the remainder. If there are fewer multiples than ranks, some get no part.
            unordered: If true, the task waits for its data only: not for earlier host tasks, and later ones do not wait
                for it.
            unknown: Refused, because `args` have no names.

        Raises:
            UsageError: As for `parallel_for`.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        if unknown:
            refuse_names("host_task(fn", unknown, "on", "name", "constrain", "unordered")
        with suppress(NothingToDo):
            self._runtime.submit_host_task(self._priority, fn, args, on, name, constrain, unordered, _getframe(1))

    def collective(
        self,
        fn: Callable[..., Any],
        *args: Argument,
        group: str | None = None,
        name: str | None = None,
        **unknown: Never,
    ) -> None:
        """Submit a function that runs on the host of every rank, as `fn(part, *args)`, and may use MPI. Collective.

        The index space has one item per rank. Tasks of one group run one after the other, in program order, and so in
        the same order on all ranks. Tasks of different groups, and other tasks, run beside them. `part.comm` is an
        mpi4py communicator of the group's own. The first task of the group makes it, when earlier groups have theirs;
        the end of the runtime frees it.

        Args:
            fn: Called once per rank, on a thread of the runtime, with a `CollectivePart`, and with the arguments of a
                host task. It may block until the same task runs on the other ranks.
            args: Accesses, side effects on host objects, and plain values, as for `host_task`.
            group: The name of the group, the same on all ranks. There are up to 32 groups, with that of None.
            name: The task's name in messages and timelines; by default that of the function.
            unknown: Refused, because `args` have no names.

        Raises:
            UsageError: As for `parallel_for`, or if there are too many groups.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        if unknown:
            refuse_names("collective(fn", unknown, "group", "name")
        runtime = self._runtime
        runtime.check_usable("collective()")
        known = runtime.groups.find(group)
        runtime.submit_host_task(self._priority, fn, args, known, name, None, True, _getframe(1))
        runtime.groups.keep(known)

    # ---- small operations

    def fill(self, buffer: Buffer[Any], value: Any, box: BufferBox = None) -> None:
        """Submit a kernel that gives all elements of a buffer, or of a box of it, one value. Collective.

        The runtime divides the box among the devices of all ranks, like the index space of any kernel.

        Args:
            buffer: The buffer.
            value: A number, or another value of one element, the same on all ranks. Floating-point numbers are rounded.
            box: A `Box` or slices, in global coordinates; None means the whole buffer.

        Raises:
            ArgumentTypeError: If `buffer` is no buffer, or `value` no single value.
            UsageError: If the elements cannot hold the value, or the box is not inside of the buffer.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        fill(self._runtime, buffer, value, box, _getframe(1), self._priority)

    def copy(
        self,
        target: Buffer[Element],
        source: Buffer[Element],
        target_box: BufferBox = None,
        source_box: BufferBox = None,
    ) -> None:
        """Submit a kernel that copies a buffer, or a box of it, to another buffer or another place. Collective.

        The runtime divides the box in `target` among the devices of all ranks. Each of them fetches the elements of its
        share that it lacks.

        Args:
            target: The buffer to write.
            source: The buffer to read, of the same dtype and number of dimensions; it may be the same buffer.
            target_box: A `Box` or slices, in global coordinates; None means the whole buffer.
            source_box: Likewise, of the same extents.

        Raises:
            ArgumentTypeError: If `target` or `source` is no buffer.
            UsageError: If dtypes or extents differ, a box is not inside of its buffer, or the boxes overlap in
                the same buffer.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        copy(self._runtime, target, source, (target_box, source_box), _getframe(1), self._priority)

    def redistribute(self, target: Buffer[Element], source: Buffer[Element], counts: Any) -> npt.NDArray[np.int64]:
        """Submit kernels that move the rows of a buffer into buckets, as MPI_Alltoallv does. Collective.

        The source consists of blocks, into which `access.even_split()` divides its rows. Each block begins with its
        rows for bucket 0, then has those for bucket 1, and so on. Further rows belong to no bucket. The target gets
        the rows of bucket 0 from all blocks in their order, then those of bucket 1, and so on. Its other rows stay.

        Args:
            target: The buffer to write, of one to three dimensions.
            source: Another buffer, of the same dtype and the same extents behind the rows.
            counts: Numbers of rows, an array of integers on the host with a row per block and a column per bucket, such
                as `queue.fence(counts).result()`. The same on all ranks.

        Returns:
            The first row of each bucket in the target, and behind them the number of rows: one entry more than there
            are buckets. Read-only.

        Raises:
            ArgumentTypeError: If `target` or `source` is no buffer, or `counts` no array of integers.
            UsageError: If the buffers do not fit, a count is negative, or a block or the target has fewer rows.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        return redistribute(self._runtime, target, source, counts, _getframe(1), self._priority)

    # ---- repetitions

    def record(self, function: Callable[..., Any], /, **values: Any) -> Recording:
        """Run a function, and remember its kernels and host tasks for `replay`. Collective.

        The kernels and host tasks that the function submits run as always. If buffers take turns, record one full turn:
        after the function, each name stands for the same buffer as before it, and each value that it reads is the same.

        Args:
            function: Called once on this thread, with the parameters and without other arguments. Its result is
                dropped.
            **values: Parameters of the function, plain values that `replay` may change, as in `record(step, dt=0.1)`.
                The function gets an object that stands for the value. It can only hand it on to kernels and host tasks,
                as an argument of its own, as it is. The tasks get the value.

        Returns:
            The recording. It keeps no buffer alive.

        Raises:
            ArgumentTypeError: If `function` is no function, does not take these arguments, or returns a coroutine or
                generator.
            UsageError: If the function does something else with a parameter, such as `dt * 0.5`. If the function makes
                buffers, fences, waits, flushes, records or replays, or drops a buffer that its tasks access. Tasks that
                it has submitted before stay submitted.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        runtime = self._runtime
        runtime.check_usable("record()")
        return record(self, runtime, function, values, _getframe(1))

    def replay(self, recording: Recording, /, times: SupportsIndex, **values: Any) -> None:
        """Submit the tasks of a recording again, as if its function had been called `times` times more. Collective.

        Buffers, kernels, plain values and the results of mappers are those of the recording. Returns before the tasks
        run; blocks while the program is too far ahead of the execution. After an interrupt, some of the tasks are
        submitted, each completely or not at all.

        Args:
            recording: Made by `record` of this queue.
            times: The number of repetitions, the same on all ranks; 0 submits nothing.
            **values: Other values of parameters of the recording, for these repetitions: `replay(recorded, 10,
                dt=0.2)`. Those that are not named have the values of the recording.

        Raises:
            ArgumentTypeError: If `times` is no integer, or the first argument is no recording.
            UsageError: If the recording has no parameter of such a name. If `times` is negative, the recording belongs
                to another queue, or a buffer of the recording has been dropped. If `times` is not 0: if the recorded
                function has changed what it reads; if a plain value, array or buffer that it reads is another one now;
                or if the function of a task has changed since: its code, its defaults, or a variable from outside that
                is a number, a string or a tuple of them.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        self._runtime_for("replay()")
        replay(self, recording, times, values, _getframe(1))

    def until(
        self,
        future_of: Callable[[], Future[Any]],
        *,
        every: SupportsIndex = 1,
        at_most: SupportsIndex,
        keep: Keep | None = None,
        when: Callable[[Any], Any] | None = None,
        in_dry_run: Any = None,
    ) -> Loop:
        """Make the iterations of a loop that stops on data: `for i in queue.until(...):`. Collective.

        The loop asks for a value after each `every` iterations, and after the last one. It submits the next `every`
        iterations before it looks at the value, so that the devices do not wait for the program. The first value that
        is true ends the loop: by then up to `every` further iterations are submitted, and take effect. All ranks end
        the loop after the same iteration.

        Args:
            future_of: Called as `future_of()` behind the body, on this thread; it may submit tasks. Returns a future of
                `fence` or `any`.
            every: The number of iterations between two values, at least 1.
            at_most: The largest number of iterations.
            keep: Returns a buffer or a tuple of buffers, such as `lambda: (u, v)`. The buffers for which these names
                stand after the loop have the contents of the last needed iteration. Each value costs one more copy of
                them, within the devices.
            when: Tells from a value whether the loop ends. It must return the same on all ranks. By default a bool or
                an integer other than 0 ends it.
            in_dry_run: Every value of the loop in a dry run, which computes none, such as one for which the loop goes
                on. By default the values are those of the fences, zeros.

        Returns:
            The iterations, from 0. After the loop, their `iterations` is the number of needed iterations.

        Raises:
            ArgumentTypeError: If an argument, or the result of `future_of` or `keep`, has another type.
            UsageError: If `every` is below 1 or `at_most` is negative. If a value has several elements, or is neither a
                bool nor an integer and there is no `when`, or only rank 0 gets it.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        runtime = self._runtime_for("until()")
        given = LoopOptions(every=every, at_most=at_most, keep=keep, when=when, in_dry_run=in_dry_run)
        return Loop(runtime, future_of, given, priority=self._priority)

    # ---- results

    @overload
    def fence(
        self,
        buffer: Buffer[Element],
        box: BufferBox = None,
        on: Literal["all"] = "all",
        *,
        to: Literal["host"] = "host",
        in_dry_run: Any = None,
    ) -> Future[npt.NDArray[Element]]: ...
    @overload
    def fence(
        self,
        buffer: Buffer[Element],
        box: BufferBox = None,
        *,
        on: FenceRanks,
        to: Literal["host"] = "host",
        in_dry_run: Any = None,
    ) -> Future[npt.NDArray[Element] | None]: ...
    @overload
    def fence(
        self,
        buffer: Buffer[Element],
        box: BufferBox,
        on: FenceRanks,
        *,
        to: Literal["host"] = "host",
        in_dry_run: Any = None,
    ) -> Future[npt.NDArray[Element] | None]: ...
    @overload
    def fence(
        self,
        buffer: Buffer[Any],
        box: BufferBox = None,
        on: FenceRanks = "all",
        *,
        to: FencePlace,
        in_dry_run: Any = None,
    ) -> Future[Any]: ...
    @overload
    def fence(
        self, buffer: HostObject[Object], box: None = None, on: Literal["all"] = "all", *, in_dry_run: Any = None
    ) -> Future[Object]: ...
    @overload
    def fence(
        self, buffer: HostObject[Object], box: None = None, *, on: FenceRanks, in_dry_run: Any = None
    ) -> Future[Object | None]: ...
    def fence(
        self,
        buffer: Buffer[Any] | HostObject[Any],
        box: BufferBox = None,
        on: FenceRanks = "all",
        *,
        to: FencePlace = "host",
        in_dry_run: Any = None,
    ) -> Future[Any]:
        """Ask for a copy of a buffer, or of a box of it, as it is after all earlier submits. Collective.

        Args:
            buffer: The buffer to copy, or a host object.
            box: A `Box` or slices, in global coordinates; None means the whole buffer. None for a host object.
            on: "all": every rank gets the copy; "master": only rank 0 does.
            to: "host": the copy is an array of NumPy. "device": it is an array of CuPy on the first GPU of each rank;
                data of the GPUs of this rank does not pass through the host. On CPU devices it is an array of NumPy.
            in_dry_run: The result in a dry run, which computes nothing: a number for all elements, an array that fills
                the box, or the object itself for a host object. By default the result is zeros, with a warning.

        Returns:
            A `concurrent.futures.Future`, which can also be awaited. Its result is a new, writable array with the shape
            of the box and the dtype of the buffer, or None on the ranks left out. The array offers DLPack. For a host
            object the result is the object of the rank itself, no copy, after all earlier tasks that use it; later ones
            may change it.

        Raises:
            ArgumentTypeError: If `buffer` is neither a buffer nor a host object, or a host object comes with a box.
            UsageError: If the box is not inside of the buffer, `on` or `to` is something else, CuPy lacks the dtype, or
                the elements cannot hold `in_dry_run`.
            OutOfMemory: If the host or the GPU has no memory for the copy.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        frame, priority = _getframe(1), self._priority
        runtime = self._runtime_for("fence()")
        return fence_of(runtime, buffer, box, on, frame, to=to, priority=priority, in_dry_run=in_dry_run)

    def any(self, buffer: Buffer) -> Future[bool]:
        """Ask whether any element of a buffer is other than 0 after all earlier submits. Collective.

        The devices look at their elements; only the answer travels.

        Args:
            buffer: Flags, or any other numbers.

        Returns:
            A future as that of `fence`, of a bool, the same on all ranks.

        Raises:
            ArgumentTypeError: If `buffer` is no buffer.
            UsageError: If its elements are no numbers.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        return any_of(self._runtime_for("any()"), buffer, _getframe(1), self._priority)

    def dot(self, u: Buffer[Element], v: Buffer[Element]) -> Future[Any]:
        """Ask for the sum of the products of the elements of two buffers, as `np.vdot` gives it. Collective.

        The sum has 64 bits, or 128 if it is complex, also for smaller elements. Sums of integers wrap around. Only the
        sum travels.

        Args:
            u: Numbers; the conjugate complex ones take part.
            v: A buffer of the same shape and dtype.

        Returns:
            A future as that of `fence`, of a number of Python, the same on all ranks.

        Raises:
            ArgumentTypeError: If `u` or `v` is no buffer.
            UsageError: If the elements are no numbers, or shapes or dtypes differ.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        return dot(self._runtime_for("dot()"), u, v, _getframe(1), self._priority)

    def norm(self, u: Buffer[Any]) -> Future[float]:
        """Ask for the Euclidean norm of the elements of a buffer, in double precision. Collective.

        Args:
            u: Numbers, real or complex.

        Returns:
            A future as that of `fence`, of a number of Python, the same on all ranks.

        Raises:
            ArgumentTypeError: If `u` is no buffer.
            UsageError: If the elements are no numbers.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        return norm(self._runtime_for("norm()"), u, _getframe(1), self._priority)

    def wait(self) -> None:
        """Wait until all earlier submits are complete on this rank. Collective.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If a task failed; the original exception is the cause.
        """
        self._runtime_for("wait()").wait("none", _getframe(1))

    def barrier(self) -> None:
        """Wait until all earlier submits are complete on all ranks. Collective.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If a task failed; the original exception is the cause.
        """
        self._runtime_for("barrier()").wait("barrier", _getframe(1))

    def flush(self) -> None:
        """Release the commands that lookahead holds back, without a wait for them. Any rank may call this by itself.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        self._runtime_for("flush()").scheduler.flush()

    def statistics(self) -> RuntimeStatistics:
        """The counters of this rank since the runtime started; docs/how_to/observing.md explains them.

        Any rank may call this by itself.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        runtime = self._runtime
        runtime.check_readable("statistics()")
        return runtime.statistics()  # type: ignore[no-any-return]

    def graphs(self, window: str | None = None) -> Graphs:
        """Return the graphs of the run up to now; docs/how_to/observing.md explains them.

        The run keeps them with `CELERITY_PRINT_GRAPHS`. Any rank may call this by itself, also after a failure.
        Commands that lookahead holds back have no instructions yet; `flush()` and `wait()` release them.

        Args:
            window: The tasks to show: "10:40" (T10 to T39), "-20:" (the last 20), "H2:H5" (from horizon 2 to before
                horizon 5), or ":" (all that are kept, up to 4096). By default that of `CELERITY_PRINT_GRAPHS_WINDOW`.

        Returns:
            `.task`, `.command` and `.instruction`, each with `.nodes`, `.dot()` and `.svg()`. A notebook shows the
            picture if graphviz is installed.

        Raises:
            UsageError: If the run keeps no graphs, or the window is not understood.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
        """
        runtime = self._runtime
        if runtime is CLOSED or runtime.state.failure is None or threading.get_ident() in runtime.inside:
            runtime.check_readable("graphs()")
        return graphs_of(runtime.graphs, runtime.scheduler, window)

    def _runtime_for(self, call: str) -> Any:
        """The runtime, for a call that no recording holds."""
        runtime = self._runtime
        runtime.check_usable(call)
        runtime.refuse_in_recording(f"queue.{call}")
        return runtime

    # ---- life

    def close(self) -> None:
        """Wait for all work, and end the runtime if this is the last queue. Collective; a second call does nothing.

        Raises:
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If a task failed; the original exception is the cause.
        """
        self._close(_getframe(1))

    def _close(self, frame: FrameType) -> None:
        runtime = self._runtime
        if runtime is CLOSED:
            return
        if threading.get_ident() in runtime.inside:
            runtime.check_usable("close()")
        runtime.refuse_in_recording("queue.close()")
        runtime.num_queues -= 1
        try:
            if runtime.num_queues == 0:
                runtime.end(frame)
            else:
                runtime.check_usable("close()")
                runtime.wait("none", frame)
        finally:
            self._runtime = CLOSED

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self._close(_getframe(1))
            return
        runtime = self._runtime
        if runtime is CLOSED:
            return
        self._runtime = CLOSED
        runtime.num_queues -= 1
        if runtime.num_queues > 0 or runtime.state.failure is not None:
            return
        if runtime.is_dry:
            runtime.end(_getframe(1))  # the plan of what was submitted is the result
        elif runtime.size == 1:
            runtime.abandon()
        # With several ranks this rank does not know whether the others raise as well; the exit hook handles that.

    def __repr__(self) -> str:
        runtime = self._runtime
        if runtime is CLOSED:
            return "<Queue, closed>"
        priority = f" with priority {self._priority}" if self._priority else ""
        share = "" if self._share is None else f" and a share of {self._share:g}"
        return f"<Queue{priority}{share} on rank {runtime.rank} of {runtime.size}>"
