# SPDX-License-Identifier: MIT
"""Every operation of fused kernels on every dtype, for the operands at which languages differ."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.fusion.kernels import FusedKernel
from tests.support.fused_kernels import Access, compile_texts, describe_difference, launch, make_kernel

KINDS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
MIXED = (("i1", "u8"), ("u8", "i8"), ("i8", "u8"), ("f2", "i1"), ("f2", "i4"), ("f4", "i8"), ("?", "i1"), ("f4", "f8"))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, -7.25, 1e-7, 6e-8, 65504.0, 1e-45, 3e38, np.inf, -np.inf, np.nan)
BINARY = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "minimum", "maximum"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *(
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
    ),
)
UNARY = (
    *("negative", "positive", "absolute", "sign", "square", "sqrt", "floor", "ceil", "trunc", "rint"),
    *("isnan", "isinf", "isfinite", "logical_not", "invert"),
)
#: Within so many units in the last place of NumPy's own float64 and float32.
FUNCTIONS = {"exp": 2, "log": 2, "sin": 2, "cos": 2, "tanh": 3, "arctan": 2, "cbrt": 2, "expm1": 2, "log1p": 2}


def _values(kind: str) -> Any:
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype)
    limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
    numbers = {limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1}
    return np.array(sorted(numbers | ({-1, -2, -7} if dtype.kind == "i" else set())), dtype)


def _pairs(first: str, second: str) -> tuple[Any, Any]:
    a, b = _values(first), _values(second)
    return np.repeat(a, len(b)), np.tile(b, len(a))


class Sheet:
    """One kernel that applies a ufunc to arrays of many dtypes, and NumPy's results."""

    def __init__(self, name: str, operands: list[tuple[Any, ...]]) -> None:
        ufunc = getattr(np, name)
        self.name = name
        self.arguments: list[Access] = []
        self.expected: list[Access] = []
        pairs: list[tuple[int, ...]] = []
        for arrays in operands:
            try:
                with np.errstate(all="ignore"):
                    result = ufunc(*arrays)
            except TypeError:
                continue  # NumPy has no such operation
            pairs.append(tuple(range(len(self.arguments), len(self.arguments) + len(arrays) + 1)))
            self.arguments += [Access(array) for array in (*arrays, np.zeros_like(result))]
            self.expected += [Access(array) for array in (*arrays, result)]

        def function(chunk: Any, *views: Any) -> None:
            for *inputs, output in pairs:
                views[output][...] = ufunc(*(views[place][...] for place in inputs))

        self.kernel: FusedKernel = make_kernel(function, Box((0,), (1,)), *self.arguments, name=f"sheet_{name}")


def _sheets() -> dict[str, Sheet]:
    pairs = [_pairs(*kinds) for kinds in (*((kind, kind) for kind in KINDS), *MIXED)]
    sheets = [Sheet(name, pairs) for name in BINARY]
    sheets += [Sheet(name, [(_values(kind),) for kind in KINDS]) for name in UNARY]
    positive = np.linspace(0.1, 4, 50)
    sheets += [Sheet(name, [(positive.astype(kind),) for kind in ("f4", "f8")]) for name in FUNCTIONS]
    return {sheet.name: sheet for sheet in sheets}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, dict[str, Sheet]]:
    sheets = _sheets()
    folder: Path = tmp_path_factory.mktemp("arithmetic")
    return compile_texts([sheet.kernel.text for sheet in sheets.values()], folder), sheets


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_an_operation_has_the_bits_of_numpy(name: str, compiled: tuple[ctypes.CDLL, dict[str, Sheet]]) -> None:
    library, sheets = compiled
    sheet = sheets[name]
    launch(library, sheet.kernel, sheet.arguments)
    assert describe_difference(sheet.kernel, sheet.expected, sheet.arguments) == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_exact_as_that_of_numpy(name: str, compiled: tuple[ctypes.CDLL, dict[str, Sheet]]) -> None:
    library, sheets = compiled
    sheet = sheets[name]
    launch(library, sheet.kernel, sheet.arguments)
    for expected, found in zip(sheet.expected[1::2], sheet.arguments[1::2], strict=True):
        error = np.abs(expected.array - found.array) / np.spacing(np.abs(expected.array))
        assert error.max() <= FUNCTIONS[name]


def test_products_of_complex_numbers_are_as_exact_as_those_of_numpy(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    a, b = (draws.standard_normal(100) + 1j * draws.standard_normal(100) for _ in range(2))
    real = draws.standard_normal(100)

    def compute(a: Any, b: Any, real: Any) -> tuple[Any, ...]:
        return a * b, a / b, abs(a * 3j), a**2, 1 / b, a**-1, real * b, (1 + 2j) * real

    arguments = [Access(array) for array in (a, b, real, *map(np.zeros_like, compute(a, b, real)))]

    def function(chunk: Any, *views: Any) -> None:
        results = compute(*(view[...] for view in views[:3]))
        for view, result in zip(views[3:], results, strict=True):
            view[...] = result

    kernel = make_kernel(function, Box((0,), (1,)), *arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, arguments)
    for expected, found in zip(compute(a, b, real), arguments[3:], strict=True):
        np.testing.assert_allclose(found.array, expected, rtol=1e-14)


CONVERSIONS = [(one, other) for one in KINDS for other in KINDS if not (one[0] == "f" and other[0] in "iu")]


def test_conversions_have_the_bits_of_numpy(tmp_path: Path) -> None:
    arguments = [
        Access(array) for one, other in CONVERSIONS for array in (_values(one), np.zeros(len(_values(one)), other))
    ]

    def function(chunk: Any, *views: Any) -> None:
        for source, target in zip(views[::2], views[1::2], strict=True):
            target[...] = source[...].astype(target.dtype)

    kernel = make_kernel(function, Box((0,), (1,)), *arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, arguments)
    with np.errstate(all="ignore"):
        expected = [
            (one.array, one.array.astype(other.array.dtype))
            for one, other in zip(arguments[::2], arguments[1::2], strict=True)
        ]
    flat = [Access(array) for pair in expected for array in pair]
    assert describe_difference(kernel, flat, arguments) == ""


def test_every_number_of_float16_is_widened_and_rounded_as_numpy_does(tmp_path: Path) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = every.astype("f4")
        wide = np.concatenate([exact, np.nextafter(exact, np.float32(0)), exact * np.float32(1.0004883)])
        double = wide.astype("f8") * (1 + 2**-40)
    outputs = np.zeros(len(every), "f4"), np.zeros(len(wide), "f2"), np.zeros(len(wide), "f2")
    inputs: tuple[Any, ...] = every, wide, double
    arguments = [Access(array) for pair in zip(inputs, outputs, strict=True) for array in pair]

    def function(chunk: Any, *views: Any) -> None:
        for source, target in zip(views[::2], views[1::2], strict=True):
            target[...] = source[...]

    kernel = make_kernel(function, Box((0,), (1,)), *arguments)
    launch(compile_texts([kernel.text], tmp_path), kernel, arguments)
    with np.errstate(all="ignore"):
        results = (every, every.astype("f4"), wide, wide.astype("f2"), double, double.astype("f2"))
    assert describe_difference(kernel, [Access(array) for array in results], arguments) == ""
