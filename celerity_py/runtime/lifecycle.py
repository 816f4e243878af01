# SPDX-License-Identifier: MIT
"""The one runtime of this process: started by the first queue or buffer, ended by the last queue or at exit."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from celerity_py import _native, configuration
from celerity_py.executor.network.communicator_choice import make_communicator
from celerity_py.executor.network.launch_detection import detect_launch, find_place
from celerity_py.runtime import forks, log
from celerity_py.runtime.run_state import Phase
from celerity_py.runtime.runtime import Runtime
from celerity_py.scheduler.errors import ConfigurationError, DivergedPrograms

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from celerity_py.executor.network.attendance import Attendance
    from celerity_py.executor.network.communicator import Communicator

_FIRST_REPORT_S: Final = 5.0
_current: Runtime | None = None
_communicator: Communicator | None = None
_parent: Intracomm | None = None  # of the communicator, if the program has given one
_last_known: tuple[int, int] | None = None  # rank and size of a run on `_parent` that has ended
_attendances: list[tuple[Intracomm | None, Attendance]] = []  # for which communicators of the program
_start_lock = threading.Lock()
_has_exit_hook = False
_has_used_gpus = False
_process = os.getpid()
_fork: forks.Fork | None = None  # why this process cannot have a runtime


def current() -> Runtime:
    """The running runtime, started if there is none. Collective: all ranks make their first queue or buffer together.

    On a single rank, another runtime takes the place of one that has failed, once a call has raised the failure.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
        DivergedPrograms: If another rank has come to the end of its program.
        LaunchError: If MPI does not work the way this program was started.
    """
    return _standing() or _start()


def _standing() -> Runtime | None:
    """The runtime, unless another one takes its place in the next call."""
    runtime = _current
    return None if runtime is None or runtime.state.makes_way else runtime


def running() -> Runtime | None:
    """The runtime that takes calls, if there is one. Any rank may call this by itself."""
    is_running = _current is not None and _current.state.phase is Phase.RUNNING
    return _current if is_running else None


def _start() -> Runtime:
    global _current, _has_used_gpus  # noqa: PLW0603
    with _start_lock:
        if _current is not None and _current.state.makes_way:
            _current.abandon()
        if _current is not None:
            return _current
        if _fork is not None:
            raise _fork.error("Starting the runtime")
        settings = configuration.freeze()
        try:
            communicator = _connect(settings.stall_s)
            with _watch_start(settings.stall_s, _parent):
                _await_all(_parent)
            log.set_up(settings.log_level, communicator.rank, communicator.size)
            _current = Runtime(settings, communicator, _forget)
            _has_used_gpus |= bool(_current.devices.ordinals)
        except BaseException:
            configuration.thaw()
            raise
        return _current


def _connect(stall_s: float) -> Communicator:
    global _communicator, _has_exit_hook, _last_known, _parent  # noqa: PLW0603
    comm = configuration.communicator()
    if _communicator is None:
        from celerity_py.executor.interpreter_settings import register_exit_hook

        with _watch_start(stall_s, comm):
            is_known = _await_all(comm)
            _communicator = make_communicator(comm)
            if not is_known and _communicator.size > 1:
                from celerity_py.executor.network.attendance import Attendance

                _attendances.append((comm, Attendance(comm)))
        _parent, _last_known = comm, None
        if not _has_exit_hook:
            register_exit_hook(_leave)
            os.register_at_fork(after_in_child=_enter_child)
            _has_exit_hook = True
    elif comm is not _parent:
        raise ConfigurationError(
            "configure(comm=...) comes too late: celerity.rank(), size() or is_master() has connected other ranks "
            "before. Call configure first."
        )
    return _communicator


def _await_all(comm: Intracomm | None) -> bool:
    """Wait until all ranks of a communicator of the program have come here. False if it has not been connected."""
    attendance = next((known for parent, known in _attendances if parent is comm), None)
    if attendance is None:
        return False
    gone = attendance.arrive()
    if gone is not None:
        raise DivergedPrograms(
            f"rank {gone} has come to the end of its program, and rank {attendance.rank} makes a queue or buffer. All "
            f"ranks make the same queues and buffers, or none: take the call out of a branch on celerity.rank() or "
            f"celerity.is_master(), and look for a return or sys.exit() on rank {gone}."
        )
    return True


def _watch_start(stall_s: float, comm: Intracomm | None) -> AbstractContextManager[object]:
    """Watch over the start until the context is left: then all ranks have come.

    After 5 s it prints which ranks of this host are missing. MPI would wait for them for ever. Therefore it ends this
    process with status 1 if one of them has ended, or if the missing ranks have not computed for `stall_s`. Ranks of
    other hosts cannot be observed, so it ends this process in any case after five times `stall_s`.

    Args:
        stall_s: In seconds; 0 to end the process only if a rank has ended.
        comm: Whose ranks have to come; None for all.
    """
    place = find_place(os.environ)
    if place is None:
        return nullcontext()
    size = detect_launch(os.environ).size or 0
    awaited: set[int] = set()
    if comm is not None:
        from celerity_py.executor.network.mpi_communicator import world_ranks

        awaited = world_ranks(comm)
    return _native.StartWatch(
        *(place.variable, place.rank, size, place.is_one_host, awaited),
        first_report_s=_FIRST_REPORT_S,
        still_limit_s=stall_s,
    )


def _leave() -> None:
    if _current is not None:
        _current.leave()
    elif _communicator is not None and not hasattr(sys, "last_value"):
        _communicator.close()
    if _attendances:
        from celerity_py.executor.network.attendance import leave_all

        leave_all([attendance for _, attendance in _attendances])


def _enter_child() -> None:
    """In a forked child: say so in each call of the parent's runtime, and leave everything of it alone."""
    global _communicator, _fork, _process, _start_lock  # noqa: PLW0603
    parent, _process = _process, os.getpid()
    _start_lock = threading.Lock()  # another thread may have held it
    runtime, _communicator = _current, None
    _attendances.clear()
    if runtime is not None or _has_used_gpus or "mpi4py.MPI" in sys.modules:  # MPI and CUDA do not survive a fork
        rank = _last_known[0] if _last_known is not None else 0
        _fork = _fork or forks.Fork(runtime.rank if runtime is not None else rank, parent)
    if runtime is not None and runtime.state.fork is None:
        assert _fork is not None
        runtime.disown(_fork)


