# SPDX-License-Identifier: MIT
"""Loops that make a buffer per step, as data pipelines do: kernels run beside the loop, and memory stays flat."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

STEPS = 100


@pytest.fixture(params=["cpu:1", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=request.param)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None)


@pytest.mark.parametrize("is_kept", [False, True])
def test_kernels_run_beside_a_loop_that_makes_a_buffer_per_step(queue: celerity.Queue, is_kept: bool) -> None:
    runs: list[int] = []
    kept: list[celerity.Buffer[Any]] = []
    for step in range(STEPS):
        frame = celerity.Buffer.from_array(np.full(64, float(step)))
        queue.parallel_for(1, lambda chunk, u, step: runs.append(step), frame.read(access.all()), step)
        if is_kept:
            kept.append(frame)
        time.sleep(0.002)
    beside = len(runs)
    queue.wait()
    assert len(runs) == STEPS
    assert beside > 0.8 * STEPS


def test_the_contents_of_earlier_steps_do_not_pile_up(queue: celerity.Queue) -> None:
    contents_of_steps: list[weakref.ref[Any]] = []
    most = 0
    for _ in range(STEPS):
        contents = np.ones(4096)
        contents_of_steps.append(weakref.ref(contents))
        frame = celerity.Buffer.from_array(contents, copy=False)
        queue.parallel_for(4096, lambda chunk, u: None, frame.read_write(access.one_to_one()))
        del frame, contents
        time.sleep(0.002)
        most = max(most, sum(contents() is not None for contents in contents_of_steps))
    queue.wait()
    assert most < 0.3 * STEPS, f"the contents of {most} of {STEPS} steps were alive at once"


def wait_for(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


def test_a_program_that_pauses_while_nothing_runs_gets_its_work_done(queue: celerity.Queue) -> None:
    """It may wait for an effect of the kernel of which the runtime knows nothing."""
    started = threading.Event()
    buffer = celerity.Buffer(8)
    queue.parallel_for(3, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))  # the buffer may grow
    assert started.wait(10)


def test_commands_are_held_back_while_a_kernel_runs(queue: celerity.Queue) -> None:
    release, started = threading.Event(), threading.Event()
    busy, growing = celerity.Buffer(1), celerity.Buffer(8)
    queue.parallel_for(1, lambda chunk, out: release.wait(10), busy.write(access.all()))
    queue.parallel_for(3, lambda chunk, out: started.set(), growing.write(access.one_to_one()))
    assert not started.wait(0.1)
    release.set()
    assert started.wait(10)


def test_infinite_lookahead_waits_for_the_program() -> None:
    celerity.configure(lookahead="infinite")
    with celerity.Queue() as queue:
        started = threading.Event()
        buffer = celerity.Buffer(8)
        queue.parallel_for(8, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))
        assert not started.wait(0.1)
        queue.wait()
        assert started.is_set()
    celerity.configure(lookahead=None)


MIB = 2**20
CONTENTS = np.zeros(64 * MIB, np.uint8)
FIRST = access.fixed(celerity.Box((0,), (1,)))


def submit_frame(queue: celerity.Queue, kernel: Callable[..., object]) -> celerity.Buffer[Any]:
    frame = celerity.Buffer.from_array(CONTENTS, copy=False)
    queue.parallel_for(1, kernel, frame.read(FIRST))
    return frame


def test_a_program_is_no_more_than_a_gibibyte_of_contents_ahead(queue: celerity.Queue) -> None:
    release, submitted = threading.Event(), []

    def program() -> None:
        for step in range(40):
            submit_frame(queue, lambda chunk, u: release.wait(10))
            submitted.append(step)

    thread = threading.Thread(target=program)
    thread.start()
    assert wait_for(lambda: len(submitted) >= 17)
    time.sleep(0.1)
    assert 16 <= len(submitted) <= 18
    release.set()
    thread.join(20)
    assert len(submitted) == 40


@pytest.mark.parametrize("lookahead", ["auto", "infinite"])
def test_contents_behind_commands_that_are_held_back_do_not_block_for_ever(lookahead: Any) -> None:
    celerity.configure(lookahead=lookahead)
    with celerity.Queue() as queue:
        runs: list[int] = []
        growing = celerity.Buffer(8)
        queue.parallel_for(3, lambda chunk, out: runs.append(0), growing.write(access.one_to_one()))
        for _ in range(40):
            submit_frame(queue, lambda chunk, u: runs.append(1))
        assert len(runs) > 20
    celerity.configure(lookahead=None)


def test_contents_that_the_program_itself_keeps_do_not_count(queue: celerity.Queue) -> None:
    started = time.monotonic()
    kept = [submit_frame(queue, lambda chunk, u: None) for _ in range(40)]
    queue.wait()
    assert len(kept) == 40
    assert queue.statistics().blocked_seconds == 0
    assert time.monotonic() - started < 10


def test_arrays_of_arguments_count_until_their_tasks_are_done(queue: celerity.Queue) -> None:
    """No horizon is near, and still the program goes on once all is done."""
    array = np.zeros(128 * MIB, np.uint8)
    release, submitted = threading.Event(), []

    def program() -> None:
        for step in range(12):
            target = celerity.Buffer(1)
            queue.parallel_for(1, lambda chunk, given, out: release.wait(10), array, target.write(access.all()))
            submitted.append(step)

    thread = threading.Thread(target=program)
    thread.start()
    assert wait_for(lambda: len(submitted) >= 9)
    time.sleep(0.1)
    assert len(submitted) == 9
    release.set()
    thread.join(20)
    assert len(submitted) == 12
