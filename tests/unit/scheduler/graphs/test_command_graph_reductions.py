# SPDX-License-Identifier: MIT
"""Reductions among ranks: only when somebody reads the result, every share once."""

from __future__ import annotations

import pytest

from tests.property.programs import Mode
from tests.property.simulator import World
from tests.support.mappers import all_, custom, one_to_one, shifted
from tests.verification.contexts import Cluster
from tests.verification.verifier import verify

RANKS = (1, 2, 3, 4)


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_result_that_everybody_reads_is_reduced_everywhere(num_ranks: int) -> None:
    cluster = Cluster(num_ranks=num_ranks, num_devices=2)
    scalar = cluster.buffer(1)
    cluster.kernel(16, "producer").reduce(scalar).submit()
    cluster.kernel(16, "consumer").read(scalar, all_()).submit()
    for rank in range(num_ranks):
        commands = cluster.commands(rank)
        assert commands.all("push").count_is(1 if num_ranks > 1 else 0)
        assert commands.all("reduction").count_is(1 if num_ranks > 1 else 0)
    cluster.finish().verify()


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_result_that_nobody_reads_is_never_transferred(num_ranks: int) -> None:
    cluster = Cluster(num_ranks=num_ranks, num_devices=2)
    scalar = cluster.buffer(1)
    cluster.kernel(16, "producer").reduce(scalar).submit()
    cluster.kernel(16, "overwriter").reduce(scalar).submit()
    cluster.host_task(name="writer").write(scalar, all_()).submit()
    cluster.kernel(16, "consumer").read(scalar, all_()).submit()
    for rank in range(num_ranks):
        assert cluster.commands(rank).all("reduction").is_empty()
    cluster.finish().verify()


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_result_that_one_rank_reads_is_reduced_there(num_ranks: int) -> None:
    cluster = Cluster(num_ranks=num_ranks)
    scalar = cluster.buffer(1)
    cluster.kernel(16, "producer").reduce(scalar, "max").submit()
    cluster.host_task(name="consumer").read(scalar, all_()).submit()
    for rank in range(1, num_ranks):
        assert cluster.commands(rank).all("reduction").is_empty()
        assert [target for target, _ in cluster.commands(rank).all("push").one()["targets"]] == [0]
    cluster.finish().verify()


def test_some_of_the_ranks_may_read_the_result_and_the_others_later() -> None:
    cluster = Cluster(num_ranks=4)
    scalar, other = cluster.buffer(1), cluster.buffer(2)
    cluster.kernel(16, "producer").reduce(scalar).submit()
    cluster.kernel(2, "two ranks").read(scalar, all_()).write(other, one_to_one()).submit()
    cluster.kernel(16, "all ranks").read(scalar, all_()).submit()
    assert [len(cluster.commands(rank).all("reduction")) for rank in range(4)] == [1, 1, 0, 0]
    cluster.fence(scalar)
    cluster.finish().verify()


@pytest.mark.parametrize("num_devices", [1, 2, 3])
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_the_current_value_counts_once(num_ranks: int, num_devices: int) -> None:
    cluster = Cluster(num_ranks=num_ranks, num_devices=num_devices)
    scalar = cluster.buffer(1, "array")
    for _ in range(3):
        cluster.kernel(16).reduce(scalar, "sum", include_current=True).submit()
    cluster.fence(scalar)
    cluster.finish().verify()


def test_the_current_value_is_brought_to_the_rank_that_counts_it() -> None:
    cluster = Cluster(num_ranks=2)
    scalar, data = cluster.buffer(()), cluster.buffer(8)
    cluster.kernel(8, "other").write(data, one_to_one()).submit()
    cluster.kernel((), "writer").write(scalar, all_()).submit()
    cluster.kernel(8, "producer").reduce(scalar, include_current=True).submit()
    cluster.fence(scalar)
    cluster.finish().verify()


