# SPDX-License-Identifier: MIT
"""The instruction graphs of all ranks: every byte range of every allocation, replayed in order of emission.

Replaying in that one order is enough, because every pair of conflicting accesses must be connected by a path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.property.interpreter import INITIAL
from tests.property.programs import Fence, HostTask, Kernel, ObjectFence
from tests.support.allocations import (
    CELL_BYTES,
    FIRST_DEVICE,
    PENDING,
    UNWRITTEN,
    Allocation,
    AllocationId,
    cells_of,
    linear_cells,
    user_allocation,
)
from tests.verification.elements import FlatBox, Indices, element_mask, flat_covers, flat_size, hull, to_flat
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import (
    Oracle,
    VerificationError,
    flat_tuple,
)
from tests.verification.verify_commands import verify_tiling
from tests.verification.verify_memory import RankMemory
from tests.verification.verify_reductions import ReductionShares
from tests.verification.verify_transfers import Arrival, Transfer, sort_key, verify_transfers


class RankInstructions(RankMemory):
    """Replays all instructions of one rank."""

    def run(self) -> None:
        self._add_user_memory()
        for record in self.trace.instructions:
            self.record = record
            place = self.closure.add(record, record["dependencies"])
            self.records.append(record)
            self.keys.append(sort_key(record))
            for dependency in record["dependencies"]:
                if self.keys[self.closure.place[dependency]] > self.keys[place]:
                    raise self.error(f"key is smaller than that of its predecessor I{dependency}")
            if record["kind"] in ("horizon", "epoch"):
                self._check_front(place)
            else:
                self.handlers[record["kind"]](record, place)
        self._check_end()

    # messages

    def _replay_device_kernel(self, record: Record, place: int) -> None:
        submission = record["submission"]
        task = self.oracle.tasks.get(submission)
        if not isinstance(task, Kernel):
            raise self.error("is no kernel of the program")
        memory = 2 + record["device"]
        self._run_task(record, place, task, memory)
        for position, binding in enumerate(record["reductions"]):
            allocation = self._allocation(binding["allocation"])
            if (
                allocation.memory != memory
                or (binding["op"], binding["type"]) != task.reductions[position].native[:2]
                or self.shares.by_id.get(binding["reduction"]) != (submission, position)
            ):
                raise self.error(f"reduction {position} is not as submitted, or its result lies in another memory")
            cells, mask = linear_cells(0, flat_size(self.oracle.spaces[task.reductions[position].buffer]))
            self._access(place, allocation, 0, mask)
            allocation.versions[cells] = self.shares.of_chunk(
                submission, position, self.trace.rank, tuple(record["chunk"])
            )

    def _replay_host_task(self, record: Record, place: int) -> None:
        task = self.oracle.tasks.get(record["submission"])
        if not isinstance(task, HostTask):
            raise self.error("is no host task of the program")
        if task.on == "master" and self.trace.rank != 0:
            raise self.error("runs on another rank than 0")
        self.side_effects.add(task, place, self._what())
        self._run_task(record, place, task, 1)

    def _run_task(self, record: Record, place: int, task: Kernel | HostTask, memory: int) -> None:
        submission = record["submission"]
        self._check_arrived(record)
        self.chunks.setdefault(submission, []).append((memory, tuple(record["chunk"])))
        if len(record["accesses"]) != len(task.accesses):
            raise self.error(f"has {len(record['accesses'])} accesses, the task {len(task.accesses)}")
        updates: list[tuple[Allocation, Indices]] = []
        touched: dict[AllocationId, tuple[int, int]] = {}
        for position, (binding, access) in enumerate(zip(record["accesses"], task.accesses, strict=True)):
            for allocation, boxes in self._check_binding(record, position, binding, memory):
                size = self.oracle.decl(access.buffer).element_size_bytes
                cells, mask = allocation.cells(boxes, size)
                reads, writes = touched.get(allocation.id, (0, 0))
                if access.mode != "write":
                    reads |= mask
                    self._expect(access.buffer, submission, boxes, allocation.versions[cells], "reads")
                if access.mode != "read":
                    writes |= mask
                    updates.append((allocation, cells))
                touched[allocation.id] = (reads, writes)
        for name, (reads, writes) in touched.items():
            self._access(place, self.allocations[name], reads, writes)
        for allocation, cells in updates:
            allocation.versions[cells] = submission

    def _check_arrived(self, record: Record) -> None:
        if missing := self.awaited.find_missing(record, self.allocations.values()):
            raise self.error(missing)

    def _check_binding(
        self, record: Record, position: int, binding: Record, memory: int
    ) -> list[tuple[Allocation, tuple[FlatBox, ...]]]:
        """The allocations of an access, each with the boxes of the access that lie there."""
        task = self.oracle.tasks[record["submission"]]
        assert isinstance(task, Kernel | HostTask)
        access = task.accesses[position]
        boxes = flat_tuple(binding["accessed"])
        if self.trace.buffer_numbers[binding["buffer"]] != access.buffer or binding["mode"] != access.mode:
            raise self.error(f"access {position} should be {access}")
        expected = self.oracle.accessed(access.buffer, record["submission"], tuple(record["chunk"]), position)
        if self.oracle.mask(access.buffer, boxes) != expected:
            raise self.error(f"access {position}: {boxes} is not what {access} means for this chunk")
        if not expected:
            return []
        if tuple(binding["bounding_box"]) != hull(boxes):
            raise self.error(f"access {position}: bounding box must be {hull(boxes)}")
        parts = binding["parts"] or [{"allocation": binding["allocation"], "bounding_box": hull(boxes)}]
        if len(parts) > 1 and not access.mapper.is_periodic:
            raise self.error(f"access {position} has parts, but is not periodic")
        found = []
        for part in parts:
            allocation = self._allocation(part["allocation"])
            if allocation.buffer != access.buffer or allocation.memory != memory or allocation.box is None:
                raise self.error(
                    f"access {position}: bound to allocation {allocation.id} of b{allocation.buffer}, {allocation.box}"
                )
            inside = tuple(box for box in boxes if flat_covers(tuple(part["bounding_box"]), box))
            bounds = hull(inside or boxes)
            if not inside or tuple(part["bounding_box"]) != bounds or not flat_covers(allocation.box, bounds):
                raise self.error(f"access {position}: {part} must be the box around its elements, and be allocated")
            found.append((allocation, inside))
        if sorted(box for _, inside in found for box in inside) != sorted(boxes):
            raise self.error(f"access {position}: each of {boxes} must lie in one of {parts}")
        return found

    def _replay_initialize(self, record: Record, place: int) -> None:
        buffer = self.trace.buffer_numbers[record["buffer"]]
        if self.oracle.decl(buffer).initial != "function":
            raise self.error("the buffer has no function")
        allocation = self._allocation(record["destination"])
        if allocation.memory != 1 or allocation.buffer != buffer:
            raise self.error("destination is not an allocation of the buffer in host memory")
        cells, mask = allocation.cells(flat_tuple(record["boxes"]), record["element_size_bytes"])
        self._access(place, allocation, 0, mask)
        allocation.versions[cells] = INITIAL

    def _transfer(self, record: Record) -> tuple[Transfer, int, int]:
        transfer = (record["transfer"][0], record["transfer"][1], record["transfer"][2])
        return transfer, self.trace.buffer_numbers[transfer[1]], self.submissions[transfer[0]]

    def _replay_send(self, record: Record, place: int) -> None:
        transfer, buffer, consumer = self._transfer(record)
        allocation = self._allocation(record["source"])
        boxes = flat_tuple([record["sent_box"]])
        settings = self.oracle.program.settings
        direct = settings.direct_ranks(self.trace.rank)[record["destination_rank"]]
        leaves_devices = (direct or settings.messages_reach_devices) and not transfer[2]
        if allocation.memory == 0 or (allocation.memory != 1 and not leaves_devices):
            raise self.error(
                f"sends from memory {allocation.memory}, transport to that rank is {'direct' if direct else 'host'}"
            )
        if record["destination_rank"] == self.trace.rank or allocation.buffer != buffer:
            raise self.error("sends to its own rank, or from an allocation of another buffer")
        cells, mask = allocation.cells(boxes, record["element_size_bytes"])
        self._access(place, allocation, mask, 0)
        found = allocation.versions[cells]
        if transfer[2]:
            self.shares.sent(transfer, self.trace.rank, record["destination_rank"], int(found[0]), self._what())
        else:
            self._expect(buffer, consumer, boxes, found, "sends stale data of")
        self.transfers.sends.append(record)

    def _replay_receive(self, record: Record, place: int) -> None:
        self._start_receive(record, place, is_split=False)

    def _replay_split_receive(self, record: Record, place: int) -> None:
        self._start_receive(record, place, is_split=True)

    def _start_receive(self, record: Record, place: int, *, is_split: bool) -> None:
        transfer, buffer, consumer = self._transfer(record)
        allocation = self._allocation(record["destination"])
        boxes = flat_tuple(record["boxes"])
        if allocation.buffer != buffer:
            raise self.error(f"destination is an allocation of b{allocation.buffer}, {allocation.box}")
        settings = self.oracle.program.settings
        has_direct_peer = any(settings.direct_ranks(self.trace.rank))
        if allocation.memory != 1 and not (has_direct_peer or settings.messages_reach_devices):
            raise self.error("receives into device memory, and no rank is a direct peer")
        cells, mask = allocation.cells(boxes, record["element_size_bytes"])
        self._access(place, allocation, 0, mask)
        arrival = self.arrivals.setdefault(transfer, Arrival())
        elements = self.oracle.mask(buffer, boxes)
        if not elements or arrival.elements & elements:
            raise self.error("receives nothing, or elements that another receive of this transfer has")
        arrival.elements |= elements
        arrival.least_key = min(arrival.least_key or self.keys[place], self.keys[place])
        if is_split:
            arrival.split[allocation.id] = arrival.split.get(allocation.id, 0) | elements
            allocation.versions[cells] = PENDING
        else:
            allocation.versions[cells] = self._versions_needed(buffer, consumer, boxes)

    def _replay_await_receive(self, record: Record, place: int) -> None:
        transfer, buffer, consumer = self._transfer(record)
        allocation = self._allocation(record["destination"])
        boxes = flat_tuple(record["boxes"])
        open_elements = self.arrivals.setdefault(transfer, Arrival()).split.get(allocation.id, 0)
        elements = self.oracle.mask(buffer, boxes)
        if not elements or elements & ~open_elements:
            raise self.error("awaits data of no split receive into this allocation, or data that is awaited already")
        self.arrivals[transfer].split[allocation.id] = open_elements & ~elements
        assert allocation.box is not None
        cells, mask = cells_of(allocation.box, boxes, self.oracle.decl(buffer).element_size_bytes // CELL_BYTES)
        self._access(place, allocation, 0, mask)
        allocation.versions[cells] = self._versions_needed(buffer, consumer, boxes)

    def _replay_receive_partials(self, record: Record, place: int) -> None:
        transfer, _, _ = self._transfer(record)
        allocation = self._allocation(record["destination"])
        arrival = self.arrivals.setdefault(transfer, Arrival())
        arrival.least_key = min(arrival.least_key or self.keys[place], self.keys[place])
        if len(set(record["slots"])) != len(record["slots"]) or len(record["slots"]) != len(record["sources"]):
            raise self.error("slots are not distinct or not one per source")
        written = 0
        for source, slot in zip(record["sources"], record["slots"], strict=True):
            cells, mask = linear_cells(
                slot * record["bytes_per_slot"] // CELL_BYTES, record["bytes_per_slot"] // CELL_BYTES
            )
            written |= mask
            arrival.gathered_from.append(source)
            allocation.versions[cells] = self.shares.received(transfer, source, self.trace.rank)
        self._access(place, allocation, 0, written)

    def _replay_reduce(self, record: Record, place: int) -> None:
        source, destination = self._allocation(record["source"]), self._allocation(record["destination"])
        count, num_elements = record["count"], record["num_elements"]
        from_cells, from_mask = linear_cells(0, count * num_elements)
        to_cells, to_mask = linear_cells(0, num_elements)
        if source is destination:
            self._access(place, source, from_mask, to_mask)
        else:
            self._access(place, source, from_mask, 0)
            self._access(place, destination, 0, to_mask)
        found = source.versions[from_cells].reshape(count, num_elements)
        if np.any((found == UNWRITTEN) | (found == PENDING)):
            raise self.error("reduces slots that nobody wrote")
        columns, which = np.unique(found, axis=1, return_inverse=True)
        made = [
            self.shares.combine(record["reduction"], [int(v) for v in column], self._what()) for column in columns.T
        ]
        destination.versions[to_cells] = np.array(made)[which.reshape(-1)]

    def _replay_fence(self, record: Record, place: int) -> None:
        submission = record["submission"]
        task = self.oracle.tasks.get(submission)
        if not isinstance(task, Fence | ObjectFence) or submission in self.fences:
            raise self.error("is no fence of the program, or the second of it")
        self.fences.add(submission)
        self.side_effects.add(task, place, self._what())
        if isinstance(task, ObjectFence):
            return
        self._check_arrived(record)
        raws = [raw for raw, use in self.trace.user_allocations.items() if use == ("fence", submission)]
        if not raws or flat_size(to_flat(task.box)) == 0:
            return
        allocation = self.allocations[user_allocation(FIRST_DEVICE if task.to_device else 0, raws[0])]
        self._access(place, allocation, (1 << allocation.versions.size) - 1, 0)
        self._expect(task.buffer, submission, (to_flat(task.box),), allocation.versions, "fulfils a fence with")

    # the end

    def _check_end(self) -> None:
        for arrival in self.arrivals.values():
            if any(arrival.split.values()) and self.trace.is_finished:
                raise VerificationError(f"rank {self.trace.rank}: a split receive is never awaited completely")
        if not self.trace.is_finished:
            return
        if unstarted := self.awaited.find_unstarted():
            raise VerificationError(f"rank {self.trace.rank}: {unstarted}")
        for allocation in self.allocations.values():
            if allocation.made is not None and allocation.freed is None:
                self.record = self.records[allocation.made]
                raise self.error("is never freed")
        for submission, task in self.oracle.tasks.items():
            wanted = isinstance(task, Fence | ObjectFence) and (task.on_all or self.trace.rank == 0)
            if wanted and submission not in self.fences:
                raise VerificationError(f"rank {self.trace.rank}: the fence S{submission} is never fulfilled")


def verify_replicated(submission: int, task: Kernel, ranks: Sequence[RankInstructions]) -> None:
    """Every item is executed, and at most once per memory."""
    space = to_flat(task.box)
    everywhere = 0
    for rank in ranks:
        computed: dict[int, int] = {}
        for memory, chunk in rank.chunks.get(submission, []):
            mask = element_mask(space, (chunk,))
            if not mask or computed.get(memory, 0) & mask:
                raise VerificationError(f"S{submission}: chunk {chunk} is empty, or overlaps another in M{memory}")
            computed[memory] = computed.get(memory, 0) | mask
            everywhere |= mask
    if everywhere != element_mask(space, (space,)):
        raise VerificationError(f"S{submission}: not every item is executed")


def verify_instructions(oracle: Oracle, traces: Sequence[Trace]) -> None:
    shares = ReductionShares(oracle)
    ranks = [RankInstructions(oracle, trace, shares) for trace in traces]
    for rank in ranks:
        rank.run()
    for submission, task in oracle.tasks.items():
        if isinstance(task, Kernel | HostTask) and all(trace.is_finished for trace in traces):
            chunks = [chunk for rank in ranks for _, chunk in rank.chunks.get(submission, [])]
            if isinstance(task, Kernel) and any(task.reach):
                verify_replicated(submission, task, ranks)
            else:
                verify_tiling(submission, task, chunks)
    verify_transfers(oracle, [rank.transfers for rank in ranks])
    shares.check_obligations()
