# SPDX-License-Identifier: MIT
"""Functions with the text of NumPy, fused and compiled for the host, and NumPy itself on the same arrays."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import celerity_py.fusion.planning
import celerity_py.fusion.tiling
from celerity_py.fusion.kernels import FusedKernel
from tests.support.fused_cases import BOX, CASES
from tests.support.fused_kernels import (
    Access,
    compile_texts,
    copies,
    describe_difference,
    launch,
    make_kernel,
    run_on_numpy,
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, dict[str, FusedKernel]]:
    kernels = {name: make_kernel(one, BOX, *arguments, name=name) for name, (one, arguments) in CASES.items()}
    folder: Path = tmp_path_factory.mktemp("fused")
    return compile_texts([kernel.text for kernel in kernels.values()], folder), kernels


@pytest.mark.parametrize("name", CASES)
def test_fused_text_has_the_bits_of_numpy(name: str, compiled: tuple[ctypes.CDLL, dict[str, FusedKernel]]) -> None:
    library, kernels = compiled
    function, arguments = CASES[name]
    expected, found = copies(arguments), copies(arguments)
    run_on_numpy(function, BOX, expected)
    launch(library, kernels[name], found)
    assert describe_difference(kernels[name], expected, found) == ""
    if not name.startswith("an_empty_box"):
        changed = zip(copies(arguments), expected, strict=True)
        assert any(isinstance(a, Access) and (a.array != b.array).any() for a, b in changed)


@pytest.mark.parametrize(
    ("module", "rule", "without", "name"),
    [
        (celerity_py.fusion.tiling, "_in_order", set(), "parts_are_stored_by_another_access"),
        (celerity_py.fusion.planning, "_store_at_different_items", False, "rows_and_columns_that_cross"),
    ],
)
def test_elements_that_are_stored_twice_need_an_order(  # noqa: PLR0917 - parameters and fixtures
    module: ModuleType, rule: str, without: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, rule, lambda *_: without)
    function, arguments = CASES[name]
    kernel = make_kernel(function, BOX, *arguments)
    expected, found = copies(arguments), copies(arguments)
    run_on_numpy(function, BOX, expected)
    launch(compile_texts([kernel.text], tmp_path), kernel, found)
    assert describe_difference(kernel, expected, found) != ""  # as the test above would find
