# SPDX-License-Identifier: MIT
"""Who sends what to whom: nothing twice, nothing stale, nothing to spare."""

from __future__ import annotations

import pytest

from tests.support.mappers import Mapper, all_, fixed, neighborhood, one_to_one, rows_apart, slice_
from tests.verification.contexts import Cluster
from tests.verification.elements import flat_size


def pushed_elements(cluster: Cluster, rank: int) -> int:
    return sum(
        flat_size(box)
        for record in cluster.commands(rank).all("push")
        for _, boxes in record["targets"]
        for box in boxes
    )


def test_the_halo_of_a_stencil_goes_to_both_neighbours() -> None:
    cluster = Cluster(num_ranks=3)
    u, v = cluster.buffer(12, "array"), cluster.buffer(12)
    cluster.kernel(12, "update").read_write(u, one_to_one()).submit()
    cluster.kernel(12, "step").read(u, neighborhood(1)).write(v, one_to_one()).submit()
    assert [pushed_elements(cluster, rank) for rank in range(3)] == [1, 2, 1]
    cluster.finish().verify()


def test_a_halo_row_read_by_two_kernels_is_sent_once() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer((8, 4), "array")
    cluster.kernel((8, 4), "update").read_write(u, one_to_one()).submit()
    for name in ("first", "second"):
        cluster.kernel((8, 4), name).read(u, neighborhood(1, 0)).submit()
    for rank in range(2):
        assert cluster.commands(rank).all("push").count_is(1)
        assert cluster.commands(rank).all("await_push").count_is(1)
    cluster.finish().verify()


def test_only_the_missing_part_of_a_larger_halo_is_sent() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(16, "array")
    cluster.kernel(16).read_write(u, one_to_one()).submit()
    cluster.kernel(16).read(u, neighborhood(1)).submit()
    cluster.kernel(16).read(u, neighborhood(3)).submit()
    sizes = [sum(flat_size(box) for box in record["awaited"]) for record in cluster.commands(0).all("await_push")]
    assert sizes == [1, 2]
    cluster.finish().verify()


def test_a_write_makes_copies_stale_again() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8, "array")
    for _ in range(3):
        cluster.kernel(8).read_write(u, one_to_one()).submit()
        cluster.kernel(8).read(u, all_()).submit()
    for rank in range(2):
        assert cluster.commands(rank).all("push").count_is(3)
    cluster.finish().verify()


def test_a_write_to_a_part_makes_only_that_part_stale() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8, "array")
    cluster.kernel(8).read_write(u, one_to_one()).submit()
    cluster.kernel(8).read(u, all_()).submit()
    cluster.kernel(((0, 1),)).read_write(u, one_to_one()).submit()
    cluster.kernel(8).read(u, all_()).submit()
    assert pushed_elements(cluster, 0) == 4 + 1
    assert pushed_elements(cluster, 1) == 4
    cluster.finish().verify()


@pytest.mark.parametrize("initial", ["array", "function"])
def test_initial_contents_are_never_sent(initial: str) -> None:
    cluster = Cluster(num_ranks=3, num_devices=2)
    u = cluster.buffer(9, "array" if initial == "array" else "function")
    cluster.kernel(9).read(u, all_()).submit()
    cluster.kernel(9).read(u, neighborhood(2)).submit()
    for rank in range(3):
        assert cluster.commands(rank).all("push", "await_push").is_empty()
    cluster.finish().verify()


def test_a_discarding_write_transfers_nothing() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer((4, 4), "array")
    cluster.kernel((4, 4)).read_write(u, one_to_one()).submit()
    cluster.kernel(4).write(u, slice_(0)).submit()
    for rank in range(2):
        assert cluster.commands(rank).all("push", "await_push").is_empty()
    cluster.fence(u)
    cluster.finish().verify()


def test_an_updating_write_needs_the_old_contents() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer((4, 4), "array")
    cluster.kernel((4, 4)).read_write(u, one_to_one()).submit()
    cluster.kernel(4).read_write(u, slice_(0)).submit()
    for rank in range(2):
        assert cluster.commands(rank).all("push").count_is(1)
        assert cluster.commands(rank).all("await_push").count_is(1)
    cluster.fence(u)
    cluster.finish().verify()


