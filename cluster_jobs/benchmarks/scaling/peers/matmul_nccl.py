# SPDX-License-Identifier: MIT
"""Matrix products by hand, one rank per GPU.

With NCCL, each rank broadcasts its rows of B C behind the first product, or each band of rows behind the kernel that
computes it, on a stream of its own, while the next band is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_jobs.benchmarks.scaling.peers import matmul, ranks
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker

if TYPE_CHECKING:
    from mpi4py import MPI


class Rank(Worker):
    """The share of this rank and its streams."""

    def __init__(self, problem: matmul.Products, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.comm, self.nccl, self.size = comm, nccl, problem.options.size
        self.share = matmul.Share(device, self.size, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.messages = cupy.cuda.Stream(non_blocking=True)
        self.streams = (self.stream, self.messages)
        self.computed = cupy.cuda.Event(disable_timing=True)
        self.arrived = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator = ranks.connect(comm)

    def step(self, num_bands: int) -> None:
        """Enqueue both products; the rows of B C travel in so many bands."""
        bands = [matmul.bands_of(rank, self.comm.size, self.size, num_bands) for rank in range(self.comm.size)]
        for index in range(num_bands):
            self.share.first_product(bands[self.comm.rank][index], self.stream)
            if self.communicator is not None:
                self._exchange([spans[index] for spans in bands])
        if self.communicator is not None:
            self.arrived.record(self.messages)
            self.stream.wait_event(self.arrived)
        self.share.second_product(self.stream)

    def _exchange(self, bands: list[tuple[int, int]]) -> None:
        """Enqueue broadcasts of a band of each rank, behind the kernels."""
        nccl, pointer = self.nccl, self.messages.ptr
        self.computed.record(self.stream)
        self.messages.wait_event(self.computed)
        nccl.groupStart()
        for rank, (first, end) in enumerate(bands):
            if first < end:
                address, count = self.share.address(first), (end - first) * self.size
                self.communicator.bcast(address, count, nccl.NCCL_FLOAT64, rank, pointer)
        nccl.groupEnd()

    @classmethod
    def variants(cls, workers: list[Rank]) -> dict[str, Step]:
        """By name, the ways to enqueue both products."""
        return matmul.variants_of(workers[0].step)
