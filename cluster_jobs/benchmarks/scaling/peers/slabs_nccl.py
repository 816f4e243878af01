# SPDX-License-Identifier: MIT
"""Slabs of rows by hand, one rank per GPU with NCCL.

Each rank owns a slab of rows and exchanges halo rows with its neighbours after each step, on the stream of the kernel;
or it computes its border rows first and exchanges them behind the interior, on a stream of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_jobs.benchmarks.scaling.peers import ranks, slabs

if TYPE_CHECKING:
    from mpi4py import MPI


class Rank(slabs.SlabWorker):
    """The slab of this rank, its streams, and its neighbours."""

    def __init__(self, problem: slabs.SlabProblem, comm: MPI.Comm) -> None:
        from cupy.cuda import nccl

        super().__init__(slabs.Slab(problem, ranks.use_gpu(comm), comm.rank, comm.size))
        self.nccl = nccl
        self.count = problem.halo * self.share.row_elements
        self.communicator = ranks.connect(comm)
        #: By parity of the written array: (neighbour, address to send, address to receive).
        self._exchanges = [
            [
                (comm.rank + step, self.share.address(parity, own), self.share.address(parity, halo))
                for step, (own, halo) in slabs.exchanged_rows(self.share, problem.halo).items()
                if 0 <= comm.rank + step < comm.size
            ]
            for parity in (0, 1)
        ]

    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of border rows after a step of this parity."""
        if self.communicator is None:
            return
        nccl, count, pointer = self.nccl, self.count, stream.ptr
        nccl.groupStart()
        for neighbour, own, halo in self._exchanges[1 - parity]:
            self.communicator.send(own, count, nccl.NCCL_FLOAT32, neighbour, pointer)
            self.communicator.recv(halo, count, nccl.NCCL_FLOAT32, neighbour, pointer)
        nccl.groupEnd()
