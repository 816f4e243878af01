# SPDX-License-Identifier: MIT
"""Dry runs as any rank, and the command that plans several of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ConfigurationError
from celerity_py.tools.cli.dry_run import _table
from celerity_py.vocabulary.tables import plain_text
from tests.failures.launching import Outcome, run

# Halos, a growing buffer, a reduction, contents by a function and by an array.
PROGRAM = """
import sys
import numpy as np
import celerity_py as celerity
from celerity_py import Box, access

def look(chunk, out, u):
    out[chunk.box] = u[chunk.box]

def remember(chunk, history):
    history.array[...] = 1

def add(chunk, u, total):
    total.combine(u[chunk.box].sum())

size = int(sys.argv[sys.argv.index("--size") + 1]) if "--size" in sys.argv else 64
with celerity.Queue() as queue:
    u = celerity.Buffer.from_function((size, size), np.float32, lambda box: np.ones(box.shape, np.float32))
    v = celerity.Buffer.from_array(np.zeros((size, size), np.float32))
    history, total = celerity.Buffer((8, size)), celerity.Buffer(1, np.float32)
    for step in range(8):
        queue.parallel_for(u.shape, look, v.write(access.one_to_one()), u.read(access.neighborhood(1, 1)))
        row = lambda chunk: Box((step, *chunk.box.min), (step + 1, *chunk.box.max))
        queue.parallel_for(size, remember, history.write(row))
        u, v = v, u
    queue.parallel_for(u.shape, add, u.read(access.one_to_one()), celerity.reduction(total, "sum"))
    queue.host_task(lambda part, u, total: None, u.read(access.all()), total.read(access.all()), on="master")
