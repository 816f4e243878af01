# SPDX-License-Identifier: MIT
"""The operations of `micro.dispatch` by hand: RawKernel launches on streams, memcpyAsync, events."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np

STREAMS = 4
#: Holds a GPU back until the host raises `*flag` to `number`, or for 3 s.
LATCH = r"""
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do {
        __nanosleep(500);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (*flag < number && now - begun < 3000000000ull);
}
"""
SOURCE = (
    r"""
extern "C" __global__ void nothing(const int* a, const int* b, int* out) {}
extern "C" __global__ void latch(volatile int* flag, int number) {"""
    + LATCH
)


class HandWritten:
    """Streams, buffers and a latch that holds them all."""

    def __init__(self, most: int) -> None:
        import cupy

        self.cupy = cupy
        self.runtime = cupy.cuda.runtime
        self.nothing = cupy.RawKernel(SOURCE, "nothing").kernel
        self.latch = cupy.RawKernel(SOURCE, "latch").kernel
        self.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
        self.held = cupy.cuda.Event(disable_timing=True)
        self.device = cupy.zeros((3, most), np.int32)
        self.pinned = cupy.cuda.alloc_pinned_memory(4 * most)
        self.flag_memory = cupy.cuda.alloc_pinned_memory(64)
        self.flag = ctypes.c_int.from_address(self.flag_memory.ptr)
        self.flag.value = 0
        base = self.device.data.ptr
        self.arguments = [
            tuple(np.uint64(base + 4 * (row * most + index)) for row in range(3)) for index in range(most)
        ]
        self.runtime.deviceSynchronize()

    def synchronize(self) -> None:
        """Wait for all streams."""
        for stream in self.streams:
            stream.synchronize()

    def issue(self, enqueue: Callable[[int], None], count: int) -> float:
        """Seconds to enqueue operations while nothing runs."""
        number = self.flag.value + 1
        one = (1, 1, 1)
        self.latch(one, one, (np.uint64(self.flag_memory.ptr), np.int32(number)), stream=self.streams[0])
        self.held.record(self.streams[0])
        for stream in self.streams[1:]:
            stream.wait_event(self.held)
        begun = time.perf_counter()
        enqueue(count)
        seconds = time.perf_counter() - begun
        self.flag.value = number
        self.synchronize()
        return seconds

    def kernels(self, count: int) -> None:
        """Independent launches, in turns on the streams."""
        nothing, one = self.nothing, (1, 1, 1)
        for arguments, stream in zip(self.arguments[:count], cycle(self.streams), strict=False):
            nothing(one, one, arguments, stream=stream)

    def copies(self, count: int) -> None:
        """Small copies to the host, in turns on two streams."""
        runtime, source, target = self.runtime, self.device.data.ptr, self.pinned.ptr
        kind = runtime.memcpyDeviceToHost
        pointers = cycle([stream.ptr for stream in self.streams[:2]])
        for offset, pointer in zip(range(0, 4 * count, 4), pointers, strict=False):
            runtime.memcpyAsync(target + offset, source + offset, 4, kind, pointer)

    def end_to_end(self, count: int) -> float:
        """Seconds for independent launches, until all have run."""
        self.synchronize()
        begun = time.perf_counter()
        for _ in range(-(-count // len(self.arguments))):
            self.kernels(len(self.arguments))
        self.synchronize()
        return (time.perf_counter() - begun) * count / (-(-count // len(self.arguments)) * len(self.arguments))
