# SPDX-License-Identifier: MIT
"""The DAG suite on a CPU device, small: its figures and conclusions, and its way with failures."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from cluster_jobs.benchmarks.dags import dag_lines, dag_measure, dag_suite, dag_table
from cluster_jobs.benchmarks.dags.dag_measure import Ours, Pace, Replayed
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES, build, joined

ROOT = Path(__file__).parents[2]
TIME_LIMIT_S = 240


def _suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    command = [sys.executable, "-m", "cluster_jobs.benchmarks.dags.dag_suite", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )


def test_ours_is_checked_and_timed_in_each_regime_and_all_of_it_is_written(tmp_path: Path) -> None:
    output = tmp_path / "dags.json"
    result = _suite(
        "--backend", "cpu", "--programs", "VEC,HITS", "--regimes", "R1,R3", "--rounds", "5", "--scale", "1e-4",
        "--seconds", "60", "--output", str(output),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    figures = json.loads(output.read_text())
    assert figures["problems"] == []
    assert [(row["program"], row["regime"]) for row in figures["rows"]] == [
        (program, regime) for program in ("VEC", "HITS") for regime in ("R1", "R3")
    ]
    for row in figures["rows"]:
        ours = row["variants"]["d"]
        assert ours["alone"]["number"] >= 5
        assert (ours["in_a_row"] is None) == (row["regime"] != "R1")
        assert 0 < ours["alone"]["p10"] <= ours["alone"]["p50"] <= ours["alone"]["p90"]
        assert ours["submit_us_per_kernel"] > 0
    assert figures["rows"][2]["least_waits"] == 18
    assert figures["counted"].keys() == {"VEC", "HITS"}
    assert "HITS R3: d " in result.stdout


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("variant", [Ours, Replayed])
def test_ours_computes_what_numpy_computes_in_each_regime(name: str, regime: str, variant: type[Ours]) -> None:
    kind = REGIMES[regime]
    celerity.configure(backend="cpu", devices="cpu:1")  # CHECK would cut kernels in two that need one device
    try:
        with celerity.Queue() as queue:
            program = joined(name, build(name, kind, scale=1e-5))
            ours = variant(program, queue, from_host=kind.from_host)
            first = dag_measure.first_results(ours, program, from_host=kind.from_host)
            dag_measure.check_again(ours, first, from_host=kind.from_host)
    finally:
        celerity.configure(backend=None, devices=None)


@pytest.mark.parametrize("regime", ["R3", "R4"])
@pytest.mark.parametrize("name", ALL)
def test_a_replay_that_writes_nothing_is_found(name: str, regime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celerity.Queue, "replay", lambda queue, recording, times: None)
    kind = REGIMES[regime]
    celerity.configure(backend="cpu", devices="cpu:1")
    try:
        with celerity.Queue() as queue:
            program = joined(name, build(name, kind, scale=1e-4))
            replayed = Replayed(program, queue, from_host=kind.from_host)
            with pytest.raises(AssertionError, match=name.split("+", maxsplit=1)[0]):
                dag_measure.first_results(replayed, program, from_host=kind.from_host)
    finally:
        celerity.configure(backend=None, devices=None)


@pytest.mark.parametrize("name", ALL)
def test_from_the_host_ours_copies_what_the_hand_written_programs_copy(name: str) -> None:
    celerity.configure(backend="cpu", devices="cpu:1")
    try:
        with celerity.Queue() as queue:
            program = joined(name, build(name, REGIMES["R3"], scale=1e-4))
            ours = Ours(program, queue, from_host=True)
            ours.reset()
            copied = []
            for _ in range(3):
                dag_measure.run_alone(ours)
                copied.append(dict(queue.statistics().executor["copied_bytes"]))
    finally:
        celerity.configure(backend=None, devices=None)
    moved = {reason: copied[2][reason] - copied[1][reason] for reason in copied[2]}
    dirty = sum(program.buffers[buffer].nbytes for buffer in program.dirty)
    read = sum(program.buffers[buffer].itemsize for buffer in program.read_back)
    assert moved["coherence"] == dirty
    assert sum(moved.values()) == dirty + read


class Counting(dag_measure.Variant):
    """A variant that does nothing, and notes in what order it is asked."""

    def __init__(self, name: str, log: list[str], fails_after: int = 10**9) -> None:
        self.name = name
        self.log = log
        self.left = fails_after

    def prepare(self) -> None: ...

    def submit(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ValueError("out of order")

    def finish(self) -> None:
        self.log.append(self.name)

    def submit_alone(self) -> None: ...

    def finish_alone(self) -> None: ...

    def reset(self) -> None: ...

    def results(self) -> dict[str, Any]:
        return {"x": np.arange(3.0)}

    def read(self) -> dict[str, Any]:
        return {}


def test_variants_take_turns_and_one_that_fails_does_not_stop_the_others() -> None:
    log: list[str] = []
    variants = [Counting("a", log), Counting("b", log), Counting("c", log, fails_after=9)]
    samples, problems = dag_measure.measure(variants, Pace(2, 3), 6, until=float("inf"))
    rounds = 6 + dag_measure.WARM_UP_ROUNDS
    assert log.count("a") == log.count("b") == rounds
    assert "".join(log[:6]) == "abcbca", "each round begins with another one"
    assert problems == {"c": "ValueError: out of order"}
    assert len(samples["a"].in_a_row) == 6
    assert len(samples["a"].alone) == 18
    assert len(samples["c"].in_a_row) < 6


def test_no_more_rounds_begin_when_time_is_up_but_for_the_fewest() -> None:
    samples, _ = dag_measure.measure([Counting("a", [])], Pace(1, 1), 1000, until=0)
    assert len(samples["a"].in_a_row) == dag_measure.FEWEST_ROUNDS


def test_results_that_change_while_it_is_timed_are_found() -> None:
    variant = Counting("a", [])
    dag_measure.check_again(variant, {"x": np.arange(3.0)}, from_host=False)
    with pytest.raises(AssertionError, match="x is not what it was"):
        dag_measure.check_again(variant, {"x": np.array([0.0, 1.0, 2.5])}, from_host=False)


def _row(program: str, regime: str, times: dict[str, float], waits: int = 1) -> dict[str, Any]:
    def figures(us: float) -> dict[str, Any]:
        spread = {"p50": us, "p10": us, "p90": us, "number": 5}
        return {"alone": spread, "in_a_row": spread if regime != "R3" else None, "submit_us_per_kernel": 1.0}

    variants = {name: figures(us) for name, us in times.items()}
    if "d" in variants:
        variants["d"]["waits"] = waits
    structure = {"kernels": 3, "edges": 2, "width": 2, "least_waits": 1}
    return {"program": program, "regime": regime, "variants": variants, "problems": {}, **structure}


def test_means_are_geometric_over_the_six_and_with_the_mixtures() -> None:
    rows = [
        _row("VEC", "R1", {"a0": 40, "a1": 20, "b": 10, "c": 20, "d": 10}),
        _row("DL", "R1", {"a0": 10, "a1": 10, "b": 5, "d": 10}),
        _row("VEC+IMG+DL", "R1", {"a0": 80, "d": 10}),
        _row("VEC", "R3", {"a0": 20, "d": 10}, waits=2),
    ]
    summary = dag_table.summarize(rows)
    means = {(mean["regime"], mean["way"], mean["ratio"]): mean for mean in summary["means"]}
    over_a0 = means["R1", "alone", "d over a0"]
    assert over_a0["six"] == pytest.approx(2.0)
    assert over_a0["all"] == pytest.approx((4 * 1 * 8) ** (1 / 3))
    assert means["R1", "in_a_row", "d over b"]["least"] == pytest.approx(0.5)
    assert means["R1", "alone", "c over b"]["six"] == pytest.approx(0.5)
    assert ("R3", "in_a_row", "d over a0") not in means
    aims = {aim["what"]: aim for aim in summary["aims"]}
    assert aims["d over a0, geometric mean of R1 and R3"]["alone"] == pytest.approx((4 * 1 * 2) ** (1 / 3))
    assert aims["d over b, least of R1, R2 and R3"]["alone"] == pytest.approx(0.5)
    assert aims["programs of the six with the fewest waits"] == {
        "what": "programs of the six with the fewest waits", "aim": 2, "alone": 1,
    }  # fmt: skip


def test_tables_show_what_is_there_and_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [_row("VEC", "R1", {"a0": 40, "d": 10}), _row("VEC", "R3", {"d": 10})]
    rows[1]["problems"] = {"b": "RuntimeError: no"}
    rows.append({"program": "VEC", "regime": "R4", "variants": {}, "problems": {"all": "MemoryError: none"}})
    dag_table.show_program(rows)
    dag_table.show_all(rows, dag_table.summarize(rows))
    printed = capsys.readouterr().out
    assert "4.00" in printed
    assert "failed" in printed
    assert dag_table.line_of(rows[1]).endswith("b FAILED µs by itself/in a row")


def test_lines_and_tokens_are_counted_without_layout_comments_and_accesses() -> None:
    source = 'def f(x):\n    """Say it."""\n\n    # why\n    y = (1,\n         2)\n    return x(y)  # so\n'
    assert dag_lines.size_of(source) == {"lines": 4, "tokens": 18}
    assert dag_lines.size_of_cuda("// no\n    a[i] += 2.5f * b; // yes\n") == {"lines": 1, "tokens": 9}
    row = dag_lines.count("VEC")
    assert row["accesses"] == 18, "four calls, and the mapper of one"
    assert row["by_hand"]["tokens"] == row["ours"]["tokens"] - 18 + row["schedule"]["tokens"]
    assert (row["calls"], row["calls_by_hand"]) == (4, 2 + 2 + 3 + 1 + 2 + 1 + 1)


def _options(**changed: Any) -> argparse.Namespace:
    return argparse.Namespace(**{
        "programs": ["VEC", "DL"], "orders": ["age"], "regimes": ["R1"], "variants": ["d"],
        "rounds": 5, "seconds": 60.0, "scale": 1e-4,
        "backend": "cpu", "output": None, **changed,
    })  # fmt: skip


def test_a_program_that_dies_leaves_what_it_had_and_does_not_stop_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = _row("VEC", "R1", {"d": 10})

    def command(name: str, options: argparse.Namespace, seconds: float, output: Path) -> list[str]:
        left = json.dumps({"counted": {}, "rows": [row], "problems": []})
        script = f"import os; open({str(output)!r}, 'w').write({left!r})" if name == "VEC" else "import os"
        return [sys.executable, "-c", f"{script}; os.abort()"]

    monkeypatch.setattr(dag_suite, "_command", command)
    output = tmp_path / "dags.json"
    figures = dag_suite.run_all(_options(output=output))
    assert figures["rows"] == [row]
    assert [problem.split(" ")[0] for problem in figures["problems"]] == ["VEC:", "DL:", "DL:"]
    assert all("ended with -6" in problem for problem in figures["problems"][:2])
    assert figures["problems"][2] == "DL: left no figures of R1"
    assert json.loads(output.read_text())["rows"] == [row]


def test_each_order_of_equal_kernels_has_a_process_that_is_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(name: str, options: argparse.Namespace, seconds: float, output: Path) -> list[str]:
        row = json.dumps(_row(name, "R1", {"d": 10}))
        script = f"""import json, os
