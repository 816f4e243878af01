# SPDX-License-Identifier: MIT
"""Names of files and folders at each moment of a replacement."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from celerity_py.formats import disk
from celerity_py.io import publishing
from celerity_py.io.publishing import Leftovers, Partial


class Killed(BaseException):
    """In the place of a signal: `publish` has nothing that it does at its end."""


def write(folder: Path, content: str) -> Path:
    folder.mkdir()
    for name in "ab":
        (folder / name).write_text(content)
    return folder


def read(folder: Path) -> set[str]:
    return {(folder / name).read_text() for name in "ab"}


def publish_until_line(partial: Partial, number: int) -> bool:
    """Whether it came to its end before that many lines of it had run."""
    left = number

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_name not in {"publish", "remove"}:
            return None
        if event == "line" and (left := left - 1) < 0:
            raise Killed
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        partial.publish(overwrite=True)
    except Killed:
        return False
    finally:
        sys.settrace(before)
    return True


def test_at_each_line_there_is_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    path = write(tmp_path / "u.zarr", "0")
    if not disk.exchange(write(tmp_path / "other", "0"), path):
        pytest.skip("this file system exchanges no names")
    found = []
    for attempt in range(1, 60):
        partial = Partial(path, attempt)
        write(partial.place, str(attempt))
        is_whole = publish_until_line(partial, attempt)
        (state,) = read(path)
        found.append(state == str(attempt))
        Leftovers().remove_of(path)
        assert not list(tmp_path.glob(".*"))
        if is_whole:
            break
    assert is_whole
    assert found == sorted(found)
    assert not found[0]
    assert found[-2]  # the old one is removed after that


def test_where_names_cannot_be_exchanged_folders_are_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "exchange", lambda *_: False)
    path = write(tmp_path / "u.zarr", "0")
    write(Partial(path, 1).place, "1")
    Partial(path, 1).publish(overwrite=True)
    assert read(path) == {"1"}
    assert [each.name for each in tmp_path.iterdir()] == ["u.zarr"]


def test_a_name_that_is_not_there_cannot_be_exchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        disk.exchange(tmp_path / "nothing", write(tmp_path / "u.zarr", "0"))


REPLACING = """
import sys
from itertools import count
from pathlib import Path
from celerity_py.io.publishing import Partial
path = Path(sys.argv[1])
for attempt in count(1):
    partial = Partial(path, attempt)
    partial.place.mkdir()
    for name in "ab":
        (partial.place / name).write_text(str(attempt))
    partial.publish(overwrite=True)
    print(attempt, flush=True)
"""


def test_a_killed_program_leaves_a_whole_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "u.zarr", "0")
    if not disk.exchange(write(tmp_path / "other", "0"), path):
        pytest.skip("this file system exchanges no names")
    for seed in range(5):
        for left in tmp_path.glob(".*"):
            publishing.remove(left)
        with subprocess.Popen([sys.executable, "-c", REPLACING, path], stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline()
            time.sleep(random.Random(seed).random() / 50)
            program.kill()
        assert len(read(path)) == 1
