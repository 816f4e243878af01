# SPDX-License-Identifier: MIT
"""The electric potential of charges on a plate: Poisson's equation in 2-D, solved by conjugate gradients.

    python cluster_jobs/apps/conjugate_gradient.py --size 256 --tolerance 1e-8 --verify --output potential.png
    CELERITY_DEVICES=cpu:2 mpiexec -n 2 python cluster_jobs/apps/conjugate_gradient.py

The solver ends when the residual is small. `queue.until` submits the next `--check-every` steps while a residual is on
its way to the program. Sums have the same order on any number of ranks and devices: each row has a sum of its own, and
one device adds up the rows. `--benchmark` compares the loop with one that waits for the residual of each step.
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
    import argparse
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

# Place and radius of charged disks, in fractions of the plate, and their charges.
CHARGES = ((0.30, 0.35, 0.10, 1.0), (0.70, 0.55, 0.15, -0.5), (0.45, 0.80, 0.05, 2.0))
# By how much results may differ from NumPy's, relative to the largest value: fused kernels add up in another order.
ROUNDING = 1e-11
ONE, NEAR = access.one_to_one(), access.neighborhood(1, 1, shape="axes")
# An element per row, in a buffer of one column.
ROW, ALL = access.slice(1), access.all()


def charges(size: int) -> NDArray[np.float64]:
    """Return the right-hand side: the charge of each cell."""
    rows, columns = ((axis + 0.5) / size for axis in np.ogrid[:size, :size])
    result = np.zeros((size, size))
    for row, column, radius, charge in CHARGES:
        result[(rows - row) ** 2 + (columns - column) ** 2 < radius**2] += charge
    return result


def ratio(above: Any, below: Any) -> Any:
    """Divide, or return 0 where an earlier iteration has found the exact solution."""
    is_positive = below > 0
    return np.where(is_positive, above / np.where(is_positive, below, 1), 0)


@celerity.fuse
def begin(  # noqa: PLR0917 - a kernel
    chunk: celerity.Chunk,
    x: celerity.View,
    r: celerity.View,
    p: celerity.View,
    squares: celerity.View,
    b: celerity.View,
) -> None:
    """Start at x = 0, where the residual r is b, and the direction p as well."""
    here = chunk.box
    x[here] = 0
    r[here] = p[here] = b[here]
    squares[...] = (b[here] * b[here]).sum(axis=1, keepdims=True)


@celerity.fuse
def apply(chunk: celerity.Chunk, q: celerity.View, products: celerity.View, p: celerity.View) -> None:
    """Compute q = A p, the difference between 4 p and the neighbours of p, which are 0 outside; and p q, row by row."""
    here = chunk.box
    q[here] = 4 * p[here]
    for shift in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        inside = here & p.shape_box.shift(*shift)  # those with a neighbour there
        q[inside] -= p[inside.shift(-shift[0], -shift[1])]
    products[...] = (p[here] * q[here]).sum(axis=1, keepdims=True)


@celerity.fuse
def descend(  # noqa: PLR0917 - a kernel
    chunk: celerity.Chunk,
    x: celerity.View,
    r: celerity.View,
    squares: celerity.View,
    p: celerity.View,
    q: celerity.View,
    rr: celerity.View,
    pq: celerity.View,
) -> None:
    """Go along p to where the residual is smallest; and r r, row by row."""
    here, length = chunk.box, ratio(rr[()], pq[()])
    x[here] += length * p[here]
    r[here] -= length * q[here]
    squares[...] = (r[here] * r[here]).sum(axis=1, keepdims=True)


@celerity.fuse
def turn(
    chunk: celerity.Chunk, p: celerity.View, r: celerity.View, rr: celerity.View, rr_before: celerity.View
) -> None:
    """Choose the next direction."""
    here = chunk.box
    p[here] = r[here] + ratio(rr[()], rr_before[()]) * p[here]


@celerity.fuse
def add_up(chunk: celerity.Chunk, total: celerity.View, rows: celerity.View) -> None:
    """Add up the sums of rows."""
    total[()] = rows[...].sum()


@celerity.fuse
def renew(chunk: celerity.Chunk, total: celerity.View, before: celerity.View, rows: celerity.View) -> None:
    """Do the same, and keep the old total."""
    before[()] = total[()]
    total[()] = rows[...].sum()


class Solver:
    """Conjugate gradients for A x = b. `x` is the solution so far, and `rr` the square of its residual's length."""

    def __init__(self, queue: celerity.Queue, b: NDArray[np.float64], arguments: argparse.Namespace) -> None:
        self.queue = queue
        self.b = celerity.Buffer.from_array(b, name="b")
        self.x, self.r, self.p, self.q = (celerity.Buffer(b.shape, np.float64, name=name) for name in "xrpq")
        self.rows = celerity.Buffer((len(b), 1), np.float64, name="rows")
        self.rr, self.rr_before, self.pq = (
            celerity.Buffer((), np.float64, name=name) for name in ("rr", "rr_before", "pq")
        )
        self.every = arguments.check_every
        self.iterate = frame.submit_of(queue, arguments, self.submit_iterations, turn=1)

    def begin(self) -> None:
        """Submit the start at x = 0."""
        fields = self.x.write(ONE), self.r.write(ONE), self.p.write(ONE)
        self.queue.parallel_for(self.b.shape, begin, *fields, self.rows.write(ROW), self.b.read(ONE))
        self.queue.parallel_for((), add_up, self.rr.write(), self.rows.read(ALL))

    def submit_iterations(self, steps: int) -> None:
        """Submit some iterations."""
        submit, shape = self.queue.parallel_for, self.b.shape
        for _ in range(steps):
            submit(shape, apply, self.q.write(ONE), self.rows.write(ROW), self.p.read(NEAR))
            submit((), add_up, self.pq.write(), self.rows.read(ALL))
            fields = self.x.read_write(ONE), self.r.read_write(ONE), self.rows.write(ROW), self.p.read(ONE)
            submit(shape, descend, *fields, self.q.read(ONE), self.rr.read(), self.pq.read())
            submit((), renew, self.rr.read_write(), self.rr_before.write(), self.rows.read(ALL))
            submit(shape, turn, self.p.read_write(ONE), self.r.read(ONE), self.rr.read(), self.rr_before.read())

    def solve(self, limit: float, at_most: int, advance: Callable[[], None] = lambda: None) -> celerity.Loop:
        """Start, and iterate until `rr` is below a limit."""
        self.begin()
        return self.go_on(limit, at_most, advance)

    def state(self) -> dict[str, celerity.Buffer[Any]]:
        """Return what a checkpoint needs."""
        return {"x": self.x, "r": self.r, "p": self.p, "rr": self.rr}

    def begin_from(self, restored: Mapping[str, Any] | None) -> None:
        """Take the state of a checkpoint, or submit the start if there is none."""
        if restored is None:
            self.begin()
        else:
            self.x, self.r, self.p, self.rr = (restored[name] for name in self.state())

    def go_on(self, limit: float, at_most: int, advance: Callable[[], None]) -> celerity.Loop:
        """Iterate until `rr` is below a limit."""
        loop = self.queue.until(
            lambda: self.queue.fence(self.rr),
            every=self.every,
            at_most=at_most,
            keep=lambda: self.x,
            when=lambda rr: rr < limit,
        )
        for _ in loop:
            self.iterate(1)
            advance()
        return loop

    def solve_with_fences(self, limit: float, at_most: int) -> int:
        """Do the same with a fence in each iteration; returns the number of iterations."""
        self.begin()
        for i in range(at_most):
            self.iterate(1)
            if self.queue.fence(self.rr).result() < limit:
                return i + 1
        return at_most


