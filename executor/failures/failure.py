# SPDX-License-Identifier: MIT
"""The failure of a run, in a form that every rank can print."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import traceback
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from celerity_py.executor.failures.missing_attributes import explain_missing
from celerity_py.executor.failures.user_frames import is_library, is_ours, name_of_file, trim_frames
from celerity_py.executor.network.communicator import NOTICE_LIMIT_BYTES
from celerity_py.scheduler.errors import CelerityError, TaskFailed

if TYPE_CHECKING:
    from collections.abc import Callable

# The room for texts in a notice, in bytes of JSON, which takes up to 12 per character. The rest is punctuation.
_LONGEST_TEXT: Final = NOTICE_LIMIT_BYTES * 5 // 8
_LONGEST_TASK: Final = NOTICE_LIMIT_BYTES // 8
_LONGEST_SITE: Final = NOTICE_LIMIT_BYTES // 5
#: The advice of every call after a failure that ends the process.
WHAT_THEN: Final = (
    "Nothing more runs in this process: mend the cause and start the program again (in a notebook: restart the kernel)."
)
#: The advice of every call after a failure that ends the runtime only.
HOW_TO_GO_ON: Final = (
    "This queue is lost; buffer.recover() gives what its buffers hold. Mend the cause and start the program again (in "
    "a notebook: run the cells that make the queue and the buffers again)."
)


class RemoteFailure(TaskFailed):
    """Another rank failed. This replaces the exception that was raised there."""


@dataclass(frozen=True)
class Failure:
    """The first failure of a run, as this rank got to know it."""

    rank: int  # where it happened
    text: str  # type and message of the exception
    task: str = ""  # its name in messages; empty outside of tasks
    site: str = ""  # "file:line" that submitted the task, or that raised
    submission: int | None = None
    error: BaseException | None = None  # None: it happened on another rank
    exit_status: int = 1
    identity: str = ""  # `identity_of` an exception that the program has not caught
    _remote: RemoteFailure = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_remote", RemoteFailure(self.message()))

    @property
    def is_remote(self) -> bool:
        """Whether it happened on another rank."""
        return self.error is None

    def exception(self) -> BaseException:
        """Return the cause of the exceptions that later calls raise; the same object every time."""
        return self._remote if self.error is None else self.error

    def message(self, teller: int | None = None, *, is_told: bool = False) -> str:
        """Describe place and failure in one line.

        Args:
            teller: The rank whose name stands before the message; not repeated if it is the one that failed.
            is_told: The exception has been printed just before.
        """
        rank = "" if teller == self.rank else f"rank {self.rank}"
        if not self.task:
            where = rank or "the program"
            site = f" at {self.site}" if self.site else ""
        else:
            where = f"{rank}: {self.task}" if rank else self.task
            site = f" (submitted at {self.site})" if self.site and self.site not in self.text else ""
        return f"{where} failed{site}: {'as told above' if is_told else self.text}"

    def repeats(self, error: BaseException) -> bool:
        """Whether an uncaught exception of this rank's program is the one that has ended another rank's program."""
        return self.is_remote and self.identity != "" and self.identity == identity_of(error)

    def encode(self) -> bytes:
        """Pack the failure into a notice for other ranks."""
        text, task = _cut(self.text, _LONGEST_TEXT), _cut(self.task, _LONGEST_TASK)
        site = _cut(self.site[::-1], _LONGEST_SITE)[::-1]
        record = [self.rank, text, task, site, self.exit_status, self.identity]
        return json.dumps(record).encode("ascii")


def _cut(text: str, limit_bytes: int) -> str:
    """Keep the beginning that JSON encodes with no more than `limit_bytes`."""
    text = text[:limit_bytes]
    if len(json.dumps(text)) - 2 <= limit_bytes:
        return text
    sizes = accumulate(len(json.dumps(character)) - 2 for character in text)
    return text[: sum(size <= limit_bytes for size in sizes)]


def decode_failure(content: bytes) -> Failure:
    """Unpack a failure that `Failure.encode` has packed on another rank."""
    rank, text, task, site, exit_status, identity = json.loads(content)
    return Failure(rank, text, task, site, exit_status=exit_status, identity=identity)


def attempt(step: Callable[..., object], *arguments: object) -> None:
    """Take one step of the handling of a failure. If it raises, print the exception; the other steps follow."""
    try:
        step(*arguments)
    except BaseException:  # noqa: BLE001 - the code of users runs here, such as __str__ of exceptions
        with contextlib.suppress(BaseException):
            traceback.print_exc()


def describe_error(error: BaseException) -> str:
    """Type, message and notes of an exception; of a plain `CelerityError` without the type. Does not raise."""
    kind = type(error).__name__
    try:
        text = explain_missing(error) or str(error)
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        text = ". ".join(part.strip().rstrip(".") for part in (text, *notes) if part) + "." if notes else text
    except BaseException as second:  # noqa: BLE001 - a class of the user
        return f"{kind}, whose message cannot be told: its __str__ raised {type(second).__name__}"
    if not text:
        return kind
    return text if type(error) is CelerityError else f"{kind}: {text}"


def identity_of(error: BaseException) -> str:
    """Equal on all ranks for exceptions of one class, with the same contents, that the same line has raised.

    Empty if that cannot be told. Does not raise.
    """
    try:
        kind = type(error)
        contents = error.__reduce__()[1:]  # the parts of a pickled exception
        text = f"{kind.__module__}.{kind.__qualname__} {contents!r} {_find_user_line(error)}"
        return hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).hexdigest()
    except BaseException:  # noqa: BLE001 - a class of the user
        return ""


def make_failure(rank: int, error: BaseException, **details: Any) -> Failure:
    """The failure for an exception of this rank, without parts that cannot be printed. Does not raise.

    Args:
        rank: This rank.
        error: The exception.
        details: Other fields of `Failure`.
    """
    try:
        return Failure(rank, describe_error(error), error=error, **details)
    except BaseException:  # noqa: BLE001 - such as MemoryError
        return Failure(rank, "an exception of which nothing can be told", error=error)


def find_user_line(error: BaseException) -> str:
    """Return "file:line" of the innermost frame of the program, not of a library, or an empty string."""
    try:
        return _find_user_line(error)
    except Exception:  # noqa: BLE001 - files may have any name, and be gone
        return ""


def _find_user_line(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_ours(frame.filename)]
    own = [frame for frame in frames if not is_library(frame.filename)]
    return "".join(f"{name_of_file(frame.filename)}:{frame.lineno}" for frame in (own or frames)[-1:])


def format_user_frames(error: BaseException) -> list[str]:
    """Format the traceback of an exception, without our frames around those of the program.

    The line with the exception itself is left out, since the failure's message repeats it, unless there is a chain.
    """
    trace = trim_frames(error.__traceback__)
    if trace is None or is_ours(trace.tb_frame.f_code.co_filename):
        return [] if error.__cause__ is None else format_user_frames(error.__cause__)
    if error.__cause__ is not None or error.__context__ is not None:
        return traceback.format_exception(type(error), error, trace)
    return ["Traceback (most recent call last):\n", *traceback.format_tb(trace)]


def print_whole(text: str) -> None:
    """Write to standard error in one piece, so that a launcher does not mix it with the output of other ranks."""
    content = text.encode(errors="backslashreplace")
    try:
        sys.stderr.flush()
        file = sys.stderr.fileno()
        while content:
            content = content[os.write(file, content) :]
    except (AttributeError, OSError, ValueError):  # no file, such as that of a notebook, or closed
        if sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(text)


def is_caused_by(error: BaseException | None, origin: BaseException) -> bool:
    """Whether `origin` is `error` or one of the exceptions that it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if error is origin:
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
