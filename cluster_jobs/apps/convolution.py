# SPDX-License-Identifier: MIT
"""A photograph out of focus: convolution with a Gaussian, repeated.

    python cluster_jobs/apps/convolution.py --size 768 --radius 4 --passes 3 --verify --output blurred.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/convolution.py

Each pass reads a box of `radius` pixels around every chunk, corners included. Beyond the rim the outermost pixels are
repeated, by the kernel itself: an access is clamped to its buffer. `--benchmark` measures the steady state.
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
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


def texture(height: int, width: int, *, roughness: float, seed: int) -> NDArray[np.float64]:
    """Return noise like that of clouds or rock, of mean 0 and deviation 1.

    Args:
        height: Rows.
        width: Columns.
        roughness: How much of it is fine: 0 is all coarse, 1 about as rough as rock.
        seed: Another one gives another noise.
    """
    tile = 1024  # it goes on without a seam, and larger spectra take long
    rows, columns = (np.fft.fftfreq(tile) * tile for _ in range(2))
    frequency = np.hypot(rows[:, np.newaxis], columns[np.newaxis, : tile // 2 + 1])
    spectrum = np.fft.rfft2(np.random.default_rng(seed).normal(size=(tile, tile)))
    noise = np.fft.irfft2(spectrum / np.maximum(frequency, 2) ** (2.4 - roughness), s=(tile, tile))
    noise = (noise - noise.mean()) / noise.std()
    return np.tile(noise, (-(-height // tile), -(-width // tile)))[:height, :width]


def photograph(height: int, width: int) -> NDArray[np.float32]:
    """Return a grey landscape: a sky with a sun and clouds, ridges in haze, firs before them, and grain.

    Args:
        height: Pixels.
        width: Pixels.

    Returns:
        Brightness from 0 to 1, (height, width).
    """
    y, x = np.arange(height)[:, np.newaxis] / height, np.arange(width)[np.newaxis, :] / height
    distance_to_sun = np.hypot(x - 0.95, y - 0.2)
    clouds = np.clip(0.35 * texture(height, width, roughness=0.3, seed=1) + 0.5 - 0.6 * y, 0, 1)
    picture = 0.45 + 0.3 * y + 0.35 * clouds + 0.25 * np.exp(-((distance_to_sun / 0.2) ** 2))
    picture = np.where(distance_to_sun < 0.055, 1.0, picture)
    rock = texture(height, width, roughness=0.7, seed=2)
    for number, (base, relief, shade) in enumerate(((0.50, 0.055, 0.55), (0.62, 0.06, 0.38), (0.74, 0.05, 0.24))):
        outline = texture(2, width, roughness=0.5, seed=3 + number)[:1]
        ridge = base + relief * np.sin((3 + 2 * number) * x + number) + 0.6 * relief * outline
        haze = 0.25 * np.clip(y - ridge, 0, 0.2) * (2 - number)
        picture = np.where(y > ridge, shade + haze + (0.02 + 0.015 * number) * rock, picture)
    firs = np.random.default_rng(9)
    for trunk, top, breadth in firs.uniform((-0.05, 0.62, 0.05), (1.4, 0.85, 0.10), size=(26, 3)):
        below = y - top
        branches = breadth * below * (1 + 0.7 * (below * 24 % 1))  # wider towards the lower end of each
        picture = np.where(
            (below > 0) & (np.abs(x - trunk) < np.maximum(branches * 3, 0.003)), 0.06 + 0.02 * rock, picture
        )
    grain = np.random.default_rng(7).normal(scale=0.02, size=(height, width))
    eight_bits = np.round(255 * np.clip(picture + grain, 0, 1))  # so that it is the same on different hosts
    return np.asarray(eight_bits / 255, dtype=np.float32)


def mosaic(height: int, width: int) -> NDArray[np.float32]:
    """Return a small photograph again and again, (height, width): a large one takes minutes to make."""
    photo = photograph(min(height, 384), min(width, 512))
    repeats = [-(-extent // tile) for extent, tile in zip((height, width), photo.shape, strict=True)]
    return np.tile(photo, repeats)[:height, :width]


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


def blur_arrays(chunk: celerity.Chunk, blurred: celerity.View, picture: celerity.View, weights: celerity.View) -> None:
    """Blur one chunk, repeating the rim of the picture where the access was clamped."""
    radius = weights.array.shape[0] // 2
    missing = [
        (radius - (low - have_low), radius - (have_high - high))
        for low, high, have_low, have_high in zip(
            chunk.box.min, chunk.box.max, picture.box.min, picture.box.max, strict=True
        )
    ]
    blurred[chunk.box] = weighted_sum(np.pad(picture.array, missing, mode="edge"), weights.array)


# The same for GPUs: each block keeps the weights and the pixels that it needs in shared memory, in rows of whole groups
# of four, which are loaded at once. Each thread slides along the rows that its pixels need, and multiplies four weights
# with the pixels beneath them at a time. The sums are in NumPy's order, and nothing is fused, so that the bits are
# NumPy's as well. The compiler knows the radius, and unrolls the loops over small windows: that saves time.
BLUR_SOURCE = r"""
__device__ long long clamp(long long value, long long low, long long high) {
    return value < low ? low : value >= high ? high - 1 : value;
}

