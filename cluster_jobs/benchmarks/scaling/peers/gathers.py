# SPDX-License-Identifier: MIT
"""Programs by hand in which every GPU computes its own items of a row, and needs the whole row for the next step.

In one process, a GPU's stream copies its items to all others after the kernel, whose streams wait for an event behind
the copies. Or the copies are made on another stream, while the next step already does what needs the own items only; or
the kernel itself stores its items in the memory of all GPUs. With one rank per GPU, NCCL gathers the row in place, on
the stream of the kernel or behind the next step's work on the own items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cluster_jobs.benchmarks.scaling.peers import ranks
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, Worker, on_each, others_of, reach

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from cluster_jobs.benchmarks.scaling.peers import kernels

# A launch does the work of a step; that on the own items, which it puts aside; or that on all others, added to that.
WHOLE, FROM_OWN, FROM_OTHERS = 0, 1, 2


class Share(ABC):
    """The own items of a GPU, and its rows of all items.

    All GPUs have equally many items, but for the last one; rows are as long as if it had, too.

    Args:
        device: The GPU.
        count: Of all items.
        part: Which of the GPUs it is.
        parts: How many GPUs there are.

    Raises:
        SystemExit: If there are too few items.
    """

    items: ClassVar[str]
    item_bytes: ClassVar[int]
    #: The items of a GPU are a multiple of it.
    alignment: ClassVar[int] = 1
    #: Where the rows begin on this GPU.
    bases: list[int]

    def __init__(self, device: int, count: int, part: int, parts: int) -> None:
        import cupy

        self.cupy, self.device, self.count = cupy, cupy.cuda.Device(device), count
        self.capacity = -(-count // (parts * self.alignment)) * self.alignment
        self.first, self.end = (min((part + side) * self.capacity, count) for side in (0, 1))
        if self.first == self.end:
            raise SystemExit(f"{count} {self.items} are too few for {parts} GPUs")
        #: By work and place of the results: the launches by step.
        self._launches: dict[tuple[int, str], list[kernels.Launch]] = {}

    @abstractmethod
    def set_destinations(self, others: Sequence[Any]) -> None:
        """Let steps store their items "here", or in the shares of the others as well: "everywhere"."""

    @staticmethod
    @abstractmethod
    def written(step: int) -> int:
        """The row that a step writes."""

    @abstractmethod
    def reset(self) -> None:
        """Begin anew."""

    @abstractmethod
    def result(self) -> NDArray[Any]:
        """What this GPU has computed."""

    def launch(self, work: int, step: int, stream: Any, destinations: str = "here") -> None:
        """Enqueue a step or a part of it; the results are stored "here" or, by peer access, "everywhere"."""
        self._launches[work, destinations][step](stream)

    def address(self, row: int) -> int:
        """Where the own items of a row begin."""
        return self.bases[row] + self.first * self.item_bytes


class GatheredProblem(Problem):
    """A problem whose workers are those of this module."""

    @abstractmethod
    def share(self, device: int, part: int, parts: int) -> Share:
        """The share of a GPU."""


class Gpu(Worker):
    """The share of one GPU of a process that drives all of them, its streams and its events."""

    share: Share
    #: Whether a variant works while data travels.
    overlaps: ClassVar[bool] = True

    def __init__(self, problem: GatheredProblem, device: int, parts: int) -> None:
        import cupy

        self.runtime = cupy.cuda.runtime
        self.device = device
        with cupy.cuda.Device(device):
            reach(others_of(device, parts))
            self.share = problem.share(device, device, parts)
            self.stream, self.copying = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            self.streams = (self.stream, self.copying)[: 1 + self.overlaps]
            self.moved = cupy.cuda.Event(disable_timing=True)
            #: By parity of the step: its kernel has read the row, and its own items are everywhere.
            self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in (0, 1)]
            self.runtime.deviceSynchronize()
        self.others: list[Gpu] = []
        #: By written row: (destination, source).
        self.copies: list[list[tuple[int, int]]] = []

    def connect(self, workers: list[Gpu]) -> None:
        """Find the rows of the others, the next GPU first, so that not all copy to the same one at a time."""
        self.others = [*workers[self.device + 1 :], *workers[: self.device]]
        shares = [other.share for other in self.others]
        own = self.share.first * self.share.item_bytes
        rows = range(len(self.share.bases))
        self.copies = [[(other.bases[row] + own, self.share.address(row)) for other in shares] for row in rows]
        self.share.set_destinations(shares)

    def push(self, step: int, stream: Any) -> None:
        """Enqueue the copies of the items that a step has written to all others, and record that they have arrived."""
        runtime, size_bytes = self.runtime, (self.share.end - self.share.first) * self.share.item_bytes
        for destination, source in self.copies[self.share.written(step)]:
            runtime.memcpyAsync(destination, source, size_bytes, runtime.memcpyDeviceToDevice, stream.ptr)
        self.arrived[step % 2].record(stream)

    def wait_for_others(self, step: int) -> None:
        """Let the stream wait for the data that the others wrote in the step before this one."""
        for other in self.others:
            self.stream.wait_event(other.arrived[1 - step % 2])

    def plain(self, step: int) -> None:
        """Enqueue this GPU's part of a step: kernel, copies."""
        self.runtime.setDevice(self.device)
        self.wait_for_others(step)
        self.share.launch(WHOLE, step, self.stream)
        self.push(step, self.stream)

    def overlapped(self, step: int) -> None:
        """Enqueue this GPU's part of a step: the work on its own items while others arrive, then the rest."""
        self.runtime.setDevice(self.device)
        self.share.launch(FROM_OWN, step, self.stream)
        self.wait_for_others(step)
        self.share.launch(FROM_OTHERS, step, self.stream)
        self.moved.record(self.stream)
        self.copying.wait_event(self.moved)
        self.push(step, self.copying)

    def storing(self, step: int) -> None:
        """Enqueue this GPU's part of a step: a kernel that stores its items everywhere."""
        self.runtime.setDevice(self.device)
        self.wait_for_others(step)
        self.share.launch(WHOLE, step, self.stream, "everywhere")
        self.arrived[step % 2].record(self.stream)

    @classmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs."""
        return {step.__name__: on_each(workers, step) for step in (cls.plain, cls.overlapped, cls.storing)}


class Rank(Worker):
    """The share of this rank, and its streams."""

    share: Share
    overlaps: ClassVar[bool] = True

    def __init__(self, problem: GatheredProblem, comm: MPI.Comm) -> None:
        import cupy
        from cupy.cuda import nccl

        share = self.share = problem.share(ranks.use_gpu(comm), comm.rank, comm.size)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Its kernel has to get in between the blocks of ours.
        self.gathering = cupy.cuda.Stream(non_blocking=True, priority=-1)
        self.streams = (self.stream, self.gathering)[: 1 + self.overlaps]
        self.moved, self.gathered = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        cupy.cuda.runtime.deviceSynchronize()
        self.communicator = ranks.connect(comm)
        own, count = comm.rank * share.capacity * share.item_bytes, share.capacity * share.item_bytes // 4
        self._gathers = [(base + own, base, count, nccl.NCCL_FLOAT32) for base in share.bases]

    def gather(self, step: int, stream: Any) -> None:
        """Enqueue the exchange of the row that a step has written, in place."""
        if self.communicator is not None:
            self.communicator.allGather(*self._gathers[self.share.written(step)], stream.ptr)

    def plain(self, step: int) -> None:
        """Enqueue a step: kernel, exchange."""
        self.share.launch(WHOLE, step, self.stream)
        self.gather(step, self.stream)

    def overlapped(self, step: int) -> None:
        """Enqueue a step: the work on the own items while the others arrive, then the rest."""
        self.share.launch(FROM_OWN, step, self.stream)
        self.stream.wait_event(self.gathered)
        self.share.launch(FROM_OTHERS, step, self.stream)
        self.moved.record(self.stream)
        self.gathering.wait_event(self.moved)
        self.gather(step, self.gathering)
        self.gathered.record(self.gathering)

    @classmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """By name, the ways to enqueue a step."""
        return {step.__name__: on_each(workers, step) for step in (cls.plain, cls.overlapped)}
