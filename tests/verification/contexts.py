# SPDX-License-Identifier: MIT
"""Graph generation of any number of ranks in one process: no hardware, and a record of all that was generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from celerity_py import _native, _native_testing, access, hints
from celerity_py._native import Box
from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    Flush,
    HostTask,
    Initial,
    Kernel,
    LocalPart,
    Mode,
    ObjectFence,
    Operator,
    Program,
    Reduction,
    Replay,
    Settings,
    Step,
    Task,
)
from tests.support import mappers
from tests.support.allocations import FIRST_DEVICE
from tests.support.mappers import Mapper
from tests.verification.elements import UserBox, full_box
from tests.verification.graph_query import Graph
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import verify

MODE_NUMBERS: dict[Mode, int] = {"read": 0, "write": 1, "read_write": 2}


def native_box(box: UserBox) -> Any:
    return _native.Box([low for low, _ in box], [high for _, high in box])


def native_region(boxes: Sequence[UserBox]) -> Any:
    return _native.Region([native_box(box) for box in boxes])


def user_box(box: Any) -> UserBox:
    return tuple(zip(box.min, box.max, strict=True))


def native_mapper(mapper: Mapper, chunks: Sequence[UserBox], whole: UserBox, shape: tuple[int, ...]) -> Any:
    """The runtime's mapper; a callable becomes the table of its results for `chunks`."""
    if mapper.is_callable:
        entries = [(native_box(chunk), native_region(mapper.region(chunk, whole, shape))) for chunk in chunks]
        return _native.RangeMapper.table(entries)
    if mapper.kind == "fixed":
        return access.fixed(
            native_region(mapper.arguments) if len(mapper.arguments) > 1 else native_box(mapper.arguments[0])
        )
    if mapper.kind == "neighborhood":
        extents, shape_name, wrap = mapper.arguments
        return access.neighborhood(*extents, shape=shape_name, wrap=wrap)
    if mapper.kind == "slice":
        return access.slice(mapper.arguments[0], at=mapper.arguments[1] if len(mapper.arguments) > 1 else None)
    return getattr(access, mapper.kind)(*mapper.arguments)


