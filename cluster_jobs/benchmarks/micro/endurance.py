# SPDX-License-Identifier: MIT
"""Memory and speed over a long run: `python -m cluster_jobs.benchmarks.micro.endurance`.

*Steps*, the default: a million steps of a tiny kernel on one rank. *Mixed work*, with `--minutes`: cycles of stencils,
gathers, reductions, host tasks, fences and short-lived buffers, on any number of ranks, each cycle checked. *Restarts*,
with `--restarts`: runtimes that start, do a cycle and end, one after the other in the same processes.

The table has resident memory and speed by tenth of the run. Both should stay flat after the first tenth: horizons bound
what the graphs, the executor and the submission table keep, and a runtime that ends leaves nothing.
"""

from __future__ import annotations

import time
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access, hints
from cluster_jobs.benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 4096  # cells of a buffer in mixed work
MODULUS = 7


@celerity.kernel
def count(chunk: Any, cells: Any) -> None:
    """Add one to every cell."""
    cells.array[...] += 1


@celerity.kernel
def spread(chunk: Any, new: Any, old: Any) -> None:
    """Add the neighbours of each cell to it; outside of the buffer are zeros."""
    box = chunk.box
    total = old[box].copy()
    for distance in (-1, 1):
        near = box.shift(distance) & old.shape_box
        first = near.min[0] - distance - box.min[0]
        total[first : first + near.size] += old[near]
    new[box] = total


@celerity.kernel
def reverse(chunk: Any, new: Any, old: Any) -> None:
    """Take the cells from the other end of the buffer."""
    new[chunk.box] = old.array[::-1]


@celerity.kernel
def wrap(chunk: Any, cells: Any) -> None:
    """Keep the cells small."""
    cells.array[...] %= MODULUS


@celerity.kernel
def add(chunk: Any, sums: Any, cells: Any) -> None:
    """Add the cells of the second buffer, of which all are read."""
    sums.array[...] += cells[chunk.box]


@celerity.kernel
def add_up(chunk: Any, total: Any, cells: Any) -> None:
    """Combine the sum of a chunk into the sum of all."""
    total.combine(cells.array.sum())


def mirrored(chunk: Any, shape: tuple[int, ...]) -> celerity.Box:
    """The cells that lie as far from the end of the buffer as those of the chunk from its beginning."""
    (low,), (high,) = chunk.box.min, chunk.box.max
    return celerity.Box((shape[0] - high,), (shape[0] - low,))


def resident_mib() -> float:
    """Resident memory of this process (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmRSS line")


class MixedWork:
    """Cycles of tasks of all kinds on two buffers that stay, and on some that come and go. Collective."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.cells = [celerity.Buffer.from_array(np.arange(SIZE) % MODULUS, name=f"cells{side}") for side in (0, 1)]
        self.expected = np.arange(SIZE) % MODULUS
        self.seen = 0  # the sum of the latest cycle, by a host task
        self.num_cycles = 0

    def cycle(self) -> None:
        """Submit a cycle, and compare its results with those of NumPy.

        Raises:
            AssertionError: If they differ.
        """
        queue, own = self.queue, access.one_to_one()
        self.num_cycles += 1
        for step in range(8):
            old, new = self.cells
            parts = [hints.oversubscribe(2)] if (self.num_cycles + step) % 3 == 0 else []
            if step == 4:
                queue.parallel_for(SIZE, reverse, new.write(own), old.read(mirrored))
                self.expected = self.expected[::-1].copy()
            else:
                queue.parallel_for(SIZE, spread, new.write(own), old.read(access.neighborhood(1)), hints=parts)
                padded = np.pad(self.expected, 1)
                self.expected = padded[:-2] + padded[1:-1] + padded[2:]
            self.cells = [new, old]
        self.expected %= MODULUS
        new, old = self.cells
        queue.parallel_for(SIZE, wrap, new.read_write(own))

        total = celerity.Buffer((), np.int64, name=f"total{self.num_cycles % 5}")
        queue.parallel_for(SIZE, add_up, celerity.reduction(total, "sum"), new.read(own))
        grown = celerity.Buffer.from_function(
            (SIZE,), np.int64, lambda box: np.arange(box.min[0], box.max[0]), name="grown"
        )
        queue.parallel_for(SIZE, add, grown.read_write(own), new.read(access.all()))
        queue.host_task(self._look, total.read(), on="master")
        part = celerity.Box((self.num_cycles % 1000,), (self.num_cycles % 1000 + 64,))
        futures = [queue.fence(total), queue.fence(grown, part), queue.fence(new)]
        if self.num_cycles % 16 == 0:
            queue.barrier()
        assert futures[0].result() == self.expected.sum()
        assert (futures[1].result() == (np.arange(SIZE) + self.expected)[part.slices]).all()
        assert (futures[2].result() == self.expected).all()

    def _look(self, part: Any, total: Any) -> None:
        self.seen = int(total.array)

    def memory_by_rank(self) -> list[float]:
        """Resident MiB of all ranks."""
        memory = celerity.Buffer(celerity.size(), np.float64, name="memory")

        def tell(part: Any, view: Any) -> None:
            view.array[...] = resident_mib()

        self.queue.host_task(tell, memory.write(access.one_to_one()), on=celerity.size())
        return [float(value) for value in self.queue.fence(memory).result()]

    def elapsed_s(self, begun: float) -> float:
        """Seconds since then by the clock of the master, the same on all ranks."""
        elapsed = celerity.Buffer((), np.float64, name="elapsed")

        def tell(part: Any, view: Any) -> None:
            view.array[...] = time.monotonic() - begun

        self.queue.host_task(tell, elapsed.write(), on="master")
        return float(self.queue.fence(elapsed).result())


