# SPDX-License-Identifier: MIT
"""Copies: their sources, the way that they take, and when they start."""

from __future__ import annotations

import pytest

from tests.support.mappers import all_, fixed, neighborhood, one_to_one, slice_
from tests.verification.contexts import Cluster
from tests.verification.elements import flat_size
from tests.verification.graph_query import copies, in_memory

HOST = 1
DEVICES = (2, 3)


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
    staging = [record["allocation"] for record in graph.all("alloc", where=lambda alloc: alloc["buffer"] == 0)]
    packing = copies(graph, 2, 2) & graph.all("copy", destination=lambda destination: destination in staging)
    assert packing.count_is(1)
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
