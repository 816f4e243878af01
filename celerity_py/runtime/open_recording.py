# SPDX-License-Identifier: MIT
"""The recording that a program makes at this moment, which refuses calls that no replay could carry out again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.submissions import Site

if TYPE_CHECKING:
    from types import FrameType


class OpenRecording:
    """Open while its function runs, on the thread that makes it.

    Args:
        name: That of the function.
        frame: The call of `Queue.record`.
    """

    def __init__(self, name: str, frame: FrameType) -> None:
        self.name = name
        self.site = Site(frame)
        self.thread = threading.get_ident()

    def refuse_another(self, opened: OpenRecording) -> NoReturn:
        """Refuse a recording before this one has ended.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"queue.record({opened.name}) was called while the recording of {self.name!r} (called at {self.site}) is "
            f"under way. Recordings do not nest: record one function after the other, or one function that calls both."
        )

    def refuse(self, call: str) -> NoReturn:
        """Refuse a call of the function.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"{call} was called inside of {self.name!r}, which queue.record() runs (called at {self.site}). A "
            f"recording holds kernels and host tasks only: do this before queue.record(), or after it."
        )
