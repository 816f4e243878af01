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


@celerity.fuse
def relax(chunk: celerity.Chunk, new: celerity.View, old: celerity.View) -> None:
    """Replace every inner cell by the mean of its four neighbours."""
    inner = chunk.box & old.shape_box.shrink(1, 1)
    new[inner] = np.float32(0.25) * (
        old[inner.shift(-1, 0)] + old[inner.shift(1, 0)] + old[inner.shift(0, -1)] + old[inner.shift(0, 1)]
    )


@celerity.fuse
def largest_change(chunk: celerity.Chunk, new: celerity.View, old: celerity.View, change: celerity.Reducer) -> None:
    """Reduce the largest change of any cell in the last step."""
    change.combine(np.max(np.abs(new[chunk.box] - old[chunk.box])))


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
