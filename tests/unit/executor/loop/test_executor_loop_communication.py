# SPDX-License-Identifier: MIT
"""The executor of one of two ranks, fed with instruction records by hand; the test is the other rank."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from celerity_py import _native
from tests.support.executor_harness import HOST, TRANSFER, Harness, Script, make_pilot, row, send_record, void


def test_pilots_leave_at_once_and_sends_when_their_data_is_ready(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    hold = threading.Event()
    h.body = lambda call: void(hold.wait(5))
    s = Script()
    s.alloc(HOST, 1, 10)
    s.kernel(0, 1, (0, 0), 1)
    s.records.append(send_record(3, [2], row(4, 6)))
    s.epoch(2)
    s.submit(h.executor)
    _, peer, pilot = h.run_until("pilot")
    assert peer == 1
    assert len(pilot) == _native.Executor.PILOT_SIZE
    assert not [e for e in h.events if e[0] == "send"]
    hold.set()
    _, (request, peer, message, address, shape, offset, extent, size) = h.run_until("send")
    assert (peer, message, shape, offset, extent, size) == (1, 77, (10, 1, 1), (4, 0, 0), (2, 1, 1), 8)
    assert address != 0
    assert h.executor.outstanding_communication
    h.executor.notify_complete(request)
    h.run_until("completed", 2)
    assert not h.executor.outstanding_communication
    assert h.executor.statistics()["sent_bytes"] == {"host": 16, "direct": 0}


@pytest.mark.parametrize("pilot_first", [True, False])
def test_a_receive_is_posted_when_request_and_pilot_have_met(
    harness: Callable[..., Harness], pilot_first: bool
) -> None:
    h = harness(num_ranks=2, rank=0)
    pilot = make_pilot(row(2, 5))
    s = Script()
    s.alloc(HOST, 1, 10)
    s.add(
        "receive",
        transfer=TRANSFER,
        boxes=[row(2, 5)],
        destination=(HOST, 1),
        element_size_bytes=8,
    )
    s.epoch(1)
    if pilot_first:
        h.executor.notify_pilot(1, pilot)
        assert h.executor.unclaimed_pilots() == [(1, 5, TRANSFER, row(2, 5))]
        assert h.executor.run(0.01) == []
        s.submit(h.executor)
    else:
        s.submit(h.executor)
        assert h.executor.run(0.01) == []
        assert h.executor.outstanding_communication
        h.executor.notify_pilot(1, pilot)
    _, (request, peer, message, address, shape, offset, extent, size) = h.run_until("receive")
    assert (peer, message, shape, offset, extent, size) == (1, 5, (10, 1, 1), (2, 0, 0), (3, 1, 1), 8)
    assert address != 0
    h.executor.notify_complete(request)
    h.run_until("completed", 1)
    assert h.executor.statistics()["received_bytes"] == 24


def test_a_barrier_completes_when_the_outside_says_so(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    s = Script()
    s.epoch(1, "barrier")
    s.kernel(0, 2, (0, 0), 1)
    s.epoch(3)
    s.submit(h.executor)
    _, request = h.run_until("barrier")
    assert h.executor.run(0.01) == []
    assert h.kernels == []
    h.executor.notify_complete(request)
    h.run_until("completed", 3)
    assert h.events.index(("completed", 1, False)) < h.events.index(("completed", 3, False))


def test_a_barrier_of_one_rank_needs_nobody(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.epoch(1, "barrier")
    s.submit(h.executor)
    h.run_until("completed", 1)
    assert not [e for e in h.events if e[0] == "barrier"]


def test_active_instructions_tell_what_runs_and_what_is_awaited(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    started, hold = threading.Event(), threading.Event()

    def body(call: tuple[Any, ...]) -> None:
        started.set()
        hold.wait(5)

    h.body = body
    s = Script()
    s.alloc(HOST, 1, 10)
    kernel = s.kernel(0, 5, (0, 0), 1)
    s.add(
        "receive",
        after=[1],
        transfer=TRANSFER,
        boxes=[row(2, 5)],
        destination=(HOST, 1),
        element_size_bytes=8,
    )
    s.records.append(send_record(4, [1], row(4, 6)))
    s.epoch(6, after=[kernel, 3, 4])
    s.submit(h.executor)
    send = h.run_until("send")
    assert started.wait(5)
    active = {text.split()[1]: (text, *rest) for _, text, *rest in h.executor.active_instructions()}
    running = ("I2 device_kernel on D0 is running", 5, 0, row(0, 1), None, None, "device_kernel", True, 2)
    assert active["device_kernel"] == running
    text, _, buffer, box, peer, transfer, kind, is_computing, number = active["receive"]
    assert (kind, is_computing, number) == ("receive", False, 3)
    assert isinstance(text, str)
    assert "for T4: 3 elements have not arrived, 3 of them not even been announced" in text
    assert (buffer, box, peer, transfer) == (1, row(2, 5), None, TRANSFER)
    assert active["send"][1:] == (0, 1, row(4, 6), 1, TRANSFER, "send", False, 4)
    ages = [age for age, *_ in h.executor.active_instructions()]
    assert ages == sorted(ages, reverse=True)
    assert min(ages) >= 0

    h.executor.notify_pilot(1, make_pilot(row(2, 5)))
    receive = h.run_until("receive")
    peers = {text.split()[1]: peer for _, text, _, _, _, peer, *_ in h.executor.active_instructions()}
    assert peers["receive"] == 1
    for request in (send[1].request, receive[1].request):
        h.executor.notify_complete(request)
    hold.set()
    h.run_until("completed", 6)
    assert h.executor.active_instructions() == []
