# SPDX-License-Identifier: MIT
"""Calls of `Queue.record` and `Queue.replay` that are refused, with the reason."""

from __future__ import annotations

import copy
import functools
import gc
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.errors import ArgumentTypeError, ClosedQueue, NestedUse, UsageError
from tests.support.recorded_steps import ONE, START, Fields, add, total, use_one
from tests.support.scripts import line_of, run


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


def test_calls_that_no_replay_could_repeat_are_refused(queue: celerity.Queue, fields: Fields) -> None:
    known = queue.record(lambda: None)

    def nest() -> None:
        queue.record(fields.step)

    calls: list[tuple[str, Callable[[], Any]]] = [
        ("queue.fence() was called inside of", lambda: queue.fence(fields.old)),
        ("queue.wait() was called inside of", queue.wait),
        ("queue.barrier() was called inside of", queue.barrier),
        ("queue.flush() was called inside of", queue.flush),
        ("queue.close() was called inside of", queue.close),
        ("queue.replay() was called inside of", lambda: queue.replay(known, 1)),
        ("Making a buffer of shape (4, 6) was called inside of", lambda: celerity.Buffer.from_array(START)),
        ("Recordings do not nest", nest),
    ]
    for message, call in calls:
        before = queue.statistics().num_submissions

        def step(call: Callable[[], Any] = call) -> None:
            fields.step()
            call()

        with pytest.raises(UsageError, match=re.escape(message)) as caught:
            queue.record(step)
        assert __file__ in str(caught.value)
        assert queue.statistics().num_submissions == before + 2
    np.testing.assert_array_equal(fields.contents(), START + 3 * len(calls))
    queue.replay(queue.record(fields.step), 1)


def test_two_threads_do_not_record_at_the_same_time(queue: celerity.Queue, fields: Fields) -> None:
    refusals: list[UsageError] = []

    def record_too() -> None:
        with pytest.raises(UsageError, match="under way in another thread") as caught:
            queue.record(fields.step)
        refusals.append(caught.value)

    def step() -> None:
        thread = threading.Thread(target=record_too)
        thread.start()
        thread.join()
        fields.step()

    assert queue.record(step).num_tasks == 2
    assert len(refusals) == 1
    assert "do not nest" not in str(refusals[0])
    np.testing.assert_array_equal(fields.contents(), START + 3)


def test_a_function_that_raises_leaves_no_recording(queue: celerity.Queue, fields: Fields) -> None:
    def step() -> None:
        fields.step()
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        queue.record(step)
    assert queue.record(fields.step).num_tasks == 2
    np.testing.assert_array_equal(fields.contents(), START + 6)


def test_a_submit_that_is_refused_is_no_part_of_the_recording(queue: celerity.Queue, fields: Fields) -> None:
    def step() -> None:
        with pytest.raises(UsageError):
            queue.parallel_for((9, 9), add, fields.new.write(ONE), fields.old.read(ONE), 1.0)
        with pytest.raises(UsageError):
            queue.parallel_for((4, 6), add, fields.new.write(ONE))
        fields.step()

    recorded = queue.record(step)
    assert recorded.num_tasks == 2
    queue.replay(recorded, 1)
    np.testing.assert_array_equal(fields.contents(), START + 6)


@pytest.mark.parametrize("function", [3, "step", None])
def test_only_a_function_can_be_recorded(queue: celerity.Queue, function: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="takes a function without arguments"):
        queue.record(function)


def test_a_function_with_arguments_is_refused(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match=r"calls <lambda>\(\), which does not fit .*\(i\): missing .*'i'"):
        queue.record(lambda i: None)
    queue.record(functools.partial(Fields.step, Fields(queue)))

    wrapped = Fields(queue)

    @functools.wraps(Fields.step)
    def step() -> None:
        wrapped.step()

    queue.replay(queue.record(step), 1)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_function_that_nobody_runs_is_refused(queue: celerity.Queue, fields: Fields) -> None:
    async def later() -> None:
        fields.step()

    def generate() -> Any:
        fields.step()
        yield 1

    for function in (later, generate):
        with pytest.raises(ArgumentTypeError, match="that nobody runs"):
            queue.record(function)


@pytest.mark.parametrize(
    ("times", "kind", "message"),
    [
        (-1, UsageError, "times= is -1, but must be 0 or more"),
        (2**63, UsageError, "must be 0 or more, below 2"),
        (1.0, ArgumentTypeError, r"times= must be an integer, but is 1\.0"),
        (True, ArgumentTypeError, "but is True"),
        (None, ArgumentTypeError, "but is None"),
    ],
)
def test_wrong_numbers_of_times(
    queue: celerity.Queue, fields: Fields, times: Any, kind: type[UsageError], message: str
) -> None:
    step = queue.record(fields.step)
    with pytest.raises(kind, match=message):
        queue.replay(step, times)
    np.testing.assert_array_equal(fields.contents(), START + 3)


