# SPDX-License-Identifier: MIT
"""A kernel that holds its stream until the host lets go: overlap that is seen, not timed.

The words that host and device exchange lie in pinned host memory. A latch gives up by itself after a number of clock
cycles of the device, and remembers that it did.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py.runtime import lifecycle

#: About 20 s.
LIMIT_CYCLES = 40_000_000_000
PATIENCE_S = 12.0

_HELD, _GAVE_UP = 1, 3
_THREADS = 128

_HOLD = """
__device__ void hold_stream(unsigned long long latch, long long limit) {
    volatile unsigned int* words = (volatile unsigned int*)latch;
    words[0] = 1;
    __threadfence_system();
    const long long begin = clock64();
    unsigned int state = 2;
    while(words[1] == 0) {
        if(clock64() - begin > limit) {
            state = 3;
            break;
        }
    }
    words[0] = state;
    __threadfence_system();
}
__device__ void mark_word(unsigned long long latch, unsigned int value) {
    ((volatile unsigned int*)latch)[2] = value;
    __threadfence_system();
}
"""

_RAW = (
    _HOLD
    + """
extern "C" __global__ void hold(unsigned long long latch, long long limit) { hold_stream(latch, limit); }
extern "C" __global__ void mark(unsigned long long latch, unsigned int value) { mark_word(latch, value); }
extern "C" __global__ void number(int* out, long long n, long long first) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if(i < n) out[i] = (int)(first + i);
}
extern "C" __global__ void add(int* out, const int* in, long long n, int value) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if(i < n) out[i] = in[i] + value;
}
// out[i] = in[j - 1] + in[j] + in[j + 1] with j = i + shift
extern "C" __global__ void sum3(int* out, const int* in, long long n, long long n_in, long long shift) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if(i >= n) return;
    const long long j = i + shift;
    out[i] = (j > 0 ? in[j - 1] : 0) + in[j] + (j + 1 < n_in ? in[j + 1] : 0);
}
extern "C" __global__ void join(int* out, const int* a, const int* b, const int* c, const int* d, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if(i < n) out[i] = a[i] + b[i] + c[i] + d[i];
}
"""
)

_NATIVE = (
    _HOLD
    + """
