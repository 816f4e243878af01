# SPDX-License-Identifier: MIT
"""The kernels behind `executor/core/backends/cuda/cuda_folds`: one GPU combines the partial results of its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from celerity_py import _native
from celerity_py.cuda import compilation
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.vocabulary.operations import OPERATIONS

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime

# The parameters are those of cuda_folds::launch. The operations are those of reducers.
_SOURCE: Final = """
using T = $T;
using Op = celerity::$OP;

using number = unsigned long long;

__global__ void fold_partials(const T* partials, number count, number num_elements, T* result, unsigned* has_values) {
    const number step = number(gridDim.x) * blockDim.x;
    for (number i = number(blockIdx.x) * blockDim.x + threadIdx.x; i < num_elements; i += step) {
        T folded = partials[i];
        for (number k = 1; k < count; ++k)
            folded = celerity::detail::fold<Op>(folded, partials[k * num_elements + i]);
        result[i] = folded;
        if (has_values != nullptr && !celerity::detail::has_same_bits(folded, celerity::detail::identity<Op, T>()))
            *has_values = 1;
    }
}
"""
#: The host rounds each product of complex numbers.
_OPTIONS: Final = ("--fmad=false",)


def program_of(op: str, dtype: str) -> compilation.Program:
    """The input of the compilation for one operation and dtype that native code combines."""
    source = _SOURCE.replace("$T", SPELLINGS[dtype]).replace("$OP", OPERATIONS[op].device_type)
    return compilation.Program(source, "fold_partials", _OPTIONS)


class FoldKernels:
    """The kernels that are loaded on all devices of a rank."""

    def __init__(self) -> None:
        #: Which the executor launches.
        self.native = _native.CudaFolds()
        self._known: set[tuple[str, str]] = set()

    def prepare(self, runtime: Runtime, reductions: list[tuple[Any, ...]]) -> None:
        """Compile and load the kernels that a task may need. Collective, by the thread that submits.

        Args:
            runtime: The runtime to which the task is submitted.
            reductions: Of the task, as the scheduler takes them.
        """
        devices = runtime.devices
        for _, op, dtype, includes_current, *_ in reductions:
            has_several = devices.count > 1 or includes_current
            if op == "callable" or not has_several or (op, dtype) in self._known:
                continue
            program = program_of(op, dtype)
            if not compilation.is_loaded(program, devices.ordinals):
                runtime.drain()  # as before the first launch of any kernel
            self.native.add(op, dtype, compilation.load(program, devices.ordinals))
            self._known.add((op, dtype))
