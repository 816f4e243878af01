# SPDX-License-Identifier: MIT
"""Decides whether graphs are legal for a program: by brute force, element by element, without region maps.

`verify(program, traces)` replays the command graphs and the instruction graphs of all ranks against what the program
means (tests/property/interpreter.py). It knows for every element of every allocation which version lies there, so that
a missing edge, a missing copy, a stale copy, a transfer too many and a byte never received are all found, whether or
not an unlucky order of execution would have shown them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.property.interpreter import INITIAL, UNINITIALISED, Meaning, Versions, interpret
from tests.property.programs import BufferDecl, Fence, HostTask, Kernel, ObjectFence, Program, Task
from tests.verification.elements import FlatBox, element_mask, flat_boxes, full_box, to_flat
from tests.verification.graph_records import Record, Trace


class VerificationError(AssertionError):
    """A graph that could corrupt data, deadlock, leak, or transfer in vain."""


class Oracle:
    """The data that each task of the program finds and leaves, by submission id."""

    def __init__(self, program: Program, meaning: Meaning | None = None) -> None:
        self.program = program
        self.meaning = interpret(program) if meaning is None else meaning
        self.decls = program.buffers
        self.tasks: dict[int, Task] = dict(program.tasks())
        self.spaces: dict[int, FlatBox] = {number: to_flat(full_box(decl.shape)) for number, decl in self.decls.items()}
        self._history: dict[int, list[tuple[int, Versions]]] = {}
        for number, decl in self.decls.items():
            size = int(np.prod(decl.shape, dtype=np.int64))
            start = np.full(size, UNINITIALISED if decl.initial == "none" else INITIAL, dtype=np.int64)
            self._history[number] = [(0, start)]
        for submission, meaning_of_task in self.meaning.tasks.items():
            for number, state in meaning_of_task.after.items():
                self._history[number].append((submission, state.versions))

    def before(self, buffer: int, submission: int) -> Versions:
        """The version of each element that a task with this submission id must find."""
        found = self._history[buffer][0][1]
        for at, versions in self._history[buffer]:
            if at >= submission:
                break
            found = versions
        return found

    def decl(self, buffer: int) -> BufferDecl:
        return self.decls[buffer]

    def mask(self, buffer: int, boxes: Sequence[Sequence[int]]) -> int:
        return element_mask(self.spaces[buffer], flat_tuple(boxes))

    def accessed(self, buffer: int, submission: int, chunk: FlatBox, position: int) -> int:
        """The elements that access `position` of the task touches for `chunk`, as a mask over the buffer."""
        task = self.tasks[submission]
        assert isinstance(task, Kernel | HostTask)
        from_record = tuple((chunk[d], chunk[3 + d]) for d in range(len(task.box)))
        shape = self.decls[buffer].shape
        return element_mask(
            self.spaces[buffer], flat_boxes(task.accesses[position].mapper.region(from_record, task.box, shape))
        )


def flat_tuple(boxes: Sequence[Sequence[int]]) -> tuple[FlatBox, ...]:
    return tuple((b[0], b[1], b[2], b[3], b[4], b[5]) for b in boxes)


@dataclass
class Closure:
    """Ancestors of graph nodes as bit masks: bit i stands for the i-th node that was made."""

    place: dict[int, int] = field(default_factory=dict)
    masks: list[int] = field(default_factory=list)
    newest: int = 0

    def add(self, record: Record, dependencies: Sequence[int]) -> int:
        """Returns the node's place. Dependencies must be distinct, known, and thereby earlier."""
        node: int = record["id"]
        mask = 0
        for dependency in dependencies:
            place = self.place.get(dependency, -1)
            if place < 0:
                raise VerificationError(f"{describe(record)}: depends on {dependency}, which was not emitted before")
            mask |= self.masks[place] | (1 << place)
        if len(set(dependencies)) != len(dependencies):
            raise VerificationError(f"{describe(record)}: a dependency is listed twice")
        if self.place and node <= self.newest:
            raise VerificationError(f"{describe(record)}: ids must increase")
        self.newest = node
        self.place[node] = len(self.masks)
        self.masks.append(mask)
        return self.place[node]

    def is_before(self, first: int, second: int) -> bool:
        return bool(self.masks[second] >> first & 1)


