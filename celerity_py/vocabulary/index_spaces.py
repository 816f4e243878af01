# SPDX-License-Identifier: MIT
"""Index spaces of tasks, as they are given to a submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celerity_py._native import Box
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.vocabulary.integers import to_ints
from celerity_py.vocabulary.notation import show

if TYPE_CHECKING:
    from celerity_py.vocabulary.submissions import Submission

_MAX_CACHED = 4096
_ITEMS_LIMIT = 2**63  # areas are signed 64-bit numbers

#: The boxes of earlier index spaces, by the argument of the submit.
#: The submitter looks up plain shapes only: True equals 1.
boxes: dict[Any, Box] = {}


class NothingToDo(Exception):  # noqa: N818 - no error: it ends a submit that is right, and that has no items
    """Raised by a submit over an empty index space, when its arguments have been checked. Nothing was submitted.

    Args:
        submission: The task that does not run.
    """

    def __init__(self, submission: Submission) -> None:
        super().__init__(submission.label)
        self.submission = submission


def box_of(shape: Any, who: str) -> Box:
    """An index space, which may be empty."""
    if isinstance(shape, range):
        ends = (shape.start, shape.stop)
        remedy = f"{ends[1]}" if ends[0] == 0 else f"Box(({ends[0]},), ({ends[1]},))"
        raise ArgumentTypeError(f"{who}: an index space is no range, but its extents: write {remedy} for {shape!r}.")
    if not isinstance(shape, Box):
        try:
            extents = to_ints(shape)
        except TypeError:
            raise ArgumentTypeError(
                f"{who}: an index space is an int, a tuple of ints, or a Box, not {shape!r}."
            ) from None
        if len(extents) > 3:
            raise DimensionMismatch(
                f"{who}: an index space has at most 3 dimensions, but {extents} has {len(extents)}."
            )
        if any(extent < 0 for extent in extents):
            raise UsageError(f"{who}: the extents of an index space are 0 or more, but {extents} has a negative one.")
    shown = show(shape) if isinstance(shape, Box) else extents
    try:
        box = shape if isinstance(shape, Box) else Box((0,) * len(extents), extents)
        num_items = box.size
    except UsageError:
        raise UsageError(f"{who}: an index space has fewer than 2**63 items, but {shown} has more.") from None
    if num_items == 0:
        return box  # not kept: each submit takes the path that finds it empty
    try:
        if len(boxes) >= _MAX_CACHED:
            boxes.clear()
        boxes[shape] = box
    except TypeError:  # a list
        pass
    return box


def granularity_of(constrain: Any, box: Box, who: str) -> tuple[int, ...]:
    """The `constrain` argument of a kernel, one positive int per dimension.

    Raises:
        UsageError: If it is something else.
    """
    try:
        given = to_ints(constrain)
    except TypeError:
        raise ArgumentTypeError(f"{who}: constrain= takes one int per dimension, not {constrain!r}.") from None
    if len(given) != box.ndim:
        raise DimensionMismatch(
            f"{who}: constrain= takes one int per dimension of the index space {show(box)}, which has {box.ndim}, "
            f"but {constrain!r} has {len(given)}."
        )
    if not all(1 <= extent < _ITEMS_LIMIT for extent in given):
        raise UsageError(f"{who}: constrain= takes positive ints below 2**63, not {constrain!r}.")
    return given
