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


# The same: each block of 16 x 16 threads computes a tile of the product, each thread some rows and columns of it. Step
# by step, the block keeps DEPTH columns of `left` and rows of `right` in shared memory, while the next ones travel. On
# GPUs as well, `left[...] @ right[...]` is faster: CuPy leaves it to cuBLAS.
MULTIPLY_SOURCE = r"""
constexpr int DEPTH = 8, SIDE = 16, THREADS = SIDE * SIDE;

__global__ void __launch_bounds__(THREADS, 2)
multiply(celerity::chunk<2> chunk, accessor<double, 2> product, accessor<const double, 2> left,
         accessor<const double, 2> right, long long inner) {
    constexpr int ROWS = chunk.items(0), COLUMNS = chunk.items(1), HEIGHT = SIDE * ROWS, WIDTH = SIDE * COLUMNS;
    constexpr int FROM_LEFT = HEIGHT * DEPTH / THREADS, FROM_RIGHT = WIDTH * DEPTH / THREADS; // of each thread
    __shared__ alignas(16) double a[DEPTH][HEIGHT + 2], b[DEPTH][WIDTH]; // with 2 more there are fewer conflicts
    const int thread = threadIdx.y * SIDE + threadIdx.x;
    const auto [y, x] = chunk.item().index;
    const long long top = y - (int)threadIdx.y * ROWS, first = x - (int)threadIdx.x * COLUMNS;
    double next_a[FROM_LEFT], next_b[FROM_RIGHT], sum[ROWS][COLUMNS] = {};
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
#pragma unroll
        for (int i = 0; i < FROM_LEFT; ++i) {
            const int place = thread + i * THREADS;
            a[place % DEPTH][place / DEPTH] = next_a[i];
        }
#pragma unroll
        for (int i = 0; i < FROM_RIGHT; ++i) {
            const int place = thread + i * THREADS;
            b[place / WIDTH][place % WIDTH] = next_b[i];
        }
        __syncthreads();
        if (k + DEPTH < inner) fetch(k + DEPTH);
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            double of_a[ROWS], of_b[COLUMNS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) of_a[r] = a[i][threadIdx.y * ROWS + r];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) of_b[c] = b[i][threadIdx.x * COLUMNS + c];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) sum[r][c] += of_a[r] * of_b[c];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            if (y + r < chunk.max[0] && x + c < chunk.max[1]) product(y + r, x + c) = sum[r][c];
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
            frame.submit_of(queue, arguments, functools.partial(multiply_twice, queue, matrices, hints, advance))(steps)
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
