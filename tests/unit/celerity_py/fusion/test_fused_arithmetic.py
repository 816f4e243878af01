# SPDX-License-Identifier: MIT
"""Every operation of fused kernels on every dtype, for the operands at which languages differ."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from celerity_py.fusion.kernels import FusedKernel
from tests.support.fused_kernels import compile_texts, describe_difference, launch, make_kernel
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

Compiled: TypeAlias = "tuple[ctypes.CDLL, dict[str, tuple[Sheet, FusedKernel]]]"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    kernels = {
        name: (sheet, make_kernel(sheet.function, BOX, *sheet.arguments, name=f"sheet_{name}"))
        for name, sheet in sheets().items()
    }
    folder: Path = tmp_path_factory.mktemp("arithmetic")
    return compile_texts([kernel.text for _, kernel in kernels.values()], folder), kernels


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_an_operation_has_the_bits_of_numpy(name: str, compiled: Compiled) -> None:
    library, kernels = compiled
    sheet, kernel = kernels[name]
    launch(library, kernel, sheet.arguments)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_exact_as_that_of_numpy(name: str, compiled: Compiled) -> None:
    library, kernels = compiled
    sheet, kernel = kernels[name]
    launch(library, kernel, sheet.arguments)
    for expected, found in zip(sheet.expected[1::2], sheet.arguments[1::2], strict=True):
        error = np.abs(expected.array - found.array) / np.spacing(np.abs(expected.array))
        assert error.max() <= FUNCTIONS[name]


def test_products_of_complex_numbers_are_as_exact_as_those_of_numpy(tmp_path: Path) -> None:
    sheet = products_of_complex_numbers()
    kernel = make_kernel(sheet.function, BOX, *sheet.arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, sheet.arguments)
    for expected, found in zip(sheet.expected, sheet.arguments, strict=True):
        np.testing.assert_allclose(found.array, expected.array, rtol=1e-14)


def test_conversions_have_the_bits_of_numpy(tmp_path: Path) -> None:
    sheet = conversions()
    kernel = make_kernel(sheet.function, BOX, *sheet.arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, sheet.arguments)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""


def test_every_number_of_float16_is_widened_and_rounded_as_numpy_does(tmp_path: Path) -> None:
    sheet = every_half()
    kernel = make_kernel(sheet.function, BOX, *sheet.arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, sheet.arguments)
    assert describe_difference(kernel, sheet.expected, sheet.arguments) == ""
