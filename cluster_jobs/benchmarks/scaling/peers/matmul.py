# SPDX-License-Identifier: MIT
"""Matrix products by hand: the kernel, the rows of one GPU, and the problem.

D = A (B C) in float64, with kernel and factors of `cluster_jobs/apps/matmul.py`. Each GPU computes some rows of B C and
of D, and keeps the whole of C and of B C. It gives its rows of B C to all others behind the first product, or each band
of rows behind the kernel that computes it, on streams of their own, while the next band is computed. In one process
these are copies. With one rank per GPU, they are broadcasts by NCCL.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers import kernels, ranks
from cluster_jobs.benchmarks.scaling.peers.applications import frame, matmul
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, Worker, others_of, reach, rows_of

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

#: Bands that the rows of a GPU are cut into if transfers overlap with computing.
NUM_BANDS = 4


def bands_of(part: int, parts: int, size: int, number: int) -> list[tuple[int, int]]:
    """The rows of a part, cut into bands; some may be empty."""
    first, end = rows_of(size, part, parts)
    cuts = [first + (end - first) * index // number for index in range(number + 1)]
    return list(itertools.pairwise(cuts))


class Share:
    """Factors and products of one GPU."""

    def __init__(self, device: int, size: int, part: int, parts: int) -> None:
        import cupy

        self.size = size
        self.first_row, self.end_row = rows_of(size, part, parts)
        self.row_bytes = 8 * size

        def factor(first: int, end: int, seed: int) -> Any:
            return cupy.asarray(matmul.entries(celerity.Box((first, 0), (end, size)), seed))

        with cupy.cuda.Device(device):
            self.device = cupy.cuda.Device(device)
            self.a, self.b = (factor(self.first_row, self.end_row, seed) for seed in (1, 2))
            self.c = factor(0, size, 3)
            self.bc = cupy.zeros((size, size), np.float64)
            self.d = cupy.zeros((self.end_row - self.first_row, size), np.float64)
        a, b, d = (kernels.accessor(array, self.first_row) for array in (self.a, self.b, self.d))
        c, bc = (kernels.accessor(array) for array in (self.c, self.bc))

        def launch(product: Any, left: Any, right: Any, first: int, end: int) -> kernels.Launch:
            rows = kernels.chunk((first, 0), (end, size), (size, size))
            return kernels.Launch(matmul.multiply, device, rows, product, left, right, np.int64(size))

        bands = {band for number in (1, NUM_BANDS) for band in bands_of(part, parts, size, number) if band[0] < band[1]}
        self._first_products = {band: launch(bc, b, c, *band) for band in bands}
        self._second_product = launch(d, a, bc, self.first_row, self.end_row)

    def first_product(self, band: tuple[int, int], stream: Any) -> None:
        """Enqueue a band of B C."""
        if band in self._first_products:  # it has rows
            self._first_products[band](stream)

    def second_product(self, stream: Any) -> None:
        """Enqueue the own rows of D."""
        self._second_product(stream)

    def result(self) -> NDArray[np.float64]:
        """A copy of the own rows of D."""
        with self.device:
            rows: NDArray[np.float64] = self.d.get()
        return rows

    def reset(self) -> None:
        """Overwrite both products, so that the next check sees new results only."""
        with self.device:
            self.bc.fill(np.nan)
            self.d.fill(np.nan)
            self.device.synchronize()

    def address(self, row: int) -> int:
        """Where a row of B C lies."""
        return int(self.bc.data.ptr) + row * self.row_bytes


def variants_of(step: Step) -> dict[str, Step]:
    """By name, steps that enqueue both products; `step` takes the number of bands in which B C travels."""

    def in_bands(number: int) -> Step:
        return lambda _parity: step(number)

    return {"plain": in_bands(1), "overlapped": in_bands(NUM_BANDS)}


class Products(Problem):
    """D = A (B C)."""

    default_size, size_help, default_steps = 8192, "rows and columns of each matrix", 2
    has_long_steps = True

    @property
    def checked_steps(self) -> int:
        """Of any number: each step computes the same."""
        return int(self.options.steps)

    def verdict(self, results: Sequence[NDArray[np.float64]], steps: int) -> int:
        """Compare with NumPy; the exit status."""
        return int(not frame.agrees(np.concatenate(results), matmul.reference(self.options.size)))


class Gpu(Worker):
    """The share of one GPU, its streams and its events."""

    def __init__(self, problem: Products, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device, self.size, self.parts = device, problem.options.size, parts
        with cupy.cuda.Device(device):
            reach(others_of(device, parts))
            self.share = Share(device, self.size, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.computed = cupy.cuda.Event(disable_timing=True)
            #: The other GPUs may overwrite what this one reads of B C.
            self.read = cupy.cuda.Event(disable_timing=True)
            #: By other GPU: a stream for copies there, and the event behind them.
            self.copies = {
                other: (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(disable_timing=True))
                for other in others_of(device, parts)
            }
            self.streams = (self.stream, *(stream for stream, _ in self.copies.values()))
            self.runtime.deviceSynchronize()

    def first_product(self, gpus: list[Gpu], num_bands: int) -> None:
        """Enqueue this GPU's rows of B C, and their copies to the others, in so many bands."""
        self.runtime.setDevice(self.device)
        for other, (stream, _) in self.copies.items():
            stream.wait_event(gpus[other].read)
        for first, end in bands_of(self.device, self.parts, self.size, num_bands):
            if first == end:
                continue
            self.share.first_product((first, end), self.stream)
            self.computed.record(self.stream)
            size_bytes = (end - first) * self.share.row_bytes
            for other, (stream, _) in self.copies.items():
                stream.wait_event(self.computed)
                target = gpus[other].share.address(first)
                kind = self.runtime.memcpyDeviceToDevice
                self.runtime.memcpyAsync(target, self.share.address(first), size_bytes, kind, stream.ptr)
        for stream, arrived in self.copies.values():
            arrived.record(stream)

    def second_product(self, gpus: list[Gpu]) -> None:
        """Enqueue this GPU's rows of D behind the copies from the others. Its own copies end before the next step."""
        self.runtime.setDevice(self.device)
        for other in self.copies:
            self.stream.wait_event(gpus[other].copies[self.device][1])
        self.share.second_product(self.stream)
        self.read.record(self.stream)
        for _, arrived in self.copies.values():
            self.stream.wait_event(arrived)

    @classmethod
    def variants(cls, workers: list[Gpu]) -> dict[str, Step]:
        """By name, the ways to enqueue both products on all GPUs."""

        def both_products(num_bands: int) -> None:
            for gpu in workers:
                gpu.first_product(workers, num_bands)
            for gpu in workers:
                gpu.second_product(workers)

        return variants_of(both_products)


class Rank(Worker):
    """The share of this rank and its streams."""

    def __init__(self, problem: Products, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        device = ranks.use_gpu(comm)
        self.comm, self.nccl, self.size = comm, nccl, problem.options.size
        self.share = Share(device, self.size, comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.messages = cupy.cuda.Stream(non_blocking=True)
        self.streams = (self.stream, self.messages)
        self.computed = cupy.cuda.Event(disable_timing=True)
        self.arrived = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator = ranks.connect(comm)

    def step(self, num_bands: int) -> None:
        """Enqueue both products; the rows of B C travel in so many bands."""
        bands = [bands_of(rank, self.comm.size, self.size, num_bands) for rank in range(self.comm.size)]
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
        return variants_of(workers[0].step)
