# SPDX-License-Identifier: MIT
"""Makes the executor, scheduler and submitter of a run."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from celerity_py import _native
from celerity_py.calls.binder import HOST_BINDER, Binder
from celerity_py.cuda.binder import CudaBinder, release_cached_memory
from celerity_py.cuda.small_copies import small_copy_functions
from celerity_py.executor.network.pacing import num_cores
from celerity_py.runtime.chance_orders import refuse_turn
from celerity_py.runtime.devices import foreseeable_bytes, is_mps_running
from celerity_py.scheduler.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.configuration import Configuration
    from celerity_py.executor.delegate import ExecutorDelegate, LiveReporter
    from celerity_py.executor.live_executor import LiveExecutor
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.graphs.recorder import GraphRecorder
    from celerity_py.reductions.cuda_reductions import ReduceKernels
    from celerity_py.runtime.devices import Devices
    from celerity_py.vocabulary.submissions import Submission


class Watchers(NamedTuple):
    """The parts of a run that are told of its events. A part is None if the settings do not want it."""

    recorder: _native.TraceRecorder | None  # of the timeline
    ranges: _native.ProfilerRanges | None
    program: _native.ProgramLog | None  # digests that the ranks compare
    graphs: GraphRecorder | None


#: A copy of up to so many bytes takes as long as a copy of four bytes, and several copies several times as long.
_JOINED_BYTES = 1 << 16
#: To fetch up to so many bytes from several devices, one kernel of the device that lacks them is faster than copy
#: engines. At most cuda_small_copies::max_bytes: copy engines fetch more than that in any case.
_GATHERED_BYTES = 1 << 20
#: Submits wait while the run keeps more of dropped buffers for work that is held back or unfinished. Tests set less.
MOST_KEPT_BYTES = 1 << 30
#: Periods of replays run as graphs of CUDA. Tests compare with a run without them.
RUNS_GRAPHS = True
#: With TRANSPORT=auto, CPU devices send smaller data as messages also within a host. Tests set others.
LEAST_DIRECT_BYTES = _native.MessagePort.SMALL_LIMIT_BYTES + 1
#: Lanes wait for each other; otherwise the host waits for an operation before it issues one that depends on it. Tests
#: and benchmarks compare.
LANES_WAIT = True
#: A kernel or copy waits on its lane before it overwrites data that other ranks still fetch; otherwise the host waits
#: before it issues the operation. The same on all ranks. Tests and benchmarks compare.
OVERWRITES_WAIT = True
#: Ranks that share a GPU exchange data in graphs. An exchange ends only if the kernels of both ranks run at once, as
#: in tests under MPS.
EXCHANGES_ON_SHARED_GPUS = False


def make_executor(
    settings: Configuration,
    communicator: Communicator,
    devices: Devices,
    watchers: Watchers,
    *,
    reduce_kernels: ReduceKernels | None,
    may_be_direct: bool,
    idle_spin_s: float,
) -> _native.Executor:
    """The native executor of this rank.

    Args:
        settings: The settings of the run.
        communicator: The connection of the ranks.
        devices: The devices of this rank.
        watchers: The parts that are told of its events.
        reduce_kernels: The kernels that combine partial results on GPUs; None on CPU devices.
        may_be_direct: Whether this rank offers its memory to the other ranks of its host.
        idle_spin_s: The time for which its thread looks for work before it sleeps, in seconds.

    Raises:
        ResourceError: If the GPUs cannot be set up.
    """
    executor = _native.ExecutorSettings(
        num_ranks=communicator.size,
        rank=communicator.rank,
        num_devices=devices.count,
        kernel_threads=max(1, num_cores() // (communicator.local_size * devices.count)),
        oversubscribed=communicator.local_size > num_cores(),
        check=settings.check,
        lane_events=LANES_WAIT,
        kernel_order=settings.kernel_order,
        overwrites_wait=OVERWRITES_WAIT,
        sync=settings.sync,
        direct=may_be_direct,
        least_direct_bytes=least_direct_bytes(settings, devices),
        idle_spin_s=idle_spin_s,
        trace=watchers.recorder,
        ranges=watchers.ranges,
        program=watchers.program,
    )
    if not devices.is_cuda:
        return _native.Executor(executor)
    try:
        cuda = _native.CudaSettings(
            ordinals=list(devices.ordinals),
            compute_lanes=settings.kernel_lanes,
            most_memory_bytes=0 if settings.gpu_memory is None else devices.memory_bytes,
            small_copies=small_copy_functions(devices.ordinals) if may_be_direct or devices.count > 1 else [],
            reductions=None if reduce_kernels is None else reduce_kernels.native,
            graphs=(
                not settings.bounds_check
                and watchers.recorder is None
                and not (devices.are_shared and devices.count > 1)  # kernels wait for other devices
                and RUNS_GRAPHS
            ),
            graphs_exchange=may_be_direct and (not devices.are_shared or EXCHANGES_ON_SHARED_GPUS),
            release_cached_memory=release_cached_memory,
        )
        return _native.Executor(executor, cuda)
    except (RuntimeError, MemoryError) as error:
        under_mps = ""
        if is_mps_running():
            queues = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
            under_mps = (
                f" Under MPS, all processes share the hardware queues of a GPU. This one asks for "
                f"CUDA_DEVICE_MAX_CONNECTIONS={queues}: a smaller number in all of them lets more processes in."
            )
        raise ResourceError(
            f"rank {communicator.rank} cannot set up its GPUs {', '.join(map(str, devices.ordinals))}: "
            f"{type(error).__name__}: {error}. If their memory is taken, look with nvidia-smi for the processes "
            f"that hold it, end them, start one rank per GPU, or choose other GPUs with DEVICES.{under_mps}"
        ) from error


def least_direct_bytes(settings: Configuration, devices: Devices) -> int:
    """Smaller data goes as messages also within a host: with CPU devices, flags take longer."""
    return LEAST_DIRECT_BYTES if settings.transport == "auto" and not devices.is_cuda else 0


def make_live_executor(
    settings: Configuration,
    communicator: Communicator,
    executor: _native.Executor,
    delegate: ExecutorDelegate,
    *,
    num_devices: int,
    direct: bool,
    program: _native.ProgramLog | None,
    reporter: LiveReporter | None,
) -> LiveExecutor:
    """The threads around the native executor of this rank, which are not started yet."""
    from celerity_py.executor.failures.failure_handler import FailureTimes
    from celerity_py.executor.live_executor import LiveExecutor
    from celerity_py.executor.watch.ended_processes import watch_processes

    return LiveExecutor(
        executor,
        communicator,
        delegate,
        num_devices=num_devices,
        poll=settings.poll,
        direct=direct,
        times=FailureTimes(stall_s=settings.stall_s),
        program=program,
        reporter=reporter,
        neighbour=watch_processes(communicator) if communicator.size > 1 else None,
    )


def binders_of(devices: Devices) -> list[Binder]:
    """The objects that call Python kernels, by device."""
    return [CudaBinder(ordinal) for ordinal in devices.ordinals] if devices.is_cuda else [HOST_BINDER] * devices.count


def make_scheduler(
    settings: Configuration,
    communicator: Communicator,
    devices: Devices,
    watchers: Watchers,
    executor: _native.Executor | None,
    *,
    direct_ranks: list[bool],
    idle_spin_s: float,
) -> _native.Scheduler:
    """The native scheduler of this rank.

    Args:
        settings: The settings of the run. A dry run plans for the rank that they name.
        communicator: The connection of the ranks.
        devices: The devices of this rank.
        watchers: The parts that are told of its events.
        executor: The executor that gets the instructions; a dry run has none.
        direct_ranks: Whether a rank exchanges data with this one from device memory to device memory, by rank.
        idle_spin_s: The time for which its thread looks for work before it sleeps, in seconds.
    """
    planning = _native.PlanningSettings(
        num_ranks=settings.dry_run_ranks or communicator.size,
        rank=settings.dry_run_rank or communicator.rank,
        num_devices=devices.count,
        device_peers=devices.all_peers,
        user_device_peers=not devices.is_cuda,  # their memory is not pinned
        messages_reach_devices=not devices.is_cuda,
        link_grades=devices.link_grades,
        direct_ranks=direct_ranks,
        lookahead=settings.lookahead,
        loops=settings.record == "auto",
        horizon_step=settings.horizon_step,
        horizon_max_parallelism=settings.horizon_max_parallelism,
        program=watchers.program,
        foreseeable_bytes=foreseeable_bytes(devices, communicator.local_size),
        joined_bytes=_JOINED_BYTES,
        gathered_bytes=_GATHERED_BYTES,
    )
    planning.templates = watchers.graphs is None  # what they repeat is in no graph
    return _native.Scheduler(
        planning,
        executor,
        run_ahead=settings.run_ahead,
        most_kept_bytes=MOST_KEPT_BYTES,
        idle_spin_s=idle_spin_s,
        trace=watchers.recorder,
        graphs=None if watchers.graphs is None else watchers.graphs.watch(executor),
    )


def make_submitter(
    scheduler: _native.Scheduler,
    executor: _native.Executor | None,
    entries: dict[int, Submission],
    *,
    size: int,
    observer: Callable[[int, Submission, int], None] | None,
) -> _native.Submitter:
    """The native submitter of this rank of `size`, which adds to the entries. The first queue gives it a delegate."""
    submitter = _native.Submitter(scheduler, executor, entries=entries, is_shared=size > 1)
    submitter.set_refuser(partial(refuse_turn, size))
    if observer is not None:
        submitter.set_observer(observer)
    return submitter
