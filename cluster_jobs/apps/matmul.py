# SPDX-License-Identifier: MIT
"""Two dense matrix products, D = A (B C).

    python cluster_jobs/apps/matmul.py --size 1024 --verify
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/matmul.py --split-2d

A chunk of the result needs full rows of the left factor and full columns of the right one. With the default split into
rows, the second product makes every device fetch the whole of B C, each part from the one that computed it.
`--benchmark` measures the steady state, in which A, B and C stay where they are; the scaling benchmark uses it.
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

WARM_UP_AND_TIMED_BATCHES = (1, 5)


def entries(box: celerity.Box, seed: int) -> NDArray[np.float64]:
    """Return small whole numbers: every product and sum is exact, in whatever order BLAS adds."""
    rows = np.arange(box.min[0], box.max[0])[:, np.newaxis]
    columns = np.arange(box.min[1], box.max[1])[np.newaxis, :]
    return ((rows * 31 + columns * 17 + rows * columns * 7 + seed) % 15 - 7).astype(np.float64)


def multiply_arrays(
    chunk: celerity.Chunk, product: celerity.View, left: celerity.View, right: celerity.View, inner: int
) -> None:
    """Compute one chunk of a matrix product from full rows and full columns, which are `inner` long."""
    product[chunk.box] = left[...] @ right[...]


# The same: each block computes a tile of the product, and each warp a part of the tile, 8 x 8 elements at a time, on
# tensor cores where the GPU has them for doubles. Step by step, the block keeps DEPTH columns of `left` and rows of
# `right` in shared memory, while the next ones travel. `left[...] @ right[...]` is faster on GPUs as well: CuPy leaves
# it to cuBLAS.
MULTIPLY_SOURCE = r"""
constexpr int DEPTH = 8, SIDE = 16, THREADS = SIDE * SIDE;
constexpr int WARP_ROWS = 4, WARP_COLUMNS = THREADS / 32 / WARP_ROWS; // the warps of a block

// Adds the product of 8 x 4 elements and 4 x 8 to 8 x 8. All lanes of a warp have a part: `a` at (lane / 4, lane % 4),
// `b` at (lane % 4, lane / 4), and `sum` at (lane / 4, lane % 4 * 2) and next to it.
__device__ __forceinline__ void multiply_add(double (&sum)[2], const double a, const double b, const int lane) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[0]), "+d"(sum[1])
        : "d"(a), "d"(b));
#else
    for (int k = 0; k < 4; ++k) {
        const double of_a = __shfl_sync(0xffffffff, a, lane / 4 * 4 + k);
        for (int i = 0; i < 2; ++i) sum[i] += of_a * __shfl_sync(0xffffffff, b, (lane % 4 * 2 + i) * 4 + k);
    }
#endif
}

