# SPDX-License-Identifier: MIT
"""Kernels of random programs in CUDA C++: launched by the native executor, with no Python between inputs and outputs.

One thread runs one item. Tables in pinned host memory list the elements that an item touches, the values it has to find
there and those it has to leave, so that the source depends on the types of the accesses only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from itertools import product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import celerity_py as celerity
from tests.property.programs import ON_HOST, Access, Kernel, Mode, Operator
from tests.verification.elements import UserBox, flat_boxes, flat_indices, full_box, to_flat

Values = npt.NDArray[Any]

_MOST_ARGUMENTS = 2
"""More would mean too many different sources to compile."""
_DELAY_CYCLES = 200_000
_BLOCKS: dict[int, tuple[int, ...]] = {0: (1,), 1: (32,), 2: (4, 8), 3: (2, 4, 4)}
_AXES = "xyz"
_C_TYPES = {
    np.dtype(np.uint8): "unsigned char",
    np.dtype(np.uint16): "unsigned short",
    np.dtype(np.uint32): "unsigned int",
    np.dtype(np.uint64): "unsigned long long",
    np.dtype(np.int64): "long long",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}


class Contents(Protocol):
    """Of the buffers of a task, before and after it; and the contributions of its items to its reductions."""

    before: dict[int, Values]
    after: dict[int, Values]
    contributions: list[Values]


class NativeKernels:
    """Makes CUDA kernels of tasks, and keeps the differences that they found."""

    def __init__(self, *, is_cuda: bool) -> None:
        self._num_prepared = 0
        self._is_cuda = is_cuda
        self._kernels: dict[str, celerity.CudaKernel] = {}
        self._tables: list[Values] = []
        self._errors: list[tuple[str, Values]] = []

    def can_run(self, task: Kernel, shapes: Mapping[int, tuple[int, ...]], dtypes: Mapping[int, np.dtype[Any]]) -> bool:
        """Whether items can do all of the task on their own: none overwrites an element that another one accesses."""
        if not self._is_cuda or len(task.accesses) + len(task.reductions) > _MOST_ARGUMENTS:
            return False
        if any(max(shapes[each.buffer], default=1) > 1 or each.op in ON_HOST for each in task.reductions):
            return False
        if any(dtypes[access.buffer] not in _C_TYPES for access in task.accesses):
            return False
        for access in task.accesses:
            _, elements = item_tables(access, task.box, shapes[access.buffer])
            if access.mode != "read" and len(np.unique(elements)) < len(elements):
                return False
        return True

    def prepare(
        self, number: int, task: Kernel, contents: Contents, is_late: bool
    ) -> tuple[celerity.CudaKernel, list[Any]]:
        """The kernel, and its arguments behind its accesses and reductions."""
        self._num_prepared += 1
        errors = self._pinned(np.zeros(1, np.uint32))
        self._errors.append((f"S{number}: a native kernel finds wrong elements", errors))
        scalars: list[Any] = [_address(errors), _DELAY_CYCLES if is_late else 0]
        types = []
        for access in task.accesses:
            expected, left = contents.before[access.buffer], contents.after[access.buffer]
            types.append((access.mode, expected.dtype, expected.ndim, access.mapper.is_periodic))
            starts, elements = item_tables(access, task.box, expected.shape)
            shape = np.array([*expected.shape, 1, 1, 1][:3], np.int64)
            scalars += [_address(self._pinned(table)) for table in (shape, starts, elements, expected, left)]
        scalars += [_address(self._pinned(items)) for items in contents.contributions]
        source = source_of(len(task.box), types, [reduction.op for reduction in task.reductions])
        if source not in self._kernels:
            self._kernels[source] = celerity.CudaKernel(source, "run_item", block=_BLOCKS[len(task.box)])
        return self._kernels[source], scalars

    def take_count(self) -> int:
        """The number of kernels prepared since the last call."""
        count, self._num_prepared = self._num_prepared, 0
        return count

    def take_errors(self) -> list[str]:
        """The differences found so far; everything is complete."""
        wrong = [where for where, errors in self._errors if errors[0]]
        self._errors.clear()
        self._tables.clear()
        return wrong

    def _pinned(self, values: Values) -> Values:
        import cupyx

        table = cupyx.empty_pinned((max(1, values.size),), values.dtype)
        table[: values.size] = values.reshape(-1)
        self._tables.append(table)
        return table  # type: ignore[no-any-return]


def item_tables(access: Access, whole: UserBox, shape: tuple[int, ...]) -> tuple[Values, Values]:
    """Elements, by row-major position in the buffer, of all items in row-major order; and where each item's start."""
    space = to_flat(full_box(shape))
    parts = []
    for item in product(*(range(low, high) for low, high in whole)):
        region = access.mapper.region(tuple((i, i + 1) for i in item), whole, shape)
        parts.append(flat_indices(space, flat_boxes(region)))
    starts = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    return starts, np.concatenate([*parts, np.empty(0, np.intp)]).astype(np.int64)


