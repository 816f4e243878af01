# SPDX-License-Identifier: MIT
"""The DAG programs by hand: the stream of each step, its waits, and the rules for any schedule.

A schedule becomes a list of operations, which are data. `dags_by_hand.py` turns them into calls of CUDA, and the tests
look at the order that they enforce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cluster_jobs.benchmarks.dags.dag_programs import Program, Use
from cluster_jobs.benchmarks.dags.dag_regimes import in_turns, parts_of

Edge = tuple[int, int]


# ---- the dependencies of a program


def dependencies(program: Program) -> set[Edge]:
    """All pairs of steps of which the second touches what the first writes, or writes what the first touches."""
    touched = [{arg.buffer for arg in step.args if isinstance(arg, Use)} for step in program.steps]
    written = [
        {arg.buffer for arg in step.args if isinstance(arg, Use) and arg.mode != "read"} for step in program.steps
    ]
    return {
        (first, second)
        for second in range(len(program.steps))
        for first in range(second)
        if written[first] & touched[second] or touched[first] & written[second]
    }


def reachable(edges: set[Edge], count: int) -> list[set[int]]:
    """For each step all steps after it; edges lead from smaller to larger numbers."""
    after: list[set[int]] = [set() for _ in range(count)]
    for first, second in sorted(edges, reverse=True):
        after[first] |= {second} | after[second]
    return after


def reduced(edges: set[Edge], count: int) -> set[Edge]:
    """The transitive reduction: the edges that no other path implies."""
    after = reachable(edges, count)
    return {
        (first, second)
        for first, second in edges
        if not any(second in after[middle] for middle in after[first] if middle != second)
    }


def _most_in_a_row(edges: set[Edge], count: int) -> int:
    """The most edges that paths without common steps consist of: a maximum bipartite matching."""
    successors: list[list[int]] = [[] for _ in range(count)]
    for first, second in edges:
        successors[first].append(second)
    taken: dict[int, int] = {}

    def place(first: int, seen: set[int]) -> bool:
        for second in successors[first]:
            if second not in seen:
                seen.add(second)
                if second not in taken or place(taken[second], seen):
                    taken[second] = first
                    return True
        return False

    return sum(place(first, set()) for first in range(count))


def width_of(program: Program) -> int:
    """The most steps that may run at the same time, which is the least number of streams that let them."""
    count = len(program.steps)
    after = reachable(dependencies(program), count)
    return count - _most_in_a_row({(first, second) for first in range(count) for second in after[first]}, count)


def least_waits_of(program: Program) -> int:
    """The least number of waits between streams that keep no two steps apart which may run at the same time.

    An edge of the transitive reduction needs a wait unless its steps are neighbours on a stream.
    """
    count = len(program.steps)
    edges = reduced(dependencies(program), count)
    return len(edges) - _most_in_a_row(edges, count)


# ---- by hand


@dataclass(frozen=True)
class Schedule:
    """A plan of streams and waits, written by hand."""

    #: Of each step.
    streams: tuple[int, ...]
    #: The steps that each step waits for. A step with a larger number is that of the run before.
    waits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    #: Dirty inputs for whose copies a step waits.
    inputs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


SCHEDULES = {
    # square x, square y, sum
    "VEC": Schedule((0, 1, 0), {1: (2,), 2: (1,)}, {0: ("x",), 1: ("y",)}),
    "B&S": Schedule(tuple(range(10)), {}, {stock: (f"x{stock}",) for stock in range(10)}),
    # blur small, large, unsharpen; edges of small, large; most, least, extend; sharpen; combine twice
    "IMG": Schedule(
        (0, 1, 2, 0, 1, 1, 3, 1, 2, 1, 1),
        {0: (10,), 6: (4,), 7: (6,), 8: (9,), 9: (8,), 10: (3,)},
        {0: ("image",), 1: ("image",), 2: ("image",)},
    ),
    # the ridge regression on stream 0: standardize, ridge, add, softmax; naive Bayes on stream 1; the best class
    "ML": Schedule((0, 1, 0, 1, 0, 1, 0, 1, 1, 0), {1: (9,), 9: (8,)}, {1: ("r1",), 2: ("r2",)}),
    # authorities on stream 0, hubs on stream 1; each overwrites what the other has read, and then reads what it wrote
    "HITS": Schedule(
        (0, 1) * 15,
        {
            **{6 * turn + 4: (6 * turn + 1,) for turn in range(5)},
            **{6 * turn + 5: (6 * turn + 0,) for turn in range(5)},
            **{6 * turn + 0: ((6 * turn - 1) % 30,) for turn in range(5)},
            **{6 * turn + 1: ((6 * turn - 2) % 30,) for turn in range(5)},
        },
        {0: ("hub1",), 1: ("auth1",)},  # the last ones of each side
    ),
    # two towers of convolution, pool, convolution; then concatenate and multiply
    "DL": Schedule((0, 1, 0, 1, 0, 1, 0, 0), {5: (6,), 6: (5,)}, {0: ("x",), 1: ("y",)}),
}


def schedule_of(name: str) -> Schedule:
    """The schedule of a program or of a mixture, whose parts have streams of their own."""
    parts = parts_of(name)
    if len(parts) == 1:
        return SCHEDULES[name]
    schedules = [SCHEDULES[part] for part in parts]
    order = in_turns([len(schedule.streams) for schedule in schedules])
    place = {item: number for number, item in enumerate(order)}
    bases = [sum(1 + max(schedule.streams) for schedule in schedules[:part]) for part in range(len(parts))]
    return Schedule(
        tuple(bases[part] + schedules[part].streams[step] for part, step in order),
        {
            place[part, step]: tuple(place[part, other] for other in others)
            for part, schedule in enumerate(schedules)
            for step, others in schedule.waits.items()
        },
        {
            place[part, step]: tuple(f"{parts[part]}.{buffer}" for buffer in buffers)
            for part, schedule in enumerate(schedules)
            for step, buffers in schedule.inputs.items()
        },
    )


def serial(program: Program) -> Schedule:
    """All steps on one stream."""
    return Schedule((0,) * len(program.steps))


# ---- operations


@dataclass(frozen=True)
class Operation:
    """Something that is put on a stream.

    `what` is a step to launch, a buffer to copy, or the step or copy behind whose operation an event is recorded.
    """

    kind: Literal["launch", "copy_in", "copy_out", "record", "wait"]
    what: int | str
    stream: int


def kernel_operations(schedule: Schedule, *, repeated: bool = False) -> list[Operation]:
    """Launches, events and waits of a run; `repeated` if another run may be under way before it."""
    waits = {
        step: tuple(other for other in others if repeated or other < step) for step, others in schedule.waits.items()
    }
    awaited = {other for others in waits.values() for other in others}
    operations = []
    for step, stream in enumerate(schedule.streams):
        operations += [Operation("wait", other, stream) for other in waits.get(step, ())]
        operations.append(Operation("launch", step, stream))
        if step in awaited:
            operations.append(Operation("record", step, stream))
    return operations


def operations_with_copies(program: Program, schedule: Schedule) -> list[Operation]:
    """A run by itself that begins with copies of the dirty inputs, on a stream of their own if there are several.

    It ends with a copy of each result that the host reads, behind the step that writes it.
    """
    awaited = {name for names in schedule.inputs.values() for name in names}
    copies = 1 + max(schedule.streams) if awaited else 0
    operations = []
    for name in program.dirty:
        operations.append(Operation("copy_in", name, copies))
        if name in awaited:
            operations.append(Operation("record", name, copies))
    for operation in kernel_operations(schedule):
        if operation.kind == "launch" and isinstance(operation.what, int):
            names = schedule.inputs.get(operation.what, ())
            operations += [Operation("wait", name, operation.stream) for name in names]
        operations.append(operation)
    return operations + copies_out(program, schedule)


def copies_out(program: Program, schedule: Schedule) -> list[Operation]:
    """Copies of the results that the host reads."""
    writers = {
        arg.buffer: stream
        for step, stream in zip(program.steps, schedule.streams, strict=True)
        for arg in step.args
        if isinstance(arg, Use) and arg.mode != "read"
    }
    return [Operation("copy_out", name, writers[name]) for name in program.read_back]


def last_streams(operations: Sequence[Operation]) -> list[int]:
    """The streams that have to be waited for at the end: those whose last work no other stream waits for."""
    last: dict[int, int] = {}
    recorded: dict[int | str, tuple[int, int]] = {}
    covered: dict[int, int] = {}
    for position, operation in enumerate(operations):
        if operation.kind in {"launch", "copy_in", "copy_out"}:
            last[operation.stream] = position
        elif operation.kind == "record":
            recorded[operation.what] = (operation.stream, position)
        elif operation.what in recorded:
            stream, where = recorded[operation.what]
            covered[stream] = max(where, covered.get(stream, -1))
    return sorted(stream for stream, position in last.items() if covered.get(stream, -1) < position)


def forked(operations: Sequence[Operation]) -> list[Operation]:
    """The same for the capture of a graph: all streams begin behind stream 0, and end before its end."""
    others = sorted({operation.stream for operation in operations} - {0})
    ends = [stream for stream in last_streams(operations) if stream != 0]
    fork = [Operation("record", "fork", 0)] if others else []
    return [
        *fork,
        *(Operation("wait", "fork", stream) for stream in others),
        *operations,
        *(Operation("record", f"join {stream}", stream) for stream in ends),
        *(Operation("wait", f"join {stream}", 0) for stream in ends),
    ]


def count_waits(operations: Sequence[Operation]) -> int:
    """How often a stream is told to wait for an event."""
    return sum(operation.kind == "wait" for operation in operations)
