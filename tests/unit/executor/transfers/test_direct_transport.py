# SPDX-License-Identifier: MIT
"""Direct transfers between the executors of two ranks, both in this process: the test carries the messages of MPI."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from celerity_py import _native
from tests.support.direct_pair import PATIENCE_S, MessageScript, Pair
from tests.support.executor_harness import DEVICE0, DEVICE1, HOST, TRANSFER, row


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    for executor in pair.ranks:
        executor.stop()


def gated_send(pair: Pair, values: npt.NDArray[np.float64]) -> MessageScript:
    """The data is copied to the device once host task 1 is done, and sent as message 7."""
    where = row(0, values.size)
    s = MessageScript()
    s.alloc(DEVICE0, 1, where)
    s.host_task(1)
    s.copy(pair.register(0, values), (DEVICE0, 1), where)
    s.send(7, (DEVICE0, 1), where)
    return s


def test_data_travels_from_device_to_device_and_the_sender_hears_of_it(pair: Pair) -> None:
    values, result = np.arange(10.0), np.zeros(10)
    s = gated_send(pair, values)
    s.free(DEVICE0, 1, 10)
    s.epoch(1)
    pair.submit(0, s)
    pair.step()
    pair.finish_host_task(0)
    pair.settle()
    assert ("completed", 1, False) not in pair.events[0]  # nobody has fetched it
    r = MessageScript()
    r.alloc(DEVICE1, 1, row(0, 10))
    r.receive((DEVICE1, 1), row(0, 10))
    r.copy((DEVICE1, 1), pair.register(1, result), row(0, 10))
    r.epoch(1)
    pair.submit(1, r)
    pair.run_until(1, "completed", 1)
    pair.run_until(0, "completed", 1)
    assert result.tolist() == values.tolist()
    assert pair.ranks[0].statistics()["sent_bytes"] == {"host": 0, "direct": 80}
    assert pair.ranks[1].statistics()["received_bytes"] == 80
    kinds = {event[0] for rank in pair.events for event in rank}
    assert kinds == {"completed", "retired"}  # nothing went through the network


def test_a_pilot_of_another_version_is_refused(pair: Pair) -> None:
    ring = np.memmap(pair.offers[1][16:].split(b"\0")[0].decode(), np.uint32, "r+")
    before = ring.copy()
    s = MessageScript()
    s.alloc(DEVICE0, 1, row(0, 4))
    s.send(7, (DEVICE0, 1), row(0, 4))
    pair.submit(0, s)
    pair.ranks[0].run(0.01)
    written = np.flatnonzero(ring != before)
    (version,) = (index for index in written if ring[index] >> 16 == 0xCE1E)
    ring[version] += 1
    (event,) = pair.ranks[1].run(0.01)
    assert event[0] == "failed"
    assert event[1].kind == "fault"
    assert event[1].text == "not a pilot of this version of celerity_py; do all ranks run the same one?"


def test_the_failure_to_map_a_peer_names_it(pair: Pair) -> None:
    ring = np.memmap(pair.offers[1][16:].split(b"\0")[0].decode(), np.uint8, "r+")
    s = MessageScript()
    s.alloc(DEVICE0, 1, row(0, 4))
    s.send(7, (DEVICE0, 1), row(0, 4))
    pair.submit(0, s)
    pair.ranks[0].run(0.01)
    path = bytes(ring).index(b"/proc/", 200_000)
    ring[path : path + 6] = np.frombuffer(b"/gone/", np.uint8)
    (event,) = pair.ranks[1].run(0.01)
    assert event[0] == "failed"
    assert event[1].kind == "peer"
    assert "/gone/" in event[1].text
    assert event[1].peer == 0


def test_a_message_that_nobody_asks_for_is_unclaimed(pair: Pair) -> None:
    values = np.arange(10.0)
    pair.submit(0, gated_send(pair, values))
    pair.settle()
    assert pair.ranks[1].unclaimed_pilots() == [(0, 7, TRANSFER, row(0, 10))]
    assert pair.ranks[0].unclaimed_pilots() == []
    r = MessageScript()
    r.alloc(DEVICE1, 1, row(0, 10))
    r.receive((DEVICE1, 1), row(0, 10))
    pair.submit(1, r)
    pair.settle()
    assert pair.ranks[1].unclaimed_pilots() == []


def test_a_message_is_announced_when_its_source_exists(pair: Pair) -> None:
    s = MessageScript()
    s.host_task(1)
    s.alloc(DEVICE0, 1, row(0, 4))
    s.send(7, (DEVICE0, 1), row(1, 3))
    pair.submit(0, s)
    r = MessageScript()
    r.alloc(DEVICE0, 1, row(1, 3))
    r.receive((DEVICE0, 1), row(1, 3))
    r.epoch(1)
    pair.submit(1, r)
    pair.settle()
    ((_, text, *_),) = pair.ranks[1].active_instructions()
    assert "2 of them not even been announced" in text
    pair.finish_host_task(0)
    pair.run_until(1, "completed", 1)


def test_the_report_tells_what_is_not_announced_and_what_is_not_ready(pair: Pair) -> None:
    r = MessageScript()
    r.alloc(DEVICE0, 1, row(0, 10))
    r.receive((DEVICE0, 1), row(0, 10))
    r.epoch(1)
    pair.submit(1, r)
    pair.settle()
    assert pair.ranks[1].outstanding_communication
    ((_, text, _, buffer, box, peer, transfer, *_),) = pair.ranks[1].active_instructions()
    assert "10 of them not even been announced" in text
    assert (buffer, box, peer, transfer) == (1, row(0, 10), None, TRANSFER)

    pair.submit(0, gated_send(pair, np.arange(10.0)))
    pair.settle()
    ((_, text, _, buffer, box, peer, transfer, *_),) = pair.ranks[1].active_instructions()
    assert text == "I2 receive: message 7 is announced, its data is not ready"
    assert (buffer, box, peer, transfer) == (1, row(0, 10), 0, TRANSFER)

    pair.finish_host_task(0)
    pair.run_until(1, "completed", 1)


def test_the_report_tells_what_nobody_has_fetched(pair: Pair) -> None:
    pair.submit(0, gated_send(pair, np.arange(10.0)))
    pair.step()
    pair.finish_host_task(0)
    pair.settle()
    ((_, text, _, _, box, peer, transfer, *_),) = pair.ranks[0].active_instructions()
    assert text == "I4 send: message 7 is ready and has not been fetched"
    assert (box, peer, transfer) == (row(0, 10), 1, TRANSFER)


def test_a_message_cut_up_among_receives_is_answered_after_the_last(pair: Pair) -> None:
    values, left, right = np.arange(10.0), np.zeros(6), np.zeros(4)
    s = gated_send(pair, values)
    s.epoch(1)
    pair.submit(0, s)
    pair.step()
    pair.finish_host_task(0)
    first = MessageScript()
    first.alloc(DEVICE0, 1, row(0, 6))
    first.receive((DEVICE0, 1), row(0, 6))
    first.copy((DEVICE0, 1), pair.register(1, left), row(0, 6))
    first.host_task(9)
    first.alloc(DEVICE1, 1, row(6, 10))
    first.receive((DEVICE1, 1), row(6, 10))
    first.copy((DEVICE1, 1), pair.register(1, right, 6), row(6, 10))
    first.epoch(1)
    pair.submit(1, first)
    pair.settle()
    assert left.tolist() == values[:6].tolist()
    assert ("completed", 1, False) not in pair.events[0]
    pair.finish_host_task(1)
    pair.run_until(1, "completed", 1)
    pair.run_until(0, "completed", 1)
    assert right.tolist() == values[6:].tolist()


@pytest.mark.parametrize("is_last", [False, True])
def test_a_receive_of_several_parts_of_a_message_does_not_wait_for_itself(pair: Pair, is_last: bool) -> None:
    values, ends, middle = np.arange(10.0), np.zeros(10), np.zeros(2)
    s = gated_send(pair, values)
    s.epoch(1)
    pair.submit(0, s)
    readers = MessageScript()

    def read_both_ends() -> None:
        readers.alloc(DEVICE0, 1, row(0, 10))
        readers.receive((DEVICE0, 1), row(0, 10), boxes=[row(0, 4), row(6, 10)])
        readers.copy((DEVICE0, 1), pair.register(1, ends), row(0, 10))

    def read_the_middle() -> None:
        readers.alloc(DEVICE1, 1, row(4, 6))
        readers.receive((DEVICE1, 1), row(4, 6))
        readers.copy((DEVICE1, 1), pair.register(1, middle, 4), row(4, 6))

    for read in (read_the_middle, read_both_ends) if is_last else (read_both_ends, read_the_middle):
        read()
    readers.epoch(1)
    pair.submit(1, readers)
    pair.settle()
    pair.finish_host_task(0)
    pair.run_until(1, "completed", 1)
    pair.run_until(0, "completed", 1)
    assert middle.tolist() == values[4:6].tolist()
    assert ends[[0, 1, 2, 3, 6, 7, 8, 9]].tolist() == values[[0, 1, 2, 3, 6, 7, 8, 9]].tolist()


def test_parts_that_come_as_messages_are_put_in_place_by_the_same_lane(pair: Pair) -> None:
    values, result = np.arange(10.0), np.zeros(10)
    s = MessageScript()
    source = pair.register(0, values)
    s.alloc(DEVICE0, 1, row(0, 10))
    s.alloc(HOST, 1, row(0, 10))
    s.copy(source, (DEVICE0, 1), row(0, 10))
    copied = s.copy(source, (HOST, 1), row(0, 10))
    first = s.send(7, (DEVICE0, 1), row(0, 3), after=[copied])
    second = s.send(8, (HOST, 1), row(3, 8), after=[copied])  # straddles the two receives
    third = s.send(9, (DEVICE0, 1), row(8, 10), after=[copied])
    s.epoch(1, after=[first, second, third])
    pair.submit(0, s)
    r = MessageScript()
    r.alloc(DEVICE0, 1, row(0, 5))
    r.receive((DEVICE0, 1), row(0, 5))
    r.alloc(DEVICE1, 1, row(5, 10))
    r.receive((DEVICE1, 1), row(5, 10))
    left, right = result[:5], result[5:]
    r.copy((DEVICE0, 1), pair.register(1, left), row(0, 5))
    r.copy((DEVICE1, 1), pair.register(1, right, 5), row(5, 10))
    r.epoch(1)
    pair.submit(1, r)
    _, (sending, _, message, source_address, *_) = pair.run_until(0, "send")
    _, (receiving, _, expected, address, shape, offset, extent, _) = pair.run_until(1, "receive")
    assert (message, expected, shape, offset, extent) == (8, 8, (5, 1, 1), (0, 0, 0), (5, 1, 1))
    pair.settle()
    assert not result.any()
    ctypes.memmove(address, source_address + 3 * 8, 5 * 8)
    pair.ranks[0].notify_complete(sending)
    pair.ranks[1].notify_complete(receiving)
    pair.run_until(1, "completed", 1)
    pair.run_until(0, "completed", 1)
    assert result.tolist() == values.tolist()
    assert pair.ranks[0].statistics()["sent_bytes"] == {"host": 40, "direct": 40}
    assert len([e for e in pair.events[1] if e[0] == "receive"]) == 1


def receiving(pair: Pair, arrays: list[npt.NDArray[np.float64]]) -> MessageScript:
    """Array i gets message i, which lies at (DEVICE0, 1 + i) of rank 0; rank 1 completes submission 1 + i with it."""
    r = MessageScript()
    for i, array in enumerate(arrays):
        r.alloc(DEVICE0, 1 + i, row(0, array.size))
        r.receive((DEVICE0, 1 + i), row(0, array.size), key_task=4 + i, transfer=(4 + i, 1, 0))
        r.copy((DEVICE0, 1 + i), pair.register(1, array), row(0, array.size), key_task=5 + i)
        r.epoch(1 + i)
    return r


def test_messages_of_different_producers_are_ready_one_by_one(pair: Pair) -> None:
    values, results = np.arange(4.0), [np.zeros(4), np.zeros(4)]
    s = MessageScript()
    for i in range(2):
        s.alloc(DEVICE0, 1 + i, row(0, 4))
    for i in range(2):
        s.host_task(1 + i)
        written = s.copy(pair.register(0, values + i), (DEVICE0, 1 + i), row(0, 4))
        s.send(7 + i, (DEVICE0, 1 + i), row(0, 4), after=[written], key_task=4 + i, transfer=(4 + i, 1, 0))
    pair.submit(0, s)
    pair.submit(1, receiving(pair, results))
    pair.settle()
    pair.finish_host_task(0)
    pair.run_until(1, "completed", 1)
    pair.settle()
    texts = [text for _, text, *_ in pair.ranks[1].active_instructions()]
    assert sum("message 8 is announced, its data is not ready" in text for text in texts) == 1
    pair.finish_host_task(0)
    pair.run_until(1, "completed", 2)
    assert [result.tolist() for result in results] == [values.tolist(), (values + 1).tolist()]


def test_a_message_may_share_a_flag_that_is_written_already(pair: Pair) -> None:
    values, results = np.arange(4.0), [np.zeros(4), np.zeros(2)]
    s = MessageScript()
    s.alloc(DEVICE0, 1, row(0, 4))
    written = s.copy(pair.register(0, values), (DEVICE0, 1), row(0, 4))
    s.send(7, (DEVICE0, 1), row(0, 4), after=[written])
    pair.submit(0, s)
    pair.settle()
    late = MessageScript()
    late.records = list(s.records)
    second = late.send(8, (DEVICE0, 1), row(0, 2), after=[written], key_task=5, transfer=(5, 1, 0))
    late.epoch(1, after=[second - 1, second])
    late.records = late.records[len(s.records) :]
    pair.submit(0, late)
    pair.submit(1, receiving(pair, results))
    pair.run_until(1, "completed", 2)
    pair.run_until(0, "completed", 1)
    assert [result.tolist() for result in results] == [values.tolist(), values[:2].tolist()]


def test_many_messages_use_few_flags_again_and_again(pair: Pair) -> None:
    count = 40_000  # more than there are flags
    values, result = np.arange(1.0), np.zeros(1)
    s, r = MessageScript(), MessageScript()
    s.alloc(DEVICE0, 1, row(0, 1))
    written = s.copy(pair.register(0, values), (DEVICE0, 1), row(0, 1))
    r.alloc(DEVICE0, 1, row(0, 1))
    for task in range(2, 2 + count):
        transfer = (task, 1, 0)
        s.send(task, (DEVICE0, 1), row(0, 1), key_task=task, after=[written], transfer=transfer)
        r.receive((DEVICE0, 1), row(0, 1), key_task=task, transfer=transfer)
    s.epoch(1, after=list(range(3, 3 + count)))
    r.copy((DEVICE0, 1), pair.register(1, result), row(0, 1), key_task=2 + count)
    r.epoch(1)
    pair.submit(0, s)
    pair.submit(1, r)
    pair.run_until(1, "completed", 1)
    pair.run_until(0, "completed", 1)
    assert pair.ranks[0].statistics()["instructions"]["send"] == count


def test_nobody_waits_any_more_for_a_flag_after_a_failure_or_a_stop(pair: Pair) -> None:
    pair.submit(0, gated_send(pair, np.arange(10.0)))
    r = MessageScript()
    r.alloc(DEVICE0, 1, row(0, 10))
    r.receive((DEVICE0, 1), row(0, 10))
    pair.submit(1, r)
    pair.settle()
    stopper = threading.Thread(target=lambda: (pair.ranks[1].fail(), pair.ranks[1].stop()), daemon=True)
    stopper.start()
    stopper.join(PATIENCE_S)
    assert not stopper.is_alive()


def test_an_offer_of_somebody_else_is_refused() -> None:
    executor = _native.Executor(_native.ExecutorSettings(num_ranks=2, rank=0, direct=True))
    offer = executor.offer_direct([0, 1])
    forged = bytes([offer[0] ^ 1]) + offer[1:]
    with pytest.raises(RuntimeError, match="belongs to another program"):
        executor.open_direct(1, forged)
    gone = offer.replace(b"/fd/", b"/xx/")
    with pytest.raises(RuntimeError, match="No such file"):
        executor.open_direct(1, gone)
    with pytest.raises(ValueError, match="do all ranks run the same one"):
        executor.open_direct(1, b"offer")
    executor.agree_direct([])


def test_who_cannot_or_need_not_be_direct_offers_nothing() -> None:
    assert _native.Executor(_native.ExecutorSettings(num_ranks=2)).offer_direct([0, 1]) == b""
    assert _native.Executor(_native.ExecutorSettings(num_ranks=2, direct=True, sync=True)).offer_direct([0, 1]) == b""