__global__ void __launch_bounds__(HEIGHT * WIDTH)
blur(celerity::chunk<2> chunk, accessor<float, 2> blurred, accessor<const float, 2> picture,
     accessor<const float, 2> weights) {
    using four = celerity::neighbours<float, 4>;
    extern __shared__ four shared[];
    constexpr int ROWS = chunk.items(0), COLUMNS = chunk.items(1), size = 2 * radius + 1;
    constexpr int padded = (size + 3) / 4 * 4; // weights in a row
    constexpr int width = WIDTH * COLUMNS + padded, height = HEIGHT * ROWS + 2 * radius;
    static_assert(COLUMNS == 4, "a group");
    float* const tile = (float*)shared;
    float* const known = tile + height * width;
    const auto [y, x] = chunk.item().index;
    const long long top = y - (int)threadIdx.y * ROWS - radius, left = x - (int)threadIdx.x * COLUMNS - radius;
    for (int i = threadIdx.y; i < height; i += HEIGHT) {
        // A block that overhangs the chunk must not read further than the chunk does.
        const long long row = clamp(clamp(top + i, 0, chunk.max[0] + radius), 0, chunk.global_max[0]);
        for (int j = threadIdx.x; j < width; j += WIDTH) {
            const long long column = clamp(clamp(left + j, 0, chunk.max[1] + radius), 0, chunk.global_max[1]);
            tile[i * width + j] = picture(row, column);
        }
    }
    for (int i = threadIdx.y * WIDTH + threadIdx.x; i < size * size; i += WIDTH * HEIGHT) {
        known[i / size * padded + i % size] = weights(i / size, i % size);
    }
    __syncthreads();
    if (x >= chunk.max[1]) return;
    float total[ROWS][COLUMNS] = {};
#pragma unroll 1
    for (int i = 0; i < ROWS + 2 * radius; ++i) {
        const four* const pixels = (const four*)(tile + (threadIdx.y * ROWS + i) * width) + threadIdx.x;
        four here = pixels[0];
#pragma unroll (radius <= 12 ? padded / 4 : 1)
        for (int j = 0; j < size; j += 4) {
            const four next = pixels[j / 4 + 1];
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                if (i < k || i - k >= size) continue;
                const four weight = *(const four*)(known + (i - k) * padded + j);
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    if (j + n >= size) break;
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) {
                        total[k][c] += __fmul_rn(weight[n], n + c < 4 ? here[n + c] : next[n + c - 4]);
                    }
                }
            }
            here = next;
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (y + k < chunk.max[0] && x + c < chunk.max[1]) blurred(y + k, x + c) = total[k][c];
        }
    }
}
"""
# Threads per block, and pixels per thread: rows and columns.
BLOCK, ITEMS = (8, 32), (2, 4)
BLOCK_ROWS = BLOCK[0] * ITEMS[0]
#: On each device; with fewer, two kernels more take longer than the transfers that they hide.
PIXELS_WORTH_A_BORDER = 2**20


def blur_kernel(radius: int) -> Any:
    """Return a kernel for windows of this radius."""
    known = f"constexpr int HEIGHT = {BLOCK[0]}, WIDTH = {BLOCK[1]}, radius = {radius};\n"
    weights_in_a_row = -(-(2 * radius + 1) // 4) * 4
    pixels = (BLOCK_ROWS + 2 * radius) * (BLOCK[1] * ITEMS[1] + weights_in_a_row)
    shared_bytes = (pixels + (2 * radius + 1) * weights_in_a_row) * np.dtype(np.float32).itemsize
    on_gpus = celerity.CudaKernel(known + BLUR_SOURCE, "blur", block=BLOCK, items=ITEMS, shared_bytes=shared_bytes)
    return celerity.kernel(cpu=blur_arrays, cuda=on_gpus, name="blur")


def reference(picture: NDArray[np.float32], weights: NDArray[np.float32], passes: int) -> NDArray[Any]:
    """Compute the same with plain NumPy."""
    for _ in range(passes):
        picture = weighted_sum(np.pad(picture, weights.shape[0] // 2, mode="edge"), weights)
    return picture


class Blurring:
    """A picture, the one that it becomes in a pass, and the weights."""

    def __init__(self, queue: celerity.Queue, original: NDArray[np.float32], weights: NDArray[np.float32]) -> None:
        self.queue, self.radius = queue, weights.shape[0] // 2
        self.picture = celerity.Buffer.from_array(original, name="picture")
        self.blurred = celerity.Buffer(original.shape, np.float32, name="blurred")
        self.weights = celerity.Buffer.from_array(weights, name="weights")
        self.blur = blur_kernel(self.radius)

    def run(self, hints: Sequence[celerity.hints.Hint], advance: Callable[[], None], passes: int) -> None:
        """Submit passes."""
        for _ in range(passes):
            self.queue.parallel_for(
                self.picture.shape,
                self.blur,
                self.blurred.write(access.one_to_one()),
                self.picture.read(access.neighborhood(self.radius, self.radius, shape="box")),
                self.weights.read(access.all()),
                hints=hints,
            )
            self.picture, self.blurred = self.blurred, self.picture
            advance()


def main() -> int:
    """Blur as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=768, size_help="height of the picture; it is 4/3 as wide")
    parser.add_argument("--radius", type=frame.positive_int, default=4, metavar="R", help="pixels on each side")
    parser.add_argument(
        "--passes", "--steps", type=frame.positive_int, default=3, metavar="S", help="convolutions in a row"
    )
    frame.add_hint_arguments(parser)
    frame.add_border_argument(parser)
    frame.add_benchmark_arguments(parser)
    arguments = parser.parse_args()
    passes = arguments.passes
    make = mosaic if arguments.benchmark else photograph
    original, weights = make(arguments.size, arguments.size * 4 // 3), gaussian(arguments.radius)

    with celerity.Queue() as queue:
        rows = -(-arguments.radius // BLOCK_ROWS) * BLOCK_ROWS
        hints = frame.stencil_hints(
            frame.device_count(queue), arguments, rows=rows, items=original.size, items_worth_it=PIXELS_WORTH_A_BORDER
        )
        blurring = Blurring(queue, original, weights)
        if arguments.benchmark:
            submit = frame.submit_of(queue, arguments, functools.partial(blurring.run, hints, lambda: None))
            frame.print_figures(frame.measure(queue, submit, size=arguments.size, steps=passes))
            return 0
        start = time.perf_counter()
        with frame.progress("passes", passes) as advance:
            frame.submit_of(queue, arguments, functools.partial(blurring.run, hints, advance))(passes)
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"convolution: {' x '.join(map(str, original.shape))} pixels, {passes} passes, {celerity.size()} rank(s)",
            {
                **frame.timing(queue, seconds, {"pixels/s": frame.quantity(original.size * passes / seconds, "")}),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(blurring.picture, on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        frame.save_picture(arguments.output, {"original": original, f"{passes} passes": result}, colours="gray")
    return int(arguments.verify and not frame.agrees(result, reference(original, weights, passes)))


if __name__ == "__main__":
    sys.exit(main())
