# SPDX-License-Identifier: MIT
"""The words for calls of several threads whose order is left to chance, which several ranks must not have."""

from __future__ import annotations

import threading
from typing import NoReturn

from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.submissions import Submission


def refuse_turn(num_ranks: int, what: Submission | str, other: str) -> NoReturn:
    """Refuse a call of this thread.

    Args:
        num_ranks: Of the run.
        what: The call.
        other: The name of the thread that has submitted last.

    Raises:
        UsageError: Always.
    """
    call = what.describe() if isinstance(what, Submission) else what
    raise UsageError(
        f"{call} comes from thread {threading.current_thread().name!r}, and the call before it came from thread "
        f"{other!r}. The two run at the same time, so chance decides which one is first, and all {num_ranks} ranks "
        f"must make these calls in the same order. Submit from one thread, or start a thread only after join() of the "
        f"one before. Nothing was submitted."
    )
