# SPDX-License-Identifier: MIT
"""Gives a rank its share of the cores of its host, starts its program, and names the rank if a signal ends it.

`celerity-py run` starts it as a script, once per rank. It imports nothing of celerity_py: NumPy would count the cores
too early, and the start would take longer.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

# The position of a rank among those of its host, and their number: MPICH, Open MPI.
_PLACES = (("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"))
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
_PR_SET_PDEATHSIG = 1
_NOT_FOUND = 127  # as shells say it
#: A launcher sends them to the group of processes, and so to the program as well.
_OF_GROUP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# For application, scheduler and executor. With fewer, ranks are better off with all cores.
LEAST_CORES = 3
#: The variable with the folder of a run with restarts, and the file there that gets a line for each end of a rank.
SNAPSHOTS, ENDS = "CELERITY_SNAPSHOTS", "ends"
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


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Let a signal end this process when the thread that has started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def start(words: list[str]) -> int:
    """Start the program in a process that ends with this one; its process id."""
    parent = os.getpid()
    child = os.fork()
    if child != 0:
        return child
    try:
        end_with_parent(signal.SIGKILL)
        if os.getppid() == parent:
            os.execvp(words[0], words)  # noqa: S606 - the program that the user has named
    except OSError as error:
        print(f"celerity-py run: {words[0]} cannot be started: {error.strerror}.", file=sys.stderr, flush=True)
    os._exit(_NOT_FOUND)


def how_ended(status: int) -> str:
    """The end of a sentence on an exit status as shells tell it."""
    number = status - 128
    return f"was killed by {signal.Signals(number).name}" if number > 0 else f"has ended with status {status}"


def note_end(status: int, environment: Mapping[str, str]) -> None:
    """Add a line to the file of a run with restarts, if this is one and the end is no success."""
    folder = environment.get(SNAPSHOTS)
    if not folder or status == 0:
        return
    how = how_ended(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
    with suppress(OSError), Path(folder, ENDS).open("a", encoding="utf-8") as file:  # on another host: no such folder
        file.write(f"rank {_rank_of(environment)} {how}\n")


def _rank_of(environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in _RANKS if name in environment), "?")


def end_as(child: int, status: int, environment: Mapping[str, str], received: set[int]) -> NoReturn:
    """End as the program did; if a signal has ended the program alone, say so.

    Args:
        child: The process of the program.
        status: As `os.waitpid` tells it.
        environment: The environment variables.
        received: The signals that this process has got as well.
    """
    if not received:
        note_end(status, environment)
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if number not in received:
        rank = _rank_of(environment)
        cause = " The system kills a process if memory runs out." if number == signal.SIGKILL else ""
        text = (
            f"celerity-py run: signal {number} ({signal.Signals(number).name}) has ended rank {rank} (process {child})."
        )
        os.write(sys.stderr.fileno(), f"{text}{cause}\n".encode())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the signal is blocked


def main(words: list[str]) -> NoReturn:
    """Bind this process, run the program that `words` names, and end as it does."""
    place = place_of(os.environ)
    if place is not None:
        os.sched_setaffinity(0, share_of(cores_of_host(os.sched_getaffinity(0)), *place))
    child = start(words)
    received: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        received.add(number)

    for number in _OF_GROUP:
        signal.signal(number, note)
    # This process keeps the connection to the launcher, which otherwise sees the end first, and ends this process.
    end_as(child, os.waitpid(child, 0)[1], os.environ, received)


if __name__ == "__main__":
    main(sys.argv[1:])
