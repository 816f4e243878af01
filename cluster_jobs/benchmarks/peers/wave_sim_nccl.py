# SPDX-License-Identifier: MIT
"""WaveSim by hand, one rank per GPU with NCCL: `mpirun -n 4 python -m cluster_jobs.benchmarks.peers.wave_sim_nccl`.

Each rank owns a slab of rows and exchanges halo rows with its neighbours after each step, on the stream of the kernel;
or it computes its border rows first and exchanges them behind the interior, on a stream of their own.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from mpi4py import MPI

from cluster_jobs.benchmarks.peers import batches, wave


class Rank:
    """The slab of this rank, its streams, and its neighbours."""

    def __init__(self, comm: MPI.Comm, size: int) -> None:
        import cupy
        from cupy.cuda import nccl

        local = comm.Split_type(MPI.COMM_TYPE_SHARED)
        device = local.rank % cupy.cuda.runtime.getDeviceCount()
        cupy.cuda.Device(device).use()
        self.nccl = nccl
        self.slab = wave.Slab(device, size, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.border_stream = cupy.cuda.Stream(non_blocking=True)
        self.interior_done = cupy.cuda.Event(disable_timing=True)
        self.border_done = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()
        #: (neighbour, own row to send, halo row to receive)
        self.neighbours = []
        if comm.rank > 0:
            self.neighbours.append((comm.rank - 1, 1, 0))
        if comm.rank < comm.size - 1:
            self.neighbours.append((comm.rank + 1, self.slab.num_rows, self.slab.num_rows + 1))
        self.communicator: Any = None
        if comm.size > 1:
            identity = comm.bcast(nccl.get_unique_id() if comm.rank == 0 else None)
            self.communicator = nccl.NcclCommunicator(comm.size, identity, comm.rank)
        #: By parity of what was written: (neighbour, address to send, address to receive).
        self._exchanges = [
            [(rank, self.slab.address(p, own), self.slab.address(p, halo)) for rank, own, halo in self.neighbours]
            for p in (0, 1)
        ]

    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of the border rows of an array."""
        if self.communicator is None:
            return
        nccl, count, pointer = self.nccl, self.slab.size, stream.ptr
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


def main(arguments: list[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    parser = batches.argument_parser(__doc__ or "", size=16384, size_help="cells along each side of the pond")
    parser.add_argument("--gpus", type=int, help="stop if there are not so many ranks")
    options = parser.parse_args(arguments)
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    comm = MPI.COMM_WORLD
    if options.gpus not in {None, comm.size}:
        raise SystemExit(f"--gpus {options.gpus}, but there are {comm.size} ranks: mpirun -n {options.gpus}")
    rank = Rank(comm, options.size)
    variants = batches.chosen({"plain": rank.plain, "overlapped": rank.overlapped}, options.overlap)

    def finish() -> None:
        rank.synchronize()
        comm.barrier()

    if options.check:
        status = 0
        for number, (name, step) in enumerate(variants.items(), 1):
            for _ in range(options.steps // 2 + 1):
                step(0)
                step(1)
            finish()
            rows = comm.gather(rank.slab.own_rows(0))
            if rows is not None:
                print(name, end=": ")
                status |= wave.verdict(np.concatenate(rows), options, number * (options.steps // 2 + 1) * 2)
        return int(comm.bcast(status))
    best, times = batches.time_variants(
        variants, options, finish, comm.bcast, lambda value: float(comm.allreduce(value, MPI.MAX))
    )
    if comm.rank == 0:
        wave.report("one rank per GPU, CuPy + mpi4py + NCCL", comm.size, best, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
