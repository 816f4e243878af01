# SPDX-License-Identifier: MIT
"""Turns what the native scheduler objects to at submit into errors that name the task, the buffers and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celerity_py._native import RangeMapper
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


def explain(error: BaseException, submission: Submission, args: Sequence[Any]) -> UsageError:
    """The error of a task whose declared accesses contradict each other.

    Args:
        error: A `_native.AccessPatternError`.
        submission: What was to be submitted.
        args: The arguments of the task as the user gave them.
    """
    kind, index, _, text, _ = error.args
    given = [arg for arg in args if isinstance(arg, Access)]
    subject = submission.label
    if 0 <= index < len(given):
        mapper = given[index].mapper
        if not isinstance(mapper, RangeMapper):
            text = text.replace("callable", describe(mapper))
        if kind in {"dimensions", "bounds"}:
            mode = MODE_NAMES[given[index].port.mode]
            subject = f"{subject}, {mode} access to {given[index].port.record.label} by {describe(mapper)}"
    return _CLASSES.get(kind, UsageError)(f"{subject}: {text.rstrip('. ')}. Nothing was submitted.")
