# SPDX-License-Identifier: MIT
"""Waves on a pond: the wave equation with a five-point stencil.

    python cluster_jobs/apps/wave_sim.py --size 1024 --steps 400 --verify --output wave.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/wave_sim.py

Every step reads a halo of one cell around each chunk; two buffers take turns as the old and the new state.
`--benchmark` measures the steady state; `cluster_jobs/benchmarks/scaling/strong_scaling.py` uses it.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any

import frame
import numpy as np
from checkpoints import Checkpoints, add_arguments

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

# Where drops hit the pond, and how wide they are, in fractions of its size.
DROPS = ((0.30, 0.35, 0.06), (0.65, 0.60, 0.04), (0.45, 0.80, 0.03))
COURANT_SQUARED = np.float32(0.25)
# Threads per block, and cells of a thread along a row. So many threads run at the same time on a large GPU.
BLOCK, COLUMNS = (4, 32), 4
THREADS_AT_ONCE = 2**17
# Rows next to another device that are computed first, and travel while the rest is computed: as many as a block has, if
# its threads have two. On a device with few cells three kernels instead of one take longer than what they hide.
BORDER_ROWS = 8
CELLS_WORTH_A_BORDER = 2**23


def drops(box: celerity.Box, size: int) -> NDArray[np.float32]:
    """Return the initial height inside a box. Polynomials only: the same bits whatever the box is."""
    height = np.zeros(box.shape, dtype=np.float32)
    for row, column, radius in DROPS:
        # Nothing else is wet; a large pond would take long.
        low = (int((row - radius) * size), int((column - radius) * size))
        high = (int((row + radius) * size) + 2, int((column + radius) * size) + 2)
        wet = box & celerity.Box(low, high)
        rows = (np.arange(wet.min[0], wet.max[0], dtype=np.float32) / np.float32(size))[:, np.newaxis]
        columns = (np.arange(wet.min[1], wet.max[1], dtype=np.float32) / np.float32(size))[np.newaxis, :]
        y = (rows - np.float32(row)) / np.float32(radius)
        x = (columns - np.float32(column)) / np.float32(radius)
        bump = np.maximum(np.float32(0), 1 - y * y - x * x)
        if wet:
            height[wet.shift(-box.min[0], -box.min[1]).slices] += bump * bump
    return height


def wave_step_on_arrays(chunk: celerity.Chunk, u_next: celerity.View, u: celerity.View, c2: np.float32) -> None:
    """Overwrite the state before the last with the next one; the rim of the pond stays at rest."""
    inner = chunk.box & u.shape_box.shrink(1, 1)
    u_next[inner] = (
        2 * u[inner]
        - u_next[inner]
        + c2
        * (u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)] - 4 * u[inner])
    )


# The same in one pass over memory. Each thread has several cells, and goes down their rows.
WAVE_STEP_SOURCE = r"""
// Rows of N neighbours, which are loaded and stored together. Those at the rim of the pond keep their height.
template <int N>
__device__ void advance(const accessor<float, 2>& u_next, const accessor<const float, 2>& u, long long top,
                        long long bottom, long long x, long long last, float c2) {
    const bool is_first = x == 0, is_last = x + N > last;
    auto above = u.load<N>(top - 1, x), here = u.load<N>(top, x);
#pragma unroll 2
    for (long long y = top; y < bottom; ++y) {
        const auto below = u.load<N>(y + 1, x);
        auto next = u_next.load<N>(y, x);
        const float before = is_first ? 0 : u(y, x - 1), behind = is_last ? 0 : u(y, x + N);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if ((k == 0 && is_first) || (k == N - 1 && is_last)) continue;
            const float left = k > 0 ? here[k - 1] : before, right = k < N - 1 ? here[k + 1] : behind;
            const float laplacian = above[k] + below[k] + left + right - 4 * here[k];
            next[k] = 2 * here[k] - next[k] + __fmul_rn(c2, laplacian); // not fused, so that the bits are NumPy's
        }
        u_next.store(next, y, x);
        above = here, here = below;
    }
}

