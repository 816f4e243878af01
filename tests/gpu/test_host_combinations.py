# SPDX-License-Identifier: MIT
"""Reductions that NumPy combines on the host, in Python kernels on GPUs; and those of CUDA C++ that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import UsageError
from tests.support.host_combinations import PROGRAMS

SOURCE = """
__global__ void add(celerity::chunk<1> chunk, reducer<$T, celerity::sum> out) {
    if(chunk.contains(chunk.item())) out.combine($T(1));
}
"""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_partial_results_combine_on_the_host(queue: celerity.Queue, program: Callable[[celerity.Queue], None]) -> None:
    program(queue)


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "and", "or"])
def test_float16(queue: celerity.Queue, op: Any) -> None:
    values = np.random.default_rng(3).integers(1, 3, 12).astype(np.float16)
    source, out = celerity.Buffer.from_array(values), celerity.Buffer((), np.float16)

    def contribute(chunk: celerity.Chunk, values: celerity.View, out: celerity.Reducer) -> None:
        for value in values[chunk.box]:
            out.combine(value)

    queue.parallel_for(12, contribute, source.read(access.one_to_one()), celerity.reduction(out, op))
    ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
    combine = ufunc.get(op, np.logical_and if op == "and" else np.logical_or)
    assert queue.fence(out).result() == np.float16(combine.reduce(values))


@pytest.mark.parametrize(
    ("dtype", "op", "options", "told"),
    [
        (np.float32, np.add, {"identity": 0}, "the callable add"),
        (np.float16, "sum", {}, "'sum' of float16.*Or reduce float32"),
        (celerity.placed(np.float16), "argmin", {}, "'argmin' of"),
    ],
)
def test_a_kernel_in_cuda_refuses_them_at_the_submit(
    queue: celerity.Queue, dtype: Any, op: Any, options: Any, told: str
) -> None:
    out = celerity.Buffer((), dtype, name="out")
    kernel = celerity.CudaKernel(SOURCE.replace("$T", "float"), "add")
    with pytest.raises(UsageError, match=rf"is in CUDA C\+\+ and reduces into .*\"out\" by {told}.* Nothing was"):
        queue.parallel_for(8, kernel, celerity.reduction(out, op, **options))


def test_pairs_have_no_array_of_cupy(queue: celerity.Queue) -> None:
    told = []

    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        with pytest.raises(UsageError, match="CuPy has no arrays of"):
            out.array  # noqa: B018
        out.combine(1.0, chunk.box.min[0])
        told.append(chunk.device)

    out = celerity.Buffer((), celerity.placed(np.float32), name="out")
    queue.parallel_for(8, kernel, celerity.reduction(out, "argmin"))
    assert queue.fence(out).result().tolist() == (1.0, 0)
    assert told