"""
SETTINGS = {"CELERITY_DEVICES": "cpu:2", "CELERITY_TRANSPORT": "host"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM)
    return path


def dry_run(*arguments: Any, **variables: str) -> Outcome:
    return run(None, sys.executable, "-m", "celerity_py", "dry-run", *map(str, arguments), variables=variables)


@pytest.mark.parametrize(("num_ranks", "lookahead"), [(1, "none"), (3, "none"), (1, "infinite"), (3, "infinite")])
def test_a_plan_has_the_figures_of_the_run_that_it_foresees(program: Path, num_ranks: int, lookahead: str) -> None:
    launched = None if num_ranks == 1 else num_ranks
    given = {"CELERITY_STATS": str(program.parent / "real"), "CELERITY_LOOKAHEAD": lookahead}
    outcome = run(launched, sys.executable, str(program), variables={**SETTINGS, **given})
    assert outcome.status == 0, outcome.errors
    outcome = dry_run(
        program,
        "--ranks",
        num_ranks,
        "--devices",
        2,
        "--all",
        "--json",
        CELERITY_LOOKAHEAD=lookahead,
        CELERITY_BACKEND="cpu",
    )
    assert outcome.status == 0, outcome.errors
    told = json.loads(outcome.output)
    assert (told["ranks"], told["devices"]) == (num_ranks, 2)
    for rank in range(num_ranks):
        name = "real.json" if num_ranks == 1 else f"real.{rank}.json"
        real = json.loads((program.parent / name).read_text())["executor"]
        planned = told["planned"][rank]
        assert planned["rank"] == rank
        assert planned["instructions"] == {kind: count for kind, count in real["instructions"].items() if count}
        assert sum(planned["copied_bytes"].values()) == sum(real["copied_bytes"].values())
        assert sum(planned["sent_bytes"].values()) == sum(real["sent_bytes"].values())
        assert planned["received_bytes"] == real["received_bytes"]
        assert (num_ranks == 1) == (planned["sent_bytes"] == {})
        peaks = [memory["peak_bytes"] for memory in real["memories"]]
        foreseen = [planned["peak_host_bytes"], *planned["peak_device_bytes"]]
        if lookahead == "infinite":  # nothing is allocated anew
            assert foreseen == peaks[1:]
        else:  # a run allocates and frees in another order than the plan
            assert all(peak / 2 < plan < 2 * peak for plan, peak in zip(foreseen, peaks[1:], strict=True))


def test_the_table_has_a_column_for_the_first_the_middle_and_the_last_rank(program: Path) -> None:
    outcome = dry_run(program, "--ranks", 9, "--devices", 4, "--size", 128)
    assert outcome.status == 0, outcome.errors
    title, heads, *rows = outcome.output.splitlines()
    assert title == f"{program}: planned ranks 0, 4, 8 of 9, with 4 device(s) each"
    assert heads.split("  ")[-1] == "rank 8"
    names = [row.split("  ")[0] or row.split("  ")[1] for row in rows]
    assert names[:4] == ["time of planning", "per task", "tasks", "instructions"]
    assert {"device_kernel", "send", "receive", "sent", "received", "peak of device 3"} <= set(names)
    sent = next(row for row in rows if row.startswith("sent to"))
    assert sent.split()[-3:] == ["1", "3", "2"], "the middle rank has two neighbours, and sends to the reader of all"


def test_many_ranks_are_shown_by_their_extremes() -> None:
    figures = [
        {
            "tasks": 10,
            "planning_s": 0.001 * (1 + rank),
            "instructions": {"send": rank},
            "copied_bytes": dict.fromkeys(
                ("on_host", "host_to_device", "device_to_host", "between_devices", "on_device"), 0
            ),
            "sent_bytes": {"1": 1024},
            "received_bytes": 7,
            "peak_host_bytes": 0,
            "peak_device_bytes": [1 << 20],
        }
        for rank in range(7)
    ]
    rows = [line.split() for line in plain_text([_table(range(10, 17), figures)]).splitlines()]
    assert rows[0] == ["least", "middle", "most", "most", "on"]
    assert ["time", "of", "planning", "1.0", "ms", "4.0", "ms", "7.0", "ms", "rank", "16"] in rows
    assert ["tasks", "10", "10", "10", "all"] in rows
    assert ["send", "0", "3", "6", "rank", "16"] in rows
    assert ["peak", "of", "device", "0", "1", "MiB", "1", "MiB", "1", "MiB", "all"] in rows
    assert not any(row[0] == "copied" for row in rows)


@pytest.mark.parametrize(
    ("source", "arguments", "complaint"),
    [
        ("import sys; sys.exit('no input')", (), "the program ends with status 1 on rank 0:\nno input\n"),
        ("print(1)", (), "app.py has made no queue on rank 0, so there is no plan."),
        (
            f"{PROGRAM}    import os; os._exit(3)",
            (),
            "status 3 on rank 0, so there is no plan. A program that leaves by os._exit",
        ),
        ("", ("--only", "1,4"), "--only names rank 4, but the ranks are 0 to 3."),
    ],
)
def test_a_program_without_a_plan_is_an_error(
    program: Path, source: str, arguments: tuple[str, ...], complaint: str
) -> None:
    program.write_text(source)
    outcome = dry_run(program, "--ranks", 4, *arguments)
    assert outcome.status == 1
    assert complaint in outcome.errors
    assert outcome.output == ""


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("sys.exit(3)", 3, ""),
        ("if not celerity.is_dry_run():\n    sys.exit(3)", 0, ""),
        ("assert total.name == 5, 'a wrong sum'", 1, "AssertionError: a wrong sum"),
        ("import os\nos.kill(os.getpid(), 15)", 143, ""),
    ],
)
def test_a_program_that_fails_after_its_work_has_a_plan_and_its_own_status(
    program: Path, end: str, status: int, told: str
) -> None:
    program.write_text(f"{PROGRAM}\n{end}\n")
    outcome = dry_run(program, "--ranks", 4, "--only", "1,2", "--size", 16)
    assert outcome.status == status
    assert "planned ranks 1, 2 of 4" in outcome.output
    assert "time of planning" in outcome.output
    assert told in outcome.errors
    failure = f"the program ends with status {status} on rank 1. The plan has all that it has submitted before."
    assert (failure in outcome.errors) == (status != 0)
    outcome = dry_run(program, "--ranks", 4, "--only", "1,2", "--size", 16, "--json")
    assert [planned["status"] for planned in json.loads(outcome.output)["planned"]] == [status, status]


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("raise ValueError('a wrong sum')", 1)])
def test_a_program_that_fails_inside_of_its_queue_has_a_plan(
    program: Path, end: str, status: int, num_ranks: int
) -> None:
    program.write_text(f"{PROGRAM}    {end}\n")
    outcome = dry_run(program, "--ranks", num_ranks, "--only", 0, "--size", 16)
    assert outcome.status == status
    assert f"planned ranks 0 of {num_ranks}" in outcome.output
    assert f"the program ends with status {status} on rank 0. The plan has all" in outcome.errors


def test_a_queue_that_an_exception_leaves_in_a_dry_run_gives_the_next_one_a_run_of_its_own(
    planned: celerity.Queue,
) -> None:
    def fail() -> None:
        with planned:
            planned.fill(celerity.Buffer((4,)), 1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with celerity.Queue() as queue:
        assert queue.statistics().num_submissions == 0


def test_the_warnings_of_the_first_planned_rank_are_told_once(program: Path) -> None:
    program.write_text(f"{PROGRAM}    for _ in range(3):\n        queue.fence(u)\n")
    outcome = dry_run(program, "--ranks", 4, "--only", "2,3", "--size", 16)
    assert outcome.status == 0, outcome.errors
    assert outcome.errors.count("returns zeros: nothing is computed in a dry run") == 1
    assert "planned ranks 2, 3 of 4" in outcome.output


def test_options_of_the_program_are_no_options_of_other_commands(program: Path) -> None:
    outcome = run(None, sys.executable, "-m", "celerity_py", "info", "--size", "3")
    assert outcome.status == 2
    assert "unrecognized arguments: --size 3" in outcome.errors


# ---- the setting


def test_a_dry_run_may_plan_as_any_rank() -> None:
    celerity.configure(dry_run_ranks=8, dry_run_rank=7, devices="cpu:2")
    try:
        assert (celerity.rank(), celerity.size(), celerity.is_master()) == (7, 8, False)
        with celerity.Queue() as queue:
            assert (celerity.rank(), celerity.size()) == (7, 8)
            u, v = celerity.Buffer(64), celerity.Buffer(64)
            queue.parallel_for(64, lambda chunk, x: None, u.write(access.one_to_one()))
            queue.parallel_for(64, lambda c, x, y: None, v.write(access.one_to_one()), u.read(access.neighborhood(1)))
            assert queue.fence(u, on="master").result(10) is None
            queue.wait()
            plan = queue.statistics().plan
        assert plan["sent_bytes"] == {0: 32, 6: 4}
        assert plan["instructions"]["device_kernel"] == 4
        assert [memory["peak_bytes"] > 0 for memory in plan["memories"][2:]] == [True, True]
    finally:
        celerity.configure(dry_run_ranks=None, dry_run_rank=None, devices=None)


@pytest.fixture
def planned() -> Iterator[celerity.Queue]:
    celerity.configure(dry_run_ranks=4, devices="cpu:2")
    try:
        assert celerity.is_dry_run()
        with celerity.Queue() as queue:
            yield queue
    finally:
        celerity.configure(dry_run_ranks=None, devices=None)


def test_a_run_that_has_failed_does_not_answer_for_the_next_one() -> None:
    def fail(chunk: Any) -> None:
        raise ValueError("on purpose")

    with pytest.raises(celerity.TaskFailed), celerity.Queue() as queue:
        queue.parallel_for(4, fail)
    celerity.configure(dry_run_ranks=4)
    assert celerity.is_dry_run()


def halve(chunk: Any, u: Any, largest: Any) -> None:
    raise AssertionError("nothing runs")


@pytest.mark.parametrize(
    ("value", "when", "stopped", "iterations"),
    [
        (0.5, lambda change: change < 0.1, False, 12),
        (0.0, lambda change: change < 0.1, True, 5),
        (False, None, False, 12),
    ],
)
def test_a_loop_goes_on_by_the_value_that_the_program_names_for_a_dry_run(
    planned: celerity.Queue, value: Any, when: Any, stopped: bool, iterations: int
) -> None:
    u, largest = celerity.Buffer.from_array(np.ones(8)), celerity.Buffer((), np.float64)
    loop = planned.until(lambda: planned.fence(largest), every=5, at_most=12, when=when, in_dry_run=value)
    for _ in loop:
        planned.parallel_for(8, halve, u.read_write(access.one_to_one()), celerity.reduction(largest, "max"))
    assert (loop.stopped, loop.iterations, loop.value) == (stopped, iterations, value)


def test_a_fence_returns_the_value_that_the_program_names_for_a_dry_run(planned: celerity.Queue) -> None:
    u = celerity.Buffer((4, 3), np.float32, name="u")
    points = celerity.Buffer(2, np.int32, element=(3,))
    assert (planned.fence(u, in_dry_run=2).result(10) == np.full((4, 3), 2, np.float32)).all()
    assert planned.fence(u, (slice(1, 2), slice(None)), in_dry_run=[1, 2, 3]).result(10).tolist() == [[1, 2, 3]]
    assert planned.fence(points, in_dry_run=7).result(10).shape == (2, 3)
    assert planned.fence(u, on="master", in_dry_run=1).result(10) is not None
    opened: celerity.HostObject[Any] = celerity.HostObject([0])
    assert planned.fence(opened, in_dry_run="done").result(10) == "done"
    assert planned.fence(opened).result(10) == [0]
    with pytest.warns(celerity.CelerityWarning, match=r"returns zeros: .* name some: queue.fence\(..., in_dry_run=1\)"):
        assert not planned.fence(u).result(10).any()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1j, r"fence of B1 \"u\" got in_dry_run=1j for \[0:4, 0:3\], whose elements are float32, which cannot hold it"),
        (np.ones(4), r"It takes one value of float32, or an array of shape \(4, 3\)"),
        ("many", "got in_dry_run='many'"),
    ],
)
def test_a_value_for_a_dry_run_that_the_buffer_cannot_hold_is_refused_in_any_run(value: Any, told: str) -> None:
    with celerity.Queue() as queue:
        assert not celerity.is_dry_run()
        u = celerity.Buffer.from_array(np.ones((4, 3), np.float32), name="u")
        with pytest.raises(celerity.UsageError, match=told):
            queue.fence(u, in_dry_run=value)
        assert queue.fence(u, in_dry_run=2).result(10).tolist() == np.ones((4, 3)).tolist()


def test_a_run_that_is_not_dry_has_no_plan() -> None:
    with celerity.Queue() as queue:
        assert queue.statistics().plan == {}


def test_a_rank_that_a_dry_run_lacks_is_refused() -> None:
    outcome = run(None, sys.executable, "-m", "celerity_py", "info", variables={"CELERITY_DRY_RUN_RANK": "3"})
    assert outcome.status == 1
    assert f"{ConfigurationError.__name__}: DRY_RUN_RANK=3, but DRY_RUN_RANKS=0." in outcome.output
