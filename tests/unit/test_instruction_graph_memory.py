# SPDX-License-Identifier: MIT
"""Allocations and copies: when memory grows, from where data comes."""

from __future__ import annotations

import pytest

from tests.support.mappers import Mapper, all_, fixed, history, neighborhood, one_to_one, row_of_columns, slice_
from tests.verification.contexts import Cluster
from tests.verification.elements import flat_size
from tests.verification.graph_query import Graph, Selection

HOST = 1
DEVICES = (2, 3)


def in_memory(graph: Graph, kind: str, memory: int) -> Selection:
    return graph.all(kind, allocation=lambda name: name[0] == memory)


def copies(graph: Graph, source: int, destination: int) -> Selection:
    return graph.all("copy", where=lambda r: r["source"][0] == source and r["destination"][0] == destination)


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
    from tests.support.mappers import custom

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


def test_copies_are_split_by_writer_so_that_each_starts_early() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(16, "array")
    cluster.kernel(16, "allocates all").read(buffer, all_()).submit()
    cluster.kernel(16, "writer").write(buffer, one_to_one()).oversubscribe(2).submit()
    cluster.kernel(16, "reader").read(buffer, all_()).submit()
    graph = cluster.instructions()
    peer = copies(graph, 2, 3)
    assert peer.count_is(2)
    assert peer.all_concurrent()
    for record in peer:
        assert graph.all("copy", id=record["id"]).predecessors(name="writer").count_is(1)
    cluster.finish().verify()


