# SPDX-License-Identifier: MIT
"""Fused kernels beside Python kernels and others: `python -m cluster_jobs.benchmarks.micro.fused`.

Each program is a function on views, in one run as a fused kernel and as a Python kernel. On GPUs, *by hand* is the
kernel in CUDA C++ of `wave_sim`, in the same queue. JAX compiles the same text for arrays of its own. The limit is the
time in which NumPy or CuPy copies as many bytes as a step reads and writes.

The program fails if a bit of a fused result differs from that of the Python kernel.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.scaling.peers.applications import wave_sim

BATCHES = 5


def wave(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    """One step of the README's wave."""
    inner = chunk.box & u.shape_box.shrink(1, 1)
    around = u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)]
    u_next[inner] = 2 * u[inner] - u_next[inner] + c2 * (around - 4 * u[inner])


def padded_wave(chunk: Any, u_next: Any, u: Any, c2: Any) -> None:
    """The same with zeros around the pond."""
    p, here = u.padded(chunk.box, 1), u[chunk.box]
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    u_next[chunk.box] = 2 * here - u_next[chunk.box] + c2 * (around - 4 * here)


def gray_scott(  # noqa: PLR0917 - those of parallel_for
    chunk: Any, a_next: Any, b_next: Any, a: Any, b: Any, feed: Any, kill: Any
) -> None:
    """Two substances that react and spread."""
    inner = chunk.box & a.shape_box.shrink(1, 1)

    def spread(x: Any) -> Any:
        return (
            x[inner.shift(-1, 0)] + x[inner.shift(1, 0)] + x[inner.shift(0, -1)] + x[inner.shift(0, 1)] - 4 * x[inner]
        )

    reaction = a[inner] * b[inner] * b[inner]
    a_next[inner] = a[inner] + 0.16 * spread(a) - reaction + feed * (1 - a[inner])
    b_next[inner] = b[inner] + 0.08 * spread(b) + reaction - (feed + kill) * b[inner]


def mean_of_27(chunk: Any, v: Any, u: Any, weight: Any) -> None:
    """A cell and its neighbours in three dimensions."""
    inner = chunk.box & u.shape_box.shrink(1, 1, 1)
    first, *others = itertools.product((-1, 0, 1), repeat=3)
    total = u[inner.shift(*first)]
    for shift in others:
        total = total + u[inner.shift(*shift)]
    v[inner] = weight * total


@dataclass(frozen=True)
class Program:
    """A function whose first arguments are written, and as many others read."""

    function: Callable[..., None]
    num_pairs: int  # of buffers, which take turns
    ndim: int
    scalars: tuple[Any, ...]
    accesses_per_cell: int  # to memory, at least

    def shape(self, size: int) -> tuple[int, ...]:
        """About as many cells in each program."""
        return (size, size) if self.ndim == 2 else (round((size * size) ** (1 / 3)),) * 3


PROGRAMS = {
    "wave": Program(wave, 1, 2, (np.float32(0.25),), 3),
    "padded wave": Program(padded_wave, 1, 2, (np.float32(0.25),), 3),
    "Gray-Scott": Program(gray_scott, 2, 2, (np.float32(0.035), np.float32(0.065)), 4),
    "27 points": Program(mean_of_27, 1, 3, (np.float32(1 / 27),), 2),
}


