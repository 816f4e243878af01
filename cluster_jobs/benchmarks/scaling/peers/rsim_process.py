# SPDX-License-Identifier: MIT
"""RSim by hand, one process that drives all GPUs.

Each GPU computes its part of a row of the history; then its stream copies it to all others, whose streams wait for an
event behind the copies. Or the kernel itself stores it in the memory of all GPUs; then all streams wait for one event
of the first GPU, whose stream waits for all others: that takes the fewest calls from Python.
"""

from __future__ import annotations

from functools import partial

from cluster_jobs.benchmarks.scaling.peers import light
from cluster_jobs.benchmarks.scaling.peers.problem import Step, Worker, on_each, others_of, reach


class Gpu(Worker):
    """The patches of one GPU, its stream and its event."""

    def __init__(self, problem: light.Light, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device = device
        with cupy.cuda.Device(device):
            reach(others_of(device, parts))
            self.share = light.Share(device, problem.scene, problem.options.steps, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.streams = (self.stream,)
            #: By parity of the step: its part of the row is everywhere.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
            #: Of the first GPU: all parts are.
            self.complete = cupy.cuda.Event(disable_timing=True)
            self.runtime.deviceSynchronize()
        self.size_bytes = (self.share.end - self.share.first) * light.LIGHT_BYTES
        self.others: list[Gpu] = []
        #: By step: destinations.
        self.destinations: list[list[int]] = []

    def connect(self, workers: list[Gpu]) -> None:
        """Find the histories of the others, the next GPU first, so that not all copy to the same one at a time."""
        self.others = [*workers[self.device + 1 :], *workers[: self.device]]
        histories = [int(other.share.history.data.ptr) for other in self.others]
        offsets = [self.share.address(step) - int(self.share.history.data.ptr) for step in range(self.share.steps)]
        self.destinations = [[history + offset for history in histories] for offset in offsets]
        self.share.set_destinations(histories)

    def plain(self, step: int) -> None:
        """Enqueue this GPU's part of a step: kernel, copies."""
        runtime, stream = self.runtime, self.stream
        runtime.setDevice(self.device)
        for other in self.others:
            stream.wait_event(other.arrived[1 - step % 2])
        self.share.launch(step, stream)
        source = self.share.address(step)
        for destination in self.destinations[step]:
            runtime.memcpyAsync(destination, source, self.size_bytes, runtime.memcpyDeviceToDevice, stream.ptr)
        self.arrived[step % 2].record(stream)

    @classmethod
    def variants(cls, workers: list[Gpu]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs."""
        steps: dict[str, Step] = {"plain": on_each(workers, cls.plain), "storing": partial(store_everywhere, workers)}
        return {name: light.counted(step, workers[0].share.steps) for name, step in steps.items()}


def store_everywhere(gpus: list[Gpu], step: int) -> None:
    """Enqueue a step on all GPUs: kernels that store their parts of the row everywhere."""
    first, others = gpus[0], gpus[1:]
    for gpu in gpus:
        gpu.runtime.setDevice(gpu.device)
        if gpu is not first:
            gpu.stream.wait_event(first.complete)
        gpu.share.launch(step, gpu.stream, "everywhere")
        if gpu is not first:
            gpu.arrived[0].record(gpu.stream)
    first.runtime.setDevice(first.device)
    for gpu in others:
        first.stream.wait_event(gpu.arrived[0])
    first.complete.record(first.stream)
