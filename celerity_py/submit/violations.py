# SPDX-License-Identifier: MIT
"""Turns what the native scheduler objects to at submit into errors that name the task, the buffers and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celerity_py import _native
from celerity_py.scheduler.errors import (
    DimensionMismatch,
    InconsistentMapper,
    OutOfBoundsAccess,
    OverlappingAccess,
    UsageError,
)
from celerity_py.vocabulary.accesses import MODE_NAMES, Access, describe
from celerity_py.vocabulary.submissions import Submission

_CLASSES: dict[str, type[UsageError]] = {
    "dimensions": DimensionMismatch,
    "overlap": OverlappingAccess,
    "incomplete_union": InconsistentMapper,
    "bounds": OutOfBoundsAccess,
    "alias": OverlappingAccess,
}


def translate(error: BaseException, submission: Submission, args: Sequence[Any]) -> BaseException:
    """The error to raise in the place of `error`; anything but access pattern errors is returned as it is.

    Args:
        error: What a native submit raised.
        submission: What was to be submitted.
        args: The arguments of the task as the user gave them.
    """
    if not isinstance(error, _native.AccessPatternError):
        return error
    kind, index, _, text, _ = error.args
    given = [arg for arg in args if isinstance(arg, Access)]
    subject = submission.label
    if 0 <= index < len(given):
        # The scheduler knows a callable only as a table.
        native = submission.natives[index][2].describe()
        text = text.replace(native, describe(given[index].mapper))
        if kind in {"dimensions", "bounds"}:
            mode = MODE_NAMES[given[index].port.mode]
            subject = f"{subject}, {mode} access to {given[index].port.record.label} by {describe(given[index].mapper)}"
    return _CLASSES.get(kind, UsageError)(f"{subject}: {text.rstrip('. ')}. Nothing was submitted.")