def measure(queue: celerity.Queue, program: Program, kernel: Any, size: int, steps: int) -> dict[str, Any]:
    """Times per step in a loop and replayed, that of the first step, and the results."""
    shape, draws = program.shape(size), np.random.default_rng(0)
    contents = [draws.random(shape, dtype=np.float32) for _ in range(2 * program.num_pairs)]
    state = [celerity.Buffer.from_array(content, name=f"b{place}") for place, content in enumerate(contents)]

    def step(written: Sequence[celerity.Buffer], read: Sequence[celerity.Buffer]) -> None:
        targets = [buffer.read_write(access.one_to_one()) for buffer in written]
        sources = [buffer.read(access.neighborhood(*[1] * program.ndim, shape="box")) for buffer in read]
        queue.parallel_for(shape, kernel, *targets, *sources, *program.scalars)

    def two_steps() -> None:
        first, second = state[: program.num_pairs], state[program.num_pairs :]
        step(first, second)
        step(second, first)

    begin = time.perf_counter()
    two_steps()
    queue.wait()
    first_ms = 1e3 * (time.perf_counter() - begin)
    results = [queue.fence(buffer).result().tobytes() for buffer in state]
    recorded = queue.record(two_steps)

    def in_a_loop() -> None:
        for _ in range(steps // 2):
            two_steps()

    figures = {"first_ms": first_ms, "results": results}
    for name, run in (("plain_us", in_a_loop), ("replayed_us", lambda: queue.replay(recorded, steps // 2))):
        times = []
        for _ in range(BATCHES):
            begin = time.perf_counter()
            run()
            queue.wait()
            times.append(1e6 * (time.perf_counter() - begin) / (steps // 2 * 2))
        figures[name] = statistics.median(times)
    return figures


def copy_us(queue: celerity.Queue, num_bytes: int) -> tuple[float, bool]:
    """The time in which the first device reads and writes so many bytes, and whether it is a GPU."""
    found: list[float] = []
    is_gpu = False

    def copy(chunk: Any, buffer: Any) -> None:
        nonlocal is_gpu
        xp = chunk.xp
        is_gpu = hasattr(xp, "cuda")
        source, target = (xp.zeros(max(num_bytes // 2, 1), np.uint8) for _ in range(2))
        wait = xp.cuda.get_current_stream().synchronize if is_gpu else lambda: None
        for _ in range(BATCHES):
            wait()
            begin = time.perf_counter()
            for _ in range(10):
                xp.copyto(target, source)
            wait()
            found.append(1e5 * (time.perf_counter() - begin))

    queue.parallel_for(1, celerity.kernel(copy), celerity.Buffer(1, np.int8).write(access.one_to_one()))
    queue.wait()
    return statistics.median(found), is_gpu


def jax_us(size: int, steps: int) -> float | None:
    """The wave by JAX, on its default device; None without JAX."""
    try:
        import jax
    except ImportError:
        return None
    now, numpy = slice(1, -1), jax.numpy

    def step(u_next: Any, u: Any) -> Any:
        around = u[:-2, now] + u[2:, now] + u[now, :-2] + u[now, 2:]
        return u_next.at[now, now].set(
            2 * u[now, now] - u_next[now, now] + np.float32(0.25) * (around - 4 * u[now, now])
        )

    def many(u_next: Any, u: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, state: (state[1], step(*state)), (u_next, u))

    compiled, times = jax.jit(many, donate_argnums=(0, 1)), []
    state = numpy.zeros((size, size), numpy.float32), numpy.ones((size, size), numpy.float32)
    for _ in range(BATCHES + 1):
        begin = time.perf_counter()
        state = jax.block_until_ready(compiled(*state))
        times.append(1e6 * (time.perf_counter() - begin) / steps)
    return statistics.median(times[1:])


def compare(queue: celerity.Queue, name: str, size: int, steps: int, *, has_jax: bool) -> dict[str, Any]:
    """A row of the table."""
    program = PROGRAMS[name]
    fused = measure(queue, program, celerity.fuse(program.function), size, steps)
    python = measure(queue, program, celerity.kernel(program.function), size, max(steps // 10, 2))
    row = {"program": name, "size": size, "differs": fused.pop("results") != python.pop("results"), **fused}
    row |= {f"python_{key}": figure for key, figure in python.items()}
    cells = np.prod(program.shape(size), dtype=int)
    row["limit_us"], is_gpu = copy_us(queue, int(cells) * program.accesses_per_cell * 4)
    if name == "wave" and is_gpu:
        by_hand = measure(queue, program, wave_sim.wave_step(wave_sim.best_rows(size * size)), size, steps)
        row |= {f"by_hand_{key}": by_hand[key] for key in ("plain_us", "replayed_us")}
    if name == "wave" and has_jax:
        row["jax_us"] = jax_us(size, max(steps // 10, 2))
    return row


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--sizes", type=report.integers, default=[2048, 4096], help="cells along a side of the wave")
    parser.add_argument("--steps", type=int, default=400, help="per batch (default 400)")
    parser.add_argument("--programs", type=report.names_among(list(PROGRAMS)), default=list(PROGRAMS))
    parser.add_argument("--jax", action="store_true", help="JAX as well, which takes memory of its own")
    options = parser.parse_args(arguments)
    rows = []
    with celerity.Queue() as queue:
        for name, size in itertools.product(options.programs, options.sizes):
            rows.append(compare(queue, name, size, options.steps, has_jax=options.jax))
    columns = [
        "program",
        "size",
        "fused",
        "replayed",
        "first, ms",
        "Python kernel",
        "by hand, replayed",
        "JAX",
        "limit",
    ]
    keys = ("plain_us", "replayed_us", "first_ms", "python_plain_us", "by_hand_replayed_us", "jax_us", "limit_us")
    lines = [[row["program"], str(row["size"]), *(report.number(row.get(key), 1) for key in keys)] for row in rows]
    report.show("Fused kernels, µs per step", columns, lines)
    report.write(options.output, rows)
    return report.status_of(
        f"{row['program']} of size {row['size']}: the fused kernel and the Python kernel differ."
        for row in rows
        if row["differs"]
    )


if __name__ == "__main__":
    raise SystemExit(main())
