# SPDX-License-Identifier: MIT
"""The command graphs of all ranks: who has which version of which element, and who sends what to whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tests.property.interpreter import INITIAL, UNINITIALISED, Versions
from tests.property.programs import Fence, HostTask, Kernel, ObjectFence
from tests.verification.elements import FlatBox, bits, describe_elements, element_mask, from_flat, to_flat
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

Transfer = tuple[int, int, int]
PARTIAL = -1000
"""Version of elements that hold this rank's share of the reduction of submission s: PARTIAL - s."""


class RankCommands:
    """Replays one rank's commands. One version per element: at this level a rank has one copy of a buffer."""

    def __init__(self, oracle: Oracle, trace: Trace, chunk_counts: dict[int, int]) -> None:
        self.oracle = oracle
        self.trace = trace
        self.chunk_counts = chunk_counts
        self.submissions = trace.submission_of_task()
        self.closure = Closure()
        self.side_effects = SideEffects(self.closure)
        self.versions: dict[int, Versions] = {}
        self.accesses: dict[int, list[tuple[int, int, int, Record]]] = {}
        self.pushed: dict[tuple[Transfer, int], int] = {}
        self.awaited: dict[Transfer, int] = {}
        self.chunks: dict[int, list[FlatBox]] = {}
        self.reduced: set[Transfer] = set()
        for number, decl in oracle.decls.items():
            size = int(np.prod(decl.shape, dtype=np.int64))
            is_everywhere = decl.initial in {"array", "function"}
            self.versions[number] = np.full(size, INITIAL if is_everywhere else UNINITIALISED, dtype=np.int64)
            if decl.initial == "local":
                held = [to_flat(box) for box, _ in decl.arrays_of(trace.rank)]
                self.versions[number][list(bits(oracle.mask(number, held)))] = INITIAL

    def run(self) -> None:
        for record in self.trace.commands:
            self.record = record
            place = self.closure.add(record, [dependency for dependency, _ in record["dependencies"]])
            if record["kind"] in ("execution", "fence"):
                task = self.oracle.tasks[self.submissions[record["task"]]]
                self.side_effects.add(task, place, f"rank {self.trace.rank}, {describe(record)}")
            for buffer, reads, writes in self._replay(record):
                self._order(place, buffer, reads, writes)
            if record["kind"] in ("horizon", "epoch") and self.closure.masks[place] != (1 << place) - 1:
                raise self.error("is not behind all earlier commands")

    def error(self, text: str) -> VerificationError:
        error = VerificationError(f"rank {self.trace.rank}, {describe(self.record)}\n  {text}")
        error.add_note(describe_trace(self.trace, instructions=False))
        return error

    def _order(self, place: int, buffer: int, reads: int, writes: int) -> None:
        earlier_accesses = self.accesses.setdefault(buffer, [])
        for earlier, earlier_reads, earlier_writes, other in earlier_accesses:
            conflict = (earlier_writes & (reads | writes)) | (earlier_reads & writes)
            if conflict and not self.closure.is_before(earlier, place):
                raise self.error(
                    f"no path from {describe(other)}\n  though both access b{buffer} {self._elements(buffer, conflict)}"
                )
        if reads | writes:
            earlier_accesses.append((place, reads, writes, self.record))

    def _replay(self, record: Record) -> Iterator[tuple[int, int, int]]:
        """Checks and updates versions; yields (buffer, read elements, written elements)."""
        kind = record["kind"]
        if kind == "push":
            yield self._push(record)
        elif kind == "await_push":
            yield self._await_push(record)
        elif kind == "execution":
            yield from self._execute(record)
        elif kind == "fence":
            yield from self._fence(record)
        elif kind == "reduction":
            yield self._reduce(record)

    def _transfer(self, record: Record) -> tuple[Transfer, int, int]:
        transfer = tuple(record["transfer"])
        consumer = self.submissions[transfer[0]]
        return (transfer[0], transfer[1], transfer[2]), self.trace.buffer_numbers[transfer[1]], consumer

    def _push(self, record: Record) -> tuple[int, int, int]:
        transfer, buffer, consumer = self._transfer(record)
        reads = 0
        for target, boxes in record["targets"]:
            mask = self.oracle.mask(buffer, boxes)
            if target == self.trace.rank:
                raise self.error("pushes to itself")
            if (transfer, target) in self.pushed:
                raise self.error(f"pushes {transfer} to rank {target} a second time")
            self.pushed[(transfer, target)] = mask
            reads |= mask
        if transfer[2]:
            if reads and self.versions[buffer][0] > PARTIAL:
                raise self.error(f"pushes a partial result, but the rank holds version {self.versions[buffer][0]}")
        else:
            self._expect(buffer, reads, consumer)
        return buffer, reads, 0

    def _await_push(self, record: Record) -> tuple[int, int, int]:
        transfer, buffer, consumer = self._transfer(record)
        mask = self.oracle.mask(buffer, record["awaited"])
        if transfer in self.awaited:
            raise self.error(f"awaits {transfer} a second time")
        self.awaited[transfer] = mask
        indices = list(bits(mask))
        versions = self.versions[buffer]
        expected = self.oracle.before(buffer, consumer)
        for index in indices:
            if versions[index] == expected[index]:
                raise self.error(
                    f"awaits b{buffer} {self._elements(buffer, 1 << index)} though it has version {versions[index]}"
                )
        versions[indices] = expected[indices]
        return buffer, 0, mask

    def _reduce(self, record: Record) -> tuple[int, int, int]:
        """Gathers the shares of all other ranks, and combines them with its own."""
        transfer, buffer, consumer = self._transfer(record)
        versions, wanted = self.versions[buffer], int(self.oracle.before(buffer, consumer)[0])
        has_share = versions == PARTIAL - wanted  # elsewhere a rank may hold anything older
        if np.any(versions == wanted) or np.any(has_share != has_share[0]) or transfer in self.reduced:
            raise self.error(
                f"reduces b{buffer}, which has versions {set(versions.tolist())}; S{consumer} needs {wanted}"
            )
        self.reduced.add(transfer)
        all_elements = (1 << versions.size) - 1
        reads = all_elements if has_share[0] else 0
        versions[:] = wanted
        return buffer, reads, all_elements

    def _execute(self, record: Record) -> Iterator[tuple[int, int, int]]:
        submission = self.submissions[record["task"]]
        task = self.oracle.tasks[submission]
        if not isinstance(task, Kernel | HostTask):
            raise self.error(f"executes a task that is {type(task).__name__}")
        share: list[FlatBox] = [tuple(chunk) for chunk in record.get("blocks") or [record["chunk"]]]
        self.chunks.setdefault(submission, []).extend(share)
        masks: dict[int, tuple[int, int]] = {}
        computed = [task.grow(chunk) for chunk in share] if isinstance(task, Kernel) else share
        for position, access in enumerate(task.accesses):
            mask = 0
            for chunk in computed:
                mask |= self.oracle.accessed(access.buffer, submission, chunk, position)
            reads, writes = masks.get(access.buffer, (0, 0))
            masks[access.buffer] = (
                reads | (mask if access.mode != "write" else 0),
                writes | (mask if access.mode != "read" else 0),
            )
        for buffer, (reads, _) in masks.items():
            self._expect(buffer, reads, submission)
        for buffer, (_, writes) in masks.items():
            self.versions[buffer][list(bits(writes))] = submission
        for reduction in task.reductions if isinstance(task, Kernel) else ():
            include = reduction.include_current and self._versions_equal(reduction.buffer, submission)
            versions = self.versions[reduction.buffer]
            versions[:] = PARTIAL - submission if self.chunk_counts[submission] > 1 else submission
            all_elements = (1 << versions.size) - 1
            masks[reduction.buffer] = (all_elements if include else 0, all_elements)
        self._compare_with_record(record, masks, bool(isinstance(task, Kernel) and task.reductions))
        for buffer, (reads, writes) in masks.items():
            yield buffer, reads, writes

    def _versions_equal(self, buffer: int, submission: int) -> bool:
        return bool(np.all(self.versions[buffer] == self.oracle.before(buffer, submission)))

    def _compare_with_record(self, record: Record, masks: dict[int, tuple[int, int]], has_reductions: bool) -> None:
        if has_reductions:
            return  # whether scalars of reductions are listed is the generator's choice
        for field, position in (("reads", 0), ("writes", 1)):
            listed: dict[int, int] = {}
            for buffer, boxes in record[field]:
                number = self.trace.buffer_numbers[buffer]
                listed[number] = listed.get(number, 0) | self.oracle.mask(number, boxes)
            expected = {buffer: pair[position] for buffer, pair in masks.items() if pair[position]}
            if {buffer: mask for buffer, mask in listed.items() if mask} != expected:
                raise self.error(f"{field} differ from the mappers' results for this chunk")

    def _fence(self, record: Record) -> Iterator[tuple[int, int, int]]:
        submission = self.submissions[record["task"]]
        task = self.oracle.tasks[submission]
        if isinstance(task, ObjectFence):
            return
        assert isinstance(task, Fence)
        if task.on_all or self.trace.rank == 0:
            mask = element_mask(self.oracle.spaces[task.buffer], (to_flat(task.box),))
            self._expect(task.buffer, mask, submission)
            yield task.buffer, mask, 0

    def _expect(self, buffer: int, mask: int, submission: int) -> None:
        """The rank's copy of these elements has the versions that a task must find."""
        expected = self.oracle.before(buffer, submission)
        indices = list(bits(mask))
        wrong = np.flatnonzero(self.versions[buffer][indices] != expected[indices])
        if wrong.size:
            index = indices[int(wrong[0])]
            where = self._elements(buffer, 1 << index)
            found = self.versions[buffer][index]
            raise self.error(
                f"reads b{buffer} {where}: has version {found}, S{submission} needs version {expected[index]}"
            )

    def _elements(self, buffer: int, mask: int) -> str:
        return describe_elements(self.oracle.spaces[buffer], mask)