def reference(b: NDArray[np.float64], limit: float, check_every: int, at_most: int) -> tuple[NDArray[np.float64], int]:
    """Compute the same with plain NumPy: the same operations in the same order."""
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    rr = (r * r).sum(axis=1).sum()
    for i in range(1, at_most + 1):
        q = 4 * p
        q[1:] -= p[:-1]
        q[:-1] -= p[1:]
        q[:, 1:] -= p[:, :-1]
        q[:, :-1] -= p[:, 1:]
        length = ratio(rr, (p * q).sum(axis=1).sum())
        x += length * p
        r -= length * q
        rr, rr_before = (r * r).sum(axis=1).sum(), rr
        p = r + ratio(rr, rr_before) * p
        if i % check_every == 0 and rr < limit:
            return x, i
    return x, at_most


def benchmark(queue: celerity.Queue, arguments: argparse.Namespace) -> dict[str, Any]:
    """Time loops that do not end early: of `queue.until`, and with a fence in each iteration."""
    size = arguments.size
    solver = Solver(queue, charges(size), arguments)
    ways: dict[str, Callable[[int], Any]] = {
        "until": lambda steps: solver.solve(0.0, steps),
        "fences": lambda steps: solver.solve_with_fences(0.0, steps),
    }
    figures = {}
    results = []
    for name, submit in ways.items():
        figures[name] = frame.measure(queue, submit, size=size, steps=arguments.steps)
        results.append(queue.fence(solver.x).result())
    what = next(key for key in figures["until"] if key.startswith("us_per_step"))
    until, fences = (figures[name][what] for name in ways)
    return {
        **figures["until"],
        "check_every": arguments.check_every,
        f"{what}_with_fences": fences,
        "iterations_per_s": 1e6 / until,
        "iterations_per_s_with_fences": 1e6 / fences,
        "ratio": fences / until,
        "same_iterates": np.array_equal(results[0], results[1]),
    }


