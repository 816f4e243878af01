# SPDX-License-Identifier: MIT
"""A replay reads the same values as its recording, or names the value that has changed."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import weakref
from collections import deque
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.errors import UsageError
from tests.support.recorded_steps import ONE, START, add

factor: Any = 1


@celerity.kernel
def use_factor(chunk: Any, out: Any) -> None:
    out[chunk.box] += factor


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
        self.given: Any = None

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


def submit_with(values: Values, given: Any) -> None:
    values.submit(given.amount)


def with_default(values: Values, *, is_keyword: bool) -> Callable[[], None]:
    def step(amount: float = 1.0) -> None:
        values.submit(amount)

    def step_with_keyword(*, amount: float = 1.0) -> None:
        values.submit(amount)

    chosen: Callable[[], None] = step_with_keyword if is_keyword else step
    values.given = chosen
    return chosen


def handing_on(values: Values, given: Any) -> Callable[[], None]:
    given.amount = 1.0
    values.given = given
    return lambda: submit_with(values, values.given)


def taking_turns(values: Values) -> Callable[[], None]:
    values.given = turns = deque([1.0, 2.0])
    return lambda: values.submit(turns[0])


def set_given(values: Values) -> None:
    values.given.amount = 7.0


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
    "default": (
        lambda v: with_default(v, is_keyword=False),
        lambda v: setattr(v.given, "__defaults__", (7.0,)),
        "'amount', which was 1.0",
    ),
    "default of a keyword": (
        lambda v: with_default(v, is_keyword=True),
        lambda v: v.given.__kwdefaults__.update(amount=7.0),
        "'amount', which was 1.0",
    ),
    "namespace": (lambda v: handing_on(v, SimpleNamespace()), set_given, "'values.given.amount', which was 1.0"),
    "options": (lambda v: handing_on(v, argparse.Namespace()), set_given, "'values.given.amount', which was 1.0"),
    "module of the program": (
        lambda v: handing_on(v, ModuleType("settings")), set_given, "'values.given.amount', which was 1.0"
    ),
    "class that is handed on": (
        lambda v: handing_on(v, type("Settings", (), {"__module__": "settings"})), set_given, "'values.given.amount'"
    ),
    "deque": (taking_turns, lambda v: v.given.rotate(1), r"'turns\[0\]', which was 1.0"),
    "dictionary of attributes": (
        lambda v: lambda: v.submit(v.__dict__["amount"]), lambda v: setattr(v, "amount", 7), r"\"v.__dict__\['amount'\]"
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
