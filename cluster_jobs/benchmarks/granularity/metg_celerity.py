# SPDX-License-Identifier: MIT
"""The patterns of `task_patterns` by celerity_py: a kernel per step over the points, a chunk for each point."""

from __future__ import annotations

import argparse
import functools
import os
import time
from typing import Any

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks.granularity import task_patterns
from cluster_jobs.benchmarks.granularity.task_patterns import BLOCK, CHECK_STEPS, GRID, PATTERNS, SOURCE

_SOURCE = (
    SOURCE
    + r"""
__global__ void task(celerity::chunk<1> chunk, celerity::accessor<unsigned, 1> next,
                     celerity::accessor<const unsigned, 1> previous, int pattern, int bit, unsigned phase,
                     int iterations) {
    for (long long point = chunk.min[0]; point < chunk.max[0]; ++point) {
        if (is_first()) {
            next.data[point] = value_of(previous.data, point, chunk.global_max[0], pattern, bit, phase);
        }
        compute(iterations, next.data + point);
    }
}

__global__ void task_alone(celerity::chunk<1> chunk, celerity::accessor<unsigned, 1> next, unsigned phase,
                           int iterations) {
    for (long long point = chunk.min[0]; point < chunk.max[0]; ++point) {
        if (is_first()) next.data[point] = value_of(nullptr, point, chunk.global_max[0], 0, 0, phase);
        compute(iterations, next.data + point);
    }
}
"""
)


def _task_on_arrays(  # noqa: PLR0917 - a kernel has as many arguments as it has data
    chunk: celerity.Chunk,
    next_values: celerity.View,
    previous: celerity.View,
    pattern: int,
    bit: int,
    phase: int,
    iterations: int,
) -> None:
    width, values, offset = chunk.global_shape[0], previous.array, previous.box.min[0]
    for point in range(chunk.box.min[0], chunk.box.max[0]):
        read = task_patterns.dependencies(PATTERNS[pattern], bit, point, width)
        next_values[point] = task_patterns.value_of(point, phase, ((j, values[j - offset]) for j in read))
        task_patterns.compute(iterations)


def _task_alone_on_arrays(chunk: celerity.Chunk, next_values: celerity.View, phase: int, iterations: int) -> None:
    for point in range(chunk.box.min[0], chunk.box.max[0]):
        next_values[point] = task_patterns.value_of(point, phase, ())
        task_patterns.compute(iterations)


def _kernel(name: str, cpu: Any) -> Any:
    return celerity.kernel(cpu=cpu, cuda=celerity.CudaKernel(_SOURCE, name, block=(BLOCK,), grid=(GRID,)), name=name)


task, task_alone = _kernel("task", _task_on_arrays), _kernel("task_alone", _task_alone_on_arrays)


def _butterfly(bit: int, chunk: celerity.MapperChunk) -> celerity.Region:
    """Map points to themselves and their partners."""
    partners = (point ^ (1 << bit) for point in range(chunk.box.min[0], chunk.box.max[0]))
    return celerity.Region([chunk.box, *(celerity.Box((j,), (j + 1,)) for j in partners if j < chunk.global_shape[0])])


