# SPDX-License-Identifier: MIT
"""The lines and tables of `CELERITY_LIVE`: the activity of each rank, each second."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import celerity_py as celerity
from celerity_py.executor.delegate import Activity
from celerity_py.runtime import live_view
from celerity_py.runtime.live_view import LiveView, News, RankReport, describe_report, show_lines, show_table
from tests.failures.launching import run

# The kernels of rank 0 are slow, and rank 1 needs their results.
PROGRAM = """
import sys, time
import numpy as np
import celerity_py as celerity
from celerity_py import access

def smooth(chunk, u, v):
    if celerity.rank() == 0:
        time.sleep(0.02)
    u[chunk.box] += v.array.sum()

with celerity.Queue() as queue:
    u, v = (celerity.Buffer.from_array(np.zeros(64), name=name) for name in "uv")
    for _ in range(int(sys.argv[1])):
        queue.parallel_for(64, smooth, u.read_write(access.one_to_one()), v.read(access.neighborhood(1)))
        u, v = v, u
"""
REPORT = RankReport(
    rank=1,
    steps_per_s=None,
    tasks_per_s=12.3,
    tasks_ahead=4,
    computing=0.25,
    waiting=0.75,
    waits_for='rank 0: B1 "u" [3:4]',
    starved=0.01,
    planning=0.05,
    blocked=0.5,
    device_bytes=1 << 20,
    host_bytes=0,
    writing="",
)


@pytest.fixture
def without_rich(tmp_path: Path) -> dict[str, str]:
    """Variables of a process that has no rich."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'rich' else find(name, *more)\n"
    )
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("transport", ["auto", "host"])
def test_each_second_rank_0_prints_a_line_per_rank_with_its_waits(transport: str, without_rich: dict[str, str]) -> None:
    variables = {"CELERITY_LIVE": "1", "CELERITY_TRANSPORT": transport, "CELERITY_BACKEND": "cpu", **without_rich}
    outcome = run(2, sys.executable, "-c", PROGRAM, "150", variables=variables)
    assert outcome.status == 0, outcome.errors
    lines = outcome.errors.splitlines()
    heads = [re.match(r"celerity_py (\d+) s, rank ([01]): \d+ tasks/s, \d+ ahead; computing ", line) for line in lines]
    seconds = {rank: [int(head[1]) for head in heads if head and head[2] == rank] for rank in "01"}
    assert len(lines) == len(seconds["0"]) + len(seconds["1"]), lines
    assert len(seconds["0"]) >= 2, lines
    assert all(seconds[rank] == sorted(set(seconds[rank])) for rank in "01"), lines
    of_rank_1 = [line for line in lines if ", rank 1: " in line]
    assert any(re.search(r"waiting ([4-9]\d|100)%", line) for line in of_rank_1), lines
    assert any(re.search(r' for rank 0: B\d+ "[uv]" \[31:32\]; ', line) for line in of_rank_1), lines


def test_with_rich_it_is_a_table_with_a_row_per_rank() -> None:
    pytest.importorskip("rich")
    variables = {"CELERITY_LIVE": "1", "CELERITY_BACKEND": "cpu"}
    outcome = run(2, sys.executable, "-c", PROGRAM, "150", variables=variables)
    assert outcome.status == 0, outcome.errors
    assert re.search(r"celerity_py 1 s *\n", outcome.errors)
    assert re.search(r"rank +steps/s +tasks/s +ahead +computing +waiting +planning +starved +blocked", outcome.errors)
    assert re.search(r"^ +0 +\d+ +\d+ +(9\d|100)% ", outcome.errors, flags=re.MULTILINE), outcome.errors
    row = r'^ +1 +\d+ .* rank 0: B\d+ "[uv]" \[31:32\] *$'
    assert re.search(row, outcome.errors, flags=re.MULTILINE), outcome.errors
    assert "\x1b" not in outcome.errors, "no colours in a pipe"


@pytest.mark.parametrize(("live", "steps"), [("0", "150"), ("1", "1")])
def test_nothing_is_printed_by_default_nor_of_a_short_run(live: str, steps: str) -> None:
    outcome = run(2, sys.executable, "-c", PROGRAM, steps, variables={"CELERITY_LIVE": live})
    assert outcome.status == 0
    assert outcome.errors == ""


def test_a_single_rank_has_a_line_too(without_rich: dict[str, str]) -> None:
    outcome = run(None, sys.executable, "-c", PROGRAM, "80", variables={"CELERITY_LIVE": "1", **without_rich})
    assert outcome.status == 0
    assert re.match(r"celerity_py 1 s, rank 0: \d+ tasks/s, \d+ ahead; computing (9\d|100)%", outcome.errors)


def test_a_loop_with_progress_has_its_steps_per_second_on_each_rank(without_rich: dict[str, str]) -> None:
    program = PROGRAM.replace("range(int(sys.argv[1]))", "celerity.progress(range(int(sys.argv[1])))")
    outcome = run(2, sys.executable, "-c", program, "150", variables={"CELERITY_LIVE": "1", **without_rich})
    assert outcome.status == 0, outcome.errors
    lines = outcome.errors.splitlines()
    for rank in (0, 1):
        of_rank = [line for line in lines if f", rank {rank}: " in line]
        assert any(re.search(r": [1-9]\d steps/s, [1-9]\d tasks/s, ", line) for line in of_rank), lines


