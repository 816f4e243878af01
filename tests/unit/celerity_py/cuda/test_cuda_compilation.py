# SPDX-License-Identifier: MIT
"""Compiled kernels on disk: their keys, the process that compiles, and damaged files."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from celerity_py.cuda.compilation import (
    CompilationError,
    Compiled,
    Program,
    compile_cached,
    headers,
    is_cacheable,
    key_of,
)
from celerity_py.kept_kernels.kernel_folder import open_folder
from celerity_py.kept_kernels.results import cache_folder

PROGRAM = Program("__global__ void f(celerity::chunk<1> c) {}", "f")
IMAGE = bytes(range(256)) + b"\n\n"


class FakeCompiler:
    def __init__(self, delay_s: float = 0.0) -> None:
        self.calls: list[tuple[Program, str]] = []
        self.delay_s = delay_s

    def __call__(self, program: Program, architecture: str) -> Compiled:
        self.calls.append((program, architecture))
        time.sleep(self.delay_s)
        return Compiled(IMAGE, "_Z1f")


def compile_in(folder: Path, compiler: FakeCompiler, program: Program = PROGRAM, **settings: float) -> Compiled:
    return compile_cached(program, "90", "13.0", compiler=compiler, folder=folder, **settings)


def test_a_program_is_compiled_once(tmp_path: Path) -> None:
    compiler = FakeCompiler()
    for _ in range(3):
        assert compile_in(tmp_path / "deep" / "folder", compiler) == Compiled(IMAGE, "_Z1f")
    assert compiler.calls == [(PROGRAM, "90")]


def test_a_result_depends_on_everything_that_went_into_it() -> None:
    keys = {
        key_of(PROGRAM, "90", "13.0"),
        key_of(PROGRAM, "100", "13.0"),
        key_of(PROGRAM, "90", "13.1"),
        key_of(replace(PROGRAM, source=PROGRAM.source + " "), "90", "13.0"),
        key_of(replace(PROGRAM, name="g"), "90", "13.0"),
        key_of(replace(PROGRAM, options=("-DA",)), "90", "13.0"),
        key_of(replace(PROGRAM, options=("-DA", "-DB")), "90", "13.0"),
        key_of(replace(PROGRAM, checks=("static_assert(true);",)), "90", "13.0"),
    }
    assert len(keys) == 8


def test_a_result_depends_on_the_device_header(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(PROGRAM, "90", "13.0")
    monkeypatch.setattr("celerity_py.cuda.compilation.headers", lambda: headers() | {b"celerity_random.cuh": b" "})
    assert key_of(PROGRAM, "90", "13.0") != before


@pytest.mark.parametrize(
    "damage",
    [
        lambda contents: b"",
        lambda contents: contents[:-1],
        lambda contents: contents + b"x",
        lambda contents: contents[:40] + b"0" + contents[41:],
        lambda contents: b"something else",
    ],
)
def test_a_damaged_file_is_written_anew(tmp_path: Path, damage: object) -> None:
    compiler = FakeCompiler()
    compile_in(tmp_path, compiler)
    (path,) = tmp_path.glob("*.kernel")
    intact = path.read_bytes()
    path.write_bytes(damage(intact))  # type: ignore[operator]
    assert compile_in(tmp_path, compiler) == Compiled(IMAGE, "_Z1f")
    assert len(compiler.calls) == 2
    assert path.read_bytes() == intact


def test_nothing_is_left_behind_but_results_and_the_lock(tmp_path: Path) -> None:
    compile_in(tmp_path, FakeCompiler())
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".kernel", ".lock"]


def test_a_failed_compilation_is_not_remembered(tmp_path: Path) -> None:
    def fail(program: Program, architecture: str) -> Compiled:
        raise CompilationError("f.cu(1): error: no")

    with pytest.raises(CompilationError, match="error: no"):
        compile_cached(PROGRAM, "90", "13.0", compiler=fail, folder=tmp_path)
    compiler = FakeCompiler()
    compile_in(tmp_path, compiler)
    assert len(compiler.calls) == 1


def test_of_several_threads_one_compiles(tmp_path: Path) -> None:
    compiler = FakeCompiler(delay_s=0.2)
    threads = [threading.Thread(target=compile_in, args=(tmp_path, compiler)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.calls) == 1


def _compile_and_note(folder: Path, name: str) -> None:
    def compiler(program: Program, architecture: str) -> Compiled:
        (folder / f"{name}.compiled").touch()
        time.sleep(0.3)
        return Compiled(IMAGE, "_Z1f")

    compile_cached(PROGRAM, "90", "13.0", compiler=compiler, folder=folder)


def test_of_several_processes_one_compiles(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_compile_and_note, args=(tmp_path, f"p{n}")) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(list(tmp_path.glob("*.compiled"))) == 1


def test_who_waits_too_long_for_the_lock_compiles(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lock = tmp_path / f"{socket.gethostname()}.lock"
    compiler = FakeCompiler()
    with lock.open("ab") as file, caplog.at_level(logging.WARNING):
        fcntl.flock(file, fcntl.LOCK_EX)
        assert compile_in(tmp_path, compiler, lock_timeout_s=0.05) == Compiled(IMAGE, "_Z1f")
    assert len(compiler.calls) == 1
    assert "has been holding" in caplog.text


def test_where_nothing_can_be_written_every_process_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    compiler = FakeCompiler()
    for _ in range(2):
        assert compile_in(tmp_path / "file" / "folder", compiler) == Compiled(IMAGE, "_Z1f")
    assert len(compiler.calls) == 2


def test_programs_with_headers_of_their_own_are_compiled_every_time(tmp_path: Path) -> None:
    compiler = FakeCompiler()
    program = Program('#include <cuda_fp16.h>\n  # include "mine.h"\n', "f")
    for _ in range(2):
        compile_in(tmp_path, compiler, program)
    assert len(compiler.calls) == 2
    assert not is_cacheable(program)
    assert is_cacheable(Program("#include <cuda_fp16.h>\n", "f"))


def test_the_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "celerity_py" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "celerity_py" / "kernels"


def test_the_compiler_counts_the_lines_of_the_user_only() -> None:
    lines = Program("first\nsecond", "inner::f", (), ("static_assert(true);",)).text.splitlines()
    assert lines[:2] == ['#include "celerity_device.cuh"', '#include "celerity_operations.cuh"']
    assert lines[lines.index("first") - 1] == '#line 1 "f.cu"'
    assert lines[-1] == "static_assert(true);"


def prune(folder: Path, most_bytes: int) -> None:
    with open_folder(folder) as kept:
        assert kept is not None
        kept.prune(most_bytes)


def age(path: Path, days: float) -> None:
    then = time.time() - 86400 * days
    os.utime(path, (then, then))


def test_what_was_not_used_for_longest_is_removed_first(tmp_path: Path) -> None:
    for days in range(10):
        path = tmp_path / f"{days}.kernel"
        path.write_bytes(bytes(100))
        age(path, days)
    prune(tmp_path, 1000)
    assert len(list(tmp_path.iterdir())) == 10
    prune(tmp_path, 999)
    assert {path.stem for path in tmp_path.iterdir()} == {str(days) for days in range(7)}


def test_a_result_that_is_read_counts_as_used(tmp_path: Path) -> None:
    compile_in(tmp_path, FakeCompiler())
    (path,) = tmp_path.glob("*.kernel")
    for days, is_noted in ((0.5, False), (3.0, True)):
        age(path, days)
        before = path.stat().st_mtime
        compile_in(tmp_path, FakeCompiler())
        assert (path.stat().st_mtime > before) == is_noted


def test_what_a_process_left_that_died_is_removed(tmp_path: Path) -> None:
    for name, days in (("0123456789abcdefold", 2), ("0123456789abcdefnew", 0.1), ("host.lock", 2), ("a.kernel", 400)):
        (tmp_path / name).write_bytes(b"x")
        age(tmp_path / name, days)
    compile_in(tmp_path, FakeCompiler())
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(key_of(PROGRAM, "90", "13.0"))}
    assert left == {"0123456789abcdefnew", "host.lock", "a.kernel", f"{socket.gethostname()}.lock"}
