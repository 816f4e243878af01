# SPDX-License-Identifier: MIT
"""Reductions of CUDA C++ kernels in a fixed order: which tasks they become, and which ones are refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.buffer import Buffer
from celerity_py.cuda.launches import _Matcher
from celerity_py.cuda.signatures import parse_signature
from celerity_py.errors import ArgumentTypeError, OverlappingAccess, UsageError
from celerity_py.kernels import CudaKernel
from celerity_py.reductions.ordered_reductions import finish_ordered, order_reductions
from celerity_py.submit.arguments import collect
from celerity_py.vocabulary.accesses import READ_WRITE, WRITE
from celerity_py.vocabulary.submissions import Submission

ORDERED = "celerity::ordered_reducer<{T}, celerity::{op}>"


@pytest.fixture(autouse=True)
def queue() -> Iterator[celerity.Queue]:
    with celerity.Queue() as queue:
        yield queue


class FakeRuntime:
    """Notes the submits of kernels."""

    def __init__(self) -> None:
        self.submits: list[Any] = []

    def submit_kernel(self, *call: Any) -> None:
        self.submits.append(call)


def submit(kernel: CudaKernel, space: Box, *args: Any) -> tuple[Submission, list[Any], FakeRuntime]:
    """As the delegate does for the CUDA backend: the submission, the reductions, and what comes behind it."""
    runtime = args[-1].buffer.record.runtime
    _, reductions, kept, _ = collect(args, runtime, "who")
    submission = Submission("kernel", "step", kernel, kept, space, sys._getframe())
    order_reductions(submission, args, reductions, sys._getframe())
    behind: Any = FakeRuntime()
    signature = parse_signature(kernel.source, kernel.name, "who")
    _Matcher(signature, submission).check()
    finish_ordered(behind, submission, 0)
    return submission, reductions, behind


def kernel_of(reducer: str, dims: int = 1, **settings: Any) -> CudaKernel:
    return CudaKernel(f"__global__ void f(celerity::chunk<{dims}> chunk, {reducer} out) {{}}", "f", **settings)


@pytest.mark.parametrize(("dtype", "spelling"), [("float32", "float"), ("complex128", "double2")])
@pytest.mark.parametrize("include_current", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_blocks_combine_apart_and_a_second_kernel_writes_the_result(
    dtype: str, spelling: str, include_current: bool, shape: tuple[int, ...]
) -> None:
    total = Buffer(shape, dtype, name="total")
    argument = celerity.reduction(total, "prod", include_current, deterministic=True)
    kernel = kernel_of(ORDERED.format(T=spelling, op="prod"), block=(128,))
    submission, reductions, behind = submit(kernel, Box((100,), (1000,)), argument)
    blocks = submission.args[0].record
    assert blocks.shape == (8,)  # of 128 threads, for 900 items
    assert blocks.dtype == dtype
    assert reductions == [(blocks.id, "prod", dtype, False)]
    ((second, space, args, name, *_),) = behind.submits
    assert (space, name) == (1, "step: blocks in order")
    assert [args[0].port.record, args[1].port.record] == [blocks, total.record]
    assert args[2:] == (8, include_current)
    assert args[1].port.mode == (READ_WRITE if include_current else WRITE)
    kept = [args[0].port, args[1].port, *args[2:]]
    submission = Submission("kernel", name, second, kept, Box((0,), (1,)), sys._getframe())
    _Matcher(parse_signature(second.source, second.name, "who"), submission).check()


def test_a_target_keeps_its_blocks_so_that_recordings_can_refer_to_them() -> None:
    total = Buffer((), np.float32)
    kernel = kernel_of(ORDERED.format(T="float", op="sum"), block=(32,))
    first, second, other = (
        submit(kernel, Box((0,), (size,)), celerity.reduction(total, "sum", deterministic=True))[0].args[0].record
        for size in (64, 64, 100)
    )
    assert first is second
    assert other.shape == (4,)


@pytest.mark.parametrize(
    ("settings", "dims", "count"),
    [
        ({}, 1, 4),
        ({"grid": (7,)}, 1, 7),
        ({"items": (4,)}, 1, 1),
        ({}, 2, 2 * 32),
        ({"block": (4, 5), "items": (2, 1)}, 2, 2 * 205),
        ({"block": (8,)}, 0, 1),
    ],
)
def test_there_is_an_element_for_each_block_of_the_largest_grid(settings: Any, dims: int, count: int) -> None:
    total = Buffer((), np.float64)
    kernel = kernel_of(ORDERED.format(T="double", op="sum"), dims, **settings)
    space = Box((0,) * dims, ((), (1024,), (16, 1024))[dims])
    argument = celerity.reduction(total, "sum", deterministic=True)
    assert submit(kernel, space, argument)[0].args[0].record.shape == (count,)


@pytest.mark.parametrize(("op", "dtype", "type_name"), [("sum", "int64", "long long"), ("max", "float32", "float")])
def test_operations_whose_order_makes_no_difference_stay_as_they_are(op: Any, dtype: str, type_name: str) -> None:
    total = Buffer((4,), dtype)
    argument = celerity.reduction(total, op, deterministic=True)
    kernel = kernel_of(f"reducer<{type_name}, celerity::{op}, 1>")
    submission, reductions, behind = submit(kernel, Box((0,), (100,)), argument)
    assert submission.args[0].record is total.record
    assert reductions == [argument.native]
    assert not behind.submits


def test_a_replay_does_not_submit_the_second_kernel_again() -> None:
    total = Buffer((), np.float32)
    argument = celerity.reduction(total, "sum", deterministic=True)
    submission, _, behind = submit(kernel_of(ORDERED.format(T="float", op="sum")), Box((0,), (100,)), argument)
    assert len(behind.submits) == 1
    renewed = SimpleNamespace(args=[submission.args[0].fresh()], name="step")
    finish_ordered(behind, renewed, 0)  # type: ignore[arg-type]
    assert len(behind.submits) == 1
    assert renewed.args[0].kind == submission.args[0].kind


@pytest.mark.parametrize(
    ("shape", "deterministic", "reducer", "settings", "error", "message"),
    [
        ((), True, "reducer<float, celerity::sum>", {}, ArgumentTypeError,
         r"reduction 'sum' into B\d+ \"total\", .* Write celerity::ordered_reducer<float, celerity::sum>"),
        ((), False, "celerity::ordered_reducer<float, celerity::sum>", {}, ArgumentTypeError,
         r"with deterministic=True; .* Write celerity::reducer<float, celerity::sum>"),
        ((), True, "celerity::ordered_reducer<double, celerity::sum>", {}, ArgumentTypeError, "Write float"),
        ((3,), True, "reducer<float, celerity::sum, 1>", {}, UsageError,
         r"of shape \(3,\) with deterministic=True, .* Reduce in a kernel in Python, with CuPy"),
        ((), True, "celerity::ordered_reducer<float, celerity::sum>", {"block": (1,)}, UsageError,
         r"in 2097152 blocks, which is more than 1048576. Give the CudaKernel fewer blocks, with grid="),
    ],
)  # fmt: skip
def test_a_kernel_that_cannot_keep_the_order_is_refused(  # noqa: PLR0917 - a row of a table
    shape: tuple[int, ...], deterministic: bool, reducer: str, settings: Any, error: Any, message: str
) -> None:
    total = Buffer(shape, np.float32, name="total")
    argument = celerity.reduction(total, "sum", deterministic=deterministic)
    with pytest.raises(error, match=message) as caught:
        submit(kernel_of(reducer, **settings), Box((0,), (1 << 21,)), argument)
    assert str(caught.value).endswith("Nothing was submitted.")
    assert 'kernel "step" (submitted at ' in str(caught.value)


def test_a_target_appears_once_in_a_task() -> None:
    total = Buffer((), np.float32, name="total")
    kernel = kernel_of("accessor<const float, 0> old, " + ORDERED.format(T="float", op="sum"))
    argument = celerity.reduction(total, "sum", deterministic=True)
    with pytest.raises(
        OverlappingAccess, match=r'buffer B\d+ "total" is the target of a reduction and is used a second'
    ):
        submit(kernel, Box((0,), (100,)), total.read(), argument)
    with pytest.raises(OverlappingAccess, match="used a second time"):
        submit(kernel, Box((0,), (100,)), argument, argument)


def test_a_kernel_in_python_reduces_as_always(queue: celerity.Queue) -> None:
    def add(chunk: Any, total: Any) -> None:
        total.combine(np.float32(chunk.box.size))

    total = Buffer((), np.float32)
    queue.parallel_for(1000, add, celerity.reduction(total, "sum", deterministic=True))
    assert queue.fence(total).result() == 1000


def test_access_of_all_is_that_of_the_second_kernel() -> None:
    total = Buffer((), np.float32)
    argument = celerity.reduction(total, "sum", deterministic=True)
    _, _, behind = submit(kernel_of(ORDERED.format(T="float", op="sum")), Box((0,), (100,)), argument)
    read, write = behind.submits[0][2][:2]
    assert repr(read.mapper) == repr(write.mapper) == repr(access.all())
