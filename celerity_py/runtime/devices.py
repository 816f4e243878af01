# SPDX-License-Identifier: MIT
"""Which devices this rank drives: the GPUs of its host, divided among the host's ranks, or parts of the CPU."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from celerity_py import _native
from celerity_py.scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from celerity_py.configuration import Configuration
    from celerity_py.executor.network.communicator import Communicator

_log = logging.getLogger(__name__)

# Streams share hardware queues: with too few of them, a stream that waits for another rank stops other streams.
_HARDWARE_QUEUES: Final = "32"
# Under MPS all processes on a GPU share its queues: of processes with 32 queues each, the driver refuses the fourth.
_HARDWARE_QUEUES_WITH_MPS: Final = "8"
# One of them may go to growth that is only expected: little enough to waste if the growth does not come.
_PARTS_OF_MEMORY: Final = 8


@dataclass(frozen=True)
class Devices:
    """The devices of one rank."""

    backend: str  # "cuda" or "cpu"
    count: int
    ordinals: tuple[int, ...] = ()  # of the GPUs, as the CUDA driver counts those that this process may see
    all_peers: bool = True  # each device reaches the memory of every other one
    memory_bytes: int = 0  # of the smallest GPU, or what GPU_MEMORY leaves of it
    are_shared: bool = False  # another rank uses one of the GPUs as well
    #: By source and destination, row by row: 0 for the best links, more for worse ones. Empty: all are equal.
    link_grades: tuple[int, ...] = field(default=(), compare=False)
    why_no_gpus: str = field(default="", compare=False)  # empty if the settings ask for the CPU

    @property
    def is_cuda(self) -> bool:
        """Whether the devices are GPUs."""
        return self.backend == "cuda"

    def describe(self) -> str:
        """The kinds and numbers of the devices, in words."""
        if not self.is_cuda:
            return f"{self.count} CPU device(s)"
        driven = ", ".join(f"GPU {ordinal} ({_native.cuda_device_name(ordinal)})" for ordinal in self.ordinals)
        return driven if self.all_peers else f"{driven}, which do not all reach each other's memory"


def choose_devices(settings: Configuration, communicator: Communicator) -> Devices:
    """Decide together with the other ranks. Collective.

    Raises:
        ConfigurationError: If devices that the settings name do not exist, or if the ranks do not agree.
    """
    visible, problem = ([], "") if _wants_cpu(settings) else _visible_gpus()
    told = communicator.exchange(json.dumps([visible, problem, settings.backend]).encode())
    everyone = [json.loads(item) for item in told]
    if settings.backend == "cuda":
        for rank, (gpus, why, _) in enumerate(everyone):
            if not gpus:
                raise ConfigurationError(f"BACKEND=cuda cannot be used on rank {rank}: {why or 'it sees no GPU'}.")
    if not all(gpus for gpus, _, _ in everyone):
        with_gpus = [rank for rank, (gpus, _, _) in enumerate(everyone) if gpus]
        if with_gpus:
            _log.warning(
                "Only %d of %d ranks see a GPU, so all use the CPU. Set CELERITY_BACKEND=cpu if that is meant.",
                len(with_gpus),
                len(everyone),
            )
        elif problem and communicator.rank == 0 and _has_gpu_device():
            _log.warning("This machine has a GPU, but the CPU is used: %s.", problem)
        why = next((why for _, why, _ in everyone if why), "")
        return _cpu_devices(settings, communicator.size, why)
    on_host = {rank: everyone[rank][0] for rank in communicator.local_ranks}
    ordinals = {rank: _share_of_host(settings, on_host, rank) for rank in on_host}
    used = {rank: {on_host[rank][ordinal] for ordinal in ordinals[rank]} for rank in on_host}
    mine = ordinals[communicator.rank]
    are_shared = any(used[rank] & used[communicator.rank] for rank in on_host if rank != communicator.rank)
    if are_shared and communicator.local_rank == 0:
        _log.warning(
            "%d ranks share the %d GPU(s) of this host: their kernels take turns. Start one rank per GPU.",
            communicator.local_size,
            len(set().union(*used.values())),
        )
    all_peers, memory_bytes, link_grades = _native.cuda_probe(list(mine))
    if settings.gpu_memory is not None:
        memory_bytes = settings.gpu_memory.of(memory_bytes)
    return Devices("cuda", len(mine), mine, bool(all_peers), memory_bytes, are_shared, tuple(link_grades))


def foreseeable_bytes(devices: Devices, local_size: int) -> int:
    """Return how much of each memory may be taken for buffers that seem to go on growing, before they do.

    Args:
        devices: The devices of this rank.
        local_size: How many ranks share this host.
    """
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // local_size
    if devices.is_cuda:
        return min(host_bytes, devices.memory_bytes) // _PARTS_OF_MEMORY
    return host_bytes // (1 + devices.count) // _PARTS_OF_MEMORY  # its own memory, and that of its devices


def _wants_cpu(settings: Configuration) -> bool:
    return settings.backend == "cpu" or settings.devices.kind == "cpu" or settings.dry_run_ranks > 0


def _cpu_devices(settings: Configuration, num_ranks: int, why_no_gpus: str) -> Devices:
    devices = settings.devices
    if devices.kind == "list":
        raise ConfigurationError(
            f"DEVICES={devices} lists GPUs of the host, but this run uses the CPU. "
            f"For CPU devices with own memory set DEVICES=cpu:{devices.count}."
        )
    if settings.check and devices.kind == "default" and max(num_ranks, settings.dry_run_ranks) == 1:
        return Devices("cpu", 2, why_no_gpus=why_no_gpus)  # a single device would hide mistakes
    return Devices("cpu", devices.count, why_no_gpus=why_no_gpus)


def _visible_gpus() -> tuple[list[str], str]:
    """The identifiers of the GPUs that this process may use; an empty list comes with the reason."""
    queues = _HARDWARE_QUEUES_WITH_MPS if is_mps_running() else _HARDWARE_QUEUES
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", queues)  # read when the first context is made
    try:
        gpus = list(_native.cuda_device_ids())
    except RuntimeError as error:
        return [], str(error)
    if gpus and importlib.util.find_spec("cupy") is None:
        return [], "CuPy is not installed (pip install 'celerity_py[cuda13]' or 'celerity_py[cuda12]')"
    return gpus, "" if gpus else "the CUDA driver shows no GPU; CUDA_VISIBLE_DEVICES may hide them"


def is_mps_running() -> bool:
    """Whether a daemon of MPS runs whose client this process would be."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - the driver's default
    return (Path(folder) / "control").exists()


