# SPDX-License-Identifier: MIT
"""`Buffer.recover`: contents of a buffer after a failure, read out of the memory of the failed runtime."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from celerity_py._native import box_from_flat
from celerity_py.calls.binder import array_at, initialize
from celerity_py.cuda.contexts import on_device
from celerity_py.scheduler.errors import ClosedQueue, DeviceError, NestedUse, OutOfMemory, ResourceError, UsageError

if TYPE_CHECKING:
    from celerity_py._native import ContentsPart
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord

_FIRST_DEVICE_MEMORY = 2
#: For operations on GPUs that were under way when the run failed.
_SETTLE_S = 10.0


class Recovered(NamedTuple):
    """The contents of a buffer of a runtime that has failed.

    Attributes:
        contents: A new array, with the dimensions of an element behind those of the buffer.
        number: Of the last task that has written some of it, in the order of submits from 1. Of two buffers that took
            turns, the one with the larger number is newer. 0 if that was long before the failure, or if no task has.
        writer: That task, with its line. Empty if the runtime has forgotten its name, as behind a wait.
    """

    contents: npt.NDArray[Any]
    number: int
    writer: str


class Recoverable:
    """A buffer, for what it does after a failure."""

    __slots__ = ()
    record: BufferRecord

    def recover(self) -> Recovered:
        """The contents as the last complete task has left them, after a failure on a single rank.

        Tasks that were submitted and have not begun do not count. Elements that nobody has written are zero. The
        memory of the failed runtime stays until the next queue or buffer is made, so recover all buffers before that:

            kept = [buffer.recover().contents for buffer in (u, u_next)]
            u, u_next = (celerity.Buffer.from_array(array) for array in kept)

        Any thread may call this. It waits up to 10 s for operations on GPUs.

        Returns:
            The contents, and the last task that wrote some of them.

        Raises:
            ResourceError: If a task that writes the buffer had begun, or has failed; the error names it. If a device
                has failed, which loses its memory. If it is not known any more where the contents are. If a function
                of the program still runs.
            UsageError: If the runtime has not failed, or has several ranks.
            ClosedQueue: If the runtime has ended, such as by a failed one making way for the next one.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
        """
        runtime: Any = self.record.runtime
        who = f"{self.record.label}.recover()"
        with _one_at_a_time:
            _check(runtime, who)
            try:
                return _recover(runtime, self.record, who)
            except RuntimeError as error:
                raise ResourceError(f"{who}: {error}. {_REMEDY}") from error


_REMEDY = "Make the buffer again, or go on from a checkpoint."
_one_at_a_time = threading.Lock()


def _check(runtime: Runtime, who: str) -> None:
    """Refuse what cannot be recovered."""
    state = runtime.state
    if threading.get_ident() in state.inside:
        raise NestedUse(f"{who} was called from inside a kernel, host task, mapper or callback of the runtime.")
    failure = state.failure
    if state.has_ended:
        raise ClosedQueue(
            f"{who} comes too late: it belongs to a runtime that {state.describe_end()}. Its memory is free. After a "
            f"failure, recover all buffers before the next queue or buffer is made."
        )
    if failure is None:
        raise UsageError(f"{who} is for runtimes that have failed. queue.fence() gives the contents of others.")
    if runtime.size > 1:
        raise UsageError(f"{who} works on a single rank. With several ranks, use celerity.checkpoint().")
    state.was_failure_seen = True
    if isinstance(failure.error, DeviceError):
        raise ResourceError(f"{who}: a device has failed, and its memory is lost. Go on from a checkpoint.")


def _recover(runtime: Any, record: BufferRecord, who: str) -> Recovered:
    _end_work(runtime, who)
    error = runtime.state.failure.error
    # A task for which there was no memory has not begun.
    failed = 0 if isinstance(error, OutOfMemory) else runtime.state.failure.submission or 0
    found = runtime.executor.last_contents(runtime.scheduler, record.id, failed)
    if found.is_spoiled or found.is_hidden:
        writer = _describe(runtime, found.culprit) or "a task"
        why = "had begun to write it when the run failed, or has failed itself"
        if not found.is_spoiled:
            why = "was to overwrite it, and where its contents were before is not known any more"
        raise ResourceError(f"{who}: {writer} {why}. {_REMEDY}")
    contents = np.zeros(record.shape, record.dtype)
    for part in found.parts:
        _read(runtime, record, part, contents)
    return Recovered(contents, found.writer, _describe(runtime, found.writer))


def _end_work(runtime: Any, who: str) -> None:
    """Wait until nothing touches the memory of the runtime any more."""
    if not runtime.executor.settle(_SETTLE_S):
        raise ResourceError(f"{who}: operations still run on a GPU. Wait for their end, and call this again.")
    if not runtime.live.stop():
        raise ResourceError(f"{who}: a function of the program still runs, and may change contents. Wait for its end.")


def _describe(runtime: Any, submission: int) -> str:
    known = runtime.submissions.get(submission)
    return "" if known is None else f"{known.subject} (submitted at {known.site})"


def _read(runtime: Any, record: BufferRecord, part: ContentsPart, contents: npt.NDArray[Any]) -> None:
    if part.address == 0:
        initialize(record, contents.ctypes.data, record.box.flat(), [part.where])
        return
    box, allocated = (box_from_flat(flat, len(record.shape)) for flat in (part.where, part.allocated))
    inside: Any = box.relative_slices(allocated)
    where: Any = (*box.slices, ...)
    if part.memory < _FIRST_DEVICE_MEMORY or not runtime.devices.is_cuda:
        contents[where] = array_at(part.address, allocated.shape, record.dtype)[(*inside, ...)]
        return
    device = part.memory - _FIRST_DEVICE_MEMORY
    binder: Any = runtime.binders[device]
    shape = *allocated.shape, record.dtype.itemsize  # bytes, as CuPy does not have all dtypes
    with on_device(runtime.devices.ordinals[device]):
        # Whole rows: the device may have no memory left for a copy of a part of each.
        rows = binder.to_host(binder.array_at(part.address, shape, np.dtype(np.uint8))[inside[:1]])
    chosen = np.ascontiguousarray(rows[(*(slice(None) for _ in inside[:1]), *inside[1:])])
    contents[where] = chosen.view(record.dtype.base).reshape(*box.shape, *record.dtype.shape)
