# SPDX-License-Identifier: MIT
"""`celerity-py graph`: the graphs of a program, planned for any number of ranks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.command_lines import command_line

# ---- graph

GRAPHED = """
import sys
import numpy as np
import celerity_py as celerity
from celerity_py import access

def step(chunk, after, before):
    raise AssertionError("a plan executes nothing")

with celerity.Queue() as queue:
    u, v = (celerity.Buffer.from_array(np.zeros((64, 8)), name=name) for name in "uv")
    for _ in range(int(sys.argv[sys.argv.index("--steps") + 1])):
        queue.parallel_for(u.shape, step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
        u, v = v, u
"""


@pytest.fixture
def graphed(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(GRAPHED)
    return tmp_path / "app.py"


def test_graph_writes_the_graphs_of_a_plan_for_several_ranks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    words = ("--ranks", "3", "--devices", "2", "--rank", "1", "--window=4:7", "-o", str(folder), "--steps", "9")
    outcome = command_line("graph", str(graphed), *words)
    assert outcome.status == 0, outcome.errors
    drawn = shutil.which("dot") is not None
    kinds = ("dot", "svg") if drawn else ("dot",)
    names = [f"{name}.{kind}" for name in ("commands", "instructions.1", "tasks") for kind in kinds]
    assert outcome.output.splitlines() == [str(folder / name) for name in names]
    tasks = (folder / "tasks.dot").read_text()
    assert re.findall(r'^ +"(T\d+)" \[', tasks, flags=re.MULTILINE) == ["T4", "T5", "T6"]
    commands = (folder / "commands.dot").read_text()
    assert all(f'"cluster_R{rank}"' in commands for rank in range(3))
    assert 'class="transfer"' in commands
    assert "from D0 to D1" in (folder / "instructions.1.dot").read_text()


def test_graph_draws_a_program_that_fails_at_its_end_and_ends_as_it_does(graphed: Path) -> None:
    graphed.write_text(f"{graphed.read_text()}\nsys.exit(3)\n")
    folder = graphed.parent / "graphs"
    outcome = command_line("graph", str(graphed), "-o", str(folder), "--steps", "3")
    assert outcome.status == 3
    assert str(folder / "tasks.dot") in outcome.output
    assert "the program ends with status 3 on rank 0." in outcome.errors


def test_graph_tells_of_a_window_without_tasks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    outcome = command_line("graph", str(graphed), "--window=99:", "-o", str(folder), "--steps", "9")
    assert outcome.status == 0, outcome.errors
    assert "PRINT_GRAPHS_WINDOW=99: shows no task of this run. Choose another window" in outcome.errors
    assert (folder / "tasks.dot").read_text().startswith('digraph "Tasks none in the window 99:"')


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graph_draws_the_pictures_that_a_folder_lacks(graphed: Path) -> None:
    folder = graphed.parent / "graphs"
    assert command_line("graph", str(graphed), "-o", str(folder), "--steps", "3").status == 0
    picture = folder / "tasks.svg"
    before = picture.read_text()
    picture.unlink()
    outcome = command_line("graph", str(folder))
    assert outcome.status == 0, outcome.errors
    assert outcome.output.splitlines() == [str(picture)]
    assert picture.read_text() == before
    outcome = command_line("graph", str(folder))
    assert (outcome.status, outcome.output) == (0, "")
    assert outcome.errors == f"All graphs in {folder} have their pictures.\n"


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"digraph {", "celerity-py graph: the graph broken/x.dot cannot be drawn: "),
        (b"\xff", "celerity-py graph: broken/x.dot is no text in UTF-8: "),
    ],
)
def test_a_text_that_cannot_be_drawn_is_named(
    content: bytes, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken").mkdir()
    Path("broken/x.dot").write_bytes(content)
    outcome = command_line("graph", "broken")
    assert outcome.status == 1
    assert outcome.errors.startswith(text)
    assert "Traceback" not in outcome.errors


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("app.py", "--window", "ten"), 2, "argument --window: expected tasks such as '10:40'"),
        (("app.py", "--rank", "2", "--ranks", "2"), 1, "--rank names rank 2, but the ranks are 0 to 1."),
        (("nowhere.py",), 1, "there is no file nowhere.py."),
        (("empty.py",), 1, "empty.py has made no queue on rank 0, so there are no graphs."),
        (("folder",), 1, "the folder folder has no graphs. CELERITY_PRINT_GRAPHS=folder lets a run write them."),
        (("folder", "--steps"), 1, "folder is a folder of graphs, and takes no option --steps."),
        (("app.py", "-o", "empty.py"), 1, "--output=empty.py: this is a file. Name a folder, such as empty_graphs."),
        (("folder", "-o", "other"), 1, "the pictures of folder go into this folder. Leave --output out."),
        (("app.py",), 1, "the program ends with status 1 on rank 0."),
    ],
)
def test_graph_says_what_it_cannot_do(
    words: tuple[str, ...], status: int, text: str, graphed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graphed.parent)
    Path("empty.py").touch()
    Path("folder").mkdir()
    outcome = command_line("graph", *words)
    assert outcome.status == status
    assert text in outcome.errors
