# SPDX-License-Identifier: MIT
"""RSim by hand, one process that drives all GPUs: `python -m cluster_jobs.benchmarks.scaling.peers.rsim_process`.

Each GPU computes its part of a row of the history; then its stream copies it to all others, whose streams wait for an
event behind the copies. Or the kernel itself stores it in the memory of all GPUs; then all streams wait for one event
of the first GPU, whose stream waits for all others: that takes the fewest calls from Python.
"""

from __future__ import annotations

from typing import Any

from cluster_jobs.benchmarks.scaling.peers import batches, light


class Gpu:
    """The patches of one GPU, its stream and its event."""

    def __init__(self, device: int, scene: light.Scene, steps: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device = device
        with cupy.cuda.Device(device):
            for other in range(parts):
                if other != device:
                    self.runtime.deviceEnablePeerAccess(other)
            self.share = light.Share(device, scene, steps, device, parts)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            #: By parity of the step: its part of the row is everywhere.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
            #: Of the first GPU: all parts are.
            self.complete = cupy.cuda.Event(disable_timing=True)
            self.runtime.deviceSynchronize()
        self.size_bytes = (self.share.end - self.share.first) * light.LIGHT_BYTES
        self.others: list[Gpu] = []
        #: By step: destinations.
        self.destinations: list[list[int]] = []

    def connect(self, gpus: list[Gpu]) -> None:
        """Find the histories of the others, the next GPU first, so that not all copy to the same one at a time."""
        self.others = [*gpus[self.device + 1 :], *gpus[: self.device]]
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


def main(arguments: list[str] | None = None) -> int:
    """Measure or check."""
    options = light.parsed(__doc__ or "", "how many, all if left out", arguments)
    import cupy

    count = options.gpus or cupy.cuda.runtime.getDeviceCount()
    scene = light.scene_of(options)
    gpus = [Gpu(device, scene, options.steps, count) for device in range(count)]
    for gpu in gpus:
        gpu.connect(gpus)

    def plain(step: int) -> None:
        for gpu in gpus:
            gpu.plain(step)

    def storing(step: int) -> None:
        store_everywhere(gpus, step)

    def finish() -> None:
        for gpu in gpus:
            gpu.stream.synchronize()

    steps: dict[str, Any] = {"plain": plain, "storing": storing}
    if options.check:
        status = 0
        for name, enqueue in batches.chosen(steps, options.overlap).items():
            for gpu in gpus:
                gpu.share.forget()
            for step in range(options.steps):
                enqueue(step)
            finish()
            print(name, end=": ")
            status |= light.verdict(scene, [gpu.share.whole_history() for gpu in gpus])
        return status
    variants = {name: light.counted(enqueue, options.steps) for name, enqueue in steps.items()}
    variants = batches.chosen(variants, options.overlap)
    best, times = batches.time_variants(variants, options, finish)
    program = "one process, CuPy with peer copies and events"
    light.report(program, count, best, times, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
