# SPDX-License-Identifier: MIT
"""The timeline: recorded events, written files, and merged files."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native, access
from celerity_py.executor.quantities import format_bytes
from celerity_py.timeline import recorder
from celerity_py.timeline.chrome import rows_of
from celerity_py.timeline.recorder import Clock, agree_on_clock
from celerity_py.timeline.tracks import Slice
from celerity_py.tools.cli.main import main
from tests.support.made_traces import MadeTrace
from tests.support.timelines import Timeline, read_timeline

# ---- the recorder


def submission_of(event: _native.TraceEvent) -> int:
    assert isinstance(event.action, _native.TracedApplication)
    return event.action.submission


def test_the_recorder_keeps_the_latest_events_in_order_and_counts_the_others() -> None:
    recorder = _native.TraceRecorder(64)
    for time_ns in range(100):
        recorder.record_call("submit", 1000 - time_ns, 2000, time_ns)
    assert [submission_of(event) for event in recorder.events()] == list(range(99, 35, -1))
    assert recorder.num_lost == 36


def test_the_recorder_puts_the_outer_of_two_calls_first() -> None:
    recorder = _native.TraceRecorder(64)
    recorder.record_call("blocked", 5, 6)
    recorder.record_call("submit", 5, 9)
    calls = [event.action for event in recorder.events()]
    assert [call.call for call in calls if isinstance(call, _native.TracedApplication)] == ["submit", "blocked"]


def test_threads_may_record_while_others_read() -> None:
    recorder = _native.TraceRecorder(256)

    def record(number: int) -> None:
        for _ in range(5000):
            recorder.record_call("wait", number, 2 * number, 3 * number)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for event in recorder.events():
            assert (event.end_ns, submission_of(event)) == (2 * event.start_ns, 3 * event.start_ns)
    for thread in threads:
        thread.join()
    assert recorder.num_lost >= 15000 - 256


# ---- programs


@celerity.kernel
def smooth(chunk: Any, after: Any, before: Any) -> None:
    after[chunk.box] = before.array.mean()


def run_traced(path: Path, program: Callable[[celerity.Queue], None], **settings: Any) -> Any:
    celerity.configure(trace=path, **settings)
    try:
        with celerity.Queue() as queue:
            program(queue)
            queue.wait()
            return queue.statistics()
    finally:
        celerity.configure(trace=None, **dict.fromkeys(settings))


@pytest.mark.parametrize(("op", "track", "kind"), [("sum", "D0 copy", "combine"), (np.add, "host tasks", "reduce")])
def test_partial_results_combine_on_the_track_of_their_place(tmp_path: Path, op: Any, track: str, kind: str) -> None:
    def program(queue: celerity.Queue) -> None:
        total = celerity.Buffer((), np.int64, name="total")
        options: dict[str, Any] = {} if op == "sum" else {"identity": 0}
        argument = celerity.reduction(total, op, **options)
        queue.parallel_for(8, lambda chunk, out: out.combine(chunk.box.min[0]), argument)
        assert queue.fence(total).result(10) == 4

    run_traced(tmp_path / "trace.json", program, devices=2)
    (made,) = read_timeline(tmp_path / "trace.json").slices(track, name="reduce")
    assert (made["name"], made["cat"]) == ("reduce total", kind)


def halo_program(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.zeros((64, 32), np.float32), name="u")
    v = celerity.Buffer.from_array(np.zeros((64, 32), np.float32), name="v")
    for step in range(10):
        queue.parallel_for(
            u.shape, smooth, u.write(access.one_to_one()), v.read(access.neighborhood(1, 0)), name=f"smooth {step}"
        )
        u, v = v, u
    queue.host_task(lambda part, view: time.sleep(0.005), u.read(access.all()), name="look")
    queue.fence(v).result()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Any]:
    path = tmp_path_factory.mktemp("trace") / "run.json"
    statistics = run_traced(path, halo_program, devices="cpu:2")
    return read_timeline(path), statistics


def test_every_kernel_is_on_the_lane_of_its_device_with_its_name_and_line(traced: tuple[Timeline, Any]) -> None:
    timeline, _ = traced
    for device in range(2):
        kernels = sorted(timeline.slices(f"D{device} compute"), key=lambda item: item["ts"])
        assert [item["name"] for item in kernels] == [f"smooth {step}" for step in range(10)]
        assert all("test_trace.py:" in item["args"]["submitted at"] for item in kernels)
        assert all(item["args"]["queued_us"] >= 0 for item in kernels)
        ends = [item["ts"] + item["dur"] for item in kernels]
        assert all(end <= after["ts"] for end, after in zip(ends, kernels[1:], strict=False))


def test_the_copies_on_the_lanes_are_those_of_the_statistics(traced: tuple[Timeline, Any]) -> None:
    timeline, statistics = traced
    for reason, count in statistics.executor["copies"].items():
        copies = [item for item in timeline.lanes() if f": {reason} " in item["name"]]
        assert len(copies) == count
        assert sum(item["args"]["bytes"] for item in copies) == statistics.executor["copied_bytes"][reason]
    assert timeline.slices("D0 copy", name="u: coherence")


def test_host_tasks_last_as_long_as_their_functions(traced: tuple[Timeline, Any]) -> None:
    (look,) = traced[0].slices("host tasks", name="look")
    assert 5e3 <= look["dur"] < 5e5


def test_the_application_shows_submits_fences_and_waits(traced: tuple[Timeline, Any]) -> None:
    timeline, statistics = traced
    assert len(timeline.slices("application", name="submit smooth")) == 10
    assert len(timeline.slices("application", name="submit")) == statistics.num_submissions + 1  # the end of the run
    (fence,) = timeline.slices("application", name="submit fence B")
    assert '"v"' in fence["name"] or '"u"' in fence["name"]
    assert timeline.slices("application", name="wait wait")


def test_the_scheduler_plans_before_the_executor_issues(traced: tuple[Timeline, Any]) -> None:
    timeline, statistics = traced
    planned = sum(item["args"]["instructions generated"] for item in timeline.slices("scheduler"))
    assert planned >= statistics.scheduler["instructions"] - 1  # the initial epoch has no input
    (plan,) = timeline.slices("scheduler", name="plan smooth 3")
    issues = timeline.slices("executor", name="issue smooth 3")
    assert len(issues) == 2
    assert all(plan["ts"] < issue["ts"] for issue in issues)


def test_what_the_executor_issues_is_inside_of_its_work(traced: tuple[Timeline, Any]) -> None:
    timeline, _ = traced
    work = timeline.slices("executor", name="work")
    for issue in timeline.slices("executor", name="issue"):
        assert any(item["ts"] <= issue["ts"] <= item["ts"] + item["dur"] for item in work)
    assert timeline.slices("executor", name="alloc u")
    assert timeline.slices("executor", name="Python")


def test_slices_name_the_dependency_that_was_complete_last(traced: tuple[Timeline, Any]) -> None:
    timeline, _ = traced
    lanes = timeline.lanes()
    ends = {item["args"]["instruction"]: item["ts"] + item["dur"] for item in lanes}
    names = {item["args"]["instruction"]: item["name"] for item in lanes}
    for device in range(2):
        for kernel in timeline.slices(f"D{device} compute")[1:]:
            blocker = kernel["args"]["after"]
            assert names[blocker].startswith(("smooth", "u: coherence", "v: coherence"))
            assert ends[blocker] <= kernel["ts"] + 1e-3
            assert kernel["args"]["known_us"] >= kernel["args"]["queued_us"] - 1e-3
    (look,) = timeline.slices("host tasks", name="look")
    copied = [
        end
        for number, end in ends.items()
        if names[number].startswith("u: coherence") and number < look["args"]["instruction"]
    ]
    assert ends[look["args"]["after"]] == max(copied)


def test_kernels_tell_the_bytes_that_they_read_and_write(traced: tuple[Timeline, Any]) -> None:
    timeline, _ = traced
    for device in range(2):  # 32 rows of 32 floats are written, and 33 are read
        assert {item["args"]["bytes"] for item in timeline.slices(f"D{device} compute")} == {(32 + 33) * 32 * 4}


def test_copies_and_allocations_tell_their_memories(traced: tuple[Timeline, Any]) -> None:
    timeline, statistics = traced
    copies = [item["args"] for item in timeline.lanes() if item["cat"] == "copy"]
    assert {("D0", "D1"), ("D1", "D0"), ("D1", "host")} <= {(item["from"], item["to"]) for item in copies}
    assert {item["buffer"] for item in copies} == {"u", "v"}
    for number, memory in enumerate(("host", "D0", "D1"), 1):
        held: dict[int, int] = {}
        peak = 0
        for item in sorted(timeline.slices("executor"), key=lambda item: item["ts"]):
            if item["cat"] in {"alloc", "free"} and item["args"].get("memory") == memory:
                if item["cat"] == "alloc":
                    held[item["args"]["allocation"]] = item["args"]["bytes"]
                    peak = max(peak, sum(held.values()))
                else:
                    assert held.pop(item["args"]["allocation"]) == item["args"]["bytes"]
        assert peak == statistics.executor["memories"][number]["peak_bytes"]


def test_a_dependency_beyond_those_of_one_event_is_known(tmp_path: Path) -> None:
    def program(queue: celerity.Queue) -> None:
        buffers = [celerity.Buffer.from_array(np.zeros(8)) for _ in range(20)]
        for number, buffer in enumerate(buffers):
            queue.host_task(
                lambda part, view, number=number: time.sleep(0.02 if number == 17 else 0),
                buffer.read_write(access.all()),
                name=f"fill {number}",
            )
        queue.host_task(lambda part, *views: None, *(buffer.read(access.all()) for buffer in buffers), name="gather")

    run_traced(tmp_path / "run.json", program)
    timeline = read_timeline(tmp_path / "run.json")
    last = max(timeline.slices("host tasks", name="fill"), key=lambda item: item["ts"] + item["dur"])
    (gather,) = timeline.slices("host tasks", name="gather")
    assert gather["args"]["after"] == last["args"]["instruction"]


def test_calls_of_mappers_lie_within_their_submit(tmp_path: Path) -> None:
    def slow_mapper(chunk: celerity.Chunk) -> celerity.Box:
        time.sleep(0.002)
        return chunk.box

    def program(queue: celerity.Queue) -> None:
        buffer = celerity.Buffer.from_array(np.zeros(64), name="u")
        for _ in range(3):
            queue.parallel_for(64, lambda chunk, view: None, buffer.read(slow_mapper), name="mapped")

    run_traced(tmp_path / "run.json", program)
    timeline = read_timeline(tmp_path / "run.json")
    submits = timeline.slices("application", name="submit mapped")
    mapped = timeline.slices("application", name="map chunks of mapped")
    assert len(submits) == len(mapped) == 3
    for submit, mapping in zip(submits, mapped, strict=True):
        assert mapping["dur"] >= 2e3
        assert submit["ts"] <= mapping["ts"] <= mapping["ts"] + mapping["dur"] <= submit["ts"] + submit["dur"] + 1e-3


def test_the_file_tells_versions_settings_and_statistics(traced: tuple[Timeline, Any]) -> None:
    about = traced[0].about["rank 0"]
    assert about["versions"]["celerity_py"] == _native.version()
    assert about["versions"]["NumPy"] == np.__version__
    assert about["settings"]["devices"] == about["changed_settings"]["CELERITY_DEVICES"] == "cpu:2"
    assert (about["backend"], about["num_devices"], about["bytes_per_second"]) == ("cpu", 2, [])
    assert "pytest" in about["command"]
    assert about["statistics"]["scheduler"]["tasks"] >= traced[1].scheduler["tasks"]


def test_without_the_setting_nothing_is_recorded(queue: celerity.Queue) -> None:
    assert queue._runtime.tracer is None


def test_a_trace_that_overflows_says_so_and_shows_the_end_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "CAPACITY", 64)
    run_traced(tmp_path / "run.json", halo_program, devices="cpu:2")
    timeline = read_timeline(tmp_path / "run.json")
    lost = timeline.about["rank 0"]["events_lost"]
    assert lost > 0
    assert f"lacks the {lost} oldest events" in caplog.text
    assert timeline.slices("application", name="submit shutdown")
    assert not timeline.slices("application", name="submit smooth 0")


def test_a_program_that_fails_leaves_a_trace_of_what_it_did(tmp_path: Path) -> None:
    def fail(queue: celerity.Queue) -> None:
        halo_program(queue)
        raise KeyError("the program's own")

    with pytest.raises(KeyError, match="the program's own"):
        run_traced(tmp_path / "run.json", fail)
    assert read_timeline(tmp_path / "run.json").slices("D0 compute", name="smooth 9")


def test_a_dry_run_shows_how_it_was_planned(tmp_path: Path) -> None:
    def program(queue: celerity.Queue) -> None:
        buffer = celerity.Buffer((64,))
        queue.parallel_for(64, smooth, buffer.write(access.one_to_one()), buffer.read(access.one_to_one()))

    run_traced(tmp_path / "run.json", program, dry_run_ranks=4)
    timeline = read_timeline(tmp_path / "run.json")
    assert timeline.slices("scheduler", name="plan smooth")
    assert not timeline.lanes()


# ---- the file


def test_slices_that_overlap_get_rows_of_their_own() -> None:
    spans = [(0, 10), (1, 9), (2, 3), (5, 12), (10, 20), (12, 13)]
    rows = [
        (row, (item.start_ns, item.end_ns)) for row, item in rows_of([Slice("", "", *span, args={}) for span in spans])
    ]
    assert rows == [(0, (0, 10)), (0, (1, 9)), (0, (2, 3)), (1, (5, 12)), (0, (10, 20)), (0, (12, 13))]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1000, "1000 B"), (16384, "16 KiB"), (3 << 40, "3 TiB"), (3 << 29, "1.5 GiB")]
)
def test_bytes_are_told_in_binary_units(count: int, text: str) -> None:
    assert format_bytes(count) == text


def _write_trace(path: Path, rank: int, origin_ns: int) -> str:
    trace = MadeTrace(size=3, origin_ns=origin_ns)
    trace.about = {rank: trace.about[rank]}
    trace.add("D0 compute", "kernel", rank, 10, rank=rank)
    return str(trace.write(path))


def test_files_of_several_ranks_are_merged(tmp_path: Path) -> None:
    files = [_write_trace(tmp_path / f"out.{rank}.json", rank, 17) for rank in range(3)]
    assert main(["trace", "merge", *files, "-o", str(tmp_path / "all.json")]) == 0
    merged = json.loads((tmp_path / "all.json").read_text())
    assert [event["pid"] for event in merged["traceEvents"] if event["ph"] == "X"] == [0, 1, 2]
    assert list(merged["otherData"]) == ["rank 0", "rank 1", "rank 2"]


@pytest.mark.parametrize(
    ("rank", "origin_ns", "complaint"), [(1, 18, "is of another run than"), (0, 17, "another file holds rank 0")]
)
def test_files_that_do_not_belong_together_are_not_merged(
    rank: int, origin_ns: int, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [_write_trace(tmp_path / "a.json", 0, 17), _write_trace(tmp_path / "b.json", rank, origin_ns)]
    assert main(["trace", "merge", *files, "-o", str(tmp_path / "all.json")]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "all.json").exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe", "b.json is no text in UTF-8"),
        (b"[" * 100_000, "b.json is no timeline of this version"),
        (b'{"traceEvents": 3}', "b.json is no timeline of this version"),
        (None, "there is no file"),
    ],
)
def test_a_file_that_is_no_timeline_is_not_merged_and_is_named(
    content: bytes | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [_write_trace(tmp_path / "a.json", 0, 17), str(tmp_path / "b.json")]
    if content is not None:
        Path(files[1]).write_bytes(content)
    assert main(["trace", "merge", *files, "-o", str(tmp_path / "all.json")]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "all.json").exists()


def test_half_of_a_merged_file_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [Path(_write_trace(tmp_path / f"out.{rank}.json", rank, 17)) for rank in range(2)]
    files[1].write_text(files[1].read_text().replace('"ts": 1', '"ts": one'))
    assert main(["trace", "merge", *map(str, files), "-o", str(tmp_path / "all.json")]) == 1
    assert f"{files[1]}: a line is not understood" in capsys.readouterr().err
    assert not (tmp_path / "all.json").exists()


def test_a_merged_file_does_not_overwrite_one_that_it_is_made_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write_trace(tmp_path / "a.json", 0, 17)
    before = Path(path).read_text()
    assert main(["trace", "merge", path, "-o", f"{tmp_path}/../{tmp_path.name}/a.json"]) == 1
    assert "this is one of the timelines to read. Name another file." in capsys.readouterr().err
    assert Path(path).read_text() == before


# ---- clocks


class _Host:
    """Ranks as threads. `exchange` gives everyone what all gave, after a delay that differs."""

    def __init__(self, size: int) -> None:
        self.given: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size)


class _Rank:
    def __init__(self, host: _Host, rank: int, local_ranks: tuple[int, ...]) -> None:
        self.host, self.rank, self.local_ranks = host, rank, local_ranks

    def exchange(self, data: bytes) -> list[bytes]:
        self.host.given[self.rank] = data
        self.host.barrier.wait()
        given = list(self.host.given)
        self.host.barrier.wait()
        return given


def _agree(monkeypatch: pytest.MonkeyPatch, offsets_ns: list[int], hosts: list[tuple[int, ...]]) -> list[Clock]:
    """The clocks of ranks whose own ones are late by `offsets_ns`."""
    own = threading.local()
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: time.perf_counter_ns() - own.late_ns)
    host = _Host(len(offsets_ns))
    clocks: dict[int, Clock] = {}

    def start(rank: int) -> None:
        own.late_ns = offsets_ns[rank]
        local_ranks = next(ranks for ranks in hosts if rank in ranks)
        clocks[rank] = agree_on_clock(_Rank(host, rank, local_ranks))  # type: ignore[arg-type]

    threads = [threading.Thread(target=start, args=(rank,)) for rank in range(len(offsets_ns))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [clocks[rank] for rank in range(len(offsets_ns))]


def test_ranks_of_one_host_share_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _agree(monkeypatch, [0, 0], [(0, 1)])
    assert first == second
    assert first.offset_ns == first.error_ns == 0


def test_the_clock_of_another_host_is_estimated_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    late_ns = 123_000_000_000
    clocks = _agree(monkeypatch, [0, 0, late_ns, -late_ns], [(0, 1), (2,), (3,)])
    assert len({clock.origin_ns for clock in clocks}) == 1
    assert clocks[0].offset_ns == clocks[1].offset_ns == 0
    for clock, late in ((clocks[2], late_ns), (clocks[3], -late_ns)):
        assert 0 < clock.error_ns < 50_000_000
        assert abs(clock.offset_ns - late) <= clock.error_ns
