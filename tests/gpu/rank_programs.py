# SPDX-License-Identifier: MIT
"""Programs for `test_ranks.py`, on any number of ranks: `python rank_programs.py <name>`. They end with status 0."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import native_objects

SHAPE = (256, 200)
STEPS = 60


def reference(steps: int) -> Any:
    u = np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint32).reshape(SHAPE)
    for _ in range(steps):
        padded = np.pad(u, 1)
        u = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] + u
    return u


def sum_neighbours(chunk: Any, out: Any, values: Any) -> None:
    padded = chunk.xp.pad(values.array, 1)  # wider by one than what it is needed for, on the inner sides
    rows, columns = (
        slice(low - first + 1, high - first + 1)
        for low, high, first in zip(chunk.box.min, chunk.box.max, values.box.min, strict=True)
    )

    def shifted(down: int, right: int) -> Any:
        return padded[rows.start + down : rows.stop + down, columns.start + right : columns.stop + right]

    out[chunk.box] = shifted(-1, 0) + shifted(1, 0) + shifted(0, -1) + shifted(0, 1) + shifted(0, 0)


def run_stencil(inside: Callable[[Any, int], None]) -> None:
    """Steps of a stencil, whose halos travel between the ranks; `inside` is called in each kernel."""
    halo = access.neighborhood(1, 1, shape="axes")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint32).reshape(SHAPE), name="u")
        u_next = celerity.Buffer(SHAPE, np.uint32, name="u_next")
        for step in range(STEPS):

            def kernel(chunk: Any, out: Any, values: Any, step: int) -> None:
                inside(chunk, 2 * step)
                sum_neighbours(chunk, out, values)
                inside(chunk, 2 * step + 1)

            queue.parallel_for(
                SHAPE, kernel, u_next.write(access.one_to_one()), u.read(halo), step, name=f"step {step}"
            )
            u, u_next = u_next, u
        np.testing.assert_array_equal(queue.fence(u).result(), reference(STEPS))
        sent = queue.statistics().executor["sent_bytes"]
        print(f"rank {celerity.rank()} sent {sent}")


def asynchronous() -> None:
    run_stencil(lambda chunk, number: None)


def replaying() -> None:
    """The steps of the stencil, in one recording of two."""
    halo = access.neighborhood(1, 1, shape="axes")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint32).reshape(SHAPE), name="u")
        other = celerity.Buffer(SHAPE, np.uint32, name="other")

        def two_steps() -> None:
            for new, old in ((other, u), (u, other)):
                queue.parallel_for(SHAPE, sum_neighbours, new.write(access.one_to_one()), old.read(halo))

        queue.replay(queue.record(two_steps), STEPS // 2 - 1)
        np.testing.assert_array_equal(queue.fence(u).result(), reference(STEPS))
        print(f"rank {celerity.rank()} sent {queue.statistics().executor['sent_bytes']}")


STENCIL_SOURCE = """
__global__ void sum_all(celerity::chunk<2> chunk, accessor<unsigned, 2> out, accessor<const unsigned, 2> in) {
    const auto item = chunk.item();
    if (!chunk.contains(item)) return;
    const auto [i, j] = item.index;
    unsigned sum = in(i, j);
    if (i > 0) sum += in(i - 1, j);
    if (j > 0) sum += in(i, j - 1);
    if (i + 1 < chunk.global_max[0]) sum += in(i + 1, j);
    if (j + 1 < chunk.global_max[1]) sum += in(i, j + 1);
    out(i, j) = sum;
}
__global__ void peek(celerity::chunk<1> chunk, accessor<unsigned, 1> out, accessor<const unsigned, 2> in) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out(item[0]) = in(7, 9) + in(200, 150);
}
"""


def replaying_graphs() -> None:
    """The stencil in CUDA C++: each rank's part of many steps is one graph. Other tasks come between the replays."""
    halo = access.neighborhood(1, 1, shape="axes")
    sum_all, peek = (celerity.CudaKernel(STENCIL_SOURCE, name) for name in ("sum_all", "peek"))
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint32).reshape(SHAPE), name="u")
        other = celerity.Buffer(SHAPE, np.uint32, name="other")
        peeked = celerity.Buffer(1, np.uint32, name="peeked")

        def two_steps() -> None:
            for new, old in ((other, u), (u, other)):
                queue.parallel_for(SHAPE, sum_all, new.write(access.one_to_one()), old.read(halo))

        steps = queue.record(two_steps)
        done = 2
        for times in (60, 1, 7, 130, 3):
            queue.replay(steps, times)
            done += 2 * times
            # Rank 0 needs all of the buffer from now on: later replays fetch out of other memory of it.
            queue.parallel_for(1, peek, peeked.write(access.one_to_one()), u.read(access.all()))
            expected = reference(done)
            assert queue.fence(peeked).result(60)[0] == expected[7, 9] + expected[200, 150]
            np.testing.assert_array_equal(queue.fence(u).result(60), expected)
        executor = queue.statistics().executor
        print(f"rank {celerity.rank()} sent {executor['sent_bytes']} in {executor['graph_runs']} graphs")


