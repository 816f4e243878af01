# SPDX-License-Identifier: MIT
"""The allocations of one rank, and the instructions that make, free and copy them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from celerity_py import _native_testing
from tests.property.interpreter import INITIAL, Versions
from tests.property.programs import Fence
from tests.support.allocations import (
    CELL_BYTES,
    FIRST_DEVICE,
    PENDING,
    UNWRITTEN,
    Allocation,
    AllocationId,
    cells_of,
    user_allocation,
)
from tests.verification.elements import FlatBox, Indices, bits, flat_size, to_flat
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import (
    Closure,
    Oracle,
    SideEffects,
    VerificationError,
    describe,
    describe_trace,
    flat_tuple,
)
from tests.verification.verify_arrivals import AwaitedData
from tests.verification.verify_reductions import FIRST_SHARE, ReductionShares
from tests.verification.verify_transfers import RankTransfers

REPLAYED_KINDS = set(_native_testing.INSTRUCTION_KINDS) - {"horizon", "epoch"}


class RankMemory:
    """Replays what happens to the allocations of one rank."""

    def __init__(self, oracle: Oracle, trace: Trace, shares: ReductionShares) -> None:
        self.oracle = oracle
        self.trace = trace
        self.shares = shares
        self.submissions = trace.submission_of_task()
        self.closure = Closure()
        self.side_effects = SideEffects(self.closure)
        self.record: Record = {}
        self.records: list[Record] = []
        self.keys: list[tuple[int, int]] = []
        self.allocations: dict[AllocationId, Allocation] = {}
        self.transfers = RankTransfers(trace)
        self.arrivals = self.transfers.arrivals
        self.awaited = AwaitedData(oracle, trace)
        self.chunks: dict[int, list[tuple[int, FlatBox]]] = {}
        self.fences: set[int] = set()
        self.handlers: dict[str, Callable[[Record, int], None]] = {
            name: getattr(self, f"_replay_{name}") for name in REPLAYED_KINDS
        }

    def _what(self) -> str:
        return f"rank {self.trace.rank}, {describe(self.record)}"

    def error(self, text: str) -> VerificationError:
        error = VerificationError(f"{self._what()}\n  {text}")
        error.add_note(describe_trace(self.trace))
        return error

    # bookkeeping

    def _add_user_memory(self) -> None:
        for raw, (kind, number) in self.trace.user_allocations.items():
            if kind == "buffer":
                decl = self.oracle.decl(number)
                memory, place = self.trace.array_places[raw]
                box = to_flat(place)
            else:
                task = self.oracle.tasks[number]
                assert isinstance(task, Fence)
                decl, box = self.oracle.decl(task.buffer), to_flat(task.box)
                memory = FIRST_DEVICE if task.to_device else 0
            size_bytes = flat_size(box) * decl.element_size_bytes
            allocation = Allocation(user_allocation(memory, raw), size_bytes, None, decl.number, box)
            if kind == "buffer":
                allocation.versions[:] = INITIAL
            self.allocations[allocation.id] = allocation

    def _allocation(self, name: Sequence[int]) -> Allocation:
        allocation = self.allocations.get((name[0], name[1]))
        if allocation is None:
            raise self.error(f"uses allocation {name}, which was never made")
        if allocation.freed is not None:
            raise self.error(f"uses allocation {name} after I{self.records[allocation.freed]['id']} freed it")
        return allocation

    def _access(self, place: int, allocation: Allocation, reads: int, writes: int) -> None:
        """Registers an access and checks that all it conflicts with comes before it."""
        ancestors = self.closure.masks[place]
        if allocation.made is not None and not ancestors >> allocation.made & 1:
            raise self.error(f"no path from the alloc of {allocation.id}")
        conflict = allocation.conflict(place, reads, writes, ancestors)
        if conflict is not None:
            earlier, cells = conflict
            first = next(bits(cells))
            raise self.error(
                f"no path from {describe(self.records[earlier])}\n"
                f"  though both access {allocation.id} from byte {first * CELL_BYTES} on"
            )
        if (reads | writes).bit_length() > allocation.versions.size:
            raise self.error(f"leaves allocation {allocation.id} of {allocation.size_bytes} bytes")
        allocation.accesses.append((place, reads, writes))

    def _versions_needed(self, buffer: int, submission: int, boxes: tuple[FlatBox, ...]) -> Versions:
        """Of the elements of `boxes`, each repeated for the cells of an element."""
        space = self.oracle.spaces[buffer]
        found = self.oracle.before(buffer, submission)[cells_of(space, boxes, 1)[0]]
        factor = self.oracle.decl(buffer).element_size_bytes // CELL_BYTES
        return found if factor == 1 else np.repeat(found, factor)

    def _expect(self, buffer: int, submission: int, boxes: tuple[FlatBox, ...], found: Versions, what: str) -> None:
        """`found` (cells of `boxes` in order) must be what task `submission` has to find there."""
        needed = self._versions_needed(buffer, submission, boxes)
        wrong = np.flatnonzero(found != needed)
        if wrong.size == 0:
            return
        are_shares = found[wrong] <= FIRST_SHARE
        for share, submitted in {(int(found[cell]), int(needed[cell])) for cell in wrong[are_shares]}:
            self.shares.must_be_complete(share, submitted, self._what())
        if are_shares.all():
            return
        cell = int(wrong[~are_shares][0])
        names = {UNWRITTEN: "nothing", PENDING: "a receive that was not awaited"}
        version = names.get(int(found[cell]), f"version {found[cell]}")
        raise self.error(
            f"{what} b{buffer}: cell {cell} of {boxes} holds {version}, S{submission} needs version {needed[cell]}"
        )

    def _check_front(self, place: int) -> None:
        missing = ((1 << place) - 1) & ~self.closure.masks[place]
        if missing:
            raise self.error(f"is not behind {describe(self.records[next(bits(missing))])}")

    # instructions

    def _replay_alloc(self, record: Record, place: int) -> None:
        name = (record["allocation"][0], record["allocation"][1])
        if name in self.allocations:
            raise self.error(f"allocation {name} exists already")
        buffer = self.trace.buffer_numbers.get(record["buffer"])
        box: FlatBox | None = None
        if buffer is not None:
            box = flat_tuple([record["allocated_box"]])[0]
            if record["size_bytes"] != flat_size(box) * self.oracle.decl(buffer).element_size_bytes:
                raise self.error("size is not that of its box")
            for other in self.allocations.values():
                if (
                    other.buffer == buffer
                    and other.memory == name[0]
                    and other.made is not None
                    and other.freed is None
                    and box == other.box
                ):
                    raise self.error(f"allocates the same box as {other.id}")
        if record["size_bytes"] <= 0:
            raise self.error("allocates nothing")
        self.allocations[name] = Allocation(name, record["size_bytes"], place, buffer, box)

    def _replay_free(self, record: Record, place: int) -> None:
        allocation = self._allocation(record["allocation"])
        if record["size_bytes"] not in (0, allocation.size_bytes):
            raise self.error(f"the allocation has {allocation.size_bytes} bytes")
        self._access(place, allocation, 0, (1 << allocation.versions.size) - 1)
        allocation.freed = place

    def _replay_copy(self, record: Record, place: int) -> None:
        boxes = flat_tuple(record["boxes"])
        size = record["element_size_bytes"]
        source, destination = self._allocation(record["source"]), self._allocation(record["destination"])
        self._check_reach(source.memory, destination.memory)
        from_cells, from_mask = self._copied_cells(source, boxes, size, record["source_offset_bytes"])
        to_cells, to_mask = destination.cells(boxes, size, record["destination_offset_bytes"])
        if source is destination:
            self._access(place, source, from_mask, to_mask)
        else:
            self._access(place, source, from_mask, 0)
            self._access(place, destination, 0, to_mask)
        self._carry(record, boxes, source.versions[from_cells], destination, to_cells)

    def _check_reach(self, source: int, destination: int) -> None:
        settings = self.oracle.program.settings
        on_device = min(source, destination) >= FIRST_DEVICE
        if on_device and source != destination and not settings.device_peers:
            raise self.error("copies between devices that do not reach each other")
        is_across = min(source, destination) == 0 and max(source, destination) >= FIRST_DEVICE
        if is_across and not settings.user_device_peers:
            raise self.error("copies between a device and memory of the user that it does not reach")

    def _copied_cells(
        self, source: Allocation, boxes: tuple[FlatBox, ...], size: int, offset_bytes: int = 0
    ) -> tuple[Indices, int]:
        cells, mask = source.cells(boxes, size, offset_bytes)
        if not mask:
            raise self.error("copies nothing")
        if mask.bit_count() != cells.size:
            raise self.error("boxes overlap")
        return cells, mask

    def _carry(
        self, record: Record, boxes: tuple[FlatBox, ...], found: Versions, destination: Allocation, cells: Indices
    ) -> None:
        if (found == UNWRITTEN).any() or (found == PENDING).any():
            raise self.error("reads cells that nobody wrote")
        self._check_freshness(record, boxes, found, destination.versions[cells])
        destination.versions[cells] = found

    def _replay_gather_copy(self, record: Record, place: int) -> None:
        """Which sources come first is not told, so none may overwrite what another one does."""
        size = record["element_size_bytes"]
        destination = self._allocation(record["destination"])
        memories = [source["allocation"][0] for source in record["sources"]]
        if len(set(memories)) < max(2, len(memories)) or min(memories) < 2 or destination.memory in (0, 1, *memories):
            raise self.error("gathers out of no, one or the same memory, or not among devices")
        written = 0
        for source in record["sources"]:
            boxes = flat_tuple(source["boxes"])
            allocation = self._allocation(source["allocation"])
            self._check_reach(allocation.memory, destination.memory)
            from_cells, from_mask = self._copied_cells(allocation, boxes, size)
            to_cells, to_mask = destination.cells(boxes, size)
            if written & to_mask:
                raise self.error("boxes overlap")
            written |= to_mask
            self._access(place, allocation, from_mask, 0)
            self._carry(record, boxes, allocation.versions[from_cells], destination, to_cells)
        self._access(place, destination, 0, written)

    def _check_freshness(self, record: Record, boxes: tuple[FlatBox, ...], found: Versions, replaced: Versions) -> None:
        """A copy of stale data is wrong; a copy of data that is there already is waste."""
        submission = self.submissions.get(record["key"][0], 0)
        buffer = self.trace.buffer_numbers.get(record["buffer"])
        reason = record.get("reason", "coherence")  # only for that data is gathered
        if buffer is None or submission == 0 or (found <= FIRST_SHARE).any() or reason == "reduction":
            return
        if reason == "resize":
            self._check_resize(record, buffer, submission, boxes, found)
            return
        self._expect(buffer, submission, boxes, found, "copies stale data of")
        if reason == "coherence" and (replaced == found).all():
            raise self.error("copies data that is there already")

    def _check_resize(
        self, record: Record, buffer: int, submission: int, boxes: tuple[FlatBox, ...], found: Versions
    ) -> None:
        """Data that other ranks overwrote is still copied, because this level does not know. Received data is not."""
        awaited = self.awaited.elements(record["key"][0], buffer)
        if record["key"][1] == "send" or not awaited:
            return
        stale = found != self._versions_needed(buffer, submission, boxes)
        factor = self.oracle.decl(buffer).element_size_bytes // CELL_BYTES
        elements = cells_of(self.oracle.spaces[buffer], boxes, 1)[0][stale[::factor]]
        if any(awaited >> int(element) & 1 for element in elements):
            raise self.error("copies stale data that is about to be received")
