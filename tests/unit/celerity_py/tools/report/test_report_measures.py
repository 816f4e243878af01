# SPDX-License-Identifier: MIT
"""Kernels, overlap, delays, traffic and memory in made timelines; and the advice that follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from celerity_py.tools.report.advice import advise
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.comparison import changed_settings, verdict
from celerity_py.tools.report.measures import BEFORE, OTHERS
from celerity_py.tools.report.page import report_page
from celerity_py.tools.report.words import format_percent, format_rate, format_time, list_words
from tests.support.made_traces import MadeTrace, add_chain


def findings(analysis: Analysis) -> list[str]:
    return [advice.finding for advice in advise(analysis)]


def finding(analysis: Analysis, word: str) -> str:
    """The one finding with this word."""
    (found,) = [text for text in findings(analysis) if word in text]
    return found


# ---- figures


def test_kernels_have_counts_times_bytes_and_their_share_of_the_limit(tmp_path: Path) -> None:
    trace = MadeTrace(bytes_per_second=[2e8])
    for number, (start, end) in enumerate(((0, 10), (10, 30), (40, 70)), 1):
        trace.add("D0 compute", "kernel", start, end, name="k", instruction=number, bytes=1000, known=0, at="p.py:3")
    trace.add("D0 compute", "kernel", 70, 71, name="other", instruction=4, known=0)
    kernel, other = trace.analyse(tmp_path).measures.kernels
    assert (kernel.name, kernel.site, kernel.count, kernel.total, kernel.quantile(0.5)) == ("k", "p.py:3", 3, 60, 20)
    assert kernel.bytes_per_second == pytest.approx(3000 / 60e-6)
    assert kernel.share_of_memory_limit == pytest.approx(3000 / 60e-6 / 2e8)
    assert not other.knows_bytes
    assert other.bytes_per_second is None
    assert other.share_of_memory_limit is None


def test_without_a_known_limit_there_is_no_share(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    (kernel,) = trace.analyse(tmp_path).measures.kernels
    assert kernel.bytes_per_second is not None
    assert kernel.share_of_memory_limit is None


def test_the_delay_counts_from_ready_to_begin(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("D0 copy", "copy", 0, 20, instruction=1, known=0)
    trace.add("D0 compute", "kernel", 0, 50, name="a", instruction=2, known=0)
    trace.add("D0 compute", "kernel", 57, 60, name="b", instruction=3, after=1, known=5)
    trace.add("D0 compute", "kernel", 80, 90, name="c", instruction=4, after=1, known=75)
    kernels = {kernel.name: kernel for kernel in trace.analyse(tmp_path).measures.kernels}
    assert {name: kernel.delays.tolist() for name, kernel in kernels.items()} == {"a": [0], "b": [37], "c": [5]}
    assert {name: kernel.idle_delays.tolist() for name, kernel in kernels.items()} == {"a": [0], "b": [7], "c": [5]}


def test_kernels_of_queues_with_priorities_are_told_apart(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("D0 compute", "kernel", 0, 50, instruction=1, known=0)
    trace.add("D0 compute", "kernel", 70, 80, instruction=2, known=10)
    trace.add("D0 compute, with priority", "kernel", 30, 35, instruction=3, known=28, priority=2)
    analysis = trace.analyse(tmp_path)
    found = analysis.measures.kernels_by_priority
    shown = {priority: (times.tolist(), delays.tolist()) for priority, (times, delays) in found.items()}
    assert [*shown.items()] == [(2, ([5], [2])), (0, ([50, 10], [0, 60]))]
    assert "All kernels of the queues of each priority." in report_page(analysis)


def test_without_priorities_there_is_no_table_of_them(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace)
    assert "of each priority" not in report_page(trace.analyse(tmp_path))


def test_overlap_is_the_time_beneath_kernels(tmp_path: Path) -> None:
    trace = MadeTrace(2)
    trace.add("D0 compute", "kernel", 0, 100, instruction=1, known=0)
    trace.add("D1 compute", "kernel", 50, 120, instruction=2, known=0)
    trace.add("D0 copy", "copy", 90, 110, instruction=3, known=0, from_="D0", to="D1")
    trace.add("D1 copy", "copy", 115, 140, instruction=4, known=0, from_="D1", to="D0")
    # The data is there at 130: until then the receive waits, and nothing is on its way.
    trace.add("receive", "receive", 0, 150, instruction=5, known=0, message=1, peer=1)
    trace.add("D0 compute", "kernel", 20, 130, instruction=1, known=0, rank=1)
    trace.add("send", "send", 130, 150, instruction=2, after=1, known=0, message=1, peer=0, bytes=100, rank=1)
    measures = trace.analyse(tmp_path).measures
    here, there = measures.overlap[0], measures.overlap[1]
    assert (here.kernels, here.copies, here.transfers) == (120, 45, 20)
    assert here.share_of_copies == pytest.approx(25 / 45)
    assert here.share_of_transfers == 0
    assert (there.kernels, there.share_of_copies, there.share_of_transfers) == (110, None, None)
    assert measures.device_busy == pytest.approx({(0, 0): 100 / 150, (1, 0): 110 / 150})
    first = measures.links[0]
    assert (first.source, first.target, first.count, first.size_bytes) == ("rank 1", "rank 0", 1, 100)


def test_memory_is_counted_by_buffer(tmp_path: Path) -> None:
    trace = MadeTrace()
    where: dict[str, Any] = {"memory": "D0"}
    trace.add("executor", "alloc", 0, 1, instruction=1, allocation=1, bytes=100, buffer="u", **where)
    trace.add("executor", "alloc", 2, 3, instruction=2, allocation=2, bytes=50, buffer="v", **where)
    trace.add("executor", "free", 4, 5, instruction=3, allocation=1, bytes=100, **where)
    trace.add("executor", "free", 6, 7, instruction=4, allocation=9, bytes=30, **where)
    trace.add("executor", "alloc", 8, 9, instruction=5, allocation=9, bytes=70, buffer="u", **where)
    (curve,) = trace.analyse(tmp_path).measures.memories
    assert (curve.rank, curve.memory, curve.peak_bytes) == (0, "D0", 180)
    assert {name: level.tolist() for name, level in curve.by_buffer.items()} == {
        "u": [100, 100, 0, 0, 70], "v": [0, 50, 50, 50, 50], BEFORE: [30, 30, 30, 0, 0],
    }  # fmt: skip


def test_many_buffers_and_points_become_few(tmp_path: Path) -> None:
    trace = MadeTrace()
    for number in range(3000):
        trace.add(
            "executor", "alloc", number, number + 1, instruction=number + 1, allocation=number + 1, bytes=8,
            buffer=f"b{number % 40}", memory="host",
        )  # fmt: skip
    (curve,) = trace.analyse(tmp_path).measures.memories
    assert curve.peak_bytes == 24000
    assert len(curve.times) <= 240
    assert len(curve.by_buffer) == 8
    assert OTHERS in curve.by_buffer
    assert sum(float(level[-1]) for level in curve.by_buffer.values()) == 24000


def test_times_of_mappers_are_parts_of_submits(tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(4):
        trace.add("application", "submit", 100 * step, 100 * step + 40, name="submit f", submission=step)
        trace.add("application", "map", 100 * step + 5, 100 * step + 25, submission=step)
    trace.add("application", "submit", 500, 540, name="submit g", submission=9)
    trace.add("application", "blocked", 510, 538)
    trace.add("application", "wait", 540, 1000, submission=10)
    measures = trace.analyse(tmp_path).measures
    assert measures.submit_medians[0] == {"f": (4, 40, 0.5), "g": (1, 12, 0)}
    application = measures.applications[0]
    assert (application.span, application.waiting, application.submitting, application.mapping) == (1000, 488, 172, 80)
    assert application.busy_share == pytest.approx(0.512)


# ---- advice


def test_a_program_that_submits_slowly_starves_the_devices(tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(20):
        at = 1000.0 * step
        trace.add("application", "submit", at + 940, at + 950, submission=step + 1)
        trace.add("scheduler", "plan", at + 950, at + 955, submission=step + 1)
        trace.add("D0 compute", "kernel", at + 960, at + 990, instruction=step + 1, known=at + 955, issued=at + 956)
    trace.add("application", "wait", 19950, 20950, submission=30)
    text = findings(trace.analyse(tmp_path))[0]
    assert text == (
        "devices starve: the application thread is busy 95 %, and kernels run for 3.0 % of the time. Submits take 1.0 "
        "% of the thread's time, and the program's own code 94 %"
    )


def test_a_program_that_is_blocked_does_not_starve_anything(tmp_path: Path) -> None:
    trace = MadeTrace()
    add_chain(trace, steps=50)
    assert findings(trace.analyse(tmp_path)) == [
        "Nothing stands out: kernels and host tasks are 100 % of the critical path"
    ]


def test_a_run_without_work_is_told(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.add("application", "wait", 0, 10, submission=1)
    assert findings(trace.analyse(tmp_path)) == ["The timeline has no kernel, host task or copy"]


def test_where_no_rule_finds_a_cause_the_greatest_one_is_told(tmp_path: Path) -> None:
    """Here, submits come just in time for devices that are nearly always busy."""
    trace = MadeTrace()
    for step in range(20):
        at = 50.0 * step
        trace.add("application", "submit", at, at + 1, submission=step + 1)
        trace.add("scheduler", "plan", at + 1, at + 3, submission=step + 1)
        trace.add(
            "D0 compute", "kernel", at + 8, at + 48, instruction=step + 1, submission=step + 1, known=at + 4,
            issued=at + 7, after=step or -1,
        )  # fmt: skip
    (text,) = findings(trace.analyse(tmp_path))
    assert text == (
        "Nothing stands out: kernels and host tasks are 4.0 % of the critical path, and waiting for the application "
        "95 %"
    )


def test_a_program_that_waits_for_each_step_runs_its_devices_dry(tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(20):
        at = 100.0 * step
        trace.add("application", "submit", at, at + 5, name="submit step", submission=step + 1)
        trace.add("scheduler", "plan", at + 5, at + 30, submission=step + 1)
        trace.add("D0 compute", "kernel", at + 60, at + 80, instruction=step + 1, known=at + 30, issued=at + 58)
        trace.add("application", "wait", at + 6, at + 95, name='wait fence B1 "u"', submission=step + 1)
    analysis = trace.analyse(tmp_path)
    assert analysis.measures.applications[0].waits == {'fence B1 "u"': 20}
    assert findings(analysis)[0] == (
        'devices run dry: the program waits 20 times, after 1.0 submits each, most often in fence B1 "u". Kernels run '
        "for 20 % of the time, and begin anew after each wait"
    )


@pytest.mark.parametrize(("size", "is_named"), [(100, True), (10, False)])
def test_data_that_goes_to_and_fro_is_named_and_halos_are_not(size: int, is_named: bool, tmp_path: Path) -> None:
    trace = MadeTrace(2)
    for rank in range(2):
        for step in range(12):
            at = 100.0 * step
            trace.add("D0 compute", "kernel", at, at + 80, name="step", rank=rank, instruction=2 * step + 1, known=0,
                      bytes=1000)  # fmt: skip
            trace.add("send", "send", at + 80, at + 90, rank=rank, instruction=2 * step + 2, known=0, peer=1 - rank,
                      message=step, bytes=size, buffer="u" if step else "v")  # fmt: skip
    found = [advice for advice in advise(trace.analyse(tmp_path)) if "exchange" in advice.finding]
    assert len(found) == is_named
    if found:
        assert found[0].finding == (
            "ranks exchange 2.3 KiB, 10 % of the bytes that kernels access. 2.1 KiB of it are elements of u"
        )
        assert found[0].remedy.startswith("If tasks divide u in different ways, let them have the same index space")


def test_a_slow_rank_of_a_crowded_host_uses_fewer_devices_first(tmp_path: Path) -> None:
    trace = MadeTrace(2, num_cores=1)
    for rank, length in ((0, 100), (1, 200)):
        for step in range(10):
            trace.add("D0 compute", "kernel", 300 * step, 300 * step + length, name="step", rank=rank,
                      instruction=step + 1, known=0, bytes=10)  # fmt: skip
    (advice,) = [advice for advice in advise(trace.analyse(tmp_path)) if "is slow" in advice.finding]
    assert advice.remedy.startswith("2 CPU devices share 1 core(s) of its host there: use fewer first. Then: Look for")


@pytest.mark.parametrize(("lookahead", "remedy"), [("none", "LOOKAHEAD=auto"), ("auto", "LOOKAHEAD=infinite")])
def test_buffers_that_were_resized_are_named(lookahead: str, remedy: str, tmp_path: Path) -> None:
    trace = MadeTrace(settings={"lookahead": lookahead})
    for number in range(14):
        args: dict[str, Any] = {"buffer": "u", "reason": "resize", "from_": "D0", "to": "D0"}
        trace.add("executor", "alloc", number, number + 0.5, instruction=50 + number, allocation=number + 1, bytes=8,
                  buffer="u", memory="D0")  # fmt: skip
        trace.add("D0 copy", "copy", number, number + 1, instruction=number + 1, known=0, **args)
    (advice,) = [advice for advice in advise(trace.analyse(tmp_path)) if "resized" in advice.finding]
    assert advice.finding.startswith(f"u was resized 14 times on D0: lookahead was {lookahead}.")
    assert remedy in advice.remedy


def test_a_slow_mapper_is_named_with_its_rank(tmp_path: Path) -> None:
    trace = MadeTrace(3)
    for rank in range(3):
        for step in range(5):
            at, length = 100.0 * step, 31 if rank == 2 else 4
            trace.add("application", "submit", at, at + length, name="submit step", submission=step, rank=rank)
            trace.add("application", "map", at + 1, at + length - 1, submission=step, rank=rank)
    text = finding(trace.analyse(tmp_path), "mapper")
    assert text == "rank 2's submits of step are 31 µs: its mapper is a Python function, which takes 94 % of them"


@pytest.mark.parametrize("halved", [False, True])
def test_a_slow_rank_is_named_also_if_it_has_less_work(halved: bool, tmp_path: Path) -> None:
    trace = MadeTrace(3)
    for rank in range(3):
        is_slow = rank == 1
        for step in range(10):
            length = (105 if halved else 210) if is_slow else 100
            size = 500 if is_slow and halved else 1000
            trace.add("D0 compute", "kernel", 300 * step, 300 * step + length, name="step", rank=rank,
                      instruction=step + 1, known=0, bytes=size)  # fmt: skip
    text = finding(trace.analyse(tmp_path), "slow")
    assert text == "rank 1 is slow: its kernels take 2.1 times the others'"


def test_uneven_work_is_no_slow_rank(tmp_path: Path) -> None:
    trace = MadeTrace(2)
    for rank, steps in ((0, 9), (1, 2)):
        for step in range(steps):
            trace.add("D0 compute", "kernel", 100 * step, 100 * step + 100, name="step", rank=rank,
                      instruction=step + 1, known=0, bytes=10)  # fmt: skip
    analysis = trace.analyse(tmp_path)
    assert finding(analysis, "uneven").startswith("the work is uneven: kernels run on D0 of rank 0 for 100 %")
    assert not [text for text in findings(analysis) if "is slow" in text]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("copy", "copies between memories are 9"),
        ("receive", "transfers between ranks are 9"),
        ("host task", "host tasks are 9"),
    ],
)
def test_the_cause_with_most_of_the_path_is_named(kind: str, words: str, tmp_path: Path) -> None:
    trace = MadeTrace(2 if kind == "receive" else 1)
    trace.add("application", "submit", 0, 1, submission=1)
    trace.add("scheduler", "plan", 1, 2, submission=1)
    rows = {"copy": "D0 copy", "receive": "receive", "host task": "host tasks"}
    trace.add(rows[kind], kind, 2, 100, name="look", instruction=1, known=2, issued=2, peer=1, message=1)
    if kind == "receive":
        trace.add("send", "send", 1, 100, rank=1, instruction=1, known=1, issued=1, peer=0, message=1)
    assert any(words in text for text in findings(trace.analyse(tmp_path)))


def test_planning_and_crowded_cores_are_named(tmp_path: Path) -> None:
    trace = MadeTrace(num_cores=2, num_devices=4)
    trace.add("application", "submit", 0, 1, submission=1)
    trace.add("scheduler", "plan", 1, 50, submission=1)
    trace.add("D0 compute", "kernel", 110, 120, instruction=1, known=50, issued=52)
    analysis = trace.analyse(tmp_path)
    assert finding(analysis, "planning").startswith("planning is 41 % of the critical path")
    assert finding(analysis, "core(s)").startswith("4 CPU devices share 2 core(s) of there")


@pytest.mark.parametrize(("length", "words"), [(100, "instructions are too short for it"), (900, "wait for cores")])
def test_calls_that_are_long_are_not_called_too_short(length: float, words: str, tmp_path: Path) -> None:
    trace = MadeTrace()
    for step in range(10):
        at = 2 * length * step
        args = {"after": step} if step else {}
        trace.add("D0 compute", "kernel", at + length, at + 2 * length, name="step", instruction=step + 1, known=0,
                  issued=at + length - 1, **args)  # fmt: skip
    text = finding(trace.analyse(tmp_path), "issuing")
    assert words in text
    assert ("there has 64 core(s)" in text) == (length == 900)


def test_missing_ranks_lost_events_and_wrong_clocks_are_told(tmp_path: Path) -> None:
    trace = MadeTrace(events_lost=12, clock_error_us=250.0)
    trace.about[0]["size"] = 3
    add_chain(trace)
    text = " ".join(findings(trace.analyse(tmp_path)))
    assert "the timelines of 2 of 3 ranks are not here" in text
    assert "lack their 12 oldest events" in text
    assert "differ by up to 250 µs" in text


# ---- comparison


def test_a_comparison_tells_of_timelines_that_are_not_there(tmp_path: Path) -> None:
    """As of a run with more ranks, whose first files a later run with the same name has overwritten."""
    analyses = []
    for size in (1, 4):
        trace = MadeTrace(size=size)
        add_chain(trace)
        trace.about = {0: trace.about[0]}
        analyses.append(trace.analyse(tmp_path))
    assert [line for line in verdict(*analyses) if "timelines" in line] == [
        "B has the timelines of 1 of 4 ranks. If a later run has overwritten the others, leave them out."
    ]


def test_a_comparison_names_what_changed(tmp_path: Path) -> None:
    first, second = MadeTrace(), MadeTrace(settings={"lookahead": "none", "run_ahead": "16"})
    add_chain(first, kernel_us=100)
    add_chain(second, kernel_us=150)
    before, after = first.analyse(tmp_path), second.analyse(tmp_path)
    lines = verdict(before, after)
    assert lines[0] == "B's critical path takes 1.51 ms, A's 1.01 ms: B is 50 % longer."
    assert lines[1:] == ["Different settings: lookahead auto → none.", "B spends 500 µs more on kernels."]
    assert changed_settings(before, before) == {}


# ---- words


@pytest.mark.parametrize(
    ("time", "text"),
    [(0, "0 µs"), (0.123, "0.12 µs"), (31.4, "31.4 µs"), (999.7, "1 ms"), (12345, "12.3 ms"), (2e6, "2 s")],
)
def test_times_have_three_digits(time: float, text: str) -> None:
    assert format_time(time) == text


def test_other_words() -> None:
    assert format_rate(3.35e12) == "3.35 TB/s"
    assert [format_percent(share) for share in (0, 0.021, 0.954, 1)] == ["0 %", "2.1 %", "95 %", "100 %"]
    assert list_words(["a", "b", "c"]) == "a, b and c"
    assert list_words(["a"]) == "a"
