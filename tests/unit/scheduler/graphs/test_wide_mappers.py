# SPDX-License-Identifier: MIT
"""Mappers whose result for a rank's chunk is not the union of those for its parts: wide reads arrive, else refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from celerity_py import _native
from celerity_py._native import AccessViolation, Box, Region
from tests.property.programs import Access, Kernel, Program
from tests.property.simulator import World
from tests.support.mappers import Mapper, all_, custom, fixed, one_to_one
from tests.verification.contexts import Cluster
from tests.verification.verifier import verify

SIZE = 16
TRANSPORTS: dict[str, dict[str, Any]] = {
    "host": {},
    "direct": {"direct": True},
    "joined": {"direct": True, "joined_bytes": 2**30},
}
DIVISIONS = ("devices", "oversubscribe", "border_first", "both")


def every_other_backwards() -> Mapper:
    """The bounding box of every other element, from the end. A chunk reads what lies between its parts."""

    def rule(chunk: Any, whole: Any, shape: tuple[int, ...]) -> Any:
        low, high = chunk[0]
        return [((SIZE - 2 - 2 * (high - 1), SIZE - 2 - 2 * low + 1),)]

    return custom("every_other_backwards()", rule)


def all_but_for_parts() -> Mapper:
    """Large chunks access everything, those of up to two items nothing at all."""
    return custom("all_but_for_parts()", lambda chunk, whole, shape: [((0, SIZE),)] if span(chunk) > 2 else [])


def span(chunk: Any) -> int:
    return int(chunk[0][1] - chunk[0][0])


def cluster_for(transport: str, division: str, **options: Any) -> Cluster:
    devices = 2 if division in {"devices", "both"} else 1
    return Cluster(num_ranks=2, num_devices=devices, **TRANSPORTS[transport], **options)


def divided(task: Any, division: str) -> Any:
    if division in {"oversubscribe", "both"}:
        return task.oversubscribe(2)
    return task.border_first() if division == "border_first" else task


def violation_of(submit: Callable[[], object]) -> AccessViolation:
    with pytest.raises(_native.AccessPatternError) as caught:
        submit()
    [violation] = caught.value.args
    return violation  # type: ignore[no-any-return]


def simulate(program: Program) -> None:
    """In several orders of events; then shows that no other order is worse."""
    for seed in range(4):
        settings = type(program.settings)(**{**vars(program.settings), "seed": seed})
        world = World(Program(settings, program.steps))
        world.run()
        verify(program, world.traces, world.meaning)


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_no_part_reads_arrives_for_a_later_kernel(transport: str, division: str) -> None:
    cluster = cluster_for(transport, division)
    buffer, other = cluster.buffer(SIZE), cluster.buffer(SIZE // 2)
    cluster.kernel(SIZE).write(buffer, one_to_one()).submit()
    task = cluster.kernel(SIZE // 2).read(buffer, every_other_backwards()).write(other, one_to_one())
    divided(task, division).submit()
    cluster.kernel(SIZE // 2).read(buffer, all_()).read_write(other, one_to_one()).submit()
    cluster.fence(buffer)
    cluster.fence(other)
    cluster.finish().verify()
    simulate(cluster.program)


@pytest.mark.parametrize("lookahead", ["none", "auto"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_no_part_reads_at_all_arrives_too(transport: str, lookahead: str) -> None:
    cluster = cluster_for(transport, "both", lookahead=lookahead)
    buffer, other = cluster.buffer(SIZE), cluster.buffer(8)
    cluster.kernel(SIZE).write(buffer, one_to_one()).submit()
    cluster.kernel(8).read(buffer, all_but_for_parts()).write(other, one_to_one()).oversubscribe(2).submit()
    cluster.fence(buffer)
    cluster.kernel(SIZE).read_write(buffer, one_to_one()).submit()  # overwrites what arrived
    cluster.kernel(8).read(buffer, fixed(((6, 9),))).read_write(other, one_to_one()).submit()
    cluster.fence(other)
    cluster.finish().verify()
    simulate(cluster.program)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_no_part_reads_can_be_received_again_and_again(transport: str) -> None:
    cluster = cluster_for(transport, "devices", horizon_step=1)
    buffer, other = cluster.buffer((SIZE, 2), element_size_bytes=8), cluster.buffer(SIZE // 2)
    narrow = every_other_backwards()
    wide = custom("wide()", lambda chunk, whole, shape: [(*narrow.rule(chunk, whole, shape)[0], (0, 2))])
    for _ in range(3):
        cluster.kernel((SIZE, 2)).write(buffer, one_to_one()).submit()
        cluster.kernel(SIZE // 2).read(buffer, wide).write(other, one_to_one()).submit()
    cluster.host_task().read(buffer, all_()).read(other, all_()).submit()
    cluster.finish().verify()
    simulate(cluster.program)


def test_only_what_no_part_reads_needs_host_memory_under_direct_transport() -> None:
    cluster = cluster_for("direct", "devices")
    buffer = cluster.buffer(SIZE)
    cluster.kernel(SIZE).write(buffer, one_to_one()).submit()
    cluster.kernel(SIZE // 2).read(buffer, every_other_backwards()).submit()
    for rank, between in enumerate([(11, 12), (3, 4)]):
        on_host = cluster.instructions(rank).all("receive", destination=lambda name: name[0] == 1)
        assert [(box[0], box[3]) for record in on_host for box in record["boxes"]] == [between]
    cluster.finish().verify()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_wide_read_is_anticipated_and_allocated_once(transport: str) -> None:
    """The gap moves by an element per task; lookahead sees all of them before it allocates."""
    cluster = cluster_for(transport, "devices", lookahead="infinite")
    buffer, other = cluster.buffer(SIZE), cluster.buffer(8)

    def gap_at(place: int) -> Mapper:
        def rule(chunk: Any, whole: Any, shape: tuple[int, ...]) -> Any:
            if chunk == ((4, 8),):
                return [((place, place + 1),)]  # of rank 1's chunk, and of none of its parts
            return [] if chunk[0][0] >= 4 or chunk[0][1] <= 4 else [((0, SIZE),)]

        return custom(f"gap_at({place})", rule)

    for place in range(6):
        cluster.kernel(SIZE).write(buffer, one_to_one()).submit()
        cluster.kernel(8).read(buffer, gap_at(place)).write(other, one_to_one()).submit()
    cluster.flush()
    on_host = cluster.instructions(1).all("alloc", allocation=lambda name: name[0] == 1, buffer=buffer)
    assert on_host.count_is(1)
    cluster.finish().verify()
    simulate(cluster.program)


def reads_more_in_parts() -> Mapper:
    def rule(chunk: Any, whole: Any, shape: tuple[int, ...]) -> Any:
        low, high = chunk[0]
        return [((low, high + (span(chunk) < SIZE // 2)),)]

    return custom("reads_more_in_parts()", rule)


def writes_more_as_a_whole() -> Mapper:
    def rule(chunk: Any, whole: Any, shape: tuple[int, ...]) -> Any:
        low, high = chunk[0]
        return [((low, high if span(chunk) >= SIZE // 2 else high - 1),)]

    return custom("writes_more_as_a_whole()", rule)


def reads_more_in_ranks() -> Mapper:
    """Wider for chunks of ranks than for the whole."""
    return custom(
        "reads_more_in_ranks()", lambda chunk, whole, shape: [((0, 1),)] if chunk == whole else [((0, span(chunk)),)]
    )


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("mode", ["read", "read_write", "write"])
def test_parts_that_access_more_than_the_chunk_of_their_rank_are_refused(mode: str, division: str) -> None:
    cluster = cluster_for("host", division)
    task = cluster.kernel(SIZE)
    access = getattr(task, mode)(cluster.buffer(SIZE + 1, "array"), reads_more_in_parts())
    violation = violation_of(divided(access, division).submit)
    assert violation.kind == "beyond_whole"
    assert violation.chunk == Box((0,), (8,))
    assert violation.where == Region([Box((8,), (9,))])


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize("mode", ["read_write", "write"])
def test_a_write_that_is_wider_for_the_chunk_of_a_rank_is_refused(mode: str, division: str) -> None:
    cluster = cluster_for("host", division)
    task = cluster.kernel(SIZE)
    access = getattr(task, mode)(cluster.buffer(SIZE, "array"), writes_more_as_a_whole())
    assert violation_of(divided(access, division).submit).kind == "unwritten"


def test_chunks_of_ranks_that_access_more_than_the_whole_are_refused() -> None:
    cluster = Cluster(num_ranks=2)
    task = cluster.kernel(SIZE).read(cluster.buffer(SIZE, "array"), reads_more_in_ranks())
    violation = violation_of(task.submit)
    assert violation.kind == "beyond_whole"
    assert (violation.chunk, violation.num_parts) == (Box((0,), (SIZE,)), 2)
    assert violation.where == violation.of_parts - violation.of_chunk
    assert Box((1,), (8,)) in violation.where


def test_a_wide_read_of_what_another_rank_writes_is_refused_by_all_ranks() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer(SIZE, "array")
    halves = {((0, SIZE),), ((0, SIZE // 2),)}
    wide = custom("wide()", lambda chunk, whole, shape: [((0, SIZE),)] if chunk in halves else [chunk])
    kernel = Kernel(
        ((0, SIZE),), (Access(buffer.number, "read_write", one_to_one()), Access(buffer.number, "read", wide))
    )
    for rank in cluster.ranks:
        violation = violation_of(partial(rank.apply, kernel))
        assert violation.kind == "overlap"
        assert (violation.access, violation.other_access) == (0, 1)
        assert violation.chunk != violation.other_chunk
        assert violation.where
