# SPDX-License-Identifier: MIT
"""Parameters of recordings: plain values of a recorded function that a replay may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.refused_operators import StandsForArray

ONE = access.one_to_one()
START = np.arange(24, dtype=np.float32).reshape(4, 6)


@celerity.kernel
def add(chunk: Any, out: Any, given: Any, amount: float) -> None:
    out[chunk.box] = given[chunk.box] + amount


@celerity.kernel
def fill_with(chunk: Any, out: Any, amount: Any) -> None:
    assert not isinstance(amount, StandsForArray)
    out[chunk.box] = amount


class Parametrized:
    """Two buffers and a list that show which values tasks got."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.u = celerity.Buffer.from_array(START, name="u")
        self.seen: list[Any] = []

    def step(self, dt: Any, label: Any = "x") -> None:
        self.queue.parallel_for((4, 6), add, self.u.write(ONE), self.u.read(ONE), dt)
        self.queue.host_task(lambda part, label, dt: self.seen.append((label, dt)), label, dt)

    def contents(self) -> Any:
        return self.queue.fence(self.u).result(20)


def test_a_replay_may_have_other_values_of_parameters(queue: celerity.Queue) -> None:
    state = Parametrized(queue)
    recorded = queue.record(state.step, dt=1.0, label="a")
    assert recorded.num_tasks == 2
    queue.replay(recorded, 2)
    queue.replay(recorded, 3, dt=10.0)
    for label in ("b", "c", "b"):
        queue.replay(recorded, 1, label=label)
    queue.replay(recorded, 1, dt=100, label=None)
    queue.replay(recorded, 1)
    queue.wait()
    expected = 3 * [("a", 1.0)] + 3 * [("a", 10.0)] + [("b", 1.0), ("c", 1.0), ("b", 1.0), (None, 100), ("a", 1.0)]
    assert state.seen == expected
    np.testing.assert_array_equal(state.contents(), START + sum(dt for _, dt in expected))


def test_many_repetitions_with_changing_parameters_equal_calls_of_the_function(queue: celerity.Queue) -> None:
    state = Parametrized(queue)
    recorded = queue.record(state.step, dt=1.0)
    expected = 1.0
    for number in range(40):
        dt, times = float(number % 3), (1, 2, 7, 50)[number % 4]
        queue.replay(recorded, times, dt=dt)
        expected += dt * times
    np.testing.assert_array_equal(state.contents(), START + expected)


def test_parameters_may_be_arrays_and_reductions_follow_them(queue: celerity.Queue) -> None:
    out, highest = celerity.Buffer((6,), np.float64), celerity.Buffer((), np.float64)
    seen: list[float] = []

    def find(chunk: Any, out: Any, factor: float, highest: Any) -> None:
        highest.combine(float(out.array.max()) * factor)

    def put(chunk: Any, out: Any, values: Any) -> None:
        out.array[...] = values

    def step(*, values: Any, factor: Any) -> None:
        queue.parallel_for(6, fill_with, out.write(ONE), 0.0)
        queue.parallel_for(1, put, out.write(access.all()), values)
        queue.parallel_for(6, find, out.read(ONE), factor, celerity.reduction(highest, "max"))
        queue.host_task(lambda part, highest: seen.append(float(highest.array)), highest.read())

    values = np.arange(6.0)
    recorded = queue.record(step, values=values, factor=1.0)
    queue.replay(recorded, 1, values=values * 2)
    queue.replay(recorded, 1, factor=3.0)
    values[:] = 100
    queue.replay(recorded, 1)
    queue.wait()
    assert seen == [5.0, 10.0, 15.0, 5.0]


USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "product": (lambda dt: dt * 0.5, r"was an operand of \*"),
    "product from the right": (lambda dt: 0.5 * dt, r"was an operand of \*"),
    "condition": (lambda dt: 1 if dt else 2, r"was an operand of bool\(\), as in a condition"),
    "comparison": (lambda dt: dt > 1, r"was an operand of >"),
    "equality": (lambda dt: dt == 1.0, r"was an operand of =="),
    "conversion": (np.float32, "was an operand of float|was used as an array"),
    "function": (np.sqrt, "was an argument of numpy.sqrt"),
    "attribute": (lambda dt: dt.real, r"was asked for its \.real"),
    "text": (lambda dt: f"out.{dt}.npy", "was made a text"),
    "text of a width": (lambda dt: f"{dt:8}", "was made a text"),
    "words": (str, "was made a text"),
    "key": (lambda dt: {dt: 1}, "was used as a key"),
}


@pytest.mark.parametrize("use", USES)
def test_a_parameter_can_only_be_handed_on(queue: celerity.Queue, use: str) -> None:
    state, (change, message) = Parametrized(queue), USES[use]
    with pytest.raises(UsageError, match=rf"The parameter dt of queue.record\(<lambda>, dt=0.1\) ({message})"):
        queue.record(lambda dt: state.step(change(dt)), dt=0.1)


def test_other_mistakes_with_parameters(queue: celerity.Queue) -> None:
    state = Parametrized(queue)
    recorded = queue.record(state.step, dt=1.0)
    with pytest.raises(UsageError, match=r"got dtt=2, but the parameters of its recording are: dt. Did you mean dt=\?"):
        queue.replay(recorded, 1, dtt=2)
    with pytest.raises(UsageError, match="the parameters of its recording are: none"):
        queue.replay(queue.record(lambda: None), 1, dt=2)
    with pytest.raises(ArgumentTypeError, match=r"calls step\(dx=...\), which does not fit"):
        queue.record(state.step, dx=1.0)
    with pytest.raises(UsageError, match="cannot have the name of an argument of"):
        queue.record(lambda times: None, times=1.0)
    with pytest.raises(ArgumentTypeError, match="got the bare buffer"):
        queue.record(state.step, dt=state.u)
    with pytest.raises(ArgumentTypeError, match=r"<parameter dt=1.0 of a recording> inside of another value"):
        queue.record(lambda dt: state.step(1.0, (dt,)), dt=1.0)
    leaked: list[Any] = []

    def leak(dt: Any) -> None:
        leaked.append(dt)

    queue.record(leak, dt=1.0)
    with pytest.raises(UsageError, match="kept until the function had ended"):
        state.step(leaked[0])