row = json.loads({row!r}) | {{"order": os.environ["CELERITY_KERNEL_ORDER"]}}
json.dump({{"counted": {{}}, "rows": [row], "problems": []}}, open({str(output)!r}, "w"))"""
        return [sys.executable, "-c", script]

    monkeypatch.setattr(dag_suite, "_command", command)
    figures = dag_suite.run_all(_options(programs=["VEC"], orders=["age", "path"]))
    assert figures["problems"] == []
    assert [(row["program"], row["order"]) for row in figures["rows"]] == [("VEC", "age"), ("VEC, path", "path")]
    dag_table.show_all(figures["rows"], figures["summary"])


def test_a_variant_that_fails_its_check_is_a_problem_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def variants(*_: Any) -> Any:
        return [Counting("a1", []), Counting("b", [], fails_after=0)], {"c": "MemoryError: none"}

    monkeypatch.setattr(dag_suite, "_make_variants", variants)
    monkeypatch.setattr(dag_measure, "first_results", lambda variant, *_, from_host: variant.submit())
    monkeypatch.setattr(dag_measure, "check_again", lambda *_, from_host: None)
    row = dag_suite.measure_regime("VEC", REGIMES["R4"], None, _options(), until=float("inf"))  # type: ignore[arg-type]
    assert row["problems"] == {"c": "MemoryError: none", "b": "ValueError: out of order"}
    assert row["variants"].keys() == {"a1"}


@pytest.mark.parametrize(
    "arguments",
    [["--backend", "cpu", "--variants", "b"], ["--programs", "NOPE"], ["--backend", "cpu", "--rounds", "1"]],
)
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        dag_suite.main(arguments)
    assert refused.value.code == 2
    assert "error:" in capsys.readouterr().err
