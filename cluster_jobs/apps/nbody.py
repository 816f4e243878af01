# SPDX-License-Identifier: MIT
"""Two galaxies that meet: the gravity of every body on every other one.

    python cluster_jobs/apps/nbody.py --bodies 2048 --steps 100 --verify --output galaxies.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/nbody.py

Each chunk of bodies needs the positions of all bodies, and moves its own: after every step, all positions travel to all
devices. Two buffers take turns as the old and the new positions. `--benchmark` measures the steady state.

The source for GPUs has two parts, so that other programs can use the first one, which knows nothing of the runtime.
Every warp of a block has the same bodies and adds up another part of the sources, tile by tile through shared memory:
so a few thousand bodies are enough to fill a GPU. Each thread keeps several bodies in registers, and uses a source that
it loads for all of them. That sources go through shared memory in tiles is the idea of Nyland, Harris and Prins, "Fast
N-Body Simulation with CUDA", GPU Gems 3, chapter 31.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import frame
import numpy as np
from checkpoints import Checkpoints, add_arguments

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

# Lengths, masses and times are such that the gravitational constant and the total mass are 1.
TIME_STEP = np.float32(0.004)
SOFTENING = np.float32(0.05)  # no pull is stronger than that of a body at about this distance
SCALE_LENGTH = 0.15  # of a galaxy: a quarter of its bodies are nearer to its centre
# Where each galaxy starts, how fast, and how its disc lies: angles about the x and the y axis.
GALAXIES = (
    ((-0.55, -0.12, 0.0), (0.60, 0.00, 0.0), (0.25, 0.20)),
    ((0.55, 0.12, 0.0), (-0.60, 0.00, 0.0), (-0.50, 0.80)),
)

# The permitted error of changes of velocity and position, relative to the largest of all bodies. Sums of thousands of
# float32 values are good to about 1e-6; bodies that pass each other closely magnify that with every step.
ROUNDING = 1e-4
# Of more bodies, only some are compared with NumPy, in the field of all others as it is after each step.
MOST_VERIFIED_FULLY, SAMPLES = 4096, 512


def galaxies(num_bodies: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions (x, y, z, mass) and velocities (x, y, z, 0) at the start: two rotating discs of Kuzmin's kind.

    Args:
        num_bodies: How many, in both galaxies.

    Returns:
        Two float32 arrays of the shape (num_bodies, 4).
    """
    random = np.random.default_rng(31)
    positions, velocities = np.zeros((2, num_bodies, 4))
    positions[:, 3] = random.uniform(0.5, 1.5, num_bodies)
    positions[:, 3] /= positions[:, 3].sum()
    for number, (centre, velocity, (about_x, about_y)) in enumerate(GALAXIES):
        mine = slice(number * num_bodies // 2, (number + 1) * num_bodies // 2)
        count = mine.stop - mine.start
        inside = random.uniform(0, 0.85, count)  # share of the galaxy that is nearer to the centre
        radius = SCALE_LENGTH * np.sqrt((1 - inside) ** -2 - 1)
        speed = np.sqrt(0.5 * radius**2 / (radius**2 + SCALE_LENGTH**2) ** 1.5)
        scatter = random.normal(0, 0.2, (count, 3)) * speed[:, np.newaxis]  # or the disc falls into lumps
        angle = random.uniform(0, 2 * np.pi, count)
        cos, sin = np.cos(angle), np.sin(angle)
        height = random.normal(0, 0.02, count)
        tilt = _rotation(about_x, about_y)
        rotation = np.stack([-speed * sin, speed * cos, np.zeros(count)], axis=1)
        positions[mine, :3] = np.stack([radius * cos, radius * sin, height], axis=1) @ tilt.T + centre
        velocities[mine, :3] = (rotation + scatter) @ tilt.T + velocity
    return positions.astype(np.float32), velocities.astype(np.float32)


def _rotation(about_x: float, about_y: float) -> NDArray[np.float64]:
    (cx, sx), (cy, sy) = ((np.cos(angle), np.sin(angle)) for angle in (about_x, about_y))
    y, x = np.array([[[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]], [[1, 0, 0], [0, cx, -sx], [0, sx, cx]]])
    return np.asarray(y @ x)


def accelerations(targets: NDArray[Any], sources: NDArray[Any], softening_squared: Any) -> NDArray[Any]:
    """Add up the pull of all sources on each target.

    Args:
        targets: Positions, (n, 3) or more columns, of which the first three count.
        sources: Positions and masses, (m, 4), of the same dtype.
        softening_squared: What is added to each squared distance.

    Returns:
        Accelerations, (n, 3).
    """
    result = np.empty((len(targets), 3), dtype=targets.dtype)
    columns = [np.ascontiguousarray(sources[:, axis]) for axis in range(4)]
    rows = max(1, 2**17 // len(sources))  # pairs at a time: as many as a cache holds
    for first in range(0, len(targets), rows):
        block = slice(first, first + rows)
        apart = [columns[axis] - targets[block, axis, np.newaxis] for axis in range(3)]
        squared = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + softening_squared
        pull = columns[3] / (squared * np.sqrt(squared))
        for axis in range(3):
            result[block, axis] = (pull * apart[axis]).sum(axis=1)
    return result


def nbody_step_on_arrays(  # noqa: PLR0917 - a kernel has as many arguments as it has data
    chunk: celerity.Chunk,
    moved: celerity.View,
    velocities: celerity.View,
    positions: celerity.View,
    dt: np.float32,
    softening_squared: np.float32,
) -> None:
    """Accelerate and move the bodies of one chunk."""
    own, everywhere = slice(chunk.box.min[0], chunk.box.max[0]), positions[...]
    here, velocity = everywhere[own], velocities[own, :]
    velocity[:, :3] += accelerations(here, everywhere, softening_squared) * dt
    moved[own, :] = here
    moved[own, :3] += velocity[:, :3] * dt


# Of a block: warps; in each of them, columns of threads, which have the same bodies; and the bodies of a column.
WARPS, COLUMNS, BODIES = 16, 8, 4
GROUP = COLUMNS * BODIES  # bodies of a block
TILE = 64  # sources that a warp has in shared memory at a time

ACCELERATION_SOURCE = (
    f"constexpr int WARPS = {WARPS}, COLUMNS = {COLUMNS}, BODIES = {BODIES}, TILE = {TILE};\n"
    r"""
constexpr int GROUP = COLUMNS * BODIES; // bodies of a block, the same in all its warps
constexpr int ROWS = 32 / COLUMNS;      // of threads in a warp: each row takes other sources of a tile
constexpr int BLOCK = 32 * WARPS;
static_assert(GROUP <= BLOCK && TILE % 32 == 0, "a thread for each body, in the end");

// rsqrtf() without what it does for numbers below 1e-38: a fifth of all instructions here.
__device__ __forceinline__ float fast_rsqrt(const float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Adds up what the bodies [from, to) pull on the bodies [first, first + GROUP) below `end`; masses are the w of
// positions. All threads of a block must call it; thread i gets the acceleration of body first + i, and threads beyond
// the group get nothing. The order of the sum depends on the sources only: a body has the same bits on whatever device
// it is.
__device__ __forceinline__ float3 acceleration_in_group(const float4* __restrict__ positions, long long first,
                                                        long long end, long long from, long long to,
                                                        float softening_squared) {
    __shared__ float4 tiles[WARPS][TILE];
    __shared__ float3 partial[WARPS][GROUP];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = lane % COLUMNS, row = lane / COLUMNS;
    float4 own[BODIES], fetched[TILE / 32];
    float3 sum[BODIES];
#pragma unroll
    for (int k = 0; k < BODIES; ++k) {
        const long long body = first + COLUMNS * k + column;
        own[k] = positions[body < end ? body : end - 1];
        sum[k] = make_float3(0, 0, 0);
    }
    const auto fetch = [&](const long long tile) {
#pragma unroll
        for (int i = 0; i < TILE / 32; ++i) {
            const long long body = tile + 32 * i + lane;
            fetched[i] = body < to ? positions[body] : make_float4(0, 0, 0, 0); // no mass
        }
    };
    fetch(from + TILE * warp);
    for (long long tile = from + TILE * warp; tile < to; tile += TILE * WARPS) {
        __syncwarp(); // all lanes are done with the tile before
#pragma unroll
        for (int i = 0; i < TILE / 32; ++i) tiles[warp][32 * i + lane] = fetched[i];
        __syncwarp();
        fetch(tile + TILE * WARPS); // arrives while this tile is at work
#pragma unroll
        for (int j = 0; j < TILE; j += ROWS) {
            const float4 source = tiles[warp][j + row];
#pragma unroll
            for (int k = 0; k < BODIES; ++k) {
                const float x = source.x - own[k].x, y = source.y - own[k].y, z = source.z - own[k].z;
                const float inverse = fast_rsqrt(fmaf(x, x, fmaf(y, y, fmaf(z, z, softening_squared))));
                const float pull = (source.w * inverse) * (inverse * inverse);
                sum[k].x = fmaf(pull, x, sum[k].x);
                sum[k].y = fmaf(pull, y, sum[k].y);
                sum[k].z = fmaf(pull, z, sum[k].z);
            }
        }
    }

#pragma unroll
    for (int k = 0; k < BODIES; ++k) {
        for (int other = COLUMNS; other < 32; other *= 2) {
            sum[k].x += __shfl_xor_sync(0xffffffff, sum[k].x, other);
            sum[k].y += __shfl_xor_sync(0xffffffff, sum[k].y, other);
            sum[k].z += __shfl_xor_sync(0xffffffff, sum[k].z, other);
        }
        if (row == 0) partial[warp][COLUMNS * k + column] = sum[k];
    }
    __syncthreads();
    float3 total = make_float3(0, 0, 0);
    if (threadIdx.x < GROUP) {
        for (int w = 0; w < WARPS; ++w) {
            const float3 addend = partial[w][threadIdx.x];
            total.x += addend.x;
            total.y += addend.y;
            total.z += addend.z;
        }
    }
    __syncthreads(); // before the next group comes
    return total;
}
"""
)
NBODY_STEP_SOURCE = r"""
__global__ void __launch_bounds__(BLOCK, 2)
nbody_step(celerity::chunk<1> chunk, celerity::accessor<float, 2> moved, celerity::accessor<float, 2> velocities,
           celerity::accessor<const float, 2> positions, float dt, float softening_squared) {
    const float4* const places = (const float4*)positions.data;
    const long long end = chunk.max[0], step = (long long)gridDim.x * GROUP;
    for (long long first = chunk.min[0] + (long long)blockIdx.x * GROUP; first < end; first += step) {
        const float3 pull = acceleration_in_group(places, first, end, 0, chunk.global_max[0], softening_squared);
        const long long body = first + threadIdx.x;
        if (threadIdx.x >= GROUP || body >= end) continue;
        moved(body, 0) = fmaf(velocities(body, 0) += pull.x * dt, dt, places[body].x);
        moved(body, 1) = fmaf(velocities(body, 1) += pull.y * dt, dt, places[body].y);
        moved(body, 2) = fmaf(velocities(body, 2) += pull.z * dt, dt, places[body].z);
        moved(body, 3) = places[body].w;
    }
}
"""


def nbody_kernel(num_bodies: int) -> Any:
    """Return a kernel for chunks of about so many bodies; of more, its blocks take several groups one by one."""
    grid = min(4096, num_bodies // GROUP + 2)
    source = ACCELERATION_SOURCE + NBODY_STEP_SOURCE
    on_gpus = celerity.CudaKernel(source, "nbody_step", block=(32 * WARPS,), grid=(grid,))
    return celerity.kernel(cpu=nbody_step_on_arrays, cuda=on_gpus, name="nbody_step")


class Simulation:
    """The bodies: positions with masses, twice, and velocities; 4 float32 each. Devices have `parts` chunks each."""

    def __init__(
        self, queue: celerity.Queue, num_bodies: int, hints: Sequence[celerity.hints.Hint], parts: int
    ) -> None:
        self.queue, self.hints = queue, hints
        self.step = nbody_kernel(-(-num_bodies // (frame.device_count(queue) * parts)))
        self.start = galaxies(num_bodies)
        self.positions = celerity.Buffer.from_array(self.start[0], name="positions")
        self.moved = celerity.Buffer(self.positions.shape, np.float32, name="moved")
        self.velocities = celerity.Buffer.from_array(self.start[1], name="velocities")

    def state(self) -> dict[str, celerity.Buffer[Any]]:
        """Return what a checkpoint needs."""
        return {"positions": self.positions, "velocities": self.velocities}

    def go_on_from(self, restored: Mapping[str, Any] | None) -> None:
        """Take the state of a checkpoint, if there is one."""
        if restored is not None:
            self.positions, self.velocities = restored["positions"], restored["velocities"]

    def advance(self, steps: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Submit steps; the velocity first, then the position with the new velocity."""
        for _ in range(steps):
            self.queue.parallel_for(
                self.positions.shape[0],
                self.step,
                self.moved.write(access.slice(1)),
                self.velocities.read_write(access.slice(1)),
                self.positions.read(access.all()),
                TIME_STEP,
                SOFTENING * SOFTENING,
                hints=self.hints,
            )
            self.positions, self.moved = self.moved, self.positions
            after_each()


def reference(
    start: tuple[NDArray[Any], NDArray[Any]], fields: Sequence[NDArray[Any]] | int, bodies: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Follow bodies with plain NumPy in float64.

    Args:
        start: Positions and velocities of all bodies.
        fields: Positions of all bodies before each step, as the program has computed them; or how many steps all
            bodies are to be followed independently of it.
        bodies: Which ones are followed; all, if there are no fields.

    Returns:
        Their positions and velocities in the end, (2, len(bodies), 3).
    """
    dt, softening_squared = np.float64(TIME_STEP), np.float64(SOFTENING * SOFTENING)
    place, velocity = (values[bodies].astype(np.float64) for values in start)
    for field in [None] * fields if isinstance(fields, int) else fields:
        sources = place if field is None else field.astype(np.float64)
        velocity[:, :3] += accelerations(place, sources, softening_squared) * dt
        place[:, :3] += velocity[:, :3] * dt
    return np.stack([place[:, :3], velocity[:, :3]])


def verify(
    start: tuple[NDArray[Any], NDArray[Any]],
    result: tuple[NDArray[Any], NDArray[Any]],
    steps: int,
    fields: Sequence[NDArray[Any]],
) -> bool:
    """Compare how far bodies have come, and how much faster or slower they are, with NumPy; print the verdict.

    Args:
        start: Positions and velocities at the start.
        result: The same in the end.
        steps: How many there were.
        fields: Positions before each step, if there are more than `MOST_VERIFIED_FULLY` bodies.
    """
    everyone = np.arange(len(start[0]))
    some = np.sort(np.random.default_rng(1).choice(everyone, SAMPLES, replace=False)) if fields else everyone
    expected = reference(start, fields or steps, some)
    before = np.stack([values[some, :3].astype(np.float64) for values in start])
    after = np.stack([values[some, :3].astype(np.float64) for values in result])
    largest = np.abs(expected - before).max(axis=(1, 2), keepdims=True)  # in position, and in velocity
    print(f"Comparing positions and velocities of {len(some)} of {len(everyone)} bodies with float64:")
    return frame.agrees((after - before) / largest, (expected - before) / largest, rounding=ROUNDING)


def column_density(positions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how much mass lies behind each pixel, on a logarithmic scale."""
    pixels = int(np.clip(1.5 * np.sqrt(len(positions)), 64, 800))
    edges = np.linspace(-1.2, 1.2, pixels + 1)
    density, _, _ = np.histogram2d(-positions[:, 1], positions[:, 0], bins=(edges, edges), weights=positions[:, 3])
    return np.asarray(np.log1p(density * len(positions)))


def print_benchmark(figures: dict[str, Any], num_bodies: int) -> None:
    """Print the figures of a benchmark, with the interactions per second."""
    time_us = figures.get("us_per_step")  # none in a dry run
    rates = {"interactions_per_s": num_bodies**2 / time_us * 1e6} if time_us else {}
    frame.print_figures(figures | rates)


def main() -> int:
    """Run the simulation as the command line asks."""
    parser = frame.argument_parser(
        __doc__ or "", size=2048, size_name="--bodies", size_help="bodies in both galaxies together"
    )
    parser.add_argument("--steps", type=frame.positive_int, default=100, metavar="S", help="time steps")
    frame.add_hint_arguments(parser, dimensions=1)
    frame.add_benchmark_arguments(parser)
    add_arguments(parser)
    arguments = parser.parse_args()
    num_bodies, steps = arguments.size, arguments.steps

    with celerity.Queue() as queue:
        simulation = Simulation(queue, num_bodies, frame.hints(arguments), arguments.oversubscribe)
        if arguments.benchmark:
            submit = frame.submit_of(queue, arguments, simulation.advance)
            print_benchmark(frame.measure(queue, submit, size=num_bodies, steps=steps), num_bodies)
            return 0
        fields = []
        checkpoints = Checkpoints(queue, arguments)
        simulation.go_on_from(checkpoints.restored)
        start, left = time.perf_counter(), steps - checkpoints.first
        keeps_fields = arguments.verify and num_bodies > MOST_VERIFIED_FULLY
        with frame.progress("steps", left) as advance:

            def after_each() -> None:
                if keeps_fields and not arguments.replay and not checkpoints.first:
                    fields.append(queue.fence(simulation.positions, on="master"))
                advance()

            submit = frame.submit_of(queue, arguments, lambda count: simulation.advance(count, after_each))
            if not checkpoints.run(steps, submit, simulation.state):
                return 0
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"nbody: {num_bodies} bodies, {steps} steps, {celerity.size()} rank(s)",
            {
                **frame.timing(
                    queue,
                    seconds,
                    {
                        "steps/s": f"{left / seconds:.1f}",
                        "interactions/s": frame.quantity(num_bodies**2 * left / seconds, ""),
                    },
                ),
                **frame.traffic(queue),
            },
        )
        futures = [queue.fence(buffer, on="master") for buffer in (simulation.positions, simulation.velocities)]
        positions, velocities = (future.result() for future in futures)
        before_each: list[Any] = [simulation.start[0], *(field.result() for field in fields[:-1])] if fields else []

    if positions is None or velocities is None:
        return 0
    if arguments.output:
        pictures = {"at the start": simulation.start[0], f"after {steps} steps": positions}
        panels = {title: column_density(places) for title, places in pictures.items()}
        frame.save_picture(arguments.output, panels, colours="inferno")
    return int(arguments.verify and not verify(simulation.start, (positions, velocities), steps, before_each))


if __name__ == "__main__":
    sys.exit(main())
