# SPDX-License-Identifier: MIT
"""Runs fused kernels that numba has compiled, on boxes that are cut into parts."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from celerity_py import Box
from celerity_py.cpu.compilation import CpuKernel
from celerity_py.fusion.cpu_kernels import FusedCpuKernel, make_for_cpu
from tests.support.fused_kernels import maker_arguments, owner_of

_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)


def make_cpu_kernel(
    function: Callable[..., Any], box: Box, *arguments: Any, name: str = "kernel", **options: Any
) -> FusedCpuKernel:
    whole = options.pop("whole", box)
    return make_for_cpu(function, name, box, whole, maker_arguments(arguments), owner_of(function), **options)


def parts_of(box: Sequence[tuple[int, int]], num_cuts: int) -> Iterator[list[int]]:
    """The bounds of parts that have all items of a box once: each dimension is cut at up to so many places."""
    pieces = []
    for low, high in box:
        ends = sorted({low, high, *(low + (high - low) * (cut + 1) // (num_cuts + 1) for cut in range(num_cuts))})
        pieces.append(list(itertools.pairwise(ends)))
    for piece in itertools.product(*pieces):
        yield [end for interval in piece for end in interval]


def numbered_parts_of(box: Sequence[tuple[int, int]], count: int) -> Iterator[list[int]]:
    """The bounds of the parts of a pass with folds, each with its number behind them, cut as native code does."""
    cut = next((dim for dim, (low, high) in enumerate(box[:-1]) if high - low >= count), len(box) - 1)
    low, high = box[cut]
    before, behind = ([end for interval in part for end in interval] for part in (box[:cut], box[cut + 1 :]))
    for number in reversed(range(count)):  # in any order
        ends = (low + (high - low) * place // count for place in (number, number + 1))
        yield [*before, *ends, *behind, number]


def run_on_cpu(compiled: CpuKernel, kernel: FusedCpuKernel, arguments: Sequence[Any], num_cuts: int = 1) -> None:
    """Run the passes of a kernel on the arrays of the arguments, and on scratch memory full of garbage."""
    arrays = [arguments[place].array for place in kernel.accesses]
    addresses = [array.ctypes.data for array in arrays]
    strides = [stride for array in arrays for stride in array.strides]
    kept = []
    for scratch in kernel.scratch:
        memory = np.full(scratch.shape, 0x5A, dtype=np.uint8).repeat(scratch.dtype.itemsize, axis=-1)
        memory = memory.reshape(-1).view(scratch.dtype).reshape(scratch.shape)
        kept.append(memory)
        origin = sum(low * stride for low, stride in zip(scratch.origin, memory.strides, strict=True))
        addresses.append(memory.ctypes.data - origin)
        strides.extend(memory.strides)
    given = [np.array(values or [0], np.int64) for values in (addresses, strides, kernel.numbers)]
    given.append(kernel.scalars_of(arguments))
    for address, call in zip(compiled.addresses, kernel.calls, strict=True):
        for part in numbered_parts_of(*call) if call.parts else parts_of(call.box, num_cuts):
            bounds = np.array(part or [0], np.int64)
            _FUNCTION(address)(*(values.ctypes.data for values in (*given, bounds)))
