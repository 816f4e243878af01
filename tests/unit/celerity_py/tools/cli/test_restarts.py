# SPDX-License-Identifier: MIT
"""`celerity-py run --restarts`: when it starts a program again, and what it leaves."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from celerity_py.tools.cli import bind_rank, restarts

COUNTED = "import os, sys; open('starts', 'a').write('x'); "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, and the one that stands for shared memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("celerity_py.io.memory_snapshots.SHARED_MEMORY", tmp_path)
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield tmp_path
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, handlers[number])


@pytest.mark.parametrize(
    ("text", "status", "starts"),
    [
        ("sys.exit(0)", 0, 1),
        ("sys.exit(3)", 3, 3),
        ("os.kill(os.getpid(), 9)", 137, 3),
        ("sys.exit(len(open('starts').read()) % 2)", 0, 2),
        ("os.kill(os.getppid(), 15); import time; time.sleep(60)", 143, 1),
    ],
)
def test_a_program_starts_again_unless_it_has_ended_well_or_was_ended(
    folder: Path, text: str, status: int, starts: int
) -> None:
    assert restarts.run_again((), [sys.executable, "-c", COUNTED + text], 2) == status
    assert len((folder / "starts").read_text()) == starts
    assert [path.name for path in folder.iterdir()] == ["starts"]


def test_each_rank_tells_its_run_how_it_has_ended(folder: Path) -> None:
    variables = {bind_rank.SNAPSHOTS: str(folder), "PMI_RANK": "2"}
    for status in (0, 3 << 8, signal.SIGSEGV):  # as of waitpid
        bind_rank.note_end(status, variables)
    assert (folder / "ends").read_text() == "rank 2 has ended with status 3\nrank 2 was killed by SIGSEGV\n"
    bind_rank.note_end(signal.SIGSEGV, {})
    bind_rank.note_end(signal.SIGSEGV, variables | {bind_rank.SNAPSHOTS: str(folder / "of another host")})


def test_the_snapshots_of_a_killed_run_are_removed_and_those_of_a_live_one_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live, killed, other = (folder / name for name in ("celerity_py_run_a", "celerity_py_run_b", "other"))
    for each in (live, killed, other):
        each.mkdir()
        (each / "step-1").touch()
    lock = os.open(live, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    restarts.run_again((), [sys.executable, "-c", "pass"], 1)
    os.close(lock)
    assert (live.exists(), killed.exists(), other.exists()) == (True, False, True)
    assert capsys.readouterr().err == f"celerity-py run: the snapshots of a killed run are removed: {killed}.\n"