def main() -> int:
    """Solve as the command line asks."""
    parser = frame.argument_parser(__doc__ or "", size=256, size_help="cells along each side of the plate")
    parser.add_argument("--tolerance", type=float, default=1e-8, metavar="T", help="stop when the residual is T |b|")
    parser.add_argument("--check-every", type=frame.positive_int, default=10, metavar="K", help="steps between checks")
    parser.add_argument("--steps", type=frame.positive_int, default=10_000, metavar="S", help="stop here at last")
    frame.add_benchmark_arguments(parser)
    add_arguments(parser)
    arguments = parser.parse_args()
    size, steps, check_every = arguments.size, arguments.steps, arguments.check_every
    if arguments.checkpoint and arguments.checkpoint_every % check_every:
        parser.error(f"--checkpoint-every={arguments.checkpoint_every} is no multiple of --check-every={check_every}")
    b = charges(size)
    limit = arguments.tolerance**2 * float((b * b).sum())

    with celerity.Queue() as queue:
        if arguments.benchmark:
            frame.print_figures(benchmark(queue, arguments))
            return 0
        solver = Solver(queue, b, arguments)
        checkpoints = Checkpoints(queue, arguments)
        solver.begin_from(checkpoints.restored)
        loops: list[celerity.Loop] = []

        def submit(count: int) -> bool:
            loops.append(solver.go_on(limit, count, advance))
            return loops[-1].stopped

        start = time.perf_counter()
        with frame.progress("steps (at most)", steps - checkpoints.first) as advance:
            if not checkpoints.run(steps, submit, solver.state):
                return 0
            queue.wait()
        seconds = time.perf_counter() - start
        left = sum(loop.iterations for loop in loops)
        iterations = checkpoints.first + left
        rr = loops[-1].value if loops else float(queue.fence(solver.rr).result())
        frame.print_summary(
            f"conjugate_gradient: {size} x {size} cells, {celerity.size()} rank(s)",
            {
                "steps": f"{iterations}",
                "residual": f"{np.sqrt(rr / (b * b).sum()):.3g} |b|",
                **frame.timing(queue, seconds, {"steps/s": f"{left / seconds:.1f}"}),
                **frame.traffic(queue),
            },
        )
        result = queue.fence(solver.x, on="master").result() if arguments.verify or arguments.output else None

    if result is None:
        return 0
    if arguments.output:
        frame.save_picture(
            arguments.output, {f"potential after {iterations} steps": result}, colours="RdBu", centred=True
        )
    if arguments.verify:
        expected, expected_steps = reference(b, limit, check_every, steps)
        if iterations != expected_steps:
            print(f"WRONG: stopped after {iterations} steps, plain NumPy after {expected_steps}.")
            return 1
        return 0 if frame.agrees(result, expected, rounding=ROUNDING) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
