# SPDX-License-Identifier: MIT
"""The kernel behind `executor/core/backends/cuda/cuda_small_copies`: several small strided copies in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celerity_py.cuda.contexts import on_device

# The layout is that of cuda_small_copies::arguments. All blocks with the same y work on one part together.
_SOURCE = r"""
struct Part {
    unsigned long long source, destination;
    unsigned long long count[3];
    long long source_stride[2], destination_stride[2];
    unsigned long long word_bytes;
};
struct Arguments {
    unsigned long long num_parts;
    Part parts[8];
};

template <typename Word>
__device__ void copy(const Part& part) {
    const unsigned long long total = part.count[0] * part.count[1] * part.count[2];
    const char* const source = reinterpret_cast<const char*>(part.source);
    char* const destination = reinterpret_cast<char*>(part.destination);
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < total;
         i += gridDim.x * (unsigned long long)blockDim.x) {
        const unsigned long long run = i / part.count[0];
        const unsigned long long word = i - run * part.count[0];
        const unsigned long long plane = run / part.count[1];
        const unsigned long long row = run - plane * part.count[1];
        const long long from = word * sizeof(Word) + row * part.source_stride[0] + plane * part.source_stride[1];
        const long long to =
            word * sizeof(Word) + row * part.destination_stride[0] + plane * part.destination_stride[1];
        // Another device has written it since this one looked last: past all caches.
        *reinterpret_cast<Word*>(destination + to) = __ldcv(reinterpret_cast<const Word*>(source + from));
    }
}

extern "C" __global__ void celerity_small_copies(const __grid_constant__ Arguments arguments) {
    const Part& part = arguments.parts[blockIdx.y];
    switch (part.word_bytes) {
    case 16: copy<int4>(part); break;
    case 8: copy<long long>(part); break;
    case 4: copy<int>(part); break;
    case 2: copy<short>(part); break;
    default: copy<char>(part); break;
    }
}
"""

_modules: dict[int, Any] = {}  # by ordinal; they live as long as the process


def small_copy_functions(ordinals: Sequence[int]) -> list[int]:
    """Compile the kernel for each GPU, or take it from CuPy's cache on disk.

    Returns:
        A CUfunction per ordinal.
    """
    import cupy

    functions = []
    for ordinal in ordinals:
        if ordinal not in _modules:
            with on_device(ordinal):
                module = cupy.RawModule(code=_SOURCE, options=("--std=c++17",))
                _modules[ordinal] = module.get_function("celerity_small_copies").kernel, module
        functions.append(int(_modules[ordinal][0].ptr))
    return functions
