# SPDX-License-Identifier: MIT
"""Makes the native executor, scheduler and submitter of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from celerity_py import _native
from celerity_py.calls.execution import HOST_BINDER, Binder
from celerity_py.cuda.execution import CudaBinder, release_cached_memory
from celerity_py.cuda.small_copies import small_copy_functions
from celerity_py.executor.network.pacing import num_cores
from celerity_py.runtime.devices import foreseeable_bytes
from celerity_py.scheduler.errors import ResourceError

if TYPE_CHECKING:
    from celerity_py.configuration import Configuration
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.runtime.devices import Devices
    from celerity_py.runtime.runtime import Runtime

#: A copy of up to so many bytes takes as long as a copy of four bytes, and several copies several times as long.
_JOINED_BYTES = 1 << 16
#: To fetch up to so many bytes from several devices, one kernel of the device that lacks them is faster than copy
#: engines. At most cuda_small_copies::max_bytes: copy engines fetch more than that in any case.
_GATHERED_BYTES = 1 << 20
#: For measurements.
_KERNELS_WAIT = os.environ.get("_CELERITY_KERNELS_WAIT", "0")


class Ingredients(NamedTuple):
    """The parts from which the native objects of one run are made."""

    settings: Configuration
    communicator: Communicator
    size: int  # ranks, also those of a dry run
    devices: Devices
    idle_spin_s: float
    recorder: _native.TraceRecorder | None
    program: _native.ProgramLog | None

    @property
    def may_be_direct(self) -> bool:
        """Whether this rank offers its memory to the other ranks of its host."""
        settings = self.settings
        return settings.transport in {"auto", "direct"} and not settings.sync and self.communicator.local_size > 1


def make_executor(given: Ingredients) -> _native.Executor:
    """The native executor of this rank.

    Raises:
        ResourceError: If the GPUs cannot be set up.
    """
    try:
        return _make_executor(given)
    except (RuntimeError, MemoryError) as error:
        if not given.devices.is_cuda:
            raise
        raise ResourceError(
            f"rank {given.communicator.rank} cannot set up its GPUs {', '.join(map(str, given.devices.ordinals))}: "
            f"{type(error).__name__}: {error}. If their memory is taken, look with nvidia-smi for the processes "
            f"that hold it, end them, start one rank per GPU, or choose other GPUs with DEVICES."
        ) from error


def _make_executor(given: Ingredients) -> _native.Executor:
    settings, devices = given.settings, given.devices
    has_small_copies = given.may_be_direct or devices.count > 1
    executor = _native.ExecutorSettings(
        num_ranks=given.size,
        rank=given.communicator.rank,
        num_devices=devices.count,
        oversubscribed=given.communicator.local_size > num_cores(),
        check=settings.check,
        lane_events=settings.lane_events,
        overwrites_wait=settings.overwrite_waits == "device",
        sync=settings.sync,
        direct=given.may_be_direct,
        idle_spin_s=given.idle_spin_s,
        trace=given.recorder,
        program=given.program,
    )
    if not devices.is_cuda:
        return _native.Executor(executor)
    cuda = _native.CudaSettings(
        ordinals=list(devices.ordinals),
        compute_lanes=settings.kernel_lanes,
        small_copies=small_copy_functions(devices.ordinals) if has_small_copies else [],
        kernels_wait=given.may_be_direct and not devices.are_shared and _KERNELS_WAIT != "0",
        kernels_raise=_KERNELS_WAIT == "2",
        release_cached=release_cached_memory,
    )
    return _native.Executor(executor, cuda)


def binders_of(devices: Devices) -> list[Binder]:
    """The objects that call Python kernels, by device."""
    return [CudaBinder(ordinal) for ordinal in devices.ordinals] if devices.is_cuda else [HOST_BINDER] * devices.count


def make_scheduler(
    given: Ingredients, executor: _native.Executor | None, direct_ranks: list[bool]
) -> _native.Scheduler:
    """The native scheduler of this rank; a dry run has no executor."""
    settings, devices = given.settings, given.devices
    planning = _native.PlanningSettings(
        num_ranks=given.size,
        rank=given.communicator.rank,
        num_devices=devices.count,
        device_peers=devices.all_peers,
        user_device_peers=not devices.is_cuda,  # their memory is not pinned
        direct_ranks=direct_ranks,
        lookahead=settings.lookahead,
        horizon_step=settings.horizon_step,
        horizon_max_parallelism=settings.horizon_max_parallelism,
        program=given.program,
        foreseeable_bytes=foreseeable_bytes(devices, given.communicator.local_size),
        joined_bytes=_JOINED_BYTES,
        gathered_bytes=_GATHERED_BYTES,
    )
    return _native.Scheduler(
        planning, executor, run_ahead=settings.run_ahead, idle_spin_s=given.idle_spin_s, trace=given.recorder
    )


def make_submitter(runtime: Runtime) -> _native.Submitter:
    """The native submitter of this rank. The first queue gives it a delegate."""
    submitter = _native.Submitter(
        runtime.scheduler,
        runtime.executor,
        entries=runtime.submissions,
        is_shared=runtime.size > 1,
    )
    if runtime.tracer is not None:
        submitter.set_observer(runtime.tracer.note_submission)
    return submitter