@pytest.mark.parametrize(("joined_bytes", "count"), [(31, 2), (32, 1), (2**30, 1)])
def test_what_is_little_is_copied_in_one_piece_although_several_have_written_it(joined_bytes: int, count: int) -> None:
    cluster = Cluster(num_devices=2, joined_bytes=joined_bytes)
    buffer = cluster.buffer(16, "array")
    cluster.kernel(16, "allocates all").read(buffer, all_()).submit()
    cluster.kernel(16, "writer").write(buffer, one_to_one()).oversubscribe(2).submit()
    cluster.kernel(16, "reader").read(buffer, all_()).submit()
    graph = cluster.instructions()
    for peer in (copies(graph, 2, 3), copies(graph, 3, 2)):
        assert peer.count_is(count)
        for record in peer:
            assert graph.all("copy", id=record["id"]).predecessors(name="writer").count_is(2 // count)
    cluster.finish().verify()


# Elements of 8 bytes: a device lacks 12 of 18.
@pytest.mark.parametrize(("gathered_bytes", "is_gathered"), [(0, False), (95, False), (96, True), (2**30, True)])
def test_little_of_several_devices_arrives_with_one_instruction(gathered_bytes: int, is_gathered: bool) -> None:
    cluster = Cluster(num_devices=3, gathered_bytes=gathered_bytes)
    buffer = cluster.buffer(18, "array", element_size_bytes=8)
    cluster.kernel(18, "allocates all").read(buffer, all_()).submit()
    cluster.kernel(18, "writer").write(buffer, one_to_one()).submit()
    cluster.kernel(18, "reader").read(buffer, all_()).submit()
    graph = cluster.instructions()
    for destination in (2, 3, 4):
        others = {2, 3, 4} - {destination}
        gathers = graph.all("gather_copy", destination=lambda name, memory=destination: name[0] == memory)
        assert gathers.count_is(int(is_gathered))
        for source in others:
            assert copies(graph, source, destination).count_is(int(not is_gathered))
        if is_gathered:
            assert {source["allocation"][0] for source in next(iter(gathers))["sources"]} == others
            assert gathers.predecessors(name="writer").count_is(2)
            assert gathers.successors(name="reader").count_is(1)
    cluster.finish().verify()


def test_what_host_memory_or_devices_without_a_link_have_is_not_gathered() -> None:
    cluster = Cluster(num_devices=3, device_peers=False, gathered_bytes=2**30)
    buffer = cluster.buffer(18, "array")
    cluster.kernel(((0, 12),), "writer").write(buffer, one_to_one()).submit()
    cluster.host_task(name="on the host").write(buffer, fixed(((12, 15),))).submit()
    cluster.kernel(18, "reader").read(buffer, all_()).submit()
    assert cluster.instructions().all("gather_copy").is_empty()
    cluster.finish().verify()


def test_what_several_producers_on_a_device_make_is_not_gathered_unless_it_leaves_together() -> None:
    for joined_bytes, is_gathered in ((0, False), (2**30, True)):
        cluster = Cluster(num_devices=3, joined_bytes=joined_bytes, gathered_bytes=2**30)
        buffer = cluster.buffer(18, "array")
        cluster.kernel(18, "allocates all").read(buffer, all_()).submit()
        cluster.kernel(18, "writer").write(buffer, one_to_one()).oversubscribe(2).submit()
        cluster.kernel(18, "reader").read(buffer, all_()).submit()
        graph = cluster.instructions()
        assert graph.all("gather_copy").count_is(3 if is_gathered else 0)
        for record in copies(graph, 2, 3):
            assert graph.all("copy", id=record["id"]).predecessors(name="writer").count_is(1)
        cluster.finish().verify()


def test_no_more_boxes_are_gathered_than_a_device_fetches_at_once() -> None:
    for num_devices, is_gathered in ((9, True), (10, False)):
        cluster = Cluster(num_devices=num_devices, gathered_bytes=2**30)
        buffer = cluster.buffer(90)
        cluster.kernel(90, "writer").write(buffer, one_to_one()).submit()
        cluster.kernel(90, "reader").read(buffer, all_()).submit()
        assert cluster.instructions().all("gather_copy").count_is(num_devices if is_gathered else 0)
        cluster.finish().verify()


def test_chunks_on_one_device_wait_only_for_what_is_gathered_for_them() -> None:
    cluster = Cluster(num_devices=3, gathered_bytes=2**30)
    buffer = cluster.buffer(36)
    cluster.kernel(36, "writer").write(buffer, one_to_one()).submit()
    cluster.kernel(36, "reader").read(buffer, neighborhood(13)).oversubscribe(2).submit()
    graph = cluster.instructions()
    # Device 1 has [12, 24). Its chunks read [0, 31) and [5, 36): both of them what lies between, on either side.
    shared = graph.all("gather_copy", destination=lambda name: name[0] == 3)
    assert shared.count_is(1)
    boxes = {tuple(box) for source in shared.one()["sources"] for box in source["boxes"]}
    assert boxes == {(5, 0, 0, 12, 1, 1), (24, 0, 0, 31, 1, 1)}
    assert shared.successors(name="reader").count_is(2)
    for source, chunk in ((2, (12, 0, 0, 18, 1, 1)), (4, (18, 0, 0, 24, 1, 1))):
        assert copies(graph, source, 3).count_is(1)
        other = graph.all(name="reader", device=1) - graph.all(name="reader", chunk=chunk)
        assert copies(graph, source, 3).each_reaches(graph.all(name="reader", chunk=chunk))
        assert other.is_concurrent_with(copies(graph, source, 3))
    cluster.finish().verify()


def test_readers_wait_only_for_the_copies_they_need() -> None:
    cluster = Cluster(num_devices=2)
    u = cluster.buffer(16)
    cluster.kernel(16, "writer").write(u, one_to_one()).oversubscribe(2).submit()
    cluster.kernel(16, "reader").read(u, neighborhood(1)).oversubscribe(2).submit()
    graph = cluster.instructions()
    inner = graph.all(name="reader", chunk=(0, 0, 0, 4, 1, 1))
    assert inner.is_concurrent_with(copies(graph, 3, 2))
    cluster.finish().verify()


def test_peers_copy_directly() -> None:
    cluster = Cluster(num_devices=2, device_peers=True)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    graph = cluster.instructions()
    assert copies(graph, 2, 3).count_is(1)
    assert copies(graph, 3, 2).count_is(1)
    assert in_memory(graph, "alloc", HOST).is_empty()
    cluster.finish().verify()


def test_devices_that_are_no_peers_copy_through_the_host() -> None:
    cluster = Cluster(num_devices=2, device_peers=False)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    graph = cluster.instructions()
    assert copies(graph, 2, 3).is_empty()
    assert copies(graph, 2, HOST).each_reaches(copies(graph, HOST, 3))
    cluster.finish().verify()


def test_a_broadcast_crosses_the_link_of_its_source_once() -> None:
    cluster = Cluster(num_devices=3, device_peers=False)
    buffer = cluster.buffer(16)
    cluster.kernel(1, "writer").write(buffer, all_()).submit()
    cluster.kernel(3, "reader").read(buffer, all_()).submit()
    graph = cluster.instructions()
    assert copies(graph, 2, HOST).count_is(1)
    assert copies(graph, HOST, 3).count_is(1)
    assert copies(graph, HOST, 4).count_is(1)
    assert copies(graph, HOST, 3).is_concurrent_with(copies(graph, HOST, 4))
    cluster.finish().verify()


def test_narrow_columns_are_packed_on_the_device() -> None:
    cluster = Cluster(num_devices=2, device_peers=False)
    buffer = cluster.buffer((64, 64))
    cluster.kernel((64, 64)).write(buffer, one_to_one()).submit()
    cluster.kernel((64, 64), "columns").read(buffer, fixed(((0, 64), (3, 4)))).submit()
    graph = cluster.instructions()
    packing = graph.all("copy", source=(2, 1), reason="staging") | (
        copies(graph, 2, 2) - graph.all("copy", reason="resize")
    )
    packing &= graph.all("copy", destination_layout=lambda layout: layout["is_linear"])
    assert (packing & copies(graph, 2, 2)).count_is(1)
    assert packing.each_reaches(copies(graph, 1, 3))
    cluster.finish().verify()


def test_staging_memory_is_used_again_after_two_horizons() -> None:
    cluster = Cluster(num_devices=2, device_peers=False, horizon_step=1)
    u, v = cluster.buffer(64), cluster.buffer(64, "array")
    for _ in range(20):
        cluster.kernel(64).write(u, one_to_one()).read(v, all_()).submit()
        cluster.kernel(64).write(v, one_to_one()).read(u, all_()).submit()
    staging = cluster.instructions().all("alloc", where=lambda r: r["buffer"] == 0)
    assert 0 < len(staging) < 15
    cluster.finish().verify()


def test_unrelated_staged_copies_are_concurrent() -> None:
    cluster = Cluster(num_devices=2, device_peers=False)
    u, v = cluster.buffer(16), cluster.buffer(16)
    cluster.kernel(16, "u").write(u, one_to_one()).submit()
    cluster.kernel(16, "v").write(v, one_to_one()).submit()
    cluster.kernel(16, "read u").read(u, all_()).submit()
    cluster.kernel(16, "read v").read(v, all_()).submit()
    graph = cluster.instructions()
    staged = graph.all("copy", reason="staging")
    assert (staged & graph.all("copy", buffer=u)).is_concurrent_with(staged & graph.all("copy", buffer=v))
    cluster.finish().verify()


def test_data_is_copied_once_however_many_chunks_read_it() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(16, "array")
    cluster.kernel(16).read(buffer, all_()).oversubscribe(4).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    graph = cluster.instructions()
    for memory in DEVICES:
        copied = graph.all("copy", destination=lambda name, memory=memory: name[0] == memory)
        assert sum(flat_size(box) for record in copied for box in record["boxes"]) == 16
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


def test_kernels_are_split_over_devices_first_and_then_oversubscribed() -> None:
    cluster = Cluster(num_devices=2)
    cluster.kernel(16, "kernel").oversubscribe(2).submit()
    chunks = [(record["device"], record["chunk"][0]) for record in cluster.instructions().all("device_kernel")]
    assert sorted(chunks) == [(0, 0), (0, 4), (1, 8), (1, 12)]
    cluster.finish().verify()


def test_borders_next_to_other_shares_come_first() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    cluster.kernel(32, "kernel").border_first(2).submit()
    found = [
        [(record["chunk"][0], record["chunk"][3]) for record in cluster.instructions(rank).all("device_kernel")]
        for rank in range(2)
    ]
    assert found[0] == [(6, 8), (0, 6), (8, 10), (14, 16), (10, 14)]
    assert found[1] == [(16, 18), (22, 24), (18, 22), (24, 26), (26, 32)]
    cluster.finish().verify()


@pytest.mark.parametrize(("extent", "width"), [(12, 2), (12, 100), (4, 1)])
def test_a_share_that_its_borders_would_use_up_stays_whole(extent: int, width: int) -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel(extent, "kernel").border_first(width).submit()
    shares = sorted(record["chunk"][3] - record["chunk"][0] for record in cluster.instructions().all("device_kernel"))
    assert sum(shares) == extent
    # The first and the last share have one border only.
    assert len(shares) == 4 + (2 if extent > 4 * width else 0)
    cluster.finish().verify()


def test_borders_are_multiples_of_the_constraint() -> None:
    cluster = Cluster(num_devices=2)
    cluster.kernel(32, "kernel").constrain(4).border_first(1).submit()
    boxes = [(record["chunk"][0], record["chunk"][3]) for record in cluster.instructions().all("device_kernel")]
    assert boxes == [(12, 16), (0, 12), (16, 20), (20, 32)]
    cluster.finish().verify()


def test_a_two_dimensional_split_has_borders_on_all_inner_sides() -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel((8, 8), "kernel").split_2d().border_first().submit()
    boxes = [record["chunk"] for record in cluster.instructions().all("device_kernel") if record["device"] == 0]
    assert [(box[0], box[3], box[1], box[4]) for box in boxes] == [(3, 4, 0, 4), (0, 3, 3, 4), (0, 3, 0, 3)]
    cluster.finish().verify()


def test_what_neighbours_need_of_a_stencil_depends_on_borders_only() -> None:
    cluster = Cluster(num_ranks=2, num_devices=1)
    u, v = cluster.buffer(32), cluster.buffer(32)
    cluster.kernel(32).write(u, one_to_one()).border_first().submit()
    cluster.kernel(32, "stencil").write(v, one_to_one()).read(u, neighborhood(1)).border_first().submit()
    graph = cluster.instructions()
    inner = graph.all("device_kernel", where=lambda record: record["chunk"][3] - record["chunk"][0] > 1)
    assert len(graph.all("device_kernel")) == 4
    assert len(inner) == 2
    assert graph.all("send").count_is(1)
    assert graph.all("send").is_concurrent_with(inner)
    assert graph.all("receive").is_concurrent_with(inner)
    cluster.finish().verify()


def test_tasks_with_reductions_have_no_borders() -> None:
    cluster = Cluster(num_devices=2)
    scalar = cluster.buffer(1)
    cluster.kernel(16).reduce(scalar).border_first().submit()
    assert len(cluster.instructions().all("device_kernel")) == 2
    cluster.finish().verify()


def test_a_two_dimensional_split_reaches_the_devices() -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel((8, 8), "kernel").split_2d().submit()
    boxes = sorted(record["chunk"] for record in cluster.instructions().all("device_kernel"))
    assert boxes[0] == (0, 0, 0, 4, 4, 1)
    assert len(boxes) == 4
    cluster.finish().verify()


@pytest.mark.parametrize("device_peers", [True, False])
def test_a_plus_shaped_halo_copies_no_corners_between_devices(device_peers: bool) -> None:
    cluster = Cluster(num_devices=4, device_peers=device_peers)
    u, v = cluster.buffer((8, 8)), cluster.buffer((8, 8))
    cluster.kernel((8, 8)).write(u, one_to_one()).split_2d().submit()
    cluster.kernel((8, 8)).write(v, one_to_one()).read(u, neighborhood(1, 1, shape="axes")).split_2d().submit()
    graph = cluster.instructions()
    for first, second in ((2, 5), (3, 4)):
        assert copies(graph, first, second).is_empty()
    cluster.finish().verify()


def test_columns_written_by_one_device_are_read_as_rows_by_another() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    matrix = cluster.buffer((8, 8))
    cluster.kernel(8, "columns").write(matrix, slice_(0)).submit()
    cluster.kernel(8, "rows").read(matrix, slice_(1)).submit()
    cluster.fence(matrix)
    cluster.finish().verify()