class Turns:
    """Two buffers that take turns, reached in several ways."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.pair = [celerity.Buffer.from_array(START, name=name) for name in ("first", "second")]
        self.new, self.old = self.pair

    def half(self) -> None:
        self.queue.parallel_for((4, 6), use_one, self.new.read_write(ONE))
        self.new, self.old = self.old, self.new

    def half_of_list(self) -> None:
        self.queue.parallel_for((4, 6), use_one, self.pair[0].read_write(ONE))
        self.pair.reverse()


def test_half_a_turn_is_not_repeated(queue: celerity.Queue) -> None:
    turns = Turns(queue)
    u, v = turns.pair

    def swap() -> None:
        nonlocal u, v
        queue.parallel_for((4, 6), use_one, u.read_write(ONE))
        u, v = v, u

    def submit(pair: list[celerity.Buffer], calls: int) -> None:
        for _ in range(calls):
            queue.parallel_for((4, 6), use_one, pair[0].read_write(ONE))
            pair.reverse()

    halves: list[tuple[Callable[[], Any], str]] = [
        (turns.half, "self.new"),
        (turns.half_of_list, r"self.pair\[0\]"),
        (swap, "u"),
        (lambda: [swap()], "u"),
        (lambda: [turns.half()], "turns.new"),
        (functools.partial(submit, turns.pair, 1), r"argument 0\[0\]"),
    ]
    for half, name in halves:
        recorded = queue.record(half)
        queue.replay(recorded, 0)
        for times in (1, 2):  # a loop of single repetitions would use the same buffers again and again, too
            with pytest.raises(UsageError, match=rf"is half a turn: .{name}. was B\d+ .(first|second). before"):
                queue.replay(recorded, times)
    for whole in (lambda: (swap(), swap()), functools.partial(submit, turns.pair, 2)):
        queue.replay(queue.record(whole), 3)


def test_only_a_recording_can_be_replayed(queue: celerity.Queue, fields: Fields) -> None:
    with pytest.raises(ArgumentTypeError, match="takes a Recording"):
        queue.replay(fields.step, 1)  # type: ignore[arg-type]
    step = queue.record(fields.step)
    for way in (copy.copy, copy.deepcopy):
        with pytest.raises(ArgumentTypeError, match="cannot be copied"):
            way(step)


def test_a_buffer_that_has_died_is_named(queue: celerity.Queue) -> None:
    buffers = [celerity.Buffer.from_array(START, name="gone")]
    step = queue.record(lambda: queue.parallel_for((4, 6), use_one, buffers[0].read_write(ONE)))
    queue.replay(step, 1)
    buffers.clear()
    gc.collect()
    with pytest.raises(
        UsageError, match=r'uses B\d+ "gone" \(made at .*test_refused_recordings.py:\d+\), which the program has'
    ):
        queue.replay(step, 1)
    queue.wait()


def test_a_buffer_that_dies_in_the_recording_is_named(queue: celerity.Queue) -> None:
    buffers = [celerity.Buffer.from_array(START, name="gone")]
    with pytest.raises(UsageError, match=r'"gone".*which the program has dropped'):
        queue.record(lambda: queue.parallel_for((4, 6), use_one, buffers.pop().read_write(ONE)))


def test_a_buffer_that_only_a_reduction_names_may_not_die_either(queue: celerity.Queue, fields: Fields) -> None:
    results = [celerity.Buffer((), np.float32, name="highest")]
    step = queue.record(
        lambda: queue.parallel_for((4, 6), total, fields.old.read(ONE), celerity.reduction(results[0], "max"))
    )
    results.clear()
    gc.collect()
    with pytest.raises(UsageError, match='"highest"'):
        queue.replay(step, 1)


def test_a_recording_belongs_to_its_queue(queue: celerity.Queue, fields: Fields) -> None:
    step = queue.record(fields.step)
    with celerity.Queue() as other, pytest.raises(UsageError, match="belongs to another queue"):
        other.replay(step, 1)


def test_a_recording_ends_with_its_runtime() -> None:
    with celerity.Queue() as queue:
        fields = Fields(queue)
        step = queue.record(fields.step)
    with pytest.raises(ClosedQueue, match=r"replay\(\) on a queue that is closed"):
        queue.replay(step, 1)
    with pytest.raises(ClosedQueue, match=r"record\(\) on a queue that is closed"):
        queue.record(fields.step)
    with celerity.Queue() as another, pytest.raises(ClosedQueue, match="belongs to a runtime that ended"):
        another.replay(step, 1)


def test_tasks_can_neither_record_nor_replay(queue: celerity.Queue, fields: Fields) -> None:
    step = queue.record(fields.step)
    errors: list[BaseException] = []

    def nest(part: Any) -> None:
        for call in (lambda: queue.record(fields.step), lambda: queue.replay(step, 1)):
            try:
                call()
            except NestedUse as error:
                errors.append(error)

    queue.host_task(nest)
    queue.wait()
    assert len(errors) == 2


def test_an_error_of_a_repetition_names_the_task_and_its_line(tmp_path: Path) -> None:
    program = """
        calls = 0
        def fail_late(chunk, out):
            global calls
            calls += 1
            if calls == 3:
                raise LookupError("the third call")
        with celerity.Queue() as queue:
            buffer = celerity.Buffer.from_array(np.zeros(4, np.float32))
            step = queue.record(lambda: queue.parallel_for((), fail_late, buffer.read_write(access.all())))
            queue.replay(step, 10**9)
        """
    outcome = run(tmp_path, program)
    assert outcome.returncode != 0
    assert f"task 'fail_late' failed (submitted at {line_of(tmp_path, 'queue.record(')}): LookupError" in outcome.stderr
