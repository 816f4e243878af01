# SPDX-License-Identifier: MIT
"""The line of the user's function in messages, and the error for what is not taken yet."""

from __future__ import annotations

import sys
from pathlib import PurePath
from types import FrameType
from typing import Final

from celerity_py.executor.failures.user_frames import name_of_file

_OWN: Final = (str(PurePath(__file__).parent.parent), f"{PurePath(sys.modules['numpy'].__file__ or 'numpy').parent}")


class NotTakenError(NotImplementedError):
    """Correct text of a kernel that the maker cannot fuse yet; it never makes something else of it."""


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