def _parents(chunk: celerity.MapperChunk) -> celerity.Box:
    """Map points to their parents in the tree."""
    return celerity.Box((chunk.box.min[0] // 2,), ((chunk.box.max[0] - 1) // 2 + 1,))


def mappers(pattern: str, width: int) -> list[Any]:
    """The range mapper of each step of a round; none if the pattern reads nothing."""
    if pattern == "fft":
        rounds = range(task_patterns.rounds_of(pattern, width))
        return [access.pure(functools.partial(_butterfly, bit), key=("butterfly", bit)) for bit in rounds]
    named = {"stencil_1d": access.neighborhood(1), "tree": access.pure(_parents), "all_to_all": access.all()}
    return [named[pattern]] if pattern in named else []


class Program:
    """One pattern on all devices, `tasks_per_device` points on each."""

    def __init__(self, queue: celerity.Queue, pattern: str, width: int, tasks_per_device: int) -> None:
        self.queue, self.pattern, self.width = queue, pattern, width
        start = task_patterns.initial(width)
        self.states = [celerity.Buffer.from_array(start, name=name) for name in ("previous", "next")]
        self.own = access.one_to_one()
        self.mappers = mappers(pattern, width)
        self.turn = task_patterns.turn_of(pattern, width)
        self.hints = (celerity.hints.oversubscribe(tasks_per_device),)

    def submit(self, iterations: int, steps: int) -> None:
        """Submit some steps, from the beginning of a turn."""
        number, rounds = PATTERNS.index(self.pattern), len(self.mappers)
        for step in range(steps):
            previous, target = self.states
            self.states.reverse()
            phase = step % self.turn
            submit = functools.partial(self.queue.parallel_for, self.width, hints=self.hints)
            if not rounds:
                submit(task_alone, target.write(self.own), phase, iterations)
                continue
            bit = step % rounds
            reads = previous.read(self.mappers[bit])
            submit(task, target.write(self.own), reads, number, bit, phase, iterations)

    def check(self) -> int:
        """Compare a run with NumPy; the checksum."""
        self.submit(1, CHECK_STEPS)
        return task_patterns.require_reference(self.queue.fence(self.states[0]).result(), self.pattern, CHECK_STEPS)

    def prepare(self, iterations: int) -> None:
        """Do what precedes the steady state; for a plain loop nothing."""

    def time(self, iterations: int, steps: int) -> float:
        """Seconds for some steps, on rank 0."""
        self.prepare(iterations)
        self.queue.barrier()
        begun = time.perf_counter()
        self.submit(iterations, steps)
        self.queue.barrier()
        return self._of_master(time.perf_counter() - begun)

    def _of_master(self, seconds: float) -> float:
        """The argument of rank 0, so that all ranks decide alike."""

        def tell(part: celerity.Part, view: celerity.View) -> None:
            view[...] = seconds

        told = celerity.Buffer((), "float64", name="seconds")
        self.queue.host_task(tell, told.write(), on="master")
        return float(self.queue.fence(told).result())


class ReplayedProgram(Program):
    """The same with `queue.record` and `queue.replay`: a recording is one turn."""

    recorded: tuple[int, celerity.Recording] | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.in_order = tuple(self.states)

    def _begin_turn(self) -> None:
        # A replay has the buffers of its recording, and an odd rest of a run before leaves them in the other order.
        self.states.sort(key=self.in_order.index)

    def _record(self, iterations: int) -> celerity.Recording:
        self._begin_turn()
        recording = self.queue.record(functools.partial(super().submit, iterations, self.turn))
        self.recorded = iterations, recording
        return recording

    def prepare(self, iterations: int) -> None:
        """Record a turn, and let the runtime make its graphs, of up to 16 turns."""
        if self.recorded is not None and self.recorded[0] == iterations:
            return
        recording = self._record(iterations)
        for _ in range(3):
            self.queue.replay(recording, 31)
            self.queue.barrier()

    def submit(self, iterations: int, steps: int) -> None:
        """Submit some steps, from the beginning of a turn; steps that fill no turn as in a plain loop."""
        turns, rest = divmod(steps, self.turn)
        self._begin_turn()
        recording = self.recorded[1] if self.recorded is not None else None
        if recording is None:
            recording, turns = self._record(iterations), turns - 1
        self.queue.replay(recording, turns)
        super().submit(iterations, rest)


KINDS: dict[str, type[Program]] = {"celerity": Program, "celerity-replay": ReplayedProgram}


def measure(options: argparse.Namespace) -> list[dict[str, Any]] | None:
    """Check and sweep the patterns; the figures on rank 0, None on the others. Collective.

    `options.only` is "celerity" for a plain loop, "celerity-replay" for recordings.

    Raises:
        SystemExit: If there are not so many devices, or a result is wrong.
    """
    if "CELERITY_BACKEND" not in os.environ:
        celerity.configure(backend=options.backend)
    with celerity.Queue() as queue:
        available = celerity.size() * queue.statistics().num_devices
        if [available] != options.devices:
            raise SystemExit(f"{celerity.size()} rank(s) drive {available} device(s), not {options.devices[0]}.")
        kind = KINDS[options.only]
        figures = task_patterns.measure(
            lambda pattern, width: kind(queue, pattern, width, options.tasks_per_device), options
        )
    return figures if celerity.is_master() else None
