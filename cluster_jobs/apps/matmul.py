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


# The same, tile by tile: each element is fetched once per tile that needs it. As fast as such short code gets; what
# counts is `left[...] @ right[...]` on GPUs as well, which CuPy leaves to cuBLAS.
MULTIPLY_SOURCE = r"""
constexpr int TILE = 32;

__global__ void multiply(celerity::chunk<2> chunk, celerity::accessor<double, 2> product,
                         celerity::accessor<const double, 2> left, celerity::accessor<const double, 2> right,
                         long long inner) {
    __shared__ double a[TILE][TILE], b[TILE][TILE];
    const int y = threadIdx.y, x = threadIdx.x;
    const auto item = chunk.item();
    const bool has_row = item[0] < chunk.max[0], has_column = item[1] < chunk.max[1];
    double sum = 0;
    for (long long k = 0; k < inner; k += TILE) { // all threads of the block, those outside of the chunk included
        a[y][x] = has_row && k + x < inner ? left(item[0], k + x) : 0;
        b[y][x] = has_column && k + y < inner ? right(k + y, item[1]) : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (chunk.contains(item)) product[item] = sum;
}
"""
multiply = celerity.kernel(
    cpu=multiply_arrays, cuda=celerity.CudaKernel(MULTIPLY_SOURCE, "multiply", block=(32, 32)), name="multiply"
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
    steps: int,
    hints: Sequence[celerity.hints.Hint],
    advance: Callable[[], None],
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
    frame.add_benchmark_argument(parser)
    arguments = parser.parse_args()
    size, steps, hints = arguments.size, arguments.steps, frame.hints(arguments)

    with celerity.Queue() as queue:
        matrices = Matrices(size)
        if arguments.benchmark:
            batch = functools.partial(multiply_twice, queue, matrices, steps, hints, lambda: None)
            figures = frame.measure(queue, batch, size=size, steps=steps, num_batches=WARM_UP_AND_TIMED_BATCHES)
            frame.print_figures(figures)
            return 0
        start = time.perf_counter()
        with frame.progress("products", steps) as advance:
            multiply_twice(queue, matrices, steps, hints, advance)
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
    if arguments.verify and not frame.agrees(result, reference(size)):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
