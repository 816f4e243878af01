# SPDX-License-Identifier: MIT
"""N-body by hand, one process that drives all GPUs.

Each GPU moves its own bodies; then its stream copies their positions to all others, whose streams wait for an event
behind the copies. Or the copies are made on another stream, while the next step already adds up what the own bodies
pull; or the kernel itself stores new positions in the memory of all GPUs.
"""

from __future__ import annotations

from typing import Any

from cluster_jobs.benchmarks.scaling.peers import bodies
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker, on_each, others_of, reach


class Gpu(Worker):
    """The bodies of one GPU, its streams and its events."""

    def __init__(self, problem: bodies.Bodies, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device = device
        with cupy.cuda.Device(device):
            reach(others_of(device, parts))
            self.share = bodies.Share(device, problem.options.size, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.copying = cupy.cuda.Stream(non_blocking=True)
            self.streams = (self.stream, self.copying)
            self.moved = cupy.cuda.Event(disable_timing=True)
            #: By parity of the step: its kernel has read all positions, and its own new ones are everywhere.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
            self.runtime.deviceSynchronize()
        self.size_bytes = (self.share.end - self.share.first) * bodies.BODY_BYTES
        self.others: list[Gpu] = []
        #: By parity of the written array: (destination, source).
        self.copies: list[list[tuple[int, int]]] = [[], []]

    def connect(self, workers: list[Gpu]) -> None:
        """Find the arrays of the others, the next GPU first, so that not all copy to the same one at a time."""
        self.others = [*workers[self.device + 1 :], *workers[: self.device]]
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
        """Let the stream wait for the data that the others wrote in a step of this parity."""
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
        """Enqueue this GPU's part of a step: the pull of its own bodies while other positions arrive, then the rest."""
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

    @classmethod
    def variants(cls, workers: list[Gpu]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs."""
        steps = {"plain": cls.plain, "overlapped": cls.overlapped, "storing": cls.storing}
        return {name: on_each(workers, step) for name, step in steps.items()}
