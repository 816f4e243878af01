# SPDX-License-Identifier: MIT
"""Programs that share a device: the benchmark on a CPU device, small; its processes, conclusions and failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from cluster_jobs.benchmarks.dags import (
    dag_programs,
    sharing,
    sharing_measure,
    sharing_processes,
    sharing_runners,
    sharing_table,
)
from cluster_jobs.benchmarks.dags.sharing_measure import ON_CPU, WAYS
from cluster_jobs.benchmarks.dags.sharing_processes import Job, Setting
from cluster_jobs.benchmarks.dags.sharing_programs import CASES, SIZES, build, bytes_of

ROOT = Path(__file__).parents[2]
# Threads of NumPy's libraries, which are idle then.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
TIME_LIMIT_S = 240


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    command = [sys.executable, "-m", f"cluster_jobs.benchmarks.dags.{module}", "--backend", "cpu", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )


@pytest.mark.parametrize(("prefetch", "submit"), [("on", "turns"), ("off", "turns"), ("on", "replay")])
def test_all_cases_run_on_a_cpu_device_and_all_of_it_is_written(prefetch: str, submit: str, tmp_path: Path) -> None:
    output = tmp_path / "sharing.json"
    cases = ",".join(CASES) if prefetch == "on" else "MP-1,MP-2"
    options = ["--case", cases, "--prefetch", prefetch, "--submit", submit]
    result = _run("sharing", *options, "--rounds", "3", "--seconds", "12", "--output", str(output))
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(output.read_text())
    assert figures["problems"] == []
    ways = [way for way in ON_CPU if way in figures["ways"]]
    assert {"one", "slices"} <= set(ways)
    for case in cases.split(","):
        rows = [row for row in figures["rows"] if row["case"] == case]
        assert [row["way"] for row in rows] == [way for way in ways if way != "split" or case == "latency"]
        for row in rows:
            if case.startswith("MP"):
                assert row["rounds"] == 3
                assert row["total_ms"]["number"] >= 3
                assert row["total_ms"]["p50"] >= row["highest_ms"]["p50"] > 0
                assert [name for name, _ in row["ends_ms"]] == list(CASES[case].programs)
            elif case == "latency":
                assert row["small_us"]["p99"] >= row["small_us"]["p50"] > 0
                assert row["throughput"] > 0
            else:
                assert min(row["highest_per_s"], row["middle_per_s"], row["lowest_alone_per_s"]) > 0
                assert len(row["lowest_by_second"]) >= 1


def test_a_regular_graph_is_the_transpose_of_its_transpose() -> None:
    program = dag_programs.hits(1000, is_regular=True)
    rows = np.repeat(np.arange(1000), 3).tolist()
    edges = {
        suffix: sorted(
            zip(rows, *(program.buffers[f"{name}{suffix}"].tolist() for name in ("column", "value")), strict=True)
        )
        for suffix in ("", "_t")
    }
    assert edges[""] == sorted((origin, end, value) for end, origin, value in edges["_t"])
    assert max(abs(end - origin) for origin, end, _ in edges[""]) > 500
    assert {value for _, _, value in edges[""]} == {1, 2, 3}
    scores = program.expected()["auth1"]
    assert len(np.unique(np.round(scores * 1e9))) > 10, "equal scores would hide mistakes"


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_programs_have_the_bytes_that_they_are_given(case: Any) -> None:
    for size in SIZES[:2]:
        given = case.sizes[size]
        total = sum(given) if isinstance(given, tuple) else given
        assert sum(map(bytes_of, build(case, size))) == pytest.approx(total, rel=0.1)
    assert bytes_of(build(case, 8_000_000)[-1]) == pytest.approx(
        8_000_000 / (1 if case.name == "latency" else len(case.programs)), rel=0.1
    )


# ---- processes


class Fake:
    """Programs that only sleep."""

    #: Of the process of a way, by the names of its programs.
    wrong = ""
    changes = ""
    fails = ""

    def __init__(self, programs: Mapping[int, Any], priorities: Mapping[int, int], *, ahead: bool, submit: str) -> None:
        self.programs = programs
        self.runs = self.asked = 0

    def renew(self, numbers: Sequence[int]) -> None: ...

    def prepare(self, numbers: Sequence[int]) -> None: ...

    def start(self, numbers: Sequence[int], *, with_priorities: bool) -> dict[int, float]:
        self.runs += 1
        names = "+".join(program.name for program in self.programs.values())
        if self.runs > 3 and names == Fake.fails:
            raise ValueError("no such kernel")
        ends = {}
        for number in numbers:
            time.sleep(0.002)
            ends[number] = time.monotonic()
        return ends

    def enter_thread(self) -> None: ...

    def repeat(self, number: int, runs: int) -> None:
        time.sleep(0.001 * runs)

    def use_priorities(self, with_priorities: bool) -> None: ...

    def results(self, number: int) -> dict[str, Any]:
        self.asked += 1
        names = "+".join(program.name for program in self.programs.values())
        results: dict[str, Any] = self.programs[number].expected()
        is_wrong = names == Fake.wrong or (names == Fake.changes and self.asked > 1)
        return results | ({"wrong": np.ones(1)} if is_wrong else {})

    def close(self) -> None: ...


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    monkeypatch.setitem(sharing_runners.RUNNERS, "ours", Fake)
    monkeypatch.setattr(Fake, "wrong", "")
    monkeypatch.setattr(Fake, "changes", "")
    monkeypatch.setattr(Fake, "fails", "")
    case = CASES["MP-1"]
    return Setting(case, build(case, "tiny"), build(case, "tiny"), ahead=False, is_cuda=False)


def test_starts_are_common_and_ways_take_turns(setting: Setting) -> None:
    with sharing_measure.running(["one", "slices"], setting) as ways:
        found = sharing_measure.measure_starts(ways, setting, 3, time.monotonic() + 1)
        spans = sharing_measure.measure_loops(ways, setting, {0: Job(1), 1: Job(4)}, 3, time.monotonic() + 1)
    assert setting.problems == {}
    for way, programs_in_a_row in (("one", 4), ("slices", 1)):
        figures = found[way]
        assert figures["rounds"] == 3
        total = np.median([max(ends.values()) for ends in figures["together"]])
        assert programs_in_a_row * 0.002 <= total < programs_in_a_row * 0.002 + 0.05
        assert len(figures["alone"][0]) == len(figures["together"]) >= 3
        assert all(len(figures["alone"][number]) == 3 for number in (1, 2, 3))
        assert spans[way]["rounds"] == 3
        assert 100 < np.median(spans[way]["rates"][0]) <= 1000


def test_a_way_with_other_results_is_found(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "wrong", "HITS")
    with sharing_measure.running(["one", "slices"], setting) as ways:
        assert [way.name for way in ways] == ["one"]
    assert "the results differ from those of one" in setting.problems["slices"]


def test_results_that_change_while_they_are_measured_are_found(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fake, "changes", "HITS")
    with sharing_measure.running(["one", "slices"], setting) as ways:
        assert [way.name for way in ways] == ["one", "slices"]
    assert setting.problems == {"slices": "AssertionError: the results have changed"}


def test_a_way_that_fails_does_not_stop_the_others(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "fails", "HITS")
    with sharing_measure.running(["one", "slices"], setting) as ways:
        found = sharing_measure.measure_starts(ways, setting, 5, time.monotonic() + 1)
    assert "no such kernel" in setting.problems["slices"]
    assert found["one"]["rounds"] >= sharing_measure.FEWEST_ROUNDS
    assert "one" not in setting.problems


def test_a_process_that_has_ended_is_a_failure(setting: Setting) -> None:
    with sharing_measure.running(["one"], setting) as ways:
        worker = ways[0].workers[0]
        worker._process.kill()
        worker._process.join()
        sharing_measure.attempt(ways[0], setting, lambda way: sharing_measure.start(way, [0]))
    assert "has ended" in setting.problems["one"]


def test_ways_run_in_groups_if_the_memory_is_too_small(setting: Setting) -> None:
    assert sharing_measure.groups_that_fit(list(WAYS), setting, None) == [list(WAYS)]
    data = sum(map(bytes_of, setting.programs))
    assert sharing_measure.groups_that_fit(list(WAYS), setting, 1e9 + 1.1 * data) == [
        ["priorities", "one"], ["split"], ["slices"], ["mps"], ["streams"],
    ]  # fmt: skip


_CONTROL = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$1" = "-d" ]; then exit {status}; fi
read command
echo "$command $CUDA_MPS_PIPE_DIRECTORY" >> "{log}"
if [ "$command" = "get_server_list" ]; then echo 4711; fi
"""