def replaying_with_a_host_task() -> None:
    """A host task of rank 0 in each repetition: its data comes to the others as a message, for which no graph waits."""
    source = """
    __global__ void add(celerity::chunk<1> chunk, accessor<unsigned, 1> sum, accessor<const unsigned, 1> given) {
        const auto item = chunk.item();
        if (chunk.contains(item)) sum[item] = sum[item] * 3 + given(0);
    }"""
    add = celerity.CudaKernel(source, "add")
    size, times = 1000, 40
    with celerity.Queue() as queue:
        total = celerity.Buffer.from_array(np.zeros(size, np.uint32), name="total")
        given = celerity.Buffer.from_array(np.zeros(1, np.uint32), name="given")

        def count(part: Any, view: Any) -> None:
            view[...] += 1

        def step() -> None:
            queue.host_task(count, given.read_write(access.all()), on="master")
            for _ in range(3):
                queue.parallel_for(size, add, total.read_write(access.one_to_one()), given.read(access.all()))

        queue.replay(queue.record(step), times - 1)
        expected = np.uint32(0)
        for i in range(times):
            for _ in range(3):
                expected = expected * np.uint32(3) + np.uint32(i + 1)
        assert (queue.fence(total).result(60) == expected).all()
        print(f"rank {celerity.rank()} sent {queue.statistics().executor['sent_bytes']}")


def waiting_in_a_graph() -> None:
    """Rank 1 is killed while the graphs of rank 0 wait for it."""
    import os
    import signal
    import threading

    halo = access.neighborhood(1, 1, shape="axes")
    sum_all = celerity.CudaKernel(STENCIL_SOURCE, "sum_all")
    with celerity.Queue() as queue:
        u, other = (celerity.Buffer.from_function(SHAPE, np.uint32, lambda box: np.ones(box.shape)) for _ in range(2))

        def two_steps() -> None:
            for new, old in ((other, u), (u, other)):
                queue.parallel_for(SHAPE, sum_all, new.write(access.one_to_one()), old.read(halo))

        steps = queue.record(two_steps)
        queue.replay(steps, 100)
        queue.wait()
        if celerity.rank() == 1:
            threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        while True:
            queue.replay(steps, 1000)


def synchronising_stream() -> None:
    run_stencil(lambda chunk, number: chunk.stream.synchronize())


def synchronising_device() -> None:
    import cupy

    run_stencil(lambda chunk, number: cupy.cuda.Device().synchronize())


def compiling() -> None:
    """Every kernel loads new modules, while other ranks wait for its data and send data that it waits for."""
    import cupy

    def compile_new(chunk: Any, number: int) -> None:
        unique = number * 1000 + celerity.rank() * 100 + chunk.device
        values = cupy.zeros(32, np.int32)
        source = f'extern "C" __global__ void k{unique}(int* v) {{ v[threadIdx.x] += {unique}; }}'
        cupy.RawKernel(source, f"k{unique}")((1,), (32,), (values,))
        if number % 8 == 0:
            cupy.ElementwiseKernel("int32 x", "int32 y", f"y = x + {unique}", f"e{unique}")(values)

    run_stencil(compile_new)


def freeing() -> None:
    """Every kernel gives device memory back to the driver."""
    import cupy

    def free(chunk: Any, number: int) -> None:
        cupy.zeros(1 << 20, np.uint8)
        cupy.get_default_memory_pool().free_all_blocks()

    run_stencil(free)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)
    native_objects.EXCHANGES_ON_SHARED_GPUS = "TEST_EXCHANGES_ON_SHARED_GPUS" in os.environ
    globals()[sys.argv[1]]()
    faulthandler.cancel_dump_traceback_later()
