# SPDX-License-Identifier: MIT
"""Counters and times of a rank, for programs, for the file of STATS, and for tests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celerity_py._native import Executor, Scheduler, Submitter
    from celerity_py.runtime.devices import Devices


@dataclass(frozen=True)
class RuntimeStatistics:
    """Counters of one rank since its runtime started, made by `Queue.statistics`. Any thread may read them.

    Attributes:
        rank: The number of this process, from 0.
        size: The number of processes.
        backend: "cuda" or "cpu".
        num_devices: Devices of this rank.
        num_submissions: Kernels, host tasks, fences, waits and barriers.
        submit_seconds: Time inside of the calls that submit kernels and host tasks, without the time blocked.
        blocked_seconds: Time that these calls waited because the program was too far ahead of the execution.
        scheduler: Counters of planning, by name.
        plan: Of a dry run: the planned instructions by kind, bytes by link, and memory in the order of the plan.
        executor: Counters of execution, by name.
    """

    rank: int
    size: int
    backend: str
    num_devices: int
    num_submissions: int
    submit_seconds: float
    blocked_seconds: float
    scheduler: Mapping[str, Any]
    plan: Mapping[str, Any]
    executor: Mapping[str, Any]

    def as_plain(self) -> dict[str, Any]:
        """As JSON can hold it: the key "3/1" stands for buffer 3 in memory 1."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return plain


def collect_statistics(
    rank: int,
    size: int,
    devices: Devices,
    scheduler: Scheduler,
    submitter: Submitter,
    *,
    executor: Executor | None,
    is_dry: bool,
) -> RuntimeStatistics:
    """The counters of the parts of a run so far."""
    return RuntimeStatistics(
        rank=rank,
        size=size,
        backend=devices.backend,
        num_devices=devices.count,
        num_submissions=submitter.num_submitted,
        submit_seconds=submitter.busy_ns * 1e-9,
        blocked_seconds=submitter.blocked_ns * 1e-9,
        scheduler=dict(scheduler.statistics()),
        plan=dict(scheduler.plan_totals()) if is_dry else {},
        executor={} if executor is None else dict(executor.statistics()),
    )


def write_statistics(path: Path, statistics: RuntimeStatistics) -> None:
    """Write the statistics of one rank."""
    path.write_text(json.dumps(statistics.as_plain(), indent=2) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"/".join(map(str, k)) if isinstance(k, tuple) else k: _plain(v) for k, v in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
