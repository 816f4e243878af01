# SPDX-License-Identifier: MIT
"""The communicator over MPI. To import this initialises MPI.

Python makes and frees MPI's communicators. Messages are moved by the native port (`executor/core/network`), which calls
the functions of the library that mpi4py uses.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, cast

from celerity_py._native import MpiSettings, make_mpi_port, remove_mpi_files
from celerity_py.executor.network import communicator
from celerity_py.executor.network.communicator import Arrivals, Notice
from celerity_py.executor.network.mpi_library import MPI
from celerity_py.scheduler.errors import LaunchError

if TYPE_CHECKING:
    from celerity_py._native import MessagePort


def check_thread_level() -> None:
    """Make sure that MPI may be called by the executor thread while the application uses it too.

    Raises:
        LaunchError: If MPI was initialised with less than MPI_THREAD_MULTIPLE.
    """
    if not MPI.Is_initialized():  # the application has set mpi4py.rc.initialize = False
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise LaunchError(
            f"MPI ({library_name()}) runs without MPI_THREAD_MULTIPLE, which celerity_py needs because its executor "
            "thread communicates while your program runs. Use an MPI library built with thread support, and leave "
            "mpi4py.rc.thread_level at 'multiple'."
        )


def library_name() -> str:
    """Short name of the MPI library, like 'MPICH 5.0.2'."""
    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(str(part) for part in version)}"


def world_size() -> int:
    """Number of processes that MPI sees."""
    return MPI.COMM_WORLD.Get_size()


def world_ranks(comm: MPI.Intracomm) -> set[int]:
    """The numbers in COMM_WORLD of the ranks of a communicator, as far as they are there."""
    group, world = comm.Get_group(), MPI.COMM_WORLD.Get_group()
    try:
        return {rank for rank in group.Translate_ranks(None, world) if rank != MPI.UNDEFINED}
    finally:
        group.Free()
        world.Free()


def abort(status: int) -> NoReturn:
    """End every process of COMM_WORLD. Any thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    remove_mpi_files()  # no process comes to MPI_Finalize, which would do it
    try:
        MPI.COMM_WORLD.Abort(status)
    finally:
        os._exit(status)  # an MPI_Abort that returns has lost its launcher


class MpiCommunicator:
    """A `Communicator` on a duplicate of an MPI communicator, so that its messages never meet the application's own.

    Args:
        parent: Whose ranks take part; all of them must construct together. COMM_WORLD if left out.
        largest_tag: Replaces MPI_TAG_UB, to test that tags wrap around. At least 3.
        largest_count: Replaces 2**30, to test counts beyond that of a datatype.

    Raises:
        LaunchError: If MPI has no MPI_THREAD_MULTIPLE, or if the library lacks a function.
    """

    def __init__(
        self, parent: MPI.Intracomm | None = None, *, largest_tag: int | None = None, largest_count: int = 2**30
    ) -> None:
        check_thread_level()
        self._comm = (parent if parent is not None else MPI.COMM_WORLD).Dup()
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank: Final = self._comm.Get_rank()
        self.size: Final = self._comm.Get_size()

        host = self._comm.Split_type(MPI.COMM_TYPE_SHARED, key=self.rank)
        self.local_rank: Final = host.Get_rank()
        self.local_size: Final = host.Get_size()
        neighbours = host.allgather((self.rank, os.getpid(), _process_namespace()))
        host.Free()
        self.library: Final = library_name()
        self.local_ranks: Final = tuple(rank for rank, _, _ in neighbours)
        self._visible_processes = {rank: pid for rank, pid, space in neighbours if space == _process_namespace()}

        if largest_tag is None:
            largest_tag = cast("int", MPI.COMM_WORLD.Get_attr(MPI.TAG_UB))  # others need not have it
        self.port: Final = _make_port(self._comm, largest_tag, largest_count)
        # Open MPI agrees on a group by messages of the parent with the tag of the call, which the port would receive.
        self._parent_of_groups = self._comm.Dup()
        self._groups: dict[int, MPI.Intracomm] = {}  # by number
        self._is_closed = False

    def exchange(self, data: bytes) -> list[bytes]:
        return self._comm.allgather(data)

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        self.port.send_notice(destination_rank, kind, content)

    def settle(self, number: int) -> None:
        self.port.settle(number)

    def unasked_payloads(self) -> list[tuple[int, int]]:
        return self.port.unasked_payloads()

    def poll(self) -> Arrivals:
        notices, settled = self.port.poll()
        return Arrivals([Notice(*notice) for notice in notices], settled)

    def is_alive(self, rank: int) -> bool | None:
        pid = self.process_of(rank)
        return None if pid is None else _is_running(pid)

    def process_of(self, rank: int) -> int | None:
        return self._visible_processes.get(rank)

    def connect_group(self, number: int) -> MPI.Intracomm:
        # Unlike Dup, this may overlap collective calls of the executor thread: the number keeps them apart.
        ranks = self._parent_of_groups.Get_group()
        try:
            comm = self._groups[number] = self._parent_of_groups.Create_group(ranks, number)
        finally:
            ranks.Free()
        # The first reduction of objects duplicates the communicator, under a lock of mpi4py: threads of two ranks that
        # came to it for two groups would wait for each other.
        comm.allreduce(number)
        return comm

    def abort(self, status: int) -> NoReturn:
        abort(status)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # MPI gives the context of a freed communicator to a later one, which would receive messages still on their way.
        if self.port.close():
            for _, comm in sorted(self._groups.items()):
                if comm:  # the program has not freed it
                    comm.Free()
            self._parent_of_groups.Free()
            self._comm.Free()


def _make_port(comm: MPI.Intracomm, largest_tag: int, largest_count: int) -> MessagePort:
    try:
        return make_mpi_port(
            MpiSettings(
                module_path=MPI.__file__,
                handle_bytes=MPI._sizeof(comm),
                status_bytes=MPI._sizeof(MPI.Status),
                largest_error_text=MPI.MAX_ERROR_STRING,
                undefined=MPI.UNDEFINED,
                communicator=MPI._addressof(comm),
                byte=MPI._addressof(MPI.UINT8_T),
                word16=MPI._addressof(MPI.UINT16_T),
                word32=MPI._addressof(MPI.UINT32_T),
                word64=MPI._addressof(MPI.UINT64_T),
                rank=comm.Get_rank(),
                num_ranks=comm.Get_size(),
                largest_tag=largest_tag,
                largest_count=largest_count,
                largest_small_bytes=communicator.LARGEST_SMALL_BYTES,
            )
        )
    except RuntimeError as error:
        raise LaunchError(
            f"The runtime cannot call {library_name()} by itself: {error}. Install mpi4py anew for the MPI library of "
            f"this machine, such as with pip install --force-reinstall mpi4py, or with the package manager of the MPI."
        ) from error


def _process_namespace() -> str:
    """Process ids mean the same to processes that agree on this."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"unknown {os.getpid()}"


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    state = status.rpartition(")")[2].split()[0]
    return state not in {"Z", "X"}  # a killed process is a zombie until the launcher looks at it
