# SPDX-License-Identifier: MIT
"""Plain numbers among the arguments of a fused function."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.fusion.kernels import FusedKernel
from celerity_py.fusion.scalars import Packer, Parameter, content_of
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


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "u2", "i4", "i8", "u8", "?", "c8"])
def test_packed_numbers_have_the_bytes_of_those_that_numpy_converts(kind: str) -> None:
    dtype = np.dtype(kind)
    numbers: list[Any] = [0, 1, -1, 127, 300, 2**31, 2**60 + 1, 2**70, 0.1, -0.0, 1e39, 1e300, 65520.0, np.inf, np.nan]
    types = int, float, np.float64, np.float32, np.float16, np.int64, np.int16, np.bool_, np.longdouble
    with np.errstate(all="ignore"):
        for number_type in types:
            values = [_converted(number_type, number) for number in numbers]
            packer = Packer([(Parameter(None, (0,), number_type(1)), dtype)] * 2)
            for value in (one for one in values if one is not None):
                try:
                    expected = content_of([(Parameter(None, (0,), value), dtype)] * 2, (value,)).tobytes()
                except (UsageError, ValueError):
                    continue  # refused, or no element of that type
                assert packer.bytes_of((value,)) == expected, (number_type, value)
                if packer.packing is not None:
                    pack, positions = packer.packing
                    with suppress(OverflowError, struct.error):
                        assert pack(*((value,)[position] for position in positions)) == expected


def _converted(number_type: Any, number: Any) -> Any:
    try:
        return number_type(number)
    except (OverflowError, ValueError):
        return None


def test_other_numbers_are_packed_natively_and_those_that_do_not_fit_are_told() -> None:
    @celerity.fuse
    def scale(chunk: Any, u: Any, c: Any, n: Any) -> None:
        u[chunk.box] = u[chunk.box] * c + n

    kinds: list[tuple[Any, Any]] = [(float, int), (np.float32, int), (np.float64, np.int64)]
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(4, np.float64))
        for c, n in kinds:
            for step in range(3):
                queue.parallel_for(4, scale, u.write(access.one_to_one()), c(0.5 + step), n(step))
                queue.parallel_for(4, scale, u.read_write(access.one_to_one()), c(0), n(step))
                assert queue.fence(u).result()[0] == step
        if scale.why_not == "":
            with pytest.raises(UsageError, match="does not fit into float64"):
                queue.parallel_for(4, scale, u.write(access.one_to_one()), 1.0, 10**400)


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
