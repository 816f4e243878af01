# SPDX-License-Identifier: MIT
"""The kernels that combine partial results on GPUs, compiled for the host, give the bits of the executor's fold."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from celerity_py import _native_testing
from celerity_py.cuda.folds import FoldKernels, program_of
from celerity_py.reductions import OPERATIONS
from celerity_py.vocabulary.operations import identity_of

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
REAL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
COMPLEX = ("complex64", "complex128")
CASES = [
    (op, dtype)
    for op in OPERATIONS
    for dtype in (*REAL, *COMPLEX)
    if not (op in {"min", "max"} and dtype in COMPLEX) and not (op == "xor" and np.dtype(dtype).kind in "fc")
]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    lines = ['#include "device_on_host.hpp"', '#include "celerity_device.cuh"']
    for op, dtype in CASES:
        name = f"{op}_{dtype}"
        lines += [f"namespace {name}_ {{", program_of(op, dtype).source, "}"]
        parameters = "const void* partials, unsigned long long count, unsigned long long num, void* to, unsigned* found"
        call = f"{name}_::fold_partials((const {name}_::T*)partials, count, num, ({name}_::T*)to, found)"
        lines.append(f'extern "C" void {name}({parameters}) {{ {call}; }}')
    folder = tmp_path_factory.mktemp("folds")
    (folder / "folds.cpp").write_text("\n".join(lines) + "\n")
    command = [COMPILER, "-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(folder / "folds.so")]
    command += [f"-I{ROOT / 'celerity_py' / 'cuda'}", f"-I{ROOT / 'tests' / 'unit'}", str(folder / "folds.cpp")]
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "folds.so"))


def values_of(dtype: str, count: int) -> npt.NDArray[Any]:
    """Arrays that meet in all ways: extrema, zeros of both signs, infinities and NaN among them."""
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.integers(0, 2, (count, 512)).astype(bool)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        some = np.array([0, 1, 2, limits.min, limits.max], dtype)
        values = rng.integers(limits.min, limits.max, (count, 512), dtype, endpoint=True)
    else:
        some = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], dtype)
        values = rng.normal(size=(count, 512)).astype(dtype)
        if dtype in COMPLEX:
            values.imag = rng.normal(size=values.shape)
            some = np.array([0.0, -0.0, 1.0, 1j], dtype)
    is_some = rng.random(values.shape) < 0.5
    values[is_some] = rng.choice(some, int(is_some.sum()))
    return values


def has_same_bits(a: npt.NDArray[Any], b: npt.NDArray[Any], op: str) -> bool:
    if a.dtype.kind == "f" and op in {"sum", "prod"}:  # the bits of a NaN depend on the machine
        both = np.isnan(a) & np.isnan(b)
        a, b = a[~both], b[~both]
    return a.tobytes() == b.tobytes()


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_the_kernel_gives_the_bits_of_the_host(kernels: ctypes.CDLL, op: str, dtype: str, count: int) -> None:
    values = values_of(dtype, count)
    on_host, on_device = np.zeros(512, dtype), np.zeros(512, dtype)
    _native_testing.fold(op, dtype, values.ctypes.data, count, on_host.ctypes.data, 512)
    fold = getattr(kernels, f"{op}_{dtype}")
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (values, on_device)]
    fold(addresses[0], ctypes.c_ulonglong(count), ctypes.c_ulonglong(512), addresses[1], None)
    assert has_same_bits(on_host, on_device, op)


@pytest.mark.parametrize(("op", "dtype"), [case for case in CASES if case[0] in {"min", "max"}])
def test_the_kernel_tells_an_extremum_of_nothing_from_others(kernels: ctypes.CDLL, op: str, dtype: str) -> None:
    values = np.full((3, 8), identity_of(op, np.dtype(dtype)))
    result, found = np.zeros(8, dtype), ctypes.c_uint(0)

    def fold() -> int:
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (values, result)]
        size = ctypes.c_ulonglong(8)
        getattr(kernels, f"{op}_{dtype}")(addresses[0], ctypes.c_ulonglong(3), size, addresses[1], ctypes.byref(found))
        return found.value

    assert fold() == 0
    values[1, 5] = op != "min" if dtype == "bool" else 3
    assert fold() == 1


class Devices:
    ordinals = (4, 7)

    def __init__(self, count: int) -> None:
        self.count = count


class FakeRuntime:
    def __init__(self, num_devices: int) -> None:
        self.devices = Devices(num_devices)
        self.num_drains = 0

    def drain(self) -> None:
        self.num_drains += 1


@pytest.mark.parametrize(("num_devices", "expected"), [(1, ["min"]), (2, ["sum", "min"])])
def test_kernels_are_loaded_when_a_task_needs_them(
    monkeypatch: pytest.MonkeyPatch, num_devices: int, expected: list[str]
) -> None:
    loaded: list[str] = []

    def load(program: Any, ordinals: tuple[int, ...]) -> list[int]:
        assert ordinals == Devices.ordinals
        loaded.extend(op for op in OPERATIONS if program == program_of(op, "float32"))
        return [64, 72]

    monkeypatch.setattr("celerity_py.cuda.compilation.load", load)
    runtime: Any = FakeRuntime(num_devices)
    folds = FoldKernels()
    reductions = [
        (1, "sum", "float32", False),
        (2, "min", "float32", True),
        (3, "callable", "other", True, 0, "join", 0),
    ]
    for _ in range(2):
        folds.prepare(runtime, reductions)
    assert loaded == expected
    assert runtime.num_drains == len(expected)
