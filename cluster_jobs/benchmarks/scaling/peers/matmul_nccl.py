# SPDX-License-Identifier: MIT
"""Matrix products by hand, one rank per GPU: `mpirun -n 4 python -m cluster_jobs.benchmarks.scaling.peers.matmul_nccl`.

With NCCL, each rank broadcasts its rows of B C behind the first product, or each band of rows behind the kernel that
computes it, on a stream of its own, while the next band is computed.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from cluster_jobs.benchmarks.scaling.peers import batches, matmul, ranks


class Rank:
    """The share of this rank and its streams."""

    def __init__(self, comm: MPI.Comm, size: int) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.comm, self.nccl, self.size = comm, nccl, size
        self.share = matmul.Share(device, size, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.messages = cupy.cuda.Stream(non_blocking=True)
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
        """Enqueue that everybody gets a band of each rank, behind what is computed."""
        nccl, pointer = self.nccl, self.messages.ptr
        self.computed.record(self.stream)
        self.messages.wait_event(self.computed)
        nccl.groupStart()
        for rank, (first, end) in enumerate(bands):
            if first < end:
                address, count = self.share.address(first), (end - first) * self.size
                self.communicator.bcast(address, count, nccl.NCCL_FLOAT64, rank, pointer)
        nccl.groupEnd()

    def synchronize(self) -> None:
        """Wait for both streams."""
        self.stream.synchronize()
        self.messages.synchronize()


def main(arguments: list[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    parser = matmul.argument_parser(__doc__ or "")
    parser.add_argument("--gpus", type=int, help="stop if there are not so many ranks")
    options = parser.parse_args(arguments)
    comm = ranks.world(options.gpus)
    rank = Rank(comm, options.size)

    def finish() -> None:
        rank.synchronize()
        comm.barrier()

    variants = matmul.variants_of(rank.step, options)
    if options.check:
        status = 0
        for name, step in variants.items():
            for parity in range(options.steps):
                step(parity)
            finish()
            rows = comm.gather(rank.share.result())
            if rows is not None:
                print(name, end=": ")
                status |= matmul.verdict(np.concatenate(rows), options.size)
            rank.share.forget()
            comm.barrier()
        return int(comm.bcast(status))
    variant, times = batches.time_variants(variants, options, finish, *ranks.agreement(comm), are_long=True)
    if comm.rank == 0:
        matmul.report("one rank per GPU, CuPy + mpi4py + NCCL", comm.size, variant, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
