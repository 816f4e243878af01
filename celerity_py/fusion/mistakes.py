# SPDX-License-Identifier: MIT
"""What a fused kernel does not take: the errors, also those that the user's function catches, and its line in them.

With arrays of NumPy the function would not meet these errors. If it catches one and goes on, a kernel of what it does
then would do something else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import PurePath
from types import FrameType
from typing import Any, Final, TypeVar

from celerity_py.executor.failures.user_frames import name_of_file
from celerity_py.scheduler.errors import CelerityError, UsageError

_OWN: Final = (str(PurePath(__file__).parent.parent), f"{PurePath(sys.modules['numpy'].__file__ or 'numpy').parent}")

_Class = TypeVar("_Class", bound=type)


def shown_as(name: str) -> Callable[[_Class], _Class]:
    """A decorator that gives a class the name by which a user knows it, for messages of Python."""

    def rename(made: _Class) -> _Class:
        made.__name__ = made.__qualname__ = name
        return made

    return rename


class _Traced(threading.local):
    """The function that the thread traces."""

    #: Its task, in messages; empty while the thread traces nothing.
    who: str = ""
    #: The first error for something that is not taken.
    first: UsageError | NotTakenError | None = None

    def note(self, error: UsageError | NotTakenError) -> None:
        """Something is not taken."""
        if self.who and self.first is None:
            self.first = error

    def end(self) -> UsageError | NotTakenError | None:
        """The call is over. Returns its first error."""
        first, self.who, self.first = self.first, "", None
        return first


_traced: Final = _Traced()


class NotTakenError(NotImplementedError):
    """Correct text of a kernel that the maker cannot fuse yet; it never makes something else of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        _traced.note(self)


def refusal(text: str) -> UsageError:
    """Make the error for what no fused kernel takes, to be raised in the function that is traced."""
    error = UsageError(f"{_traced.who}: {text}" if _traced.who else text)
    _traced.note(error)
    return error


def trace_call(who: str, function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, traced for the task `who`.

    Raises:
        UsageError: If the function does what no fused kernel takes, also if it catches the error of that.
        NotTakenError: If it does what is not fused yet, likewise.
    """
    _traced.who = who
    try:
        result = function(*args)
    except BaseException as error:
        first = _traced.end()
        if first is None or isinstance(error, CelerityError | NotTakenError) or not isinstance(error, Exception):
            del first  # it would keep this frame, and that the error
            raise
        try:
            raise first from None  # a function of a library has made another error of it
        finally:
            del first
    first = _traced.end()
    if first is None:
        return result
    try:
        if isinstance(first, NotTakenError):
            raise first
        raise UsageError(
            f"{first} The function has caught this error and gone on. Arrays of NumPy may not raise it, and then the "
            f"results would differ. Leave this line out of `try`."
        )
    finally:
        del first


def user_frame() -> FrameType | None:
    """The innermost frame that belongs neither to this package nor to NumPy. Only while the function is traced."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """The line of the user's function that runs, as "file:line"."""
    frame = user_frame()
    return "an unknown line" if frame is None else f"{name_of_file(frame.f_code.co_filename)}:{frame.f_lineno}"


def at_line() -> str:
    """The same, as the part of a sentence."""
    return f"(at {user_line()})"
