# SPDX-License-Identifier: MIT
"""Statistics: counters, the file, blocked submits, and dry runs."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native_testing, access
from celerity_py.errors import ConfigurationError
from tests.support.kernels import scale


def test_statistics_count_submissions_and_tell_submit_time_from_blocked_time(queue: celerity.Queue) -> None:
    for _ in range(10):
        queue.parallel_for(4, lambda chunk: None)
    queue.wait()
    statistics = queue.statistics()
    assert statistics.num_submissions == 11
    assert 0 < statistics.submit_seconds < 1
    assert statistics.blocked_seconds >= 0
    assert statistics.executor["instructions"]["device_kernel"] == 10 * statistics.num_devices


def test_counts_by_buffer_are_those_of_the_newest_buffers(queue: celerity.Queue) -> None:
    for number in range(4200):
        buffer = celerity.Buffer(1, np.int8)
        queue.parallel_for(1, lambda chunk, x: None, buffer.read_write(access.all()))
        if number % 100 == 0:
            queue.wait()
    queue.wait()
    counted = queue.statistics().executor["allocations_by_buffer"]
    assert len(counted) <= 4096
    newest = buffer.record.id
    assert max(buffer for buffer, _ in counted) == newest


def test_a_slow_device_blocks_the_submitting_program() -> None:
    celerity.configure(run_ahead=2, horizon_step=1, lookahead="none")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(2))
        for _ in range(30):
            queue.parallel_for((), lambda chunk, x: time.sleep(0.01), buffer.read_write(access.all()))
            time.sleep(0.002)  # lets the scheduler plan it
        assert queue.statistics().blocked_seconds > 0.02
    celerity.configure(run_ahead=None, horizon_step=None, lookahead=None)


@pytest.mark.parametrize(("replays", "fewest", "most"), [(False, 8, 14), (True, 18, 26)])
def test_a_replay_may_be_twice_as_far_ahead_as_a_submit(replays: bool, fewest: int, most: int) -> None:
    celerity.configure(run_ahead=10, horizon_step=1, lookahead="none")
    gate, num_submitted, num_at_block = threading.Event(), 0, 0
    with celerity.Queue() as queue:

        def watch() -> None:
            nonlocal num_at_block
            end = time.monotonic() + 20
            while queue.statistics().blocked_seconds < 0.1 and time.monotonic() < end:
                time.sleep(0.01)
            num_at_block = num_submitted
            gate.set()

        buffer = celerity.Buffer.from_array(np.zeros(2))

        def step() -> None:
            queue.parallel_for((), lambda chunk, x: gate.wait(30) and None, buffer.read_write(access.all()))

        recorded = queue.record(step)
        watcher = threading.Thread(target=watch)
        watcher.start()
        while not gate.is_set():
            if replays:
                queue.replay(recorded, 1)
            else:
                step()
            num_submitted += 1
            time.sleep(0.002)  # lets the scheduler plan it
        watcher.join()
    celerity.configure(run_ahead=None, horizon_step=None, lookahead=None)
    assert fewest <= num_at_block <= most


def test_the_time_of_a_blocked_submit_counts_while_it_lasts() -> None:
    """As the live view needs it, whose shares of a second would else be more than all of it."""
    celerity.configure(run_ahead=2, horizon_step=1, lookahead="none")
    gate, seen = threading.Event(), 0.0
    with celerity.Queue() as queue:

        def watch() -> None:
            nonlocal seen
            end = time.monotonic() + 10
            while seen < 0.05 and time.monotonic() < end:
                seen = queue.statistics().blocked_seconds
                time.sleep(0.01)
            gate.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        buffer = celerity.Buffer.from_array(np.zeros(2))
        for _ in range(30):
            queue.parallel_for((), lambda chunk, x: gate.wait(20) and None, buffer.read_write(access.all()))
            time.sleep(0.002)  # lets the scheduler plan it
        watcher.join()
        after = queue.statistics().blocked_seconds
        assert 0.05 <= seen <= after < 10
    celerity.configure(run_ahead=None, horizon_step=None, lookahead=None)


def test_statistics_are_written_as_json_at_the_end(tmp_path: Path) -> None:
    celerity.configure(stats=tmp_path / "run" / "stats")
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(2))
        queue.parallel_for(2, scale, buffer.read_write(access.one_to_one()), 2.0)
    celerity.configure(stats=None)
    written = json.loads((tmp_path / "run" / "stats.json").read_text())
    assert written["rank"] == 0
    assert written["num_submissions"] == 2
    assert written["executor"]["instructions"]["device_kernel"] == 1


def test_a_dry_run_plans_for_many_ranks_and_executes_nothing() -> None:
    celerity.configure(dry_run_ranks=8, devices="cpu:2")
    with celerity.Queue() as queue:
        assert celerity.size() == 8
        buffer = celerity.Buffer((64, 4))
        executed: list[Any] = []
        for _ in range(20):
            queue.parallel_for((64, 4), lambda chunk, x: executed.append(chunk), buffer.write(access.one_to_one()))
            queue.parallel_for((64, 4), lambda chunk, x: None, buffer.read(access.neighborhood(1, 0)))
        with pytest.warns(celerity.CelerityWarning, match="dry run"):
            assert not queue.fence(buffer).result(10).any()
        queue.wait()
        statistics = queue.statistics()
        assert not executed
        assert statistics.scheduler["tasks"] > 40
        assert statistics.scheduler["instructions"] > 100
    celerity.configure(dry_run_ranks=None, devices=None)


def test_a_wait_in_a_dry_run_returns_when_the_statistics_count_everything_before_it() -> None:
    celerity.configure(dry_run_ranks=2, devices="cpu:1", horizon_step=100)
    with celerity.Queue() as queue:
        buffer = celerity.Buffer((64,))
        tasks = []
        for _ in range(50):
            for _ in range(8):
                queue.parallel_for((64,), lambda chunk, x: None, buffer.write(access.one_to_one()))
            queue.wait()
            tasks.append(queue.statistics().scheduler["tasks"])
    assert {later - earlier for earlier, later in itertools.pairwise(tasks)} == {9}
    celerity.configure(dry_run_ranks=None, devices=None, horizon_step=None)


@pytest.mark.parametrize("variable", ["stats", "trace"])
def test_an_output_that_cannot_be_written_is_an_error_before_the_program_runs(variable: str, tmp_path: Path) -> None:
    taken = tmp_path / "a file"
    taken.write_text("no folder")
    settings: Any = {variable: str(taken / "out.json")}
    celerity.configure(**settings)
    try:
        with pytest.raises(ConfigurationError, match=rf"{variable.upper()}=.*out\.json.*File exists"):
            celerity.Queue()
    finally:
        celerity.configure(**{variable: None})


def test_statistics_have_entries_by_kind_by_function_by_memory_and_by_buffer() -> None:
    statistics = _native_testing.statistics_of_one_launch()
    assert statistics["instructions"]["device_kernel"] == sum(statistics["instructions"].values()) == 1
    assert statistics["driver_calls"] == {"cuLaunchKernel": 1}
    assert statistics["sent_bytes"] == {"host": 0, "direct": 0}
    assert statistics["memories"] == [{"allocations": 1, "current_bytes": 8, "peak_bytes": 16}]
    assert statistics["allocations_by_buffer"] == {(3, 1): 1}
