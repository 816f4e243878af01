# SPDX-License-Identifier: MIT
"""How long threads look again and again before they sleep, and whether there are cores for that."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from celerity_py.executor.network.pacing import num_cores

if TYPE_CHECKING:
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.runtime.devices import Devices

_log = logging.getLogger(__name__)

# To wake a thread takes tens of microseconds, or hundreds once its core has gone to sleep: as long as a small kernel
# takes. After a pause of 20 ms that is only half a percent.
_IDLE_S: Final = 20e-3  # a thread without work sleeps then, even with POLL=spin
_WAIT_S: Final = 20e-3
_OTHER_THREADS: Final = 3  # application, scheduler and executor


@dataclass(frozen=True)
class SpinTimes:
    """In seconds; 0 where threads sleep at once."""

    idle_s: float = 0.0  # scheduler and executor, behind their last work
    wait_s: float = 0.0  # an application that waits for a result


def spin_times(poll: str, local_size: int, devices: Devices) -> SpinTimes:
    """How long the threads of this rank spin.

    Args:
        poll: The setting.
        local_size: Ranks of this host, with whom it shares the cores.
        devices: Of this rank. CPU devices want the cores for themselves.
    """
    if poll == "spin":
        return SpinTimes(_IDLE_S, math.inf)
    if devices.ordinals and num_cores() >= local_size * (_OTHER_THREADS + devices.count):
        return SpinTimes(_IDLE_S, _WAIT_S)
    return SpinTimes()


def warn_of_bound_ranks(communicator: Communicator) -> None:
    """Tell, once on each host, that a launcher has left this rank fewer cores than it has busy threads."""
    cores, cores_of_host = num_cores(), os.cpu_count() or 1
    if communicator.size == 1 or communicator.local_rank > 0 or cores >= _OTHER_THREADS:
        return
    if cores_of_host >= communicator.local_size * _OTHER_THREADS:
        _log.warning(
            "Rank %d may use %d of the %d cores of its host, where application, scheduler, executor and kernels get in "
            "each other's way. Open MPI binds ranks so unless told otherwise: mpirun --bind-to none; with Slurm give "
            "each task more cores: --cpus-per-task.",
            communicator.rank,
            cores,
            cores_of_host,
        )
