# SPDX-License-Identifier: MIT
"""The shares of the multiprocessors that queues ask for: one split for each run, and each priority is in one part."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from celerity_py.runtime.run_summary import log_parts
from celerity_py.scheduler.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from celerity_py._native import Executor, Submitter
    from celerity_py.runtime.devices import Devices

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

    def prepare(
        self,
        priority: int,
        share: float | None,
        rank: int,
        executor: Executor | None,
        devices: Devices,
        *,
        submitter: Submitter,
    ) -> None:
        """Check a new queue, let the executor make streams for its kernels, and remember it. With the lock.

        Raises:
            UsageError: If a GPU has no such share of multiprocessors, or as `check` does.
            ResourceError: If the driver of the GPUs refuses.
        """
        self.check(priority, share, submitter.num_submitted)
        divides = share is not None and self.share is None
        if executor is not None:
            who = describe_queue(priority, share)
            if share is not None and devices.is_cuda:
                check_limit_of_mps(priority, share, rank)
            try:
                executor.prepare_queue(priority, share or 0.0)
            except ValueError as error:
                raise UsageError(f"rank {rank} cannot divide its GPUs for {who}: {error}.") from error
            except RuntimeError as error:
                remedy = "leave out multiprocessors=" if divides else "use fewer priorities"
                raise ResourceError(
                    f"rank {rank} cannot make streams for {who}: {error}. Make all queues at the start of the "
                    f"program, or {remedy}."
                ) from error
        self.check(priority, share, submitter.num_submitted)  # another thread may have submitted meanwhile
        self._of_priority[priority] = share
        if share is not None:
            self.share = share
        if divides and executor is not None and devices.is_cuda:
            log_parts(rank, devices, executor.statistics()["multiprocessors"], priority)


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
