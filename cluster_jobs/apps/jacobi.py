# SPDX-License-Identifier: MIT
"""The temperature of a heated plate: Jacobi's iteration until nothing changes any more.

    python cluster_jobs/apps/jacobi.py --size 256 --tolerance 1e-2 --verify --output plate.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/jacobi.py

Whether to go on depends on data: every `--check-every` steps the largest change is reduced over all devices of all
ranks. `queue.until` submits the next steps while the change is on its way to the program. The change is the same on
every rank, so all ranks stop after the same step.
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


def plate(size: int) -> NDArray[np.float32]:
    """Return the plate at the start: hot along its upper edge, warm along half of its left one, cold elsewhere."""
    temperature = np.zeros((size, size), dtype=np.float32)
    temperature[0, :] = 100
    temperature[: size // 2, 0] = 50
    return temperature


def relax_arrays(chunk: celerity.Chunk, new: celerity.View, old: celerity.View) -> None:
    """Replace every inner cell by the mean of its four neighbours."""
    inner = chunk.box & old.shape_box.shrink(1, 1)
    new[inner] = np.float32(0.25) * (
        old[inner.shift(-1, 0)] + old[inner.shift(1, 0)] + old[inner.shift(0, -1)] + old[inner.shift(0, 1)]
    )


def largest_change_of_arrays(
    chunk: celerity.Chunk, new: celerity.View, old: celerity.View, change: celerity.Reducer
) -> None:
    """Reduce the largest change of any cell in the last step."""
    change.combine(np.max(np.abs(new[chunk.box] - old[chunk.box])))


# The same for GPUs, with NumPy's bits: the additions are in the same order. Each thread has several cells.
SOURCE = r"""
// Rows of N neighbours, which are loaded and stored together, downwards.
template <int N>
__device__ void relax_rows(const accessor<float, 2>& new_, const accessor<const float, 2>& old, long long top,
                           long long bottom, long long x) {
    auto above = old.load<N>(top - 1, x), here = old.load<N>(top, x);
#pragma unroll
    for (int i = 0; i < celerity::chunk<2>::items(0); ++i) {
        const long long y = top + i;
        if (y >= bottom) break;
        const auto below = old.load<N>(y + 1, x);
        const float before = old(y, x - 1), behind = old(y, x + N);
        celerity::neighbours<float, N> mean;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const float left = k > 0 ? here[k - 1] : before, right = k < N - 1 ? here[k + 1] : behind;
            mean[k] = 0.25f * (above[k] + below[k] + left + right);
        }
        new_.store(mean, y, x);
        above = here, here = below;
    }
}

__global__ void relax(celerity::chunk<2> chunk, accessor<float, 2> new_, accessor<const float, 2> old) {
    constexpr int ROWS = chunk.items(0), COLUMNS = chunk.items(1);
    const auto [y, x] = chunk.item().index;
    const long long top = max(y, 1ll), bottom = min(min(y + ROWS, chunk.max[0]), chunk.global_max[0] - 1);
    const long long left = max(x, 1ll), right = min(min(x + COLUMNS, chunk.max[1]), chunk.global_max[1] - 1);
    if (top >= bottom) return;
    if (right - left == COLUMNS) {
        relax_rows<COLUMNS>(new_, old, top, bottom, x);
    } else { // at the rim of the plate or of the chunk
        for (long long single = left; single < right; ++single) relax_rows<1>(new_, old, top, bottom, single);
    }
}

__global__ void largest_change(celerity::chunk<2> chunk, accessor<const float, 2> new_, accessor<const float, 2> old,
                               reducer<float, celerity::max> change) {
    const auto [top, x] = chunk.item().index;
    float largest = change.identity();
#pragma unroll
    for (int i = 0; i < chunk.items(0); ++i) {
        if (x < chunk.max[1] && top + i < chunk.max[0]) {
            largest = change.fold(largest, fabsf(new_(top + i, x) - old(top + i, x)));
        }
    }
    change.combine_block(largest);
}
"""
relax = celerity.kernel(
    cpu=relax_arrays, cuda=celerity.CudaKernel(SOURCE, "relax", block=(4, 32), items=(4, 4)), name="relax"
)
largest_change = celerity.kernel(
    cpu=largest_change_of_arrays,
    cuda=celerity.CudaKernel(SOURCE, "largest_change", block=(1, 256), items=(8, 1)),
    name="largest_change",
)


def reference(size: int, tolerance: float, check_every: int, max_steps: int) -> tuple[NDArray[Any], int]:
    """Compute the same with plain NumPy."""
    old, new = plate(size), plate(size)
    for step in range(1, max_steps + 1):
        new[1:-1, 1:-1] = np.float32(0.25) * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
        old, new = new, old
        if step % check_every == 0 and np.max(np.abs(new - old)) < tolerance:
            return old, step
    return old, max_steps


def solve(
    queue: celerity.Queue, size: int, tolerance: float, check_every: int, max_steps: int
) -> tuple[celerity.Buffer, celerity.Loop]:
    """Iterate until no cell changes by the tolerance; returns the plate, and the loop, whose value is the change."""
    old = celerity.Buffer.from_array(plate(size), name="old")
    new = celerity.Buffer.from_array(plate(size), name="new")
    change = celerity.Buffer((), np.float32, name="change")

    def find_change() -> Any:
        arguments = old.read(access.one_to_one()), new.read(access.one_to_one()), celerity.reduction(change, "max")
        queue.parallel_for(old.shape, largest_change, *arguments)
        return queue.fence(change)

    loop = queue.until(
        find_change, every=check_every, at_most=max_steps, keep=lambda: old, when=lambda change: change < tolerance
    )
    with frame.progress("steps (at most)", max_steps) as advance:
        for _ in loop:
            queue.parallel_for(
                old.shape,
                relax,
                new.read_write(access.one_to_one()),
                old.read(access.neighborhood(1, 1, shape="axes")),
            )
            old, new = new, old
            advance()
    return old, loop


def main() -> int:
    """Solve as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=256, size_help="cells along each side of the plate")
    parser.add_argument("--tolerance", type=float, default=1e-2, metavar="T", help="stop when no cell changes by more")
    parser.add_argument("--check-every", type=frame.positive_int, default=100, metavar="K", help="steps between checks")
    parser.add_argument("--max-steps", type=frame.positive_int, default=20_000, metavar="S", help="stop here at last")
    arguments = parser.parse_args()
    problem = (arguments.size, arguments.tolerance, arguments.check_every, arguments.max_steps)

    with celerity.Queue() as queue:
        start = time.perf_counter()
        temperature, loop = solve(queue, *problem)
        queue.wait()
        seconds, steps = time.perf_counter() - start, loop.iterations
        frame.print_summary(
            f"jacobi: {arguments.size} x {arguments.size} cells, {celerity.size()} rank(s)",
            {
                "steps": f"{steps}",
                "largest change": f"{float(loop.value):.3g}",
                **frame.timing(queue, seconds, {"cells/s": frame.quantity(arguments.size**2 * steps / seconds, "")}),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(temperature, on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        frame.save_picture(arguments.output, {f"temperature after {steps} steps": result}, colours="inferno")
    if arguments.verify:
        expected, expected_steps = reference(*problem)
        if steps != expected_steps:
            print(f"WRONG: stopped after {steps} steps, plain NumPy after {expected_steps}.")
            return 1
        return 0 if frame.agrees(result, expected) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
