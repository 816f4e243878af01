# SPDX-License-Identifier: MIT
"""RSim by hand: the patches of one GPU, and the problem.

Transport and light are computed by the source of `cluster_jobs/apps/rsim.py` itself, for the same room.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers import gathers, kernels
from cluster_jobs.benchmarks.scaling.peers.applications import room, rsim
from cluster_jobs.benchmarks.scaling.peers.problem import Step, on_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scene = room.Room
SOURCE = (
    rsim.ROOM_SOURCE
    + r"""
__global__ void __launch_bounds__(THREADS)
find_transport(float* factors, unsigned char* delays, const float* geometry, const long long patches,
               const long long begin, const long long end, const float reach) {
    for (long long i = begin + blockIdx.x; i < end; i += gridDim.x) {
        const long long row = (i - begin) * patches;
        find_transport_to(i, geometry, patches, reach, factors + row, delays + row);
    }
}

__global__ void __launch_bounds__(THREADS, 4)
advance_light(float* const* histories, const int num_histories, const float* history, const float* factors,
              const unsigned char* delays, const float* emission, const long long patches, const long long row_length,
              const long long begin, const long long end, const int step) {
    for (long long i = begin + blockIdx.x; i < end; i += gridDim.x) {
        const long long row = (i - begin) * patches;
        float light = emission[i];
        if (step > 0) {
            const auto length = (unsigned)row_length;
            light += light_arriving(factors + row, delays + row, history, length, (int)patches, step);
        }
        if (threadIdx.x < num_histories) histories[threadIdx.x][step * row_length + i] = light;
    }
}
"""
)


class Share(gathers.Share):
    """The patches of one GPU: how light gets to them, and the history of all patches."""

    items, item_bytes = "patches", 4
    alignment = 4  # so that exchanged data is aligned to 16 bytes

    def __init__(self, device: int, scene: Scene, steps: int, part: int, parts: int) -> None:
        super().__init__(device, len(scene.emission), part, parts)
        cupy, self.steps, self.row_length = self.cupy, steps, parts * self.capacity
        own = self.end - self.first
        grid = (min(own, rsim.BLOCKS),)
        find_transport, self.kernel = (
            celerity.CudaKernel(SOURCE, name, block=(rsim.THREADS,), grid=grid)
            for name in ("find_transport", "advance_light")
        )
        with self.device:
            self.history = cupy.zeros((steps, self.row_length), np.float32)
            self.factors = cupy.zeros((own, self.count), np.float32)
            self.delays = cupy.zeros((own, self.count), np.uint8)
            self.emission, geometry = cupy.asarray(scene.emission), cupy.asarray(scene.geometry)
            numbers = map(np.int64, (self.count, self.first, self.end))
            arguments = (self.factors, self.delays, geometry, *numbers, rsim.reach_of(steps))
            kernels.Launch(find_transport, device, *arguments)(cupy.cuda.Stream.null)
            cupy.cuda.runtime.deviceSynchronize()
        row_bytes = self.row_length * self.item_bytes
        self.bases = [int(self.history.data.ptr) + step * row_bytes for step in range(steps)]
        self.set_destinations([])

    @staticmethod
    def written(step: int) -> int:
        """The row of the step."""
        return step

    def set_destinations(self, others: Sequence[Share]) -> None:
        """Prepare the launches of all steps."""
        numbers = tuple(map(np.int64, (self.count, self.row_length, self.first, self.end)))
        data = (self.history, self.factors, self.delays, self.emission)
        for name, shares in (("here", [self]), ("everywhere", [self, *others])):
            with self.device:
                table = self.cupy.asarray([of.bases[0] for of in shares], dtype=np.uint64)
            fixed = (table, np.int32(len(table)), *data, *numbers)
            self._launches[gathers.WHOLE, name] = [
                kernels.Launch(self.kernel, self.device.id, *fixed, np.int32(step)) for step in range(self.steps)
            ]

    def result(self) -> NDArray[np.float32]:
        """All that is known here of the light, (steps, patches)."""
        with self.device:
            history: NDArray[np.float32] = self.history.get()[:, : self.count]
        return history

    def reset(self) -> None:
        """Make all dark."""
        with self.device:
            self.history.fill(0)
            self.cupy.cuda.runtime.deviceSynchronize()


def counted(step: Step, rows: Sequence[int]) -> Step:
    """Enqueues one step after the other, whatever the parity; after that of the last row, the first again."""
    numbers = itertools.cycle(range(len(rows)))
    return lambda _parity: step(next(numbers))


class Gpu(gathers.Gpu):
    """A GPU of one process, which takes one step after the other."""

    overlaps = False

    @classmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs."""
        import cupy

        with workers[0].share.device:
            complete = cupy.cuda.Event(disable_timing=True)
        steps: dict[str, Step] = {"plain": on_each(workers, cls.plain)}
        steps["storing"] = partial(store_everywhere, workers, complete)
        return {name: counted(step, workers[0].share.bases) for name, step in steps.items()}


def store_everywhere(gpus: Sequence[gathers.Gpu], complete: Any, step: int) -> None:
    """Enqueue a step on all GPUs: kernels that store their parts of the row everywhere.

    All streams wait for one event of the first GPU, whose stream waits for all others. That takes the fewest calls from
    Python.
    """
    first, others = gpus[0], gpus[1:]
    for gpu in gpus:
        gpu.runtime.setDevice(gpu.device)
        if gpu is not first:
            gpu.stream.wait_event(complete)
        gpu.share.launch(gathers.WHOLE, step, gpu.stream, "everywhere")
        if gpu is not first:
            gpu.arrived[0].record(gpu.stream)
    first.runtime.setDevice(first.device)
    for gpu in others:
        first.stream.wait_event(gpu.arrived[0])
    complete.record(first.stream)


class Rank(gathers.Rank):
    """A rank, which takes one step after the other. A step needs the whole row, so there is nothing to do meanwhile."""

    overlaps = False

    @classmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """The only way to enqueue a step."""
        (rank,) = workers
        return {"plain": counted(rank.plain, rank.share.bases)}


class Light(gathers.GatheredProblem):
    """A room of about as many patches as are asked for, and an even number of steps."""

    default_size, size_help = 16384, "patches of the room, about"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        options.steps += options.steps % 2
        self.scene = room.furnish(options.size)

    def share(self, device: int, part: int, parts: int) -> Share:
        """The patches of a GPU."""
        return Share(device, self.scene, self.options.steps, part, parts)

    @property
    def checked_steps(self) -> int:
        """All: the whole history."""
        return int(self.options.steps)

    def extents(self) -> dict[str, int]:
        """The patches that there are."""
        return {"patches": len(self.scene.emission)}

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare the histories of all GPUs with each other, and with NumPy; the exit status."""
        different = sum(not np.array_equal(history, results[0]) for history in results)
        if different:
            print(f"WRONG: {different} of {len(results)} histories differ from the first one")
        is_right = rsim.verify(self.scene, results[0], rounding=rsim.ROUNDING)
        return int(bool(different) or not is_right)
