# SPDX-License-Identifier: MIT
"""N-body by hand: the bodies of one GPU, and the problem.

The acceleration is computed by the source of `cluster_jobs/apps/nbody.py` itself, from the same initial state.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.scaling.peers import gathers, kernels
from cluster_jobs.benchmarks.scaling.peers.applications import nbody

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A launch adds up the pull of all bodies; of the own bodies, which it puts aside; or of all others, added to that.
KERNEL = r"""
__global__ void __launch_bounds__(BLOCK, 2)
nbody_step(const float4* positions, float4* const* moved, const int num_moved, float4* velocities, float4* pulls,
           const int part, const long long num_bodies, const long long begin, const long long end, const float dt,
           const float softening_squared) {
    const long long step = (long long)gridDim.x * GROUP;
    // The sources: two ranges, of which one may be empty.
    const long long from[2] = {part == 1 ? begin : 0, end};
    const long long to[2] = {part == 0 ? num_bodies : part == 1 ? end : begin, part == 2 ? num_bodies : end};
    for (long long first = begin + (long long)blockIdx.x * GROUP; first < end; first += step) {
        float3 pull = make_float3(0, 0, 0);
        for (int i = 0; i < 2; ++i) {
            if (from[i] >= to[i]) continue;
            const float3 more = acceleration_in_group(positions, first, end, from[i], to[i], softening_squared);
            pull = make_float3(pull.x + more.x, pull.y + more.y, pull.z + more.z);
        }
        const long long body = first + threadIdx.x;
        if (threadIdx.x >= GROUP || body >= end) continue;
        if (part == 1) {
            pulls[body - begin] = make_float4(pull.x, pull.y, pull.z, 0);
            continue;
        }
        if (part == 2) {
            const float4 before = pulls[body - begin];
            pull = make_float3(pull.x + before.x, pull.y + before.y, pull.z + before.z);
        }
        float4 place = positions[body], velocity = velocities[body - begin];
        place.x = fmaf(velocity.x += pull.x * dt, dt, place.x);
        place.y = fmaf(velocity.y += pull.y * dt, dt, place.y);
        place.z = fmaf(velocity.z += pull.z * dt, dt, place.z);
        velocities[body - begin] = velocity;
        for (int i = 0; i < num_moved; ++i) moved[i][body] = place;
    }
}
"""


class Share(gathers.Share):
    """The bodies of one GPU: positions of all bodies twice, and velocities of its own.

    In a step of parity p, `arrays[p]` is read and `arrays[1 - p]` written.
    """

    items, item_bytes = "bodies", 16

    def __init__(self, device: int, num_bodies: int, part: int, parts: int) -> None:
        super().__init__(device, num_bodies, part, parts)
        blocks = -(-(self.end - self.first) // nbody.GROUP)
        source = nbody.ACCELERATION_SOURCE + KERNEL
        self.kernel = celerity.CudaKernel(source, "nbody_step", block=(32 * nbody.WARPS,), grid=(blocks,))
        with self.device:
            self.arrays = [self.cupy.zeros((parts * self.capacity, 4), np.float32) for _ in (0, 1)]
            self.velocities = self.cupy.zeros((self.end - self.first, 4), np.float32)
            self.pulls = self.cupy.zeros_like(self.velocities)
        self.bases = [int(array.data.ptr) for array in self.arrays]
        self.set_destinations([])
        self.reset()

    @staticmethod
    def written(step: int) -> int:
        """The array that is not read."""
        return 1 - step

    def set_destinations(self, others: Sequence[Share]) -> None:
        """Prepare the launches, by parity."""
        for name, shares in (("here", [self]), ("everywhere", [self, *others])):
            with self.device:
                tables = [self.cupy.asarray([of.bases[row] for of in shares], dtype=np.uint64) for row in (0, 1)]
            for work in (gathers.WHOLE, gathers.FROM_OWN, gathers.FROM_OTHERS):
                self._launches[work, name] = [self._bind(work, parity, tables[1 - parity]) for parity in (0, 1)]

    def _bind(self, work: int, parity: int, destinations: Any) -> kernels.Launch:
        numbers = map(np.int64, (self.count, self.first, self.end))
        constants = (nbody.TIME_STEP, nbody.SOFTENING * nbody.SOFTENING)
        data = (self.arrays[parity], destinations, np.int32(len(destinations)), self.velocities, self.pulls)
        return kernels.Launch(self.kernel, self.device.id, *data, np.int32(work), *numbers, *constants)

    def reset(self) -> None:
        """Put all bodies back to where they start."""
        positions, velocities = nbody.galaxies(self.count)
        with self.device:
            self.arrays[0][: self.count] = self.cupy.asarray(positions)
            self.velocities[:] = self.cupy.asarray(velocities[self.first : self.end])
            self.cupy.cuda.runtime.deviceSynchronize()

    def result(self) -> NDArray[np.float32]:
        """Positions and velocities of the own bodies after an even number of steps, (2, n, 4)."""
        with self.device:
            return np.stack([self.arrays[0][self.first : self.end].get(), self.velocities.get()])


class Bodies(gathers.GatheredProblem):
    """Two galaxies.

    Raises:
        SystemExit: If NumPy would take too long for a check.
    """

    default_size, size_help = 131072, "bodies; for --check up to 4096"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        if options.check and options.size > nbody.MOST_VERIFIED_FULLY:
            raise SystemExit(f"--check takes up to {nbody.MOST_VERIFIED_FULLY} bodies, not {options.size}")

    def share(self, device: int, part: int, parts: int) -> Share:
        """The bodies of a GPU."""
        return Share(device, self.options.size, part, parts)

    def verdict(self, results: Sequence[NDArray[np.float32]], steps: int) -> int:
        """Compare with NumPy in float64; the exit status."""
        positions, velocities = np.concatenate(results, axis=1)
        return int(not nbody.verify(nbody.galaxies(self.options.size), (positions, velocities), steps, []))