class RankContext:
    """One rank's generators. Takes the steps of a program one at a time."""

    def __init__(
        self, settings: Settings, rank: int, *, templates: bool = True, loops: bool = False, batch_seed: int = 0
    ) -> None:
        """`loops`: plain loops repeat plans. There are no records of their tasks and commands then.

        `batch_seed`: not 0: their instructions come later, in batches that are drawn.
        """
        self.settings = settings
        self.trace = Trace(rank)
        planning = _native.PlanningSettings(
            num_ranks=settings.num_ranks,
            rank=rank,
            num_devices=settings.num_devices,
            device_peers=settings.device_peers,
            user_device_peers=settings.user_device_peers,
            messages_reach_devices=settings.messages_reach_devices,
            link_grades=settings.link_grades,
            direct_ranks=settings.direct_ranks(rank),
            foreseeable_bytes=settings.foreseeable_bytes,
            joined_bytes=settings.joined_bytes,
            gathered_bytes=settings.gathered_bytes,
            lookahead=settings.lookahead,
            horizon_step=settings.horizon_step,
            horizon_max_parallelism=settings.horizon_max_parallelism,
            templates=templates,
            loops=loops,
            most_horizons_ahead=settings.most_horizons_ahead,
        )
        self.native = _native_testing.GraphContext(planning, batch_seed=batch_seed)
        self._buffers: dict[int, tuple[int, BufferDecl]] = {}
        self._user_allocations = 0
        self._recordings: dict[int, Any] = {}

    def apply(self, step: Step, name: str = "") -> int | None:
        """Returns the submission id of a task."""
        if isinstance(step, BufferDecl):
            self._create_buffer(step)
        elif isinstance(step, Destroy):
            self.native.destroy_buffer(self._buffers.pop(step.buffer)[0])
        elif isinstance(step, Flush):
            self.native.flush()
        elif isinstance(step, Kernel | HostTask):
            return self._submit(step, name)
        elif isinstance(step, Fence):
            return self._submit_fence(step)
        elif isinstance(step, Replay):
            self._replay(step)
        elif isinstance(step, ObjectFence):
            return self._hand_over(_native_testing.make_object_fence(step.object, step.on_all))
        else:
            return int(self.native.submit(_native_testing.make_epoch(step.action)))
        return None

    def flush_when_idle(self) -> None:
        """The scheduler does this at moments of which the other ranks know nothing."""
        self.native.flush()

    def finish(self) -> None:
        """Destroys all live buffers and ends the program."""
        for number in sorted(self._buffers):
            self.native.destroy_buffer(self._buffers[number][0])
        self._buffers.clear()
        self.native.submit(_native_testing.make_epoch("shutdown"))
        self.trace.is_finished = True

    def take(self) -> list[Record]:
        """New instructions; all new records are added to the trace."""
        instructions = self.native.take_instructions()
        self.trace.tasks += self.native.take_tasks()
        self.trace.commands += self.native.take_commands()
        self.trace.instructions += instructions
        return instructions

    def _new_user_allocation(self, kind: Literal["buffer", "fence"], number: int) -> int:
        self._user_allocations += 1
        self.trace.user_allocations[self._user_allocations] = (kind, number)
        return self._user_allocations

    def _new_array(self, number: int, box: UserBox, device: int) -> tuple[Box, int, int]:
        allocation = self._new_user_allocation("buffer", number)
        self.trace.array_places[allocation] = (FIRST_DEVICE + device if device >= 0 else 0, box)
        return native_box(box), allocation, device

    def _create_buffer(self, decl: BufferDecl) -> None:
        size = decl.element_size_bytes
        ranks = range(self.settings.num_ranks) if decl.initial == "local" else ()
        info = _native.BufferInfo(
            shape=decl.shape,
            element_size=size,
            alignment=min(size, 8),
            initial=decl.initial,
            arrays=[self._new_array(decl.number, box, device) for box, device in decl.arrays_of(self.trace.rank)],
            held_by_ranks=[[native_box(box) for box, _ in decl.arrays_of(rank)] for rank in ranks],
            name=decl.name,
        )
        native = self.native.create_buffer(info)
        self._buffers[decl.number] = (native, decl)
        self.trace.buffer_numbers[native] = decl.number

    def replay(self, tasks: Sequence[Kernel | HostTask], times: int) -> None:
        """Submits all of `tasks` so many times, as a recording that is replayed at once."""
        self.native.replay(self.record(tasks), times)

    def _replay(self, step: Replay) -> None:
        if step.recording not in self._recordings:
            self._recordings[step.recording] = self.record(step.all_phases, step.num_phases)
        self.native.replay(self._recordings[step.recording], step.times, step.phase)

    def record(self, tasks: Sequence[Kernel | HostTask], phases: int = 1) -> Any:
        """`tasks`: of all phases, which differ by their reach only."""
        planned = [self._native_task(task) for task in tasks]
        for number, task in enumerate(planned):
            task.priority = self.settings.priority_of(number)
        return self.native.record(planned[: len(tasks) // phases], [_reach_of(task) for task in tasks])

    def _hand_over(self, task: _native.Task, reach: tuple[int, int, int] = (0, 0, 0)) -> int:
        task.priority = self.settings.priority_of(self.native.next_submission())
        return int(self.native.submit(task, reach))

    def _submit(self, task: Kernel | HostTask, name: str) -> int:
        return self._hand_over(self._native_task(task, name), _reach_of(task))

    def _native_task(self, task: Kernel | HostTask, name: str = "") -> _native.Task:
        planned = self._planned(task)
        chunks: list[UserBox] = []
        if any(access.mapper.is_callable for access in task.accesses):
            chunks = [user_box(box) for box in self.native.chunks_for(planned)]
        accesses = []
        for given in task.accesses:
            native, decl = self._buffers[given.buffer]
            mapper = native_mapper(given.mapper, chunks, task.box, decl.shape)
            accesses.append((native, MODE_NUMBERS[given.mode], mapper))
        return _native_testing.with_accesses(planned, accesses, name)

    def _planned(self, task: Kernel | HostTask) -> _native.Task:
        box = native_box(task.box)
        if isinstance(task, HostTask):
            return _native.Task.host_task(box, task.on, task.unordered, task.granularity, list(task.objects))
        weights = task.weights_of(self.settings.num_ranks, self.settings.num_devices)
        split = _native.SPLITS.index(task.split)
        division = hints.Division(split, task.oversubscribe, task.border, task.block, weights)
        reductions = [(self._buffers[r.buffer][0], *r.native) for r in task.reductions]
        return _native.Task.kernel(box, task.granularity, division, reductions)

    def _submit_fence(self, task: Fence) -> int:
        allocation = 0
        if task.on_all or self.trace.rank == 0:
            allocation = self._new_user_allocation("fence", self.native.next_submission())
        box = native_box(task.box)
        buffer = self._buffers[task.buffer][0]
        return self._hand_over(_native_testing.make_fence(buffer, box, allocation, task.on_all, task.to_device))


def _reach_of(task: Kernel | HostTask) -> tuple[int, int, int]:
    return task.flat_reach if isinstance(task, Kernel) else (0, 0, 0)


@dataclass(frozen=True)
class BufferHandle:
    number: int
    shape: tuple[int, ...]


class TaskBuilder:
    """Collects the arguments of one kernel or host task; `submit()` gives it to all ranks."""

    def __init__(
        self, cluster: Cluster, box: UserBox, name: str, on: Literal["kernel", "once", "master", "split"]
    ) -> None:
        self._cluster = cluster
        self._box = box
        self._name = name
        self._on = on
        self._accesses: list[Access] = []
        self._reductions: list[Reduction] = []
        self._options: dict[str, Any] = {}

    def _access(self, buffer: BufferHandle, mode: Mode, mapper: Mapper | None) -> TaskBuilder:
        self._accesses.append(Access(buffer.number, mode, mapper or mappers.all_()))
        return self

    def read(self, buffer: BufferHandle, mapper: Mapper | None = None) -> TaskBuilder:
        return self._access(buffer, "read", mapper)

    def write(self, buffer: BufferHandle, mapper: Mapper | None = None) -> TaskBuilder:
        return self._access(buffer, "write", mapper)

    def read_write(self, buffer: BufferHandle, mapper: Mapper | None = None) -> TaskBuilder:
        return self._access(buffer, "read_write", mapper)

    def reduce(self, buffer: BufferHandle, op: Operator = "sum", *, include_current: bool = False) -> TaskBuilder:
        self._reductions.append(Reduction(buffer.number, op, include_current))
        return self

    def constrain(self, *granularity: int) -> TaskBuilder:
        self._options["granularity"] = granularity
        return self

    def split(self, kind: str) -> TaskBuilder:
        self._options["split"] = kind
        return self

    def split_2d(self) -> TaskBuilder:
        return self.split("split_2d")

    def weights(self, *values: int) -> TaskBuilder:
        """One per rank if their number is even, else one per device of all ranks; repeated as needed."""
        self._options |= {"split": "weights", "weights": values}
        return self

    def cyclic(self, block: int) -> TaskBuilder:
        self._options |= {"split": "cyclic", "block": block}
        return self

    def oversubscribe(self, factor: int) -> TaskBuilder:
        self._options["oversubscribe"] = factor
        return self

    def unordered(self) -> TaskBuilder:
        self._options["unordered"] = True
        return self

    def side_effects(self, *objects: int) -> TaskBuilder:
        self._options["objects"] = objects
        return self

    def border_first(self, width: int = 1) -> TaskBuilder:
        self._options["border"] = width
        return self

    def reach(self, *items: int) -> TaskBuilder:
        """A replicated execution: each share grows by so many items at its sides to others."""
        self._options["reach"] = items
        return self

    def submit(self) -> int:
        if self._on == "kernel":
            return self._cluster.submit(
                Kernel(self._box, tuple(self._accesses), tuple(self._reductions), **self._options), self._name
            )
        task = HostTask(self._on, self._box, tuple(self._accesses), **self._options)
        return self._cluster.submit(task, self._name)


def as_user_box(where: int | Sequence[int] | UserBox) -> UserBox:
    """A shape, or a box as a sequence of (low, high) pairs."""
    if isinstance(where, int):
        return ((0, where),)
    return tuple((0, item) if isinstance(item, int) else item for item in where)


class Cluster:
    """All ranks at once: every call is made on each of them, as a user's program is."""

    def __init__(self, num_ranks: int = 1, num_devices: int = 1, *, direct: bool = False, **options: Any) -> None:
        pairs = frozenset((a, b) for a in range(num_ranks) for b in range(a + 1, num_ranks)) if direct else frozenset()
        options.setdefault("direct_pairs", pairs)
        self.program = Program(Settings(num_ranks=num_ranks, num_devices=num_devices, **options))
        self.ranks = [RankContext(self.program.settings, rank) for rank in range(num_ranks)]
        self._names: dict[int, str] = {}

    def buffer(
        self,
        shape: int | Sequence[int],
        initial: Initial = "none",
        *,
        element_size_bytes: int = 4,
        device: int = -1,
        parts: Sequence[LocalPart] = (),
    ) -> BufferHandle:
        full = (shape,) if isinstance(shape, int) else tuple(shape)
        decl = BufferDecl(len(self.program.buffers), full, initial, element_size_bytes, tuple(parts), device)
        self._apply(decl)
        return BufferHandle(decl.number, full)

    def kernel(self, where: int | Sequence[int] | UserBox, name: str = "kernel") -> TaskBuilder:
        return TaskBuilder(self, as_user_box(where), name, "kernel")

    def host_task(
        self,
        where: int | Sequence[int] | UserBox | None = None,
        name: str = "host",
        *,
        on: Literal["once", "master"] = "once",
    ) -> TaskBuilder:
        if where is None:
            return TaskBuilder(self, (), name, on)
        return TaskBuilder(self, as_user_box(where), name, "split")

    def fence(
        self, buffer: BufferHandle, box: UserBox | None = None, *, on_all: bool = True, to_device: bool = False
    ) -> int:
        return self.submit(Fence(buffer.number, full_box(buffer.shape) if box is None else box, on_all, to_device))

    def fence_object(self, number: int, *, on_all: bool = True) -> int:
        return self.submit(ObjectFence(number, on_all))

    def wait(self, action: Literal["none", "barrier"] = "none") -> int:
        return self.submit(Epoch(action))

    def flush(self) -> None:
        self._apply(Flush())

    def destroy(self, buffer: BufferHandle) -> None:
        self._apply(Destroy(buffer.number))

    def submit(self, task: Task, name: str = "") -> int:
        submissions = self._apply(task, name)
        assert submissions is not None
        return submissions

    def _apply(self, step: Step, name: str = "") -> int | None:
        self.program.steps.append(step)
        results = [context.apply(step, name) for context in self.ranks]
        assert len(set(results)) == 1, f"ranks disagree on the submission id: {results}"
        for context in self.ranks:
            context.take()
        if results[0] is not None:
            self._names[results[0]] = name
        return results[0]

    def finish(self) -> Cluster:
        """Ends the program: destroys all buffers, submits the shutdown epoch."""
        for context in self.ranks:
            context.finish()
            context.take()
        return self

    def verify(self) -> None:
        """Runs the verifier on all that was generated so far."""
        verify(self.program, self.traces)

    @property
    def traces(self) -> list[Trace]:
        return [context.trace for context in self.ranks]

    def tasks(self) -> Graph:
        """The task graph, which is the same on all ranks."""
        return Graph(self.traces[0].tasks, "tasks", self.traces[0], self._names)

    def commands(self, rank: int = 0) -> Graph:
        return Graph(self.traces[rank].commands, f"commands of rank {rank}", self.traces[rank], self._names)

    def instructions(self, rank: int = 0) -> Graph:
        return Graph(self.traces[rank].instructions, f"instructions of rank {rank}", self.traces[rank], self._names)

    def notify_reached(self, task: int) -> None:
        """All ranks have executed the horizon or epoch with this task id."""
        for context in self.ranks:
            context.native.notify_epoch_reached(task)
