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
from celerity_py.runtime import native_objects

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
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


def test_a_program_that_pauses_while_nothing_runs_gets_its_work_done(queue: celerity.Queue) -> None:
    """It may wait for an effect of the kernel of which the runtime knows nothing."""
    started = threading.Event()
    buffer = celerity.Buffer(8)
    queue.parallel_for(3, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))  # the buffer may grow
    assert started.wait(20)


def test_commands_are_held_back_while_a_kernel_runs(queue: celerity.Queue) -> None:
    release, started = threading.Event(), threading.Event()
    busy, growing = celerity.Buffer(1), celerity.Buffer(8)
    queue.parallel_for(1, lambda chunk, out: release.wait(20), busy.write(access.all()))
    queue.parallel_for(3, lambda chunk, out: started.set(), growing.write(access.one_to_one()))
    assert not started.wait(0.15)
    release.set()
    assert started.wait(20)


def test_infinite_lookahead_waits_for_the_program() -> None:
    celerity.configure(lookahead="infinite")
    with celerity.Queue() as queue:
        started = threading.Event()
        buffer = celerity.Buffer(8)
        queue.parallel_for(8, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))
        assert not started.wait(0.15)
        queue.wait()
        assert started.is_set()
    celerity.configure(lookahead=None)


FRAME_BYTES = 2**16
BOUND = 2**20
FRAMES = 400
WAYS = ("array of the program", "copied array", "no contents")


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_objects, "MOST_KEPT_BYTES", BOUND)


def submit_frame(queue: celerity.Queue, way: str, kernel: Callable[..., object], num_bytes: int = FRAME_BYTES) -> None:
    """Make a frame, submit a kernel that uses all of it, and drop it."""
    if way == "no contents":
        frame = celerity.Buffer(num_bytes, np.uint8)
        queue.parallel_for(num_bytes, kernel, frame.write(access.one_to_one()))
        return
    frame = celerity.Buffer.from_array(np.zeros(num_bytes, np.uint8), copy=way == "copied array")
    queue.parallel_for(num_bytes, kernel, frame.read(access.one_to_one()))


@pytest.mark.parametrize("way", WAYS)
def test_a_program_is_ahead_by_a_bounded_size_of_contents(small_bound: None, way: str) -> None:
    """The allocations of dropped frames count. Their arrays do, too, until they are copied there."""
    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        release, submitted = threading.Event(), []

        def program() -> None:
            for step in range(FRAMES):
                submit_frame(queue, way, lambda chunk, u: release.wait(20))
                submitted.append(step)

        most = BOUND // FRAME_BYTES
        # Until an array is copied, its frame counts twice. A submit that waits goes on at seven eighths of the bound.
        least = most if way == "no contents" else most - most // 8
        thread = threading.Thread(target=program)
        thread.start()
        assert wait_for(lambda: len(submitted) >= least)
        time.sleep(0.2)
        assert least <= len(submitted) <= most + 2
        release.set()
        thread.join(60)
        assert len(submitted) == FRAMES
        queue.wait()
        assert queue.statistics().blocked_seconds > 0
        memories = queue.statistics().executor["memories"]
        assert FRAME_BYTES < sum(memory["peak_bytes"] for memory in memories) <= BOUND + 2 * FRAME_BYTES
    celerity.configure(devices=None)


@pytest.mark.parametrize("lookahead", ["auto", "infinite"])
@pytest.mark.parametrize("way", WAYS)
def test_contents_behind_commands_that_are_held_back_do_not_block_for_ever(
    small_bound: None, way: str, lookahead: Any
) -> None:
    celerity.configure(lookahead=lookahead)
    with celerity.Queue() as queue:
        runs: list[int] = []
        growing = celerity.Buffer(8)
        queue.parallel_for(3, lambda chunk, out: runs.append(0), growing.write(access.one_to_one()))
        for _ in range(FRAMES):
            submit_frame(queue, way, lambda chunk, u: runs.append(1))
        assert len(runs) > FRAMES / 2
        memories = queue.statistics().executor["memories"]
        assert sum(memory["peak_bytes"] for memory in memories) <= BOUND + 4 * FRAME_BYTES
    celerity.configure(lookahead=None)


@pytest.mark.parametrize("way", WAYS)
def test_contents_that_are_larger_than_the_bound_run_one_after_the_other(small_bound: None, way: str) -> None:
    with celerity.Queue() as queue:
        runs: list[int] = []
        for _ in range(5):
            submit_frame(queue, way, lambda chunk, u: runs.append(1), 3 * BOUND)
        queue.wait()
        assert len(runs) == 5
        memories = queue.statistics().executor["memories"]
        assert sum(memory["peak_bytes"] for memory in memories) <= 2 * 3 * BOUND


def test_contents_that_the_program_itself_keeps_do_not_count(small_bound: None, queue: celerity.Queue) -> None:
    kept = [celerity.Buffer.from_array(np.zeros(FRAME_BYTES, np.uint8)) for _ in range(FRAMES)]
    for frame in kept:
        queue.parallel_for(FRAME_BYTES, lambda chunk, u: None, frame.read(access.one_to_one()))
    queue.wait()
    assert len(kept) == FRAMES


def test_a_dry_run_keeps_no_contents(small_bound: None) -> None:
    celerity.configure(dry_run_ranks=2)
    with celerity.Queue() as queue:
        for _ in range(FRAMES):
            submit_frame(queue, "no contents", lambda chunk, u: None)
        queue.wait()
    celerity.configure(dry_run_ranks=None)
