# SPDX-License-Identifier: MIT
"""Light in a room while a lamp is switched on: radiosity with light that takes time to travel.

    python cluster_jobs/apps/rsim.py --patches 1000 --steps 96 --verify --output room.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/rsim.py

Step t computes row t of the history, the light that leaves each patch of the room, from what has left the others
before: the further they are, the earlier. It reads rows [0, t) and writes row t, so every step wants a larger part of
the history than any step before. The runtime looks ahead and allocates the history once, at its final size; with
CELERITY_LOOKAHEAD=none it has to move what is there to larger and larger allocations, and the summary says how much.
`--benchmark` measures whole runs, each with a new history.

How much light gets from patch j to patch i is computed on the devices, too: the form factor of a disc of the area of j,
seen from the centre of i (cos cos A / (pi r² + A)), if neither box is on the line between their centres. If the factors
of a patch add up to more than 1, which they do next to edges, they are scaled down to 1.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import frame
import numpy as np
import room

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

# In so many steps light crosses the room from wall to wall: an eighth of all, so that it has been reflected often.
CROSSINGS, MOST_STEPS_TO_CROSS = 8, 140
# Threads that work on a patch together, and blocks of them: as many as an H200 takes at once, on 132 multiprocessors.
THREADS, BLOCKS = 256, 132 * 4
DEPTH = 8  # pairs of patches that a thread loads at once
NOT_ZERO = np.float32(1e-12)
MOST_OF_HISTORY = 2**32  # elements: indices are 32 bits wide
# The permitted error of light, relative to the brightest: sums in another order.
ROUNDING = 1e-5
# Of more patches, only some are compared with NumPy, in every step, by what the program says has left all others.
MOST_VERIFIED_FULLY, SAMPLES = 4096, 256


def reach_of(steps: int) -> np.float32:
    """Return how far light gets in a step, if so many steps are simulated."""
    return np.float32(1 / min(max(1, steps // CROSSINGS), MOST_STEPS_TO_CROSS))


def transport_to(
    geometry: NDArray[np.float32], some: slice | NDArray[np.int64], reach: np.float32
) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.uint8]]]:
    """Compute how light gets from all patches to some; yields a few of them at a time.

    Args:
        geometry: Of all patches, (`room.NUM_ROWS`, patches).
        some: Which patches.
        reach: How far light gets in a step.

    Yields:
        A slice of `some`; the share of the light of each patch that these reflect, (n, patches); and how many steps it
        takes to get there.
    """
    chosen = geometry[:, some]
    num_chosen, num_patches = chosen.shape[1], geometry.shape[1]
    rows = max(1, 2**17 // num_patches)  # pairs at a time: as many as a cache holds
    for first in range(0, num_chosen, rows):
        part = slice(first, min(first + rows, num_chosen))
        here = chosen[:, part, np.newaxis]
        apart = [geometry[axis] - here[axis] for axis in range(3)]
        squared = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        leaving, arriving = np.zeros((2, *squared.shape), dtype=np.float32)
        for axis in range(3):
            leaving -= geometry[room.NORMAL + axis] * apart[axis]
            arriving += here[room.NORMAL + axis] * apart[axis]
        facing = np.maximum(leaving, 0) * np.maximum(arriving, 0)
        area = geometry[room.AREA]
        factors = facing * area / (np.maximum(squared, NOT_ZERO) * (np.float32(np.pi) * squared + area))
        factors[_hidden(geometry, here)] = 0
        factors *= here[room.REFLECTANCE] / np.maximum(1, factors.sum(axis=1, keepdims=True))
        yield part, factors, (1 + np.floor(np.sqrt(squared) / reach)).astype(np.uint8)


def _hidden(geometry: NDArray[np.float32], here: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether a box is between patches, (n, patches): where a line is within its extents along all three axes."""
    result = np.zeros((here.shape[1], geometry.shape[1]), dtype=bool)
    for number, half in enumerate(room.half_extents()):
        begin, end = np.zeros(result.shape, dtype=np.float32), np.ones(result.shape, dtype=np.float32)
        for axis in range(3):
            row = room.IN_BOXES + 3 * number + axis
            direction = geometry[row] - here[row]
            inverse = 1 / np.where(np.abs(direction) < NOT_ZERO, NOT_ZERO, direction)
            one, other = (-half[axis] - here[row]) * inverse, (half[axis] - here[row]) * inverse
            begin = np.maximum(begin, np.minimum(one, other))
            end = np.minimum(end, np.maximum(one, other))
        result |= begin < end
    return result


