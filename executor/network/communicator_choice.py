# SPDX-License-Identifier: MIT
"""Chooses how the ranks of this run exchange messages: by MPI, or not at all with a single rank."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from celerity_py.executor.network import rank_process
from celerity_py.executor.network.launch_detection import Launch, detect_launch
from celerity_py.executor.network.local_communicator import LocalCommunicator
from celerity_py.scheduler.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpi4py import MPI

    from celerity_py.executor.network.communicator import Communicator

# Launchers that connect their processes by other means than MPI: a variable that tells, and one with the number.
_OTHER_LAUNCHERS: Final = (
    ("torchrun", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"),
    ("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE"),
    ("a launcher of torch.distributed", "MASTER_ADDR", "WORLD_SIZE"),
)


def make_communicator(user_communicator: MPI.Intracomm | None = None) -> Communicator:
    """Choose between MPI and the local communicator. Collective over the ranks of the run.

    Args:
        user_communicator: Run on its ranks instead of all of COMM_WORLD.

    Raises:
        LaunchError: If a launcher started several processes that MPI does not connect, if mpi4py is missing under a
            launcher, if MPI does not speak with the launcher or lacks MPI_THREAD_MULTIPLE, or if the user's
            communicator has been freed.
    """
    if user_communicator is not None and not user_communicator:
        raise LaunchError(
            "The communicator of configure(comm=...) has been freed. Keep it until the first queue exists."
        )
    launch = detect_launch(os.environ)
    if rank_process.is_cut_off(os.environ) and "mpi4py.MPI" not in sys.modules:
        raise LaunchError(
            "A launcher started a process above this one, and a program between them has closed the connection to the "
            "launcher (PMI_FD), so MPI cannot start here. Start this program by the launcher, or with "
            "subprocess.run(..., close_fds=False). If it shall run alone, remove PMI_FD, PMI_RANK and PMI_SIZE."
        )
    if launch.launcher is None and user_communicator is None:
        _refuse_other_launchers(os.environ)
        if "mpi4py.MPI" not in sys.modules:
            return LocalCommunicator()
    try:
        from celerity_py.executor.network import mpi_communicator
    except LaunchError:
        raise
    except (ImportError, RuntimeError) as error:  # the latter: mpi4py finds no MPI library
        if launch.size == 1:
            return LocalCommunicator()
        raise LaunchError(_describe_missing_mpi(launch, error)) from error

    if user_communicator is None:
        mpi_communicator.check_thread_level()
        world_size = mpi_communicator.world_size()
        if world_size == 1 and launch.size is not None and launch.size > 1:
            raise LaunchError(_describe_singletons(launch, mpi_communicator.library_name()))
        if world_size == 1 and launch.launcher is None:
            return LocalCommunicator()  # the application has imported MPI for itself
    return mpi_communicator.MpiCommunicator(user_communicator)


def _refuse_other_launchers(environment: Mapping[str, str]) -> None:
    for launcher, sign, size_variable in _OTHER_LAUNCHERS:
        size = environment.get(size_variable, "")
        if sign in environment and size.isdecimal() and int(size) > 1 and not rank_process.is_child(environment):
            raise LaunchError(
                f"{launcher} started this program as one of {size} processes ({sign} and {size_variable} are set), "
                f"which MPI does not connect: each would run the whole program by itself. Start it with "
                f"`celerity-py run -n {size} app.py` or `mpiexec -n {size} python app.py`. If each process shall run "
                f"alone, remove these variables, or call celerity.configure(comm=MPI.COMM_SELF)."
            )


def _describe_missing_mpi(launch: Launch, error: Exception) -> str:
    is_installed = importlib.util.find_spec("mpi4py") is not None
    problem = f"importing it says: {error}" if is_installed else "mpi4py is not installed"
    return (
        f"{launch.launcher} started this program as one of {launch.size or 'several'} processes, which need mpi4py "
        f"and an MPI library to talk to each other; {problem}. Install both (for example `pip install 'mpi4py>=4.1' "
        "mpich`, or mpi4py next to the MPI of the cluster), or start a single process without a launcher."
    )


def _describe_singletons(launch: Launch, library: str) -> str:
    return (
        f"{launch.launcher} started {launch.size} processes, but for MPI ({library}) each of them is alone: COMM_WORLD "
        "has one rank, so every process would run the whole program by itself. The launcher and the MPI library do "
        f"not fit together. Use the mpiexec that belongs to the library (look in {Path(sys.prefix, 'bin')}), or with "
        "Slurm `srun --mpi=pmi2` for MPICH and `srun --mpi=pmix` for Open MPI."
    )
