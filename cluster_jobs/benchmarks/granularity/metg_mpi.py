# SPDX-License-Identifier: MIT
"""The patterns of `task_patterns` by hand, one rank per device: mpi4py with NumPy, or with CuPy, or with CuPy and NCCL.

Each rank has the values of all points twice, of which it computes its own and receives those that it reads. What is
sent leaves behind the step that wrote it; tasks that read only the rank's own points run before what is received is
waited for. Through MPI, values of a GPU pass through pinned memory of the host.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from cluster_jobs.benchmarks.granularity import task_patterns
from cluster_jobs.benchmarks.granularity.task_patterns import BLOCK, CHECK_STEPS, GRID, PATTERNS, SOURCE
from cluster_jobs.benchmarks.scaling.peers import ranks

_KERNEL = (
    SOURCE
    + r"""
extern "C" __global__ void task(unsigned* next, const unsigned* previous, const long long point, const long long width,
                                const int pattern, const int bit, const unsigned phase, const int iterations) {
    if (is_first()) next[point] = value_of(previous, point, width, pattern, bit, phase);
    compute(iterations, next + point);
}
"""
)


@dataclass(frozen=True)
class Plan:
    """The work of a rank in one step of a round."""

    #: Own points whose tasks read own points only, and the others.
    local: list[int]
    remote: list[int]
    #: (rank, first point, point behind the last) of the points that the tasks read, and that tasks of other ranks read.
    receives: list[tuple[int, int, int]]
    sends: list[tuple[int, int, int]]
    #: Whether every rank reads everything.
    is_all: bool


def plan_of(pattern: str, step: int, width: int, rank: int, size: int) -> Plan:
    """The plan of a rank; every rank has as many points."""
    share = width // size

    def read_from(reader: int, owner: int) -> list[int]:
        points = range(reader * share, (reader + 1) * share)
        read = {j for point in points for j in task_patterns.dependencies(pattern, step, point, width)}
        return sorted(j for j in read if j // share == owner)

    def messages(pairs: list[tuple[int, list[int]]]) -> list[tuple[int, int, int]]:
        return [(other, points[0], points[-1] + 1) for other, points in pairs if points]

    others = [other for other in range(size) if other != rank]
    own = range(rank * share, (rank + 1) * share)
    local = [point for point in own if all(j in own for j in task_patterns.dependencies(pattern, step, point, width))]
    return Plan(
        local,
        [point for point in own if point not in local],
        messages([(other, read_from(rank, other)) for other in others]),
        messages([(other, read_from(other, rank)) for other in others]),
        pattern == "all_to_all" and size > 1,
    )


class OnHost:
    """Values and tasks of a rank in NumPy arrays."""

    def __init__(self, comm: MPI.Comm, pattern: str, width: int) -> None:
        self.comm, self.pattern, self.width = comm, pattern, width
        self.share, self.turn = width // comm.size, task_patterns.turn_of(pattern, width)
        self.values = [task_patterns.initial(width) for _ in range(2)]
        self._requests: list[MPI.Request] = []

    def launch(self, points: list[int], step: int, iterations: int) -> None:
        """Run the tasks of some points."""
        previous, target = self.values[step % 2], self.values[1 - step % 2]
        for point in points:
            read = task_patterns.dependencies(self.pattern, step, point, self.width)
            target[point] = task_patterns.value_of(point, step % self.turn, ((j, previous[j]) for j in read))
            task_patterns.compute(iterations)

    def begin_exchange(self, plan: Plan, step: int) -> None:
        """Start to send and receive the data that the step reads."""
        values = self.values[step % 2]
        if plan.is_all:
            self._requests = [self.comm.Iallgather(MPI.IN_PLACE, [values, self.share, MPI.UINT32_T])]
            return
        receives = [self.comm.Irecv(values[first:end], other) for other, first, end in plan.receives]
        self._requests = receives + [self.comm.Isend(values[first:end], other) for other, first, end in plan.sends]

    def finish_exchange(self, plan: Plan, step: int) -> None:
        """Wait for it."""
        if self._requests:
            MPI.Request.Waitall(self._requests)
            self._requests = []

    def finish(self) -> None:
        """Wait for the tasks."""

    def own_values(self, steps: int) -> Any:
        """What lies at the own points behind so many steps."""
        own = self.comm.rank * self.share
        return self.values[steps % 2][own : own + self.share]


class _OnGpu:
    """Values and tasks of a rank in CuPy arrays."""

    def __init__(self, comm: MPI.Comm, pattern: str, width: int) -> None:
        import cupy

        ranks.use_gpu(comm)
        self.comm, self.width = comm, width
        self.share = width // comm.size
        self.number, self.rounds = PATTERNS.index(pattern), task_patterns.rounds_of(pattern, width)
        self.values = [cupy.asarray(task_patterns.initial(width)) for _ in range(2)]
        self.function = cupy.RawKernel(_KERNEL, "task").kernel
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.event = cupy.cuda.Event(disable_timing=True)
        self._points = [np.int64(point) for point in range(width)]
        self._fixed = (np.int64(width), np.int32(self.number))
        self._steps = [
            (np.int32(phase % self.rounds), np.uint32(phase)) for phase in range(task_patterns.turn_of(pattern, width))
        ]
        cupy.cuda.runtime.deviceSynchronize()

    def launch(self, points: list[int], step: int, iterations: int) -> None:
        """Enqueue the tasks of some points."""
        pointers = self.values[1 - step % 2], self.values[step % 2]
        rest = (*self._fixed, *self._steps[step % len(self._steps)], np.int32(iterations))
        function, stream = self.function, self.stream
        for point in points:
            function((GRID, 1, 1), (BLOCK, 1, 1), (*pointers, self._points[point], *rest), stream=stream)

    def finish(self) -> None:
        """Wait for the tasks."""
        self.stream.synchronize()

    def own_values(self, steps: int) -> Any:
        """What lies at the own points behind so many steps."""
        own = self.comm.rank * self.share
        return self.values[steps % 2][own : own + self.share].get()


class ThroughHost(_OnGpu):
    """Exchanges through pinned memory and MPI."""

    def __init__(self, comm: MPI.Comm, pattern: str, width: int) -> None:
        import cupy

        super().__init__(comm, pattern, width)
        self.runtime = cupy.cuda.runtime
        self._memory = cupy.cuda.alloc_pinned_memory(4 * width)
        self.host = np.frombuffer(self._memory, np.uint32, width)

    def _copy(self, first: int, end: int, step: int, *, to_host: bool) -> None:
        on_host = self.host.ctypes.data + 4 * first
        on_gpu = self.values[step % 2].data.ptr + 4 * first
        kind = self.runtime.memcpyDeviceToHost if to_host else self.runtime.memcpyHostToDevice
        target, source = (on_host, on_gpu) if to_host else (on_gpu, on_host)
        self.runtime.memcpyAsync(target, source, 4 * (end - first), kind, self.stream.ptr)

    def begin_exchange(self, plan: Plan, step: int) -> None:
        """Enqueue the copy of the own points to the host."""
        if plan.sends:
            own = self.comm.rank * self.share
            self._copy(own, own + self.share, step, to_host=True)
        if plan.sends or plan.receives:
            self.event.record(self.stream)

    def finish_exchange(self, plan: Plan, step: int) -> None:
        """Exchange on the host, and enqueue the copies back."""
        if not (plan.sends or plan.receives):
            return
        self.event.synchronize()  # a rank that sends nothing must not receive over what it has not copied yet
        if plan.is_all:
            self.comm.Allgather(MPI.IN_PLACE, [self.host, self.share, MPI.UINT32_T])
            self._copy(0, self.width, step, to_host=False)
            return
        requests = [self.comm.Irecv(self.host[first:end], other) for other, first, end in plan.receives]
        requests += [self.comm.Isend(self.host[first:end], other) for other, first, end in plan.sends]
        MPI.Request.Waitall(requests)
        for _, first, end in plan.receives:
            self._copy(first, end, step, to_host=False)


class ThroughNccl(_OnGpu):
    """Exchanges by NCCL on a stream of its own."""

    def __init__(self, comm: MPI.Comm, pattern: str, width: int) -> None:
        import cupy
        from cupy.cuda import nccl

        super().__init__(comm, pattern, width)
        self.nccl = nccl
        self.messages = cupy.cuda.Stream(non_blocking=True)
        self.arrived = cupy.cuda.Event(disable_timing=True)
        self.communicator = ranks.connect(comm)

    def begin_exchange(self, plan: Plan, step: int) -> None:
        """Enqueue it behind the tasks that are enqueued."""
        if not (plan.sends or plan.receives):
            return
        nccl, communicator, pointer = self.nccl, self.communicator, self.messages.ptr
        base = self.values[step % 2].data.ptr
        self.event.record(self.stream)
        self.messages.wait_event(self.event)
        if plan.is_all:
            own = base + 4 * self.comm.rank * self.share
            communicator.allGather(own, base, self.share, nccl.NCCL_UINT32, pointer)
        else:
            nccl.groupStart()
            for other, first, end in plan.sends:
                communicator.send(base + 4 * first, end - first, nccl.NCCL_UINT32, other, pointer)
            for other, first, end in plan.receives:
                communicator.recv(base + 4 * first, end - first, nccl.NCCL_UINT32, other, pointer)
            nccl.groupEnd()
        self.arrived.record(self.messages)

    def finish_exchange(self, plan: Plan, step: int) -> None:
        """Let the tasks that are enqueued from now on wait for it."""
        if plan.sends or plan.receives:
            self.stream.wait_event(self.arrived)

    def finish(self) -> None:
        """Wait for the tasks and messages."""
        self.stream.synchronize()
        self.messages.synchronize()


KINDS = {"mpi-numpy": OnHost, "mpi-cupy": ThroughHost, "nccl": ThroughNccl}


class Program:
    """One pattern on all ranks."""

    def __init__(self, kind: str, comm: MPI.Comm, pattern: str, width: int) -> None:
        self.comm, self.pattern = comm, pattern
        self.rank: Any = KINDS[kind](comm, pattern, width)
        rounds = task_patterns.rounds_of(pattern, width)
        self.plans = [plan_of(pattern, step, width, comm.rank, comm.size) for step in range(rounds)]

    def run(self, iterations: int, steps: int) -> None:
        """Run some steps, and wait for them."""
        rank, plans = self.rank, self.plans
        rank.begin_exchange(plans[0], 0)
        for step in range(steps):
            plan = plans[step % len(plans)]
            rank.launch(plan.local, step, iterations)
            rank.finish_exchange(plan, step)
            rank.launch(plan.remote, step, iterations)
            if step + 1 < steps:
                rank.begin_exchange(plans[(step + 1) % len(plans)], step + 1)
        rank.finish()

    def check(self) -> int:
        """Compare a run with NumPy on rank 0; the checksum."""
        self.run(1, CHECK_STEPS)
        shares = self.comm.gather(self.rank.own_values(CHECK_STEPS))
        if shares is None:
            return 0
        return task_patterns.require_reference(np.concatenate(shares), self.pattern, CHECK_STEPS)

    def time(self, iterations: int, steps: int) -> float:
        """Seconds for some steps, of the slowest rank."""
        self.comm.Barrier()
        begun = time.perf_counter()
        self.run(iterations, steps)
        self.comm.Barrier()
        return float(self.comm.allreduce(time.perf_counter() - begun, MPI.MAX))


def measure(options: argparse.Namespace) -> list[dict[str, Any]] | None:
    """Check and sweep the patterns; the figures on rank 0, None on the others. Collective.

    Raises:
        SystemExit: If there are not so many ranks.
    """
    comm = MPI.COMM_WORLD
    if [comm.size] != options.devices:
        raise SystemExit(f"There are {comm.size} rank(s), not one for each of {options.devices[0]} device(s).")
    try:
        figures = task_patterns.measure(lambda pattern, width: Program(options.only, comm, pattern, width), options)
    except SystemExit as error:  # of one rank: the others would wait for ever
        print(error, flush=True)
        comm.Abort(1)
        raise
    return figures if comm.rank == 0 else None