def find_transport_on_arrays(
    chunk: celerity.Chunk, factors: celerity.View, delays: celerity.View, geometry: celerity.View, reach: np.float32
) -> None:
    """Compute how light gets from all patches to those of one chunk."""
    (low,), (high,) = chunk.box.min, chunk.box.max
    for part, some_factors, some_delays in transport_to(geometry[...], slice(low, high), reach):
        factors[low + part.start : low + part.stop, :] = some_factors
        delays[low + part.start : low + part.stop, :] = some_delays


def arriving(
    history: NDArray[np.float32], factors: NDArray[np.float32], delays: NDArray[np.uint8], step: int
) -> NDArray[np.float32]:
    """Add up the light that the patches of the rows of `factors` reflect in a step, from the history of all patches."""
    patches = np.arange(factors.shape[1])
    result = np.zeros(len(factors), dtype=np.float32)
    rows = max(1, 2**17 // len(patches))
    for first in range(0, len(factors) if step > 0 else 0, rows):
        part = slice(first, first + rows)
        sent = step - delays[part].astype(np.int64)
        light = np.where(sent >= 0, history[np.maximum(sent, 0), patches], np.float32(0))
        result[part] = (factors[part] * light).sum(axis=1)
    return result


def advance_light_on_arrays(  # noqa: PLR0917 - a kernel has as many arguments as it has data
    chunk: celerity.Chunk,
    row: celerity.View,
    history: celerity.View,
    factors: celerity.View,
    delays: celerity.View,
    emission: celerity.View,
    step: int,
) -> None:
    """Compute the light that leaves the chunk's patches in one step."""
    (low,), (high,) = chunk.box.min, chunk.box.max
    row[step, low:high] = emission[low:high] + arriving(history[...], factors[...], delays[...], step)


# Without the runtime, so that other programs can use it. What decides whether a patch is hidden, and how long light
# takes, must not be fused: then it is what NumPy computes, to the bit.
ROOM_SOURCE = (
    f"constexpr int THREADS = {THREADS}, DEPTH = {DEPTH}, NUM_BOXES = {len(room.BOXES)}, NUM_ROWS = {room.NUM_ROWS};\n"
    f"constexpr float NOT_ZERO = {float(NOT_ZERO).hex()}f;\n"
    f"enum {{ AREA = {room.AREA}, NORMAL = {room.NORMAL}, REFLECTANCE = {room.REFLECTANCE} }};\n"
    f"enum {{ IN_BOXES = {room.IN_BOXES} }};\n"
    "__constant__ float half_extents[NUM_BOXES][3] = {"
    + ", ".join("{" + ", ".join(f"{float(extent).hex()}f" for extent in half) + "}" for half in room.half_extents())
    + "};\n"
    + r"""
// The sum over the threads of a block, for all of them.
__device__ __forceinline__ float sum_of_block(float value) {
    __shared__ float sums[THREADS / 32];
    for (int other = 16; other > 0; other /= 2) value += __shfl_xor_sync(0xffffffff, value, other);
    __syncthreads(); // all threads are done with the sum before
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (int warp = 0; warp < THREADS / 32; ++warp) total += sums[warp];
    return total;
}

__device__ __forceinline__ bool is_hidden(const float* geometry, long long patches, const float* here, long long j) {
    for (int box = 0; box < NUM_BOXES; ++box) {
        float begin = 0, end = 1;
        for (int axis = 0; axis < 3; ++axis) {
            const int row = IN_BOXES + 3 * box + axis;
            const float direction = geometry[row * patches + j] - here[row], half = half_extents[box][axis];
            const float inverse = 1 / (fabsf(direction) < NOT_ZERO ? NOT_ZERO : direction);
            const float one = (-half - here[row]) * inverse, other = (half - here[row]) * inverse;
            begin = fmaxf(begin, fminf(one, other));
            end = fminf(end, fmaxf(one, other));
        }
        if (begin < end) return true;
    }
    return false;
}

// How light gets from all patches to patch i: the share that it reflects, and the steps that it takes. For all threads
// of a block together.
__device__ __forceinline__ void find_transport_to(const long long i, const float* geometry, const long long patches,
                                                  const float reach, float* factors, unsigned char* delays) {
    float here[NUM_ROWS];
    for (int row = 0; row < NUM_ROWS; ++row) here[row] = geometry[row * patches + i];
    float sum = 0;
    for (long long j = threadIdx.x; j < patches; j += THREADS) {
        float apart[3], leaving = 0, arriving = 0;
        for (int axis = 0; axis < 3; ++axis) {
            apart[axis] = geometry[axis * patches + j] - here[axis];
            leaving -= geometry[(NORMAL + axis) * patches + j] * apart[axis];
            arriving += here[NORMAL + axis] * apart[axis];
        }
        const float squared = __fadd_rn(
            __fadd_rn(__fmul_rn(apart[0], apart[0]), __fmul_rn(apart[1], apart[1])), __fmul_rn(apart[2], apart[2]));
        const float area = geometry[AREA * patches + j];
        float factor = 0;
        if (leaving > 0 && arriving > 0 && !is_hidden(geometry, patches, here, j)) {
            factor = leaving * arriving * area / (fmaxf(squared, NOT_ZERO) * (3.14159265f * squared + area));
        }
        factors[j] = factor;
        delays[j] = (unsigned char)(1 + floorf(__fsqrt_rn(squared) / reach));
        sum += factor;
    }
    const float scale = here[REFLECTANCE] / fmaxf(1, sum_of_block(sum));
    for (long long j = threadIdx.x; j < patches; j += THREADS) factors[j] *= scale;
}

// What a patch reflects in a step of what has left all patches before; `factors` and `delays` are its own. For all
// threads of a block together, which all get it. Their number is even, and that of the elements of the history below
// 2^32. What is read once does not stay in the cache, where the history is; and half of the factors are 0.
__device__ __forceinline__ float light_arriving(const float* factors, const unsigned char* delays, const float* history,
                                                const unsigned row_length, const int patches, const int step) {
    const auto light_from = [&](const float factor, const int delay, const int j) {
        return factor != 0 && step >= delay ? history[(step - delay) * row_length + j] : 0; // unsigned: cheaper
    };
    float sum = 0;
    for (int first = 2 * threadIdx.x; first < patches; first += 2 * THREADS * DEPTH) {
        float2 factor[DEPTH], light[DEPTH];
        uchar2 delay[DEPTH];
#pragma unroll
        for (int n = 0; n < DEPTH; ++n) {
            const int j = first + 2 * THREADS * n;
            factor[n] = j < patches ? __ldcs((const float2*)(factors + j)) : make_float2(0, 0);
            delay[n] = j < patches ? __ldcs((const uchar2*)(delays + j)) : make_uchar2(0, 0);
        }
#pragma unroll
        for (int n = 0; n < DEPTH; ++n) {
            const int j = first + 2 * THREADS * n;
            light[n] = make_float2(light_from(factor[n].x, delay[n].x, j), light_from(factor[n].y, delay[n].y, j + 1));
        }
#pragma unroll
        for (int n = 0; n < DEPTH; ++n) sum = fmaf(factor[n].y, light[n].y, fmaf(factor[n].x, light[n].x, sum));
    }
    return sum_of_block(sum);
}
"""
)

RSIM_SOURCE = (
    ROOM_SOURCE
    + r"""
__global__ void __launch_bounds__(THREADS)
find_transport(celerity::chunk<1> chunk, celerity::accessor<float, 2> factors,
               celerity::accessor<unsigned char, 2> delays, celerity::accessor<const float, 2> geometry, float reach) {
    for (long long i = chunk.min[0] + blockIdx.x; i < chunk.max[0]; i += gridDim.x) {
        find_transport_to(i, geometry.data, chunk.global_max[0], reach, &factors(i, 0), &delays(i, 0));
    }
}

__global__ void __launch_bounds__(THREADS, 4)
advance_light(celerity::chunk<1> chunk, celerity::accessor<float, 2> row, celerity::accessor<const float, 2> history,
              celerity::accessor<const float, 2> factors, celerity::accessor<const unsigned char, 2> delays,
              celerity::accessor<const float, 1> emission, int step) {
    const int patches = (int)chunk.global_max[0];
    for (long long i = chunk.min[0] + blockIdx.x; i < chunk.max[0]; i += gridDim.x) {
        float light = emission(i);
        if (step > 0) {
            const auto row_length = (unsigned)history.stride[0];
            light += light_arriving(&factors(i, 0), &delays(i, 0), history.data, row_length, patches, step);
        }
        if (threadIdx.x == 0) row(step, i) = light;
    }
}
"""
)
find_transport = celerity.kernel(
    cpu=find_transport_on_arrays,
    cuda=celerity.CudaKernel(RSIM_SOURCE, "find_transport", block=(THREADS,), grid=(BLOCKS,)),
    name="find_transport",
)
advance_light = celerity.kernel(
    cpu=advance_light_on_arrays,
    cuda=celerity.CudaKernel(RSIM_SOURCE, "advance_light", block=(THREADS,), grid=(BLOCKS,)),
    name="advance_light",
)


class Simulation:
    """A room, and how light gets from patch to patch in it; `history` is of the last run."""

    def __init__(self, queue: celerity.Queue, scene: room.Room, steps: int) -> None:
        patches = len(scene.emission)
        self.queue, self.steps = queue, steps
        self.emission = celerity.Buffer.from_array(scene.emission, name="emission")
        self.factors = celerity.Buffer((patches, patches), np.float32, name="factors")
        self.delays = celerity.Buffer((patches, patches), np.uint8, name="delays")
        self.start_over()
        queue.parallel_for(
            patches,
            find_transport,
            self.factors.write(access.slice(1)),
            self.delays.write(access.slice(1)),
            celerity.Buffer.from_array(scene.geometry, name="geometry").read(access.all()),
            reach_of(steps),
        )

    def start_over(self) -> None:
        """Make a new history."""
        self.history = celerity.Buffer((self.steps, *self.emission.shape), np.float32, name="history")

    def run(self, steps: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Submit the first steps, from darkness on."""
        (patches,) = self.emission.shape
        for step in range(steps):
            self.queue.parallel_for(
                patches,
                advance_light,
                self.history.write(access.slice(0, at=step)),
                self.history.read(access.fixed(celerity.Box((0, 0), (step, patches)))),
                self.factors.read(access.slice(1)),
                self.delays.read(access.slice(1)),
                self.emission.read(access.one_to_one()),
                step,
            )
            after_each()


def verify(scene: room.Room, history: NDArray[np.float32], *, rounding: float) -> bool:
    """Compare the light in all steps with plain NumPy, and print the verdict.

    Args:
        scene: The room.
        history: What the program has computed, (steps, patches).
        rounding: How far light may be off, relative to the brightest.
    """
    steps, patches = history.shape
    is_full = patches <= MOST_VERIFIED_FULLY
    some = np.arange(patches) if is_full else np.random.default_rng(1).choice(patches, SAMPLES, replace=False)
    factors, delays = np.empty((len(some), patches), np.float32), np.empty((len(some), patches), np.uint8)
    for part, some_factors, some_delays in transport_to(scene.geometry, some, reach_of(steps)):
        factors[part], delays[part] = some_factors, some_delays
    expected = np.zeros((steps, len(some)), dtype=np.float32)
    for step in range(steps):
        before = expected if is_full else history
        expected[step] = scene.emission[some] + arriving(before, factors, delays, step)
    print(f"Comparing the light of {len(some)} of {patches} patches in {steps} steps:")
    return frame.agrees(history[:, some], expected, rounding=rounding)


def benchmark(queue: celerity.Queue, simulation: Simulation, arguments: argparse.Namespace, patches: int) -> None:
    """Measure one run of all steps and print the figures."""
    submit = frame.submit_of(queue, arguments, simulation.run, turn=arguments.steps)

    def run(steps: int) -> None:
        if not arguments.replay:
            simulation.start_over()
        submit(steps)

    figures = frame.measure(queue, run, size=arguments.size, steps=arguments.steps)
    frame.print_figures(figures | {"patches": patches} | frame.resizes(queue))


def main() -> int:
    """Follow the light as the command line asks."""
    parser = frame.argument_parser(
        __doc__ or "", size=1000, size_name="--patches", size_help="triangles of the room, about"
    )
    parser.add_argument("--steps", type=frame.positive_int, default=96, metavar="S", help="time steps")
    frame.add_benchmark_arguments(parser)
    arguments = parser.parse_args()
    steps = arguments.steps
    scene = room.furnish(arguments.size)
    patches = len(scene.emission)
    if steps * patches >= MOST_OF_HISTORY:
        parser.error(f"{steps} steps of {patches} patches are more than {MOST_OF_HISTORY} elements")

    with celerity.Queue() as queue:
        simulation = Simulation(queue, scene, steps)
        if arguments.benchmark:
            benchmark(queue, simulation, arguments, patches)
            return 0
        queue.wait()
        start = time.perf_counter()
        with frame.progress("steps", steps) as advance:
            submit = frame.submit_of(
                queue,
                arguments,
                lambda count: simulation.run(count, advance),
                turn=steps,
                results=[simulation.history],
            )
            submit(2 * steps if arguments.replay else steps)
            # Asked for before the wait, lookahead allocates host memory for the last row together with all others.
            is_wanted = arguments.verify or arguments.output
            future = queue.fence(simulation.history, on="master") if is_wanted else None
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"rsim: {patches} patches, {steps} steps, {celerity.size()} rank(s)",
            {
                **frame.timing(
                    queue,
                    seconds,
                    {"steps/s": f"{steps / seconds:.1f}", "paths/s": frame.quantity(patches**2 * steps / seconds, "")},
                ),
                **{f"{name}, rank 0".replace("_", " "): f"{count:,}" for name, count in frame.resizes(queue).items()},
                **frame.traffic(queue),
            },
        )
        history = future.result() if future is not None else None
        rounding = ROUNDING if queue.statistics().backend == "cuda" else 0.0

    if history is None:
        return 0
    if arguments.output:
        shown = sorted({steps // 8, steps // 4, steps - 1})
        room.draw(arguments.output, scene, {f"light after {step + 1} steps": history[step] for step in shown})
    return int(arguments.verify and not verify(scene, history, rounding=rounding))


if __name__ == "__main__":
    sys.exit(main())
