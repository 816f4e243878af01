# SPDX-License-Identifier: MIT
"""A photograph out of focus: convolution with a Gaussian, repeated.

    python cluster_jobs/apps/convolution.py --size 768 --radius 4 --passes 3 --verify --output blurred.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/convolution.py

Each pass reads a box of `radius` pixels around every chunk, corners included. Beyond the rim the outermost pixels are
repeated, by the kernel itself: an access is clamped to its buffer.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import frame
import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from numpy.typing import NDArray


def photograph(height: int, width: int) -> NDArray[np.float32]:
    """Return a grey landscape: a sky with a sun, three ranges of hills, and grain."""
    y = np.linspace(0, 1, height)[:, np.newaxis]
    x = np.linspace(0, 1, width)[np.newaxis, :]
    picture = 0.85 - 0.5 * y + 0 * x
    picture += 0.6 * np.exp(-((x - 0.72) ** 2 + (y - 0.22) ** 2) / 0.004)
    for distance, (base, wobble, shade) in enumerate(((0.50, 0.10, 0.45), (0.62, 0.08, 0.30), (0.78, 0.06, 0.15))):
        ridge = base + wobble * np.sin(7 * (distance + 1) * x + distance) + wobble / 3 * np.sin(41 * x + 2 * distance)
        picture = np.where(y > ridge, shade + 0.1 * (y - ridge), picture)
    grain = np.random.default_rng(7).normal(scale=0.03, size=(height, width))
    return np.asarray(np.clip(picture + grain, 0, 1), dtype=np.float32)


def gaussian(radius: int) -> NDArray[np.float32]:
    """Return (2 radius + 1)² weights that add up to one."""
    offsets = np.arange(-radius, radius + 1) / max(1.0, radius / 2)
    weights = np.exp(-0.5 * (offsets[:, np.newaxis] ** 2 + offsets[np.newaxis, :] ** 2))
    return np.asarray(weights / weights.sum(), dtype=np.float32)


def weighted_sum(padded: NDArray[Any], weights: NDArray[np.float32]) -> NDArray[Any]:
    """Convolve an array that already has `radius` more pixels on every side."""
    diameter = weights.shape[0]
    height, width = (extent - diameter + 1 for extent in padded.shape)
    total = np.zeros((height, width), dtype=np.float32)
    for row in range(diameter):
        for column in range(diameter):
            total += weights[row, column] * padded[row : row + height, column : column + width]
    return total


def blur_arrays(
    chunk: celerity.Chunk, blurred: celerity.View, picture: celerity.View, weights: celerity.View, radius: int
) -> None:
    """Blur one chunk, repeating the rim of the picture where the access was clamped."""
    missing = [
        (radius - (low - have_low), radius - (have_high - high))
        for low, high, have_low, have_high in zip(
            chunk.box.min, chunk.box.max, picture.box.min, picture.box.max, strict=True
        )
    ]
    blurred[chunk.box] = weighted_sum(np.pad(picture.array, missing, mode="edge"), weights.array)


# The same for GPUs: each block keeps the pixels that it needs in shared memory. The sums are in NumPy's order, and
# nothing is fused, so that the bits are NumPy's as well.
BLUR_SOURCE = r"""
__device__ long long clamp(long long value, long long low, long long high) {
    return value < low ? low : value >= high ? high - 1 : value;
}

__global__ void blur(celerity::chunk<2> chunk, celerity::accessor<float, 2> blurred,
                     celerity::accessor<const float, 2> picture, celerity::accessor<const float, 2> weights,
                     int radius) {
    extern __shared__ float tile[];
    const int width = blockDim.x + 2 * radius, height = blockDim.y + 2 * radius;
    const auto item = chunk.item();
    const long long top = item[0] - threadIdx.y - radius, left = item[1] - threadIdx.x - radius;
    for (int i = threadIdx.y; i < height; i += blockDim.y) {
        // A block that overhangs the chunk must not read further than the chunk does.
        const long long row = clamp(clamp(top + i, 0, chunk.max[0] + radius), 0, chunk.global_max[0]);
        for (int j = threadIdx.x; j < width; j += blockDim.x) {
            const long long column = clamp(clamp(left + j, 0, chunk.max[1] + radius), 0, chunk.global_max[1]);
            tile[i * width + j] = picture(row, column);
        }
    }
    __syncthreads();
    if (!chunk.contains(item)) return;
    float total = 0;
    for (int i = 0; i <= 2 * radius; ++i) {
        const float* row = tile + (threadIdx.y + i) * width + threadIdx.x;
        for (int j = 0; j <= 2 * radius; ++j) total += __fmul_rn(weights(i, j), row[j]);
    }
    blurred[item] = total;
}
"""
BLOCK = (8, 32)


def blur_kernel(radius: int) -> Any:
    """Return a kernel for windows of this radius."""
    pixels = (BLOCK[0] + 2 * radius) * (BLOCK[1] + 2 * radius)
    on_gpus = celerity.CudaKernel(BLUR_SOURCE, "blur", block=BLOCK, shared_bytes=pixels * np.dtype(np.float32).itemsize)
    return celerity.kernel(cpu=blur_arrays, cuda=on_gpus, name="blur")


def reference(picture: NDArray[np.float32], weights: NDArray[np.float32], passes: int) -> NDArray[Any]:
    """Compute the same with plain NumPy."""
    for _ in range(passes):
        picture = weighted_sum(np.pad(picture, weights.shape[0] // 2, mode="edge"), weights)
    return picture


def main() -> int:
    """Blur as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=768, size_help="height of the picture; it is 4/3 as wide")
    parser.add_argument("--radius", type=frame.positive_int, default=4, metavar="R", help="pixels on each side")
    parser.add_argument("--passes", type=frame.positive_int, default=3, metavar="P", help="convolutions in a row")
    arguments = parser.parse_args()
    radius, passes = arguments.radius, arguments.passes
    original = photograph(arguments.size, arguments.size * 4 // 3)
    weights = gaussian(radius)

    with celerity.Queue() as queue:
        picture = celerity.Buffer.from_array(original, name="picture")
        blurred = celerity.Buffer(original.shape, np.float32, name="blurred")
        window = celerity.Buffer.from_array(weights, name="weights")
        blur = blur_kernel(radius)
        start = time.perf_counter()
        with frame.progress("passes", passes) as advance:
            for _ in range(passes):
                queue.parallel_for(
                    picture.shape,
                    blur,
                    blurred.write(access.one_to_one()),
                    picture.read(access.neighborhood(radius, radius, shape="box")),
                    window.read(access.all()),
                    radius,
                )
                picture, blurred = blurred, picture
                advance()
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"convolution: {' x '.join(map(str, original.shape))} pixels, {passes} passes, {celerity.size()} rank(s)",
            {
                "time": f"{seconds:.3f} s",
                "pixels/s": frame.quantity(original.size * passes / seconds, ""),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(picture, on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        frame.save_picture(arguments.output, {"original": original, f"{passes} passes": result}, colours="gray")
    if arguments.verify and not frame.agrees(result, reference(original, weights, passes)):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
