# SPDX-License-Identifier: MIT
"""Calls of operations that combine partial results on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from celerity_py._native import CombineCall
from celerity_py.calls.binder import array_at
from celerity_py.executor.failures.failure import describe_error
from celerity_py.reductions.combinations import partial_shape
from celerity_py.scheduler.errors import TaskFailed
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.submissions import Submission


def combine_partials(record: BufferRecord, call: CombineCall, find: Callable[[int], Submission | None]) -> bool:
    """Combine partial results in their order.

    Args:
        record: Of the buffer.
        call: Where they lie.
        find: Gives the kernel of a reduction by its number, if it is known.

    Returns:
        Whether the result is that of nothing, and has no meaning.

    Raises:
        TaskFailed: If the operation raises, or returns another shape or dtype; its exception is the cause.
    """
    combination = record.combinations[call.callable]
    shape = partial_shape(record)
    partials = array_at(call.source, (call.num_partials, *shape), record.dtype)
    try:
        result = combination.reduce(partials)
    except BaseException as error:
        submission = find(call.reduction)
        who = "A reduction" if submission is None else f"{submission.describe()}: the reduction"
        raise TaskFailed(
            f"{who} into {record.label} failed when {combination.name} combined {call.num_partials} partial results "
            f"of shape {shape} and {record.dtype}: {describe_error(error)}"
        ) from error
    if (
        record.dtype.names is not None
    ):  # NumPy copies fields, and leaves the bytes between them, which are to be equal too
        array_at(call.destination, (result.nbytes,), np.dtype(np.uint8))[...] = 0
    array_at(call.destination, shape, record.dtype)[...] = result
    return bool(call.is_all_of_it) and combination.has_value_of_nothing and combination.is_of_nothing(result)