__device__ long long item(const celerity::chunk<1>& chunk) {
    return chunk.min[0] + blockIdx.x * (long long)blockDim.x + threadIdx.x;
}
__global__ void number(celerity::chunk<1> chunk, celerity::accessor<int, 1> out, unsigned long long latch,
    long long limit) {
    const long long i = item(chunk);
    if(i >= chunk.max[0]) return;
    if(i == 0) hold_stream(latch, limit);
    out.data[i] = (int)i;
}
__global__ void mark(celerity::chunk<1> chunk, celerity::accessor<int, 1> out, unsigned long long latch, int value) {
    const long long i = item(chunk);
    if(i >= chunk.max[0]) return;
    out.data[i] = (int)i;
    if(i == chunk.global_max[0] - 1) mark_word(latch, value);
}
__global__ void add(celerity::chunk<1> chunk, celerity::accessor<int, 1> out, celerity::accessor<const int, 1> in,
    int value) {
    const long long i = item(chunk);
    if(i < chunk.max[0]) out.data[i] = in.data[i] + value;
}
__global__ void sum3(celerity::chunk<1> chunk, celerity::accessor<int, 1> out, celerity::accessor<const int, 1> in) {
    const long long i = item(chunk);
    if(i >= chunk.max[0]) return;
    const long long n = chunk.global_max[0];
    out.data[i] = (i > 0 ? in.data[i - 1] : 0) + in.data[i] + (i + 1 < n ? in.data[i + 1] : 0);
}
__global__ void join(celerity::chunk<1> chunk, celerity::accessor<int, 1> out, celerity::accessor<const int, 1> a,
    celerity::accessor<const int, 1> b, celerity::accessor<const int, 1> c, celerity::accessor<const int, 1> d) {
    const long long i = item(chunk);
    if(i < chunk.max[0]) out.data[i] = a.data[i] + b.data[i] + c.data[i] + d.data[i];
}
"""
)


@functools.cache
def _raw_kernel(name: str) -> Any:
    import cupy

    return cupy.RawKernel(_RAW, name)


def _launch(name: str, n: int, *arguments: Any) -> None:
    """On the current stream. CuPy's own kernels would be loaded at their first use, and that waits for a latch."""
    _raw_kernel(name)((-(-n // _THREADS),), (_THREADS,), arguments)


class Latch:
    """Open at first, so that a program can run once without it: modules and memory of that run are there later."""

    def __init__(self) -> None:
        import cupy

        self._memory = cupy.cuda.alloc_pinned_memory(64)
        self.words = np.frombuffer(self._memory, np.uint32, 16)
        self.address = int(self._memory.ptr)
        self.release()
        for ordinal in range(cupy.cuda.runtime.getDeviceCount()):
            with cupy.cuda.Device(ordinal):
                one = cupy.zeros(1, np.int32).data.ptr
                pointer = np.uint64(one)
                self.hold()
                self.mark(1)
                _launch("number", 1, pointer, np.int64(1), np.int64(0))
                _launch("add", 1, pointer, pointer, np.int64(1), np.int32(0))
                _launch("sum3", 1, pointer, pointer, np.int64(1), np.int64(1), np.int64(0))
                _launch("join", 1, *(pointer,) * 5, np.int64(1))
                cupy.cuda.Device().synchronize()

    def hold(self) -> None:
        """Put the latch on the current stream."""
        _raw_kernel("hold")((1,), (1,), (np.uint64(self.address), np.int64(LIMIT_CYCLES)))

    def mark(self, value: int) -> None:
        """Let the current stream tell the host that it has come here."""
        _raw_kernel("mark")((1,), (1,), (np.uint64(self.address), np.uint32(value)))

    def close(self) -> None:
        """Work that is held from now on waits for `release`."""
        self.words[:3] = 0

    def release(self) -> None:
        self.words[1] = 1

    @property
    def is_held(self) -> bool:
        return int(self.words[0]) == _HELD

    @property
    def gave_up(self) -> bool:
        return int(self.words[0]) == _GAVE_UP

    @property
    def marked(self) -> int:
        return int(self.words[2])


class Kernels:
    """Kernels over buffers of one dimension, int32, that load nothing after their first run.

    `number(out)` holds the latch on the first device and numbers the elements; `mark(out, value)` tells the host on the
    last device; `add(out, in, value)`; `sum3(out, in)` sums neighbours; `join(out, a, b, c, d)`.
    """

    def __init__(self, latch: Latch) -> None:
        self.latch = latch

    def submit(self, queue: celerity.Queue, name: str, *arguments: Any) -> None:
        first = arguments[0]
        scalars = {
            "number": (self.latch.address, LIMIT_CYCLES),
            "mark": (self.latch.address,),
        }
        accesses = [argument for argument in arguments if not isinstance(argument, int)]
        values = [argument for argument in arguments if isinstance(argument, int)]
        queue.parallel_for(first.buffer.shape, self.kernel(name), *accesses, *scalars.get(name, ()), *values, name=name)

    def kernel(self, name: str) -> Any:
        raise NotImplementedError

    def count_issued(self) -> int:
        """Kernels that were put on a stream, without `number`; of CUDA kernels, those that may not be complete yet."""
        raise NotImplementedError


class CudaKernels(Kernels):
    """Launched by the native executor."""

    def __init__(self, latch: Latch) -> None:
        super().__init__(latch)
        self._kernels = {
            name: celerity.CudaKernel(_NATIVE, name, block=(_THREADS,))
            for name in ("number", "mark", "add", "sum3", "join")
        }

    def kernel(self, name: str) -> Any:
        return self._kernels[name]

    def count_issued(self) -> int:
        texts = [str(item[1]) for item in active_instructions()]
        return sum("device_kernel" in text and "predecessors" not in text for text in texts) - 1


class PythonKernels(Kernels):
    """Called on a launcher thread; each call puts a kernel on the stream and returns."""

    def __init__(self, latch: Latch) -> None:
        super().__init__(latch)
        self._returned: list[str] = []

    def kernel(self, name: str) -> Any:
        body = getattr(self, f"_{name}")

        def kernel(chunk: Any, *arguments: Any) -> None:
            body(chunk, *arguments)
            if name != "number":
                self._returned.append(name)

        return kernel

    def forget_calls(self) -> None:
        self._returned.clear()

    def count_issued(self) -> int:
        return len(self._returned)

    def _number(self, chunk: Any, out: Any, latch: int, limit: int) -> None:
        array = out[chunk.box]
        if chunk.box.min[0] == 0:
            self.latch.hold()
        _launch("number", array.size, array, np.int64(array.size), np.int64(chunk.box.min[0]))

    def _mark(self, chunk: Any, out: Any, latch: int, value: int) -> None:
        array = out[chunk.box]
        _launch("number", array.size, array, np.int64(array.size), np.int64(chunk.box.min[0]))
        if chunk.box.max == chunk.global_box.max:
            self.latch.mark(value)

    def _add(self, chunk: Any, out: Any, values: Any, value: int) -> None:
        array = out[chunk.box]
        _launch("add", array.size, array, values[chunk.box], np.int64(array.size), np.int32(value))

    def _sum3(self, chunk: Any, out: Any, values: Any) -> None:
        array, source = out[chunk.box], values.array
        shift = chunk.box.min[0] - values.box.min[0]
        _launch("sum3", array.size, array, source, np.int64(array.size), np.int64(source.size), np.int64(shift))

    def _join(self, chunk: Any, out: Any, *parts: Any) -> None:
        array = out[chunk.box]
        _launch("join", array.size, array, *(part[chunk.box] for part in parts), np.int64(array.size))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what}: not within {PATIENCE_S} s; under way:\n{under_way()}"
        time.sleep(0.001)


def active_instructions() -> list[tuple[Any, ...]]:
    runtime: Any = lifecycle.current()
    return list(runtime.executor.active_instructions())


def under_way() -> str:
    return "\n".join(f"  {item}" for item in active_instructions()[:20])
