# SPDX-License-Identifier: MIT
"""Sends and receives: data leaves early, and a reader waits only for its own part."""

from __future__ import annotations

import pytest

from tests.support.mappers import Mapper, all_, custom, fixed, neighborhood, one_to_one, rows_apart, slice_
from tests.verification.contexts import Cluster
from tests.verification.elements import flat_size


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_sends_are_split_by_producer_and_leave_as_soon_as_it_has_finished(direct: bool) -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=direct)
    buffer = cluster.buffer(16)
    cluster.kernel(16, "producer").write(buffer, one_to_one()).submit()
    cluster.kernel(16, "consumer").read(buffer, all_()).submit()
    graph = cluster.instructions()
    sends = graph.all("send")
    assert sends.count_is(2)
    assert sends.all_concurrent()
    for record in sends:
        producers = graph.all("send", id=record["id"]).ancestors(name="producer")
        assert producers.count_is(1)
    cluster.finish().verify()


@pytest.mark.parametrize(("direct", "count"), [(False, 1), (True, 2)], ids=["host transport", "direct"])
def test_what_is_little_is_sent_in_one_piece_from_each_memory(direct: bool, count: int) -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=direct, joined_bytes=64)
    buffer = cluster.buffer(16)
    cluster.kernel(16, "producer").write(buffer, one_to_one()).oversubscribe(2).submit()
    cluster.kernel(16, "consumer").read(buffer, all_()).submit()
    graph = cluster.instructions()
    sends = graph.all("send")
    assert sends.count_is(count)
    for record in sends:
        assert graph.all("send", id=record["id"]).ancestors(name="producer").count_is(4 // count)
    cluster.finish().verify()


def test_host_transport_sends_from_host_memory() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.kernel(8).read(buffer, all_()).submit()
    graph = cluster.instructions()
    assert graph.all("send").one()["source"][0] == 1
    assert graph.all("receive").one()["destination"][0] == 1
    upload = graph.all("copy", where=lambda r: r["source"][0] == 1 and r["destination"][0] == 2)
    assert graph.all("receive").each_reaches(upload)
    cluster.finish().verify()


@pytest.mark.parametrize("is_direct", [True, False])
def test_transfers_between_devices_need_no_host_memory(is_direct: bool) -> None:
    cluster = Cluster(num_ranks=2, direct=is_direct, messages_reach_devices=not is_direct)
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.kernel(8).read(buffer, all_()).submit()
    for rank in range(2):
        graph = cluster.instructions(rank)
        assert graph.all("send").one()["source"][0] == 2
        assert graph.all("receive").one()["destination"][0] == 2
        assert graph.all("copy", reason="coherence").is_empty()
        assert graph.all("alloc", allocation=lambda name: name[0] == 1).is_empty()
    cluster.finish().verify()


def test_chunks_of_a_device_wait_for_their_parts_of_a_message_that_arrives_there() -> None:
    cluster = Cluster(num_ranks=2, messages_reach_devices=True)
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.kernel(8, "reader").read(buffer, halves()).oversubscribe(4).submit()
    graph = cluster.instructions()
    assert graph.all("split_receive").one()["destination"][0] == 2
    assert graph.all("await_receive").count_is(4)
    assert graph.all("await_receive").each_reaches_some(graph.all(name="reader"))
    cluster.finish().verify()


def test_halos_from_two_sides_arrive_at_the_devices_that_read_them() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, messages_reach_devices=True)
    buffer = cluster.buffer(24)
    cluster.kernel(24).write(buffer, one_to_one()).submit()
    cluster.kernel(24).read(buffer, neighborhood(1)).submit()
    received = cluster.instructions(1).all("receive")
    assert sorted(record["destination"][0] for record in received) == [2, 3]
    cluster.finish().verify()


def test_a_message_that_no_device_has_room_for_arrives_on_the_host() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, messages_reach_devices=True)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, halves()).submit()
    graph = cluster.instructions()
    assert graph.all("split_receive").one()["destination"][0] == 1
    assert graph.all("copy", reason="coherence").count_is(2)
    cluster.finish().verify()


def test_direct_data_is_received_once_per_set_of_readers_and_then_copied() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=True)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    graph = cluster.instructions()
    received = [flat_size(box) for record in graph.all("receive") for box in record["boxes"]]
    assert sum(received) == 8
    assert graph.all("receive").each_reaches_some(graph.all("copy", reason="coherence"))
    cluster.finish().verify()


