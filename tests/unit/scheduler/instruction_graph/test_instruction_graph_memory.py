# SPDX-License-Identifier: MIT
"""Allocations: when memory grows, and for how long it lives."""

from __future__ import annotations

import pytest

from tests.support.mappers import Mapper, custom, fixed, history, neighborhood, one_to_one, row_of_columns
from tests.verification.contexts import Cluster
from tests.verification.elements import FlatBox, flat_size
from tests.verification.graph_query import copies, in_memory

HOST = 1
DEVICES = (2, 3)


def test_only_what_is_accessed_is_allocated() -> None:
    cluster = Cluster(num_devices=2)
    cluster.buffer(100, "array")
    used = cluster.buffer(100)
    cluster.kernel(((10, 30),)).write(used, one_to_one()).submit()
    allocs = cluster.instructions().all("alloc")
    assert [record["allocated_box"] for record in allocs] == [(10, 0, 0, 20, 1, 1), (20, 0, 0, 30, 1, 1)]
    cluster.finish().verify()


def test_initial_contents_are_copied_lazily_and_only_where_read() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(100, "array")
    cluster.kernel(((10, 14),)).read(buffer, one_to_one()).submit()
    copied = cluster.instructions().all("copy", reason="initial")
    assert sum(flat_size(box) for record in copied for box in record["boxes"]) == 4
    cluster.finish().verify()


def test_a_function_fills_only_what_is_read() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer(100, "function")
    cluster.kernel(((10, 14),)).read(buffer, one_to_one()).submit()
    for rank in range(2):
        record = cluster.instructions(rank).all("initialize").one()
        assert sum(flat_size(box) for box in record["boxes"]) == 2
    cluster.kernel(((10, 14),)).read(buffer, one_to_one()).submit()
    assert cluster.instructions().all("initialize").count_is(1)
    cluster.finish().verify()


def test_an_access_is_bound_to_one_allocation_that_holds_its_bounding_box() -> None:
    cluster = Cluster()
    buffer = cluster.buffer((10, 10), "array")
    cluster.kernel(1).read(buffer, fixed(((0, 2), (0, 2)), ((6, 8), (5, 7)))).submit()
    assert cluster.instructions().all("alloc").one()["allocated_box"] == (0, 0, 0, 8, 7, 1)
    copied = [box for record in cluster.instructions().all("copy") for box in record["boxes"]]
    assert sum(map(flat_size, copied)) == 8
    cluster.finish().verify()


def periodic_boxes(cluster: Cluster, near: Mapper) -> list[list[FlatBox]]:
    """The boxes that each device of rank 0 allocates of a buffer of 24 x 24 elements, for a step that reads it."""
    u, v = cluster.buffer((24, 24), "array"), cluster.buffer((24, 24))
    cluster.kernel((24, 24), "step").read(u, near).write(v, one_to_one()).split_2d().submit()
    binding = next(iter(cluster.instructions().all(name="step")))["accesses"][0]
    made = [record for record in cluster.instructions().all("alloc") if record["buffer"] == binding["buffer"]]
    memories = range(2, 2 + cluster.program.settings.num_devices)
    return [sorted(alloc["allocated_box"] for alloc in made if alloc["allocation"][0] == m) for m in memories]


def test_far_rows_of_a_periodic_access_have_an_allocation_of_their_own() -> None:
    cluster = Cluster(num_devices=3)  # which divide the rows
    boxes = periodic_boxes(cluster, neighborhood(2, 1, wrap=True))
    assert boxes == [
        [(0, 0, 0, 10, 24, 1), (22, 0, 0, 24, 24, 1)],
        [(6, 0, 0, 18, 24, 1)],
        [(0, 0, 0, 2, 24, 1), (14, 0, 0, 24, 24, 1)],
    ]
    cluster.finish().verify()


