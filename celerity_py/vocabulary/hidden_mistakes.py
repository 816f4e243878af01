# SPDX-License-Identifier: MIT
"""Accesses outside of what a task declares, also those whose exception the function of the task catches.

What lies outside depends on the division of the index space. A function that catches the exception and goes on
therefore has a result that depends on the number of devices.
"""

from __future__ import annotations

from typing import Any, Final

from celerity_py.scheduler.errors import OutOfBoundsAccess

#: By the id of a task: the task, which so keeps its id, and the text of the error. Any thread.
FOUND: Final[dict[int, tuple[Any, str]]] = {}


def out_of_bounds(owner: Any, text: str) -> OutOfBoundsAccess:
    """Make the error for an access outside, to be raised in the function of the task `owner`."""
    FOUND[id(owner)] = owner, text
    return OutOfBoundsAccess(text)


def forget(owner: Any) -> None:
    """The error ends the call of the task's function."""
    FOUND.pop(id(owner), None)


def refuse_hidden(owner: Any) -> None:
    """Called when the function of a task has returned, if some task has an entry in `FOUND`.

    Raises:
        OutOfBoundsAccess: If the function has caught one.
    """
    _, text = FOUND.pop(id(owner), (None, ""))
    if text:
        raise OutOfBoundsAccess(
            f"{text} The function has caught this error and gone on, but what lies outside, and so the result, depends "
            f"on how the index space is divided. Intersect the index with view.box or view.shape_box instead of `try`."
        )