def test_a_run_that_fails_ends_as_it_does_without() -> None:
    program = PROGRAM.replace("time.sleep(0.02)", "1 / 0")
    outcome = run(2, sys.executable, "-c", program, "150", variables={"CELERITY_LIVE": "1"})
    assert outcome.status != 0
    assert outcome.errors.count("ZeroDivisionError: division by zero") >= 1
    assert outcome.ended_within(20)


# ---- the words


def test_a_line_tells_shares_memory_and_for_whom_a_rank_waits() -> None:
    assert describe_report(REPORT) == (
        '12 tasks/s, 4 ahead; computing 25%, waiting 75% for rank 0: B1 "u" [3:4]; planning 5%, starved 1%, '
        "blocked 50%; 1 MiB per device, 0 B on the host"
    )
    writing = RankReport(**{**asdict(REPORT), "writing": "u.npy, 1 MiB of 4 MiB, and 2 more"})
    assert describe_report(writing).endswith("0 B on the host; writing u.npy, 1 MiB of 4 MiB, and 2 more")


def test_a_line_tells_the_steps_of_a_loop() -> None:
    few = RankReport(**{**asdict(REPORT), "steps_per_s": 1.26})
    many = RankReport(**{**asdict(REPORT), "steps_per_s": 126.0})
    assert describe_report(few).startswith("1.3 steps/s, 12 tasks/s, 4 ahead; ")
    assert describe_report(many).startswith("126 steps/s, 12 tasks/s, ")


def test_a_table_tells_the_same_as_the_lines() -> None:
    pytest.importorskip("rich")
    silent = RankReport(**{**asdict(REPORT), "rank": 2})
    news = News(3.4, [(0.0, REPORT), (4.0, silent)], 5)
    assert show_lines(news).splitlines()[1:] == [
        "celerity_py 3 s, rank 2: has not reported for 4 s",
        "celerity_py 3 s: and 5 more ranks",
    ]
    rows = [line.split() for line in show_table(news).splitlines()]
    assert rows[0] == ["celerity_py", "3", "s"]
    shown = " ".join(next(row for row in rows if row[:1] == ["1"]))
    assert shown == '1 12 4 25% 75% 5% 1% 50% 1 MiB 0 B rank 0: B1 "u" [3:4]'
    assert ["2", "has", "not", "reported", "for", "4", "s"] in rows
    assert rows[-1] == ["and", "5", "more", "ranks"]


def test_the_rank_that_was_awaited_most_is_named_with_its_latest_data() -> None:
    looks = [Activity(is_waiting=True, peer=peer, what=what) for peer, what in ((3, "a"), (2, "b"), (3, "c"), (2, "d"))]
    assert live_view._describe_waits([*looks, looks[0]]) == "rank 3: a"
    assert live_view._describe_waits(looks[1:]) == "rank 2: d"
    assert live_view._describe_waits([Activity(is_waiting=True, what="u")]) == "data that no rank has announced: u"
    assert live_view._describe_waits([]) == ""


class Printed:
    """A runtime without threads, and the texts that its view prints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rank = 0
        self.at_stop: list[Any] = []
        self.texts: list[str] = []
        monkeypatch.setattr(live_view, "print_whole", self.texts.append)
        monkeypatch.setattr(live_view, "has_rich", lambda: False)


def test_a_rank_that_is_silent_and_ranks_beyond_32_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime: Any = Printed(monkeypatch)
    view = LiveView(runtime.rank, runtime, runtime, runtime, runtime.at_stop)
    view._began_s = 0.0
    for rank in (*range(1, 40), 0):
        report = RankReport(**{**asdict(REPORT), "rank": rank})
        view.take(json.dumps(asdict(report)).encode(), 7.0 if rank == 1 else 10.0)
    (stop,) = runtime.at_stop
    stop()
    (text,) = runtime.texts
    lines = text.splitlines()
    assert len(lines) == 33
    assert lines[0].startswith("celerity_py 10 s, rank 0: 12 tasks/s")
    assert lines[1] == "celerity_py 10 s, rank 1: has not reported for 3 s"
    assert lines[-1] == "celerity_py 10 s: and 8 more ranks"


def test_a_terminal_that_stands_still_does_not_hold_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    runtime: Any = Printed(monkeypatch)
    monkeypatch.setattr(live_view, "print_whole", lambda text: goes_on.wait(30))
    view = LiveView(runtime.rank, runtime, runtime, runtime, runtime.at_stop)
    view._began_s = 0.0
    view.take(json.dumps({**asdict(REPORT), "rank": 0}).encode(), 1.0)
    start_s = time.monotonic()
    runtime.at_stop[0]()
    assert time.monotonic() - start_s < 10
    goes_on.set()


def test_without_the_setting_there_is_no_reporter_and_no_thread() -> None:
    with celerity.Queue() as queue:
        assert queue._runtime.live._reporter is None
        assert "celerity-live" not in {thread.name for thread in threading.enumerate()}