def verify_commands(oracle: Oracle, traces: Sequence[Trace]) -> None:
    counts = _chunk_counts(traces)
    ranks = [RankCommands(oracle, trace, counts) for trace in traces]
    for rank in ranks:
        rank.run()
    _verify_transfers(oracle, ranks)
    _verify_shares(oracle, ranks)
    _verify_tiling(oracle, ranks)


def _chunk_counts(traces: Sequence[Trace]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for trace in traces:
        submissions = trace.submission_of_task()
        for record in trace.commands:
            if record["kind"] == "execution":
                submission = submissions[record["task"]]
                counts[submission] = counts.get(submission, 0) + 1
    return counts


def _verify_shares(oracle: Oracle, ranks: Sequence[RankCommands]) -> None:
    """Whoever reduces gets one share from each other rank that has one, and nobody else gets any."""
    for rank in ranks:
        for transfer in rank.reduced:
            consumer = rank.submissions[transfer[0]]
            of = int(oracle.before(rank.trace.buffer_numbers[transfer[1]], consumer)[0])
            wanted = [other.trace.rank for other in ranks if other is not rank and other.chunks.get(of)]
            found = [other.trace.rank for other in ranks if other.pushed.get((transfer, rank.trace.rank))]
            if wanted != found:
                raise VerificationError(
                    f"rank {rank.trace.rank} needs shares {transfer} from ranks {wanted}, they are pushed by {found}"
                )
        for transfer, target in rank.pushed:
            if transfer[2] and transfer not in ranks[target].reduced:
                raise VerificationError(
                    f"rank {rank.trace.rank} pushes share {transfer} to {target}, which reduces none"
                )


def _verify_transfers(oracle: Oracle, ranks: Sequence[RankCommands]) -> None:
    """A rank awaits exactly the elements that all others push to it, each once."""
    arriving: dict[tuple[Transfer, int], int] = {}
    for rank in ranks:
        for (transfer, target), mask in rank.pushed.items():
            if transfer[2]:
                continue
            already = arriving.get((transfer, target), 0)
            if already & mask:
                raise VerificationError(
                    f"rank {rank.trace.rank} pushes {transfer} to rank {target}, which gets part of it elsewhere too"
                )
            arriving[(transfer, target)] = already | mask
    for rank in ranks:
        for transfer, mask in rank.awaited.items():
            sent = arriving.pop((transfer, rank.trace.rank), 0)
            if mask != sent:
                buffer = rank.trace.buffer_numbers[transfer[1]]
                difference = describe_elements(oracle.spaces[buffer], mask ^ sent)
                error = VerificationError(
                    f"rank {rank.trace.rank} awaits {transfer} of b{buffer}; the pushed data differs in {difference}"
                )
                for other in ranks:
                    error.add_note(describe_trace(other.trace, instructions=False))
                raise error
    left = {key: mask for key, mask in arriving.items() if mask}
    if left:
        raise VerificationError(f"pushed to ranks that do not await it: {left}")


def _verify_tiling(oracle: Oracle, ranks: Sequence[RankCommands]) -> None:
    """Every item of an index space is executed exactly once."""
    for submission, task in oracle.tasks.items():
        if isinstance(task, Kernel | HostTask):
            verify_tiling(submission, task, [chunk for rank in ranks for chunk in rank.chunks.get(submission, [])])


def verify_tiling(submission: int, task: Kernel | HostTask, chunks: Sequence[FlatBox]) -> None:
    space = to_flat(task.box)
    covered = 0
    for chunk in chunks:
        mask = element_mask(space, flat_tuple([chunk]))
        if not mask or covered & mask:
            raise VerificationError(
                f"S{submission}: chunk {from_flat(chunk, len(task.box))} is empty or overlaps another"
            )
        covered |= mask
    if covered != element_mask(space, (space,)):
        raise VerificationError(
            f"S{submission}: {describe_elements(space, element_mask(space, (space,)) & ~covered)} is executed by nobody"
        )
