# SPDX-License-Identifier: MIT
"""Queues with priorities on GPUs: the streams of their kernels, kernels that overtake others, and equal results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.gpu.latch import wait_until

Launch = Callable[..., celerity.Queue]
ONE = access.one_to_one()
SIZE = 5000

SOURCE = """
// Blocks of which few fit on the device at once count themselves when they end.
__global__ void occupy(celerity::chunk<1> chunk, accessor<int, 1> out, unsigned long long count, long long cycles) {
    const auto item = chunk.item();
    if (!chunk.contains(item)) return;
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
    out[item] = 1;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd_system((unsigned int*)count, 1u);
}
__global__ void look(celerity::chunk<1> chunk, accessor<int, 1> out, unsigned long long count) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = (int)*(volatile unsigned int*)count;
}
__global__ void add(celerity::chunk<1> chunk, accessor<float, 1> out, accessor<const float, 1> given, float amount) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = given[item] + amount;
}"""


def priority_of(stream: int) -> int:
    """As the driver has it: 0 is the least urgent one, and smaller numbers are more urgent."""
    found = ctypes.c_int()
    assert ctypes.CDLL("libcuda.so.1").cuStreamGetPriority(ctypes.c_void_p(stream), ctypes.byref(found)) == 0
    return found.value


def most_urgent() -> int:
    least, greatest = ctypes.c_int(), ctypes.c_int()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)) == 0
    return greatest.value


def test_kernels_of_each_queue_run_on_streams_of_its_priority(launch: Launch, num_gpus: int) -> None:
    low = launch(num_gpus)
    seen: dict[int, set[tuple[int, int, int]]] = {}

    def note(chunk: celerity.Chunk, priority: int) -> None:
        stream = chunk.stream.ptr
        seen.setdefault(priority, set()).add(
            (chunk.device, stream, priority_of(stream) - max(-priority, most_urgent()))
        )

    with celerity.Queue(priority=1) as middle, celerity.Queue(priority=4) as high:
        for _ in range(20):
            for queue in (low, middle, high):
                queue.parallel_for(64, note, queue.priority)
        low.wait()
    assert set(seen) == {0, 1, 4}
    for notes in seen.values():
        assert {device for device, _, _ in notes} == set(range(num_gpus))
        assert {difference for _, _, difference in notes} == {0}, "another priority than that of the queue"
    streams = {priority: {stream for _, stream, _ in notes} for priority, notes in seen.items()}
    assert not streams[0] & streams[1]
    assert not streams[1] & streams[4]


def test_a_kernel_of_a_higher_queue_overtakes_the_blocks_of_a_large_one(launch: Launch) -> None:
    import cupy

    low = launch(1)
    occupy = celerity.CudaKernel(SOURCE, "occupy", block=(128,))
    look = celerity.CudaKernel(SOURCE, "look", block=(128,))
    num_blocks = 64 * 16 * cupy.cuda.Device(0).attributes["MultiProcessorCount"]
    memory = cupy.cuda.alloc_pinned_memory(64)
    count = np.frombuffer(memory, np.uint32, 16)
    count[:] = 0
    large, small = celerity.Buffer((128 * num_blocks,), np.int32), celerity.Buffer((1,), np.int32)
    with celerity.Queue(priority=2) as high:
        # Once before, so that modules and memory are there.
        low.parallel_for(large.shape, occupy, large.write(ONE), memory.ptr, 0)
        high.parallel_for(1, look, small.write(ONE), memory.ptr)
        low.wait()
        assert count[0] == num_blocks
        count[:] = 0
        low.parallel_for(large.shape, occupy, large.write(ONE), memory.ptr, 3_000_000)
        low.flush()
        wait_until(lambda: count[0] > 0, "a block of the large kernel")
        high.parallel_for(1, look, small.write(ONE), memory.ptr)
        seen = int(high.fence(small).result(60)[0])
        assert 0 < seen < num_blocks // 2, "the kernel came after most blocks of a less urgent one"
        assert (low.fence(large).result(60) == 1).all()
    assert count[0] == num_blocks


@pytest.mark.parametrize("priorities", [(0, 0), (3, 3), (0, 4)], ids=str)
def test_replays_with_priorities_compute_the_same_and_run_as_graphs(
    launch: Launch, num_gpus: int, priorities: tuple[int, ...]
) -> None:
    queue = launch(num_gpus)
    add = celerity.CudaKernel(SOURCE, "add")
    old, new = (celerity.Buffer.from_array(np.zeros(SIZE, np.float32)) for _ in range(2))
    queues: list[Any] = [celerity.Queue(priority=priority) for priority in priorities]

    def step() -> None:
        queues[0].parallel_for(SIZE, add, new.write(ONE), old.read(ONE), 1.0)
        queues[1].parallel_for(SIZE, add, old.write(ONE), new.read(access.neighborhood(1)), 2.0)

    recorded = queue.record(step)
    queue.replay(recorded, 2000)
    assert (queue.fence(old).result(60) == 3 * 2001).all()
    statistics = queue.statistics().executor
    assert statistics["graph_runs"] > 0
    issued = statistics["instructions_by_priority"]
    assert all(issued[priority] >= 2001 for priority in set(priorities) - {0})
    for each in queues:
        each.close()
