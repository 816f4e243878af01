# SPDX-License-Identifier: MIT
"""Queues with priorities, on the CPU backend of this process."""

from __future__ import annotations

import itertools
import threading
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, UsageError
from celerity_py.executor import live_executor
from tests.support.kernels import iota
from tests.support.queues import queues

#: On a device with queues of several priorities: one kernel runs, and one waits behind it.
AHEAD = 2


class Blocker:
    """A kernel that holds its device until `release`."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.queue: celerity.Queue | None = None

    def hold(self, queue: celerity.Queue) -> None:
        began, may_end, self.queue = self.began, self.may_end, queue

        def block(chunk: celerity.Chunk) -> None:
            began.set()
            assert may_end.wait(30)

        queue.parallel_for(1, block)
        assert began.wait(30)

    def release(self) -> None:
        """End the kernel, once the executor knows all that the program has submitted before."""
        assert self.queue is not None
        self.queue.fence(celerity.Buffer.from_array(np.zeros(1))).result(30)
        self.may_end.set()


@pytest.mark.parametrize("given", ["1", 1.0, None, True, Fraction(1)])
def test_a_priority_is_an_integer(given: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"Queue\(priority=\.\.\.\) takes an integer, not "):
        celerity.Queue(priority=given)


@pytest.mark.parametrize("given", [-1, 5, 2**70])
def test_a_priority_is_in_a_small_range(given: int) -> None:
    with pytest.raises(UsageError, match=rf"Queue\(priority={given}\) is out of range: .* 0, the default, to 4"):
        celerity.Queue(priority=given)


def test_a_queue_tells_its_priority() -> None:
    with queues(0, 3) as (low, high):
        assert (low.priority, high.priority) == (0, 3)
        assert repr(high) == "<Queue with priority 3 on rank 0 of 1>"
        assert repr(low) == "<Queue on rank 0 of 1>"
        with pytest.raises(AttributeError):
            high.priority = 2  # type: ignore[misc]


def test_kernels_of_a_higher_queue_overtake_waiting_ones() -> None:
    order: list[str] = []
    with queues(0, 2) as (low, high):
        blocker = Blocker()
        blocker.hold(low)
        for i in range(10):
            low.parallel_for(1, lambda chunk, i: order.append(f"low {i}"), i)
        for i in range(3):
            high.parallel_for(1, lambda chunk, i: order.append(f"high {i}"), i)
        blocker.release()
    assert sorted(order) == sorted([f"low {i}" for i in range(10)] + [f"high {i}" for i in range(3)])
    assert [each for each in order if each.startswith("high")] == ["high 0", "high 1", "high 2"]
    assert order.index("high 0") <= AHEAD
    assert order.index("high 2") <= AHEAD + 2


def test_a_kernel_of_a_higher_queue_does_not_wait_for_what_comes_before_a_horizon() -> None:
    order: list[str] = []
    has_result = threading.Event()
    with queues(0, 1, horizon_step=1) as (low, high):
        latest, other = (celerity.Buffer.from_array(np.zeros(4)) for _ in range(2))

        def count(chunk: celerity.Chunk, view: Any, name: str) -> None:
            view[chunk.box] += 1
            order.append(name)

        def hold_on(chunk: celerity.Chunk, view: Any) -> None:
            assert has_result.wait(30), "the urgent result waits for a kernel that is not urgent"

        high.parallel_for(4, count, latest.read_write(access.one_to_one()), "first")
        high.wait()
        high.parallel_for(4, count, latest.read_write(access.one_to_one()), "second")
        blocker = Blocker()
        blocker.hold(low)
        for i in range(4):  # a horizon for each
            low.parallel_for(4, count, other.read_write(access.one_to_one()), f"low {i}")
        for _ in range(8):
            low.parallel_for(4, hold_on, other.read_write(access.one_to_one()))
        high.parallel_for(4, count, latest.read_write(access.one_to_one()), "third")
        result = high.fence(latest)
        blocker.release()
        np.testing.assert_array_equal(result.result(30), np.full(4, 3.0))
        has_result.set()
    assert order.index("third") <= 2 + AHEAD
    assert len(order) == 7


def test_a_predecessor_of_a_lower_queue_is_lifted() -> None:
    order: list[str] = []
    with queues(0, 1, 2) as (low, middle, high):
        u = celerity.Buffer.from_array(np.zeros(4))

        def write(chunk: celerity.Chunk, view: Any) -> None:
            view[chunk.box] = 7
            order.append("needed")

        blocker = Blocker()
        blocker.hold(low)
        for i in range(8):
            middle.parallel_for(1, lambda chunk, i: order.append(f"middle {i}"), i)
        low.parallel_for(4, write, u.write(access.one_to_one()))

        def read(chunk: celerity.Chunk, view: Any) -> None:
            order.append(f"high {view[chunk.box][0]:g}")

        high.parallel_for(4, read, u.read(access.one_to_one()))
        blocker.release()
    assert order.index("needed") <= AHEAD
    assert order.index("high 7") <= AHEAD + 2


def test_host_tasks_of_a_higher_queue_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    num_threads = 2
    monkeypatch.setattr(live_executor, "_MOST_HOST_TASK_THREADS", num_threads)
    order: list[str] = []
    with queues(0, 1) as (low, high):
        gate = threading.Event()
        begun = threading.Semaphore(0)

        def wait(part: celerity.Part) -> None:
            begun.release()
            assert gate.wait(30)

        for _ in range(num_threads):  # they take all threads for host tasks
            low.host_task(wait, unordered=True)
            assert begun.acquire(timeout=30)
        has_run = threading.Event()

        def follow(part: celerity.Part, name: str) -> None:
            assert has_run.wait(30), "the host tasks of the lower queue took all threads"
            order.append(name)

        for i in range(6):
            low.host_task(follow, f"low {i}", unordered=True)
        high.host_task(lambda part: has_run.set(), unordered=True)
        result = high.fence(celerity.Buffer.from_array(np.zeros(1)))
        assert result.result(30) == 0
        low.host_task(follow, "last", unordered=True)
        gate.set()
    assert sorted(order) == ["last", *(f"low {i}" for i in range(6))]


@pytest.mark.parametrize("kind", ["kernels", "host tasks", "copies"])
def test_the_lowest_of_three_queues_goes_on_under_a_constant_load_of_the_highest(kind: str) -> None:
    done: list[int] = []
    is_over = threading.Event()
    with queues(0, 2, 4, devices="cpu:2" if kind == "copies" else "cpu:1") as (low, middle, high):

        def load(queue: celerity.Queue) -> None:
            source, target = (celerity.Buffer.from_array(np.zeros(20_000)) for _ in range(2))

            def exchange(chunk: celerity.Chunk, into: Any, view: Any) -> None:
                into[chunk.box] = view[chunk.box]

            while not is_over.is_set():
                if kind == "kernels":
                    queue.parallel_for(1, lambda chunk: is_over.wait(0.0005))
                elif kind == "host tasks":
                    queue.host_task(lambda part: is_over.wait(0.0005), unordered=True)
                else:
                    given = target.write(access.one_to_one()), source.read(access.all())
                    queue.parallel_for(20_000, exchange, *given)
                    source, target = target, source

        threads = [threading.Thread(target=load, args=[queue]) for queue in (middle, high)]
        for thread in threads:
            thread.start()
        try:
            for i in range(20):
                if kind == "host tasks":
                    low.host_task(lambda part, i: done.append(i), i)
                else:
                    low.parallel_for(1, lambda chunk, i: done.append(i), i)
            u = celerity.Buffer.from_array(np.zeros(2))
            low.parallel_for(2, iota, u.write(access.one_to_one()))
            np.testing.assert_array_equal(low.fence(u).result(60), [0, 1])
            assert threads[1].is_alive()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    assert sorted(done) == list(range(20))


def test_submits_of_a_lower_queue_are_not_blocked_for_ever_by_a_thread_that_submits_urgent_tasks() -> None:
    is_over = threading.Event()
    with queues(0, 1, horizon_step=1, run_ahead=2) as (low, high):
        far_ahead = threading.Event()

        def load() -> None:
            for number in itertools.count():
                if is_over.is_set():
                    break
                high.parallel_for(1, lambda chunk: is_over.wait(0.002))
                if number == 20:  # as far ahead as it may be
                    far_ahead.set()

        thread = threading.Thread(target=load)
        thread.start()
        try:
            assert far_ahead.wait(30)
            u = celerity.Buffer.from_array(np.zeros(2))
            for _ in range(10):
                low.parallel_for(2, iota, u.write(access.one_to_one()))
            np.testing.assert_array_equal(low.fence(u).result(60), [0, 1])
            assert thread.is_alive()
        finally:
            is_over.set()
            thread.join()


def test_urgent_tasks_do_not_wait_for_a_thread_that_submits_slow_ones_without_end() -> None:
    gate, is_over = threading.Event(), threading.Event()
    num_submitted = [0]
    with queues(0, 2, horizon_step=1, run_ahead=2) as (low, high):
        weights, state = celerity.Buffer(4), celerity.Buffer.from_array(np.zeros(4))

        def step(chunk: celerity.Chunk, into: Any, factors: Any) -> None:
            into[chunk.box] += factors[chunk.box]

        def load() -> None:
            while not is_over.is_set():
                low.host_task(lambda part: gate.wait(60))
                num_submitted[0] += 1

        high.fill(weights, 2)  # no later task writes it, and many horizons pass
        thread = threading.Thread(target=load)
        thread.start()
        watchdog = threading.Timer(25, gate.set)
        watchdog.start()
        try:
            for number in range(100):
                high.parallel_for(4, step, state.read_write(access.one_to_one()), weights.read(access.one_to_one()))
                np.testing.assert_array_equal(high.fence(state).result(30), np.full(4, 2.0 * (number + 1)))
            assert not gate.is_set(), "urgent tasks wait for slow ones"
            time.sleep(0.1)
            assert num_submitted[0] < 2000, "nothing holds the other thread back"
        finally:
            watchdog.cancel()
            is_over.set()
            gate.set()
            thread.join()


def test_a_queue_does_not_wait_for_a_lower_one_that_submits_without_end_either() -> None:
    is_over = threading.Event()
    with queues(0, 1, 3, horizon_step=1, run_ahead=2) as (low, middle, high):

        def load(queue: celerity.Queue) -> None:
            while not is_over.is_set():
                queue.parallel_for(1, lambda chunk: is_over.wait(0.005))

        threads = [threading.Thread(target=load, args=[queue]) for queue in (low, middle)]
        for thread in threads:
            thread.start()
        state = celerity.Buffer.from_array(np.zeros(2))
        durations_s = []
        try:
            for _ in range(40):
                since_s = time.perf_counter()
                high.parallel_for(2, iota, state.write(access.one_to_one()))
                high.fence(state).result(30)
                durations_s.append(time.perf_counter() - since_s)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    assert np.median(durations_s) < 0.1, durations_s  # two kernels of 5 ms are before it


@pytest.mark.parametrize("replays", [False, True])
def test_threads_of_one_queue_all_go_on(replays: bool) -> None:
    is_over = threading.Event()
    with queues(0, horizon_step=1, run_ahead=2) as (queue,):

        def submit() -> None:
            queue.parallel_for(1, lambda chunk: is_over.wait(0.002))

        recorded = queue.record(submit)

        def load() -> None:
            while not is_over.is_set():
                if replays:
                    queue.replay(recorded, 1)
                else:
                    submit()

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            u = celerity.Buffer.from_array(np.zeros(2))
            for _ in range(10):
                queue.parallel_for(2, iota, u.write(access.one_to_one()))
            np.testing.assert_array_equal(queue.fence(u).result(60), [0, 1])
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("devices", ["cpu:1", "cpu:3"])
@pytest.mark.parametrize("order", ["age", "path", "predecessors"])
def test_results_do_not_depend_on_priorities(devices: str, order: str) -> None:
    results = []
    for priorities in [(0, 0, 0), (0, 2, 4), (4, 1, 3)]:
        with queues(*priorities, devices=devices, kernel_order=order, horizon_step=2) as given:
            u = celerity.Buffer.from_array(np.arange(60.0).reshape(12, 5))
            v = celerity.Buffer((12, 5))
            around = access.neighborhood(1, 0, wrap=True)

            def mix(chunk: celerity.Chunk, out: Any, view: Any, factor: float) -> None:
                box = chunk.box
                out[box] = factor * view[box] + view.padded(box, (1, 0), mode="wrap")[2:]

            for step in range(30):
                queue = given[step % 3]
                queue.parallel_for((12, 5), mix, v.write(access.one_to_one()), u.read(around), 0.5)
                u, v = v, u
                if step % 7 == 0:
                    queue.host_task(lambda part, view: view.array.__imul__(0.25), u.read_write(access.all()))
                if step % 11 == 0:
                    queue.fill(v, step)
            results.append((given[1].fence(u).result(60).tobytes(), given[2].norm(u).result(60)))
    assert results[0] == results[1] == results[2]


def test_all_calls_of_a_queue_have_its_priority() -> None:
    with queues(3) as (queue,):
        u, v = (celerity.Buffer.from_array(np.ones(8)) for _ in range(2))
        queue.fill(u, 2)
        queue.copy(v, u)
        queue.dot(u, v).result(30)
        queue.any(u).result(30)
        queue.host_task(lambda part, view: None, u.read(access.all()))
        queue.collective(lambda part: None)
        recording = queue.record(lambda: queue.fill(u, 3))
        queue.replay(recording, 5)
        queue.fence(u).result(30)
        issued = queue.statistics().executor["instructions_by_priority"]
    # Allocations of buffers that die have no queue, nor has the end of the program.
    assert [priority for priority, count in enumerate(issued) if count] == [0, 3]
    assert issued[3] > 2 * issued[0]