__global__ void __launch_bounds__(THREADS, 2)
multiply(celerity::chunk<2> chunk, accessor<double, 2> product, accessor<const double, 2> left,
         accessor<const double, 2> right, long long inner) {
    constexpr int HEIGHT = SIDE * chunk.items(0), WIDTH = SIDE * chunk.items(1);
    constexpr int TILES_DOWN = HEIGHT / WARP_ROWS / 8, TILES_ACROSS = WIDTH / WARP_COLUMNS / 8; // of a warp
    constexpr int FROM_LEFT = HEIGHT * DEPTH / THREADS, FROM_RIGHT = WIDTH * DEPTH / THREADS; // of each thread
    __shared__ double a[2][DEPTH][HEIGHT + 4], b[2][DEPTH][WIDTH + 4]; // with 4 more there are fewer conflicts
    const int thread = threadIdx.y * SIDE + threadIdx.x, lane = thread % 32, warp = thread / 32;
    const auto [y, x] = chunk.item().index;
    const long long top = y - (int)threadIdx.y * chunk.items(0), first = x - (int)threadIdx.x * chunk.items(1);
    const int down = warp % WARP_ROWS * TILES_DOWN * 8, across = warp / WARP_ROWS * TILES_ACROSS * 8;
    double next_a[FROM_LEFT], next_b[FROM_RIGHT], sum[TILES_DOWN][TILES_ACROSS][2] = {};
    const auto fetch = [&](const long long k) {
#pragma unroll
        for (int i = 0; i < FROM_LEFT; ++i) {
            const int place = thread + i * THREADS;
            const long long row = top + place / DEPTH, column = k + place % DEPTH;
            next_a[i] = row < chunk.max[0] && column < inner ? left(row, column) : 0;
        }
#pragma unroll
        for (int i = 0; i < FROM_RIGHT; ++i) {
            const int place = thread + i * THREADS;
            const long long row = k + place / WIDTH, column = first + place % WIDTH;
            next_b[i] = row < inner && column < chunk.max[1] ? right(row, column) : 0;
        }
    };
    fetch(0);
    for (long long k = 0; k < inner; k += DEPTH) { // all threads of the block, those outside of the chunk included
        const int now = k / DEPTH % 2; // the other half of shared memory may still be read
#pragma unroll
        for (int i = 0; i < FROM_LEFT; ++i) {
            const int place = thread + i * THREADS;
            a[now][place % DEPTH][place / DEPTH] = next_a[i];
        }
#pragma unroll
        for (int i = 0; i < FROM_RIGHT; ++i) {
            const int place = thread + i * THREADS;
            b[now][place / WIDTH][place % WIDTH] = next_b[i];
        }
        __syncthreads();
        if (k + DEPTH < inner) fetch(k + DEPTH);
#pragma unroll
        for (int i = lane % 4; i < DEPTH; i += 4) {
            double of_a[TILES_DOWN], of_b[TILES_ACROSS];
#pragma unroll
            for (int r = 0; r < TILES_DOWN; ++r) of_a[r] = a[now][i][down + 8 * r + lane / 4];
#pragma unroll
            for (int c = 0; c < TILES_ACROSS; ++c) of_b[c] = b[now][i][across + 8 * c + lane / 4];
#pragma unroll
            for (int r = 0; r < TILES_DOWN; ++r) {
#pragma unroll
                for (int c = 0; c < TILES_ACROSS; ++c) multiply_add(sum[r][c], of_a[r], of_b[c], lane);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < TILES_DOWN; ++r) {
#pragma unroll
        for (int c = 0; c < TILES_ACROSS; ++c) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const long long row = top + down + 8 * r + lane / 4, column = first + across + 8 * c + lane % 4 * 2 + i;
                if (row < chunk.max[0] && column < chunk.max[1]) product(row, column) = sum[r][c][i];
            }
        }
    }
}
"""
multiply = celerity.kernel(
    cpu=multiply_arrays,
    cuda=celerity.CudaKernel(MULTIPLY_SOURCE, "multiply", block=(16, 16), items=(8, 4)),
    name="multiply",
)


def reference(size: int) -> NDArray[Any]:
    """Compute the same with plain NumPy."""
    whole = celerity.Box((0, 0), (size, size))
    a, b, c = (entries(whole, seed) for seed in (1, 2, 3))
    return a @ (b @ c)


class Matrices:
    """The three factors and the two products, `size` rows and columns each."""

    def __init__(self, size: int) -> None:
        def factor(name: str, seed: int) -> celerity.Buffer:
            return celerity.Buffer.from_function((size, size), np.float64, lambda box: entries(box, seed), name=name)

        self.size = size
        self.a, self.b, self.c = factor("A", 1), factor("B", 2), factor("C", 3)
        self.bc = celerity.Buffer((size, size), np.float64, name="BC")
        self.d = celerity.Buffer((size, size), np.float64, name="D")


def multiply_twice(
    queue: celerity.Queue,
    matrices: Matrices,
    hints: Sequence[celerity.hints.Hint],
    advance: Callable[[], None],
    steps: int,
) -> None:
    """Submit both products, `steps` times."""
    m = matrices
    for _ in range(steps):
        for product, left, right in ((m.bc, m.b, m.c), (m.d, m.a, m.bc)):
            queue.parallel_for(
                product.shape,
                multiply,
                product.write(access.one_to_one()),
                left.read(access.slice(1)),
                right.read(access.slice(0)),
                m.size,
                hints=hints,
            )
        advance()


def main() -> int:
    """Multiply as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=1024, size_help="rows and columns of each matrix")
    frame.add_hint_arguments(parser)
    parser.add_argument(
        "--steps", type=frame.positive_int, default=1, metavar="S", help="how often both products are computed"
    )
    frame.add_benchmark_arguments(parser)
    arguments = parser.parse_args()
    size, steps, hints = arguments.size, arguments.steps, frame.hints(arguments)

    with celerity.Queue() as queue:
        matrices = Matrices(size)
        if arguments.benchmark:
            submit = frame.submit_of(
                queue, arguments, functools.partial(multiply_twice, queue, matrices, hints, lambda: None)
            )
            figures = frame.measure(queue, submit, size=size, steps=steps, num_batches=WARM_UP_AND_TIMED_BATCHES)
            frame.print_figures(figures)
            return 0
        start = time.perf_counter()
        with frame.progress("products", steps) as advance:
            submit = functools.partial(multiply_twice, queue, matrices, hints, advance)
            frame.submit_of(queue, arguments, submit, turn=1, results=[matrices.bc, matrices.d])(steps)
            queue.wait()
        seconds = time.perf_counter() - start
        frame.print_summary(
            f"matmul: two products of {size} x {size}, {celerity.size()} rank(s)",
            {
                **frame.timing(
                    queue, seconds, {"rate": frame.quantity(4 * float(size) ** 3 * steps / seconds, "FLOP/s")}
                ),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(matrices.d, on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        frame.save_picture(arguments.output, {"D = A (B C)": result}, colours="RdBu", centred=True)
    return int(arguments.verify and not frame.agrees(result, reference(size)))


if __name__ == "__main__":
    sys.exit(main())