@pytest.mark.parametrize("shape", ["box", "axes"])
def test_a_corner_of_a_periodic_buffer_has_a_part_at_each_side(shape: str) -> None:
    cluster = Cluster(num_devices=4)
    first, *_, last = periodic_boxes(cluster, neighborhood(1, 2, shape=shape, wrap=True))
    if shape == "box":
        assert first == [(0, 0, 0, 13, 14, 1), (0, 22, 0, 13, 24, 1), (23, 0, 0, 24, 14, 1), (23, 22, 0, 24, 24, 1)]
        assert last == [(0, 0, 0, 1, 2, 1), (0, 10, 0, 1, 24, 1), (11, 0, 0, 24, 2, 1), (11, 10, 0, 24, 24, 1)]
    else:
        assert first == [(0, 0, 0, 13, 14, 1), (0, 22, 0, 12, 24, 1), (23, 0, 0, 24, 12, 1)]
        assert last == [(0, 12, 0, 1, 24, 1), (11, 10, 0, 24, 24, 1), (12, 0, 0, 24, 2, 1)]
    kernels = list(cluster.instructions().all(name="step"))
    assert [len(kernel["accesses"][0]["parts"]) for kernel in kernels] == [len(first)] * 4
    assert kernels[0]["accesses"][0]["bounding_box"] == (0, 0, 0, 24, 24, 1)
    cluster.finish().verify()


def test_a_device_with_all_of_a_periodic_buffer_has_one_allocation() -> None:
    cluster = Cluster()
    assert periodic_boxes(cluster, neighborhood(1, 1, wrap=True)) == [[(0, 0, 0, 24, 24, 1)]]
    assert not cluster.instructions().all(name="step").one()["accesses"][0]["parts"]
    cluster.finish().verify()


def test_a_region_of_several_boxes_is_one_copy() -> None:
    cluster = Cluster()
    buffer = cluster.buffer((10, 10), "array")
    cluster.kernel(1).read(buffer, fixed(((0, 2), (0, 2)), ((6, 8), (5, 7)))).submit()
    assert len(copies(cluster.instructions(), 0, 2).one()["boxes"]) == 2
    cluster.finish().verify()


def test_distant_parts_have_allocations_of_their_own() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(100)
    cluster.kernel(((0, 10),), "a").write(buffer, one_to_one()).submit()
    cluster.kernel(((50, 60),), "b").write(buffer, one_to_one()).submit()
    graph = cluster.instructions()
    assert graph.all("alloc").count_is(2)
    assert graph.all("alloc").all_concurrent()
    assert graph.all("device_kernel").all_concurrent()
    cluster.finish().verify()


def test_a_growing_access_keeps_what_was_written() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(100)
    cluster.kernel(((20, 30),), "first").write(buffer, one_to_one()).submit()
    cluster.kernel(((10, 40),), "second").write(buffer, fixed_rest()).submit()
    cluster.kernel(1, "reader").read(buffer, fixed(((10, 40),))).submit()
    graph = cluster.instructions()
    resize = graph.all("copy", reason="resize")
    assert resize.one()["boxes"] == [(20, 0, 0, 30, 1, 1)]
    assert graph.all(name="first").each_reaches(resize)
    assert resize.each_reaches(graph.all("free"))
    cluster.finish().verify()


def fixed_rest() -> Mapper:
    """Of a kernel over [10:40) everything but [20:30)."""

    return custom(
        "all but [20:30)",
        lambda chunk, whole, shape: [
            ((chunk[0][0], min(chunk[0][1], 20)),),
            ((max(chunk[0][0], 30), chunk[0][1]),),
        ],
    )


def test_a_growing_write_copies_nothing_that_it_discards() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(100)
    cluster.kernel(((20, 30),)).write(buffer, one_to_one()).submit()
    cluster.kernel(((10, 40),)).write(buffer, one_to_one()).submit()
    assert cluster.instructions().all("copy", reason="resize").is_empty()
    cluster.finish().verify()


def test_an_updating_access_preserves_old_data_across_a_resize() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(100, "array")
    cluster.kernel(((20, 30),)).read_write(buffer, one_to_one()).submit()
    cluster.kernel(((10, 40),)).read_write(buffer, one_to_one()).submit()
    cluster.fence(buffer)
    resize = cluster.instructions().all("copy", reason="resize")
    assert next(record["boxes"] for record in resize) == [(20, 0, 0, 30, 1, 1)]
    cluster.finish().verify()


