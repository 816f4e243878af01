# SPDX-License-Identifier: MIT
"""Values from outside of a task's function that change between its submit and its run."""

from __future__ import annotations

import gc
import itertools
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.calls.outer_variables import compare_numbers, compare_values, note_numbers, note_values
from celerity_py.scheduler.errors import UsageError
from tests.support.scripts import line_of, run

factor: Any = 1
handed_on: Any = 0


class FakeSubmission(SimpleNamespace):
    def describe(self) -> str:
        return 'kernel "step" (submitted at app.py:12)'


def submission_of(function: Any) -> Any:
    submission: Any = FakeSubmission(function=function, outside=None)
    note_values(submission)
    return submission


def use_factor() -> Any:
    return [factor for _ in range(2)]


def hand_on() -> None:
    global handed_on  # noqa: PLW0603
    handed_on += 1


def use_what_is_handed_on() -> Any:
    return handed_on


def closure_over(value: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def use() -> Any:
        return [value for _ in range(2)]

    def change(new: Any) -> None:
        nonlocal value
        value = new

    return use, change


@pytest.mark.parametrize(
    ("then", "now", "shown"),
    [
        (0, 7, "which was 0 at the submit and is 7 when"),
        (0, 0.0, "which was 0 at the submit and is 0.0 when"),
        ((1, "a"), (1, "b"), "which was (1, 'a') at the submit and is (1, 'b') when"),
        (None, 3, "which was None at"),
        (np.float32(1), np.float32(2), "which was np.float32(1.0) at"),
        ("x" * 100, "y", f"which was '{'x' * 56}... at"),
    ],
)
def test_a_variable_with_another_value_is_told(then: Any, now: Any, shown: str) -> None:
    use, change = closure_over(then)
    submission = submission_of(use)
    compare_values(submission)
    change(now)
    with pytest.raises(UsageError, match=re.escape(f"uses the variable 'value' from outside, {shown}")):
        compare_values(submission)


@pytest.mark.parametrize(("then", "now"), [(float("nan"), float("nan")), ([1], [2]), (np.ones(1), np.ones(1))])
def test_what_has_the_same_value_or_may_change_is_not_told(then: Any, now: Any) -> None:
    use, change = closure_over(then)
    submission = submission_of(use)
    change(now)
    compare_values(submission)


def test_global_variables_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    submission = submission_of(use_factor)
    monkeypatch.setitem(globals(), "factor", 2)
    with pytest.raises(UsageError, match="the variable 'factor' from outside, which was 1 at the submit and is 2"):
        compare_values(submission)
    compare_values(submission_of(use_factor))


def test_tasks_may_hand_values_to_each_other() -> None:
    second, first = submission_of(use_what_is_handed_on), submission_of(hand_on)
    hand_on()
    compare_values(first)
    compare_values(second)


def test_objects_that_can_be_called_are_left_alone() -> None:
    compare_values(submission_of(np.add))


class Slotted:
    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step = 1


class Simulation:
    of_class = 1

    def __init__(self) -> None:
        self.dt = 1.0
        self.grid = SimpleNamespace(deep=SimpleNamespace(dx=1.0), weights=np.ones(3), slotted=Slotted())
        self.table = {"dt": 1.0, "unused": 1.0}
        self.counter = self.unused = 0
        self.result = np.zeros(3)
        self.counts = {"calls": 0}

    @property
    def computed(self) -> float:
        raise AssertionError("no property is called")

    def use(self) -> Any:
        return (
            self.dt,
            self.grid.deep.dx,
            self.grid.weights[0],
            self.grid.slotted.step,
            self.table["dt"],
            self.of_class,
        )

    def use_computed(self) -> Any:
        return self.dt, self.computed, self.grid

    def work(self) -> Any:
        self.counter += 1
        self.result[0] = self.counter
        self.counts["calls"] += 1


def set_weights(simulation: Simulation) -> None:
    simulation.grid.weights[1] = 5


CHANGES: dict[str, tuple[Callable[[Simulation], Any], str]] = {
    "attribute": (lambda s: setattr(s, "dt", 2.0), "'self.dt' from outside, which was 1.0 at the submit and is 2.0"),
    "deep": (lambda s: setattr(s.grid.deep, "dx", 2.0), "'self.grid.deep.dx' from outside, which was 1.0"),
    "object": (lambda s: setattr(s.grid, "deep", SimpleNamespace(dx=3.0)), "'self.grid.deep.dx' from outside"),
    "slot": (lambda s: setattr(s.grid.slotted, "step", 2), "'self.grid.slotted.step' from outside, which was 1"),
    "array": (set_weights, "'self.grid.weights' from outside, which was an array"),
    "item": (lambda s: s.table.update(dt=2.0), "self.table\\['dt'\\].* from outside, which was 1.0"),
    "class": (lambda s: setattr(s, "of_class", 2), "'self.of_class' from outside, which was 1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_bytecode_names_is_compared(name: str) -> None:
    simulation, (change, message) = Simulation(), CHANGES[name]
    submission = submission_of(simulation.use)
    simulation.unused, simulation.table["unused"] = 2, 2
    compare_values(submission)
    change(simulation)
    with pytest.raises(UsageError, match=message):
        compare_values(submission)


@pytest.mark.parametrize(
    ("defaults", "given", "name"),
    [("__defaults__", (2.0,), "dt"), ("__kwdefaults__", {"weight": 2.0}, "weight")],
)
def test_a_default_that_the_program_replaces_is_compared(defaults: str, given: Any, name: str) -> None:
    def use(dt: float = 1.0, *, weight: float = 1.0) -> float:
        return dt * weight

    submission = submission_of(use)
    compare_values(submission)
    setattr(use, defaults, given)
    with pytest.raises(UsageError, match=f"'{name}' from outside, which was 1.0 at the submit and is 2.0"):
        compare_values(submission)


def test_what_is_not_followed_is_counted() -> None:
    simulation = Simulation()
    submission = submission_of(simulation.use_computed)
    simulation.dt = 2.0
    with pytest.raises(UsageError, match=r"The function uses 2 more that cannot be compared"):
        compare_values(submission)


def test_what_tasks_assign_is_left_out() -> None:
    simulation = Simulation()
    submissions = [submission_of(simulation.work) for _ in range(2)]
    for submission in submissions:
        compare_values(submission)
        simulation.work()
        compare_values(submission, has_run=True)


def test_an_array_that_tasks_change_by_other_means_is_left_out() -> None:
    frame, source = np.zeros(3), np.ones(3)

    def keep() -> None:
        np.copyto(frame, source)

    submissions = [submission_of(keep) for _ in range(2)]
    for submission in submissions:
        compare_values(submission)
        keep()
        compare_values(submission, has_run=True)
        source += 1  # the program
        break
    with pytest.raises(UsageError, match="'source' from outside, which was an array"):
        compare_values(submissions[1])


def test_numbers_by_one_attribute_are_compared_without_check(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation()
    config = SimpleNamespace(step=1, width=np.float32(1), is_open=np.bool_(False))

    def use_numpy() -> Any:
        return config.width, config.is_open

    def use_config() -> Any:
        return config.step, factor

    cases: list[tuple[Any, Callable[[], Any], str]] = [
        (simulation.use, lambda: setattr(simulation, "dt", 2.0), "'self.dt' from outside, which was 1.0"),
        (use_config, lambda: setattr(config, "step", 5), "'config.step' from outside, which was 1"),
        (use_config, lambda: monkeypatch.setitem(globals(), "factor", 7), "'factor' from outside, which was 1"),
        (use_numpy, lambda: setattr(config, "width", np.float32(3)), "'config.width' from outside, .* np.float32.1.0"),
        (use_numpy, lambda: setattr(config, "is_open", np.bool_(True)), "'config.is_open' from outside, .* np.False_"),
    ]
    for function, change, shown in cases:
        submission: Any = FakeSubmission(function=function, outside=None)
        note_numbers(submission)
        compare_numbers(submission)
        change()
        with pytest.raises(UsageError, match=shown):
            compare_numbers(submission)
        note_numbers(submission)
        compare_numbers(submission)


PROGRAM = """
import threading
go = threading.Event()
u = celerity.Buffer.from_array(np.zeros(8), name="u")
with celerity.Queue() as queue:
    queue.host_task(lambda part, u: go.wait(20) and None, u.read_write(access.all()))
    for i in range(3):
        queue.SUBMIT  # the line
    go.set()
    queue.wait()
print("finished")
"""
TASKS = {
    "kernel": "parallel_for(8, lambda chunk, u: u[chunk.box].fill(i), u.read_write(access.one_to_one()))",
    "host task": "host_task(lambda part, u: u[...].fill(i), u.read_write(access.all()))",
}


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("check", ["0", "1"])
def test_a_loop_variable_that_has_gone_on_is_told_with_the_line(kind: str, check: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("SUBMIT", TASKS[kind])
    result = run(tmp_path, program, CELERITY_CHECK=check)
    assert result.returncode == 1
    assert (
        f"{kind} \"<lambda>\" (submitted at {line_of(tmp_path, '# the line')}) uses the variable 'i'" in result.stderr
    )
    assert "which was 0 at the submit and is 2 when the task runs" in result.stderr
    passed = program.replace("u: u", "u, i: u").replace(")  # the line", ", i)  # the line")
    assert run(tmp_path, passed, CELERITY_CHECK=check).stdout == "finished\n"


METHOD = """
go = threading.Event()
class Simulation:
    dt = 5.0
    def __init__(self): self.dt = 10.0
    def step(self, chunk, u): u[chunk.box] += self.dt
simulation = Simulation()
WRAP
u = celerity.Buffer.from_array(np.zeros(4))
with celerity.Queue() as queue:
    for dt in (10.0, 10.0, 20.0, 30.0):
        simulation.dt = dt
        queue.host_task(lambda part, u: go.wait(1) and None, u.read_write(access.all()))
        queue.parallel_for(4, step, u.read_write(access.one_to_one()))
    go.set()
"""


@pytest.mark.parametrize(
    ("wrap", "check"),
    [*itertools.product(["simulation.step", "celerity.kernel(simulation.step)"], "01")],
)
def test_an_attribute_of_self_that_has_changed_is_told(wrap: str, check: str, tmp_path: Path) -> None:
    result = run(tmp_path, METHOD.replace("WRAP", f"step = {wrap}"), CELERITY_CHECK=check)
    assert result.returncode == 1
    assert re.search(
        r"uses the variable 'self.dt' from outside, which was 10.0 at the submit and is [23]0.0", result.stderr
    )


def test_a_namespace_with_a_kernel_and_a_number_is_collected(queue: celerity.Queue) -> None:
    space: dict[str, Any] = {"celerity": celerity, "dt": 1.0}
    exec("@celerity.kernel\ndef scale(chunk, u): u[chunk.box] *= dt", space)
    u = celerity.Buffer.from_array(np.ones(4))
    for _ in range(2):  # the second one needs the memo of the kernel, which holds the namespace
        queue.parallel_for(4, space["scale"], u.read_write(access.one_to_one()))
    queue.wait()
    alive = weakref.ref(space["scale"])
    del space
    gc.collect()
    assert alive() is None