@pytest.mark.parametrize("status", [0, 1])
def test_mps_gets_folders_of_its_own_and_is_stopped(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, log = tmp_path / "nvidia-cuda-mps-control", tmp_path / "log"
    program.write_text(_CONTROL.format(log=log, status=status))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if status:
        with pytest.raises(RuntimeError, match="ended with 1"):
            sharing_processes.MultiProcessService()
        assert "quit" in log.read_text()
        return
    service = sharing_processes.MultiProcessService()
    pipe = service.variables["CUDA_MPS_PIPE_DIRECTORY"]
    assert Path(pipe).is_dir()
    assert service.has_clients()
    service.stop()
    assert not Path(pipe).exists()
    assert [line for line in log.read_text().splitlines() if line] == [
        "-d", f"get_server_list {pipe}", f"quit -t 5 {pipe}",
    ]  # fmt: skip


def test_only_the_first_program_of_a_split_has_a_share() -> None:
    case = CASES["latency"]
    programs = dict(enumerate(build(case, "tiny")))
    celerity.configure(devices="cpu:1")
    try:
        runner = sharing_runners.OursTogether(
            programs, dict(enumerate(case.priorities)), ahead=True, submit="turns", share=0.5
        )
        runner.renew(list(programs))
        runner.start(list(programs), with_priorities=True)
        assert {n: queue.multiprocessors for n, queue in runner._by_priority.items()} == {0: 0.5, 1: None}
        for number, program in programs.items():
            program.check(runner.results(number), 1)
        runner.close()
    finally:
        celerity.configure(devices=None)


# ---- figures


def test_the_longest_program_is_that_of_its_fastest_way(capsys: pytest.CaptureFixture[str]) -> None:
    def starts(total: float, highest: float) -> dict[str, Any]:
        together = [{0: highest, 1: total, 2: total, 3: total}] * 5
        alone = {0: [0.010] * 5, 1: [0.012], 2: [0.011], 3: [total - 0.002]}
        return {"together": together, "alone": alone, "late": [1e-6], "rounds": 5}

    about = {"case": "MP-1", "megabytes": 8.0, "prefetch": "off"}
    found = {"priorities": starts(0.020, 0.011), "slices": starts(0.030, 0.025), "mps": starts(0.021, 0.020)}
    rows = sharing_table.rows_of_starts(about, found)
    assert rows[0]["longest"] == ["HITS", pytest.approx(18.0)]
    sharing_table.show(rows)
    printed = capsys.readouterr().out
    assert "over priorities" in printed
    assert all(ratio in printed for ratio in ("1.50", "1.05", "1.10"))


def test_throughput_is_what_both_do_in_parts_of_their_best() -> None:
    def loops(small: float, large: float, alone: float) -> dict[str, Any]:
        return {
            "rounds": 3,
            "spans": {0: [0.001] * 4, 1: [0.1]},
            "alone": {0: [0.001] * 4, 1: [0.1]},
            "rates": {0: [small] * 3, 1: [large] * 3},
            "rates_alone": {0: [1000.0] * 3, 1: [alone] * 3},
        }

    about = {"case": "latency", "megabytes": 8.0, "prefetch": "on"}
    found = {"priorities": loops(800, 90, 100), "mps": loops(500, 50, 90)}
    rows = sharing_table.rows_of_latency(about, found)
    assert [row["throughput"] for row in rows] == pytest.approx([1.7, 1.0])
    sharing_table.show(rows)


def test_progress_is_counted_by_second_with_the_longest_wait() -> None:
    about = {"case": "starvation", "megabytes": 8.0, "prefetch": "on"}
    ends = {0: [0.1], 1: [0.1], 2: [0.1], 3: [0.1, 0.2, 2.5, 2.6, 3.5]}
    found = {"priorities": {"seconds": 3.0, "rate_alone": 10.0, "ends": ends, "rates": dict.fromkeys(range(4), 1.0)}}
    rows = sharing_table.rows_of_progress(about, found)
    assert rows[0]["lowest_by_second"] == [2, 0, 2]
    assert rows[0]["longest_gap_ms"] == pytest.approx(2300)
    sharing_table.show(rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--backend", "cpu", "--ways", "mps"],
        ["--case", "MP-3"],
        ["--backend", "cpu", "--ways", "split"],
        ["--backend", "cpu", "--share", "1"],
        ["--size", "huge"],
        ["--size", "0"],
        ["--backend", "cpu", "--rounds", "1"],
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        sharing.options_of(arguments)
    assert refused.value.code == 2
    assert "error:" in capsys.readouterr().err
