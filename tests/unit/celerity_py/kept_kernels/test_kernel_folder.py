# SPDX-License-Identifier: MIT
"""Compiled kernels are taken only from where nobody else can have put them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from celerity_py.cuda.compilation import Compiled, Program, compile_cached
from celerity_py.kept_kernels import kernel_folder
from celerity_py.kept_kernels.kernel_folder import open_folder

OURS, THEIRS = Compiled(b"ours", "_Z1f"), Compiled(b"theirs", "_Z1f")
PROGRAM = Program("__global__ void f(celerity::chunk<1> c) {}", "f")
OTHER = Program("__global__ void g(celerity::chunk<1> c) {}", "g")


@pytest.fixture(autouse=True)
def _nothing_warned() -> None:
    kernel_folder._warned.clear()


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def compile_in(folder: Path, result: Compiled = OURS, program: Program = PROGRAM) -> Compiled:
    return compile_cached(program, "90", "13.0", compiler=lambda *_: result, folder=folder)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def is_used(folder: Path) -> bool:
    """Whether a result is kept there, and taken from there."""
    return compile_in(folder) == compile_in(folder, THEIRS) == OURS


@pytest.mark.usefixtures("umask")
def test_new_folders_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "celerity_py" / "kernels"
    assert is_used(folder)
    assert {mode_of(path) for path in (folder, folder.parent, folder.parent.parent)} == {0o700}
    assert {mode_of(path) for path in folder.iterdir()} == {0o600}


def test_a_folder_that_others_can_only_read_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(0o755)
    assert is_used(folder)
    assert mode_of(folder) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o770])
def test_a_folder_that_others_can_write_is_neither_read_nor_written(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "kernels"
    compile_in(folder, THEIRS)
    folder.chmod(mode)
    before = sorted(folder.iterdir())
    for _ in range(2):
        assert compile_in(folder) == OURS
    assert sorted(folder.iterdir()) == before
    assert mode_of(folder) == mode
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(folder) in record.message
    assert f"can be written by others (mode {mode:04o})" in record.message
    assert "chmod 700" in record.message


def test_a_folder_of_somebody_else_is_neither_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compile_in(tmp_path, THEIRS)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert compile_in(tmp_path) == OURS
    assert f"belongs to user {tmp_path.stat().st_uid}" in caplog.text


def test_a_folder_that_is_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compile_in(tmp_path / "elsewhere", THEIRS)
    (tmp_path / "kernels").symlink_to(tmp_path / "elsewhere")
    assert compile_in(tmp_path / "kernels") == OURS
    assert "symbolic link" in caplog.text
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert compile_in(tmp_path / "dangling") == OURS
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_below_a_symbolic_link_is_used(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "scratch")
    assert is_used(tmp_path / "cache" / "kernels")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_taken_but_replaced(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    compile_in(tmp_path, THEIRS)
    (path,) = tmp_path.glob("*.kernel")
    path.chmod(mode)
    assert compile_in(tmp_path) == OURS
    assert "can be written by others" in caplog.text
    assert mode_of(path) == 0o600
    assert compile_in(tmp_path, THEIRS) == OURS


def test_a_file_that_is_a_symbolic_link_is_not_taken_but_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compile_in(tmp_path / "a", THEIRS)
    (path,) = (tmp_path / "a").glob("*.kernel")
    stolen = path.rename(tmp_path / "stolen")
    path.symlink_to(stolen)
    content = stolen.read_bytes()
    assert compile_in(tmp_path / "a") == OURS
    assert "no plain file" in caplog.text
    assert stolen.read_bytes() == content, "the link must not be written through"
    assert not path.is_symlink()


def test_a_fifo_in_the_place_of_a_file_blocks_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compile_in(tmp_path)
    (path,) = tmp_path.glob("*.kernel")
    path.unlink()
    os.mkfifo(path, 0o600)
    assert compile_in(tmp_path) == OURS
    assert "no plain file" in caplog.text


def test_the_result_of_another_program_is_not_taken_for_this_one(tmp_path: Path) -> None:
    compile_in(tmp_path, THEIRS, OTHER)
    (path,) = tmp_path.glob("*.kernel")
    compile_in(tmp_path / "names")
    (name,) = (tmp_path / "names").glob("*.kernel")
    path.rename(tmp_path / name.name)
    assert compile_in(tmp_path) == OURS


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    folder = tmp_path / "kernels"
    folder.mkdir(0o700)
    with open_folder(folder) as kept:
        assert kept is not None
        (folder / "host.lock").symlink_to(victim)
        with kept.locked("host.lock", 1.0):
            assert not victim.exists()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert compile_in(tmp_path / "kernels") == OURS
    assert [path.suffix for path in (tmp_path / "kernels").iterdir()] == [".lock"]
