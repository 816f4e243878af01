# SPDX-License-Identifier: MIT
"""The kernels that combine partial results on GPUs, compiled for the host, give the bits of the executor."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py import _native_testing
from celerity_py.hints import Division
from celerity_py.reductions.cuda_reductions import ReduceKernels, program_of
from celerity_py.reductions.operations import OPERATIONS, identity_of
from tests.support.partial_results import CASES, has_same_bits, values_of

ROOT = Path(__file__).parents[4]
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    lines = ['#include "device_on_host.hpp"', '#include "celerity_reducers.cuh"']
    for op, dtype in CASES:
        name = f"{op}_{dtype}"
        lines += [f"namespace {name}_ {{", program_of(op, dtype).source, "}"]
        parameters = "const void* partials, unsigned long long count, unsigned long long num, void* to, unsigned* found"
        call = f"{name}_::reduce_partials((const {name}_::T*)partials, count, num, ({name}_::T*)to, found)"
        lines.append(f'extern "C" void {name}({parameters}) {{ {call}; }}')
    folder = tmp_path_factory.mktemp("reductions")
    (folder / "reductions.cpp").write_text("\n".join(lines) + "\n")
    command = [
        COMPILER,
        "-std=c++17",
        "-O1",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "reductions.so"),
    ]
    command += [f"-I{ROOT / name}" for name in ("celerity_py/cuda", "tests/unit/celerity_py/cuda")]
    command.append(str(folder / "reductions.cpp"))
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "reductions.so"))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_the_kernel_gives_the_bits_of_the_host(kernels: ctypes.CDLL, op: str, dtype: str, count: int) -> None:
    values = values_of(dtype, (count, 512))
    on_host, on_device = np.zeros(512, dtype), np.zeros(512, dtype)
    _native_testing.reduce(op, dtype, values.ctypes.data, count, on_host.ctypes.data, 512)
    reduce = getattr(kernels, f"{op}_{dtype}")
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (values, on_device)]
    reduce(addresses[0], ctypes.c_ulonglong(count), ctypes.c_ulonglong(512), addresses[1], None)
    assert has_same_bits(on_host, on_device, op)


@pytest.mark.parametrize(("op", "dtype"), [case for case in CASES if case[0] in {"min", "max"}])
def test_the_kernel_tells_an_extremum_of_nothing_from_others(kernels: ctypes.CDLL, op: str, dtype: str) -> None:
    values = np.full((3, 8), identity_of(op, np.dtype(dtype)))
    result, found = np.zeros(8, dtype), ctypes.c_uint(0)

    def reduce() -> int:
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (values, result)]
        size = ctypes.c_ulonglong(8)
        getattr(kernels, f"{op}_{dtype}")(addresses[0], ctypes.c_ulonglong(3), size, addresses[1], ctypes.byref(found))
        return found.value

    assert reduce() == 0
    values[1, 5] = op != "min" if dtype == "bool" else 3
    assert reduce() == 1


@pytest.mark.parametrize(
    ("num_devices", "division", "expected"),
    [
        (1, Division(), ["min"]),
        (2, Division(), ["sum", "min"]),
        (1, Division(oversubscribe=2), ["sum", "min"]),
        (1, Division(border=1), ["sum", "min"]),
        (1, Division(block=3), ["sum", "min"]),
        (1, Division().in_parts(2), ["sum", "min"]),  # as with CHECK=1
    ],
)
def test_kernels_are_loaded_when_a_task_needs_them(
    monkeypatch: pytest.MonkeyPatch, num_devices: int, division: Division, expected: list[str]
) -> None:
    loaded: list[str] = []

    def load(program: Any, ordinals: tuple[int, ...]) -> list[int]:
        assert ordinals == (4, 7)[:num_devices]
        loaded.extend(op for op in OPERATIONS if program == program_of(op, "float32"))
        return [64, 72]

    monkeypatch.setattr("celerity_py.cuda.compilation.load", load)
    drains: list[int] = []
    kernels = ReduceKernels()
    reductions = [
        (1, "sum", "float32", False),
        (2, "min", "float32", True),
        (3, "callable", "other", True, 0, "join", 0),
    ]
    for _ in range(2):
        kernels.prepare((4, 7)[:num_devices], lambda: drains.append(1), reductions, division)
    assert loaded == expected
    assert len(drains) == len(expected)
