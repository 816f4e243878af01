# SPDX-License-Identifier: MIT
"""Several threads submit: one program order with one rank, and none that ranks could differ in with several."""

from __future__ import annotations

import re
import threading
import time
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import lifecycle
from celerity_py.scheduler.errors import ClosedQueue, UsageError

THREADS = 4
STEPS = 150


@celerity.kernel
def add(chunk: Any, view: Any, amount: Any) -> None:
    view[chunk.box] += amount


def run_threads(bodies: list[Any]) -> list[BaseException]:
    errors: list[BaseException] = []

    def guarded(body: Any) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - to be looked at by the test
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[body]) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_with_one_rank_every_submit_of_every_thread_counts() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8, np.int64))
        seen: list[int] = []

        def submit() -> None:
            for step in range(STEPS):
                queue.parallel_for(8, add, buffer.read_write(access.one_to_one()), 1)
                queue.parallel_for(8, add, buffer.read_write(lambda chunk: chunk.box), 1)
                queue.host_task(lambda part, view: view.array.__iadd__(1), buffer.read_write(access.all()))
                if step % 20 == 0:
                    seen.append(int(queue.fence(buffer).result(60)[0]))
                if step % 50 == 0:
                    queue.wait()

        assert not run_threads([submit] * THREADS)
        assert (queue.fence(buffer).result(60) == 3 * STEPS * THREADS).all()
        assert all(0 < count <= 3 * STEPS * THREADS for count in seen)


def test_with_several_ranks_a_call_that_another_thread_overtakes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_DRY_RUN_RANKS", "2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8)

        def submit() -> None:
            queue.parallel_for(8, print, buffer.write(access.one_to_one()))

        def mapper(chunk: Any) -> Any:
            assert not run_threads([submit])
            return chunk.box

        with pytest.raises(UsageError, match="another thread submitted at the same time") as caught:
            queue.parallel_for(8, print, buffer.write(mapper), name="overtaken")
        assert 'kernel "overtaken" (submitted at ' in str(caught.value)
        assert "All 2 ranks must submit in the same order" in str(caught.value)
        runtime: Any = lifecycle.current()
        assert all(entry.name == "print" for entry in runtime.submissions.values())
        submit()  # goes on
        for _ in range(3):
            assert not run_threads([submit])  # one after the other is an order
        queue.wait()


class Worker:
    """A thread that makes calls when it is told to."""

    def __init__(self, name: str) -> None:
        self._calls: Any = SimpleQueue()
        self._results: Any = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=name)
        self.thread.start()

    def call(self, function: Any) -> BaseException | None:
        self._calls.put(function)
        error: BaseException | None = self._results.get(timeout=30)
        return error

    def end(self) -> None:
        self._calls.put(None)
        self.thread.join(30)

    def _work(self) -> None:
        while (function := self._calls.get()) is not None:
            try:
                function()
            except BaseException as error:  # noqa: BLE001 - to be looked at by the test
                self._results.put(error)
            else:
                self._results.put(None)


@pytest.fixture
def queue_of_two_ranks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CELERITY_DRY_RUN_RANKS", "2")
    with celerity.Queue() as queue:
        yield queue


def calls_of(queue: Any) -> dict[str, Any]:
    buffer = celerity.Buffer(8)
    return {
        "parallel_for": lambda: queue.parallel_for(8, print, buffer.write(access.one_to_one())),
        "fence": lambda: queue.fence(celerity.HostObject(1)),
        "wait": queue.wait,
        "buffer": lambda: celerity.Buffer(8),
    }


def test_threads_of_several_ranks_may_submit_one_after_the_other(queue_of_two_ranks: Any) -> None:
    submit = calls_of(queue_of_two_ranks)["parallel_for"]
    for name in ("first", "second"):  # without a call of this thread between
        worker = Worker(name)
        assert worker.call(submit) is None
        assert worker.call(submit) is None
        worker.end()
    submit()
    late = Worker("third")
    assert late.call(submit) is None
    late.end()
    submit()


