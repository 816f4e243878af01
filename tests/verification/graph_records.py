# SPDX-License-Identifier: MIT
"""The output of one rank's generators, as the plain records of `_native_testing.GraphContext`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.verification.elements import UserBox

Record: TypeAlias = dict[str, Any]


@dataclass
class Trace:
    """All that one rank's generators said, in order."""

    rank: int
    tasks: list[Record] = field(default_factory=list)
    commands: list[Record] = field(default_factory=list)
    instructions: list[Record] = field(default_factory=list)
    buffer_numbers: dict[int, int] = field(default_factory=dict)
    """Program's number of a buffer, by the id that records use."""
    user_allocations: dict[int, tuple[Literal["buffer", "fence"], int]] = field(default_factory=dict)
    """Number of an array of the user -> the buffer (by number) that it initialises, or the fence (by submission) that
    fills it."""
    array_places: dict[int, tuple[int, UserBox]] = field(default_factory=dict)
    """Number of an array of the user that initialises a buffer -> its memory, and its box of the buffer."""
    is_finished: bool = False
    """The shutdown epoch was submitted, so that nothing may be left over."""

    def submission_of_task(self) -> dict[int, int]:
        """Horizons, which no one submitted, have 0."""
        return {task["id"]: 0 if task["kind"] == "horizon" else task["submission"] for task in self.tasks}
