# SPDX-License-Identifier: MIT
"""The life of the runtime behind the queues, and calls from inside of its tasks."""

from __future__ import annotations

import concurrent.futures
import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ClosedQueue, ConfigurationError, NestedUse
from celerity_py.runtime import lifecycle
from tests.support.kernels import scale


def test_the_runtime_ends_with_the_last_queue_and_starts_again() -> None:
    threads = set(threading.enumerate())
    first = celerity.Queue()
    with celerity.Queue() as second:
        first.close()
        second.wait()
        runtime = lifecycle.current()
    assert runtime.state.has_ended
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended meanwhile
    with celerity.Queue():
        assert lifecycle.current() is not runtime


@pytest.mark.parametrize("devices", [1, 2])
def test_many_queues_feed_one_program_order(devices: int) -> None:
    def advance(chunk: celerity.Chunk, out: celerity.View, step: int) -> None:
        out[chunk.box] = 2 * out[chunk.box] + step  # another order gives another number

    celerity.configure(devices=f"cpu:{devices}")
    with celerity.Queue() as queue:
        values = celerity.Buffer.from_array(np.ones(10))
        queues = [celerity.Queue() for _ in range(5)]
        for step in range(40):
            queues[step % 5].parallel_for(values.shape, advance, values.read_write(access.one_to_one()), step)
        for other in queues:
            other.close()
        result = queue.fence(values).result(20)
    expected = 1
    for step in range(40):
        expected = 2 * expected + step
    assert result.tolist() == [expected] * 10


def test_a_buffer_may_come_before_the_first_queue() -> None:
    buffer = celerity.Buffer.from_array(np.arange(4))
    with celerity.Queue() as queue:
        np.testing.assert_array_equal(queue.fence(buffer).result(10), np.arange(4))


def test_leaving_the_block_waits_for_the_work() -> None:
    done: list[int] = []

    def slow(chunk: celerity.Chunk) -> None:
        time.sleep(0.1)
        done.append(1)

    with celerity.Queue() as queue:
        queue.parallel_for((), slow)
    assert done == [1]


def test_a_closed_queue_and_its_buffers_cannot_be_used() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(4, name="old")
    for call in (queue.wait, queue.barrier, queue.flush, lambda: queue.parallel_for(4, lambda chunk: None)):
        with pytest.raises(ClosedQueue, match="closed"):
            call()
    queue.close()
    with celerity.Queue() as queue:
        with pytest.raises(
            ClosedQueue, match=r'B\d+ "old" \(made at .*test_queue_life.py:\d+\) belongs to a runtime that ended'
        ):
            queue.parallel_for(4, lambda chunk, x: None, buffer.write(access.one_to_one()))
        with pytest.raises(ClosedQueue):
            queue.fence(buffer)


def test_an_exception_leaves_the_block_without_waiting() -> None:
    ran = []
    let_go = threading.Event()
    with pytest.raises(ZeroDivisionError), celerity.Queue() as queue:  # noqa: PT012 - the block is what is left
        buffer = celerity.Buffer.from_array(np.zeros(2))
        queue.parallel_for((), lambda chunk, x: let_go.wait(0.3), buffer.read_write(access.all()))
        queue.parallel_for((), lambda chunk, x: ran.append(1), buffer.read_write(access.all()))
        future = queue.fence(buffer)
        raise ZeroDivisionError
    assert ran == []
    with pytest.raises(ClosedQueue):
        future.result(1)
    let_go.set()
    with celerity.Queue() as queue:
        queue.wait()


def test_the_configuration_is_fixed_while_the_runtime_lives() -> None:
    with celerity.Queue(), pytest.raises(ConfigurationError, match="too late"):
        celerity.configure(check=True)
    celerity.configure(check=None)


def test_a_wrong_variable_is_found_at_start_and_can_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_LOOKAHED", "none")
    with pytest.raises(ConfigurationError, match="Did you mean CELERITY_LOOKAHEAD"):
        celerity.Queue()
    monkeypatch.delenv("CELERITY_LOOKAHED")
    with celerity.Queue() as queue:
        queue.wait()


def test_rank_and_size_are_known_without_a_runtime() -> None:
    assert (celerity.rank(), celerity.size(), celerity.is_master()) == (0, 1, True)


def test_callables_and_arguments_are_dropped_once_their_tasks_are_retired(queue: celerity.Queue) -> None:
    class Payload: ...

    payload = Payload()
    gone = weakref.ref(payload)
    queue.parallel_for((), lambda chunk, x: None, payload)
    del payload
    for _ in range(3):
        queue.wait()
    gc.collect()
    assert gone() is None
    assert len(lifecycle.current().submissions) < 5


def test_a_long_loop_keeps_a_bounded_table_of_submissions(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(4))
    longest = 0
    for _ in range(20_000):
        queue.parallel_for(4, scale, buffer.read_write(access.one_to_one()), 1.0)
        longest = max(longest, len(lifecycle.current().submissions))
    queue.wait()
    assert longest < 10_000


# ---- inside of tasks


def test_calls_from_inside_of_a_task_raise_nested_use(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.zeros(4))
    pending = threading.Event()
    errors: list[Any] = []

    def attempt(*calls: Any) -> None:
        for call in calls:
            try:
                call()
                errors.append(call)
            except NestedUse as error:
                errors.append(error)

    calls = [
        queue.wait,
        lambda: queue.parallel_for(4, lambda chunk: None),
        lambda: queue.host_task(print),
        lambda: queue.fence(buffer),
        lambda: celerity.Buffer(4),
        celerity.Queue,
        queue.close,
    ]
    queue.parallel_for((), lambda chunk: attempt(*calls))
    queue.host_task(lambda part: attempt(*calls))
    queue.parallel_for((), lambda chunk, x: pending.wait(10), buffer.read_write(access.all()))
    future = queue.fence(buffer)

    def after(done: concurrent.futures.Future[Any]) -> None:
        assert done.result() is not None  # it is there, so that asking for it is allowed
        attempt(*calls, queue.barrier)
        told.set()

    told, asked = threading.Event(), threading.Event()
    future.add_done_callback(after)

    def ask(part: Any) -> None:
        attempt(lambda: future.result(5))
        asked.set()

    queue.host_task(ask)  # a kernel would come behind the one that is pending, and might find the result
    assert asked.wait(10)
    pending.set()
    queue.wait()
    assert told.wait(10), "callbacks run on a thread of their own"
    assert len(errors) == 3 * len(calls) + 2
    assert all(isinstance(error, NestedUse) for error in errors)
    assert isinstance(errors[0], RuntimeError)
