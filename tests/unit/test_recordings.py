# SPDX-License-Identifier: MIT
"""`Queue.record` and `Queue.replay`: the same as calling the function again, or an error that says why not."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import json
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, ClosedQueue, NestedUse, UsageError
from tests.support.scripts import line_of, run

ONE = access.one_to_one()
START = np.arange(24, dtype=np.float32).reshape(4, 6)
factor: Any = 1


@celerity.kernel
def add(chunk: Any, out: Any, given: Any, amount: float) -> None:
    out[chunk.box] = given[chunk.box] + amount


@celerity.kernel
def total(chunk: Any, given: Any, out: Any) -> None:
    out.combine(given.array.max())


@celerity.kernel
def use_factor(chunk: Any, out: Any) -> None:
    out[chunk.box] += factor


class Fields:
    """Two buffers that take turns in a function of two kernels."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.old, self.new = (celerity.Buffer.from_array(START, name=name) for name in "uv")

    def step(self) -> None:
        for amount in (1.0, 2.0):
            self.queue.parallel_for((4, 6), add, self.new.write(ONE), self.old.read(ONE), amount)
            self.old, self.new = self.new, self.old

    def contents(self) -> Any:
        return self.queue.fence(self.old).result(20)


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


@celerity.kernel
def use_one(chunk: Any, out: Any) -> None:
    out[chunk.box] += 1


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


# ---- what is refused


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
    queue.record(functools.partial(Values.submit, Values(queue), 1.0))


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


class Slotted:
    __slots__ = ("amount",)

    def __init__(self, amount: float) -> None:
        self.amount = amount


@dataclasses.dataclass(frozen=True)
class Frozen:
    amount: float


class Values:
    """A plain value in many places, handed on as an argument or used in the recorded function."""

    of_class = 1.0

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.u = celerity.Buffer.from_array(START, name="u")
        self.other = celerity.Buffer.from_array(START, name="other")
        self.amount = 1.0
        self.table = {"a": [Slotted(1.0), Slotted(2.0)]}
        self.deep = SimpleNamespace(frozen=Frozen(1.0), turn=(1.0, 2.0))
        self.unused = 1.0

    @property
    def computed(self) -> float:
        raise AssertionError("no property is called")

    def submit(self, amount: float, u: celerity.Buffer | None = None) -> None:
        u = self.u if u is None else u
        self.queue.parallel_for((4, 6), add, u.write(ONE), self.other.read(ONE), amount)

    def of_attribute(self) -> None:
        self.submit(self.amount)

    def of_alias(self) -> None:
        table = self.table
        self.submit(table["a"][1].amount)

    def of_loop(self) -> None:
        for slotted in self.table["a"]:
            self.submit(slotted.amount)

    def of_frozen(self) -> None:
        self.submit(self.deep.frozen.amount * 2)

    def of_branch(self) -> None:
        if self.deep.turn[0] > 0:
            self.submit(1.0)

    def of_class_attribute(self) -> None:
        self.submit(self.of_class)

    def of_comprehension(self) -> None:
        [self.submit(amount + self.amount) for amount in (1.0, 2.0)]


def set_table(values: Values) -> None:
    values.table["a"][1].amount = 7.0


def set_frozen(values: Values) -> None:
    values.deep.frozen = Frozen(7.0)


def set_turn(values: Values) -> None:
    values.deep.turn = (-1.0, 2.0)


def hand_on(values: Values) -> None:
    values.submit(values.amount, values.u)


