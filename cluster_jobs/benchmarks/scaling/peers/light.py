# SPDX-License-Identifier: MIT
"""RSim by hand: the patches of one GPU, and the problem.

Transport and light are computed by the source of `cluster_jobs/apps/rsim.py` itself, for the same room.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers import kernels
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step

sys.path.insert(0, str(Path(__file__).parents[3] / "apps"))  # applications import their frame as scripts do
import room
import rsim

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scene = room.Room
LIGHT_BYTES = 4
ALIGNMENT = 4  # patches of a GPU are a multiple of it, so that exchanged data is aligned to 16 bytes
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


class Share:
    """The patches of one GPU: how light gets to them, and the history of all patches.

    All GPUs have equally many patches, but for the last one; rows of the history are as long as if it had, too.
    """

    def __init__(self, device: int, scene: Scene, steps: int, part: int, parts: int) -> None:
        import cupy

        self.cupy, self.device, self.patches, self.steps = cupy, cupy.cuda.Device(device), len(scene.emission), steps
        self.capacity = -(-self.patches // (parts * ALIGNMENT)) * ALIGNMENT  # of a GPU
        self.row_length = parts * self.capacity
        self.first, self.end = (min((part + side) * self.capacity, self.patches) for side in (0, 1))
        if self.first == self.end:
            raise SystemExit(f"{self.patches} patches are too few for {parts} GPUs")
        own = self.end - self.first
        grid = (min(own, rsim.BLOCKS),)
        find_transport, self.kernel = (
            celerity.CudaKernel(SOURCE, name, block=(rsim.THREADS,), grid=grid)
            for name in ("find_transport", "advance_light")
        )
        with self.device:
            self.history = cupy.zeros((steps, self.row_length), np.float32)
            self.factors = cupy.zeros((own, self.patches), np.float32)
            self.delays = cupy.zeros((own, self.patches), np.uint8)
            self.emission, geometry = cupy.asarray(scene.emission), cupy.asarray(scene.geometry)
            numbers = map(np.int64, (self.patches, self.first, self.end))
            arguments = (self.factors, self.delays, geometry, *numbers, rsim.reach_of(steps))
            kernels.Launch(find_transport, device, *arguments)(cupy.cuda.Stream.null)
            cupy.cuda.runtime.deviceSynchronize()
        self._launches: dict[str, list[kernels.Launch]] = {}
        self.set_destinations([])

    def set_destinations(self, others: Sequence[int]) -> None:
        """Say where else a step can store its part of a row: addresses of the others' histories."""
        numbers = tuple(map(np.int64, (self.patches, self.row_length, self.first, self.end)))
        data = (self.history, self.factors, self.delays, self.emission)
        for name, addresses in (("here", []), ("everywhere", others)):
            with self.device:
                table = self.cupy.asarray([self.history.data.ptr, *addresses], dtype=np.uint64)
            fixed = (table, np.int32(len(table)), *data, *numbers)
            self._launches[name] = [
                kernels.Launch(self.kernel, self.device.id, *fixed, np.int32(step)) for step in range(self.steps)
            ]

    def launch(self, step: int, stream: Any, destinations: str = "here") -> None:
        """Enqueue a step; its part of the row is stored "here" or, by peer access, "everywhere"."""
        self._launches[destinations][step](stream)

    def address(self, step: int) -> int:
        """Where the own part of a row begins."""
        return int(self.history.data.ptr) + (step * self.row_length + self.first) * LIGHT_BYTES

    def result(self) -> NDArray[np.float32]:
        """All that is known here of the light, (steps, patches)."""
        with self.device:
            history: NDArray[np.float32] = self.history.get()[:, : self.patches]
        return history

    def reset(self) -> None:
        """Make all dark."""
        with self.device:
            self.history.fill(0)
            self.cupy.cuda.runtime.deviceSynchronize()


def counted(step: Step, steps: int) -> Step:
    """Enqueues one step after the other, whatever the parity; after the last one, the first again."""
    number = -1

    def enqueue(parity: int) -> None:
        nonlocal number
        number = (number + 1) % steps
        step(number)

    return enqueue


class Light(Problem):
    """A room of about as many patches as are asked for, and an even number of steps."""

    default_size, size_help = 16384, "patches of the room, about"
    rate_name = "TB/s at 5 bytes per pair"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        options.steps += options.steps % 2
        self.scene = room.furnish(options.size)

    @property
    def checked_steps(self) -> int:
        """All: the whole history."""
        return int(self.options.steps)

    def extents(self) -> dict[str, int]:
        """The patches that there are."""
        return {"patches": len(self.scene.emission)}

    def title(self) -> str:
        """The heading of the table."""
        return f"RSim, {len(self.scene.emission)} patches, {self.options.steps} steps"

    def rate(self, us_per_step: float) -> str:
        """Terabytes per second."""
        return f"{5 * len(self.scene.emission) ** 2 / us_per_step / 1e6:.2f}"

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare the histories of all GPUs with each other, and with NumPy; the exit status."""
        different = sum(not np.array_equal(history, results[0]) for history in results)
        if different:
            print(f"WRONG: {different} of {len(results)} histories differ from the first one")
        is_right = rsim.verify(self.scene, results[0], rounding=rsim.ROUNDING)
        return int(bool(different) or not is_right)
