# SPDX-License-Identifier: MIT
"""The executor of one rank, fed with instruction records by hand: what runs, where and in which order."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from celerity_py import _native
from tests.support.executor_harness import DEVICE0, DEVICE1, HOST, USER, Harness, Script, array_at, row, void

#: The latest time at which an event that nobody waits for is handed over.
UNANNOUNCED_S = 2e-3


def test_data_goes_from_user_memory_through_devices_and_back(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    count = 1000
    source, result = np.arange(count, dtype=float), np.zeros(count)
    raw_in = h.executor.register_user_memory(source.ctypes.data, row(0, source.size))
    raw_out = h.executor.register_user_memory(result.ctypes.data, row(0, result.size))

    def double(call: tuple[Any, ...]) -> None:
        _, _, _, [(_, _, address, *_)], _, _ = call
        array_at(address, count)[:] *= 2

    h.body = double
    s = Script()
    s.alloc(HOST, 1, count)
    s.alloc(DEVICE0, 1, count)
    s.alloc(DEVICE1, 1, count)
    s.copy((USER, raw_in), (HOST, 1), count, "initial")
    s.copy((HOST, 1), (DEVICE0, 1), count)
    s.kernel(0, 1, (DEVICE0, 1), count)
    s.copy((DEVICE0, 1), (DEVICE1, 1), count)
    s.kernel(1, 2, (DEVICE1, 1), count)
    s.copy((DEVICE1, 1), (HOST, 1), count)
    s.copy((HOST, 1), (USER, raw_out), count, "fence")
    s.add("fence", submission=3)
    s.free(USER, raw_in, count)
    for memory in (HOST, DEVICE0, DEVICE1):
        s.free(memory, 1, count)
    s.epoch(4, "shutdown")
    s.submit(h.executor)
    h.run_until("shutdown")

    assert np.array_equal(result, 4 * np.arange(count))
    assert [e for e in h.events if e[0] != "retired"] == [
        ("completed", 3, False),
        ("user_free", raw_in),
        ("completed", 4, False),
        ("shutdown",),
    ]
    assert h.events[-2:] == [("retired", 4), ("shutdown",)]
    statistics = h.executor.statistics()
    assert statistics["instructions"]["copy"] == 5
    assert statistics["copied_bytes"] == {
        "coherence": 3 * 8 * count,
        "resize": 0,
        "staging": 0,
        "initial": 8 * count,
        "fence": 8 * count,
        "reduction": 0,
    }
    assert statistics["allocations"] == 3
    assert statistics["memories"][DEVICE0] == {"allocations": 1, "current_bytes": 0, "peak_bytes": 8 * count}
    assert statistics["allocations_by_buffer"] == {(1, HOST): 1, (1, DEVICE0): 1, (1, DEVICE1): 1}
    assert statistics["busy_seconds"] > 0


@pytest.mark.parametrize("count", [1000, 100_000], ids=["at once", "by the lane's thread"])
def test_a_device_gathers_what_others_have(harness: Callable[..., Harness], count: int) -> None:
    h = harness(num_devices=3)
    source, result = np.arange(count, dtype=float), np.zeros(count)
    raw_in = h.executor.register_user_memory(source.ctypes.data, row(0, source.size))
    raw_out = h.executor.register_user_memory(result.ctypes.data, row(0, result.size))
    half = count // 2
    device2 = DEVICE1 + 1
    s = Script()
    allocs = [s.alloc(memory, 1, count, after=[]) for memory in (DEVICE0, DEVICE1, device2)]
    filled = [s.copy((USER, raw_in), (memory, 1), count, after=allocs) for memory in (DEVICE1, device2)]
    s.add(
        "gather_copy",
        after=filled,
        sources=[
            {"allocation": (DEVICE1, 1), "boxes": [row(0, 10), row(half, count)]},
            {"allocation": (device2, 1), "boxes": [row(10, half)]},
        ],
        destination=(DEVICE0, 1),
        element_size_bytes=8,
        buffer=1,
    )
    s.copy((DEVICE0, 1), (USER, raw_out), count, "fence")
    for memory in (DEVICE0, DEVICE1, device2):
        s.free(memory, 1, count)
    s.epoch(1, "shutdown")
    s.submit(h.executor)
    h.run_until("shutdown")

    assert np.array_equal(result, source)
    statistics = h.executor.statistics()
    assert statistics["instructions"]["gather_copy"] == 1
    assert statistics["copies"]["coherence"] == 2 + 2
    assert statistics["copied_bytes"]["coherence"] == 3 * 8 * count


def test_long_chains_of_copies_over_all_lanes_keep_their_order(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    count = 40_000  # too large to be copied by the executor thread itself
    places = [(HOST, 1), (DEVICE0, 1), (DEVICE1, 1), (HOST, 2)]

    def increment(call: tuple[Any, ...]) -> None:
        array_at(call[3][0][2], count)[:] += 1

    h.body = increment
    s = Script()
    for memory, raw in places:
        s.alloc(memory, raw, count)
    user = np.zeros(count)
    raw_user = h.executor.register_user_memory(user.ctypes.data, row(0, user.size))
    s.copy((USER, raw_user), places[0], count)
    for _ in range(50):
        s.copy(places[0], places[1], count)
        s.kernel(0, 1, places[1], count)
        s.copy(places[1], places[2], count)
        s.kernel(1, 2, places[2], count)
        s.copy(places[2], places[3], count)
        s.copy(places[3], places[0], count)
    s.copy(places[0], (USER, raw_user), count)
    s.epoch(9)
    s.submit(h.executor)
    h.run_until("completed", 9)
    assert np.array_equal(user, np.full(count, 100.0))
    assert h.executor.statistics()["issued_early"] > 200


def test_independent_kernels_of_two_devices_run_at_the_same_time(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    meeting = threading.Barrier(2, timeout=5)
    h.body = lambda call: void(meeting.wait())
    s = Script()
    first = s.kernel(0, 1, (0, 0), 1, after=[])
    second = s.kernel(1, 1, (0, 0), 1, after=[])
    s.epoch(2, after=[first, second])
    s.submit(h.executor)
    h.run_until("completed", 2)


def test_a_kernel_call_carries_submission_chunk_accesses_and_reductions(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.alloc(DEVICE0, 7, 10)
    s.kernel(0, 5, (DEVICE0, 7), 10)
    s.records[-1]["accesses"].append({**s.records[-1]["accesses"][0], "allocation": (0, 0), "accessed": []})
    s.records[-1]["reductions"] = [
        {
            "reduction": 1,
            "buffer": 2,
            "allocation": (DEVICE0, 7),
            "op": "and",
            "type": "bool",
        }
    ]
    s.epoch(6)
    s.submit(h.executor)
    h.run_until("completed", 6)
    ((_, submission, chunk, [access, empty], [reduction], stream),) = h.kernels
    assert (submission, chunk, stream) == (5, row(0, 10), 0)
    buffer, allocation, address, allocated, bounding, accessed, parts = access
    assert parts == []
    assert (buffer, allocation, allocated, bounding, accessed) == (
        1,
        (DEVICE0, 7),
        row(0, 10),
        row(0, 10),
        [row(0, 10)],
    )
    assert address % 64 == 0
    assert empty is None
    assert reduction == (address, "and", "bool")


def test_host_tasks_and_initialisers_run_on_host_threads(harness: Callable[..., Harness]) -> None:
    h = harness()
    calls: list[tuple[Any, ...]] = []
    h.body = calls.append
    s = Script()
    s.alloc(HOST, 1, 8)
    s.add(
        "initialize",
        buffer=1,
        destination=(HOST, 1),
        boxes=[row(2, 4), row(5, 6)],
        element_size_bytes=8,
    )
    s.add("host_task", submission=3, chunk=row(0, 2), accesses=[])
    s.epoch(4)
    s.submit(h.executor)
    h.run_until("completed", 4)
    (kind, _, buffer, address, allocated, boxes), task = calls
    assert (kind, buffer, allocated, boxes) == ("initialize", 1, row(0, 8), [row(2, 4), row(5, 6)])
    assert address != 0
    assert (task[0], task[2:]) == ("host_task", (3, row(0, 2), []))


def test_reductions_are_carried_out_on_the_host(harness: Callable[..., Harness]) -> None:
    h = harness()
    values, result = np.array([1.0, 2.0, 4.0, 10.0, 20.0, 40.0]), np.zeros(2)
    raw_in = h.executor.register_user_memory(values.ctypes.data, row(0, values.size))
    raw_out = h.executor.register_user_memory(result.ctypes.data, row(0, result.size))
    s = Script()
    s.add(
        "reduce",
        reduction=1,
        buffer=1,
        op="sum",
        type="float64",
        source=(USER, raw_in),
        count=3,
        num_elements=2,
        destination=(USER, raw_out),
        is_all_of_it=True,
        callable=0,
    )
    s.epoch(1)
    s.submit(h.executor)
    h.run_until("completed", 1)
    assert result.tolist() == [1 + 4 + 20, 2 + 10 + 40]


def test_horizons_retire_what_was_submitted_before_them(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.kernel(0, 1, (0, 0), 1)
    s.add("horizon", task=2, last_submission=1)
    s.kernel(0, 2, (0, 0), 1)
    s.add("horizon", task=4, last_submission=2)
    s.submit(h.executor)
    h.run_until("retired", 2)
    assert [e for e in h.events if e[0] == "retired"] in ([("retired", 1), ("retired", 2)], [("retired", 2)])


def horizon(script: Script, last_submission: int) -> int:
    return script.add("horizon", task=2 * last_submission, last_submission=last_submission)


@pytest.fixture
def executor() -> Iterator[_native.Executor]:
    executor = _native.Executor()
    yield executor
    executor.stop()


def timed_run(executor: _native.Executor, limit_s: float = 30) -> tuple[float, Sequence[tuple[Any, ...]]]:
    begun = time.monotonic()
    events = executor.run(limit_s)
    return time.monotonic() - begun, events


def test_what_nobody_waits_for_comes_together_and_a_little_later(executor: _native.Executor) -> None:
    s = Script()
    for submission in range(1, 6):
        horizon(s, submission)
    s.submit(executor)
    duration_s, events = timed_run(executor)
    assert events == [("retired", 5)]
    assert UNANNOUNCED_S <= duration_s < 10


def test_what_nobody_waits_for_comes_when_the_time_is_up(executor: _native.Executor) -> None:
    s = Script()
    horizon(s, 1)
    s.submit(executor)
    assert timed_run(executor, 0.0)[1] == [("retired", 1)]


def test_what_nobody_waits_for_comes_with_what_somebody_waits_for(executor: _native.Executor) -> None:
    s = Script()
    horizon(s, 1)
    s.epoch(2)
    horizon(s, 3)
    s.submit(executor)
    assert timed_run(executor)[1] == [("retired", 1), ("completed", 2, False), ("retired", 3)]


class Watcher(threading.Thread):
    """Watches for a submission."""

    def __init__(self, executor: _native.Executor, submission: int, limit_s: float = 30) -> None:
        super().__init__()
        self.flag = _native.SpinFlag()
        self.was_told: bool | None = None
        self.executor, self.submission, self.limit_s = executor, submission, limit_s
        self.start()
        time.sleep(0.2)  # until it looks

    def run(self) -> None:
        self.was_told = self.executor.watch(self.submission, self.flag, self.limit_s)


def test_who_watches_knows_of_an_epoch_before_it_is_handed_over(executor: _native.Executor) -> None:
    watchers = [Watcher(executor, 2), Watcher(executor, 2)]
    s = Script()
    horizon(s, 1)
    s.epoch(2)
    s.submit(executor)
    duration_s, events = timed_run(executor)
    assert events == [("retired", 1), ("completed", 2, True), ("retired", 2)]
    assert duration_s >= UNANNOUNCED_S
    for watcher in watchers:
        watcher.join(10)
        assert watcher.was_told is True
        assert watcher.flag.wait(0)


def test_who_watches_knows_of_nothing_before_what_comes_before_it(executor: _native.Executor) -> None:
    source = np.zeros(4)
    raw = executor.register_user_memory(source.ctypes.data, row(0, source.size))
    watcher = Watcher(executor, 1, limit_s=0.5)
    s = Script()
    s.free(USER, raw, 4)
    s.epoch(1)
    s.submit(executor)
    assert timed_run(executor)[1] == [("user_free", raw), ("completed", 1, False), ("retired", 1)]
    watcher.join(10)
    assert watcher.was_told is False
    assert not watcher.flag.wait(0)


def test_who_watches_too_late_or_for_something_else_is_not_told(executor: _native.Executor) -> None:
    watcher = Watcher(executor, 2, limit_s=0.2)
    s = Script()
    s.epoch(1)
    s.submit(executor)
    assert timed_run(executor)[1] == [("completed", 1, False), ("retired", 1)]
    assert not executor.watch(1, _native.SpinFlag(), 0.01)
    watcher.join(10)
    assert watcher.was_told is False


def test_fresh_memory_is_poisoned_when_checks_are_on(harness: Callable[..., Harness]) -> None:
    h = harness(check=True)
    seen: list[bytes] = []
    h.body = lambda call: seen.append(ctypes.string_at(call[3][0][2], 80))
    s = Script()
    s.alloc(DEVICE0, 1, 10)
    s.kernel(0, 1, (DEVICE0, 1), 10)
    s.epoch(2)
    s.submit(h.executor)
    h.run_until("completed", 2)
    assert seen == [b"\xff" * 80]


def test_sync_issues_one_piece_of_work_at_a_time(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2, sync=True)
    running = 0
    most = 0
    lock = threading.Lock()

    def body(call: tuple[Any, ...]) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    h.body = body
    s = Script()
    work = [s.kernel(i % 2, 1, (0, 0), 1, after=[]) for i in range(8)]
    work.append(s.add("host_task", after=[], submission=3, chunk=row(0, 2), accesses=[]))
    s.epoch(4, after=work)
    s.submit(h.executor)
    h.run_until("completed", 4)
    assert most == 1
