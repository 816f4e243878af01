# SPDX-License-Identifier: MIT
"""The executor of one rank when it idles, stops and fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from celerity_py import _native, _native_testing
from tests.support.executor_harness import DEVICE0, HOST, Harness, Script


def test_run_returns_at_the_timeout_and_when_it_is_woken() -> None:
    executor = _native.Executor()
    begin = time.monotonic()
    assert executor.run(0.05) == []
    assert 0.04 < time.monotonic() - begin < 2
    timer = threading.Timer(0.05, executor.wake)
    timer.start()
    begin = time.monotonic()
    assert executor.run(30) == []
    assert time.monotonic() - begin < 10
    timer.join()
    executor.wake()
    assert executor.run(30) == []


def test_an_idle_executor_costs_nothing() -> None:
    executor = _native.Executor()
    begin = time.thread_time()
    executor.run(0.2)
    assert time.thread_time() - begin < 0.02
    statistics = executor.statistics()
    assert statistics["idle_seconds"] > 0.1
    assert statistics["busy_seconds"] < 0.05


def test_time_without_work_while_the_scheduler_is_busy_counts_as_starved() -> None:
    executor = _native.Executor()
    executor.run(0)
    _native_testing.set_scheduler_busy(executor, True)
    executor.run(0.1)
    _native_testing.set_scheduler_busy(executor, False)
    executor.run(0.1)
    statistics = executor.statistics()
    assert statistics["starved_seconds"] > 0.05
    assert statistics["idle_seconds"] > 0.05


def test_stop_wakes_every_thread_and_stays(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=3)
    runner = threading.Thread(target=h.executor.run, args=(60,))
    runner.start()
    time.sleep(0.02)
    h.executor.stop()
    runner.join(5)
    assert not runner.is_alive()
    h.executor.stop()
    assert h.executor.run(1) == [("stopped",)]
    assert h.executor.next_kernel(0) is None
    assert h.executor.next_host_task() is None


def test_stop_does_not_wait_for_work_that_can_never_be_done() -> None:
    executor = _native.Executor()  # nobody serves its kernels
    s = Script()
    s.alloc(HOST, 1, 100_000)
    s.alloc(DEVICE0, 1, 100_000)
    kernel = s.kernel(0, 1, (DEVICE0, 1), 100_000)
    s.copy((DEVICE0, 1), (HOST, 1), 100_000, after=[kernel])
    s.epoch(2)
    s.submit(executor)
    assert executor.run(0.05) == []
    executor.stop()
    assert executor.run(0) == [("stopped",)]


def test_after_a_failure_nothing_new_begins_but_run_goes_on_returning(harness: Callable[..., Harness]) -> None:
    h = harness()
    started, hold = threading.Event(), threading.Event()

    def body(call: tuple[Any, ...]) -> None:
        started.set()
        hold.wait(5)

    h.body = body
    s = Script()
    s.kernel(0, 1, (0, 0), 1)
    s.kernel(0, 2, (0, 0), 1)
    s.epoch(3)
    s.submit(h.executor)
    h.events += h.executor.run(0.01)
    assert started.wait(5)
    h.executor.fail()
    hold.set()
    for _ in range(5):
        assert h.executor.run(0.01) == []
    assert [call[1] for call in h.kernels] == [1]


def test_an_instruction_that_cannot_be_executed_fails_with_its_story(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.copy((HOST, 3), (DEVICE0, 4), 10)
    s.epoch(1)
    s.submit(h.executor)
    event = h.run_until("failed")
    assert event[1].kind == "fault"
    assert "M1.A3 does not exist" in event[1].text
    assert event[1].instruction.endswith("copy (coherence) from M1.A3 to M2.A4")
    assert h.executor.run(0.01) == []


def test_a_shortage_of_memory_names_buffer_and_bytes_and_who_holds_the_rest(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.alloc(DEVICE0, 1, 1 << 17)
    s.alloc(DEVICE0, 2, 1 << 59)
    s.records[-1]["buffer"] = 7
    s.submit(h.executor)
    _, failure = h.run_until("failed")
    assert failure.kind == "memory"
    assert failure.shortage[:3] == (7, 0, 1 << 62)
    assert failure.shortage.held_bytes == 1 << 20
    assert failure.shortage.largest == [(1, 1 << 20)]


def test_mistakes_of_the_caller_are_reported() -> None:
    executor = _native.Executor()
    with pytest.raises(ValueError, match="no such device"):
        executor.next_kernel(3)
    with pytest.raises(ValueError, match="no such kernel"):
        executor.kernel_returned(1)
    with pytest.raises(ValueError, match="no such host task"):
        executor.host_task_done(1)
    with pytest.raises(ValueError, match=f"{_native.Executor.PILOT_SIZE} bytes, not 3"):
        executor.notify_pilot(0, b"abc")
    with pytest.raises(ValueError, match="not a pilot of this version"):
        executor.notify_pilot(0, bytes(_native.Executor.PILOT_SIZE))
    with pytest.raises(ValueError, match="1 to 62 devices"):
        _native.Executor(_native.ExecutorSettings(num_devices=0))
    executor.notify_complete(99)
    assert executor.run(0.1)[0][0] == "failed"
