# SPDX-License-Identifier: MIT
"""Programs as data: such as a user could write, and small enough to read after shrinking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any, Literal, TypeAlias

from tests.support.mappers import Mapper, show_box
from tests.verification.elements import FlatBox, UserBox, flat_overlap, to_flat

Mode: TypeAlias = Literal["read", "write", "read_write"]
Initial: TypeAlias = Literal["none", "array", "function", "local"]
#: `join` is a callable. `argmin` has the high bits of a word as value, and the low ones as place.
Operator: TypeAlias = Literal["sum", "prod", "min", "max", "join", "argmin"]
#: These combine on the host.
ON_HOST: tuple[Operator, ...] = ("join", "argmin")
Operation: TypeAlias = Literal["kernel", "fill", "copy"]


@dataclass(frozen=True)
class LocalPart:
    """Initial contents that one rank has, on one of its devices, or on the host: -1."""

    rank: int
    box: UserBox
    device: int


@dataclass(frozen=True)
class BufferDecl:
    """Made before the first task; `number` is its place in the program's list of buffers."""

    number: int
    shape: tuple[int, ...]
    initial: Initial
    element_size_bytes: int = 4
    parts: tuple[LocalPart, ...] = ()
    """Disjoint, of initial="local": together the whole buffer."""
    device: int = -1
    """Of initial="array": the device of each rank on which the array lies, or -1."""

    @property
    def name(self) -> str:
        return f"b{self.number}"

    def arrays_of(self, rank: int) -> list[tuple[UserBox, int]]:
        """The boxes of which this rank has arrays at first, and the devices of these."""
        if self.initial == "array":
            return [(tuple((0, extent) for extent in self.shape), self.device)]
        return [(part.box, part.device) for part in self.parts if part.rank == rank]

    @property
    def kind(self) -> tuple[int, int]:
        """Buffers of equal kinds have elements of one type: size in bytes, and which of the types of that size."""
        # Buffers of kind (4, 0) may be reduced into: those of one element, and some others.
        return self.element_size_bytes, 0 if all(extent == 1 for extent in self.shape) else self.number // 2 % 4

    def __str__(self) -> str:
        size = "" if self.element_size_bytes == 4 else f", element_size={self.element_size_bytes}"
        parts = "".join(f", rank {p.rank}: {show_box(p.box)} on device {p.device}" for p in self.parts)
        device = f", device={self.device}" if self.device >= 0 else ""
        return f'{self.name} = Buffer({self.shape}, initial="{self.initial}"{size}{device}{parts})'


@dataclass(frozen=True)
class Access:
    buffer: int
    mode: Mode
    mapper: Mapper

    def __str__(self) -> str:
        return f"b{self.buffer}.{self.mode}({self.mapper})"


@dataclass(frozen=True)
class Reduction:
    buffer: int
    op: Operator
    include_current: bool = False

    @property
    def native(self) -> tuple[Any, ...]:
        """As the scheduler takes it, without the buffer."""
        if self.op in ON_HOST:
            return "callable", "other", self.include_current, ON_HOST.index(self.op), self.op, 0
        return self.op, "uint32", self.include_current

    def __str__(self) -> str:
        return f'reduction(b{self.buffer}, "{self.op}"{", include_current=True" if self.include_current else ""})'