def test_one_push_serves_all_ranks_that_read() -> None:
    cluster = Cluster(num_ranks=4)
    u = cluster.buffer(8)
    cluster.host_task(name="writer").write(u, all_()).submit()
    cluster.kernel(8, "reader").read(u, all_()).submit()
    push = cluster.commands(0).all("push").one()
    assert sorted(rank for rank, _ in push["targets"]) == [1, 2, 3]
    for rank in range(1, 4):
        assert cluster.commands(rank).all("push").is_empty()
        assert cluster.commands(rank).all("await_push").count_is(1)
    cluster.finish().verify()


def test_one_await_collects_what_several_ranks_push() -> None:
    cluster = Cluster(num_ranks=4)
    u = cluster.buffer(8)
    cluster.kernel(8).write(u, one_to_one()).submit()
    cluster.host_task(name="reader").read(u, all_()).submit()
    assert cluster.commands(0).all("await_push").count_is(1)
    assert sum(len(cluster.commands(rank).all("push")) for rank in range(4)) == 3
    cluster.finish().verify()


def test_two_buffers_are_transferred_independently() -> None:
    cluster = Cluster(num_ranks=2)
    u, v = cluster.buffer(8), cluster.buffer(8)
    cluster.kernel(8, "write u").write(u, one_to_one()).submit()
    cluster.kernel(8, "write v").write(v, one_to_one()).submit()
    cluster.kernel(8, "reader").read(u, all_()).read(v, all_()).submit()
    commands = cluster.commands(0)
    assert commands.all("push").count_is(2)
    assert commands.all("push").all_concurrent()
    assert commands.all("await_push").all_concurrent()
    assert commands.all("push", buffer=u).is_concurrent_with(commands.all(name="write v"))
    cluster.finish().verify()


def test_pushes_and_awaits_of_one_task_are_concurrent() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8)
    cluster.kernel(8, "writer").write(u, one_to_one()).submit()
    cluster.kernel(8, "reader").read(u, neighborhood(1)).submit()
    commands = cluster.commands(0)
    assert commands.all("push").is_concurrent_with(
        commands.all("await_push") | commands.all(name="reader").predecessors("await_push")
    )
    assert commands.all("push").is_concurrent_with(commands.all("execution", name="reader"))
    cluster.finish().verify()


def test_a_writer_waits_for_the_push_of_what_it_overwrites() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8)
    cluster.kernel(8, "writer").write(u, one_to_one()).submit()
    cluster.kernel(8, "reader").read(u, neighborhood(1)).submit()
    cluster.kernel(((3, 4),), "overwriter").write(u, one_to_one()).submit()
    cluster.kernel(((0, 1),), "far").write(u, one_to_one()).submit()
    commands = cluster.commands(0)
    assert commands.all("push").each_reaches(commands.all("execution", name="overwriter"))
    assert commands.all("push").is_concurrent_with(commands.all("execution", name="far"))
    cluster.finish().verify()


def test_an_await_waits_for_readers_of_the_same_elements_only() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8, "array")
    cluster.kernel(((0, 4),), "reader of the front").read(u, fixed(((0, 4),))).submit()
    cluster.kernel(8, "writer").write(u, one_to_one()).submit()
    cluster.kernel(8, "reader").read(u, all_()).submit()
    commands = cluster.commands(0)
    assert commands.all("await_push").is_concurrent_with(commands.all(name="reader of the front", where=is_execution))
    cluster.finish().verify()


def is_execution(record: dict[str, object]) -> bool:
    return record["kind"] == "execution"


def test_a_plus_shaped_halo_has_no_diagonal_traffic() -> None:
    cluster = Cluster(num_ranks=4)
    u, v = cluster.buffer((8, 8), "array"), cluster.buffer((8, 8), "array")
    for _ in range(3):
        cluster.kernel((8, 8)).read(u, neighborhood(1, 1, shape="axes")).write(v, one_to_one()).split_2d().submit()
        u, v = v, u
    for rank in range(4):
        for record in cluster.commands(rank).all("push"):
            assert 3 - rank not in [target for target, _ in record["targets"]]
    cluster.finish().verify()


