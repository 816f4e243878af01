# SPDX-License-Identifier: MIT
"""The tests of one process again, under NVIDIA's checker of memory accesses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

_HERE = Path(__file__).parent
_ERRORS_FOUND = 77
_TEST_LIMIT_S = 120
_LIMIT_S = 600
#: Much is slower under it by orders of magnitude.
_LEFT_OUT = "not latch and not processes and not slow_when_sanitized"
#: A process each: where hundreds of backends had come and gone, cuCtxSynchronize, which the end of a thread calls that
#: has used CuPy's cuBLAS, did not come back from the checker within minutes.
_FILES = sorted(
    path for path in _HERE.glob("test_*.py") if "\npytestmark = pytest.mark.processes" not in path.read_text()
)


def find_sanitizer() -> str | None:
    installed = sorted(map(str, Path("/usr/local").glob("cuda*/bin/compute-sanitizer")))
    return shutil.which("compute-sanitizer") or (installed[-1] if installed else None)


def _first_visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_compute_sanitizer_finds_no_error_in_the_tests_of_one_process(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sanitizer = find_sanitizer()
    if sanitizer is None:
        with capsys.disabled():
            print("\ncompute-sanitizer is neither on PATH nor under /usr/local/cuda*: nothing was checked with it")
        return
    command = [sanitizer, "--tool", "memcheck", "--error-exitcode", str(_ERRORS_FOUND)]
    # A shortage of memory that is handled is no error, nor is a query of what is not ready.
    command += ["--target-processes", "application-only", "--report-api-errors", "no"]
    command += [sys.executable, "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider", "-m", _LEFT_OUT]
    # Python's and CuPy's own start takes long enough: one GPU, and every test at most so long.
    command += ["-o", f"faulthandler_timeout={_TEST_LIMIT_S}", "-o", "faulthandler_exit_on_timeout=true", str(file)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": _first_visible()}
    output_file = tmp_path / "sanitized.log"
    with output_file.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        try:
            status: int | str = process.wait(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = f"not ended after {_LIMIT_S} s"
    output = output_file.read_text(errors="replace")
    summary = [line for line in output.splitlines() if line.startswith(("=========", "==== "))]
    with capsys.disabled():
        print(f"\n{sanitizer}, {file.name}: {summary[-1] if summary else output[-300:]}")
    # A file may hold nothing but ignored reports; an error ends the checker with a status of its own.
    assert status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}, f"{status}\n{output[-8000:]}"
