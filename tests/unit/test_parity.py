# SPDX-License-Identifier: MIT
"""The comparison with Celerity: each of its features has an answer, and each test that an answer names exists."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATES = {"works", "differs", "not for us"}
#: Folder of tests that `make test` does not run -> what runs them.
RUN_ELSEWHERE = {"gpu": "make gpu", "slurm": "make slurm-test"}
#: Arguments: the file for the results, and those of pytest.
_COLLECT = """
import json, sys
from pathlib import Path
import pytest

class Recorder:
    def __init__(self):
        self.cases = []

    def pytest_deselected(self, items):
        self.keep(items, "deselected")

    def pytest_collection_finish(self, session):
        self.keep(session.items, "")

    def keep(self, items, reason):
        for item in items:
            skips = [mark.kwargs.get("reason", "skip") for mark in item.iter_markers("skip")]
            skips += [mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif") if any(mark.args)]
            self.cases.append([str(item.path), item.originalname, reason or next(iter(skips), "")])

recorder = Recorder()
status = pytest.main(sys.argv[2:], plugins=[recorder])
Path(sys.argv[1]).write_text(json.dumps(recorder.cases))
sys.exit(status)
"""


def _rows() -> list[tuple[int, str, str, str]]:
    """Number, feature, state and answer of each row."""
    text = (ROOT / "docs" / "parity.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    return [(int(number), feature, state, answer) for number, feature, state, answer in rows]


def _named_in(answer: str) -> list[tuple[str, str]]:
    """File, relative to `tests`, and name of each test that an answer names."""
    return re.findall(r"`([\w/]+\.(?:py|cpp))::(\w+)`", answer)


def _named() -> list[tuple[int, str, str]]:
    """Row, file and name of each test that an answer names."""
    return [(number, file, name) for number, *_, answer in _rows() for file, name in _named_in(answer)]


@functools.cache
def _collected() -> dict[str, dict[str, list[str]]]:
    """File -> test -> why pytest skips each of its cases here, "" if it does not. Other processes import the files."""
    files = sorted({file for _, file, _ in _named() if file.endswith(".py")})
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        paths = [str(ROOT / "tests" / file) for file in files]
        command = [sys.executable, "-c", _COLLECT, str(found), "--collect-only", "-q", "-p", "no:cacheprovider", *paths]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        cases: list[list[str]] = json.loads(found.read_text())
    tests: dict[str, dict[str, list[str]]] = {file: {} for file in files}
    for path, name, reason in cases:
        tests[Path(path).relative_to(ROOT / "tests").as_posix()].setdefault(name, []).append(reason)
    return tests


def _checks_in(path: Path) -> set[str]:
    """The checks of a native test that are defined and called."""
    text = path.read_text()
    defined = re.findall(r"^void (check_\w+)\(", text, flags=re.MULTILINE)
    return {name for name in defined if len(re.findall(rf"\b{name}\(", text)) > 1}


def _exists(file: str, name: str) -> bool:
    if file.endswith(".cpp"):
        return name in _checks_in(ROOT / "tests" / file)
    return name in _collected()[file]


def _reason_not_to_run(file: str, name: str) -> str:
    """Why no case of a test runs in `make test` on this host; empty if one does."""
    target = RUN_ELSEWHERE.get(file.split("/", maxsplit=1)[0])
    if target is not None:
        return f"runs in `{target}`"
    # MPI tests run under mpiexec, where the plugin does not skip them.
    reasons = [] if file.startswith(("mpi/", "native/")) else _collected()[file].get(name, [])
    return reasons[0] if reasons and all(reasons) else ""


def test_each_feature_has_one_answer_and_none_is_open() -> None:
    rows = _rows()
    assert [number for number, *_ in rows] == list(range(1, 101))
    assert {state for _, _, state, _ in rows} <= STATES


@pytest.mark.parametrize(("number", "feature", "state", "answer"), _rows())
def test_an_answer_names_tests_that_exist(number: int, feature: str, state: str, answer: str) -> None:
    named = _named_in(answer)
    assert [f"{file}::{name}" for file, name in named if not _exists(file, name)] == [], f"row {number}, {feature}"
    assert named or state != "works", f"row {number}, {feature}, names no test"
    assert answer.count("::") == len(named), f"row {number}, {feature}, names a test in another form"


def test_each_named_test_has_cases() -> None:
    """A list of parameters may be empty, so that pytest finds the test and runs nothing of it."""
    empty = "got empty parameter set"
    named = [(row, file, name) for row, file, name in _named() if file.endswith(".py")]
    assert [
        entry for entry in named if any(empty in reason for reason in _collected()[entry[1]].get(entry[2], []))
    ] == []


def test_each_row_with_a_test_names_one_that_needs_neither_gpus_nor_slurm() -> None:
    rows: dict[int, set[str]] = {}
    for row, file, _ in _named():
        rows.setdefault(row, set()).add(file.split("/", maxsplit=1)[0])
    assert [row for row, folders in rows.items() if folders <= RUN_ELSEWHERE.keys()] == []


def test_what_does_not_run_here_is_told() -> None:
    """It ends as skipped, with the list as its reason, unless all named tests run in `make test` on this host."""
    named = _named()
    reasons = {(row, file, name): _reason_not_to_run(file, name) for row, file, name in named}
    left_out = [f"row {row} {file}::{name} ({reason})" for (row, file, name), reason in reasons.items() if reason]
    proven = {row for (row, *_), reason in reasons.items() if not reason}
    unproven = sorted({row for row, *_ in named} - proven)
    if left_out:
        pytest.skip(
            f"{len(left_out)} of {len(named)} tests that docs/parity.md names do not run in `make test` on this host; "
            f"rows without any other test: {', '.join(map(str, unproven)) or 'none'}. {'; '.join(left_out)}"
        )
