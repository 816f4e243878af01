# SPDX-License-Identifier: MIT
"""N-body by hand, one rank per GPU with NCCL.

Each rank moves its own bodies; then all positions are gathered everywhere, on the stream of the kernel. Or they are
gathered on another stream, while the next step already adds up the pull of the own bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_jobs.benchmarks.scaling.peers import bodies, ranks
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker, on_each

if TYPE_CHECKING:
    from mpi4py import MPI


class Rank(Worker):
    """The bodies of this rank, and its streams."""

    def __init__(self, problem: bodies.Bodies, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.nccl = nccl
        self.share = bodies.Share(device, problem.options.size, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Its kernel has to get in between the blocks of ours.
        self.gathering = cupy.cuda.Stream(non_blocking=True, priority=-1)
        self.streams = (self.stream, self.gathering)
        self.moved = cupy.cuda.Event(disable_timing=True)
        self.gathered = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator = ranks.connect(comm)
        self._gathers = [
            (
                int(array.data.ptr) + comm.rank * self.share.capacity * bodies.BODY_BYTES,
                int(array.data.ptr),
                4 * self.share.capacity,
                nccl.NCCL_FLOAT32,
            )
            for array in self.share.arrays
        ]

    def gather(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of the positions in an array, in place."""
        if self.communicator is not None:
            self.communicator.allGather(*self._gathers[parity], stream.ptr)

    def plain(self, parity: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.share.launch(bodies.WHOLE, parity, self.stream)
        self.gather(1 - parity, self.stream)

    def overlapped(self, parity: int) -> None:
        """Enqueue a step: the pull of the own bodies while the others' positions arrive, then the rest."""
        self.share.launch(bodies.FROM_OWN, parity, self.stream)
        self.stream.wait_event(self.gathered)
        self.share.launch(bodies.FROM_OTHERS, parity, self.stream)
        self.moved.record(self.stream)
        self.gathering.wait_event(self.moved)
        self.gather(1 - parity, self.gathering)
        self.gathered.record(self.gathering)

    @classmethod
    def variants(cls, workers: list[Rank]) -> dict[str, Step]:
        """By name, the ways to enqueue a step."""
        return {"plain": on_each(workers, cls.plain), "overlapped": on_each(workers, cls.overlapped)}
