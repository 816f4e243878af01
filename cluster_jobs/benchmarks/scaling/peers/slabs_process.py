# SPDX-License-Identifier: MIT
"""Slabs of rows by hand, one process that drives all GPUs.

Each GPU owns a slab of rows. After its kernel, its stream copies the border rows into the halos of the neighbours,
whose streams wait for an event behind the copies. Or the border rows are computed first and copied behind the
interior, on a stream of their own; that takes more calls from Python.
"""

from __future__ import annotations

from typing import Any

from cluster_jobs.benchmarks.scaling.peers import slabs
from cluster_jobs.benchmarks.scaling.peers.problem import reach


class Gpu(slabs.SlabWorker):
    """The slab of one GPU, its streams and its events."""

    def __init__(self, problem: slabs.SlabProblem, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device, self.halo = device, problem.halo
        with cupy.cuda.Device(device):
            reach(neighbour for neighbour in (device - 1, device + 1) if 0 <= neighbour < parts)
            super().__init__(slabs.Slab(problem, device, device, parts))
            #: By parity of the step: its kernel has read its halo, and its rows have reached the neighbours.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
        self.neighbours: list[Gpu] = []
        #: By parity of the written array: (destination, source).
        self.copies: list[list[tuple[int, int]]] = [[], []]

    def connect(self, workers: list[Gpu]) -> None:
        """Find the rows of the neighbours."""
        for step, (own, _) in slabs.exchanged_rows(self.share, self.halo).items():
            if not 0 <= self.device + step < len(workers):
                continue
            neighbour = workers[self.device + step]
            self.neighbours.append(neighbour)
            _, halo = slabs.exchanged_rows(neighbour.share, self.halo)[-step]
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
