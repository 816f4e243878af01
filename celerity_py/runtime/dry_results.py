# SPDX-License-Identifier: MIT
"""The results of fences in a dry run, which computes nothing."""

from __future__ import annotations

import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py.scheduler.errors import CelerityWarning

if TYPE_CHECKING:
    from celerity_py.vocabulary.buffer_records import BufferRecord


def fill_result(record: BufferRecord, array: Any, contents: np.ndarray[Any, Any] | None, frame: FrameType) -> None:
    """Fill the result of a fence.

    Args:
        record: The buffer of the fence.
        array: The result, of NumPy or CuPy.
        contents: The values that the program has named, in the shape of the result; None means zeros, with a warning.
        frame: The line of the fence.
    """
    if contents is None:
        array[...] = np.zeros((), record.dtype)
        warnings.warn_explicit(
            f"The fence of {record.label} returns zeros: nothing is computed in a dry run. If the program goes on by "
            f"the values, name some: queue.fence(..., in_dry_run=1).",
            CelerityWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            registry=frame.f_globals.setdefault("__warningregistry__", {}),  # once per line, also in a loop
        )
    elif isinstance(array, np.ndarray):
        array[...] = contents
    else:
        array.set(np.ascontiguousarray(contents))
