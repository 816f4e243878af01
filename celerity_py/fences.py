# SPDX-License-Identifier: MIT
"""Fences of buffers and host objects: the checks of their arguments."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from celerity_py.buffer import Buffer, check_alive
from celerity_py.cuda.device_arrays import is_cupy_dtype
from celerity_py.host_objects import HostObject
from celerity_py.runtime.fence_submits import submit_fence, submit_object_fence
from celerity_py.scheduler.errors import ArgumentTypeError, OutOfMemory, UsageError
from celerity_py.submit.custom_mappers import box_in
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.static_types import FencePlace, FenceRanks
from celerity_py.vocabulary.type_rules import can_hold, is_in_range, refuse_value

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.runtime.futures import Future
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord

_FENCE_RANKS: Final = get_args(FenceRanks)
_FENCE_PLACES: Final = get_args(FencePlace)


def fence_of(
    runtime: Runtime, buffer: Any, box: Any, on: Any, frame: FrameType, *, to: Any, priority: int, in_dry_run: Any
) -> Future[Any]:
    """See `Queue.fence`."""
    if not isinstance(buffer, Buffer | HostObject):
        raise ArgumentTypeError(f"queue.fence() takes a Buffer or a HostObject, not {buffer!r}.")
    record = buffer.record if isinstance(buffer, Buffer) else buffer
    check_alive(record, runtime)
    if not isinstance(on, str) or on not in _FENCE_RANKS:
        raise UsageError(f"The fence of {record.label}: on= takes 'all' or 'master', not {on!r}.")
    if not isinstance(to, str) or to not in _FENCE_PLACES:
        raise UsageError(f"The fence of {record.label}: to= takes 'host' or 'device', not {to!r}.")
    if isinstance(record, HostObject):
        if box is not None:
            raise ArgumentTypeError(f"The fence of {record.label} got the box {box!r}, but a host object has none.")
        if to != "host":
            raise UsageError(f"The fence of {record.label} got to={to!r}, but a host object stays where it is.")
        return submit_object_fence(runtime, record, on == "all", frame, priority, in_dry_run=in_dry_run)
    box = box_in(record, box, "fence of")
    to_device = to == "device"
    if to_device:
        _check_dtype(runtime, record)
    planned = None if in_dry_run is None else _contents_of(record, box, in_dry_run)
    try:
        return submit_fence(
            runtime, record, box, on == "all", frame, to_device=to_device, priority=priority, in_dry_run=planned
        )
    except MemoryError as error:
        place, remedy = "this host has", "let host tasks over an index space, on=shape, look at the parts"
        if to_device and runtime.devices.is_cuda:
            place, remedy = "the first GPU of this rank has", "fence to='host'"
        raise OutOfMemory(
            f"The fence of {record.label} asks for {show(box)}, for which {place} no memory: {error}. Fence "
            f"smaller boxes, or {remedy}."
        ) from None


def _check_dtype(runtime: Runtime, record: BufferRecord) -> None:
    if runtime.devices.is_cuda and not is_cupy_dtype(record.dtype):
        raise UsageError(
            f"The fence of {record.label} got to='device', but CuPy has no arrays of {record.dtype.base}. "
            f"Fence to='host'."
        )


def _contents_of(record: BufferRecord, box: Box, given: Any) -> np.ndarray[Any, Any]:
    """The result of a fence in a dry run, as elements of the buffer that fill the box."""
    use = f"The fence of {record.label} got in_dry_run={given!r} for {show(box)}"
    dtype, shape = record.dtype.base, (*box.shape, *record.dtype.shape)
    if not can_hold(dtype, given) or not is_in_range(dtype, np.asarray(given)):
        refuse_value(dtype, given, use)
    try:
        return np.broadcast_to(np.asarray(given, dtype), shape)
    except (TypeError, ValueError):
        raise UsageError(f"{use}. It takes one value of {dtype}, or an array of shape {shape}.") from None
