# SPDX-License-Identifier: MIT
"""Matrix products by hand, one process that drives all GPUs.

Each GPU copies its rows of B C to all others behind the first product, or each band of rows behind the kernel that
computes it, on streams of their own, while the next band is computed.
"""

from __future__ import annotations

from cluster_jobs.benchmarks.scaling.peers import matmul
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker, others_of, reach


class Gpu(Worker):
    """The share of one GPU, its streams and its events."""

    def __init__(self, problem: matmul.Products, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device, self.size, self.parts = device, problem.options.size, parts
        with cupy.cuda.Device(device):
            reach(others_of(device, parts))
            self.share = matmul.Share(device, self.size, device, parts)
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
        for first, end in matmul.bands_of(self.device, self.parts, self.size, num_bands):
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

        return matmul.variants_of(both_products)
