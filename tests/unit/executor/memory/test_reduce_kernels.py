# SPDX-License-Identifier: MIT
"""Native reductions, compared bit for bit with NumPy applied to two elements at a time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from celerity_py import _native_testing

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64", "complex64", "complex128"]
TYPES = [*INTEGERS, *FLOATS, "bool"]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.bitwise_xor,
}


def complex_product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As written down: NumPy's own may contract a product and a sum, depending on the machine."""
    result = np.empty_like(a)
    result.real = a.real * b.real - a.imag * b.imag
    result.imag = a.real * b.imag + a.imag * b.real
    return result


def native_reduction(op: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    result = np.zeros(1, values.dtype)
    _native_testing.reduce(op, values.dtype.name, values.ctypes.data, len(values), result.ctypes.data)
    return result


def numpy_reduction(op: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    operation = complex_product if op == "prod" and values.dtype.kind == "c" else OPERATIONS[op]
    with np.errstate(all="ignore"):
        steps = [values[i : i + 1] for i in range(len(values))]
        return functools.reduce(lambda a, b: operation(a, b).astype(values.dtype), steps)


def random_values(dtype: str, count: int, seed: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng(seed)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, count, dtype, endpoint=True)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    values = rng.normal(size=count) * 10.0 ** rng.integers(-3, 4, count)
    values[rng.random(count) < 0.1] = 0
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=count)
    return values.astype(dtype)


@pytest.mark.parametrize(
    ("op", "dtype"), [(op, t) for op, t in itertools.product(OPERATIONS, TYPES) if op != "xor" or t not in FLOATS]
)
def test_a_reduction_is_what_numpy_gives_element_by_element(op: str, dtype: str) -> None:
    for seed, count in itertools.product(range(5), (1, 2, 3, 17)):
        values = random_values(dtype, count, seed)
        assert native_reduction(op, values).tobytes() == numpy_reduction(op, values).tobytes()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_sums_and_products_wrap(dtype: str) -> None:
    high = np.iinfo(dtype).max
    values = np.array([high, high, 3], dtype)
    for op in ("sum", "prod"):
        assert native_reduction(op, values) == numpy_reduction(op, values)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_nan_anywhere_wins(op: str, dtype: str) -> None:
    for position in range(3):
        values = np.array([1, 2, 3], dtype)
        values[position] = np.nan
        assert np.isnan(native_reduction(op, values))[0]


def test_the_order_of_summation_is_that_of_the_elements() -> None:
    values = np.array([1e8, 1, -1e8, 1], np.float32)
    assert native_reduction("sum", values) == np.float32(1)
    assert native_reduction("sum", values[[0, 2, 1, 3]]) == np.float32(2)


def test_the_result_may_replace_a_source_element() -> None:
    values = np.array([1, 2, 3, 4], np.int64)
    _native_testing.reduce("sum", "int64", values.ctypes.data, 4, values.ctypes.data + 8)
    assert values.tolist() == [1, 10, 3, 4]


@pytest.mark.parametrize("dtype", FLOATS)
def test_xor_is_not_defined_on_floating_point_numbers(dtype: str) -> None:
    with pytest.raises(ValueError, match=f"'xor' is not defined on {dtype}"):
        native_reduction("xor", np.zeros(2, dtype))


def test_a_reduction_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one element"):
        native_reduction("sum", np.zeros(0, np.int32))
