# SPDX-License-Identifier: MIT
"""Side effects: the arguments of host tasks that host objects make."""

from __future__ import annotations

from typing import Any, Protocol


class Ordered(Protocol):
    """An object that tasks use one after the other, such as a host object."""

    id: int
    obj: Any

    @property
    def label(self) -> str:
        """The object in messages."""


class SideEffect:
    """An argument of a host task, in whose place the task gets the object; made by `host_object.side_effect()`."""

    __slots__ = ("host_object",)

    def __init__(self, host_object: Ordered) -> None:
        #: Lives as long as the task may use it.
        self.host_object = host_object

    def __repr__(self) -> str:
        return f"<side effect on {self.host_object.label}>"