CHANGES: dict[str, tuple[Callable[[Values], Callable[[], Any]], Callable[[Values], Any], str]] = {
    "attribute": (lambda v: v.of_attribute, lambda v: setattr(v, "amount", 7), "'self.amount', which was 1.0"),
    "alias": (lambda v: v.of_alias, set_table, r"""\"self.table\['a'\]\[1\].amount", which was 2.0"""),
    "loop": (lambda v: v.of_loop, set_table, r"""\"self.table\['a'\]\[1\].amount", which was 2.0"""),
    "more": (
        lambda v: v.of_loop, lambda v: v.table["a"].append(Slotted(3.0)),
        r"""\"len\(self.table\['a'\]\)", which was 2 then and is 3 now"""
    ),
    "frozen": (lambda v: v.of_frozen, set_frozen, "'self.deep.frozen', which was .*amount=1.0"),
    "branch": (lambda v: v.of_branch, set_turn, r"'self.deep.turn', which was \(1.0, 2.0\)"),
    "class": (lambda v: v.of_class_attribute, lambda v: setattr(v, "of_class", 7), "'self.of_class', which was 1.0"),
    "inner": (lambda v: v.of_comprehension, lambda v: setattr(v, "amount", 7), "'self.amount', which was 1.0"),
    "object": (lambda v: lambda: hand_on(v), lambda v: setattr(v, "amount", 7), "'v.amount', which was 1.0"),
    "buffer": (lambda v: v.of_attribute, lambda v: setattr(v, "u", v.other), '\'self.u\', which was B[0-9]+ "u"'),
    "buffer of an object": (
        lambda v: lambda: hand_on(v), lambda v: setattr(v, "u", v.other), '\'v.u\', which was B[0-9]+ "u"'
    ),
    "partial": (
        lambda v: functools.partial(hand_on, v), lambda v: setattr(v, "u", v.other), "'argument 0.u', which was"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_value_of_the_recorded_function_is_named(queue: celerity.Queue, case: str) -> None:
    of, change, message = CHANGES[case]
    values = Values(queue)
    kept = values.u  # it lives on
    recorded = queue.record(of(values))
    values.unused = 2.0
    queue.replay(recorded, 2)
    change(values)
    with pytest.raises(UsageError, match=f"reads {message}.* Record again after such a change"):
        queue.replay(recorded, 1)
    queue.replay(recorded, 0)
    assert kept is not None


def test_a_function_that_changes_what_it_reads_is_not_repeated(queue: celerity.Queue) -> None:
    values = Values(queue)
    count = 0

    def of_cell() -> None:
        nonlocal count
        count += 1
        values.submit(float(count))

    def of_attribute() -> None:
        values.submit(values.amount)
        values.amount += 0.5

    for step, name, then, now in ((of_cell, "count", "0", "1"), (of_attribute, "values.amount", "1.0", "1.5")):
        recorded = queue.record(step)
        with pytest.raises(UsageError, match=f"changes what it reads: .{name}. was {then} before .* is {now} behind"):
            queue.replay(recorded, 1)


def test_what_only_tasks_read_and_change_is_left_alone(queue: celerity.Queue) -> None:
    values, seen = Values(queue), [0]
    calls = 0

    def step() -> None:
        def count(part: Any) -> None:
            nonlocal calls
            calls += 1
            seen[0] += 1

        values.of_attribute()
        queue.host_task(count)
        queue.host_task(lambda part: seen.append(len(seen)))

    recorded = queue.record(step)
    queue.replay(recorded, 3)
    queue.wait()
    assert calls == 4
    assert len(seen) == 5


def test_a_recording_keeps_no_owner_of_buffers_alive(queue: celerity.Queue) -> None:
    owners = [Values(queue)]

    def record() -> list[celerity.Recording]:
        values = owners[-1]
        return [queue.record(values.of_attribute), queue.record(lambda: hand_on(values))]

    recordings = record()
    for recorded in recordings:
        queue.replay(recorded, 1)
    gone = weakref.ref(owners[-1])
    queue.wait()
    owners.clear()
    assert gone() is None


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
        UsageError, match=r'uses B\d+ "gone" \(made at .*test_recordings.py:\d+\), which the program has'
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


def test_a_changed_variable_from_outside_is_named(queue: celerity.Queue) -> None:
    global factor  # noqa: PLW0603
    buffer = celerity.Buffer.from_array(START)
    factor = 1
    step = queue.record(lambda: queue.parallel_for((4, 6), use_factor, buffer.read_write(ONE)))
    queue.replay(step, 1)
    queue.wait()
    factor = 2
    with pytest.raises(UsageError, match=r"the variable 'factor' from outside, which was 1 then and is 2 now"):
        queue.replay(step, 1)
    factor = 1
    queue.replay(step, 1)
    np.testing.assert_array_equal(queue.fence(buffer).result(20), START + 3)


def test_a_function_with_other_code_is_named(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(START)

    def one(chunk: Any, out: Any) -> None:
        out[chunk.box] += 1

    def two(chunk: Any, out: Any) -> None:
        out[chunk.box] += 2

    step = queue.record(lambda: queue.parallel_for((4, 6), one, buffer.read_write(ONE)))
    queue.wait()
    one.__code__ = two.__code__
    with pytest.raises(UsageError, match=r'function of its kernel "one" .* has other code'):
        queue.replay(step, 1)


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
