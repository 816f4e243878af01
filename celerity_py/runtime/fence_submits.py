# SPDX-License-Identifier: MIT
"""Submits of fences, whose arguments are checked: the array for the result, the submission, and the future."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py.calls.views import address_of
from celerity_py.cuda.device_arrays import new_device_array
from celerity_py.runtime.dry_results import fill_result
from celerity_py.runtime.futures import Future
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py._native import Box
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.side_effects import Ordered


def submit_fence(
    runtime: Runtime,
    record: BufferRecord,
    box: Box,
    on_all: bool,
    frame: FrameType,
    *,
    kind: type[Future[Any]] = Future,
    to_device: bool = False,
    priority: int = 0,
    in_dry_run: np.ndarray[Any, Any] | None = None,
) -> Future[Any]:
    """Copy a box of a buffer to a fresh array, as soon as everything submitted so far has written it.

    A dry run fills the array with `in_dry_run`, or with zeros.
    """
    future = runtime.new_future(kind)
    takes_part = on_all or runtime.rank == 0
    shape = box.shape if record.box else record.shape
    array: Any = None
    address = 0
    if takes_part and to_device and runtime.devices.is_cuda:
        array, address = new_device_array(runtime.devices.ordinals[0], shape, record.dtype)
    elif takes_part:
        array = np.empty(shape, record.dtype)
        address = address_of(array)
    future.array = array
    future.is_for_all = on_all
    submission = Submission("fence", record.label, None, [], box, frame, future)
    future.subject = submission.label
    runtime.submitter.submit_fence(submission, record.id, box, address, on_all, to_device, priority)
    runtime.poison_late(future)
    if runtime.is_dry and takes_part:
        fill_result(record, array, in_dry_run, frame)
    if runtime.is_dry or not takes_part:
        future.fulfil(future.array)
    return future


def submit_object_fence(
    runtime: Runtime, host_object: Ordered, on_all: bool, frame: FrameType, priority: int = 0, *, in_dry_run: Any = None
) -> Future[Any]:
    """Get the object, or `in_dry_run`, as soon as everything submitted so far has used it."""
    future = runtime.new_future()
    takes_part = on_all or runtime.rank == 0
    result = in_dry_run if runtime.is_dry and in_dry_run is not None else host_object.obj
    future.array = result if takes_part else None
    future.is_for_all = runtime.size == 1
    submission = Submission("fence", host_object.label, None, [host_object], None, frame, future)
    future.subject = submission.label
    runtime.submitter.submit_object_fence(submission, host_object.id, on_all, priority)
    runtime.poison_late(future)
    if runtime.is_dry or not takes_part:
        future.fulfil(future.array)
    return future
