# SPDX-License-Identifier: MIT
"""A program that catches an interrupt goes on; `python -m tests.property.interrupts` makes thousands of them."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime.futures import Future, Notifiers
from celerity_py.runtime.run_state import RunState
from tests.property.interrupts import CALLS, StepInterrupt

NUM_INTERRUPTS = 300
HANG_S = 100


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupted_call_leaves_the_runtime_as_before_or_as_after_it(call: str) -> None:
    command = [sys.executable, "-m", "tests.property.interrupts", "--count", str(NUM_INTERRUPTS), "--calls", call]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.endswith("all results right\n")


def test_a_mapper_that_is_interrupted_does_not_leave_the_thread_inside() -> None:
    def mapper(chunk: Any) -> Any:
        raise KeyboardInterrupt

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8, np.int64)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                queue.parallel_for(8, print, buffer.write(mapper))
        queue.parallel_for(8, lambda chunk, view: view.array.fill(3), buffer.write(access.one_to_one()))
        assert queue.fence(buffer).result(10).sum() == 24


def make_future() -> Future[str]:
    return Future(RunState(lambda: None), lambda: None, notifiers=Notifiers())


def test_a_lock_that_an_interrupted_call_has_left_behind_keeps_nobody_waiting() -> None:
    future, other = make_future(), make_future()
    told: list[str] = []
    for each in (future, other):
        each.add_done_callback(lambda done: told.append(done.result()))
    future._condition.acquire()  # as the standard library does, and then Ctrl-C
    begun = time.monotonic()
    threading.Thread(target=future.fulfil, args=["first"]).start()
    threading.Timer(0.1, other.fulfil, ["second"]).start()
    assert future.result(10) == "first"
    assert other.result(10) == "second"
    assert time.monotonic() - begun < 0.8
    both: list[concurrent.futures.Future[str]] = [future, other]
    assert len(concurrent.futures.wait(both, timeout=10).done) == 2
    deadline = time.monotonic() + 10
    while len(told) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert told == ["second", "first"]


@pytest.mark.parametrize("when", [concurrent.futures.FIRST_COMPLETED, concurrent.futures.ALL_COMPLETED])
def test_the_standard_library_waits_for_futures_of_the_runtime(when: str) -> None:
    futures: list[concurrent.futures.Future[str]] = [make_future() for _ in range(5)]
    for number, future in enumerate(futures):
        assert isinstance(future, Future)
        threading.Timer(0.02 * number, future.fulfil, [str(number)]).start()
    futures[0].result()
    done, _ = concurrent.futures.wait(futures[1:], timeout=10, return_when=when)
    assert done
    assert {future.result() for future in concurrent.futures.as_completed(futures, timeout=10)} == set("01234")
    failing = make_future()
    threading.Timer(0.02, failing.poison, [ValueError("no")]).start()
    [failed] = concurrent.futures.wait([failing], timeout=10).done
    assert isinstance(failed.exception(), ValueError)


def test_ctrl_c_ends_a_long_wait_at_once_and_the_next_one_has_the_result() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8, np.int64)
        let_go = threading.Event()

        def slow(chunk: Any, view: Any) -> None:
            let_go.wait(10)
            view[...] = 7

        queue.parallel_for(8, slow, buffer.write(access.one_to_one()))
        future = queue.fence(buffer)
        for wait in (queue.wait, future.result):
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            with pytest.raises(KeyboardInterrupt):
                wait()
            assert not future.done()
        let_go.set()
        assert future.result(10).sum() == 56


def test_an_interrupt_at_each_step_of_a_call_happens_once() -> None:
    seen = 0
    for number in range(10_000):
        interrupt = StepInterrupt(number)
        try:
            with interrupt:
                sorted([3, 1, 2], key=lambda x: -x)
        except KeyboardInterrupt:
            seen += 1
            continue
        break
    assert 8 < seen == number
