# SPDX-License-Identifier: MIT
"""RSim by hand, one rank per GPU with NCCL.

Each rank computes its part of a row of the history; then the row is gathered everywhere, on the stream of the kernel.
The next step needs all of it, so there is nothing to do meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_jobs.benchmarks.scaling.peers import light, ranks
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker

if TYPE_CHECKING:
    from mpi4py import MPI


class Rank(Worker):
    """The patches of this rank, and its stream."""

    def __init__(self, problem: light.Light, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        device, steps = ranks.use_gpu(comm), problem.options.steps
        self.share = light.Share(device, problem.scene, steps, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.streams = (self.stream,)
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator = ranks.connect(comm)
        history, row_bytes = int(self.share.history.data.ptr), self.share.row_length * light.LIGHT_BYTES
        own = comm.rank * self.share.capacity * light.LIGHT_BYTES
        self._gathers = [
            (row + own, row, self.share.capacity, nccl.NCCL_FLOAT32)
            for row in range(history, history + steps * row_bytes, row_bytes)
        ]

    def plain(self, step: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.share.launch(step, self.stream)
        if self.communicator is not None:
            self.communicator.allGather(*self._gathers[step], self.stream.ptr)

    @classmethod
    def variants(cls, workers: list[Rank]) -> dict[str, Step]:
        """The only way to enqueue a step."""
        (rank,) = workers
        return {"plain": light.counted(rank.plain, rank.share.steps)}
