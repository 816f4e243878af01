# SPDX-License-Identifier: MIT
"""Several threads submit: one program order with one rank, and none that ranks could differ in with several."""

from __future__ import annotations

import re
import threading
import time
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
        time.sleep(0.1)
        assert queue.statistics().num_submissions > 2
    thread.join(30)
    assert not thread.is_alive()
    call = r"replay\(\) \(repetition \d+ of 10000000\)" if replays else r"parallel_for\(\)"
    told = rf"^{call} of thread 'simulation': thread 'MainThread' closes the last queue\. Join all threads"
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
