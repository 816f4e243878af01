# SPDX-License-Identifier: MIT
"""Which threads spin, and for how long; and that those who do get their results, timeouts and failures all the same."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import math
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native, access
from celerity_py.runtime import spinning
from celerity_py.runtime.devices import Devices
from celerity_py.runtime.futures import Future
from celerity_py.runtime.run_state import RunState
from celerity_py.runtime.spinning import SpinTimes, spin_times
from celerity_py.runtime.submissions_in_flight import Completion
from tests.support.kernels import iota, scale

GPU = Devices("cuda", 1, (0,))


@pytest.mark.parametrize(
    ("cores", "local_size", "devices", "spins"),
    [
        (4, 1, GPU, True),
        (3, 1, GPU, False),
        (16, 4, GPU, True),
        (15, 4, GPU, False),
        (7, 1, Devices("cuda", 4, (0, 1, 2, 3)), True),
        (6, 1, Devices("cuda", 4, (0, 1, 2, 3)), False),
        (64, 1, Devices("cpu", 1), False),
    ],
)
def test_only_ranks_with_a_core_for_each_thread_spin_and_only_if_no_device_wants_the_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, local_size: int, devices: Devices, spins: bool
) -> None:
    monkeypatch.setattr(spinning, "num_cores", lambda: cores)
    times = spin_times("adaptive", local_size, devices)
    assert (times != SpinTimes()) == spins
    assert (times.idle_s > 0) == (times.wait_s > 0)


@pytest.mark.parametrize(
    ("cores", "cores_of_host", "rank", "size", "warns"),
    [
        (1, 8, 0, 2, True),
        (2, 8, 0, 2, True),
        (3, 8, 0, 2, False),
        (1, 8, 1, 2, False),
        (1, 5, 0, 2, False),
        (1, 8, 0, 1, False),
    ],
)
def test_a_rank_that_was_bound_to_a_core_or_two_says_so_once_per_host(  # noqa: PLR0917 - a parameter each
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cores: int,
    cores_of_host: int,
    rank: int,
    size: int,
    warns: bool,
) -> None:
    monkeypatch.setattr(spinning, "num_cores", lambda: cores)
    monkeypatch.setattr(os, "cpu_count", lambda: cores_of_host)
    communicator: Any = SimpleNamespace(rank=4 + rank, size=size, local_rank=rank, local_size=size)
    monkeypatch.setattr(logging.getLogger("celerity_py"), "propagate", True)
    spinning.warn_of_bound_ranks(communicator)
    expected = f"Rank 4 may use {cores} of the 8 cores of its host"
    assert [record.getMessage()[: len(expected)] for record in caplog.records] == ([expected] if warns else [])


def test_whoever_is_told_to_spin_never_sleeps_while_waiting() -> None:
    times = spin_times("spin", 8, Devices("cpu", 4))
    assert times.wait_s == math.inf
    assert 0 < times.idle_s < math.inf


def test_a_flag_is_set_once_and_for_all() -> None:
    flag = _native.SpinFlag()
    begun = time.monotonic()
    assert not flag.wait(0.01)
    assert time.monotonic() - begun >= 0.01
    threading.Timer(0.02, flag.set).start()
    assert flag.wait(10)
    assert flag.wait(0)


def make_future(spin_s: float, look_after: Callable[[], None] = lambda: None) -> Future[Any]:
    def watch(future: Future[Any], flag: _native.SpinFlag, limit_s: float) -> bool:
        flag.wait(limit_s)
        return False

    return Future(RunState(lambda: None), look_after, watch, spin_s)


@pytest.mark.parametrize("spin_s", [0.0, 0.01, math.inf])
def test_a_result_that_comes_while_somebody_waits_is_seen(spin_s: float) -> None:
    future = make_future(spin_s)
    threading.Timer(0.05, future.fulfil, ["done"]).start()
    assert future.result(10) == "done"
    future = make_future(spin_s)
    threading.Timer(0.05, future.poison, [ValueError("no")]).start()
    with pytest.raises(ValueError, match="no"):
        future.result()


@pytest.mark.parametrize("spin_s", [0.01, math.inf])
def test_who_spins_gives_up_in_time_and_looks_after_messages(spin_s: float) -> None:
    looks: list[float] = []
    future = make_future(spin_s, lambda: looks.append(time.monotonic()))
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        future.result(0.6)
    assert 0.6 <= time.monotonic() - begun < 5
    assert len(looks) >= 2


def test_a_program_runs_with_threads_that_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")
    monkeypatch.setenv("CELERITY_DEVICES", "cpu:2")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(100, np.int64)
        queue.parallel_for(100, iota, buffer.write(access.one_to_one()))
        for step in range(20):
            queue.parallel_for(100, scale, buffer.read_write(access.one_to_one()), 1)
            if step % 3 == 0:
                time.sleep(0.003 * step)  # shorter and longer than idle threads spin
            np.testing.assert_array_equal(queue.fence(buffer).result(10), np.arange(100))
        queue.wait()


def test_who_has_waited_knows_that_arguments_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")

    class Scale:
        def __call__(self, chunk: celerity.Chunk, view: celerity.View) -> None:
            view[...] = 1

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(10)
        for _ in range(50):
            kernel = Scale()
            gone = weakref.ref(kernel)
            queue.parallel_for(10, kernel, buffer.write(access.one_to_one()))
            del kernel
            queue.wait()
            assert gone() is None


def test_a_callback_may_not_call_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")
    outcomes: list[str] = []

    def after(future: concurrent.futures.Future[Any]) -> None:
        try:
            queue.wait()
            outcomes.append("waited")
        except celerity.NestedUse:
            outcomes.append("refused")

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(1)
        for _ in range(20):
            added = threading.Event()
            queue.parallel_for(1, lambda chunk, view, added: added.wait(10), buffer.write(access.one_to_one()), added)
            future = queue.fence(buffer)
            future.add_done_callback(after)
            added.set()
            future.result()
        queue.wait()  # allowed again
    assert outcomes == 20 * ["refused"]


def test_who_waits_runs_no_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")
    lock = threading.Lock()
    called = threading.Event()

    def after(future: concurrent.futures.Future[Any]) -> None:
        with lock:
            called.set()

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(1)
        queue.parallel_for(1, lambda chunk, view: time.sleep(0.05), buffer.write(access.one_to_one()))
        future = queue.fence(buffer)
        future.add_done_callback(after)
        with lock:
            future.result(10)
        assert called.wait(10)


def test_who_is_interrupted_may_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")
    interrupts: list[None] = []
    fulfil = Completion._fulfil

    def be_interrupted(completion: Completion, future: Future[Any]) -> None:
        if interrupts and threading.current_thread() is threading.main_thread():
            interrupts.pop()
            raise KeyboardInterrupt
        fulfil(completion, future)

    monkeypatch.setattr(Completion, "_fulfil", be_interrupted)
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(1)
        for _ in range(10):
            queue.parallel_for(1, slow_iota, buffer.write(access.one_to_one()))
            future = queue.fence(buffer)
            interrupts[:] = [None]
            try:
                future.result(10)
            except KeyboardInterrupt:
                queue.wait()  # what the executor has left for later is forgotten here
            assert future.result(10) == [0]
        queue.wait()  # not as if it came from a callback


def test_the_timeline_has_every_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CELERITY_POLL", "spin")
    monkeypatch.setenv("CELERITY_TRACE", str(tmp_path / "trace.json"))
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(1)
        for number in range(5):
            queue.parallel_for(1, slow_iota, buffer.write(access.one_to_one()))
            if number % 2:
                queue.fence(buffer)
            queue.wait()
    (file,) = tmp_path.glob("trace*.json")
    events = json.loads(file.read_text())["traceEvents"]
    waits = [event for event in events if event["ph"] == "X" and event["name"].startswith("wait")]
    assert len(waits) == 5
    assert all(event["dur"] > 10_000 for event in waits)  # µs; a kernel sleeps for 20 ms


def slow_iota(chunk: celerity.Chunk, view: celerity.View) -> None:
    time.sleep(0.02)
    view[...] = 0


FAILING = """
import threading, time
import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime.submissions_in_flight import Completion
from celerity_py.errors import UninitializedRead
from celerity_py.executor.live_executor import LiveExecutor

fail = LiveExecutor.fail

def fail_late(*arguments):
    time.sleep(0.01)
    fail(*arguments)

def wake():
    while True:
        queue._runtime.executor.wake()
        time.sleep(5e-5)

def copy(chunk, x, y):
    y[chunk.box] = x[chunk.box]

LiveExecutor.fail = fail_late
queue = celerity.Queue()
source, target = celerity.Buffer(4), celerity.Buffer(4)
threading.Thread(target=wake, daemon=True).start()
queue.parallel_for(4, copy, source.read(access.one_to_one()), target.write(access.one_to_one()))
try:
    queue.wait()
except UninitializedRead:
    print("raised", flush=True)
"""


def test_a_failure_that_another_thread_reports_reaches_who_waits() -> None:
    environment = os.environ | {"CELERITY_POLL": "spin", "CELERITY_CHECK": "1", "CELERITY_DEVICES": "cpu:1"}
    for _ in range(6):  # it is a matter of chance which thread is the first
        result = subprocess.run(
            [sys.executable, "-c", FAILING], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert "raised" in result.stdout, result.stderr
