# SPDX-License-Identifier: MIT
"""The light of a flash in a room over time: an access pattern that grows.

    python cluster_jobs/apps/rsim_pattern.py --size 256 --steps 96 --verify --output light.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/rsim_pattern.py

Step t computes row t of the history, the light on every patch of the room, from all rows before it: light takes time
to travel, the further, the longer. Step t reads rows [0, t) and writes row t, so every step wants a larger part of
the history than any step before. The runtime looks ahead and allocates the history once, at its final size.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any

import frame
import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from numpy.typing import NDArray


def form_factors(patches: int) -> NDArray[np.float32]:
    """Return how much of the light that leaves patch j arrives at patch i, a (patches, patches) matrix."""
    angles = np.arange(patches) * (2 * np.pi / patches)
    facing = 1 - np.cos(angles[:, np.newaxis] - angles[np.newaxis, :])
    return np.asarray(0.9 * facing / facing.sum(axis=1, keepdims=True), dtype=np.float32)


def delays(patches: int, slowest: int) -> NDArray[np.int32]:
    """Return how many steps, 1 to `slowest`, light travels from patch j to patch i."""
    apart = np.abs(np.arange(patches)[:, np.newaxis] - np.arange(patches)[np.newaxis, :])
    around = np.minimum(apart, patches - apart)
    return np.asarray(1 + around * (slowest - 1) // max(1, patches // 2), dtype=np.int32)


def flash(step: int, low: int, high: int, patches: int) -> NDArray[np.float32]:
    """Return the light that lamps send to patches [low, high) in one step: one flash at the start."""
    light = np.zeros(high - low, dtype=np.float32)
    if step == 0:
        lit = np.arange(low, high)
        light[(lit >= patches // 8) & (lit < patches // 4)] = 1
    return light


def arriving(history: NDArray[Any], factors: NDArray[Any], travel: NDArray[Any], step: int) -> NDArray[np.float32]:
    """Add up what reaches the patches of `factors`' rows in one step, from the rows before it."""
    sent = step - travel
    patches = np.arange(factors.shape[1])
    light = np.where(sent >= 0, history[np.maximum(sent, 0), patches], np.float32(0))
    total: NDArray[np.float32] = (factors * light).sum(axis=1)
    return total


def advance_light_on_arrays(  # noqa: PLR0917 - a kernel has as many arguments as it has data
    chunk: celerity.Chunk,
    row: celerity.View,
    history: celerity.View,
    factors: celerity.View,
    travel: celerity.View,
    step: int,
) -> None:
    """Compute the light on the chunk's patches in one step."""
    (low,), (high,) = chunk.box.min, chunk.box.max
    light = flash(step, low, high, chunk.global_shape[0])
    if step > 0:
        light += arriving(history[...], factors[...], travel[...], step)
    row[step, low:high] = light


# The same for GPUs, a warp per patch. NumPy adds in another order, so the last bits differ.
ADVANCE_LIGHT_SOURCE = r"""
__global__ void advance_light(celerity::chunk<1> chunk, celerity::accessor<float, 2> row,
                              celerity::accessor<const float, 2> history, celerity::accessor<const float, 2> factors,
                              celerity::accessor<const int, 2> travel, int step) {
    const long long patches = chunk.global_max[0];
    const int lane = threadIdx.x % 32;
    const long long first = chunk.min[0] + ((long long)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (long long i = first; i < chunk.max[0]; i += chunk.step(0) / 32) {
        float light = step == 0 && i >= patches / 8 && i < patches / 4 ? 1 : 0; // the flash
        float arriving = 0;
        if (step > 0) {
            for (long long j = lane; j < patches; j += 32) {
                const int sent = step - travel(i, j);
                if (sent >= 0) arriving += factors(i, j) * history(sent, j);
            }
        }
        for (int other = 16; other > 0; other /= 2) arriving += __shfl_xor_sync(0xffffffff, arriving, other);
        if (lane == 0) row(step, i) = light + arriving;
    }
}
"""
advance_light = celerity.kernel(
    cpu=advance_light_on_arrays,
    cuda=celerity.CudaKernel(ADVANCE_LIGHT_SOURCE, "advance_light", block=(256,), grid=(528,)),
    name="advance_light",
)
ROUNDING = 1e-5


def rows_before(step: int, chunk: Any, shape: tuple[int, ...]) -> celerity.Box:
    """Map any chunk to all rows before this step's."""
    return celerity.Box((0, 0), (step, shape[1]))


def part_of_row(step: int, chunk: Any, shape: tuple[int, ...]) -> celerity.Box:
    """Map a chunk of patches to its part of this step's row."""
    return celerity.Box((step, chunk.box.min[0]), (step + 1, chunk.box.max[0]))


def reference(patches: int, steps: int) -> NDArray[Any]:
    """Compute the same with plain NumPy."""
    factors, travel = form_factors(patches), delays(patches, steps // 4 + 1)
    history = np.zeros((steps, patches), dtype=np.float32)
    for step in range(steps):
        history[step] = flash(step, 0, patches, patches)
        if step > 0:
            history[step] += arriving(history[:step], factors, travel, step)
    return history


def main() -> int:
    """Follow the light as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=256, size_help="patches of the room's surface")
    parser.add_argument("--steps", type=frame.positive_int, default=96, metavar="S", help="time steps")
    arguments = parser.parse_args()
    patches, steps = arguments.size, arguments.steps

    with celerity.Queue() as queue:
        history = celerity.Buffer((steps, patches), np.float32, name="history")
        factors = celerity.Buffer.from_array(form_factors(patches), name="factors")
        travel = celerity.Buffer.from_array(delays(patches, steps // 4 + 1), name="travel")
        start = time.perf_counter()
        with frame.progress("steps", steps) as advance:
            for step in range(steps):
                queue.parallel_for(
                    patches,
                    advance_light,
                    history.write(functools.partial(part_of_row, step)),
                    history.read(functools.partial(rows_before, step)),
                    factors.read(access.slice(1)),
                    travel.read(access.slice(1)),
                    step,
                )
                advance()
            # Asked for before the wait, lookahead allocates host memory for the last row together with all others.
            future = queue.fence(history) if arguments.verify or arguments.output else None
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"rsim_pattern: {patches} patches, {steps} steps, {celerity.size()} rank(s)",
            {
                **frame.timing(queue, seconds, {"steps/s": f"{steps / seconds:.1f}"}),
                **frame.traffic(queue),
            },
        )
        result = future.result() if future is not None else None
        rounding = ROUNDING if queue.statistics().backend == "cuda" else 0.0

    if result is None or not celerity.is_master():
        return 0
    if arguments.output:
        frame.save_picture(arguments.output, {"light per step and patch": np.log10(result + 1e-6)}, colours="magma")
    return int(arguments.verify and not frame.agrees(result, reference(patches, steps), rounding=rounding))


if __name__ == "__main__":
    sys.exit(main())
