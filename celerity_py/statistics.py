# SPDX-License-Identifier: MIT
"""What a rank did and how long it took, for the end-of-run summary and for tests."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celerity_py.scheduler.errors import ConfigurationError


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


def path_of_rank(name: str, rank: int, size: int) -> Path:
    """The file of a rank, if the user asks for `out.json` or `out`: `out.<rank>.json` for each of several ranks."""
    stem = name.removesuffix(".json")
    return Path(f"{stem}.{rank}.json" if size > 1 else f"{stem}.json")


def check_output(variable: str, name: str, rank: int, size: int) -> None:
    """Find out before the program runs whether its output will have a place; makes the folder.

    Raises:
        ConfigurationError: If the folder cannot be made, or not be written.
    """
    folder = path_of_rank(name, rank, size).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise ConfigurationError(f"{variable}={name}: files cannot be written to the folder {folder}: {problem}.")


def write_statistics(name: str, statistics: RuntimeStatistics) -> Path:
    """Write the statistics of one rank.

    Returns:
        The path of the file.
    """
    path = path_of_rank(name, statistics.rank, statistics.size)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_plain(dataclasses.asdict(statistics)), indent=2) + "\n")
    return path


def _plain(value: Any) -> Any:
    """JSON has string keys only; "3/1" stands for buffer 3 in memory 1."""
    if isinstance(value, Mapping):
        return {"/".join(map(str, k)) if isinstance(k, tuple) else k: _plain(v) for k, v in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
