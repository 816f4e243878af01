# SPDX-License-Identifier: MIT
"""RSim by hand, one rank per GPU with NCCL: `mpirun -n 4 python -m cluster_jobs.benchmarks.scaling.peers.rsim_nccl`.

Each rank computes its part of a row of the history; then the row is gathered everywhere, on the stream of the kernel.
The next step needs all of it, so there is nothing to do meanwhile.
"""

from __future__ import annotations

from mpi4py import MPI

from cluster_jobs.benchmarks.scaling.peers import batches, light, ranks


class Rank:
    """The patches of this rank, and its stream."""

    def __init__(self, comm: MPI.Comm, scene: light.Scene, steps: int) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.share = light.Share(device, scene, steps, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
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


def main(arguments: list[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    options = light.parsed(__doc__ or "", "stop if there are not so many ranks", arguments)
    comm = ranks.world(options.gpus)
    scene = light.scene_of(options)
    rank = Rank(comm, scene, options.steps)

    def finish() -> None:
        rank.stream.synchronize()
        comm.barrier()

    if options.check:
        for step in range(options.steps):
            rank.plain(step)
        finish()
        histories = comm.gather(rank.share.whole_history())
        return int(comm.bcast(light.verdict(scene, histories) if histories is not None else None))
    variants = batches.chosen({"plain": light.counted(rank.plain, options.steps)}, options.overlap)
    best, times = batches.time_variants(variants, options, finish, *ranks.agreement(comm))
    if comm.rank == 0:
        program = "one rank per GPU, CuPy + mpi4py + NCCL"
        light.report(program, comm.size, best, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
