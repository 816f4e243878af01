# SPDX-License-Identifier: MIT
"""Data that the command graph counts as arrived lies in a memory of the rank, whether or not a device reads it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.support.allocations import CELL_BYTES, Allocation, cells_of
from tests.verification.elements import EMPTY_FLAT, FlatBox, describe_elements, flat_overlap, mask_of_indices
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import Oracle, flat_tuple


class AwaitedData:
    """The data that each task of one rank awaits, until the task starts."""

    def __init__(self, oracle: Oracle, trace: Trace) -> None:
        self._oracle = oracle
        self._trace = trace
        self._by_task: dict[int, list[tuple[int, tuple[FlatBox, ...]]]] = {}
        for command in trace.commands:
            if command["kind"] == "await_push":
                task, buffer, _ = command["transfer"]
                awaited = (trace.buffer_numbers[buffer], flat_tuple(command["awaited"]))
                self._by_task.setdefault(task, []).append(awaited)

    def elements(self, task: int, buffer: int) -> int:
        """The elements of a buffer that a task awaits, as a mask."""
        boxes = (box for number, of in self._by_task.get(task, []) if number == buffer for box in of)
        return self._oracle.mask(buffer, tuple(boxes))

    def find_missing(self, record: Record, allocations: Iterable[Allocation]) -> str:
        """Says which awaited element lies nowhere when the first instruction of a task starts."""
        for buffer, boxes in self._by_task.pop(record["key"][0], []):
            missing = self._oracle.mask(buffer, boxes)
            for allocation in allocations:
                if allocation.buffer == buffer and allocation.freed is None:
                    missing &= ~self._present(buffer, record["submission"], boxes, allocation)
            if missing:
                where = describe_elements(self._oracle.spaces[buffer], missing)
                return f"b{buffer} {where} was awaited for this task, and lies in no memory of the rank"
        return ""

    def find_unstarted(self) -> str:
        """Says which tasks never started."""
        return f"tasks {sorted(self._by_task)} await data and never start" if self._by_task else ""

    def _present(self, buffer: int, submission: int, boxes: tuple[FlatBox, ...], allocation: Allocation) -> int:
        """The elements of `boxes` with the version in the allocation that the task has to find."""
        assert allocation.box is not None
        inside = tuple(part for box in boxes if (part := flat_overlap(box, allocation.box)) != EMPTY_FLAT)
        factor = self._oracle.decl(buffer).element_size_bytes // CELL_BYTES
        elements = cells_of(self._oracle.spaces[buffer], inside, 1)[0]
        needed = self._oracle.before(buffer, submission)[elements]
        found = allocation.versions[cells_of(allocation.box, inside, factor)[0]].reshape(-1, factor)
        return mask_of_indices(elements[np.all(found == needed[:, None], axis=1)])
