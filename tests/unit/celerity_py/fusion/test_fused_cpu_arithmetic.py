# SPDX-License-Identifier: MIT
"""Every operation of fused kernels on every dtype, compiled by numba."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from celerity_py.cpu.compilation import compile_for_cpu
from celerity_py.fusion.cpu_kernels import FusedCpuKernel
from tests.support.fused_cpu_kernels import make_cpu_kernel, run_on_cpu
from tests.support.fused_kernels import describe_difference
from tests.support.fused_sheets import (
    BINARY,
    BOX,
    FUNCTIONS,
    UNARY,
    Sheet,
    conversions,
    every_half,
    products_of_complex_numbers,
    sheets,
)

pytest.importorskip("numba")
_all_sheets = functools.cache(sheets)


def _run(sheet: Sheet, folder: Path) -> FusedCpuKernel:
    kernel = make_cpu_kernel(sheet.function, BOX, *sheet.arguments)
    run_on_cpu(compile_for_cpu(kernel.text, kernel.name, len(kernel.boxes), folder=folder), kernel, sheet.arguments)
    return kernel


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_an_operation_has_the_bits_of_numpy(name: str, tmp_path: Path) -> None:
    sheet = _all_sheets()[name]
    kernel = _run(sheet, tmp_path)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_exact_as_that_of_numpy(name: str, tmp_path: Path) -> None:
    sheet = _all_sheets()[name]
    _run(sheet, tmp_path)
    for expected, found in zip(sheet.expected[1::2], sheet.arguments[1::2], strict=True):
        error = np.abs(expected.array - found.array) / np.spacing(np.abs(expected.array))
        assert error.max() <= FUNCTIONS[name]


def test_products_of_complex_numbers_are_as_exact_as_those_of_numpy(tmp_path: Path) -> None:
    sheet = products_of_complex_numbers()
    _run(sheet, tmp_path)
    for expected, found in zip(sheet.expected, sheet.arguments, strict=True):
        np.testing.assert_allclose(found.array, expected.array, rtol=1e-14)


@pytest.mark.parametrize("make", [conversions, every_half])
def test_conversions_have_the_bits_of_numpy(make: functools.partial[Sheet], tmp_path: Path) -> None:
    sheet = make()
    kernel = _run(sheet, tmp_path)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""
