# SPDX-License-Identifier: MIT
"""The parameters of recordings: a plain value that `Queue.replay` may change."""

from __future__ import annotations

from typing import Any, NoReturn

from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.refused_operators import ARRAY_ATTRIBUTES, StandsForArray


class Parameter(StandsForArray):
    """Stands for a value of `queue.record(function, name=value)` while the function runs.

    Tasks get the value itself. Whatever the function computes with it would stay the same in each replay, so every
    other use is refused.

    Attributes:
        name: As the call of `record` has it.
        given: The value of the recording.
        uses: The lists of arguments of which it is one, with its position there.
    """

    __slots__ = ("_function", "given", "is_open", "name", "uses")

    def __init__(self, name: str, given: Any, function: str) -> None:
        self.name = name
        self.given = given
        self.uses: list[tuple[list[Any], int]] = []
        #: Until the recorded function ends.
        self.is_open = True
        self._function = function

    def hand_on(self, arguments: list[Any]) -> Any:
        """The value for a task, as its next argument.

        Raises:
            UsageError: If the recorded function has ended.
        """
        if not self.is_open:
            self._refuse("kept until the function had ended, and handed on then")
        self.uses.append((arguments, len(arguments)))
        return self.given

    def __repr__(self) -> str:
        return f"<parameter {self.name}={self.given!r} of a recording>"

    def __str__(self) -> NoReturn:  # noqa: PLE0307 - raises
        self._refuse("made a text")

    def __format__(self, specification: str) -> NoReturn:
        self._refuse("made a text")

    def __hash__(self) -> NoReturn:  # noqa: PLE0309 - raises
        self._refuse("used as a key")

    def __getattr__(self, name: str) -> NoReturn:
        if name and (name in ARRAY_ATTRIBUTES or not name.startswith("_")):
            self._refuse(f"asked for its .{name}")
        raise AttributeError(name)

    def _refuse(self, use: str) -> NoReturn:
        raise UsageError(self._explain(use))

    def _explain(self, use: str) -> str:
        name = self.name
        return (
            f"The parameter {name} of queue.record({self._function}, {name}={self.given!r}) was {use}. A replay with "
            f"another value could not repeat that. Hand {name} on to kernels and host tasks as an argument of its own, "
            f"as it is, and compute there; or record the result as a parameter, too."
        )
