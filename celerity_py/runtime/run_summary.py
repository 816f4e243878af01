# SPDX-License-Identifier: MIT
"""The devices, connections and settings of a run, for LOG_LEVEL=info and for timelines."""

from __future__ import annotations

import logging
import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from celerity_py import _native
from celerity_py.configuration import changed_settings
from celerity_py.executor.network.pacing import num_cores

if TYPE_CHECKING:
    from celerity_py.configuration import Configuration
    from celerity_py.executor.network.communicator import Communicator
    from celerity_py.runtime.devices import Devices

_log = logging.getLogger(__name__)


def log_choices(
    settings: Configuration, communicator: Communicator, devices: Devices, direct_ranks: Sequence[bool]
) -> None:
    """Log the devices of this rank and its connections to the others. Rank 0 also logs the choices common to all.

    Args:
        settings: The configuration.
        communicator: Connects the ranks.
        devices: Of this rank.
        direct_ranks: By rank: whether data goes from device memory to device memory.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    if communicator.rank == 0:
        _log.info("%s", describe_run(settings, communicator, devices))
    _log.info("%s", describe_rank(communicator, devices, direct_ranks))


def log_parts(rank: int, devices: Devices, parts: Sequence[Mapping[str, int]], priority: int) -> None:
    """Log how a queue has divided the multiprocessors of the GPUs of this rank.

    Args:
        rank: This rank.
        devices: Of this rank.
        parts: By device: the multiprocessors of the `share` and of the `rest`.
        priority: Of the queue.
    """
    _log.info("%s", describe_parts(rank, devices, parts, priority))


def describe_parts(rank: int, devices: Devices, parts: Sequence[Mapping[str, int]], priority: int) -> str:
    """Tell how a queue has divided the multiprocessors of the GPUs of a rank."""
    told = [
        f"{part['share']} of the {part['share'] + part['rest']} multiprocessors of GPU {ordinal}"
        for ordinal, part in zip(devices.ordinals, parts, strict=True)
    ]
    return f"Rank {rank} gives {', '.join(told)} to queues of priority {priority}, and the rest to all others."


def describe_division(ordinal: int) -> str:
    """Tell how queues may divide the multiprocessors of a GPU, or why they cannot."""
    try:
        total, least, step = _native.cuda_division(ordinal)
    except RuntimeError as error:
        return f"GPU {ordinal} has no parts for Queue(multiprocessors=...): {error}"
    return f"GPU {ordinal} has {total} multiprocessors: queues may have a share of {least} or more, in steps of {step}"


def describe_for_trace(settings: Configuration, communicator: Communicator, devices: Devices) -> dict[str, Any]:
    """The run and this rank, for a program that reads the timeline."""
    versions = {
        "celerity_py": _native.version(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "MPI": communicator.library or "none",
    }
    bandwidths = [_native.cuda_memory_bandwidth(ordinal) for ordinal in devices.ordinals]
    own = [field.name for field in fields(settings) if field.name not in {"comm", "trace"}]
    return {
        "command": shlex.join(sys.orig_argv),
        "started": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "host": platform.node(),
        "processor": _processor(),
        "num_cores": num_cores(),
        "backend": devices.backend,
        "devices": devices.describe(),
        "num_devices": devices.count,
        #: By device; empty if they are not known.
        "bytes_per_second": bandwidths if all(bandwidths) else [],
        "versions": versions,
        "settings": {name: _show_setting(getattr(settings, name)) for name in own},
        "changed_settings": {name: _show_setting(value) for name, value in changed_settings(settings).items()},
    }


def _processor() -> str:
    """The model of the processor, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.machine()


def describe_run(settings: Configuration, communicator: Communicator, devices: Devices) -> str:
    """Tell of the choices common to all ranks: versions, ranks, backend, settings."""
    ranks = f"{communicator.size} rank(s)"
    if settings.dry_run_ranks:
        ranks = f"a dry run of {settings.dry_run_ranks} rank(s)"
    library = communicator.library or "no MPI"
    changed = [f"{name}={_show_setting(value)}" for name, value in changed_settings(settings).items()]
    reason = f" No GPUs: {devices.why_no_gpus}." if devices.why_no_gpus else ""
    given = f" Settings: {', '.join(changed)}." if changed else ""
    return (
        f"celerity_py {_native.version()}, Python {platform.python_version()}, {ranks}, "
        f"{communicator.local_size} of them on this host, {library}; backend {devices.backend}, "
        f"lookahead {settings.lookahead}.{reason}{given}"
    )


def _show_setting(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def describe_rank(communicator: Communicator, devices: Devices, direct_ranks: Sequence[bool]) -> str:
    """Tell of the devices of a rank, and of its connections to the others."""
    others = [rank for rank in range(communicator.size) if rank != communicator.rank]
    direct = [rank for rank in others if rank < len(direct_ranks) and direct_ranks[rank]]
    through_host = [rank for rank in others if rank not in direct]
    transports = [
        f"{name} with {describe_ranks(ranks)}"
        for name, ranks in (("direct transfers", direct), ("messages of MPI", through_host))
        if ranks
    ]
    return f"Rank {communicator.rank} drives {devices.describe()}." + (
        f" It exchanges data by {' and '.join(transports)}." if transports else ""
    )


def describe_ranks(ranks: Sequence[int]) -> str:
    """The ranks, consecutive ones as a range: "ranks 0-3, 5"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
