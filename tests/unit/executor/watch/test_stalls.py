# SPDX-License-Identifier: MIT
"""A run in which no rank moves: one rank reports and ends it, whichever ranks wait. The tests keep time and mail."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py._native import ActiveInstruction
from celerity_py.executor.failures.failure_handler import FailureTimes
from celerity_py.executor.network.communicator import NOTICE_QUERY
from celerity_py.executor.watch.progress_watchdog import ProgressWatchdog
from celerity_py.scheduler.errors import Stalled
from tests.support.scripted_executor import MemoryNetwork, ScriptedExecutor, ScriptedRuntime

TIMES = FailureTimes()


class Idle:
    """The program's thread of a rank, which waits."""

    def is_busy(self, now_s: float) -> bool:
        return False

    def line(self) -> str:
        return "program.py:7"


class Watched:
    """Ranks with nothing but their watchdogs. Every question is answered in the second in which it is asked."""

    def __init__(self, waiting: set[int], num_ranks: int) -> None:
        self.network = MemoryNetwork(num_ranks)
        self.waiting = waiting
        self.natives = [ScriptedExecutor() for _ in range(num_ranks)]
        idle: Any = Idle()
        self.watchdogs = [
            ProgressWatchdog(native, communicator, ScriptedRuntime(), idle, None, TIMES, 0.0)
            for native, communicator in zip(self.natives, self.network.ranks, strict=True)
        ]
        self.failed: dict[int, tuple[int, BaseException | None]] = {}

    def pass_seconds(self, begin_s: int, end_s: int) -> None:
        for now_s in range(begin_s, end_s):
            for rank, watchdog in enumerate(self.watchdogs):
                entry = ActiveInstruction(now_s, f"I{rank} receive", 0, 0, None, None, None, "receive")
                self.natives[rank].active = [entry] if rank in self.waiting else []
                failure = watchdog.check(float(now_s))
                if failure is not None:
                    self.failed.setdefault(rank, (now_s, failure.error))
            self._answer(float(now_s))

    def _answer(self, now_s: float) -> None:
        for rank, communicator in enumerate(self.network.ranks):
            for kind, source, _ in communicator.poll().notices:
                assert kind == NOTICE_QUERY
                self.watchdogs[source].note_sign_of_life(rank)
                self.watchdogs[source].take_status(self.watchdogs[rank].describe_self(now_s), now_s)


@pytest.mark.parametrize("waiting", [{0, 1, 2, 3}, {1, 2, 3}, {2, 3}, {3}, {0, 3}])
def test_only_the_first_rank_that_waits_reports_a_stall_and_ends_the_run(
    waiting: set[int], capfd: pytest.CaptureFixture[str]
) -> None:
    run = Watched(waiting, 4)
    first = min(waiting)
    run.pass_seconds(0, int(TIMES.report_s))
    assert capfd.readouterr().err == ""
    run.pass_seconds(int(TIMES.report_s), int(TIMES.stall_s))
    report = capfd.readouterr().err
    assert report.count("celerity_py: nothing has moved for") == 1
    assert report.splitlines()[1].startswith(f"  rank {first} waits for I{first} receive")
    assert report.count("waits for") == len(waiting)
    assert report.count("has nothing to do") == 4 - len(waiting)
    assert not run.failed
    run.pass_seconds(int(TIMES.stall_s), int(TIMES.stall_s) + 30)
    assert list(run.failed) == [first]
    assert isinstance(run.failed[first][1], Stalled)
    assert capfd.readouterr().err == ""


def test_a_rank_that_moves_again_keeps_all_ranks_from_reporting(capfd: pytest.CaptureFixture[str]) -> None:
    run = Watched({0, 1}, 3)
    for second in range(int(2 * TIMES.stall_s)):
        if second % int(TIMES.still_s - 3) == 0:
            run.watchdogs[2].note_progress(float(second))
        run.pass_seconds(second, second + 1)
    assert not run.failed
    assert capfd.readouterr().err == ""


def test_a_report_tells_the_story_of_the_task_that_stands_still(capfd: pytest.CaptureFixture[str]) -> None:
    network, native, runtime, idle = MemoryNetwork(1), ScriptedExecutor(), ScriptedRuntime(), Idle()
    runtime.stories = {5: ['T7 "step", submitted at program.py:3', "I9 runs: waits for I4", "third", "fourth", "fifth"]}
    watched: Any = idle
    watchdog = ProgressWatchdog(native, network.ranks[0], runtime, watched, None, TIMES, 0.0)
    for now_s in range(int(TIMES.report_s) + 2):
        native.active = [
            ActiveInstruction(now_s, "I3 free"),
            ActiveInstruction(now_s, "I4 receive", submission=5, kind="receive"),
        ]
        watchdog.check(float(now_s))
    lines = capfd.readouterr().err.splitlines()
    assert [line.strip() for line in lines[2:]] == ["also I4 receive", *runtime.stories[5][:4]]
