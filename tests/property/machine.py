# SPDX-License-Identifier: MIT
"""The simulated hardware of one rank: its memories, and instructions carried out on them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.allocations import CELL_BYTES, AllocationId, cells_of, cells_of_layout, linear_cells
from tests.elements import FlatBox, flat_indices, to_flat
from tests.property.interpreter import POISON, WORD_MASK, Meaning, Words, fold
from tests.property.programs import BufferDecl, Fence, HostTask, Kernel, Mode
from tests.trace import Record, Trace

CELL_POISON = POISON


class SimulationError(AssertionError):
    """Something that would be a crash, a hang or a wrong result in a real run."""


def memory_name(memory: int) -> str:
    return {0: "user", 1: "host"}.get(memory, "device")


class Machine:
    """Values are 32-bit words in cells of 4 bytes; fresh cells hold a value that no task ever writes."""

    def __init__(self, trace: Trace, meaning: Meaning, decls: dict[int, BufferDecl]) -> None:
        self.trace = trace
        self.meaning = meaning
        self.decls = decls
        self.spaces = {number: to_flat(tuple((0, extent) for extent in decl.shape)) for number, decl in decls.items()}
        self.allocations: dict[AllocationId, Words] = {}
        self.paths: Counter[str] = Counter()
        """Kinds of instructions and copy paths that this machine has seen."""
        self.fulfilled: set[int] = set()

    def add_user_allocation(self, raw: int) -> None:
        kind, number = self.trace.user_allocations[raw]
        if kind == "buffer":
            decl = self.decls[number]
            words = self.meaning.initial[number]
            self.allocations[(0, raw)] = np.repeat(words, decl.element_size_bytes // CELL_BYTES)
        else:
            task = self.meaning.tasks[number].task
            assert isinstance(task, Fence)
            size = self.decls[task.buffer].element_size_bytes
            count = int(np.prod([high - low for low, high in task.box], dtype=np.int64))
            self.allocations[(0, raw)] = np.full(count * size // CELL_BYTES, CELL_POISON, dtype=np.uint64)

    def cells(self, allocation: AllocationId) -> Words:
        found = self.allocations.get((allocation[0], allocation[1]))
        if found is None:
            raise SimulationError(f"rank {self.trace.rank}: allocation {allocation} does not exist now")
        return found

    # instructions

    def alloc(self, record: Record) -> None:
        name = record["allocation"]
        if name in self.allocations:
            raise SimulationError(f"rank {self.trace.rank}: allocation {name} exists already")
        self.allocations[(name[0], name[1])] = np.full(record["size_bytes"] // CELL_BYTES, CELL_POISON, dtype=np.uint64)

    def free(self, record: Record) -> None:
        self.cells(record["allocation"])
        del self.allocations[(record["allocation"][0], record["allocation"][1])]

    def copy(self, record: Record) -> None:
        boxes = tuple(record["boxes"])
        source, destination = record["source"], record["destination"]
        self._copy(source, record["source_layout"], record, boxes)
        first, second = memory_name(source[0]), memory_name(destination[0])
        route = "peer" if first == second == "device" and source[0] != destination[0] else f"{first}->{second}"
        self.paths[f"copy {route}"] += 1
        self.paths[f"copy for {record['reason']}"] += 1
        if record["source_layout"]["is_linear"] or record["destination_layout"]["is_linear"]:
            self.paths["copy linear"] += 1
        if len(boxes) > 1:
            self.paths["copy of several boxes"] += 1

    def gather_copy(self, record: Record) -> None:
        for source in record["sources"]:
            self._copy(source["allocation"], source["layout"], record, tuple(source["boxes"]))

    def _copy(self, source: AllocationId, layout: Record, record: Record, boxes: tuple[FlatBox, ...]) -> None:
        size = record["element_size_bytes"]
        from_cells, _ = cells_of_layout(layout, boxes, size)
        to_cells, _ = cells_of_layout(record["destination_layout"], boxes, size)
        self.cells(record["destination"])[to_cells] = self.cells(source)[from_cells]

    def initialize(self, record: Record) -> None:
        number = self.trace.buffer_numbers[record["buffer"]]
        size = record["element_size_bytes"]
        boxes = tuple(record["boxes"])
        words = self.meaning.initial[number][flat_indices(self.spaces[number], boxes)]
        cells, _ = cells_of(tuple(record["allocated_box"]), boxes, size // CELL_BYTES)
        self.cells(record["destination"])[cells] = np.repeat(words, size // CELL_BYTES)

    def run_task(self, record: Record) -> None:
        """What the task reads must be what the sequential program has there; it leaves what that program leaves."""
        submission = record["submission"]
        meaning = self.meaning.tasks[submission]
        task = meaning.task
        assert isinstance(task, Kernel | HostTask)
        writes: list[tuple[int, Record]] = []
        for binding, access in zip(record["accesses"], task.accesses, strict=True):
            if binding["accessed"]:
                if access.mode != "write":
                    self._check_read(record, binding, access.buffer, access.mode)
                if access.mode != "read":
                    writes.append((access.buffer, binding))
        for number, binding in writes:
            cells, elements, factor = self._bound_cells(binding, number)
            words = meaning.after[number].words[elements]
            self.cells(binding["allocation"])[cells] = words if factor == 1 else np.repeat(words, factor)
        for position, binding in enumerate(record.get("reductions", [])):
            assert isinstance(task, Kernel)
            chunk: FlatBox = tuple(record["chunk"])
            places = tuple(slice(chunk[d] - low, chunk[3 + d] - low) for d, (low, _) in enumerate(task.box))
            share = fold(task.reductions[position].op, meaning.contributions[position][places].reshape(-1))
            self.cells(binding["allocation"])[binding["offset_bytes"] // CELL_BYTES] = share

    def _bound_cells(self, binding: Record, number: int) -> tuple[np.ndarray, np.ndarray, int]:
        boxes = tuple(binding["accessed"])
        factor = self.decls[number].element_size_bytes // CELL_BYTES
        cells, _ = cells_of(tuple(binding["allocated_box"]), boxes, factor)
        return cells, flat_indices(self.spaces[number], boxes), factor

    def _check_read(self, record: Record, binding: Record, number: int, mode: Mode) -> None:
        cells, elements, factor = self._bound_cells(binding, number)
        expected = self.meaning.tasks[record["submission"]].before[number].words[elements]
        found = self.cells(binding["allocation"])[cells]
        wrong = np.flatnonzero(found != (expected if factor == 1 else np.repeat(expected, factor)))
        if wrong.size:
            element = int(elements[int(wrong[0]) // factor])
            kind = "poison" if found[wrong[0]] > WORD_MASK else "a wrong value"
            raise SimulationError(
                f"rank {self.trace.rank}: I{record['id']} (S{record['submission']}, chunk {record['chunk']}) finds "
                f"{kind} in element {element} of b{number}, accessed with {mode} in allocation {binding['allocation']}"
            )

    def reduce(self, record: Record) -> None:
        cells, _ = linear_cells(0, record["count"])
        words = self.cells(record["source"])[cells]
        if np.any(words > WORD_MASK):
            raise SimulationError(f"rank {self.trace.rank}: I{record['id']} reduces poison")
        self.cells(record["destination"])[record["destination_offset_bytes"] // CELL_BYTES] = fold(record["op"], words)

    def fence(self, record: Record) -> None:
        submission = record["submission"]
        self.fulfilled.add(submission)
        meaning = self.meaning.tasks[submission]
        assert isinstance(meaning.task, Fence)
        assert meaning.fence_result is not None
        raws = [raw for raw, use in self.trace.user_allocations.items() if use == ("fence", submission)]
        factor = self.decls[meaning.task.buffer].element_size_bytes // CELL_BYTES
        for raw in raws:
            if not np.array_equal(self.allocations[(0, raw)], np.repeat(meaning.fence_result, factor)):
                raise SimulationError(f"rank {self.trace.rank}: fence S{submission} is fulfilled with other data")

    def read_box(self, allocation: AllocationId, allocated_box: FlatBox, box: FlatBox, element_size: int) -> Words:
        return self.cells(allocation)[cells_of(allocated_box, (box,), element_size // CELL_BYTES)[0]]
