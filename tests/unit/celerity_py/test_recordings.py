# SPDX-License-Identifier: MIT
"""`Queue.record` and `Queue.replay`: the same as calling the function again."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import UsageError
from tests.support.recorded_steps import ONE, START, Fields, add, total, use_one
from tests.support.scripts import run


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


# ---- the same as calling the function again


@pytest.mark.parametrize("times", [0, 1, 7, np.int64(150)])
def test_a_replay_repeats_the_function(queue: celerity.Queue, fields: Fields, times: int) -> None:
    step = queue.record(fields.step)
    assert step.num_tasks == 2
    assert repr(step).startswith("<Recording of 'step' at ")
    queue.replay(step, times)
    queue.parallel_for((4, 6), add, fields.new.write(ONE), fields.old.read(ONE), 0.5)
    np.testing.assert_array_equal(queue.fence(fields.new).result(20), START + 3 * (1 + times) + 0.5)
    queue.replay(step, times)
    np.testing.assert_array_equal(fields.contents(), START + 3 * (1 + 2 * times))
    assert queue.statistics().num_submissions == 2 + 4 * times + 3


def test_a_replay_knows_the_mappers_values_and_conditions_of_its_recording(queue: celerity.Queue) -> None:
    out = celerity.Buffer.from_array(np.zeros(12, np.int64))
    state: dict[str, Any] = {"low": 2, "amount": np.array([5, 0]), "calls": []}

    def write(chunk: Any, view: Any, amount: Any) -> None:
        view.array[...] += amount[0]

    def step() -> None:
        state["calls"].append(1)
        if state["low"] == 2:
            low = state["low"]
            queue.parallel_for(1, write, out.read_write(lambda chunk: slice(low, low + 3)), state["amount"])
        queue.host_task(write, out.read_write(access.fixed(celerity.Box((11,), (12,)))), (7,))

    recorded = queue.record(step)
    queue.replay(recorded, 2)
    state["low"] = 9
    with pytest.raises(UsageError, match=r"reads .state\['low'\]., which was 2 then and is 9 now"):
        queue.replay(recorded, 1)
    state["low"], state["amount"][0] = 2, 1000
    with pytest.raises(UsageError, match=r"reads .state\['amount'\]., which was an array"):
        queue.replay(recorded, 1)
    state["amount"][0] = 5
    queue.replay(recorded, 1)
    expected = np.zeros(12, np.int64)
    expected[2:5], expected[11] = 4 * 5, 4 * 7
    np.testing.assert_array_equal(queue.fence(out).result(20), expected)
    assert len(state["calls"]) == 1


def test_reductions_are_reduced_again(queue: celerity.Queue, fields: Fields) -> None:
    highest = celerity.Buffer((), np.float32, name="highest")
    seen: list[float] = []

    def step() -> None:
        fields.step()
        queue.parallel_for((4, 6), total, fields.old.read(ONE), celerity.reduction(highest, "max"))
        queue.host_task(lambda part, view: seen.append(float(view.array)), highest.read())

    queue.replay(queue.record(step), 4)
    queue.wait()
    assert seen == [23 + 3.0 * n for n in range(1, 6)]


def test_a_minimum_of_nothing_is_told_for_the_repetition_in_which_nobody_combines(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    lowest = celerity.Buffer((), np.float32, name="lowest")
    calls = [0]

    def sometimes(chunk: Any, out: Any) -> None:
        calls[0] += 1
        if calls[0] == 1:
            out.combine(1.0)

    step = queue.record(lambda: queue.parallel_for((), sometimes, celerity.reduction(lowest, "min")))
    queue.fence(lowest).result(20)
    assert "no chunk has combined" not in caplog.text
    queue.replay(step, 1)
    queue.fence(lowest).result(20)
    queue.wait()
    assert "no chunk has combined" in caplog.text


def test_a_recording_without_submits_replays_nothing(queue: celerity.Queue) -> None:
    step = queue.record(lambda: None)
    assert step.num_tasks == 0
    queue.replay(step, 10**15)
    assert queue.statistics().num_submissions == 0


def test_many_repetitions_wait_for_the_execution(queue: celerity.Queue, fields: Fields) -> None:
    step = queue.record(fields.step)
    queue.replay(step, 8000)
    assert queue.statistics().blocked_seconds > 0
    np.testing.assert_array_equal(fields.contents(), START + 3 * 8001)


def test_a_recording_may_live_in_its_own_function(queue: celerity.Queue) -> None:
    class Owner:
        step: celerity.Recording

    owners = [Owner()]
    buffer = celerity.Buffer.from_array(np.zeros(4, np.int64))
    alive = [True]

    def count(chunk: Any, view: Any) -> None:
        assert owners
        view[chunk.box] += 1

    owners[0].step = queue.record(lambda: queue.parallel_for(4, count, buffer.read_write(ONE)))
    queue.replay(owners[0].step, 2)
    assert queue.fence(buffer).result(20).tolist() == [3] * 4
    weakref.finalize(owners[0], alive.clear)
    queue.wait()
    owners.clear()
    gc.collect()
    assert not alive


def test_submits_of_other_threads_are_no_part_of_a_recording(queue: celerity.Queue, fields: Fields) -> None:
    other = celerity.Buffer.from_array(np.zeros(4, np.float32))

    def submit() -> None:
        queue.parallel_for(4, use_one, other.read_write(ONE))
        queue.fence(other).result(20)

    def step() -> None:
        fields.step()
        thread = threading.Thread(target=submit)
        thread.start()
        thread.join()

    recorded = queue.record(step)
    assert recorded.num_tasks == 2
    queue.replay(recorded, 2)
    assert queue.fence(other).result(20).tolist() == [1] * 4
    np.testing.assert_array_equal(fields.contents(), START + 9)


def test_other_threads_run_beside_a_replay(queue: celerity.Queue, fields: Fields) -> None:
    other = celerity.Buffer.from_array(np.zeros(4, np.float32))
    step = queue.record(fields.step)

    def submit() -> None:
        for _ in range(50):
            queue.parallel_for(4, use_one, other.read_write(ONE))

    thread = threading.Thread(target=submit)
    thread.start()
    queue.replay(step, 400)
    thread.join()
    assert queue.fence(other).result(20).tolist() == [50] * 4
    np.testing.assert_array_equal(fields.contents(), START + 3 * 401)


# ---- settings that watch


@pytest.mark.parametrize("settings", [{"CHECK": "1"}, {"SYNC": "1"}, {"BOUNDS_CHECK": "1"}, {"TRACE": "out.json"}])
def test_replays_under_settings_that_watch(tmp_path: Path, settings: dict[str, str]) -> None:
    source = """
        ONE = access.one_to_one()
        amount = 1
        def add(chunk, out, given):
            out[chunk.box] = given[chunk.box] + amount
        with celerity.Queue() as queue:
            a, b = (celerity.Buffer.from_array(np.zeros(64, np.float32)) for _ in range(2))
            def step():
                queue.parallel_for(64, add, b.write(ONE), a.read(ONE))
                queue.parallel_for(64, add, a.write(ONE), b.read(ONE))
            recorded = queue.record(step)
            queue.replay(recorded, 200)
            assert (queue.fence(a).result() == 402).all()
            amount = 5
            try:
                queue.replay(recorded, 1)
            except celerity.UsageError as error:
                print(error)
        """
    if "TRACE" in settings:
        settings = {"TRACE": str(tmp_path / "out.json")}
    outcome = run(tmp_path, source, 30, **{f"CELERITY_{name}": value for name, value in settings.items()})
    assert outcome.returncode == 0, outcome.stderr
    assert "'amount' from outside, which was 1 then and is 5 now" in outcome.stdout
    if "TRACE" in settings:
        events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
        kernels = [event for event in events if event.get("cat") == "kernel" or event.get("name") == "add"]
        assert len(kernels) >= 402