def describe(record: Record) -> str:
    """One line for messages: the kind, then the fields that matter."""
    head = f"I{record['id']} {record['kind']}" if "key" in record else f"C{record['id']} {record['kind']}"
    hidden = {"id", "kind", "dependencies", "priority", "key"}
    fields = ", ".join(
        f"{name}={value}" for name, value in record.items() if name not in hidden and value not in ([], None)
    )
    key = f" key={record['key'][0]}.{record['key'][1]}" if "key" in record else ""
    return f"{head}({fields}){key} <- {record['dependencies']}"


def describe_trace(trace: Trace, instructions: bool = True) -> str:
    records = trace.instructions if instructions else trace.commands
    title = "instructions" if instructions else "commands"
    return "\n".join([f"rank {trace.rank}, {title}:", *("  " + describe(record) for record in records)])


def verify(program: Program, traces: Sequence[Trace], meaning: Meaning | None = None) -> None:
    """Raises VerificationError with the program, the rank and the records involved."""
    # here, because both modules need the names above
    from tests.verification.verify_commands import verify_commands
    from tests.verification.verify_instructions import verify_instructions

    oracle = Oracle(program, meaning)
    try:
        verify_tasks(oracle, traces)
        verify_commands(oracle, traces)
        verify_instructions(oracle, traces)
    except VerificationError as error:
        error.add_note(f"\n{program}")
        raise


def verify_tasks(oracle: Oracle, traces: Sequence[Trace]) -> None:
    """All ranks have the same task graph; conflicting tasks and horizons are ordered in it."""
    strip = [
        [{name: value for name, value in task.items() if name != "fence_destination"} for task in trace.tasks]
        for trace in traces
    ]
    if any(tasks != strip[0] for tasks in strip[1:]):
        raise VerificationError("the ranks' task graphs differ")
    closure = Closure()
    accesses: dict[int, list[tuple[int, int, int]]] = {}
    side_effects = SideEffects(closure)
    for task in traces[0].tasks:
        what = f"T{task['id']} {task['kind']}"
        place = closure.add(task, [dependency for dependency, _ in task["dependencies"]])
        if task["kind"] in ("horizon", "epoch") and closure.masks[place] != (1 << place) - 1:
            raise VerificationError(f"{what} is not behind all earlier tasks")
        if task["kind"] == "horizon":
            continue
        side_effects.add(oracle.tasks.get(task["submission"]), place, what)
        for buffer, (reads, writes) in task_masks(oracle, task["submission"]).items():
            for earlier, earlier_reads, earlier_writes in accesses.get(buffer, []):
                conflict = (earlier_writes & (reads | writes)) | (earlier_reads & writes)
                if conflict and not closure.is_before(earlier, place):
                    raise VerificationError(
                        f"{what} conflicts with the {earlier}th task in b{buffer}, and no path orders them"
                    )
            accesses.setdefault(buffer, []).append((place, reads, writes))


class SideEffects:
    """Tasks with a common host object, and host tasks in program order: a path leads from each to the next."""

    def __init__(self, closure: Closure) -> None:
        self._closure = closure
        self._last: dict[int, int] = {}  # by host object

    def add(self, task: object, place: int, what: str) -> None:
        """The node at `place` stands for `task`."""
        if not isinstance(task, HostTask | ObjectFence):
            return
        for number in task.side_effects:
            last = self._last.get(number)
            if last is not None and not self._closure.is_before(last, place):
                raise VerificationError(f"{what} uses h{number}, and no path leads there from the last use")
            self._last[number] = place


def task_masks(oracle: Oracle, submission: int) -> dict[int, tuple[int, int]]:
    """Elements that a task reads and writes, by buffer."""
    result: dict[int, tuple[int, int]] = {}
    task = oracle.tasks.get(submission)
    if isinstance(task, Fence):
        result[task.buffer] = (oracle.mask(task.buffer, flat_boxes([task.box])), 0)
    elif isinstance(task, Kernel | HostTask):
        for position, access in enumerate(task.accesses):
            mask = oracle.accessed(access.buffer, submission, to_flat(task.box), position)
            reads, writes = result.get(access.buffer, (0, 0))
            result[access.buffer] = (
                reads | (mask if access.mode != "write" else 0),
                writes | (mask if access.mode != "read" else 0),
            )
        for reduction in task.reductions if isinstance(task, Kernel) else ():
            reads, _ = result.get(reduction.buffer, (0, 0))
            result[reduction.buffer] = (reads | int(reduction.include_current), 1)
    return result
