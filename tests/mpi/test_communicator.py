# SPDX-License-Identifier: MIT
"""The MPI communicator by itself. Every rank talks to the next in a ring, however many there are."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from celerity_py import _native_testing
from celerity_py._native import MessagePort
from celerity_py.executor.network.communicator import (
    LARGEST_SMALL_BYTES,
    NOTICE_FAILURE,
    NOTICE_LIMIT_BYTES,
    NOTICE_QUERY,
    Notice,
)
from tests.support.mpi_ports import Inbox, box_of, end, neighbours, receive, send, send_pilot, send_small
from tests.support.sparse_memory import sparse_zeros

if TYPE_CHECKING:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

pytestmark = pytest.mark.mpi

PILOT_LIMIT_BYTES = MessagePort.PILOT_LIMIT_BYTES
HUGE = 2**31 + 9


def inside(offset: tuple[int, ...], extent: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(start, start + count) for start, count in zip(offset, extent, strict=True))


def test_the_local_ranks_are_those_of_this_host(communicator: MpiCommunicator) -> None:
    assert communicator.local_ranks[communicator.local_rank] == communicator.rank
    assert communicator.local_size == len(communicator.local_ranks)
    assert all(communicator.is_alive(rank) for rank in communicator.local_ranks)


def test_an_exchange_gives_everyone_the_data_of_every_rank_in_order(communicator: MpiCommunicator) -> None:
    assert communicator.exchange(b"%d" % communicator.rank) == [b"%d" % rank for rank in range(communicator.size)]


@pytest.mark.mpi(min_size=2)
def test_a_pilot_arrives_whether_it_is_sent_before_or_after_its_data(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    following, preceding = neighbours(communicator)
    for message_id, is_pilot_first in enumerate([True, False]):
        source, destination = np.full(5, communicator.rank + 10.0), np.zeros(5)
        payload = box_of(source, following, message_id, (0,), (5,))
        if is_pilot_first:
            send_pilot(communicator, following, b"pilot %d" % message_id)
        send(communicator, payload)
        if not is_pilot_first:
            send_pilot(communicator, following, b"pilot %d" % message_id)
        inbox.poll_until(lambda: bool(inbox.pilots))
        assert inbox.pilots.pop(0) == (preceding, b"pilot %d" % message_id)
        receipt = box_of(destination, preceding, message_id, (0,), (5,))
        receive(communicator, receipt)
        inbox.wait(payload.request, receipt.request)
        assert (destination == preceding + 10.0).all()


@pytest.mark.mpi(min_size=2)
def test_a_burst_of_pilots_from_every_rank_arrives_complete_and_in_order(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    others = [rank for rank in range(communicator.size) if rank != communicator.rank]
    for i in range(300):
        for destination in others:
            send_pilot(communicator, destination, b"%d" % i)
    inbox.poll_until(lambda: len(inbox.pilots) == 300 * len(others))
    for source in others:
        assert [pilot for rank, pilot in inbox.pilots if rank == source] == [b"%d" % i for i in range(300)]


@pytest.mark.mpi(min_size=2)
def test_the_largest_pilot_arrives_and_a_larger_one_is_refused(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    send_pilot(communicator, following, b"x" * PILOT_LIMIT_BYTES)
    send_pilot(communicator, following, b"")
    inbox.poll_until(lambda: len(inbox.pilots) == 2)
    assert inbox.pilots == [(preceding, b"x" * PILOT_LIMIT_BYTES), (preceding, b"")]
    with pytest.raises(ValueError, match=str(PILOT_LIMIT_BYTES + 1)):
        send_pilot(communicator, following, b"x" * (PILOT_LIMIT_BYTES + 1))


@pytest.mark.mpi(min_size=2)
def test_the_largest_notice_arrives_and_a_larger_one_is_refused(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    communicator.send_notice(following, NOTICE_FAILURE, b"x" * NOTICE_LIMIT_BYTES)
    communicator.send_notice(following, NOTICE_QUERY, b"")
    inbox.poll_until(lambda: len(inbox.notices) == 2)
    assert inbox.notices == [
        Notice(NOTICE_FAILURE, preceding, b"x" * NOTICE_LIMIT_BYTES),
        Notice(NOTICE_QUERY, preceding, b""),
    ]
    with pytest.raises(ValueError, match=str(NOTICE_LIMIT_BYTES + 1)):
        communicator.send_notice(following, NOTICE_FAILURE, b"x" * (NOTICE_LIMIT_BYTES + 1))


@pytest.mark.mpi(min_size=2)
def test_more_pilots_than_receives_wait_at_the_sender_and_notices_overtake_them(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    following, preceding = neighbours(communicator)
    for i in range(200):
        send_pilot(communicator, following, b"%d" % i)
    communicator.send_notice(following, NOTICE_FAILURE, b"first")
    assert _native_testing.num_outstanding(communicator.port) >= 100
    time.sleep(0.5)  # what can arrive without anybody polling has arrived
    inbox.poll_until(lambda: bool(inbox.notices))
    assert len(inbox.pilots) <= 100
    inbox.poll_until(lambda: len(inbox.pilots) == 200 and _native_testing.num_outstanding(communicator.port) == 0)
    assert inbox.pilots == [(preceding, b"%d" % i) for i in range(200)]


@pytest.mark.mpi(min_size=2)
def test_pilots_in_one_direction_only_never_run_out_of_credits(communicator: MpiCommunicator, inbox: Inbox) -> None:
    if communicator.rank == 0:
        for i in range(3000):
            send_pilot(communicator, 1, b"%d" % i)
            inbox.poll_until(lambda: True)
        inbox.poll_until(lambda: _native_testing.num_outstanding(communicator.port) == 0)
    elif communicator.rank == 1:
        for i in range(3000):  # whatever remains in the window may wait for ever, for nothing travels back by itself
            inbox.poll_until(lambda: bool(inbox.pilots))
            assert inbox.pilots.pop(0) == (0, b"%d" % i)


@pytest.mark.mpi(min_size=2)
def test_payloads_that_come_long_before_their_receives_arrive(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    sources = np.arange(100) + 1000 * communicator.rank
    destinations = np.full(100, -1)
    payloads = [box_of(sources, following, i, (i,), (1,)) for i in range(100)]
    for i, payload in enumerate(payloads):
        send_pilot(communicator, following, b"%d" % i)
        send(communicator, payload)
    inbox.poll_until(lambda: len(inbox.pilots) == 100)
    receipts = [box_of(destinations, preceding, i, (i,), (1,)) for i in range(100)]
    for receipt in receipts:
        receive(communicator, receipt)
    inbox.wait(*(transfer.request for transfer in payloads + receipts))
    np.testing.assert_array_equal(destinations, np.arange(100) + 1000 * preceding)


@pytest.mark.parametrize(
    ("source_shape", "source_offset", "destination_shape", "destination_offset", "extent"),
    [
        ((), (), (), (), ()),
        ((9,), (2,), (5,), (0,), (5,)),
        ((6, 7), (1, 2), (4, 30), (0, 11), (4, 3)),
        ((6, 7), (2, 0), (3, 7), (0, 0), (3, 7)),
        ((50, 40), (0, 39), (50, 2), (0, 1), (50, 1)),
        ((4, 5, 6), (1, 1, 1), (3, 9, 4), (0, 5, 0), (3, 4, 4)),
        ((4, 5, 6), (1, 0, 2), (2, 5, 3), (0, 0, 0), (2, 5, 3)),
        ((1, 1, 64), (0, 0, 7), (1, 8, 8), (0, 2, 0), (1, 1, 8)),
        ((4, 4), (4, 0), (2, 3), (0, 0), (0, 3)),
    ],
)
def test_a_box_lands_in_place_between_allocations_of_different_shapes(  # noqa: PLR0917 - one argument per column
    communicator: MpiCommunicator,
    inbox: Inbox,
    source_shape: tuple[int, ...],
    source_offset: tuple[int, ...],
    destination_shape: tuple[int, ...],
    destination_offset: tuple[int, ...],
    extent: tuple[int, ...],
) -> None:
    following, preceding = neighbours(communicator)
    contents = np.arange(np.prod(source_shape, dtype=int), dtype=np.int16).reshape(source_shape)
    source = np.asarray(contents + np.int16(1000 * communicator.rank))
    destination = np.full(destination_shape, -1, np.int16)
    payload = box_of(source, following, 3, source_offset, extent)
    receipt = box_of(destination, preceding, 3, destination_offset, extent)
    receive(communicator, receipt)
    send(communicator, payload)
    inbox.wait(payload.request, receipt.request)

    expected = np.full(destination_shape, -1, np.int16)
    sent = contents[inside(source_offset, extent)]
    expected[inside(destination_offset, extent)] = sent + np.int16(1000 * preceding)
    np.testing.assert_array_equal(destination, expected)

    if communicator.size > 1 and sent.nbytes <= LARGEST_SMALL_BYTES:
        destination.fill(-1)
        assert send_small(communicator, b"pilot", box_of(source, following, 4, source_offset, extent))
        inbox.poll_until(lambda: bool(inbox.pilots))
        receipt = box_of(destination, preceding, 4, destination_offset, extent)
        receive(communicator, receipt)
        inbox.wait(receipt.request)
        np.testing.assert_array_equal(destination, expected)


def test_large_strided_payloads_are_complete_when_their_request_is(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    source = np.full((1500, 1500), float(communicator.rank))
    destination = np.full((1400, 3000), np.nan)
    payload = box_of(source, following, 1, (50, 100), (1400, 1300))
    receipt = box_of(destination, preceding, 1, (0, 1000), (1400, 1300))
    send(communicator, payload)
    receive(communicator, receipt)
    inbox.wait(payload.request, receipt.request)
    assert (destination[:, 1000:2300] == preceding).all()
    assert np.isnan(destination[:, :1000]).all()
    assert np.isnan(destination[:, 2300:]).all()


@pytest.mark.parametrize("huge_side", ["source", "destination", "both"])
@pytest.mark.parametrize(
    ("element_type", "huge_shape", "huge_offset", "extent"),
    [
        pytest.param("u1", (HUGE,), (2**31 + 3,), (5,), id="far in one dimension"),
        pytest.param("f8", (HUGE, 3), (2**31 + 1, 1), (6, 2), id="last rows"),
        pytest.param("u1", (3, HUGE), (0, 1), (3, 1), id="column with strides beyond 32 bits"),
        pytest.param("f4", (4, HUGE), (1, 2**31 + 2), (3, 4), id="last columns"),
        pytest.param("f8", (3, 4, HUGE), (1, 1, 2**31), (2, 3, 2), id="planes and rows with strides beyond 32 bits"),
        pytest.param("S12", (2, HUGE, 3), (0, 2**31 - 2, 1), (2, 4, 2), id="across the limit"),
    ],
)
def test_a_box_inside_an_allocation_beyond_32_bits_lands_in_place(  # noqa: PLR0917 - one argument per column
    communicator: MpiCommunicator,
    inbox: Inbox,
    element_type: str,
    huge_shape: tuple[int, ...],
    huge_offset: tuple[int, ...],
    extent: tuple[int, ...],
    huge_side: str,
) -> None:
    following, preceding = neighbours(communicator)
    sent = np.arange(1, 1 + math.prod(extent)).astype(element_type).reshape(extent)
    source, source_offset = sent, (0,) * len(extent)
    if huge_side != "destination":
        source, source_offset = sparse_zeros(huge_shape, element_type), huge_offset
        source[inside(source_offset, extent)] = sent
    destination, offset = np.zeros(tuple(count + 2 for count in extent), element_type), (1,) * len(extent)
    if huge_side != "source":
        destination, offset = sparse_zeros(huge_shape, element_type), huge_offset
    payload = box_of(source, following, 5, source_offset, extent)
    receipt = box_of(destination, preceding, 5, offset, extent)
    receive(communicator, receipt)
    send(communicator, payload)
    inbox.wait(payload.request, receipt.request)
    np.testing.assert_array_equal(destination[inside(offset, extent)], sent)
    surroundings = tuple(slice(max(0, low - 1), low + count + 1) for low, count in zip(offset, extent, strict=True))
    assert np.count_nonzero(destination[surroundings]) == sent.size


@pytest.mark.parametrize("element_type", ["u1", "u2", "S3", "f4", "f8", "S12", "c16"])
def test_elements_of_all_sizes_arrive_between_strided_and_dense_boxes(
    communicator: MpiCommunicator, inbox: Inbox, element_type: str
) -> None:
    following, preceding = neighbours(communicator)
    source = np.arange(12 * 9).astype(element_type).reshape(12, 9)
    destination = np.zeros((7, 2), element_type)
    payload = box_of(source, following, 3, (4, 5), (7, 2))
    receipt = box_of(destination, preceding, 3, (0, 0), (7, 2))
    receive(communicator, receipt)
    send(communicator, payload)
    inbox.wait(payload.request, receipt.request)
    np.testing.assert_array_equal(destination, source[4:11, 5:7])


@pytest.mark.parametrize("extent", [(5, 9, 11), (1, 9, 11), (10, 1, 1), (10, 16, 12)])
def test_counts_beyond_what_mpi_counts_are_split_into_nested_types(extent: tuple[int, ...]) -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    communicator = MpiCommunicator(largest_count=4)
    inbox = Inbox(communicator)
    following, preceding = neighbours(communicator)
    source = np.arange(10 * 16 * 12, dtype=np.int32).reshape(10, 16, 12)
    destination = np.full_like(source, -1)
    payload = box_of(source, following, 1, (0, 0, 0), extent)
    receipt = box_of(destination, preceding, 1, (0, 0, 0), extent)
    receive(communicator, receipt)
    send(communicator, payload)
    inbox.wait(payload.request, receipt.request)
    inside = tuple(slice(n) for n in extent)
    np.testing.assert_array_equal(destination[inside], source[inside])
    assert np.count_nonzero(destination == -1) == source.size - source[inside].size
    end(communicator)


def test_tags_wrap_around_without_mixing_messages_up() -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    communicator = MpiCommunicator(largest_tag=9)  # 7 payload tags
    inbox = Inbox(communicator)
    following, preceding = neighbours(communicator)
    for first in range(2**40, 2**40 + 70, 7):
        ids = list(range(first, first + 7))
        sources = {i: np.array([i]) for i in ids}
        destinations = {i: np.array([0]) for i in ids}
        receipts = [box_of(destinations[i], preceding, i, (0,), (1,)) for i in reversed(ids)]
        payloads = [box_of(sources[i], following, i, (0,), (1,)) for i in ids]
        for receipt in receipts:
            receive(communicator, receipt)
        for payload in payloads:
            send(communicator, payload)
        inbox.wait(*(transfer.request for transfer in receipts + payloads))
        assert all(destinations[i][0] == i for i in ids)
    communicator.close()


def test_a_thousand_messages_in_shuffled_order_find_their_receives(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    sources = np.arange(1000) * 10 + communicator.rank
    destinations = np.full(1000, -1)
    order = np.random.default_rng(communicator.rank)
    receipts = [box_of(destinations, preceding, int(i), (int(i),), (1,)) for i in order.permutation(1000)]
    payloads = [box_of(sources, following, int(i), (int(i),), (1,)) for i in order.permutation(1000)]
    for payload, receipt in zip(payloads, receipts, strict=True):
        send(communicator, payload)
        receive(communicator, receipt)
    inbox.wait(*(transfer.request for transfer in receipts + payloads))
    assert sorted(inbox.completed) == sorted(transfer.request for transfer in receipts + payloads)
    assert _native_testing.num_outstanding(communicator.port) == 0
    np.testing.assert_array_equal(destinations, np.arange(1000) * 10 + preceding)


def test_a_barrier_completes_only_when_the_last_rank_has_entered(communicator: MpiCommunicator, inbox: Inbox) -> None:
    last = communicator.size - 1
    if communicator.rank == last and communicator.size > 1:
        inbox.poll_until(lambda: len(inbox.pilots) == last)  # everyone else is in the barrier
        assert inbox.completed == []
    _native_testing.enter_barrier(communicator.port, 1)
    if communicator.rank != last:
        send_pilot(communicator, last, b"I am in")
    inbox.wait(1)
    assert inbox.completed == [1]


@pytest.mark.mpi(min_size=2)
def test_notices_are_told_apart_from_pilots(communicator: MpiCommunicator, inbox: Inbox) -> None:
    following, preceding = neighbours(communicator)
    send_pilot(communicator, following, b"data")
    communicator.send_notice(following, NOTICE_FAILURE, b"sorry")
    inbox.poll_until(lambda: bool(inbox.pilots and inbox.notices))
    assert inbox.pilots == [(preceding, b"data")]
    assert inbox.notices == [Notice(NOTICE_FAILURE, preceding, b"sorry")]


@pytest.mark.mpi(min_size=2)
def test_a_group_is_made_without_messages_among_those_of_the_communicator(
    communicator: MpiCommunicator, inbox: Inbox
) -> None:
    following, preceding = neighbours(communicator)
    sizes = [communicator.connect_group(number).Get_size() for number in range(3)]
    send_pilot(communicator, following, b"behind the groups")
    inbox.poll_until(lambda: bool(inbox.pilots))
    assert (inbox.pilots, inbox.notices) == ([(preceding, b"behind the groups")], [])
    assert sizes == [communicator.size] * 3


@pytest.mark.mpi(min_size=2)
def test_settling_waits_for_all_pilots_and_notices_even_those_without_credit() -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    communicator = MpiCommunicator()
    following, preceding = neighbours(communicator)
    for i in range(200):
        send_pilot(communicator, following, b"%d" % i)
    assert send_small(communicator, b"small", box_of(np.zeros(1), following, 1, (0,), (1,)))
    communicator.send_notice(following, NOTICE_QUERY, b"")
    inbox = end(communicator)
    inbox.pilots.remove((preceding, b"small"))  # it may overtake others
    assert inbox.pilots == [(preceding, b"%d" % i) for i in range(200)]
    assert inbox.notices == [Notice(NOTICE_QUERY, preceding, b"")]
    assert communicator.unasked_payloads() == []


@pytest.mark.mpi(min_size=2)
def test_payloads_that_nobody_has_asked_for_are_counted_at_the_end() -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    communicator = MpiCommunicator()
    following, preceding = neighbours(communicator)
    send(communicator, box_of(np.zeros(4), following, 1, (0,), (4,)))
    end(communicator)
    assert communicator.unasked_payloads() == [(preceding, 1)]


@pytest.mark.mpi(min_size=2)
def test_a_communicator_gets_no_message_of_an_earlier_one() -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    for _ in range(3):
        stray, destination = np.full(4, -1.0), np.zeros(4)
        earlier = MpiCommunicator()
        following, preceding = neighbours(earlier)
        for _ in range(100):
            send_pilot(earlier, following, b"stray")
        send(earlier, box_of(stray, following, 1, (0,), (4,)))
        earlier.close()
        later = MpiCommunicator()
        payload = box_of(np.full(4, 5.0), following, 1, (0,), (4,))
        receipt = box_of(destination, preceding, 1, (0,), (4,))
        send_pilot(later, following, b"own")
        send(later, payload)
        receive(later, receipt)
        inbox = Inbox(later)
        inbox.wait(payload.request, receipt.request)
        assert (destination == 5.0).all()
        inbox.pilots += end(later).pilots
        assert inbox.pilots == [(preceding, b"own")]


def test_two_communicators_do_not_see_each_others_messages(communicator: MpiCommunicator, inbox: Inbox) -> None:
    from celerity_py.executor.network.mpi_communicator import MpiCommunicator

    other = MpiCommunicator()
    if communicator.size > 1:
        following, preceding = neighbours(communicator)
        send_pilot(other, following, b"other")
        send_pilot(communicator, following, b"one")
        inbox.poll_until(lambda: bool(inbox.pilots))
        assert inbox.pilots == [(preceding, b"one")]
        other_inbox = Inbox(other)
        other_inbox.poll_until(lambda: bool(other_inbox.pilots))
        assert other_inbox.pilots == [(preceding, b"other")]
    other.close()
