# SPDX-License-Identifier: MIT
"""The shares of the multiprocessors that queues ask for: one split for each run, and each priority is in one part."""

from __future__ import annotations

import os
import threading
from typing import Final

from celerity_py.scheduler.errors import ResourceError, UsageError

#: Of MPS. The driver may then run kernels of a green context on as many multiprocessors as the process may use.
_MPS_LIMIT: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


class Shares:
    """What the queues of a run have asked for so far. The same on all ranks, as they make the same queues."""

    def __init__(self) -> None:
        #: Of each GPU; None without a split.
        self.share: float | None = None
        #: One queue at a time is checked, made and noted.
        self.lock = threading.Lock()
        #: By priority; None for the queues that use the rest.
        self._of_priority: dict[int, float | None] = {}

    def check(self, priority: int, share: float | None, num_submissions: int) -> None:
        """Check a new queue against the earlier ones.

        Args:
            priority: Of the new queue.
            share: Of the new queue, above 0 and below 1; None if it asks for none.
            num_submissions: Of this run so far.

        Raises:
            UsageError: If the queue does not fit to an earlier one, or comes too late.
        """
        who = describe_queue(priority, share)
        given = "no share" if share is None else f"a share of {share:g}"
        if share is not None and self.share not in {None, share}:
            raise UsageError(
                f"{who} asks for {given} of the multiprocessors, and an earlier queue has a share of {self.share:g}. A "
                f"run divides them once: queues with a share use the same part, and all others the rest. Give "
                f"multiprocessors={self.share:g}, or leave it out."
            )
        if (before := self._of_priority.get(priority, share)) != share:
            earlier = "none" if before is None else f"a share of {before:g}"
            remedy = "no multiprocessors=" if before is None else f"multiprocessors={before:g}"
            raise UsageError(
                f"{who} asks for {given} of the multiprocessors, and an earlier queue of priority {priority} for "
                f"{earlier}. Queues of one priority use the same streams: give it {remedy}, or another priority."
            )
        if share is not None and self.share is None and num_submissions:
            raise UsageError(
                f"{who} would divide the multiprocessors after {num_submissions} submission(s), whose kernels may run "
                f"already. Make this queue before the first kernel, host task, fence or wait of the run."
            )

    def note(self, priority: int, share: float | None) -> None:
        """Remember a queue that has been checked and made."""
        self._of_priority[priority] = share
        if share is not None:
            self.share = share


def check_limit_of_mps(priority: int, share: float, rank: int) -> None:
    """Check that MPS does not widen the share.

    Raises:
        ResourceError: If a limit of MPS is set.
    """
    if (limit := os.environ.get(_MPS_LIMIT)) is not None:
        raise ResourceError(
            f"rank {rank} cannot keep the kernels of {describe_queue(priority, share)} on their share: "
            f"{_MPS_LIMIT}={limit} is set, and with it the driver may use more multiprocessors. Remove the variable, "
            f"or give no multiprocessors=."
        )


def describe_queue(priority: int, share: float | None) -> str:
    """The call that makes a queue."""
    return f"Queue(priority={priority}{'' if share is None else f', multiprocessors={share:g}'})"