def source_of(dims: int, types: list[tuple[Mode, np.dtype[Any], int, bool]], operators: list[Operator]) -> str:
    """The kernel `run_item` for these reductions, and accesses: mode, element type, dimensions, whether periodic."""
    parameters = [f"celerity::chunk<{dims}> chunk"]
    tables = []
    checks = []
    writes = []
    for n, (mode, dtype, ndim, is_periodic) in enumerate(types):
        element = _C_TYPES[dtype]
        wrap = ", celerity::wrap" if is_periodic else ""
        parameters.append(f"celerity::accessor<{'const ' if mode == 'read' else ''}{element}, {ndim}{wrap}> a{n}")
        tables += [f"unsigned long long {name}{n}" for name in ("shape", "starts", "elements", "before", "after")]
        starts = f"((const long long*)starts{n})"
        loop = (
            f"    for(long long k = {starts}[item]; k < {starts}[item + 1]; ++k) {{\n"
            f"        const long long e = ((const long long*)elements{n})[k];\n"
            f"        %s\n"
            f"    }}"
        )
        place = f"a{n}({_coordinates(n, ndim)})" if is_periodic else f"a{n}.data[{_offset(n, ndim)}]"
        if mode != "write":
            checks.append(loop % f"if({place} != ((const {element}*)before{n})[e]) ++wrong;")
        if mode != "read":
            writes.append(loop % f"{place} = ((const {element}*)after{n})[e] + wrong;")
    parameters += [f"celerity::reducer<unsigned int, celerity::{op}> r{n}" for n, op in enumerate(operators)]
    tables += [f"unsigned long long items{n}" for n in range(len(operators))]
    combinations = [f"    r{n}.combine(((const unsigned int*)items{n})[item] + wrong);" for n in range(len(operators))]
    parameters += ["unsigned long long errors", "long long delay", *tables]
    item = ["    long long item = 0;"]
    for d in range(dims):
        axis = _AXES[dims - 1 - d]
        thread = f"blockIdx.{axis} * (long long)blockDim.{axis} + threadIdx.{axis}"
        item += [
            f"    const long long i{d} = chunk.min[{d}] + {thread};",
            f"    if(i{d} >= chunk.max[{d}]) return;",
            f"    item = item * (chunk.global_max[{d}] - chunk.global_min[{d}]) + i{d} - chunk.global_min[{d}];",
        ]
    lines = [
        f"__global__ void run_item({', '.join(parameters)}) {{",
        *item,
        "    const long long begin = clock64();",
        "    while(clock64() - begin < delay) {}",
        "    unsigned int wrong = 0;",
        *checks,
        "    if(wrong != 0) *(volatile unsigned int*)errors = wrong;",
        *writes,
        *combinations,
        "}",
    ]
    return "\n".join(lines) + "\n"


def _offset(n: int, ndim: int) -> str:
    """Where element `e`, a row-major position in the whole buffer, lies behind the accessor's `data`."""
    if ndim < 2:
        return "e"
    extents = f"((const long long*)shape{n})"
    if ndim == 2:
        return f"e / {extents}[1] * a{n}.stride[0] + e % {extents}[1]"
    return (
        f"e / ({extents}[1] * {extents}[2]) * a{n}.stride[0] + e / {extents}[2] % {extents}[1] * a{n}.stride[1]"
        f" + e % {extents}[2]"
    )


def _coordinates(n: int, ndim: int) -> str:
    """Those of element `e`."""
    extents = f"((const long long*)shape{n})"
    coordinates = [f"e / ({extents}[1] * {extents}[2])", f"e / {extents}[2] % {extents}[1]", f"e % {extents}[2]"]
    if ndim == 2:
        coordinates = [f"e / {extents}[1]", f"e % {extents}[1]"]
    return ", ".join(coordinates if ndim > 1 else ["e"])


def _address(values: Values) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.__array_interface__["data"][0])