def run_steps(steps: int, parts: int) -> Iterator[dict[str, Any]]:
    """Submit the steps; one row per part of the run."""
    with celerity.Queue() as queue:
        cells = celerity.Buffer.from_array(np.zeros(8, np.int64), name="cells")
        for _ in range(parts):
            started = perf_counter()
            for _ in range(steps // parts):
                queue.parallel_for(cells.shape, count, cells.read_write(access.one_to_one()))
            elapsed = perf_counter() - started
            yield {"per_s": steps // parts / elapsed, "resident_mib": [resident_mib()]}
        result = queue.fence(cells).result()
    expected = steps // parts * parts
    if not (result == expected).all():
        raise AssertionError(f"{expected} steps ran, but the cells hold {result!r}")


def run_mixed(minutes: float, parts: int) -> Iterator[dict[str, Any]]:
    """Run cycles for so long; one row per part of the time. Collective."""
    begun = time.monotonic()
    with celerity.Queue() as queue:
        work = MixedWork(queue)
        for part in range(1, parts + 1):
            num_before, started = work.num_cycles, perf_counter()
            while work.num_cycles == num_before or work.elapsed_s(begun) < 60 * minutes * part / parts:
                for _ in range(20):
                    work.cycle()
            rate = (work.num_cycles - num_before) / (perf_counter() - started)
            yield {"per_s": rate, "resident_mib": work.memory_by_rank()}


def run_restarts(restarts: int, parts: int) -> Iterator[dict[str, Any]]:
    """Start and end so many runtimes; one row per part of them. Collective."""
    for _ in range(parts):
        started = perf_counter()
        for _ in range(restarts // parts):
            with celerity.Queue() as queue:
                work = MixedWork(queue)
                work.cycle()
        rate = restarts // parts / (perf_counter() - started)
        with celerity.Queue() as queue:
            yield {"per_s": rate, "resident_mib": MixedWork(queue).memory_by_rank()}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a row after each part, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of a tiny kernel (default 1000000)")
    parser.add_argument("--minutes", type=float, help="of mixed work, instead of steps")
    parser.add_argument("--restarts", type=int, help="of the runtime, instead of steps")
    parser.add_argument("--parts", type=int, default=10, help="rows of the table (default 10)")
    options = parser.parse_args(arguments)
    parts = options.parts
    if options.minutes is not None:
        title, unit, run = f"{options.minutes:g} minutes of mixed work", "cycles/s", run_mixed(options.minutes, parts)
    elif options.restarts is not None:
        title, unit, run = f"{options.restarts} restarts", "restarts/s", run_restarts(options.restarts, parts)
    else:
        title, unit, run = f"{options.steps} steps of a tiny kernel", "steps/s", run_steps(options.steps, parts)
    rows: list[dict[str, Any]] = []
    for row in run:
        rows.append({"part": len(rows) + 1, **row})
        if celerity.is_master():
            report.write(options.output, rows)  # a long run that ends early has told of its parts
    if celerity.is_master():
        columns = [("part", "{part}"), (unit, "{per_s:.0f}"), ("resident by rank, MiB", "{resident_mib}")]
        told = [row | {"resident_mib": " ".join(f"{mib:.1f}" for mib in row["resident_mib"])} for row in rows]
        report.show_rows(title, columns, told)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
