# SPDX-License-Identifier: MIT
"""Arrays of the program as initial contents of buffers: their place, their checks, and the boxes of other ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py import _native
from celerity_py._native import Box, Region
from celerity_py.cuda.device_arrays import contiguous_on_device, converted_on_device, is_cupy_dtype, ordinal_of
from celerity_py.runtime import lifecycle
from celerity_py.runtime.collective_groups import CollectiveSubmission
from celerity_py.runtime.fence_submits import submit_object_fence
from celerity_py.runtime.user_memory import UserArray
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.vocabulary.foreign_arrays import is_foreign, lies_on_gpu, to_numpy, untakable
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.type_rules import can_take, describe_value, refuse_masked, refuse_value

if TYPE_CHECKING:
    from celerity_py.runtime.collective_groups import CollectivePart
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord

_GROUP = "celerity.exchange"


def take_array(array: Any, use: str, *, copy: bool) -> UserArray:
    """A contiguous array with the contents of an array, on a GPU of this rank if they lie there, else on the host.

    Args:
        array: Of NumPy, of a library with DLPack, or whatever else NumPy makes arrays of.
        use: Who got the array from where, as the beginning of a sentence.
        copy: Whether the program may change the array afterwards.

    Raises:
        ArgumentTypeError: If it is a masked array, or one that neither NumPy nor CuPy can take.
    """
    refuse_masked(array, use)
    if is_foreign(array.__class__) and lies_on_gpu(array):
        devices = lifecycle.current().devices
        ordinal = ordinal_of(array)
        if ordinal in devices.ordinals:
            try:
                taken, is_same = contiguous_on_device(array, ordinal, copy=copy)
            except Exception as error:
                remedy = "cupy.asarray(array) or tensor.detach()"
                raise untakable(array, use, error, "CuPy", remedy) from error
            return UserArray(taken, not copy and is_same, devices.ordinals.index(ordinal))
    given = to_numpy(array, use)
    contents = np.array(given, order="C", copy=True) if copy else np.asarray(given, order="C")
    return UserArray(contents, not copy and np.may_share_memory(contents, given))


def take_parts(parts: Any, record: BufferRecord, *, copy: bool) -> list[tuple[Box, UserArray]]:
    """The boxes of this rank for `Buffer.from_local`, without empty ones, and contiguous arrays of the buffer's dtype.

    Raises:
        ArgumentTypeError: If the parts are no pairs of a box and an array.
        DimensionMismatch: If a box has other dimensions than the buffer.
        UsageError: If a box leaves the buffer, an array has another shape or does not convert, or two boxes overlap.
    """
    who = f"Buffer.from_local() of {_title(record)}"
    taken: list[tuple[Box, UserArray]] = []
    for box, array in _pairs(parts, who):
        if box.ndim != len(record.shape):
            raise DimensionMismatch(f"{who} got {box!r}, but the buffer has {len(record.shape)} dimension(s).")
        if box not in record.box:
            raise UsageError(f"{who} got the box {show(box)}, which leaves the buffer {show(record.box)}.")
        if not box:
            continue
        given = take_array(array, f"{who} got for {show(box)}", copy=copy)
        shape, dtype = given.array.shape, given.array.dtype
        number, wanted = record.dtype.base, (*box.shape, *record.dtype.shape)
        if shape != wanted:
            of_element = f" and element={record.dtype.shape}" if record.dtype.shape else ""
            raise UsageError(
                f"{who} got an array of shape {shape} for the box {show(box)} of shape {box.shape}{of_element}."
            )
        if not can_take(number, given.array, checks_values=True):
            use = f"{who} got {describe_value(given.array)} for the box {show(box)}"
            refuse_value(number, given.array, use)
        taken.append((box, given if dtype == number else _convert(given, number)))
    _refuse_overlaps(who, [(f"box {number}", [box]) for number, (box, _) in enumerate(taken, 1)])
    return taken


def exchange_boxes(runtime: Runtime, record: BufferRecord, mine: Sequence[Box], frame: FrameType) -> list[list[Box]]:
    """The boxes of all ranks, which tell them each other. Collective: waits for the call of the other ranks.

    A collective host task carries the boxes, so that the ranks notice if one of them makes another call.

    Raises:
        UsageError: On all ranks, if boxes of two ranks overlap; or in a dry run, which has no other ranks.
    """
    who = f"Buffer.from_local() of {_title(record)}"
    runtime.check_usable("Buffer.from_local()")
    runtime.refuse_in_recording("Buffer.from_local()")
    corners = [(box.min, box.max) for box in mine]
    everyone = [corners]
    if runtime.size > 1:
        if runtime.is_dry:
            raise UsageError(
                f"{who} asks the other ranks for their boxes, which a dry run does not have. Use from_function() there."
            )
        everyone = exchange(runtime, corners, "from_local", frame)
    held = [[Box(low, high) for low, high in each] for each in everyone]
    _refuse_overlaps(who, [(f"rank {rank}", boxes) for rank, boxes in enumerate(held)])
    return held


def _title(record: BufferRecord) -> str:
    return f'"{record.name}"' if record.name else f"shape {record.shape}"


def _pairs(parts: Any, who: str) -> list[tuple[Box, Any]]:
    given: Any = parts.items() if isinstance(parts, Mapping) else parts
    pairs = list(given) if isinstance(given, Iterable) and getattr(given, "shape", None) != () else [given]
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0].__class__ is not Box:
            raise ArgumentTypeError(
                f"{who} takes a mapping from boxes to arrays, or pairs (Box, array), not {pair!r}. A rank without "
                f"contents passes []."
            )
    return pairs


def _convert(given: UserArray, dtype: np.dtype[Any]) -> UserArray:
    if given.device < 0:
        return UserArray(given.array.astype(dtype, order="C"), is_borrowed=False)
    if is_cupy_dtype(dtype):
        return UserArray(converted_on_device(given.array, dtype, given.array.device.id), False, given.device)
    return UserArray(np.asarray(given.array.get(), dtype, order="C"), is_borrowed=False)


def _refuse_overlaps(who: str, holders: list[tuple[str, list[Box]]]) -> None:
    """Refuse boxes of two holders that have common elements."""
    boxes = [box for _, held in holders for box in held]
    if Region(boxes).size == sum(box.size for box in boxes):
        return
    for (one, ours), (other, theirs) in combinations(holders, 2):
        for mine in ours:
            for yours in theirs:
                if common := mine & yours:
                    raise UsageError(
                        f"{who}: {one}, {show(mine)}, and {other}, {show(yours)}, overlap in {show(common)}. Pass each "
                        f"element once, on one rank; from_array() takes contents that all ranks have."
                    )


class _Told:
    """What a fence of a host object looks at."""

    def __init__(self, number: int, call: str) -> None:
        self.id = number
        self.obj: list[Any] = []
        self.label = f"what the ranks tell each other in {call}"


def exchange(runtime: Runtime, mine: Any, call: str, frame: FrameType) -> list[Any]:
    """The values of all ranks, by rank. Collective: waits for the call of the other ranks.

    Args:
        runtime: With several ranks.
        mine: The value of this rank, which can be pickled.
        call: Who asks, for messages.
        frame: The line of the program.
    """
    group = runtime.groups.find(_GROUP)
    told = _Told(group.host_object, call)
    submission = CollectiveSubmission("collective host task", call, _tell, [told, mine], group.box, frame)
    submission.group = group
    task = _native.Task.host_task(group.box, "split", False, None, [group.host_object])
    runtime.submitter.submit_own_task(submission, task, submission.name)
    runtime.groups.keep(group)
    everyone: list[Any] = submit_object_fence(runtime, told, True, frame).result()
    return everyone


def _tell(part: CollectivePart, told: _Told, mine: Any) -> None:
    told.obj += part.comm.allgather(mine)
