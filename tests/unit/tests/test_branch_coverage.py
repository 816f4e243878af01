# SPDX-License-Identifier: MIT
"""The program behind `make coverage`, on a small program that gcov counts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.property import branch_coverage

COMPILER = shutil.which(os.environ.get("CXX", "c++"))
SOURCE = """
struct entry { ~entry() {} };
int choose(int given) {
	entry local;
	if(given > 1) return 1;
	return given > 0 ? 2 : 3;
}
int main(int count, char**) { return choose(count) != 2; }
"""

pytestmark = pytest.mark.skipif(
    COMPILER is None or shutil.which("gcov") is None or "clang" in COMPILER, reason="there is no GCC with gcov"
)


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, branch_coverage.Counts]:
    """Of a source that a program without arguments has run."""
    source = tmp_path / "scheduler/core/graphs/task_graph.cpp"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE)
    assert COMPILER is not None
    subprocess.run([COMPILER, "--coverage", "-O0", source, "-o", tmp_path / "program"], check=True, cwd=tmp_path)
    subprocess.run([tmp_path / "program"], check=True, cwd=tmp_path)
    monkeypatch.setattr(branch_coverage, "ROOT", tmp_path)
    monkeypatch.setattr(branch_coverage, "GENERATORS", ("task_graph.cpp",))
    return branch_coverage.read(tmp_path)


def test_the_sides_of_conditions_count_and_nothing_else(
    counts: dict[Path, branch_coverage.Counts], capsys: pytest.CaptureFixture[str]
) -> None:
    ((path, found),) = counts.items()
    branches = branch_coverage.branches_of(path, found)
    assert sorted((place.split(":")[1], count) for place, count in branches) == [("5", 0), ("5", 1), ("6", 0), ("6", 1)]
    assert branch_coverage.generators(counts) == 1
    shown = capsys.readouterr().out
    assert "2 of     4 branches" in shown
    assert "never: task_graph.cpp:5: if(given > 1) return 1;" in shown


def test_a_room_has_its_lines(counts: dict[Path, branch_coverage.Counts], capsys: pytest.CaptureFixture[str]) -> None:
    assert branch_coverage.rooms(counts) == 0
    assert capsys.readouterr().out.startswith("scheduler/core/graphs")


def test_a_generator_without_counts_is_told(
    counts: dict[Path, branch_coverage.Counts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_coverage, "GENERATORS", ("task_graph.cpp", "moved.cpp"))
    with pytest.raises(SystemExit, match=r"no counts of moved\.cpp"):
        branch_coverage.generators(counts)


def test_a_build_that_has_run_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has written counts"):
        branch_coverage.read(tmp_path)
