# SPDX-License-Identifier: MIT
"""Programs by hand that divide an array into slabs of rows, and exchange border rows after each step.

In a step of parity p, array p of a slab is read and array 1 - p written. Rows 0 to `halo` - 1 and the last `halo` rows
belong to the neighbours, or to nobody.

In one process, a GPU's stream copies the border rows into the halos of the neighbours after its kernel, and the streams
of the neighbours wait for an event behind the copies. With one rank per GPU, NCCL exchanges the rows. Or the border
rows are computed first, and exchanged behind the interior on a stream of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import kernels, ranks
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, Worker, on_each, reach, rows_of

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from celerity_py.kernels import Kernel


class SlabProblem(Problem):
    """A problem that is divided into slabs, with the kernel of the application."""

    starts_over = False
    #: Rows that a step reads above and below those that it writes.
    halo: ClassVar[int]
    #: Rows and columns, of float32.
    shape: tuple[int, int]

    @abstractmethod
    def rows(self, first: int, end: int) -> NDArray[np.float32]:
        """The initial contents of some rows."""

    @abstractmethod
    def kernel_for(self, elements: int) -> Kernel:
        """The kernel for slabs of so many elements."""

    @abstractmethod
    def constant(self) -> Any:
        """The last argument of the kernel: a scalar, or an array of the host."""


class Slab:
    """The rows of one GPU, on it, twice; SystemExit if there are too few rows for so many GPUs."""

    def __init__(self, problem: SlabProblem, device: int, part: int, parts: int) -> None:
        import cupy

        halo, (height, self.row_elements) = problem.halo, problem.shape
        first, end = rows_of(height, part, parts, fewest=2 * halo + 1)
        self.halo, self.num_rows = halo, end - first
        contents = np.zeros((self.num_rows + 2 * halo, self.row_elements), np.float32)
        above, below = max(first - halo, 0), min(end + halo, height)
        start = above - first + halo
        contents[start : start + below - above] = problem.rows(above, below)
        constant = problem.constant()
        with cupy.cuda.Device(device):
            self.arrays = [cupy.asarray(contents), cupy.asarray(contents)]
            self._constant = cupy.asarray(constant) if isinstance(constant, np.ndarray) else constant
        kernel = problem.kernel_for(self.num_rows * self.row_elements)
        last = kernels.accessor(self._constant) if isinstance(constant, np.ndarray) else constant
        accessors = [kernels.accessor(array, first - halo) for array in self.arrays]

        def launches(low: int, high: int) -> list[kernels.Launch]:
            """An update of some rows, by parity."""
            rows = kernels.chunk((low, 0), (high, self.row_elements), problem.shape)
            return [
                kernels.Launch(kernel, device, rows, accessors[1 - parity], accessors[parity], last)
                for parity in (0, 1)
            ]

        self._launches = {
            "all": [launches(first, end)],
            "interior": [launches(first + halo, end - halo)],
            "border": [launches(first, first + halo), launches(end - halo, end)],
        }

    def launch(self, part: str, parity: int, stream: Any) -> None:
        """Enqueue a step of "all" rows, of the "border" (the first and last `halo` ones), or of the "interior"."""
        for by_parity in self._launches[part]:
            by_parity[parity](stream)

    def address(self, parity: int, row: int) -> int:
        """Where a row lies, halo rows counted."""
        return int(self.arrays[parity].data.ptr) + row * 4 * self.row_elements

    def result(self) -> NDArray[np.float32]:
        """A copy of the own rows after an even number of steps."""
        rows: NDArray[np.float32] = self.arrays[0][self.halo : -self.halo].get()
        return rows


def exchanged_rows(slab: Slab, halo: int) -> dict[int, tuple[int, int]]:
    """By the step to the neighbour, -1 or 1: the first row that it gets, and the first one that comes from it."""
    return {-1: (halo, 0), 1: (slab.num_rows, slab.num_rows + halo)}


class SlabWorker(Worker):
    """Who computes a slab: the whole of it and then exchanges its border on the same stream, or the border first.

    A layout says how rows are exchanged.
    """

    def __init__(self, slab: Slab) -> None:
        import cupy

        self.share = slab
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.border_stream = cupy.cuda.Stream(non_blocking=True)
        self.streams = (self.stream, self.border_stream)
        self.interior_done = cupy.cuda.Event(disable_timing=True)
        self.border_done = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()

    def begin(self, parity: int, stream: Any) -> None:
        """Enqueue the first operation of a step on the stream that computes the border."""

    @abstractmethod
    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the exchange of border rows after a step of this parity."""

    def plain(self, parity: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.begin(parity, self.stream)
        self.share.launch("all", parity, self.stream)
        self.exchange(parity, self.stream)

    def overlapped(self, parity: int) -> None:
        """Enqueue a step: border and exchange on one stream, interior on the other.

        Each kernel reads rows that the other one wrote in the step before, and overwrites rows that the other one read.
        """
        self.begin(parity, self.border_stream)
        self.border_stream.wait_event(self.interior_done)
        self.stream.wait_event(self.border_done)
        self.share.launch("border", parity, self.border_stream)
        self.border_done.record(self.border_stream)
        self.exchange(parity, self.border_stream)
        self.share.launch("interior", parity, self.stream)
        self.interior_done.record(self.stream)

    @classmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs of this process."""
        return {"plain": on_each(workers, cls.plain), "overlapped": on_each(workers, cls.overlapped)}


class Gpu(SlabWorker):
    """The slab of one GPU, its streams and its events."""

    def __init__(self, problem: SlabProblem, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device, self.halo = device, problem.halo
        with cupy.cuda.Device(device):
            reach(neighbour for neighbour in (device - 1, device + 1) if 0 <= neighbour < parts)
            super().__init__(Slab(problem, device, device, parts))
            #: By parity of the step: its kernel has read its halo, and its rows have reached the neighbours.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
        self.neighbours: list[Gpu] = []
        #: By parity of the written array: (destination, source).
        self.copies: list[list[tuple[int, int]]] = [[], []]

    def connect(self, workers: list[Gpu]) -> None:
        """Find the rows of the neighbours."""
        for step, (own, _) in exchanged_rows(self.share, self.halo).items():
            if not 0 <= self.device + step < len(workers):
                continue
            neighbour = workers[self.device + step]
            self.neighbours.append(neighbour)
            _, halo = exchanged_rows(neighbour.share, self.halo)[-step]
            for parity in (0, 1):
                self.copies[parity].append((neighbour.share.address(parity, halo), self.share.address(parity, own)))

    def begin(self, parity: int, stream: Any) -> None:
        """Make the stream wait for the rows of the neighbours."""
        self.runtime.setDevice(self.device)
        for neighbour in self.neighbours:
            stream.wait_event(neighbour.arrived[1 - parity])

    def exchange(self, parity: int, stream: Any) -> None:
        """Enqueue the copies of border rows into the neighbours' halos."""
        runtime, size_bytes = self.runtime, 4 * self.halo * self.share.row_elements
        for destination, source in self.copies[1 - parity]:
            runtime.memcpyAsync(destination, source, size_bytes, runtime.memcpyDeviceToDevice, stream.ptr)
        self.arrived[parity].record(stream)


class Rank(SlabWorker):
    """The slab of this rank, its streams, and its neighbours."""

    def __init__(self, problem: SlabProblem, comm: MPI.Comm) -> None:
        from cupy.cuda import nccl

        super().__init__(Slab(problem, ranks.use_gpu(comm), comm.rank, comm.size))
        self.nccl = nccl
        self.count = problem.halo * self.share.row_elements
        self.communicator = ranks.connect(comm)
        #: By parity of the written array: (neighbour, address to send, address to receive).
        self._exchanges = [
            [
                (comm.rank + step, self.share.address(parity, own), self.share.address(parity, halo))
                for step, (own, halo) in exchanged_rows(self.share, problem.halo).items()
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
