# SPDX-License-Identifier: MIT
"""The text of an exception that the program does not catch: each line of the program, and each message, once.

The error of a failed run repeats the message of the exception that a task raised, its cause. Of this exception, only
the frames are printed. Each later call raises the same failure again, as cells of a notebook do: its text is one line.
"""

from __future__ import annotations

import re
import traceback
from typing import Final

from celerity_py.executor.failures.failure import describe_error, format_user_frames
from celerity_py.executor.failures.user_frames import is_library, name_of_file, trim_chain
from celerity_py.scheduler.errors import CelerityError

#: Between the frames of the task and those of the call that raised.
_CALL: Final = "\nIt ended the run, and this call of the program raises it:\n\n"
#: Of a frame in a traceback.
_FILE: Final = re.compile(r'^  File "(.*)", line', re.MULTILINE)
#: In the attributes of the cause of an error, once its frames have been printed.
_IS_TOLD: Final = "_celerity_is_told"


def format_error(error: CelerityError) -> list[str]:
    """The lines of an error, from its first frame to its message. Trims the tracebacks of the error and its causes."""
    trim_chain(error)
    cause = error.__cause__
    if cause is None or not _repeats(error, cause):
        return traceback.format_exception(error)
    frames = format_user_frames(cause)
    return [*frames, *([_CALL] if frames else []), *traceback.format_exception(error, chain=False)]


def format_error_once(error: CelerityError) -> list[str]:
    """As `format_error`; only the message if the cause has been printed before, in a session that goes on."""
    cause = error.__cause__
    if cause is not None and _repeats(error, cause):
        if _IS_TOLD in cause.__dict__:
            return traceback.format_exception_only(error)
        cause.__dict__[_IS_TOLD] = True
    return format_error(error)


def render_in_notebook(error: CelerityError) -> list[str]:
    """The lines that IPython prints in the place of its own, without the frames of IPython."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and is_library(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace
    return [_FILE.sub(_show_file, line.rstrip("\n")) for line in format_error_once(error)]


def _repeats(error: BaseException, cause: BaseException) -> bool:
    """Whether the message of an error has all that the message of its cause has."""
    message = str(error)
    return any(text.rstrip(".") in message for text in (describe_error(cause), str(cause)) if text)


def _show_file(frame: re.Match[str]) -> str:
    name = name_of_file(frame[1])
    return frame[0] if name == frame[1] else f"  {name}, line"