def test_direct_data_for_one_device_goes_to_that_device() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=True)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, neighborhood(1)).submit()
    assert cluster.instructions(0).all("receive").one()["destination"][0] == 3
    assert cluster.instructions(1).all("receive").one()["destination"][0] == 2
    cluster.finish().verify()


@pytest.mark.parametrize(("joined_bytes", "count"), [(15, 4), (16, 1), (2**30, 1)])
def test_what_is_little_and_lies_together_is_received_in_one_piece(joined_bytes: int, count: int) -> None:
    cluster = Cluster(num_ranks=2, direct=True, joined_bytes=joined_bytes)
    buffer = cluster.buffer(8)
    cluster.kernel(8).write(buffer, one_to_one()).submit()
    cluster.kernel(8, "reader").read(buffer, halves()).oversubscribe(4).submit()
    graph = cluster.instructions()
    assert graph.all("receive").count_is(count)
    assert graph.all("receive").each_reaches_some(graph.all(name="reader"))
    cluster.finish().verify()


def test_what_comes_from_two_sides_is_received_in_two_pieces_however_little() -> None:
    cluster = Cluster(num_ranks=3, direct=True, joined_bytes=2**30)
    buffer = cluster.buffer(24)
    cluster.kernel(24).write(buffer, one_to_one()).submit()
    cluster.kernel(24).read(buffer, neighborhood(1)).oversubscribe(4).submit()
    assert cluster.instructions(1).all("receive").count_is(2)
    cluster.finish().verify()


@pytest.mark.parametrize("joined_bytes", [0, 2**30])
def test_a_ring_of_little_is_received_in_pieces(joined_bytes: int) -> None:
    cluster = Cluster(num_ranks=9, direct=True, joined_bytes=joined_bytes)
    buffer = cluster.buffer((12, 12))
    cluster.kernel((12, 12)).write(buffer, one_to_one()).split_2d().submit()
    cluster.kernel((12, 12)).read(buffer, neighborhood(1, 1)).split_2d().oversubscribe(4).submit()
    assert cluster.instructions(4).all("receive").count_is(8)
    cluster.finish().verify()


def test_what_is_little_is_received_by_each_device_that_reads_it() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=True, joined_bytes=2**30)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, halves()).oversubscribe(2).submit()
    received = cluster.instructions(0).all("receive")
    assert sorted(record["destination"][0] for record in received) == [2, 3]
    cluster.finish().verify()


def test_what_lies_in_the_bend_of_something_else_arrives_once() -> None:
    bent = [((0, 1), (0, 8)), ((1, 4), (0, 1))]
    read = {3: bent, 4: [((2, 3), (2, 4))], 5: [((1, 2), (6, 7))]}  # the last one touches the first one
    pieces = custom(
        "pieces", lambda chunk, whole, shape: [box for item in range(*chunk[0]) for box in read.get(item, [])]
    )
    cluster = Cluster(num_ranks=2, direct=True, joined_bytes=2**30)
    buffer = cluster.buffer((8, 8))
    cluster.kernel((8, 8)).write(buffer, one_to_one()).submit()
    cluster.kernel(6).read(buffer, pieces).oversubscribe(3).submit()
    received = cluster.instructions(1).all("receive")
    assert sum(flat_size(box) for record in received for box in record["boxes"]) == 8 + 3 + 2 + 1
    cluster.finish().verify()


def test_transports_may_differ_between_peers() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, direct_pairs=frozenset({(0, 1)}))
    buffer = cluster.buffer(12)
    cluster.kernel(12).write(buffer, one_to_one()).submit()
    cluster.kernel(12).read(buffer, all_()).submit()
    for record in cluster.instructions(0).all("send"):
        assert record["source"][0] == 1 if record["destination_rank"] == 2 else record["source"][0] >= 2
    cluster.finish().verify()


def halves() -> Mapper:
    """Chunks read the mirror image of themselves."""
    return custom("opposite", lambda chunk, whole, shape: [((shape[0] - chunk[0][1], shape[0] - chunk[0][0]),)])


def test_concurrent_readers_wait_for_their_parts_of_a_receive() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer(16)
    cluster.kernel(16, "writer").write(buffer, one_to_one()).submit()
    cluster.kernel(16, "reader").read(buffer, halves()).submit()
    graph = cluster.instructions()
    assert graph.all("split_receive").count_is(1)
    awaits = graph.all("await_receive")
    assert awaits.count_is(2)
    assert awaits.all_concurrent()
    for device in range(2):
        reader = graph.all(name="reader", device=device)
        assert reader.ancestors("await_receive").count_is(1)
    cluster.finish().verify()


