# SPDX-License-Identifier: MIT
"""Where checkpoints in memory lie: in a folder of `celerity-py run --restarts`, which outlives the ranks."""

from __future__ import annotations

import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from celerity_py.formats.choice import to_path
from celerity_py.scheduler.errors import CelerityWarning, UsageError

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

MEMORY: Final = "memory"
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders with names of their own
_START: Final = "Start the program by celerity-py run -n N --restarts K, which keeps such snapshots, or name a folder."


def is_memory(given: Any) -> bool:
    """Whether a call names the memory of the host instead of a folder. `Path("memory")` is a folder."""
    return isinstance(given, str) and given == MEMORY


def folder_of(given: Any, runtime: Runtime, call: str) -> Path | None:
    """The folder of the checkpoints that a call names; None for snapshots in memory that nobody keeps.

    Raises:
        ArgumentTypeError: If it names no folder.
        UsageError: If snapshots in memory would lie on several hosts, or on another one than that of celerity-py run.
    """
    if not is_memory(given):
        return to_path(given, call)
    if runtime.size != runtime.communicator.local_size and not runtime.is_dry:
        raise UsageError(
            f'{call} got "{MEMORY}" in a run whose {runtime.size} ranks lie on several hosts, '
            f"{runtime.communicator.local_size} of them on that of rank {runtime.rank}. Snapshots in memory need ranks "
            f"of one host. Name a folder that all hosts see; celerity-py run --restarts goes on from it as well."
        )
    kept = runtime.configuration.snapshots
    if kept and not Path(kept).is_dir() and not runtime.is_dry:
        raise UsageError(
            f'{call} got "{MEMORY}", and {kept} of celerity-py run is not on {socket.gethostname()}, the host of the '
            f"ranks: snapshots would be left there. Start celerity-py run on that host, such as in a batch script, or "
            f"name a folder that both hosts see."
        )
    return Path(kept) if kept else None


def warn_of_none(runtime: Runtime, call: str) -> None:
    """Say that nobody keeps the snapshots of this run."""
    if runtime.rank == 0:
        warnings.warn(f'{call} got "{MEMORY}" and writes nothing: nobody keeps it. {_START}', CelerityWarning, 3)


def none_found(folder: Path | None, step: int | None) -> str:
    """The text of the error for a checkpoint that is not there."""
    if folder is None:
        return f"Nobody keeps snapshots in memory for this run. {_START}"
    return f"{folder} has no complete checkpoint{'' if step is None else f' of step {step}'}."
