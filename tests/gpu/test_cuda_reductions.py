# SPDX-License-Identifier: MIT
"""Reductions of kernels in CUDA C++ on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import _native_testing, access
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.reductions.operations import BY_DEVICE_TYPE, OPERATIONS, identity_of
from celerity_py.vocabulary.static_types import ReductionName
from tests.support.partial_results import CASES, has_same_bits, values_of

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


@pytest.mark.parametrize(
    "hint", [celerity.hints.oversubscribe(3), celerity.hints.border_first(2), celerity.hints.cyclic(7), None], ids=repr
)
@pytest.mark.parametrize("operation", ["sum", "max"])
def test_several_chunks_of_one_gpu_are_combined(
    launch: Launch, hint: celerity.hints.Hint | None, operation: ReductionName
) -> None:
    def total(chunk: Any, values: Any, out: Any) -> None:
        out.combine(getattr(values[chunk.box], operation)())

    with launch(1, check=hint is None) as queue:
        values = celerity.Buffer.from_array(np.arange(100, dtype=np.uint16), name="values")
        result = celerity.Buffer((), np.uint16, name="result")
        hints = [] if hint is None else [hint]
        reduced = celerity.reduction(result, operation)
        queue.parallel_for(100, total, values.read(access.one_to_one()), reduced, hints=hints)
        assert queue.fence(result).result() == getattr(np.arange(100), operation)()


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_a_gpu_combines_old_value_and_partial_results_to_the_bits_of_the_host(
    queue: celerity.Queue, num_gpus: int, op: ReductionName, dtype: str
) -> None:
    values = values_of(dtype, (num_gpus + 1, 300))
    result = celerity.Buffer.from_array(values[0])

    def give(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        out.array[...] = chunk.xp.asarray(values[chunk.box.min[0] + 1])

    queue.parallel_for(num_gpus, give, celerity.reduction(result, op, include_current=True))
    found = queue.fence(result).result()
    expected = np.zeros(300, dtype)
    _native_testing.reduce(op, dtype, values.ctypes.data, num_gpus + 1, expected.ctypes.data, 300)
    assert has_same_bits(found, expected, op)


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


def histogram(dtype: str, how: str) -> celerity.CudaKernel:
    """Counts values, and finds the last item of each row of a table of `len(columns)` columns."""
    shared = "__shared__ {T} shared[{n}]; const auto bins = counts.in_block(shared);"
    begin, end = {
        "global": ("const auto& bins = counts;", ""),
        "in_block": (shared.format(T=SPELLINGS[dtype], n=50), "bins.flush();"),
        "in_block_too_small": (shared.format(T=SPELLINGS[dtype], n=49), "bins.flush();"),
    }[how]
    source = f"""
    __global__ void count(celerity::chunk<1> chunk, accessor<const int, 1> values,
                          reducer<{SPELLINGS[dtype]}, celerity::sum, 2> counts) {{
        {begin}
        for (long long i = chunk.item()[0]; i < chunk.max[0]; i += chunk.step(0))
            bins(values(i) / 10, values(i) % 10).combine(({SPELLINGS[dtype]})1);
        {end}
    }}"""
    return celerity.CudaKernel(source, "count", block=(96,), grid=(7,))


COUNTING = [dtype for dtype in SPELLINGS if np.dtype(dtype).kind in "iuf" and dtype != "float16"]


@pytest.mark.parametrize("how", ["global", "in_block", "in_block_too_small"])
@pytest.mark.parametrize("dtype", COUNTING)
def test_histograms_are_those_of_numpy(queue: celerity.Queue, dtype: str, how: str) -> None:
    initial = np.random.default_rng(7).integers(0, 50, 20_000, dtype=np.int32)
    values = celerity.Buffer.from_array(initial)
    counts = celerity.Buffer((5, 10), dtype)
    argument = celerity.reduction(counts, "sum")
    queue.parallel_for(initial.size, histogram(dtype, how), values.read(access.one_to_one()), argument)
    expected = np.bincount(initial, minlength=50).reshape(5, 10).astype(dtype)  # small integers wrap
    np.testing.assert_array_equal(queue.fence(counts).result(), expected)


@pytest.mark.parametrize(("dtype", "operation"), REDUCTIONS)
def test_arrays_are_reduced_as_by_numpy(launch: Launch, dtype: str, operation: str) -> None:
    queue = launch()
    initial = few_values(dtype, operation)
    groups = 13
    spelling = SPELLINGS[dtype]
    source = f"""
    __global__ void reduce(celerity::chunk<1> chunk, accessor<const {spelling}, 1> values,
                           reducer<{spelling}, celerity::{operation}, 3> plain,
                           reducer<{spelling}, celerity::{operation}, 1> blocks) {{
        __shared__ {spelling} shared[{groups}];
        const auto own = blocks.in_block(shared);
        const auto item = chunk.item();
        if (chunk.contains(item)) {{
            plain(0, item[0] % {groups}, 0).combine(values[item]);
            own[item[0] % {groups}].combine(values[item]);
        }}
        own.flush();
    }}"""
    values = celerity.Buffer.from_array(initial)
    plain, blocks = celerity.Buffer((1, groups, 1), dtype), celerity.Buffer(groups, dtype)
    op: Any = BY_DEVICE_TYPE[operation]
    queue.parallel_for(
        initial.size,
        celerity.CudaKernel(source, "reduce", block=(96,)),
        values.read(access.one_to_one()),
        celerity.reduction(plain, op),
        celerity.reduction(blocks, op),
    )
    expected = np.full(groups, identity_of(op, np.dtype(dtype)), dtype)
    with np.errstate(over="ignore"):
        for i, value in enumerate(initial):
            expected[i % groups] = OPERATIONS[op].combine(expected[i % groups], value)
    np.testing.assert_array_equal(queue.fence(plain).result()[0, :, 0], expected)
    np.testing.assert_array_equal(queue.fence(blocks).result(), expected)


@pytest.mark.parametrize("include_current", [False, True])
def test_elements_that_no_thread_combines_keep_the_identity_or_the_old_value(
    queue: celerity.Queue, include_current: bool
) -> None:
    source = """
    __global__ void largest(celerity::chunk<1> chunk, reducer<long long, celerity::max, 1> out) {
        if (chunk.contains(chunk.item())) out[1000 * chunk.item()[0]].combine(chunk.item()[0]);
    }"""
    size = 1_000_000
    initial = np.arange(size) - size // 2
    out = celerity.Buffer.from_array(initial)
    for _ in range(2):
        argument = celerity.reduction(out, "max", include_current=include_current)
        queue.parallel_for(1000, celerity.CudaKernel(source, "largest"), argument)
    expected = initial.copy() if include_current else np.full(size, np.iinfo(np.int64).min)
    expected[::1000] = np.maximum(expected[::1000], np.arange(1000))
    np.testing.assert_array_equal(queue.fence(out).result(), expected)


def test_a_replay_begins_each_reduction_with_the_identity(queue: celerity.Queue) -> None:
    initial = np.random.default_rng(8).integers(0, 50, 5000, dtype=np.int32)
    values = celerity.Buffer.from_array(initial)
    counts = celerity.Buffer((5, 10), np.float64)
    kernel = histogram("float64", "in_block")

    def step() -> None:
        queue.parallel_for(5000, kernel, values.read(access.one_to_one()), celerity.reduction(counts, "sum"))

    queue.replay(queue.record(step), 40)
    expected = np.bincount(initial, minlength=50).reshape(5, 10)
    np.testing.assert_array_equal(queue.fence(counts).result(), expected)


def test_with_bounds_check_values_of_elements_inside_are_combined(launch: Launch, num_gpus: int) -> None:
    queue = launch(num_gpus, bounds_check=True)
    initial = np.random.default_rng(9).integers(0, 50, 5000, dtype=np.int32)
    values = celerity.Buffer.from_array(initial)
    for how in ("global", "in_block"):
        counts = celerity.Buffer((5, 10), np.uint32)
        argument = celerity.reduction(counts, "sum")
        queue.parallel_for(5000, histogram("uint32", how), values.read(access.one_to_one()), argument)
        expected = np.bincount(initial, minlength=50).reshape(5, 10)
        np.testing.assert_array_equal(queue.fence(counts).result(), expected)


def test_a_reducer_of_other_dimensions_is_refused_at_submit(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(100, np.int32))
    counts = celerity.Buffer(50, np.uint32, name="counts")
    with pytest.raises(celerity.errors.DimensionMismatch, match=r"Write celerity::reducer<unsigned int, .*sum, 1>"):
        queue.parallel_for(
            100,
            histogram("uint32", "global"),
            values.read(access.one_to_one()),
            celerity.reduction(counts, "sum"),
        )


def ordered(spelling: str, operation: str) -> celerity.CudaKernel:
    source = f"""
    __global__ void reduce(celerity::chunk<1> chunk, accessor<const {spelling}, 1> values,
                           celerity::ordered_reducer<{spelling}, celerity::{operation}> out) {{
        auto x = out.identity();
        for (long long i = chunk.item()[0]; i < chunk.max[0]; i += chunk.step(0)) x = out.fold(x, values(i));
        out.combine_block(x);
        out.combine_block(out.identity());
    }}"""
    return celerity.CudaKernel(source, "reduce", block=(96,), grid=(300,))


@pytest.mark.parametrize("operation", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_reductions_in_a_fixed_order_have_the_same_bits_in_every_run(
    queue: celerity.Queue, dtype: str, operation: Any
) -> None:
    initial = np.random.default_rng(3).normal(1, 1e-3, 200_000)
    if np.dtype(dtype).kind == "c":
        initial = initial * np.exp(1e-3j)
    values = celerity.Buffer.from_array(initial.astype(dtype))
    results = []
    for _ in range(20):
        result = celerity.Buffer((), dtype)
        argument = celerity.reduction(result, operation, deterministic=True)
        kernel = ordered(SPELLINGS[dtype], operation)
        queue.parallel_for(initial.size, kernel, values.read(access.one_to_one()), argument)
        results.append(queue.fence(result).result())
    assert len({result.tobytes() for result in results}) == 1
    exact = OPERATIONS[operation].combine.reduce(initial.astype(dtype).astype(np.complex128))
    np.testing.assert_allclose(results[0], exact, rtol=3e-2 if np.finfo(dtype).bits == 32 else 1e-8)


def test_the_old_value_takes_part_in_a_fixed_order_exactly_once_also_in_replays(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.full(10_000, 0.5))
    total = celerity.Buffer.from_array(np.float64(7))
    kernel = ordered("double", "sum")

    def step() -> None:
        argument = celerity.reduction(total, "sum", include_current=True, deterministic=True)
        queue.parallel_for(10_000, kernel, values.read(access.one_to_one()), argument)

    step()
    queue.replay(queue.record(step), 10)
    assert queue.fence(total).result() == 7 + 12 * 5000


def test_threads_that_combine_in_any_order_are_refused_where_the_order_is_to_be_fixed(queue: celerity.Queue) -> None:
    values = celerity.Buffer.from_array(np.zeros(100, np.float32))
    total = celerity.Buffer((), np.float32)
    argument = celerity.reduction(total, "sum", deterministic=True)
    with pytest.raises(
        celerity.errors.ArgumentTypeError, match="Write celerity::ordered_reducer<float, celerity::sum>"
    ):
        queue.parallel_for(100, reducing("float", "sum", "combine"), values.read(access.one_to_one()), argument)


def test_cupy_combines_at_indices_in_no_fixed_order(launch: Launch) -> None:
    def add(chunk: Any, sums: Any) -> None:
        with pytest.raises(
            celerity.errors.UsageError, match="no fixed order, but the reduction has deterministic=True"
        ):
            sums.combine_at(chunk.xp.zeros(3, np.int64), np.float32(0.5))
        sums.combine(chunk.xp.ones(4, np.float32))

    queue = launch()
    sums = celerity.Buffer(4, np.float32)
    queue.parallel_for(1, add, celerity.reduction(sums, "sum", deterministic=True))
    np.testing.assert_array_equal(queue.fence(sums).result(), np.ones(4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("operation", ["argmin", "argmax"])
def test_extrema_have_the_places_of_numpy(queue: celerity.Queue, dtype: str, operation: Any) -> None:
    placed = f"celerity::placed<{SPELLINGS[dtype]}, 2>"
    source = f"""
    __global__ void find(celerity::chunk<2> chunk, accessor<const {SPELLINGS[dtype]}, 2> values,
                         reducer<{placed}, celerity::{operation}> any, reducer<{placed}, celerity::{operation}> blocks,
                         reducer<{placed}, celerity::{operation}, 1> rows) {{
        __shared__ {placed} shared[8];
        const auto own = rows.in_block(shared);
        const auto item = chunk.item();
        if (chunk.contains(item)) {{
            any.combine(celerity::placed_at(values[item], item));
            own(item[0] % 8).combine(celerity::placed_at(values[item], item));
        }}
        blocks.combine_block(chunk.contains(item) ? celerity::placed_at(values[item], item) : blocks.identity());
        own.flush();
    }}"""
    initial = np.random.default_rng(11).integers(0, 100, (120, 130)).astype(dtype)
    if dtype == "float64":
        initial[70, 20] = initial[90, 10] = np.nan
    values = celerity.Buffer.from_array(initial)
    found_dtype = celerity.placed(dtype, 2)
    targets = [celerity.Buffer(shape, found_dtype) for shape in ((), (1,), (8,))]
    arguments = [celerity.reduction(target, operation) for target in targets]
    kernel = celerity.CudaKernel(source, "find")
    queue.parallel_for(initial.shape, kernel, values.read(access.one_to_one()), *arguments)
    for target in targets[:2]:
        found = queue.fence(target).result().reshape(())
        place = np.unravel_index(getattr(initial, operation)(), initial.shape)
        assert tuple(found["place"]) == place
        np.testing.assert_array_equal(found["value"], initial[place])
    for row, found in enumerate(queue.fence(targets[2]).result()):
        some = initial[row::8]
        i, j = np.unravel_index(getattr(some, operation)(), some.shape)
        assert tuple(found["place"]) == (row + 8 * i, j)