def test_several_reductions_in_one_kernel_are_independent() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    least, most = cluster.buffer(1), cluster.buffer((1, 1), "array")
    cluster.kernel(16, "producer").reduce(least, "min").reduce(most, "max", include_current=True).submit()
    cluster.kernel(16, "consumer").read(least, all_()).read(most, all_()).submit()
    commands = cluster.commands(0)
    assert commands.all("reduction").count_is(2)
    assert commands.all("reduction").all_concurrent()
    cluster.finish().verify()


@pytest.mark.parametrize("items", [1, 2, 3])
def test_fewer_chunks_than_ranks_give_fewer_shares(items: int) -> None:
    cluster = Cluster(num_ranks=4, num_devices=2)
    scalar = cluster.buffer(1, "array")
    cluster.kernel(items, "producer").reduce(scalar, include_current=True).submit()
    cluster.kernel(16, "consumer").read(scalar, all_()).submit()
    for rank in range(4):
        expected = 3 if rank < items and items > 1 else 0
        targets = [target for record in cluster.commands(rank).all("push") for target, _ in record["targets"]]
        assert len(targets) == (expected if items > 1 else 3 * (rank == 0))
    cluster.finish().verify()


def test_the_own_share_may_be_overwritten_only_after_it_was_pushed() -> None:
    cluster = Cluster(num_ranks=2)
    scalar = cluster.buffer(1)
    cluster.kernel(16, "producer").reduce(scalar).submit()
    cluster.kernel(16, "consumer").read(scalar, all_()).submit()
    for rank in range(2):
        commands = cluster.commands(rank)
        assert commands.all("push").each_reaches(commands.all("reduction"))
    cluster.finish().verify()


def test_a_result_may_go_into_the_next_reduction() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, horizon_step=1)
    first, second = cluster.buffer(1), cluster.buffer(1)
    for _ in range(3):
        cluster.kernel(12).reduce(first).submit()
        cluster.kernel(12).read(first, all_()).reduce(second, "prod").submit()
        cluster.kernel(12).read(second, all_()).reduce(first, "min").submit()
    cluster.fence(first)
    cluster.fence(second, on_all=False)
    cluster.finish().verify()


def test_a_reduced_buffer_may_be_overwritten_without_being_read() -> None:
    cluster = Cluster(num_ranks=2)
    scalar = cluster.buffer(1, "array")
    cluster.kernel(16).reduce(scalar).submit()
    cluster.kernel(1).write(scalar, one_to_one()).submit()
    cluster.kernel(16).read(scalar, all_()).submit()
    for rank in range(2):
        assert cluster.commands(rank).all("reduction").is_empty()
    cluster.finish().verify()


@pytest.mark.parametrize("mode", ["write", "read_write", "read"])
@pytest.mark.parametrize("num_ranks", RANKS)
def test_an_access_that_clamps_to_nothing_leaves_a_pending_reduction_alone(num_ranks: int, mode: Mode) -> None:
    cluster = Cluster(num_ranks=num_ranks, num_devices=2)
    scalar = cluster.buffer(1, "array")
    nothing = custom("nothing()", lambda chunk, whole, shape: [])
    cluster.kernel(16).reduce(scalar, include_current=True).submit()
    getattr(cluster.kernel(((5, 9),)), mode)(scalar, shifted(0)).submit()
    getattr(cluster.kernel(8), mode)(scalar, nothing).submit()
    getattr(cluster.host_task(), mode)(scalar, nothing).submit()
    cluster.fence(scalar, ((0, 0),))
    cluster.kernel(16).read(scalar, all_()).submit()
    cluster.fence(scalar)
    cluster.finish().verify()
    world = World(cluster.program)
    world.run()
    verify(cluster.program, world.traces, world.meaning)


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_write_that_only_one_rank_makes_replaces_a_pending_reduction_on_all(num_ranks: int) -> None:
    cluster = Cluster(num_ranks=num_ranks)
    scalar = cluster.buffer(1)
    cluster.kernel(16).reduce(scalar).submit()
    cluster.kernel(((-7, 1),)).write(scalar, shifted(0)).submit()
    cluster.fence(scalar)
    for rank in range(num_ranks):
        assert cluster.commands(rank).all("reduction").is_empty()
    cluster.finish().verify()