@pytest.mark.parametrize("lookahead", ["auto", "infinite"])
@pytest.mark.parametrize("read_columns", ["own", "all"])
def test_lookahead_allocates_a_growing_pattern_once(lookahead: str, read_columns: str) -> None:
    rows, columns = 12, 8
    cluster = Cluster(num_ranks=2, num_devices=2, lookahead=lookahead)
    buffer = cluster.buffer((rows, columns))
    for row in range(rows):
        past = history(row) if read_columns == "own" else fixed(((0, max(row, 1)), (0, columns)))
        task = cluster.kernel(columns).write(buffer, row_of_columns(row))
        (task.read(buffer, past) if row else task).submit()
    cluster.wait()
    for rank in range(2):
        graph = cluster.instructions(rank)
        for memory in DEVICES:
            assert in_memory(graph, "alloc", memory).count_is(1)
        assert graph.all("copy", reason="resize").is_empty()
    cluster.finish().verify()


def test_without_lookahead_a_growing_pattern_is_allocated_again_and_again() -> None:
    cluster = Cluster(lookahead="none")
    buffer = cluster.buffer((6, 4))
    for row in range(6):
        task = cluster.kernel(4).write(buffer, row_of_columns(row))
        (task.read(buffer, history(row)) if row else task).submit()
    assert len(cluster.instructions().all("alloc")) > 3
    cluster.finish().verify()


def test_lookahead_gives_halos_one_allocation() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, lookahead="auto")
    u, v = cluster.buffer((16, 16)), cluster.buffer((16, 16))
    cluster.kernel((16, 16)).write(u, one_to_one()).submit()
    cluster.kernel((16, 16)).write(v, one_to_one()).submit()
    for _ in range(12):
        cluster.kernel((16, 16)).read_write(v, one_to_one()).read(u, neighborhood(1, 1, shape="axes")).submit()
        u, v = v, u
    cluster.wait()
    for rank in range(2):
        for memory in DEVICES:
            assert in_memory(cluster.instructions(rank), "alloc", memory).count_is(2)
    cluster.finish().verify()


def test_a_fence_ends_the_lookahead() -> None:
    cluster = Cluster(lookahead="infinite")
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    assert cluster.instructions().all("device_kernel").is_empty()
    cluster.fence(buffer)
    assert cluster.instructions().all("device_kernel").count_is(1)
    cluster.finish().verify()


def test_a_flush_ends_the_lookahead() -> None:
    cluster = Cluster(lookahead="infinite")
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.flush()
    assert cluster.instructions().all("device_kernel").count_is(1)
    cluster.finish().verify()


def test_work_that_needs_no_new_memory_is_not_held_back() -> None:
    cluster = Cluster(lookahead="auto")
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.flush()
    cluster.kernel(8, "second").read_write(buffer, one_to_one()).submit()
    assert cluster.instructions().all(name="second").count_is(1)
    cluster.finish().verify()


def test_a_destroyed_buffer_is_freed_behind_its_last_use_and_not_before() -> None:
    cluster = Cluster(num_devices=2)
    buffer, other = cluster.buffer(16, "array"), cluster.buffer(16, "array")
    cluster.kernel(16, "user").read_write(buffer, one_to_one()).submit()
    cluster.destroy(buffer)
    cluster.kernel(16, "unrelated").read_write(other, one_to_one()).submit()
    graph = cluster.instructions()
    for memory in DEVICES:
        kernel = graph.all(name="user", device=memory - 2)
        assert kernel.each_reaches(in_memory(graph, "free", memory))
    assert graph.all("free").is_concurrent_with(graph.all(name="unrelated"))
    cluster.finish().verify()


def test_the_users_array_is_released_when_the_buffer_dies() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(16, "array")
    cluster.kernel(16).read(buffer, one_to_one()).submit()
    cluster.destroy(buffer)
    graph = cluster.instructions()
    assert graph.all("copy", reason="initial").each_reaches(in_memory(graph, "free", 0))
    cluster.finish().verify()