def test_a_box_shaped_halo_has_diagonal_traffic() -> None:
    cluster = Cluster(num_ranks=4)
    u = cluster.buffer((8, 8), "array")
    cluster.kernel((8, 8)).read_write(u, one_to_one()).split_2d().submit()
    cluster.kernel((8, 8)).read(u, neighborhood(1, 1, shape="box")).split_2d().submit()
    for rank in range(4):
        push = cluster.commands(rank).all("push").one()
        assert sorted(target for target, _ in push["targets"]) == sorted({0, 1, 2, 3} - {rank})
    cluster.finish().verify()


def test_ownership_moves_with_the_writer() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer(8)
    cluster.kernel(8, "first").write(u, one_to_one()).submit()
    cluster.host_task(name="rank 0 takes all").read_write(u, all_()).submit()
    cluster.kernel(8, "reader").read(u, one_to_one()).submit()
    assert pushed_elements(cluster, 0) == 4
    assert pushed_elements(cluster, 1) == 4
    cluster.finish().verify()


def test_who_got_a_copy_does_not_pass_it_on() -> None:
    cluster = Cluster(num_ranks=3)
    u = cluster.buffer(9)
    cluster.host_task(name="writer").write(u, all_()).submit()
    cluster.kernel(((0, 2),), "reader on two ranks").read(u, all_()).submit()
    cluster.kernel(9, "reader on three ranks").read(u, all_()).submit()
    assert cluster.commands(1).all("push").is_empty()
    assert pushed_elements(cluster, 0) == 2 * 9
    cluster.finish().verify()


def test_a_region_with_holes_is_sent_without_the_holes() -> None:
    cluster = Cluster(num_ranks=2)
    u = cluster.buffer((8, 2), "array")
    cluster.kernel((8, 2)).read_write(u, one_to_one()).submit()
    cluster.host_task(4, "reader").read(u, rows_apart(2, 1)).submit()
    assert pushed_elements(cluster, 0) + pushed_elements(cluster, 1) == 0
    cluster.host_task(name="reader of all").read(u, rows_everywhere()).submit()
    assert pushed_elements(cluster, 1) == 4
    cluster.finish().verify()


def rows_everywhere() -> Mapper:
    return fixed(((1, 2), (0, 2)), ((5, 6), (0, 2)), ((7, 8), (0, 2)))


def test_a_fence_gathers_the_buffer_on_every_rank() -> None:
    cluster = Cluster(num_ranks=3)
    u = cluster.buffer(9)
    cluster.kernel(9).write(u, one_to_one()).submit()
    cluster.fence(u)
    for rank in range(3):
        assert pushed_elements(cluster, rank) == 6
        assert cluster.commands(rank).all("fence").count_is(1)
    cluster.finish().verify()


def test_a_fence_on_the_master_gathers_there_only() -> None:
    cluster = Cluster(num_ranks=3)
    u = cluster.buffer(9)
    cluster.kernel(9).write(u, one_to_one()).submit()
    cluster.fence(u, ((2, 8),), on_all=False)
    assert [pushed_elements(cluster, rank) for rank in range(3)] == [0, 3, 2]
    cluster.finish().verify()


def test_transfers_across_applied_horizons_stay_right() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, horizon_step=1)
    u, v, old = cluster.buffer(12, "array"), cluster.buffer(12, "array"), cluster.buffer(12)
    cluster.kernel(12, "old writer").write(old, one_to_one()).submit()
    for _ in range(8):
        cluster.kernel(12).read(u, neighborhood(1)).write(v, one_to_one()).submit()
        u, v = v, u
    cluster.kernel(12, "old reader").read(old, all_()).submit()
    assert pushed_elements(cluster, 0) > 0
    cluster.fence(old)
    cluster.finish().verify()
