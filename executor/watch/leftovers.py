# SPDX-License-Identifier: MIT
"""Messages left over at the end of a run: announced to this rank, and claimed by no receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from celerity_py.executor.watch.progress_watchdog import show_transfer
from celerity_py.scheduler.errors import InternalError

if TYPE_CHECKING:
    from celerity_py.executor.delegate import ExecutorDelegate, NativeExecutor
    from celerity_py.executor.network.communicator import Communicator

_MOST_SHOWN: Final = 3


def find_leftovers(
    native: NativeExecutor, communicator: Communicator, delegate: ExecutorDelegate
) -> InternalError | None:
    """Return the error of a run that ends with unclaimed messages, or None. Executor thread, after the last epoch."""
    unclaimed = native.unclaimed_pilots()
    unasked = communicator.unasked_payloads()
    if not unclaimed and not unasked:
        return None
    shown = [
        f"rank {pilot.source} sent message {pilot.message} with "
        f"{delegate.describe_buffer(pilot.transfer[1], pilot.sent_box)} for transfer {show_transfer(pilot.transfer)}"
        for pilot in unclaimed[:_MOST_SHOWN]
    ]
    if len(unclaimed) > _MOST_SHOWN:
        shown.append(f"and {len(unclaimed) - _MOST_SHOWN} more")
    if not unclaimed:
        shown = [f"{number} messages of rank {rank} beyond those that it has announced" for rank, number in unasked]
    return InternalError(
        f"The program has ended, and rank {communicator.rank} has not asked for all that was sent to it: "
        f"{'; '.join(shown)}. Results of this run may be wrong. "
        f"If all ranks submit the same tasks, this is a bug in celerity_py."
    )
