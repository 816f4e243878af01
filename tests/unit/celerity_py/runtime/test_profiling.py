# SPDX-License-Identifier: MIT
"""Ranges for profilers, by a library in the place of NVTX that writes down its calls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from celerity_py.configuration import resolve
from celerity_py.runtime.profiling import start_ranges
from celerity_py.scheduler.errors import ConfigurationError
from tests.failures.launching import run

LIBRARY = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

static int write_down(const char* const what, const char* const text) {
	FILE* const file = fopen(getenv("RANGES_FILE"), "a");
	fprintf(file, "%ld %s %s\\n", (long)syscall(SYS_gettid), what, text);
	fclose(file);
	return 0;
}
int nvtxRangePushA(const char* const text) { return write_down("push", text); }
int nvtxRangePop(void) { return write_down("pop", "-"); }
"""

PROGRAM = """
import numpy as np
import celerity_py as celerity
from celerity_py import access

@celerity.kernel
def wave_step(chunk, after, before):
    after[chunk.box] = before.array.mean()

with celerity.Queue() as queue:
    u = celerity.Buffer.from_array(np.zeros((64, 8)), name="u")
    v = celerity.Buffer((64, 8), np.float64, name="v")

    def turn():
        queue.parallel_for(u.shape, wave_step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 0)))
        queue.parallel_for(u.shape, wave_step, u.write(access.one_to_one()), v.read(access.neighborhood(1, 0)))

    queue.replay(queue.record(turn), 30)
    queue.host_task(lambda part, view: None, u.read(access.all()), name="look")
    queue.wait()
    print("expanded", queue.statistics().scheduler["expanded_repetitions"])
"""


@pytest.fixture(scope="module")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "ranges.c").write_text(LIBRARY)
    library = folder / "libnvtx3interop.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "ranges.c"], check=True, timeout=60)
    return folder


def ranges_of(folder: Path, tmp_path: Path, **variables: str) -> tuple[dict[str, list[str]], str]:
    """By thread: the texts of its ranges, which must be balanced; and the output."""
    file = tmp_path / "ranges"
    environment = {
        "CELERITY_BACKEND": "cpu",
        "CELERITY_DEVICES": "cpu:2",
        "LD_LIBRARY_PATH": str(folder),
        "RANGES_FILE": str(file),
    }
    outcome = run(None, sys.executable, "-c", PROGRAM, variables=environment | variables)
    assert outcome.status == 0, outcome.errors
    texts: dict[str, list[str]] = defaultdict(list)
    depth: dict[str, int] = defaultdict(int)
    for line in file.read_text().splitlines() if file.exists() else ():
        thread, what, text = line.split(" ", 2)
        depth[thread] += 1 if what == "push" else -1
        assert depth[thread] >= 0
        if what == "push":
            texts[thread].append(text)
    assert set(depth.values()) <= {0}
    return texts, outcome.output


@pytest.mark.parametrize("variables", [{"CELERITY_NVTX": "1"}, {"NVTX_INJECTION64_PATH": "/nowhere/profiler.so"}])
def test_a_profiler_sees_instructions_with_their_tasks_and_calls_with_their_names(
    library_folder: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    texts, output = ranges_of(library_folder, tmp_path, **variables)
    expanded = int(output.split()[1])
    assert expanded > 0, "templates stay on"
    ((_, issues),) = ((thread, found) for thread, found in texts.items() if any(" alloc " in text for text in found))
    kernels = [text for text in issues if " device_kernel " in text]
    assert len(kernels) == 2 * 62
    assert all(text.endswith(' device_kernel "wave_step"') for text in kernels), "also those of templates"
    assert kernels[0].startswith("T2 ")
    assert "T2 copy B1 initial" in issues
    assert "T3 copy B2 coherence" in issues
    assert any(text.endswith(' host_task "look"') for text in issues)
    calls = [text for found in texts.values() for text in found if text not in issues]
    assert calls.count("kernel wave_step on D0") == calls.count("kernel wave_step on D1") == 62
    assert calls.count("host task look") == 1


@pytest.mark.parametrize(
    "variables", [{}, {"CELERITY_NVTX": "0", "NVTX_INJECTION64_PATH": "/nowhere/profiler.so"}], ids=["unset", "off"]
)
def test_without_a_profiler_no_range_is_made(library_folder: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    texts, _ = ranges_of(library_folder, tmp_path, **variables)
    assert not texts


def test_a_missing_library_is_an_error_only_if_the_setting_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celerity_py.runtime.profiling._LIBRARIES", ("libnowhere.so.7",))
    with pytest.raises(ConfigurationError, match=r"NVTX=1: no library of NVTX is found.*pip install nvidia-nvtx"):
        start_ranges(wanted=True, environ={})
    assert start_ranges(wanted=None, environ={"NVTX_INJECTION64_PATH": "/nowhere/profiler.so"}) is None
    assert start_ranges(wanted=None, environ={}) is None


@pytest.mark.parametrize(("text", "value"), [("1", True), ("0", False)])
def test_the_setting_is_a_switch_with_a_default_of_its_own(text: str, value: bool) -> None:
    assert resolve({"CELERITY_NVTX": text}, {}).nvtx is value
    assert resolve({}, {}).nvtx is None
