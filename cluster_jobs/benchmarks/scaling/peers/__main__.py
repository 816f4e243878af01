# SPDX-License-Identifier: MIT
"""Applications by hand: their own kernels, launched with CuPy.

    python -m cluster_jobs.benchmarks.scaling.peers wave_sim process --gpus 4
    mpirun -n 4 python -m cluster_jobs.benchmarks.scaling.peers wave_sim rank

In layout `process`, one process drives all GPUs with streams, events and peer copies. In layout `rank`, each GPU has a
rank of its own, and data travels through NCCL. Kernels are compiled as the runtime compiles them. The modules `slabs`,
`gathers` and `matmul` say how each program does it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster_jobs.benchmarks import cuda_driver, report
from cluster_jobs.benchmarks.scaling.peers import bodies, gathers, light, matmul, ranks, slabs, stencils
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, Worker
from cluster_jobs.files import write_json

if TYPE_CHECKING:
    from mpi4py import MPI


class Peer(NamedTuple):
    """An application by hand: its problem, and its workers in both layouts."""

    problem: type[Problem]
    gpu: Callable[[Any, int, int], Worker]
    rank: Callable[[Any, MPI.Comm], Worker]


PEERS = {
    "convolution": Peer(stencils.Blur, slabs.Gpu, slabs.Rank),
    "matmul": Peer(matmul.Products, matmul.Gpu, matmul.Rank),
    "nbody": Peer(bodies.Bodies, gathers.Gpu, gathers.Rank),
    "rsim": Peer(light.Light, light.Gpu, light.Rank),
    "wave_sim": Peer(stencils.Wave, slabs.Gpu, slabs.Rank),
}
PROGRAMS = {
    "process": "one process, CuPy with peer copies and events",
    "rank": "one rank per GPU, CuPy + mpi4py + NCCL",
}


def chosen(variants: dict[str, Step], overlap: str) -> dict[str, Step]:
    """The variants that `--overlap` leaves; a program with a single one has that."""
    if overlap == "auto" or len(variants) == 1:
        return variants
    return {name: step for name, step in variants.items() if (name == "plain") == (overlap == "off")}


class Run:
    """The workers of this process, and the other ranks if there are any."""

    def __init__(self, peer: Peer, problem: Problem) -> None:
        gpus = problem.options.gpus
        self.comm: MPI.Comm | None = None
        if problem.options.layout == "rank":
            self.comm = ranks.world(gpus)
            self.gpus = self.comm.size
            self.workers = [peer.rank(problem, self.comm)]
        else:
            self.gpus = gpus or cuda_driver.count_devices()
            if not self.gpus:
                raise SystemExit("There is no GPU here.")
            self.workers = [peer.gpu(problem, device, self.gpus) for device in range(self.gpus)]
        for worker in self.workers:
            worker.connect(self.workers)
        self.variants = chosen(type(self.workers[0]).variants(self.workers), problem.options.overlap)

    def finish(self) -> None:
        """Wait for all GPUs of this process, and for the other ranks."""
        for worker in self.workers:
            worker.synchronize()
        if self.comm is not None:
            self.comm.barrier()

    def agree(self, value: Any) -> Any:
        """The first rank's argument on all ranks."""
        return value if self.comm is None else self.comm.bcast(value)

    def slowest(self, value: float) -> float:
        """The greatest argument of all ranks."""
        if self.comm is None:
            return value
        from mpi4py import MPI

        return float(self.comm.allreduce(value, MPI.MAX))

    def results(self) -> list[Any] | None:
        """The results of all GPUs; None on ranks other than the first."""
        own = [worker.share.result() for worker in self.workers]
        if self.comm is None:
            return own
        gathered = self.comm.gather(own)
        return None if gathered is None else [result for results in gathered for result in results]


def check(problem: Problem, run: Run) -> int:
    """Run all variants one after the other and compare their results with NumPy; the exit status."""
    status, steps = 0, 0
    for name, step in run.variants.items():
        if problem.starts_over:
            steps = 0
            for worker in run.workers:
                worker.share.reset()
            run.finish()
        for number in range(problem.checked_steps):
            step(number % 2)
        steps += problem.checked_steps
        run.finish()
        results = run.results()
        if results is not None:
            print(name, end=": ")
            status |= problem.verdict(results, steps)
    return int(run.agree(status))


