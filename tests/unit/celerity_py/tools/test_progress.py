# SPDX-License-Identifier: MIT
"""The line of progress: steps submitted and steps done, where somebody looks at it, and nothing elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, TaskFailed, UsageError
from celerity_py.tools import progress_bars
from tests.failures.launching import run

PROGRAM = """
import sys, time
import numpy as np
import celerity_py as celerity
from celerity_py import access

def grow(chunk, u):
    time.sleep(0.01)
    u[chunk.box] += 1

with celerity.Queue() as queue:
    u = celerity.Buffer.from_array(np.zeros(8))
    for step in celerity.progress(range(60), label="growth"):
        queue.parallel_for(8, grow, u.read_write(access.one_to_one()))
    print(queue.fence(u).result()[0])
"""


class Screen:
    """Keeps the lines that a bar would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last_lines: list[str] = []

    def __call__(self, text: str, is_last: bool) -> None:
        self.lines.append(text)
        if is_last:
            self.last_lines.append(text)

    def await_line(self, pattern: str) -> str:
        """The first line that contains the pattern."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if re.search(pattern, line):
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no line with {pattern}: {self.lines}")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    shown = Screen()
    monkeypatch.setattr(progress_bars, "_find_screen", lambda: shown)
    yield shown
    for bar in list(progress_bars._shown):
        bar._thread.join(10)
    assert not progress_bars._shown


def submit_touch(queue: celerity.Queue, u: Any, touch: Callable[..., object] = lambda chunk, u: None) -> None:
    queue.parallel_for(8, touch, u.write(access.one_to_one()))


# ---- what is shown


def test_steps_are_submitted_first_and_done_later(screen: Screen) -> None:
    may_end = threading.Event()
    with celerity.Queue() as queue:
        u = celerity.Buffer(8)
        for _ in celerity.progress(range(20), label="waves"):
            submit_touch(queue, u, lambda chunk, u: may_end.wait(10))
        line = screen.await_line("20 submitted")
        assert line.startswith("waves  ▒▒▒")
        assert "  0 done, 20 submitted of 20  " in line
        may_end.set()
        queue.wait()
        assert "  20 done, 20 submitted of 20  " in screen.await_line(" 20 done")
    assert len(screen.last_lines) == 1
    assert "·" not in screen.last_lines[0]
    assert re.search(r"/s  in 0:0\d$", screen.last_lines[0])


def test_a_long_loop_shows_steps_done_before_it_ends(screen: Screen) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer(8)
        for _ in celerity.progress(range(400)):
            submit_touch(queue, u, lambda chunk, u: time.sleep(0.002))
    partly = [line for line in screen.lines if "0 done" not in line and " 400 done" not in line]
    assert partly
    assert all(" left" in line for line in partly)
    assert "  400 done, 400 submitted of 400  " in screen.last_lines[0]


def test_the_number_of_steps_may_be_unknown_or_given(screen: Screen) -> None:
    assert list(celerity.progress(iter("abc"))) == ["a", "b", "c"]
    screen.await_line("3 done, 3 submitted  ")
    assert list(celerity.progress((letter for letter in "ab"), total=5)) == ["a", "b"]
    assert "2 done, 2 submitted of 5" in screen.await_line("2 done.* of 5")
    assert list(celerity.progress([])) == []


def test_a_loop_that_is_left_ends_its_line(screen: Screen) -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer(8)
        for step in celerity.progress(range(100)):
            submit_touch(queue, u)
            if step == 6:
                break
    assert "6 done, 6 submitted of 100" in screen.last_lines[0]


def test_a_loop_inside_of_another_one_shows_nothing(screen: Screen) -> None:
    for _ in celerity.progress(range(2), label="outer"):
        for _ in celerity.progress(range(3), label="inner"):
            pass
    screen.await_line("2 done")
    assert {line.split()[0] for line in screen.lines} == {"outer"}


def test_a_later_loop_follows_when_the_steps_of_the_one_before_are_done(screen: Screen) -> None:
    may_end = threading.Event()
    with celerity.Queue() as queue:
        u = celerity.Buffer(8)
        for label in ("first", "second"):
            for _ in celerity.progress(range(5), label=label):
                submit_touch(queue, u, lambda chunk, u: may_end.wait(10))
        screen.await_line("first .* 5 submitted")
        assert not any(line.startswith("second") for line in screen.lines)
        may_end.set()
    assert [line.split()[0] for line in screen.last_lines] == ["first", "second"]
    assert all("5 done, 5 submitted of 5" in line for line in screen.last_lines)


def test_a_failure_ends_the_line(screen: Screen) -> None:
    def fail(chunk: Any, u: Any) -> None:
        raise ValueError("wrong")

    def submit_steps() -> None:
        with celerity.Queue() as queue:
            u = celerity.Buffer(8)
            for _ in celerity.progress(range(5)):
                submit_touch(queue, u, fail)
                queue.wait()

    with pytest.raises(TaskFailed):
        submit_steps()
    screen.await_line("0 done")
    for bar in list(progress_bars._shown):
        bar._thread.join(10)
    assert len(screen.last_lines) == 1


def test_a_screen_that_raises_leaves_the_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, is_last: bool) -> None:
        raise OSError("no terminal any more")

    monkeypatch.setattr(progress_bars, "_find_screen", lambda: broken)
    assert list(celerity.progress(range(3))) == [0, 1, 2]


def test_a_screen_that_stands_still_does_not_hold_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(progress_bars, "_find_screen", lambda: lambda text, is_last: goes_on.wait(30))
    start_s = time.monotonic()
    with celerity.Queue() as queue:
        u = celerity.Buffer(8)
        for _ in celerity.progress(range(3)):
            submit_touch(queue, u)
    assert time.monotonic() - start_s < 10
    goes_on.set()
    for bar in list(progress_bars._shown):
        bar._thread.join(10)


# ---- where it is shown


def run_on_terminal(*command: str) -> tuple[str, str]:
    """Output and the text on a terminal that takes the errors."""
    ours, theirs = pty.openpty()
    path = os.pathsep.join([str(Path(celerity.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("CELERITY_", "PMI"))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, text=True, env={**variables, "PYTHONPATH": path}
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how Linux tells that nobody writes any more
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        assert process.stdout is not None
        output = process.stdout.read()
    assert process.returncode == 0, shown
    return output, shown.decode()


def test_a_terminal_shows_one_line_that_is_written_again() -> None:
    output, shown = run_on_terminal(sys.executable, "-c", PROGRAM)
    assert output == "60.0\n"
    assert shown.endswith("\n")
    lines = shown.rstrip().split("\r\x1b[K")[1:]
    assert len(lines) > 2
    assert "60 done, 60 submitted of 60" in lines[-1]
    assert "\n" not in shown[:-2]


@pytest.mark.parametrize("num_ranks", [None, 2])
def test_nothing_is_shown_without_a_terminal(num_ranks: int | None) -> None:
    outcome = run(num_ranks, sys.executable, "-c", PROGRAM)
    assert outcome.status == 0
    assert outcome.errors == ""
    assert set(outcome.output.split()) == {"60.0"}


def test_other_ranks_show_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "1")
    assert list(celerity.progress(range(3))) == [0, 1, 2]
    assert screen.lines == []


# ---- mistakes


def test_a_number_of_steps_is_refused_with_the_range() -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape("is written as range(400)")):
        celerity.progress(400)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="total='3'"):
        celerity.progress([1], total="3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="total=-1"):
        celerity.progress([1], total=-1)
