# SPDX-License-Identifier: MIT
"""Reductions of kernels in CUDA C++ on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.vocabulary.operations import BY_DEVICE_TYPE, OPERATIONS, identity_of
from celerity_py.vocabulary.static_types import ReductionName

Array = npt.NDArray[Any]
Launch = Callable[..., celerity.Queue]


def reducing(spelling: str, operation: str, how: str) -> celerity.CudaKernel:
    """Combines all elements; threads that have more to combine than others diverge."""
    body = {
        "combine": "if (chunk.contains(item)) out.combine(values[item]);",
        "combine_some": """
            if (!chunk.contains(item)) return;
            if (item[0] % 3 == 0) out.combine(values[item]);
            else if (item[0] % 3 == 1) out.combine(values[item]);
            else for (int part = 0; part < 2; ++part) if (item[0] / 3 % 2 == part) out.combine(values[item]);""",
        "combine_block": "out.combine_block(chunk.contains(item) ? values[item] : out.identity());",
    }[how]
    source = f"""
    __global__ void reduce(celerity::chunk<1> chunk, accessor<const {spelling}, 1> values,
                           reducer<{spelling}, celerity::{operation}> out) {{
        const auto item = chunk.item();
        {body}
    }}"""
    return celerity.CudaKernel(source, "reduce", block=(96,))


def can_reduce(dtype: str, operation: str) -> bool:
    kind = np.dtype(dtype).kind
    if dtype == "float16" or (kind == "c" and operation in {"min", "max", "bitwise_xor"}):
        return False
    return not (kind == "f" and operation == "bitwise_xor")


REDUCTIONS = [(dtype, operation) for dtype in SPELLINGS for operation in BY_DEVICE_TYPE if can_reduce(dtype, operation)]


def few_values(dtype: str, operation: str) -> Array:
    """Values whose combination is exact in any order."""
    random = np.random.default_rng(5)
    kind = np.dtype(dtype).kind
    if operation == "prod":
        values = np.ones(2000) if kind != "c" else np.ones(2000, complex)
        values[random.choice(2000, 5, replace=False)] = [2, 3, 1, 2, 2] if kind != "c" else [1j, 2, 1j, -1j, 1 + 1j]
    else:
        values = random.integers(0, 2 if operation in {"logical_and", "logical_or"} else 50, 2000)
        if kind == "c":
            values = values + 1j * values[::-1]
    if operation == "logical_and":
        values = np.ones_like(values)
    return values.astype(dtype)


@pytest.mark.parametrize("how", ["combine", "combine_some", "combine_block"])
@pytest.mark.parametrize(("dtype", "operation"), REDUCTIONS)
def test_reductions_are_those_of_numpy(launch: Launch, dtype: str, operation: str, how: str) -> None:
    queue = launch()
    initial = few_values(dtype, operation)
    values = celerity.Buffer.from_array(initial)
    result = celerity.Buffer((), dtype)
    op: Any = BY_DEVICE_TYPE[operation]
    queue.parallel_for(
        2000,
        reducing(SPELLINGS[dtype], operation, how),
        values.read(access.one_to_one()),
        celerity.reduction(result, op),
    )
    expected = np.asarray(identity_of(op, np.dtype(dtype)), dtype)
    with np.errstate(over="ignore"):
        for value in initial:
            expected = np.asarray(OPERATIONS[op].combine(expected, value)).astype(dtype)
    np.testing.assert_array_equal(queue.fence(result).result(), expected)


@pytest.mark.parametrize("include_current", [False, True])
def test_reductions_combine_all_devices_and_the_old_value_once(queue: celerity.Queue, include_current: bool) -> None:
    values = celerity.Buffer.from_array(np.arange(100_000, dtype=np.int64))
    total = celerity.Buffer.from_array(np.int64(5))
    for how in ("combine", "combine_block"):
        kernel = reducing("long long", "sum", how)
        argument = celerity.reduction(total, "sum", include_current=include_current)
        queue.parallel_for(100_000, kernel, values.read(access.one_to_one()), argument)
    expected = 99_999 * 50_000 * (2 if include_current else 1) + (5 if include_current else 0)
    assert queue.fence(total).result() == expected


@pytest.mark.parametrize("operation", ["min", "max"])
def test_nan_wins_as_in_numpy(queue: celerity.Queue, operation: ReductionName) -> None:
    initial = np.random.default_rng(1).random(5000, np.float32)
    initial[1234] = np.nan
    values = celerity.Buffer.from_array(initial)
    result = celerity.Buffer((), np.float32)
    kernel = reducing("float", operation, "combine")
    queue.parallel_for(5000, kernel, values.read(access.one_to_one()), celerity.reduction(result, operation))
    assert np.isnan(queue.fence(result).result())


def test_a_block_of_three_dimensions_combines_each_thread_once(queue: celerity.Queue) -> None:
    source = """
    __global__ void count(celerity::chunk<3> chunk, reducer<double, celerity::sum> items,
                          reducer<int, celerity::max> x) {
        const auto item = chunk.item();
        items.combine_block(chunk.contains(item) ? 1.0 : items.identity());
        x.combine_block(chunk.contains(item) ? (int)item[2] : x.identity());
    }"""
    items, x = celerity.Buffer((), np.float64), celerity.Buffer((), np.int32)
    kernel = celerity.CudaKernel(source, "count", block=(3, 5, 7))
    queue.parallel_for((17, 31, 67), kernel, celerity.reduction(items, "sum"), celerity.reduction(x, "max"))
    assert queue.fence(items).result() == 17 * 31 * 67
    assert queue.fence(x).result() == 66