@pytest.mark.parametrize("call", ["parallel_for", "fence", "wait", "buffer"])
def test_a_call_beside_a_thread_that_still_runs_is_refused(queue_of_two_ranks: Any, call: str) -> None:
    made = calls_of(queue_of_two_ranks)[call]
    low, high = Worker("low"), Worker("high")
    assert low.call(made) is None
    error = high.call(made)
    assert isinstance(error, UsageError)
    assert "comes from thread 'high', and the call before it came from thread 'low'" in str(error)
    assert "all 2 ranks must" in str(error)
    with pytest.raises(UsageError, match="comes from thread 'MainThread'"):
        made()
    assert low.call(made) is None  # nothing of the refused calls counts
    low.end()
    assert isinstance(high.call(made), UsageError), "it ran beside the other: whether that one was first is chance"
    high.end()
    made()


def test_a_thread_that_another_one_has_followed_is_refused(queue_of_two_ranks: Any) -> None:
    submit = calls_of(queue_of_two_ranks)["parallel_for"]
    low = Worker("low")
    assert low.call(submit) is None
    high = Worker("high")
    assert isinstance(high.call(submit), UsageError), "the first one still runs"
    high.end()
    low.end()
    submit()


def test_with_one_rank_threads_may_take_turns() -> None:
    with celerity.Queue() as queue:
        submit = calls_of(queue)["wait"]
        low, high = Worker("low"), Worker("high")
        for _ in range(3):
            assert low.call(submit) is None
            assert high.call(submit) is None
        low.end()
        high.end()


def close_while_a_thread_submits(*, replays: bool, has_mapper: bool) -> None:
    errors: list[ClosedQueue] = []
    num_calls = num_submitted = 0

    @celerity.kernel
    def count(chunk: Any, view: Any) -> None:
        nonlocal num_calls
        num_calls += 1

    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8, np.int64))

        def step() -> None:
            mapper = (lambda chunk: chunk.box) if has_mapper else access.one_to_one()
            queue.parallel_for(8, count, buffer.read_write(mapper))

        def submit() -> None:
            nonlocal num_submitted
            try:
                if replays:
                    queue.replay(recorded, 10**7)
                while True:
                    step()
                    num_submitted += 1
            except ClosedQueue as error:
                errors.append(error)

        recorded = queue.record(step)
        thread = threading.Thread(target=submit, name="simulation")
        thread.start()
        deadline = time.monotonic() + 10
        while queue.statistics().num_submissions <= 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    thread.join(30)
    assert not thread.is_alive()
    call = r"replay\(\) \(repetition \d+ of 10000000\)" if replays else r"parallel_for\(\)"
    told = rf"^{call} of thread 'simulation': thread 'MainThread' (closes|has closed) the last queue\. Join all threads"
    assert [bool(re.search(told, str(error))) for error in errors] == [True]
    if not replays:
        assert num_calls == 1 + num_submitted  # all that was submitted before has been carried out


@pytest.mark.parametrize("replays", [False, True])
@pytest.mark.parametrize("has_mapper", [False, True])
def test_a_thread_that_submits_while_another_one_closes_the_queue_is_told(replays: bool, has_mapper: bool) -> None:
    for _ in range(3):
        close_while_a_thread_submits(replays=replays, has_mapper=has_mapper)


def test_an_exception_that_leaves_the_last_queue_ends_the_submits_of_other_threads() -> None:
    errors: list[ClosedQueue] = []
    threads: list[threading.Thread] = []

    def fail_while_a_thread_submits() -> None:
        with celerity.Queue() as queue:
            buffer = celerity.Buffer.from_array(np.zeros(8, np.int64))

            def submit() -> None:
                try:
                    while True:
                        queue.parallel_for(8, add, buffer.read_write(access.one_to_one()), 1)
                except ClosedQueue as error:
                    errors.append(error)

            threads.append(threading.Thread(target=submit))
            threads[0].start()
            time.sleep(0.1)
            raise KeyError

    with pytest.raises(KeyError):
        fail_while_a_thread_submits()
    threads[0].join(30)
    assert not threads[0].is_alive()
    assert len(errors) == 1