def test_a_single_reader_needs_no_split_receive() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    assert cluster.instructions().all("split_receive").is_empty()
    assert cluster.instructions().all("receive").count_is(1)
    cluster.finish().verify()


def test_an_await_region_larger_than_what_one_reader_needs() -> None:
    cluster = Cluster(num_ranks=2, num_devices=3)
    buffer = cluster.buffer((12, 4))
    cluster.kernel((12, 4)).write(buffer, one_to_one()).submit()
    cluster.kernel(12, "reader").read(buffer, overlapping_thirds()).submit()
    cluster.fence(buffer)
    cluster.finish().verify()


def overlapping_thirds() -> Mapper:
    return custom(
        "overlapping thirds",
        lambda chunk, whole, shape: [((shape[0] - chunk[0][1] - 1, shape[0] - chunk[0][0] + 1), (0, shape[1]))],
    )


def test_distant_parts_are_received_into_allocations_of_their_own() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer(100)
    cluster.kernel(100, "writer").write(buffer, one_to_one()).submit()
    cluster.host_task(name="reader").read(buffer, fixed(((60, 62),), ((90, 94),))).submit()
    graph = cluster.instructions(1)
    assert graph.all("send").count_is(2)
    cluster.finish().verify()


def test_strided_columns_are_received_in_place() -> None:
    cluster = Cluster(num_ranks=2)
    matrix = cluster.buffer((8, 8))
    cluster.kernel((8, 8)).write(matrix, one_to_one()).submit()
    cluster.kernel(8).read(matrix, slice_(0)).submit()
    for rank in range(2):
        graph = cluster.instructions(rank)
        record = graph.all("receive").one()
        assert sum(flat_size(box) for box in record["boxes"]) == 16
        allocated = graph.all("alloc", allocation=record["destination"]).one()["allocated_box"]
        assert flat_size(allocated) >= 16
    cluster.finish().verify()


def test_a_region_with_holes_travels_as_its_boxes() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer((16, 2), "array")
    cluster.kernel(((8, 16), (0, 2))).read_write(buffer, one_to_one()).submit()
    cluster.host_task(name="reader").read(buffer, rows_once()).submit()
    sent = [
        flat_size(box) for rank in range(2) for r in cluster.instructions(rank).all("send") for box in [r["sent_box"]]
    ]
    assert all(size == 2 for size in sent)
    cluster.finish().verify()


def rows_once() -> Mapper:
    return fixed(*(((row, row + 1), (0, 2)) for row in range(1, 16, 2)))


def test_an_overwriter_waits_until_the_old_data_has_left() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer(8)
    cluster.kernel(8, "first").write(buffer, one_to_one()).submit()
    cluster.kernel(8, "reader").read(buffer, all_()).submit()
    cluster.kernel(8, "second").write(buffer, one_to_one()).submit()
    cluster.kernel(8, "reader again").read(buffer, all_()).submit()
    graph = cluster.instructions()
    first, second = (graph.all("send", id=record["id"]) for record in graph.all("send"))
    staging = second.predecessors("copy")
    assert first.each_reaches(staging)
    cluster.finish().verify()


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_sends_come_before_receives_in_key_order(direct: bool) -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, direct=direct, horizon_step=1)
    u, v = cluster.buffer(12, "array"), cluster.buffer(12, "array")
    for _ in range(4):
        cluster.kernel(12).read(u, neighborhood(1)).read_write(v, one_to_one()).submit()
        u, v = v, u
    phases = {"send": "send", "receive": "receive", "device_kernel": "work"}
    for kind, phase in phases.items():
        assert all(record["key"][1] == phase for record in cluster.instructions().all(kind))
    cluster.finish().verify()


def test_sparse_reads_of_a_wide_halo_are_not_merged_with_the_gaps() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer((24, 2), "array")
    cluster.kernel((24, 2)).read_write(buffer, one_to_one()).submit()
    cluster.kernel(8).read(buffer, rows_apart(3, 2)).submit()
    cluster.kernel(6).read(buffer, rows_apart(4, 1)).submit()
    cluster.fence(buffer)
    cluster.finish().verify()
