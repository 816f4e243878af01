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
#: Much is slower under it by orders of magnitude.
_LEFT_OUT = "not latch and not processes and not slow_when_sanitized"


def find_sanitizer() -> str | None:
    installed = sorted(map(str, Path("/usr/local").glob("cuda*/bin/compute-sanitizer")))
    return shutil.which("compute-sanitizer") or (installed[-1] if installed else None)


def test_compute_sanitizer_finds_no_error_in_the_tests_of_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    sanitizer = find_sanitizer()
    if sanitizer is None:
        with capsys.disabled():
            print("\ncompute-sanitizer is neither on PATH nor under /usr/local/cuda*: nothing was checked with it")
        return
    command = [
        *(
            sanitizer,
            "--tool",
            "memcheck",
            "--error-exitcode",
            str(_ERRORS_FOUND),
            "--target-processes",
            "application-only",
        ),
        # A shortage of memory that is handled is no error, nor is a query of what is not ready.
        *("--report-api-errors", "no"),
        *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", _LEFT_OUT, str(_HERE)),
    ]
    outcome = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=1500, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    errors = [line for line in outcome.stdout.splitlines() if line.startswith("=========")]
    with capsys.disabled():
        print(f"\n{sanitizer}: {errors[-1] if errors else outcome.stdout[-300:]}")
    assert outcome.returncode == 0, f"{outcome.stdout[-8000:]}\n{outcome.stderr[-4000:]}"
