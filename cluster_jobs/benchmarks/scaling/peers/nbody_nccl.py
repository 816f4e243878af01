# SPDX-License-Identifier: MIT
"""N-body by hand, one rank per GPU with NCCL: `mpirun -n 4 python -m cluster_jobs.benchmarks.scaling.peers.nbody_nccl`.

Each rank moves its own bodies; then all positions are gathered everywhere, on the stream of the kernel. Or they are
gathered on another stream, while the next step already adds up what the own bodies pull.
"""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from cluster_jobs.benchmarks.scaling.peers import batches, bodies, ranks


class Rank:
    """The bodies of this rank, and its streams."""

    def __init__(self, comm: MPI.Comm, num_bodies: int) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.nccl = nccl
        self.share = bodies.Share(device, num_bodies, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Its kernel has to get in between the blocks of ours.
        self.gathering = cupy.cuda.Stream(non_blocking=True, priority=-1)
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
        """Enqueue a step: what the own bodies pull while the others' positions arrive, then the rest."""
        self.share.launch(bodies.FROM_OWN, parity, self.stream)
        self.stream.wait_event(self.gathered)
        self.share.launch(bodies.FROM_OTHERS, parity, self.stream)
        self.moved.record(self.stream)
        self.gathering.wait_event(self.moved)
        self.gather(1 - parity, self.gathering)
        self.gathered.record(self.gathering)

    def synchronize(self) -> None:
        """Wait for both streams."""
        self.stream.synchronize()
        self.gathering.synchronize()


def main(arguments: list[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    parser = bodies.argument_parser(__doc__ or "")
    parser.add_argument("--gpus", type=int, help="stop if there are not so many ranks")
    options = parser.parse_args(arguments)
    bodies.refuse_large_checks(options)
    comm = ranks.world(options.gpus)
    rank = Rank(comm, options.size)
    variants = batches.chosen({"plain": rank.plain, "overlapped": rank.overlapped}, options.overlap)

    def finish() -> None:
        rank.synchronize()
        comm.barrier()

    if options.check:
        status = 0
        for name, step in variants.items():
            rank.share.reset()
            comm.barrier()
            for _ in range(options.steps // 2 + 1):
                step(0)
                step(1)
            finish()
            own = comm.gather(rank.share.own())
            if own is not None:
                print(name, end=": ")
                status |= bodies.verdict(own, options, (options.steps // 2 + 1) * 2)
        return int(comm.bcast(status))
    best, times = batches.time_variants(variants, options, finish, *ranks.agreement(comm))
    if comm.rank == 0:
        bodies.report("one rank per GPU, CuPy + mpi4py + NCCL", comm.size, best, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