@dataclass(frozen=True)
class Kernel:
    box: UserBox
    accesses: tuple[Access, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    granularity: tuple[int, ...] | None = None
    split: str = "rows"
    """A hint of celerity_py.hints, or "rows" without one."""
    oversubscribe: int = 1
    border: int = 0
    block: int = 0
    weights: tuple[int, ...] = ()
    """Repeated as often as needed; the first one is positive."""
    reach: tuple[int, ...] = ()
    """Items by which each share grows at its sides to others: it computes their borders as well."""
    operation: Operation = "kernel"
    """A fill has one access, which writes one to one. A copy has another one, which reads a box of the same extents."""

    def __str__(self) -> str:
        parts = [show_box(self.box), *map(str, self.accesses), *map(str, self.reductions)]
        if self.granularity is not None:
            parts.append(f"constrain={self.granularity}")
        if self.split != "rows":
            parts.append(f"{self.split}{self.block or self.weights or ''}")
        if self.oversubscribe != 1:
            parts.append(f"oversubscribe({self.oversubscribe})")
        if self.border:
            parts.append(f"border_first({self.border})")
        if any(self.reach):
            parts.append(f"reach={self.reach}")
        return f"{self.operation}({', '.join(parts)})"

    @property
    def flat_reach(self) -> tuple[int, int, int]:
        """In all three dimensions."""
        return (*self.reach, 0, 0, 0)[:3]  # type: ignore[return-value]

    def grow(self, share: FlatBox) -> FlatBox:
        """What is computed for a share: its borders to others as well."""
        if not any(self.reach):
            return share
        reach = self.flat_reach
        low = (share[0] - reach[0], share[1] - reach[1], share[2] - reach[2])
        high = (share[3] + reach[0], share[4] + reach[1], share[5] + reach[2])
        return flat_overlap(low + high, to_flat(self.box))

    def weights_of(self, num_ranks: int, num_devices: int) -> tuple[float, ...] | None:
        """One per rank, or one per device of all ranks."""
        count = num_ranks * (num_devices if len(self.weights) % 2 else 1)
        return tuple(map(float, islice(cycle(self.weights), count))) if self.weights else None


@dataclass(frozen=True)
class HostTask:
    on: Literal["once", "master", "split"]
    box: UserBox
    accesses: tuple[Access, ...] = ()
    unordered: bool = False
    objects: tuple[int, ...] = ()
    """Numbers of host objects, from 1, ascending."""
    granularity: tuple[int, ...] | None = None

    @property
    def side_effects(self) -> tuple[int, ...]:
        """It runs behind all earlier tasks with one of these; 0 is the order of host tasks on one rank."""
        is_ordered = self.on != "split" and not self.unordered
        return (0, *self.objects) if is_ordered else self.objects

    def __str__(self) -> str:
        where = show_box(self.box) if self.on == "split" else f'"{self.on}"'
        unordered = ["unordered"] if self.unordered else []
        objects = [f"h{number}.side_effect()" for number in self.objects]
        constrain = [] if self.granularity is None else [f"constrain={self.granularity}"]
        return f"host_task({', '.join([f'on={where}', *map(str, self.accesses), *objects, *unordered, *constrain])})"


@dataclass(frozen=True)
class Fence:
    buffer: int
    box: UserBox
    on_all: bool = True
    to_device: bool = False

    def __str__(self) -> str:
        on = "" if self.on_all else ", on=master"
        return f"fence(b{self.buffer}, {show_box(self.box)}{on}{', to=device' if self.to_device else ''})"


@dataclass(frozen=True)
class ObjectFence:
    object: int
    on_all: bool = True

    @property
    def side_effects(self) -> tuple[int, ...]:
        return (self.object,)

    def __str__(self) -> str:
        return f"fence(h{self.object}{'' if self.on_all else ', on=master'})"


@dataclass(frozen=True)
class Destroy:
    buffer: int

    def __str__(self) -> str:
        return f"del b{self.buffer}"


@dataclass(frozen=True)
class Epoch:
    action: Literal["none", "barrier"] = "none"

    def __str__(self) -> str:
        return "wait()" if self.action == "none" else "barrier()"


@dataclass(frozen=True)
class Flush:
    def __str__(self) -> str:
        return "flush()"


@dataclass(frozen=True)
class Replay:
    """All of the tasks once more, as often as that. The first replay of a recording makes it."""

    recording: int
    """Its number."""
    tasks: tuple[Kernel | HostTask, ...]
    times: int
    reaches: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """By phase, the reach of each task. A repetition of one phase is followed by one of the next. None: one phase."""
    phase: int = 0
    """Of the first repetition."""

    @property
    def num_phases(self) -> int:
        """Repetitions until the same tasks come again."""
        return max(1, len(self.reaches))

    @property
    def all_phases(self) -> tuple[Kernel | HostTask, ...]:
        """The tasks of a repetition of each phase."""
        return tuple(task for phase in range(self.num_phases) for task in self.repetition(phase))

    def repetition(self, phase: int) -> tuple[Kernel | HostTask, ...]:
        """The tasks of a repetition."""
        if not self.reaches:
            return self.tasks
        reaches = self.reaches[phase % self.num_phases]
        return tuple(
            replace(task, reach=reach) if isinstance(task, Kernel) else task
            for task, reach in zip(self.tasks, reaches, strict=True)
        )

    @property
    def side_effects(self) -> tuple[int, ...]:
        return tuple(number for task in self.tasks for number in getattr(task, "side_effects", ()))

    def __str__(self) -> str:
        tasks = "; ".join(map(str, self.tasks))
        phases = f", reaches {self.reaches} from phase {self.phase}" if self.reaches else ""
        return f"replay {self.times} times recording {self.recording}: {tasks}{phases}"


Task: TypeAlias = Kernel | HostTask | Fence | ObjectFence | Epoch
"""Steps that take a submission id."""
Step: TypeAlias = BufferDecl | Task | Destroy | Flush | Replay
"""A replay takes an id for each task that it submits."""


def tasks_of(step: Step) -> tuple[Task, ...]:
    """The tasks that a step submits."""
    if isinstance(step, Replay):
        return tuple(task for number in range(step.times) for task in step.repetition(step.phase + number))
    return (step,) if isinstance(step, Task) else ()


@dataclass(frozen=True)
class Settings:
    """The machine and the options under which a program runs."""

    num_ranks: int = 1
    num_devices: int = 1
    device_peers: bool = True
    user_device_peers: bool = True
    messages_reach_devices: bool = False
    link_grades: tuple[int, ...] = ()
    """By source and destination device: 0 for the best links, more for worse ones."""
    direct_pairs: frozenset[tuple[int, int]] = frozenset()
    lookahead: Literal["none", "auto", "infinite"] = "none"
    foreseeable_bytes: int = 0
    """Of each memory, for growth that is only expected."""
    joined_bytes: int = 0
    """So much of what several producers made leaves together."""
    gathered_bytes: int = 0
    """So much of what several devices have arrives together."""
    horizon_step: int = 4
    horizon_max_parallelism: int = 64
    compute_lanes: int = 1
    single_fifo: bool = False
    """All lanes of a device share one hardware queue, in order of issue."""
    seed: int = 0

    def priority_of(self, number: int) -> int:
        """The priority of the queue that submits this task. A third of the programs has a single queue."""
        return 0 if self.seed % 3 == 0 else ((self.seed + number) * 2654435761 >> 8) % 5

    @property
    def most_horizons_ahead(self) -> int:
        """As for programs by default, or few, so that the planner forgets early."""
        return 34 if self.seed % 4 == 1 else 2 + self.seed % 3

    def direct_ranks(self, rank: int) -> list[bool]:
        return [(min(rank, peer), max(rank, peer)) in self.direct_pairs for peer in range(self.num_ranks)]

    def __str__(self) -> str:
        changed = [f"{name}={value}" for name, value in vars(self).items() if value != getattr(Settings, name)]
        return f"Settings({', '.join(changed)})"


@dataclass
class Program:
    """Statements in program order. Buffers still alive at the end are destroyed, then comes the shutdown epoch."""

    settings: Settings
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [str(self.settings)]
        number = 0
        for step in self.steps:
            number += len(tasks_of(step))
            lines.append(f"{step!s:<100}  # S{number}" if tasks_of(step) else str(step))
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def buffers(self) -> dict[int, BufferDecl]:
        return {step.number: step for step in self.steps if isinstance(step, BufferDecl)}

    @property
    def objects(self) -> list[int]:
        """The numbers of its host objects, from 1 on, as the runtime gives them."""
        used = [number for step in self.steps for number in getattr(step, "side_effects", ())]
        return list(range(1, max(used, default=0) + 1))

    def tasks(self) -> Iterator[tuple[int, Task]]:
        """(submission id, task), ids from 1 on as the runtime gives them."""
        yield from enumerate((task for step in self.steps for task in tasks_of(step)), 1)

    @property
    def task_count(self) -> int:
        return sum(1 for _ in self.tasks())
