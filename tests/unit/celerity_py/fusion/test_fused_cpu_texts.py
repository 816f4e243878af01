# SPDX-License-Identifier: MIT
"""Functions with the text of NumPy, fused and compiled by numba, and NumPy itself on the same arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.cpu.compilation import compile_for_cpu
from tests.support.fused_cases import BOX, CASES
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import Access, copies, describe_difference, run_on_numpy

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def _difference(function: Any, box: Box, arguments: Any, folder: Path, num_cuts: int) -> str:
    kernel = make_cpu_kernel(function, box, *arguments)
    compiled = compile_for_cpu(kernel.text, kernel.name, len(kernel.calls), folder=folder)
    expected, found = copies(arguments), copies(arguments)
    run_on_numpy(function, box, expected)
    run_on_cpu(compiled, kernel, found, num_cuts)
    return describe_difference(kernel, expected, found)


@pytest.mark.parametrize("num_cuts", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_fused_text_has_the_bits_of_numpy(name: str, num_cuts: int, folder: Path) -> None:
    function, arguments = CASES[name]
    assert _difference(function, BOX, arguments, folder, num_cuts) == ""


def _multiply_and_add(chunk: Any, u: Any, v: Any) -> None:
    b = chunk.box
    u[b] = u[b] * v[b.shift(0, 1)] + v[b.shift(1, 0)] * v[b] - u[b]


def _choose(chunk: Any, u: Any, v: Any) -> None:
    t = u[chunk.box] * 2
    t[1:, 3:-2] = np.minimum(v[chunk.box][1:, 3:-2], 1)
    u[chunk.box] = np.where(t > 0, abs(v[chunk.box]) * 3, v.padded(chunk.box, 1, mode="edge")[2:, 2:])


def _swap_turns(chunk: Any, u: Any, v: Any) -> None:
    rows, columns = chunk.box.slices
    for color in (0, 1):
        u[rows, columns.start + color : columns.stop : 2] += v[rows, columns][:, color::2] * u[rows, columns][:, ::2]


@pytest.mark.parametrize("function", [_multiply_and_add, _choose, _swap_turns])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u8"])
def test_rows_into_which_vectors_fit_have_the_bits_of_numpy(function: Any, dtype: str, folder: Path) -> None:
    draws = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        arguments = [Access((draws.standard_normal((12, 230)) * 50).astype("i4").astype(dtype)) for _ in range(2)]
        if dtype[0] == "f":
            arguments = [Access((one.array / 7).astype(dtype)) for one in arguments]
    assert _difference(function, Box((2, 2), (9, 220)), arguments, folder, 1) == ""
