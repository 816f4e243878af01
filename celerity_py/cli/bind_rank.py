# SPDX-License-Identifier: MIT
"""Gives a rank its share of the cores of its host, then becomes the program of the rank.

`celerity-py run` starts it as a script, once per rank. It imports nothing of celerity_py: NumPy would count the cores
too early, and the start would take longer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# The position of a rank among those of its host, and their number: MPICH, Open MPI.
_PLACES = (("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"))
# For application, scheduler and executor. With fewer, ranks are better off with all cores.
LEAST_CORES = 3
_TOPOLOGY = Path("/sys/devices/system/cpu")


def cores_of_host(allowed: set[int], topology: Path = _TOPOLOGY) -> list[list[int]]:
    """The allowed processors as the hardware threads of cores; cores of a socket follow each other."""
    cores: dict[tuple[int, int], list[int]] = {}
    for processor in sorted(allowed):
        folder = topology / f"cpu{processor}" / "topology"
        try:
            socket, core = (int((folder / name).read_text()) for name in ("physical_package_id", "core_id"))
        except (OSError, ValueError):
            socket, core = 0, processor  # the system does not tell: each processor is a core
        cores.setdefault((socket, core), []).append(processor)
    return [cores[place] for place in sorted(cores)]


def share_of(cores: Sequence[Sequence[int]], place: int, num_ranks: int) -> set[int]:
    """The processors of one of the ranks of a host; all if there are too few cores to divide."""
    first, last = (len(cores) * step // num_ranks for step in (place, place + 1))
    chosen = cores[first:last] if len(cores) >= LEAST_CORES * num_ranks else cores
    return {processor for core in chosen for processor in core}


def place_of(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The position of this rank on its host, and the number of ranks there, if the launcher tells."""
    for place, number in _PLACES:
        if environment.get(place, "").isdecimal() and environment.get(number, "").isdecimal():
            return int(environment[place]), int(environment[number])
    return None


def main(words: list[str]) -> None:
    """Bind this process, and replace it by the program that `words` names."""
    place = place_of(os.environ)
    if place is not None:
        os.sched_setaffinity(0, share_of(cores_of_host(os.sched_getaffinity(0)), *place))
    os.execvp(words[0], words)  # noqa: S606 - the program that the user has named


if __name__ == "__main__":
    main(sys.argv[1:])
