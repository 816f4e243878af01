# SPDX-License-Identifier: MIT
"""Names the rank whose process ends in the middle of a run, before the launcher ends all others.

A process that a signal ends writes a line by itself. If it cannot, as with SIGKILL, another rank of the host does: each
rank watches the next one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from celerity_py._native import NeighbourWatch, install_last_words
from celerity_py.executor.network.launch_detection import find_place

if TYPE_CHECKING:
    from celerity_py.executor.network.communicator import Communicator


def watch_processes(communicator: Communicator) -> NeighbourWatch | None:
    """Install the signal handlers of this process, and watch the next rank of this host; None if there is none.

    Collective, before the executor thread runs.

    Raises:
        RuntimeError: If the system has no thread left.
    """
    install_last_words(communicator.rank, _launchers())
    ranks = communicator.local_ranks
    processes = {rank: process for rank in ranks if (process := communicator.process_of(rank)) is not None}
    visible = list(processes)
    if len(visible) < len(("this rank", "another one")):
        communicator.exchange(b"")
        return None
    position = visible.index(communicator.rank)
    neighbour, watcher = visible[(position + 1) % len(visible)], visible[position - 1]
    watch = NeighbourWatch(communicator.rank, processes[watcher])
    paths = communicator.exchange(watch.path.encode())
    watch.watch(neighbour, processes[neighbour], paths[neighbour].decode())
    return watch


def _launchers() -> list[int]:
    """The ancestors of this process that belong to its rank, and the process of the launcher above them."""
    place = find_place(os.environ)
    if place is None:
        return []
    wanted = f"{place.variable}={place.rank}".encode()
    found = []
    process = os.getppid()
    try:
        while process > 1:
            found.append(process)
            if wanted not in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                break
            process = int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass  # a process of another user
    return found