def _has_gpu_device() -> bool:
    return Path("/dev/nvidia0").exists()


def _share_of_host(settings: Configuration, visible: Mapping[int, list[str]], rank: int) -> tuple[int, ...]:
    """The ordinals of one rank; `visible` has all ranks of the host, in the order of their numbers."""
    mine = visible[rank]
    devices = settings.devices
    if devices.kind == "list":
        missing = [index for index in devices.indices if index >= len(mine)]
        if missing:
            raise ConfigurationError(
                f"DEVICES names the GPU {missing[0]}, but rank {rank} sees only {len(mine)} "
                f"(numbered from 0{', after CUDA_VISIBLE_DEVICES' if 'CUDA_VISIBLE_DEVICES' in os.environ else ''})."
            )
        candidates = list(devices.indices)
    else:
        candidates = list(range(len(mine)))
        if devices.kind == "count":
            if devices.count > len(mine):
                raise ConfigurationError(
                    f"DEVICES={devices.count} asks for more GPUs than rank {rank} sees: {len(mine)}."
                )
            candidates = candidates[: devices.count]
    position, num_ranks = list(visible).index(rank), len(visible)
    if all(not set(mine) & set(visible[other]) for other in visible if other != rank):
        return tuple(candidates)  # the launcher has divided them already, or there is nobody to share with
    if len(candidates) >= num_ranks:
        first, last = (len(candidates) * (position + step) // num_ranks for step in range(2))
        return tuple(candidates[first:last])
    return (candidates[position % len(candidates)],)
