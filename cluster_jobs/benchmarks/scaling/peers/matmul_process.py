# SPDX-License-Identifier: MIT
"""Matrix products by hand, one process that drives all GPUs.

    python -m cluster_jobs.benchmarks.scaling.peers.matmul_process

Each GPU copies its rows of B C to all others behind the first product, or each band of rows behind the kernel that
computes it, on streams of their own, while the next band is computed.
"""

from __future__ import annotations

import numpy as np

from cluster_jobs.benchmarks.scaling.peers import batches, matmul


class Gpu:
    """The share of one GPU, its streams and its events."""

    def __init__(self, device: int, size: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device, self.size, self.parts = device, size, parts
        with cupy.cuda.Device(device):
            for other in range(parts):
                if other != device:
                    self.runtime.deviceEnablePeerAccess(other)
            self.share = matmul.Share(device, size, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.computed = cupy.cuda.Event(disable_timing=True)
            #: The other GPUs may overwrite what this one reads of B C.
            self.read = cupy.cuda.Event(disable_timing=True)
            #: By other GPU: a stream for copies there, and the event behind them.
            self.copies = {
                other: (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(disable_timing=True))
                for other in range(parts)
                if other != device
            }
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
        """Enqueue this GPU's rows of D, behind the copies from the others and its own, which read what comes next."""
        self.runtime.setDevice(self.device)
        for other in self.copies:
            self.stream.wait_event(gpus[other].copies[self.device][1])
        self.share.second_product(self.stream)
        self.read.record(self.stream)
        for _, arrived in self.copies.values():
            self.stream.wait_event(arrived)

    def synchronize(self) -> None:
        """Wait for all streams."""
        for stream in (self.stream, *(stream for stream, _ in self.copies.values())):
            stream.synchronize()


def main(arguments: list[str] | None = None) -> int:
    """Measure or check."""
    parser = matmul.argument_parser(__doc__ or "")
    parser.add_argument("--gpus", type=int, help="how many, all if left out")
    options = parser.parse_args(arguments)
    import cupy

    count = options.gpus or cupy.cuda.runtime.getDeviceCount()
    gpus = [Gpu(device, options.size, count) for device in range(count)]

    def both_products(num_bands: int) -> None:
        for gpu in gpus:
            gpu.first_product(gpus, num_bands)
        for gpu in gpus:
            gpu.second_product(gpus)

    def finish() -> None:
        for gpu in gpus:
            gpu.synchronize()

    variants = matmul.variants_of(both_products, options)
    if options.check:
        status = 0
        for name, step in variants.items():
            for parity in range(options.steps):
                step(parity)
            finish()
            print(name, end=": ")
            status |= matmul.verdict(np.concatenate([gpu.share.result() for gpu in gpus]), options.size)
            for gpu in gpus:
                gpu.share.forget()
        return status
    variant, times = batches.time_variants(variants, options, finish, are_long=True)
    matmul.report("one process, CuPy with peer copies and events", count, variant, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