def time_variants(run: Run, options: argparse.Namespace, *, are_long: bool) -> tuple[str, list[float]]:
    """Time batches of the fastest variant.

    Args:
        run: The variants, and who computes them.
        options: `steps`, `batches` and `seconds` of the command line.
        are_long: One step warms up, and one batch chooses; batches may have an odd number of steps.

    Returns:
        The name of the variant, and microseconds per step of each batch.
    """
    steps = options.steps if are_long else options.steps + options.steps % 2
    warm_up, num_trials, steps_of_trial = (1, 1, steps) if are_long else (20, 2, max(20, steps // 4 * 2))

    def batch(step: Step, count: int) -> float:
        parities = [number % 2 for number in range(count)]
        run.finish()
        begun = time.perf_counter()
        for parity in parities:
            step(parity)
        run.finish()
        return run.slowest((time.perf_counter() - begun) * 1e6 / count)

    trials = {}
    for name, step in run.variants.items():
        batch(step, warm_up)
        trials[name] = min(batch(step, steps_of_trial) for _ in range(num_trials))
    best = run.agree(min(trials, key=lambda name: trials[name]))
    deadline = time.perf_counter() + options.seconds
    times: list[float] = []
    while run.agree(not times or (len(times) < options.batches and time.perf_counter() < deadline)):
        times.append(batch(run.variants[best], steps))
    return best, times


def show(problem: Problem, gpus: int, variant: str, times: Sequence[float]) -> None:
    """Print the table, and write the JSON file if there is to be one.

    Args:
        problem: The solved problem.
        gpus: Their number.
        variant: The one that was timed.
        times: Microseconds per step of each batch.
    """
    options = problem.options
    program, median = PROGRAMS[options.layout], statistics.median(times)
    columns = ("GPUs", "variant", "µs per step", "min to max", "batches")
    spread = f"{min(times):.1f} to {max(times):.1f}"
    line = (str(gpus), variant, f"{median:.1f}", spread, str(len(times)))
    report.show(f"{options.app} {options.size}, {program}", columns, [line], num_names=0)
    if options.output:
        figures = {
            "program": program,
            "size": options.size,
            **problem.extents(),
            "gpus": gpus,
            "variant": variant,
            "us_per_step": median,
            "batches_us_per_step": times,
            "python": sys.version,
        }
        write_json(options.output, figures)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m cluster_jobs.benchmarks.scaling.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    apps = parser.add_subparsers(dest="app", required=True, metavar="{" + ",".join(PEERS) + "}")
    for name, peer in PEERS.items():
        app = apps.add_parser(name)
        app.add_argument("layout", choices=tuple(PROGRAMS))
        app.add_argument("--size", type=int, default=peer.problem.default_size, help=peer.problem.size_help)
        app.add_argument(
            "--steps", type=int, default=peer.problem.default_steps, help="steps per batch, often rounded up to even"
        )
        app.add_argument("--gpus", type=int, help="process: all if left out; rank: stop if there are not so many ranks")
        app.add_argument("--batches", type=int, default=7, help="batches, of which the median counts")
        app.add_argument("--seconds", type=float, default=10, help="no further batch begins after so long")
        app.add_argument(
            "--overlap",
            choices=("auto", "on", "off"),
            default="auto",
            help="transfers behind kernels, where there is such a variant: auto takes the fastest",
        )
        app.add_argument("--check", action="store_true", help="compare with NumPy instead; for small sizes")
        app.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or check; the first rank prints."""
    options = parsed(arguments)
    peer = PEERS[options.app]
    problem = peer.problem(options)
    run = Run(peer, problem)
    if options.check:
        return check(problem, run)
    best, times = time_variants(run, options, are_long=problem.has_long_steps)
    if run.comm is None or run.comm.rank == 0:
        show(problem, run.gpus, best, times)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
