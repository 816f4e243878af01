# SPDX-License-Identifier: MIT
"""Plain numbers among the arguments of a fused function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.fusion.kernels import FusedKernel
from celerity_py.scheduler.errors import UsageError
from tests.support.fused_kernels import Access, make_kernel


def _make(function: Callable[..., Any], kind: str, *scalars: Any) -> FusedKernel:
    return make_kernel(function, Box((0,), (8,)), Access(np.zeros(8, kind)), *scalars)


def _values(kernel: FusedKernel, *arguments: Any) -> list[Any]:
    rows = kernel.scalars_of((None, *arguments))
    return [row[: dtype.itemsize].view(dtype)[0] for row, (_, dtype) in zip(rows, kernel.scalars, strict=True)]


def test_a_new_value_is_another_parameter_and_no_other_text() -> None:
    def function(chunk: Any, u: Any, c: Any) -> None:
        u[chunk.box] *= c

    first, second = _make(function, "f4", 0.1), _make(function, "f4", 0.7)
    assert first.text == second.text
    assert _values(first, 0.7) == _values(second, 0.7) == [np.float32(0.7)]
    assert first.needed == frozenset()


def test_numbers_of_python_compute_in_their_own_type_and_are_rounded_once() -> None:
    def function(chunk: Any, u: Any, a: Any, b: Any) -> None:
        u[chunk.box] += a * b / 3

    kernel = _make(function, "f4", 10**20, 3)
    assert _values(kernel, 10**20, 3) == [np.float32(10**20 * 3 / 3)]


def test_a_number_of_numpy_widens_the_arrays_that_it_meets() -> None:
    def function(chunk: Any, u: Any, c: Any) -> None:
        u[chunk.box] = (u[chunk.box] * c).astype("f4")

    assert "double" not in _make(function, "f4", 0.5).text
    assert "double" in _make(function, "f4", np.float64(0.5)).text


def test_arithmetic_between_numbers_of_numpy_has_their_bits() -> None:
    def function(chunk: Any, u: Any, a: Any, b: Any) -> None:
        u[chunk.box] += np.sqrt(a * b)

    values = np.float32(0.1), np.float32(0.3)
    assert _values(_make(function, "f8", *values), *values) == [np.float64(np.sqrt(values[0] * values[1]))]


def test_a_python_integer_that_the_type_cannot_hold_is_refused_at_each_launch() -> None:
    def function(chunk: Any, u: Any, c: Any) -> None:
        u[chunk.box] += c

    kernel = _make(function, "i1", 100)
    with pytest.raises(UsageError, match="300 does not fit into int8"):
        kernel.scalars_of((None, 300))
    with pytest.raises(UsageError, match=r"300 does not fit into int8 \(at .*test_fused_scalars.py:\d+\)"):
        _make(function, "i1", 300)


def test_comparisons_with_a_python_integer_hold_for_all_values() -> None:
    def function(chunk: Any, u: Any, c: Any) -> None:
        u[chunk.box] = (u[chunk.box] < c) & (u[chunk.box] > -1) & (u[chunk.box] != 1000)

    kernel = _make(function, "u1", 300)
    assert _values(kernel, 300) == [np.int64(300)]


@pytest.mark.parametrize(
    "use",
    [
        *(bool, int, float, range, round, lambda c: c > 1, lambda c: {c: 1}, lambda c: f"{c + 1 == 3}"),
        *(lambda c: np.add(c, 1, dtype=float), lambda c: np.add.outer(c, [1])),
    ],
)
def test_where_python_needs_the_value_the_trace_depends_on_it(use: Callable[[Any], Any]) -> None:
    def function(chunk: Any, u: Any, a: Any, b: Any) -> None:
        use(b * 1)
        u[chunk.box] = a

    assert _make(function, "f4", 1, 2).needed == {2}


def test_other_values_are_constants_of_the_trace() -> None:
    def function(chunk: Any, u: Any, mode: Any, flag: Any) -> None:
        u[chunk.box] = 1 if mode == "one" and flag else 2

    assert _make(function, "f4", "one", True).needed == {1, 2}
