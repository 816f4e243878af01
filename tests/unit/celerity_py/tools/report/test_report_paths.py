# SPDX-License-Identifier: MIT
"""The critical path in made timelines whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py.tools.report.critical_path import CAUSES, CriticalPath
from celerity_py.tools.report.intervals import union
from tests.support.made_traces import MadeTrace, add_chain


def spent(path: CriticalPath) -> dict[str, Any]:
    """The causes that have any time."""
    return {cause: pytest.approx(time) for cause, time in path.by_cause().items() if time > 0}


def test_a_chain_of_kernels_is_the_path(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace, steps=5, kernel_us=100, gap_us=2)
    path = trace.analyse(tmp_path).path
    assert spent(path) == {"kernel": 500, "issuing": 8, "planning": 5, "application": 5}
    assert path.length == pytest.approx(518)
    assert path.share("kernel") == pytest.approx(500 / 518)


def test_the_path_goes_along_the_dependency_that_was_complete_last(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("application", "submit", 0, 1, submission=1)
    trace.add("scheduler", "plan", 1, 2, submission=1)
    trace.add("D0 compute", "kernel", 2, 12, name="a", instruction=1, known=2, issued=2)
    trace.add("D1 compute", "kernel", 2, 42, name="b", instruction=2, known=2, issued=2)
    trace.add("D0 copy", "copy", 44, 50, name="halo", instruction=3, after=2, known=2, issued=3)
    trace.add("D0 compute", "kernel", 51, 61, name="c", instruction=4, after=3, known=2, issued=3)
    path = trace.analyse(tmp_path).path
    assert spent(path) == {"kernel": 50, "copy": 6, "issuing": 3, "planning": 1, "application": 1}
    assert "a" not in {name for _, name in path.by_name(trace.analyse(tmp_path).run)}


def test_a_busy_lane_holds_its_next_instruction_up(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("application", "submit", 0, 1, submission=1)
    trace.add("scheduler", "plan", 1, 2, submission=1)
    trace.add("D0 compute", "kernel", 2, 90, name="long", instruction=1, known=2, issued=2)
    trace.add("D0 compute", "kernel", 90, 100, name="next", instruction=2, known=2, issued=2)
    assert spent(trace.analyse(tmp_path).path) == {"kernel": 98, "planning": 1, "application": 1}


def test_late_submits_are_waits_for_the_application(tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(3):
        at = 1000.0 * step
        trace.add("application", "submit", at + 900, at + 910, submission=step + 1)
        trace.add("scheduler", "plan", at + 912, at + 920, submission=step + 1)
        trace.add(
            "D0 compute", "kernel", at + 925, at + 975, instruction=step + 1, known=at + 921, issued=at + 922,
            after=step or -1,
        )  # fmt: skip
    assert spent(trace.analyse(tmp_path).path) == {"kernel": 50, "issuing": 5, "planning": 10, "application": 2010}


def test_a_wait_of_the_application_leads_to_the_instruction_that_ended_it(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("application", "submit", 0, 10, submission=1)
    trace.add("scheduler", "plan", 10, 20, submission=1)
    trace.add("D0 compute", "kernel", 20, 100, instruction=1, known=20, issued=20)
    trace.add("application", "wait", 10, 110, submission=1)
    trace.add("application", "submit", 130, 140, submission=2)
    trace.add("scheduler", "plan", 140, 150, submission=2)
    trace.add("D0 compute", "kernel", 150, 200, instruction=2, known=150, issued=150)
    # From the end of the first kernel: 10 until the program knows, 30 of its own, 10 of planning.
    assert spent(trace.analyse(tmp_path).path) == {"kernel": 130, "issuing": 10, "planning": 20, "application": 40}


def test_a_scheduler_that_is_busy_is_the_cause(tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(4):
        trace.add("application", "submit", step, step + 1, submission=step + 1)
        trace.add("scheduler", "plan", 10 + 100 * step, 108 + 100 * step, submission=step + 1)
    trace.add("D0 compute", "kernel", 410, 420, instruction=1, known=408, issued=409)
    assert spent(trace.analyse(tmp_path).path) == {"kernel": 10, "issuing": 2, "planning": 407, "application": 1}


def two_ranks() -> MadeTrace:
    """Rank 1 waits for data of rank 0, whose kernel takes long."""
    trace = MadeTrace(2)
    for rank in range(2):
        trace.add("application", "submit", 0, 1, submission=1, rank=rank)
        trace.add("scheduler", "plan", 1, 2, submission=1, rank=rank)
    trace.add("D0 compute", "kernel", 2, 82, name="late", instruction=1, known=2, issued=2)
    trace.add("send", "send", 83, 95, instruction=2, after=1, known=2, issued=83, message=7, peer=1, bytes=64)
    trace.add("D0 compute", "kernel", 2, 12, name="early", instruction=1, known=2, issued=2, rank=1)
    trace.add("receive", "receive", 3, 93, instruction=2, known=2, issued=3, message=7, peer=0, bytes=64, rank=1)
    trace.add("D0 compute", "kernel", 94, 104, name="last", instruction=3, after=2, known=2, issued=94, rank=1)
    return trace


def test_a_receive_leads_to_the_rank_that_sends_late(tmp_path: Path) -> None:
    path = two_ranks().analyse(tmp_path).path
    assert spent(path) == {"kernel": 90, "transfer": 10, "issuing": 2, "planning": 1, "application": 1}
    assert [segment.rank for segment in path.segments if segment.cause == "kernel"] == [1, 0]


def test_the_path_of_a_rank_calls_the_wait_for_another_one_by_its_name(tmp_path: Path) -> None:
    path = two_ranks().analyse(tmp_path).rank_paths[1]
    assert spent(path) == {"kernel": 20, "transfer": 10, "peer": 71, "issuing": 1, "planning": 1, "application": 1}
    assert {segment.rank for segment in path.segments} == {1}


def test_without_the_timeline_of_the_sender_the_peer_is_the_cause(tmp_path: Path) -> None:
    trace = two_ranks()
    alone = MadeTrace(2)
    alone.about = {1: trace.about[1]}
    alone._lines = [line for line in trace._lines if '"pid": 1' in line]
    path = alone.analyse(tmp_path).path
    assert spent(path)["peer"] == pytest.approx(90)


def test_a_barrier_leads_to_the_rank_that_comes_last(tmp_path: Path) -> None:
    trace = MadeTrace(2)
    for rank, end in ((0, 50), (1, 500)):
        trace.add("application", "submit", 0, 1, submission=1, rank=rank)
        trace.add("scheduler", "plan", 1, 2, submission=1, rank=rank)
        trace.add("D0 compute", "kernel", 2, end, instruction=1, known=2, issued=2, rank=rank)
        trace.add("barrier", "barrier", end + 1, 505 + rank, instruction=2, after=1, known=2, rank=rank)
    analysis = trace.analyse(tmp_path)
    assert spent(analysis.path) == {"kernel": 498, "transfer": 5, "issuing": 1, "planning": 1, "application": 1}
    assert spent(analysis.rank_paths[0])["peer"] == pytest.approx(450)


def test_the_pieces_of_a_path_do_not_overlap_and_leave_no_gap(tmp_path: Path) -> None:
    """Also where clocks are wrong, dependencies unknown, and instructions lost."""
    random = np.random.default_rng(5)
    trace = MadeTrace(3)
    kinds = {"D0 compute": "kernel", "D0 copy": "copy", "send": "send", "receive": "receive", "executor": "alloc"}
    for rank in range(3):
        for number in range(1, 200):
            track = str(random.choice(list(kinds)))
            start = float(random.uniform(0, 1e4))
            trace.add(
                track, kinds[track], start, start + float(random.uniform(0, 300)), rank=rank, instruction=number,
                after=int(random.integers(0, 260)), known=start - float(random.uniform(0, 500)),
                issued=start - float(random.uniform(0, 500)), message=int(random.integers(0, 50)),
                peer=int(random.integers(0, 4)), submission=number,
            )  # fmt: skip
            trace.add("scheduler", "plan", start, start + 3, rank=rank, submission=number)
            trace.add(
                "application", str(random.choice(["submit", "wait"])), start, start + 9, rank=rank, submission=number
            )
    analysis = trace.analyse(tmp_path)
    for path in (analysis.path, *analysis.rank_paths.values()):
        assert path.segments
        for later, earlier in zip(path.segments, path.segments[1:], strict=False):
            assert earlier.end == later.start
            assert earlier.start < earlier.end
        assert set(path.by_cause()) == set(CAUSES)
        assert path.segments[-1].start == pytest.approx(analysis.run.start)
    assert analysis.path.segments[0].end == max(
        float(rank.end[np.isin(rank.numbers["instruction"], range(1, 200))].max())
        for rank in analysis.run.ranks.values()
    )


def test_intervals_add_up() -> None:
    found = union(np.array([5.0, 0.0, 1.0, 9.0, 20.0]), np.array([7.0, 2.0, 3.0, 9.0, 21.0]))
    assert (found.start.tolist(), found.end.tolist()) == ([0, 5, 20], [3, 7, 21])
    assert found.length == 6
    assert found.up_to(np.array([-1.0, 1.0, 4.0, 6.0, 99.0])).tolist() == [0, 1, 3, 4, 6]
    assert found.common_with(union(np.array([2.0, 6.0]), np.array([6.0, 20.5]))) == 3.5
    assert union(np.zeros(0), np.zeros(0)).common_with(found) == 0
