# SPDX-License-Identifier: MIT
"""Every operation of fused kernels on every dtype, compiled by numba."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    pairs_of,
    products_of_complex_numbers,
    sheet_of,
    sheets,
)

numba = pytest.importorskip("numba")
operations: Any = pytest.importorskip("celerity_py.cpu.operations")
#: numba compiles a pair of dtypes in 0.1 s. So each run draws half of them; g++ compiles all of them elsewhere.
_all_sheets = functools.cache(lambda: sheets(half=random.randrange(2)))


def _run(sheet: Sheet, folder: Path) -> FusedCpuKernel:
    kernel = make_cpu_kernel(sheet.function, BOX, *sheet.arguments)
    run_on_cpu(compile_for_cpu(kernel.text, kernel.name, len(kernel.calls), folder=folder), kernel, sheet.arguments)
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


def _some_conversions() -> Sheet:
    return conversions(half=random.randrange(2))


@pytest.mark.parametrize("make", [_some_conversions, every_half])
def test_conversions_have_the_bits_of_numpy(make: Callable[[], Sheet], tmp_path: Path) -> None:
    sheet = make()
    kernel = _run(sheet, tmp_path)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""


def _round_twice(value: Any) -> Any:
    return operations.narrow(numba.float32(value))


def _divide(a: Any, b: Any) -> Any:
    return operations.floor_(a / b)


def _shift_as_processors_do(a: Any, b: Any) -> Any:
    return numba.int32(a << (b & 31))


@pytest.mark.parametrize(
    ("name", "kinds", "operation", "wrong"),
    [
        ("minimum", ("f4", "f4"), "minimum_", operations.half_minimum_),
        ("minimum", ("f2", "f2"), "half_minimum_", operations.minimum_),
        ("maximum", ("f8", "f8"), "maximum_", operations.fmax_),
        ("less", ("u8", "i8"), "mixed_less_", operations.less_),
        ("less", ("u4", "u4"), "less_", operations.mixed_equal_),
        ("left_shift", ("i4", "i4"), "left_shift_", numba.njit(_shift_as_processors_do)),
        ("logical_or", ("?", "?"), "logical_or_", operations.logical_xor_),
        ("floor_divide", ("f4", "f4"), "floor_divide_", numba.njit(error_model="numpy")(_divide)),
        ("floor_divide", ("i4", "i4"), "floor_divide_", operations.minimum_),
    ],
)
def test_a_wrong_operation_is_found_out(  # noqa: PLR0917 - a table
    name: str, kinds: tuple[str, str], operation: str, wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = sheet_of(getattr(np, name), [pairs_of(*kinds)])
    monkeypatch.setattr(operations, operation, wrong)
    kernel = _run(sheet, tmp_path)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) != ""


def test_numbers_that_are_rounded_twice_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = every_half()
    monkeypatch.setattr(operations, "narrow_double", numba.njit(_round_twice))
    kernel = _run(sheet, tmp_path)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) != ""
