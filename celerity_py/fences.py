# SPDX-License-Identifier: MIT
"""Fences of buffers and host objects: the checks of their arguments."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any, Final, get_args

from celerity_py.buffer import Buffer, check_alive
from celerity_py.host_objects import HostObject
from celerity_py.scheduler.errors import ArgumentTypeError, OutOfMemory, UsageError
from celerity_py.submit.custom_mappers import box_in
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.static_types import FenceRanks

if TYPE_CHECKING:
    from celerity_py.runtime.futures import Future
    from celerity_py.runtime.runtime import Runtime

_FENCE_RANKS: Final = get_args(FenceRanks)


def fence_of(runtime: Runtime, buffer: Any, box: Any, on: Any, frame: FrameType) -> Future[Any]:
    """See `Queue.fence`."""
    if not isinstance(buffer, Buffer | HostObject):
        raise ArgumentTypeError(f"queue.fence() takes a Buffer or a HostObject, not {buffer!r}.")
    record = buffer.record if isinstance(buffer, Buffer) else buffer
    check_alive(record, runtime)
    if not isinstance(on, str) or on not in _FENCE_RANKS:
        raise UsageError(f"The fence of {record.label}: on= takes 'all' or 'master', not {on!r}.")
    if isinstance(record, HostObject):
        if box is not None:
            raise ArgumentTypeError(f"The fence of {record.label} got the box {box!r}, but a host object has none.")
        return runtime.fence_object(record, on == "all", frame)
    box = box_in(record, box, "fence of")
    try:
        return runtime.fence(record, box, on == "all", frame)
    except MemoryError as error:
        raise OutOfMemory(
            f"The fence of {record.label} asks for {show(box)}, for which this host has no memory: {error}. Fence "
            f"smaller boxes, or let host tasks over an index space, on=shape, look at the parts."
        ) from None
