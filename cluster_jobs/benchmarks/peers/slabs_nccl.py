# SPDX-License-Identifier: MIT
"""Slabs of rows by hand, one rank per GPU with NCCL.

Each rank owns a slab of rows and exchanges halo rows with its neighbours after each step, on the stream of the kernel;
or it computes its border rows first and exchanges them behind the interior, on a stream of their own.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from mpi4py import MPI

from cluster_jobs.benchmarks.peers import batches, slabs


class Rank:
    """The slab of this rank, its streams, and its neighbours."""

    def __init__(self, problem: slabs.Problem, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        local = comm.Split_type(MPI.COMM_TYPE_SHARED)
        device = local.rank % cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(device).use()
        self.nccl = nccl
        self.slab = problem.slab(device, comm.rank, comm.size)
        self.count = problem.halo * self.slab.row_elements
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.border_stream = cupy.cuda.Stream(non_blocking=True)
        self.interior_done = cupy.cuda.Event(disable_timing=True)
        self.border_done = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator: Any = None
        if comm.size > 1:
            identity = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
            self.communicator = nccl.NcclCommunicator(comm.size, identity, comm.rank)
        #: By parity of what was written: (neighbour, address to send, address to receive).
        self._exchanges = [
            [
                (comm.rank + step, self.slab.address(parity, own), self.slab.address(parity, halo))
                for step, (own, halo) in slabs.exchanged_rows(self.slab, problem.halo).items()
                if 0 <= comm.rank + step < comm.size
            ]
            for parity in (0, 1)
        ]

    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of the border rows of an array."""
        if self.communicator is None:
            return
        nccl, count, pointer = self.nccl, self.count, stream.ptr
        nccl.groupStart()
        for neighbour, own, halo in self._exchanges[parity]:
            self.communicator.send(own, count, nccl.NCCL_FLOAT32, neighbour, pointer)
            self.communicator.recv(halo, count, nccl.NCCL_FLOAT32, neighbour, pointer)
        nccl.groupEnd()

    def plain(self, parity: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.slab.launch("all", parity, self.stream)
        self.exchange(1 - parity, self.stream)

    def overlapped(self, parity: int) -> None:
        """Enqueue a step: border and exchange on one stream, interior on the other.

        Each reads what the other wrote in the step before, and overwrites what it read then.
        """
        self.border_stream.wait_event(self.interior_done)
        self.stream.wait_event(self.border_done)
        self.slab.launch("border", parity, self.border_stream)
        self.border_done.record(self.border_stream)
        self.exchange(1 - parity, self.border_stream)
        self.slab.launch("interior", parity, self.stream)
        self.interior_done.record(self.stream)

    def synchronize(self) -> None:
        """Wait for both streams."""
        self.stream.synchronize()
        self.border_stream.synchronize()


def run(problem: slabs.Problem) -> int:
    """Measure or check; the first rank prints. The exit status."""
    options = problem.options
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    comm = MPI.COMM_WORLD
    if options.gpus not in {None, comm.size}:
        raise SystemExit(f"--gpus {options.gpus}, but there are {comm.size} ranks: mpirun -n {options.gpus}")
    rank = Rank(problem, comm)
    variants = slabs.variants_of(rank.plain, rank.overlapped, options)

    def finish() -> None:
        rank.synchronize()
        comm.barrier()

    def collect() -> Any:
        finish()
        rows = comm.gather(rank.slab.own_rows(0))
        return None if rows is None else np.concatenate(rows)

    if options.check:
        return int(comm.bcast(slabs.check(problem, variants, collect)))
    best, times = batches.time_variants(
        variants, options, finish, comm.bcast, lambda value: float(comm.allreduce(value, MPI.MAX))
    )
    if comm.rank == 0:
        problem.report("one rank per GPU, CuPy + mpi4py + NCCL", comm.size, best, times)
    return 0
