# SPDX-License-Identifier: MIT
"""Compiled kernels for processors: how they come to be, from where they come the next time, and what they contain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.cpu import compilation
from celerity_py.cpu.compilation import compile_for_cpu
from celerity_py.fusion.cpu_kernels import FusedCpuKernel
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import Access

pytest.importorskip("numba")
ROOT = Path(__file__).parents[4]
BOX = Box((1, 1), (9, 49))


def _fields(dtype: str = "f4") -> list[Access]:
    return [Access(np.random.default_rng(seed).standard_normal((10, 50)).astype(dtype)) for seed in (1, 2)]


def _smooth(chunk: Any, u: Any, v: Any) -> None:
    b = chunk.box
    u[b] = v[b.shift(0, 1)] * 3 + v[b.shift(0, -1)] - v[b.shift(1, 0)] * v[b.shift(-1, 0)]


def _compile(kernel: FusedCpuKernel, folder: Path) -> compilation.CpuKernel:
    return compile_for_cpu(kernel.text, kernel.name, len(kernel.calls), folder=folder)


def _not_again(text: str, names: list[str]) -> bytes:
    raise AssertionError


def test_a_kernel_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _fields(), _fields()
    kernel = make_cpu_kernel(_smooth, BOX, *first)
    run_on_cpu(_compile(kernel, tmp_path), kernel, first)
    monkeypatch.setattr(compilation, "_compile", _not_again)
    run_on_cpu(_compile(kernel, tmp_path), kernel, second)
    np.testing.assert_array_equal(first[0].array, second[0].array)


def test_other_texts_and_damaged_results_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, other = (make_cpu_kernel(_smooth, BOX, *_fields(dtype)) for dtype in ("f4", "f8"))
    _compile(kernel, tmp_path)
    (kept,) = tmp_path.glob("*.kernel")
    monkeypatch.setattr(compilation, "_compile", _not_again)
    with pytest.raises(AssertionError):
        _compile(other, tmp_path)
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(AssertionError):
        _compile(kernel, tmp_path)


def test_kernels_of_one_name_do_not_mix(tmp_path: Path) -> None:
    def fill(value: int) -> Any:
        def function(chunk: Any, u: Any, v: Any) -> None:
            u[chunk.box] = value

        return function

    kernels = [make_cpu_kernel(fill(value), BOX, *_fields()) for value in (1, 2)]
    compiled = [_compile(kernel, tmp_path) for kernel in kernels]
    for value, kernel, one in zip((1, 2), kernels, compiled, strict=True):
        fields = _fields()
        run_on_cpu(one, kernel, fields)
        assert (fields[0].array[BOX.slices] == value).all()


@pytest.mark.parametrize(("dtype", "vector"), [("f4", "x float>"), ("f8", "x double>"), ("i2", "x i16>")])
def test_rows_are_computed_in_vectors_and_nothing_is_contracted(dtype: str, vector: str) -> None:
    kernel = make_cpu_kernel(_smooth, BOX, *_fields(dtype))
    _, module = compilation.translate(kernel.text, ["kernel_0"])
    text = str(module)
    assert vector in text
    assert "fma" not in text
    assert "contract" not in text
    assert "fast" not in text.replace("fastcc", "")


def test_the_text_of_a_kernel_depends_on_its_structure_alone() -> None:
    one, other = (make_cpu_kernel(_smooth, box, *_fields()) for box in (BOX, Box((2, 3), (5, 40))))
    assert one.text == other.text
    assert (one.calls, other.calls) == (((((1, 9), (1, 49)), 0),), ((((2, 5), (3, 40)), 0),))


def test_a_function_that_stores_nothing_has_no_pass(tmp_path: Path) -> None:
    assert compile_for_cpu("", "kernel", 0, folder=tmp_path).addresses == ()


def test_numba_is_imported_for_a_compilation_only(tmp_path: Path) -> None:
    def exponential(chunk: Any, u: Any, v: Any) -> None:
        u[chunk.box] = 0
        u[1:2] = np.exp(v[1:2])  # of another library, in several loops

    kernel = make_cpu_kernel(exponential, BOX, *_fields("f8"))
    _compile(kernel, tmp_path)
    program = f"""
import pathlib, sys
import numpy as np
from celerity_py import Box
from celerity_py.cpu.compilation import compile_for_cpu
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import Access

def exponential(chunk, u, v):
    u[chunk.box] = 0
    u[1:2] = np.exp(v[1:2])

fields = [Access(np.ones((10, 50))) for _ in range(2)]
kernel = make_cpu_kernel(exponential, Box((1, 1), (9, 49)), *fields)
assert "llvmlite" not in sys.modules
compiled = compile_for_cpu(kernel.text, "kernel", 1, folder=pathlib.Path({str(tmp_path)!r}))
assert "llvmlite" in sys.modules and "numba" not in sys.modules
run_on_cpu(compiled, kernel, fields)
np.testing.assert_allclose(fields[0].array[1:2], np.e)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=ROOT)
