# SPDX-License-Identifier: MIT
"""N-body by hand, one process that drives all GPUs: `python -m cluster_jobs.benchmarks.scaling.peers.nbody_process`.

Each GPU moves its own bodies; then its stream copies their positions to all others, whose streams wait for an event
behind the copies. Or the copies are made on another stream, while the next step already adds up what the own bodies
pull; or the kernel itself stores new positions in the memory of all GPUs.
"""

from __future__ import annotations

from typing import Any

from cluster_jobs.benchmarks.scaling.peers import batches, bodies


class Gpu:
    """The bodies of one GPU, its streams and its events."""

    def __init__(self, device: int, num_bodies: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device = device
        with cupy.cuda.Device(device):
            for other in range(parts):
                if other != device:
                    self.runtime.deviceEnablePeerAccess(other)
            self.share = bodies.Share(device, num_bodies, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.copying = cupy.cuda.Stream(non_blocking=True)
            self.moved = cupy.cuda.Event(disable_timing=True)
            #: By parity of the step: its kernel has read all positions, and its own new ones are everywhere.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
            self.runtime.deviceSynchronize()
        self.size_bytes = (self.share.end - self.share.first) * bodies.BODY_BYTES
        self.others: list[Gpu] = []
        #: By parity of what was written: (destination, source).
        self.copies: list[list[tuple[int, int]]] = [[], []]

    def connect(self, gpus: list[Gpu]) -> None:
        """Find the arrays of the others, the next GPU first, so that not all copy to the same one at a time."""
        self.others = [*gpus[self.device + 1 :], *gpus[: self.device]]
        offset = self.share.first * bodies.BODY_BYTES
        addresses = [[int(other.share.arrays[parity].data.ptr) for other in self.others] for parity in (0, 1)]
        for parity in (0, 1):
            source = self.share.address(parity)
            self.copies[parity] = [(address + offset, source) for address in addresses[parity]]
        self.share.set_destinations(addresses)

    def push(self, parity: int, stream: Any) -> None:
        """Enqueue the copies of the own positions in an array to all others."""
        runtime, size_bytes = self.runtime, self.size_bytes
        for destination, source in self.copies[parity]:
            runtime.memcpyAsync(destination, source, size_bytes, runtime.memcpyDeviceToDevice, stream.ptr)

    def wait_for_others(self, parity: int) -> None:
        """Let the stream wait for what the others wrote in a step of this parity."""
        for other in self.others:
            self.stream.wait_event(other.arrived[parity])

    def plain(self, parity: int) -> None:
        """Enqueue this GPU's part of a step: kernel, copies."""
        self.runtime.setDevice(self.device)
        self.wait_for_others(1 - parity)
        self.share.launch(bodies.WHOLE, parity, self.stream)
        self.push(1 - parity, self.stream)
        self.arrived[parity].record(self.stream)

    def overlapped(self, parity: int) -> None:
        """Enqueue this GPU's part of a step: what the own bodies pull while the others' positions arrive, the rest."""
        self.runtime.setDevice(self.device)
        self.share.launch(bodies.FROM_OWN, parity, self.stream)
        self.wait_for_others(1 - parity)
        self.share.launch(bodies.FROM_OTHERS, parity, self.stream)
        self.moved.record(self.stream)
        self.copying.wait_event(self.moved)
        self.push(1 - parity, self.copying)
        self.arrived[parity].record(self.copying)

    def storing(self, parity: int) -> None:
        """Enqueue this GPU's part of a step: a kernel that stores new positions everywhere."""
        self.runtime.setDevice(self.device)
        self.wait_for_others(1 - parity)
        self.share.launch(bodies.WHOLE, parity, self.stream, "everywhere")
        self.arrived[parity].record(self.stream)

    def synchronize(self) -> None:
        """Wait for both streams."""
        self.stream.synchronize()
        self.copying.synchronize()


def main(arguments: list[str] | None = None) -> int:
    """Measure or check."""
    parser = bodies.argument_parser(__doc__ or "")
    parser.add_argument("--gpus", type=int, help="how many, all if left out")
    options = parser.parse_args(arguments)
    bodies.refuse_large_checks(options)
    import cupy

    count = options.gpus or cupy.cuda.runtime.getDeviceCount()
    gpus = [Gpu(device, options.size, count) for device in range(count)]
    for gpu in gpus:
        gpu.connect(gpus)

    def on_all(name: str) -> Any:
        steps = [getattr(gpu, name) for gpu in gpus]

        def step(parity: int) -> None:
            for enqueue in steps:
                enqueue(parity)

        return step

    def finish() -> None:
        for gpu in gpus:
            gpu.synchronize()

    variants = {name: on_all(name) for name in ("plain", "overlapped", "storing")}
    variants = batches.chosen(variants, options.overlap)
    if options.check:
        status = 0
        for name, step in variants.items():
            for gpu in gpus:
                gpu.share.reset()
            for _ in range(options.steps // 2 + 1):
                step(0)
                step(1)
            finish()
            print(name, end=": ")
            status |= bodies.verdict([gpu.share.own() for gpu in gpus], options, (options.steps // 2 + 1) * 2)
        return status
    best, times = batches.time_variants(variants, options, finish)
    bodies.report("one process, CuPy with peer copies and events", count, best, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
