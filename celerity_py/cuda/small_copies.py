# SPDX-License-Identifier: MIT
"""The kernel behind `executor/core/backends/cuda/cuda_small_copies`: several small strided copies in one launch.

For an exchange with other ranks, the kernel tells them that data of this rank is ready, waits until theirs is, copies
it, and answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celerity_py.cuda.contexts import on_device

# The layout is that of cuda_small_copies::arguments. All blocks with the same y work on one part together.
_SOURCE = r"""
struct Flag {
    volatile unsigned* address;
    unsigned long long value;
};
struct Part {
    unsigned long long source, destination;
    unsigned long long count[3];
    long long source_stride[2], destination_stride[2];
    unsigned long long word_bytes;
    Flag ready;
};
struct Arguments {
    unsigned long long num_parts, waits, num_raised, num_answers;
    unsigned* arrived;  // blocks of a launch with answers; 0 between launches
    const volatile unsigned* stop;
    Part parts[8];
    Flag raised[8], answers[8];
};

// Flags lie in memory of the host. Many looks slow the GPU down: there are few blocks, and few looks at the stop.
// After a stop nothing of this context may run, as it would take the data for good.
__device__ void raise_flags(const Arguments& arguments) {
    if (threadIdx.x != 0 || blockIdx.x != 0 || blockIdx.y != 0) return;
    __threadfence_system();
    for (unsigned i = 0; i < arguments.num_raised; ++i)
        *arguments.raised[i].address = (unsigned)arguments.raised[i].value;
}

__device__ void wait(const Flag& flag, const volatile unsigned* stop) {
    if (threadIdx.x == 0) {
        for (unsigned look = 1; (int)(*flag.address - (unsigned)flag.value) < 0; ++look) {
            if (look % 1024 == 0 && *stop != 0) __trap();
#if __CUDA_ARCH__ >= 700
            if (look > 10000) __nanosleep(2000);  // the other rank is some 10 ms behind: leave the bus to others
#endif
        }
        __threadfence_system();
    }
    __syncthreads();
}

__device__ void answer(const Arguments& arguments) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence_system();
    if (atomicAdd(arguments.arrived, 1u) != gridDim.x * gridDim.y - 1) return;
    *arguments.arrived = 0;
    __threadfence_system();
    for (unsigned i = 0; i < arguments.num_answers; ++i)
        *arguments.answers[i].address = (unsigned)arguments.answers[i].value;
}

// Where word i of the part lies, from its first byte, in source and destination.
template <typename Word>
__device__ void locate(const Part& part, unsigned long long i, long long& from, long long& to) {
    const unsigned long long run = i / part.count[0];
    const unsigned long long word = i - run * part.count[0];
    const unsigned long long plane = run / part.count[1];
    const unsigned long long row = run - plane * part.count[1];
    from = word * sizeof(Word) + row * part.source_stride[0] + plane * part.source_stride[1];
    to = word * sizeof(Word) + row * part.destination_stride[0] + plane * part.destination_stride[1];
}

template <typename Word>
__device__ void copy(const Part& part) {
    const unsigned long long total = part.count[0] * part.count[1] * part.count[2];
    const char* const source = reinterpret_cast<const char*>(part.source);
    char* const destination = reinterpret_cast<char*>(part.destination);
    const unsigned long long stride = gridDim.x * (unsigned long long)blockDim.x;
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    // Four loads at a time are under way: the data lies behind a link.
    for (; i + 3 * stride < total; i += 4 * stride) {
        Word words[4];
        long long from[4], to[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) locate<Word>(part, i + k * stride, from[k], to[k]);
#pragma unroll
        for (int k = 0; k < 4; ++k)
            // Another device has written it since this one looked last: past all caches.
            words[k] = __ldcv(reinterpret_cast<const Word*>(source + from[k]));
#pragma unroll
        for (int k = 0; k < 4; ++k) *reinterpret_cast<Word*>(destination + to[k]) = words[k];
    }
    for (; i < total; i += stride) {
        long long from, to;
        locate<Word>(part, i, from, to);
        *reinterpret_cast<Word*>(destination + to) = __ldcv(reinterpret_cast<const Word*>(source + from));
    }
}

extern "C" __global__ void celerity_small_copies(const __grid_constant__ Arguments arguments) {
    const Part& part = arguments.parts[blockIdx.y];
    if (arguments.num_raised > 0) raise_flags(arguments);
    if (arguments.waits && part.ready.address != nullptr) wait(part.ready, arguments.stop);
    switch (part.word_bytes) {
    case 16: copy<int4>(part); break;
    case 8: copy<long long>(part); break;
    case 4: copy<int>(part); break;
    case 2: copy<short>(part); break;
    default: copy<char>(part); break;
    }
    if (arguments.num_answers > 0) answer(arguments);
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
