# SPDX-License-Identifier: MIT
"""Python's record of a task until it is retired: function, arguments, future, and the line that submitted it."""

from __future__ import annotations

import inspect
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from celerity_py._native import SubmissionRecord, keep_temporary_memory
from celerity_py.executor.failures.user_frames import name_of_file
from celerity_py.vocabulary.notation import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from celerity_py._native import Box


class Site:
    """A line of the user's program; the line number is looked up when somebody asks, which is rarely."""

    __slots__ = ("code", "lasti")

    def __init__(self, frame: FrameType) -> None:
        self.code: CodeType = frame.f_code
        self.lasti: int = frame.f_lasti

    @property
    def line(self) -> int:
        """The line number."""
        return line_of(self.code, self.lasti)

    def __str__(self) -> str:
        return f"{printable(name_of_file(self.code.co_filename))}:{self.line}"


def line_of(code: CodeType, lasti: int) -> int:
    """The line of the instruction at byte offset `lasti`."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno


class Submission(SubmissionRecord):
    """One entry of the table of submissions.

    Holds no `Buffer`: the graphs keep data alive, and handles die when the user drops them, on every rank alike.
    """

    #: Of the submit: context variables, such as NumPy's error state; None if there are none.
    context: Context | None
    #: The values from outside that the function uses, as they were; `outer_variables` knows their types. None: none.
    outside: Any
    #: The `FusedFunction` of which native code may make a kernel; None: Python calls `function`.
    fused: Any

    __slots__ = ()

    def __init__(  # noqa: PLR0917 - a record
        self,
        kind: str,
        name: str,
        function: Any,
        args: list[Any],
        box: Box | None,
        frame: FrameType,
        future: Any = None,
    ) -> None:
        self.kind = kind
        #: As messages show it.
        self.name = name
        self.function = function
        #: As for the kernel, but with ports in the place of accesses and reductions.
        self.args = args
        #: The whole index space.
        self.box = box
        self.code = frame.f_code
        self.lasti = frame.f_lasti
        self.future = future
        self.context = None
        self.outside = None
        self.fused = None

    @property
    def site(self) -> str:
        """The line that submitted it, as "file:line"."""
        return f"{printable(name_of_file(self.code.co_filename))}:{self.line}"

    @property
    def line(self) -> int:
        """The number of that line."""
        return line_of(self.code, self.lasti)

    @property
    def label(self) -> str:
        """Kind and name."""
        return f"fence of {self.name}" if self.kind == "fence" else f'{self.kind} "{self.name}"'

    @property
    def subject(self) -> str:
        """As the subject of a sentence about a failure."""
        return f"the {self.label}" if self.kind == "fence" else f"task '{self.name}'"

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(*arguments), with the context variables of the submit. Any thread of the executor."""
        if self.context is None:
            keep_temporary_memory()
            return function(*arguments)
        # A copy: two threads cannot enter one context at once.
        context = self.context.copy()
        context.run(keep_temporary_memory)
        return context.run(function, *arguments)

    def name_of_argument(self, port: Any, otherwise: str) -> str:
        """The name that the task's function gives to one of its arguments.

        Args:
            port: In the list of arguments.
            otherwise: The name in a message if that cannot be told.
        """
        try:
            names = list(inspect.signature(self.function).parameters)
            position = next(number for number, arg in enumerate(self.args, 1) if arg is port)
            return names[position]
        except (ValueError, TypeError, IndexError, StopIteration):  # such as `*args`
            return otherwise

    def describe(self) -> str:
        """Kind, name and origin, as the subject of an error message."""
        return f"{self.label} (submitted at {self.site})"
