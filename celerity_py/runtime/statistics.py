# SPDX-License-Identifier: MIT
"""Counters and times of a rank, for programs, for the file of STATS, and for tests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RuntimeStatistics:
    """Counters of one rank since its runtime started."""

    rank: int
    size: int
    #: "cuda" or "cpu".
    backend: str
    num_devices: int
    #: Kernels, host tasks, fences, waits and barriers.
    num_submissions: int
    #: Time inside of the calls that submit kernels and host tasks, without the time blocked.
    submit_seconds: float
    #: Time that these calls waited because the application was too far ahead of the execution.
    blocked_seconds: float
    scheduler: Mapping[str, Any]
    executor: Mapping[str, Any]


def write_statistics(path: Path, statistics: RuntimeStatistics) -> None:
    """Write the statistics of one rank."""
    path.write_text(json.dumps(_plain(dataclasses.asdict(statistics)), indent=2) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """JSON has string keys only; "3/1" stands for buffer 3 in memory 1."""
    if isinstance(value, Mapping):
        return {"/".join(map(str, k)) if isinstance(k, tuple) else k: _plain(v) for k, v in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