def _forget() -> None:
    global _current, _communicator, _last_known  # noqa: PLW0603
    if _communicator is not None:
        _last_known = _communicator.rank, _communicator.size
    _current = _communicator = None
    configuration.thaw()


def _who() -> tuple[int, int]:
    if (runtime := _standing()) is not None:
        return runtime.rank, runtime.size
    comm, settings = configuration.communicator(), configuration.current()
    if settings.dry_run_ranks:
        return settings.dry_run_rank, settings.dry_run_ranks
    # A program that prints something after its last queue needs no new connection for that.
    if _last_known is not None and comm is _parent:
        return _last_known
    if comm is not None:
        return comm.Get_rank(), comm.Get_size()
    communicator = _communicator or _connect(settings.stall_s)
    return communicator.rank, communicator.size


def rank() -> int:
    """The number of this process, from 0; for printing and files, not for branching on calls of the runtime.

    Any thread may call this, on any rank by itself. Only the first call of `rank`, `size` or `is_master` before any
    buffer or queue is collective: the ranks connect.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
        LaunchError: If MPI does not work the way this program was started.
    """
    return _who()[0]


def size() -> int:
    """The number of processes in the run.

    Any thread may call this, on any rank by itself. Only the first call of `rank`, `size` or `is_master` before any
    buffer or queue is collective: the ranks connect.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
        LaunchError: If MPI does not work the way this program was started.
    """
    return _who()[1]


def is_master() -> bool:
    """Whether this process is rank 0.

    Any thread may call this, on any rank by itself. Only the first call of `rank`, `size` or `is_master` before any
    buffer or queue is collective: the ranks connect.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
        LaunchError: If MPI does not work the way this program was started.
    """
    return rank() == 0


def is_dry_run() -> bool:
    """Whether this program is planned only, and nothing is computed: `celerity-py dry-run` or `graph` runs it.

    Any thread may call this, on any rank by itself. A program leaves out the checks of its results then, and loops that
    end on data.

    Raises:
        ConfigurationError: If a `CELERITY_` variable is wrong.
    """
    if (runtime := _standing()) is not None:
        return runtime.is_dry
    return configuration.current().dry_run_ranks > 0