__global__ void wave_step(celerity::chunk<2> chunk, accessor<float, 2> u_next, accessor<const float, 2> u, float c2) {
    constexpr int ROWS = chunk.items(0), COLUMNS = chunk.items(1);
    const auto [y, x] = chunk.item().index;
    const long long top = max(y, 1ll), bottom = min(min(y + ROWS, chunk.max[0]), chunk.global_max[0] - 1);
    const long long right = min(x + COLUMNS, chunk.max[1]), last = chunk.global_max[1] - 1;
    if (top >= bottom) return;
    if (right - x == COLUMNS && u.lie_together<COLUMNS>(x) && u_next.lie_together<COLUMNS>(x)) {
        advance<COLUMNS>(u_next, u, top, bottom, x, last, c2);
    } else { // at the end of the chunk, or where neighbours are not aligned
        for (long long single = x; single < right; ++single) advance<1>(u_next, u, top, bottom, single, last, c2);
    }
}
"""


@functools.cache
def wave_step(rows: int) -> Any:
    """Return the kernel whose GPU threads have so many rows each."""
    on_gpus = celerity.CudaKernel(WAVE_STEP_SOURCE, "wave_step", block=BLOCK, items=(rows, COLUMNS))
    return celerity.kernel(cpu=wave_step_on_arrays, cuda=on_gpus, name="wave_step")


def best_rows(cells: int) -> int:
    """Return how many rows a thread best has, if a GPU has so many cells."""
    # The fastest threads are as many as run at the same time. If more are needed, threads with few rows are faster.
    return next((rows for rows in (2, 4, 8) if cells <= rows * COLUMNS * THREADS_AT_ONCE), 2)


def reference(size: int, steps: int) -> NDArray[Any]:
    """Compute the same with plain NumPy: the same float32 operations in the same order."""
    u = drops(celerity.Box((0, 0), (size, size)), size)
    u_next = u.copy()
    for _ in range(steps):
        u_next[1:-1, 1:-1] = (
            2 * u[1:-1, 1:-1]
            - u_next[1:-1, 1:-1]
            + COURANT_SQUARED * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        )
        u, u_next = u_next, u
    return u


def advance_waves(
    queue: celerity.Queue,
    states: list[celerity.Buffer],
    hints: Sequence[celerity.hints.Hint],
    advance: Callable[[], None],
    steps: int,
    *,
    kernel: Any,
) -> None:
    """Submit steps; `states` are the current and the previous one, before and after."""
    for _ in range(steps):
        u, u_next = states
        queue.parallel_for(
            u.shape,
            kernel,
            u_next.read_write(access.one_to_one()),
            u.read(access.neighborhood(1, 1, shape="axes")),
            COURANT_SQUARED,
            hints=hints,
        )
        states.reverse()
        advance()


def main() -> int:
    """Run the simulation as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=1024, size_help="cells along each side of the pond")
    parser.add_argument("--steps", type=frame.positive_int, default=400, metavar="S", help="time steps")
    frame.add_hint_arguments(parser)
    frame.add_border_argument(parser)
    frame.add_recompute_argument(parser)
    frame.add_benchmark_arguments(parser)
    add_arguments(parser)
    arguments = parser.parse_args()
    size, steps = arguments.size, arguments.steps

    with celerity.Queue() as queue:
        devices = frame.device_count(queue)
        kernel = wave_step(best_rows(size**2 // devices))
        hints = frame.stencil_hints(
            devices, arguments, rows=BORDER_ROWS, items=size**2, items_worth_it=CELLS_WORTH_A_BORDER
        )
        checkpoints, names = Checkpoints(queue, arguments), ("u", "u_next")
        states = [
            checkpoints.restored[name]
            if checkpoints.restored
            else celerity.Buffer.from_function((size, size), np.float32, lambda box: drops(box, size), name=name)
            for name in names
        ]
        if arguments.benchmark:
            submit = frame.submit_of(
                queue, arguments, functools.partial(advance_waves, queue, states, hints, lambda: None, kernel=kernel)
            )
            frame.print_figures(frame.measure(queue, submit, size=size, steps=steps))
            return 0
        start, left = time.perf_counter(), steps - checkpoints.first
        with frame.progress("waves", left) as advance:
            submit = frame.submit_of(
                queue, arguments, functools.partial(advance_waves, queue, states, hints, advance, kernel=kernel)
            )
            if not checkpoints.run(steps, submit, lambda: dict(zip(names, states, strict=True))):
                return 0
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"wave_sim: {size} x {size} cells, {steps} steps, {celerity.size()} rank(s)",
            {
                **frame.timing(
                    queue,
                    seconds,
                    {"steps/s": f"{left / seconds:.1f}", "cells/s": frame.quantity(size * size * left / seconds, "")},
                ),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(states[0], on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        title = f"height after {steps} steps"
        frame.save_picture(arguments.output, {title: result}, colours="RdBu", centred=True)
    return int(arguments.verify and not frame.agrees(result, reference(size, steps)))


if __name__ == "__main__":
    sys.exit(main())
