# SPDX-License-Identifier: MIT
"""The story of a task: its line, its plan, and of each instruction whether it is complete, issued or waits."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.graphs.nodes import Dependency, InstructionNode, TaskNode
from celerity_py.graphs.stories import Sightings, Storyteller
from celerity_py.scheduler.errors import UsageError

TASKS = [
    TaskNode("T1", "device_kernel", 1, 'T1 "init"', (), (), name="init", submission=1),
    TaskNode("T2", "device_kernel", 2, 'T2 "step"', (), (Dependency("T1", "true"),), name="step", submission=2),
]


def instruction(number: int, task: int, *after: int) -> InstructionNode:
    dependencies = tuple(Dependency(f"I{each}", "true") for each in after)
    return InstructionNode(f"I{number}", "device_kernel", task, f"I{number} runs", (), dependencies)


def states(active: dict[int, float] | None, runs: dict[int, str] | None = None) -> list[str]:
    """Of the instructions I3 to I6 of T2, of which each depends on the one before it; I2 belongs to T1."""
    instructions = [instruction(2, 1, 1), *(instruction(number, 2, number - 1) for number in range(3, 7))]
    teller = Storyteller(TASKS, [], instructions, Sightings({2: "app.py:7"}, active, lambda: runs or {}))
    task = teller.find("step")
    assert task is not None
    origin, after, *lines = teller.tell(task)
    assert (origin, after) == ('T2 "step", submitted at app.py:7', 'after T1 "init" (true)')
    return [line.partition(": ")[2] for line in lines]


def test_an_instruction_waits_for_those_under_way_before_it_and_is_complete_without_any() -> None:
    assert states({4: 2.5}) == [
        "complete",
        "issued 2.5 s ago",
        'waits for I4 device kernel of T2 "step"',
        'waits for I4 device kernel of T2 "step"',
    ]
    assert states({2: 3.0, 3: 1.0}) == [
        'issued 1.0 s ago, behind I2 device kernel of T1 "init"',
        *['waits for I3 device kernel of T2 "step"'] * 3,
    ]
    assert states({}) == ["complete"] * 4


def test_nothing_is_called_complete_behind_instructions_that_are_not_kept() -> None:
    assert states({1: 1.0})[0] == "waits for I1"
    assert states({0: 1.0})[0] == "complete, or waits for what is not kept"


def test_without_the_executor_a_story_tells_the_plan_and_the_timeline() -> None:
    assert states(None, {4: "D0 compute, 1 to 2 ms"}) == ["planned", "D0 compute, 1 to 2 ms", "planned", "planned"]


def test_a_short_story_has_the_open_instructions_and_says_how_many_it_leaves_out() -> None:
    teller = Storyteller(TASKS, [], [instruction(n, 2, n - 1) for n in range(3, 9)], Sightings({}, {5: 1}, dict))
    assert teller.tell_briefly(TASKS[1], 4) == [
        'T2 "step"',
        'after T1 "init" (true)',
        "I5 runs: issued 1.0 s ago",
        "and 3 more lines",
    ]
    assert len(teller.tell_briefly(TASKS[1], 6)) == 6
    assert "more lines" not in teller.tell_briefly(TASKS[1], 6)[-1]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[celerity.Queue]:
    celerity.configure(print_graphs=tmp_path / "graphs", trace=tmp_path / "trace.json", devices="cpu:2")
    with celerity.Queue() as made:
        yield made
    celerity.configure(print_graphs=None, trace=None, devices=None)


@celerity.kernel
def double(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = 2 * u[chunk.box]


def test_the_story_of_a_task_that_waits_names_the_task_that_runs(queue: celerity.Queue) -> None:
    runs, goes_on = threading.Event(), threading.Event()

    def hold(part: Any, u: Any) -> None:
        runs.set()
        assert goes_on.wait(60)
        u[...] = 1

    u, v = celerity.Buffer(8, np.float32, name="u"), celerity.Buffer(8, np.float32, name="v")
    queue.host_task(hold, u.write(access.all()))
    queue.parallel_for(8, double, v.write(access.one_to_one()), u.read(access.one_to_one()))
    queue.flush()
    try:
        assert runs.wait(60)
        graphs = queue.graphs()
        lines = graphs.story("double").split("\n  ")
        assert re.fullmatch(r'T(\d+) "double", submitted at .*test_stories.py:\d+', lines[0])
        assert re.search(r'^after .*T\d+ "hold" \(true: B\d+ "u"\)', lines[1])
        assert re.match(r'C\d+ execution: T\d+ "double" \[0:8\]; reads B\d+ "u" \[0:8\]', lines[2])
        waits = [line for line in lines[3:] if re.search(r': waits for I\d+ host task of T\d+ "hold"$', line)]
        assert len([line for line in waits if '"double"' in line.partition(": ")[0]]) == 2
        assert re.search(r'I\d+ T\d+ "hold".*: issued \d+\.\d s ago', graphs.story("hold"))
        tasks = [node for node in graphs.task.nodes if isinstance(node, TaskNode)]
        (number,) = (node.submission for node in tasks if node.name == "double")
        brief = graphs.tell_of_submission(number, 4)
        assert brief[:2] == lines[:2]
        assert set(brief[2:]) <= {*waits, f"and {len(waits) - 1} more lines"}
        assert len(brief) == 4
    finally:
        goes_on.set()
    queue.wait()
    done = queue.graphs().story("double")
    assert re.search(r'"double" \[[^\n]*: D[01] compute, \d+\.\d{3} to \d+\.\d{3} ms', done)
    assert "waits for" not in done


def test_a_task_that_is_not_kept_has_no_story(queue: celerity.Queue) -> None:
    graphs = queue.graphs()
    with pytest.raises(UsageError, match=r"story\('nobody'\): the window .* has no such task. Give its number"):
        graphs.story("nobody")
    with pytest.raises(UsageError, match=r"story\(77\)"):
        graphs.story(77)
    assert graphs.tell_of_submission(77, 4) == []
