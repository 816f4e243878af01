# SPDX-License-Identifier: MIT
"""The ranks of a hand-written program with one rank per GPU: their number, their GPUs, and NCCL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py import MPI


def world(gpus: int | None) -> MPI.Comm:
    """All ranks.

    Raises:
        SystemExit: If their number is not that of the GPUs on the command line.
    """
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if gpus not in {None, comm.size}:
        raise SystemExit(f"--gpus {gpus}, but there are {comm.size} ranks: mpirun -n {gpus}")
    return comm


def use_gpu(comm: MPI.Comm) -> int:
    """Make the GPU of this rank the current one, by its number among the ranks of the host; collective."""
    import cupy
    from mpi4py import MPI

    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    device = int(local.rank % cupy.cuda.runtime.getDeviceCount())
    cupy.cuda.Device(device).use()
    return device


def connect(comm: MPI.Comm) -> Any:
    """A communicator of NCCL with the same ranks, None for a single one; collective."""
    if comm.size == 1:
        return None
    from cupy.cuda import nccl

    os.environ["NCCL_NVLS_ENABLE"] = "0"
    identity = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
    return nccl.NcclCommunicator(comm.size, identity, comm.rank)
