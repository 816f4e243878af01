# SPDX-License-Identifier: MIT
"""Programs with one mistake each, for `test_failures.py`: `python failing_gpu_program.py <name>`."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import Box, access

GIB = 1 << 30
ROWS = 16


@celerity.kernel
def fill(chunk: Any, out: Any, value: int) -> None:
    out[chunk.box] = value


def memory_is_short() -> None:
    with celerity.Queue() as queue:
        held = celerity.Buffer((GIB,), np.uint8, name="held")
        queue.parallel_for(held.shape, fill, held.write(access.one_to_one()), 1)
        queue.wait()
        huge = celerity.Buffer((1 << 42,), np.uint8, name="huge")
        queue.parallel_for(huge.shape, fill, huge.write(access.one_to_one()), 1)
        queue.wait()
        del held


def pool_holds_memory() -> None:
    """CuPy's pool keeps 70 % of the device's memory, which nothing uses, when a buffer wants 60 %."""
    import cupy

    _, total = cupy.cuda.runtime.memGetInfo()
    with celerity.Queue() as queue:

        @celerity.kernel
        def hold(chunk: Any, out: Any) -> None:
            temporary = cupy.zeros(int(0.7 * total), np.uint8)
            out[chunk.box] = temporary[:8] + 1

        small = celerity.Buffer((8,), np.uint8, name="small")
        queue.parallel_for(8, hold, small.write(access.one_to_one()))
        assert queue.fence(small).result().tolist() == [1] * 8
        kept = cupy.get_default_memory_pool().total_bytes()
        large = celerity.Buffer((int(0.6 * total),), np.uint8, name="large")
        queue.parallel_for(large.shape, fill_with_three, large.write(access.one_to_one()))
        assert queue.fence(large, Box((0,), (4,))).result().tolist() == [3] * 4
        print(f"the pool had {kept / total:.2f}, and has {cupy.get_default_memory_pool().total_bytes() / total:.2f}")


def fill_with_three(chunk: Any, out: Any) -> None:
    """Write every element."""
    out[chunk.box] = 3


def buffer_grows() -> None:
    """A buffer of 60 % of the device's memory, of which every step writes and reads a larger part."""
    import cupy

    _, total = cupy.cuda.runtime.memGetInfo()
    columns = int(0.6 * total) // ROWS
    with celerity.Queue() as queue:
        history = celerity.Buffer((ROWS, columns), np.uint8, name="history")
        sums = celerity.Buffer.from_array(np.zeros((ROWS, 8), np.int64), name="sums")

        @celerity.kernel
        def add_row(chunk: Any, out: Any, totals: Any, past: Any, row: int) -> None:
            out[row, :] = row + 1
            totals[row, :] = past[0:row, 1000:1008].astype(np.int64).sum(axis=0) + row + 1

        for row in range(ROWS):
            new, past = Box((row, 0), (row + 1, columns)), Box((0, 0), (row, columns))
            queue.parallel_for(
                1,
                add_row,
                history.write(access.fixed(new)),
                sums.read_write(access.all()),
                history.read(access.fixed(past)),
                row,
            )
        expected = [sum(range(1, row + 2)) for row in range(ROWS)]
        assert queue.fence(sums).result()[:, 0].tolist() == expected
        parts = [queue.fence(history, Box((row, columns - 4), (row + 1, columns))) for row in range(ROWS)]
        assert [part.result()[0, 3] for part in parts] == [row + 1 for row in range(ROWS)]
        statistics = queue.statistics().executor
        print(f"resizes: {statistics['copies']['resize']}, peak: {statistics['memories'][2]['peak_bytes']}")


def illegal_address() -> None:
    import cupy

    write_nowhere = cupy.RawKernel('extern "C" __global__ void nowhere(int* p) { p[threadIdx.x] = 1; }', "nowhere")

    @celerity.kernel
    def stray(chunk: Any, out: Any) -> None:
        write_nowhere((1,), (32,), (np.uint64(16),))
        out[chunk.box] = 1

    with celerity.Queue() as queue:
        field = celerity.Buffer((1000,), np.float32, name="field")
        other = celerity.Buffer((1000,), np.float32, name="other")
        queue.parallel_for(other.shape, fill, other.write(access.one_to_one()), 0, name="before")
        cells = field.write(access.one_to_one())
        queue.parallel_for(field.shape, stray, cells, name="stray step")  # LINE illegal_address
        queue.parallel_for(other.shape, fill, other.write(access.one_to_one()), 0, name="after")
        queue.wait()


def replay_fails() -> None:
    """The kernel of the first GPU fails, while those of others wait for its data."""
    source = """
    __global__ void count(celerity::chunk<1> chunk, accessor<long long, 1> turns, accessor<const long long, 1> others) {
        const auto item = chunk.item();
        if (chunk.contains(item) && ++turns[item] + 0 * others[7] >= 250 && item[0] == 0)
            *reinterpret_cast<int*>(16) = 1;
    }"""
    with celerity.Queue() as queue:
        turns = [celerity.Buffer.from_array(np.ones(8, np.int64), name="turns") for _ in range(2)]
        kernel = celerity.CudaKernel(source, "count")

        def two_steps() -> None:
            for new, old in (turns, turns[::-1]):
                both = new.read_write(access.one_to_one()), old.read(access.all())
                queue.parallel_for(8, kernel, *both)  # LINE replay_fails

        queue.replay(queue.record(two_steps), 1000)
        queue.wait()


def kernel_raises() -> None:
    @celerity.kernel
    def faulty(chunk: Any, out: Any) -> None:
        if celerity.rank() == celerity.size() - 1:
            raise ValueError("a bad cell")
        out[chunk.box] = 2

    with celerity.Queue() as queue:
        field = celerity.Buffer((1000,), np.float32, name="field")
        queue.parallel_for(field.shape, fill, field.write(access.one_to_one()), 1)
        queue.parallel_for(field.shape, faulty, field.write(access.one_to_one()), name="step 2")  # LINE kernel_raises
        queue.fence(field).result()


def index_is_outside() -> None:
    @celerity.kernel
    def reach_too_far(chunk: Any, out: Any, values: Any) -> None:
        out[chunk.box] = values[0:1000]

    with celerity.Queue() as queue:
        field = celerity.Buffer.from_array(np.zeros(1000, np.float32), name="field")
        result = celerity.Buffer((500,), np.float32, name="result")
        queue.parallel_for(  # LINE index_is_outside
            500, reach_too_far, result.write(access.one_to_one()), field.read(access.one_to_one())
        )
        queue.wait()


def a_read_only_view_is_written() -> None:
    @celerity.kernel
    def overwrite(chunk: Any, values: Any) -> None:
        values[chunk.box] = 1

    with celerity.Queue() as queue:
        field = celerity.Buffer.from_array(np.zeros(1000, np.float32), name="field")
        queue.parallel_for(1000, overwrite, field.read(access.one_to_one()))  # LINE a_read_only_view_is_written
        queue.wait()


def kernel_never_ends() -> None:
    """Ends by itself after 30 s: meanwhile the runtime has to report its waits."""
    import cupy

    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) { long long t = clock64(); while(clock64() - t < n) {} }', "spin"
    )

    @celerity.kernel
    def hang(chunk: Any, out: Any) -> None:
        spin((1,), (1,), (np.int64(60_000_000_000),))

    with celerity.Queue() as queue:
        field = celerity.Buffer((1000,), np.float32, name="field")
        queue.parallel_for(field.shape, hang, field.read_write(access.one_to_one()), name="long step")
        queue.wait()


def an_element_is_outside() -> None:
    source = """
    __global__ void reach_far(celerity::chunk<1> chunk, accessor<float, 1> out, accessor<const float, 1> field) {
        const auto item = chunk.item();
        if (chunk.contains(item)) out[item] = field(item[0] == 77 ? item[0] + 2000 : item[0]);
    }"""
    with celerity.Queue() as queue:
        field = celerity.Buffer.from_array(np.zeros(1000, np.float32), name="field")
        out = celerity.Buffer((1000,), np.float32, name="out")
        kernel = celerity.CudaKernel(source, "reach_far")
        one_to_one = access.one_to_one()
        queue.parallel_for(1000, kernel, out.write(one_to_one), field.read(one_to_one))  # LINE an_element_is_outside
        queue.wait()


def a_combined_element_is_outside() -> None:
    source = """
    __global__ void count_far(celerity::chunk<1> chunk, accessor<const float, 1> field,
                              reducer<int, celerity::sum, 1> counts) {
        const auto item = chunk.item();
        if (chunk.contains(item)) counts(item[0] / 100 + (item[0] == 77 ? 900 : 0)).combine(1);
    }"""
    with celerity.Queue() as queue:
        field = celerity.Buffer.from_array(np.zeros(1000, np.float32), name="field")
        counts = celerity.Buffer((10,), np.int32, name="counts")
        reads = field.read(access.one_to_one())
        kernel = celerity.CudaKernel(source, "count_far")
        queue.parallel_for(1000, kernel, reads, celerity.reduction(counts, "sum"))  # LINE a_combined_element_is_outside
        queue.wait()


def exits_with_work_under_way() -> None:
    queue = celerity.Queue()
    field = celerity.Buffer((1 << 20,), np.float32, name="field")
    for _ in range(50):
        queue.parallel_for(field.shape, fill, field.write(access.one_to_one()), 1)
    time.sleep(0.01)


def rank_is_killed() -> None:
    """Rank 1 dies while the GPU of rank 0 waits for its data."""

    @celerity.kernel
    def advance(chunk: Any, out: Any, field: Any, step: int) -> None:
        out[chunk.box] = step
        if celerity.rank() == 1 and step == 20:
            time.sleep(1)  # by now the other GPU is there
            os.kill(os.getpid(), signal.SIGKILL)

    with celerity.Queue() as queue:
        fields = [celerity.Buffer((1 << 16,), np.float32, name=name) for name in ("field", "next")]
        for field in fields:
            queue.parallel_for(field.shape, fill, field.write(access.one_to_one()), 0)
        for step in range(30):
            fields.reverse()
            written, read = fields
            accesses = written.write(access.one_to_one()), read.read(access.neighborhood(1))
            queue.parallel_for(written.shape, advance, *accesses, step)
        queue.wait()


def nothing_fails() -> None:
    with celerity.Queue() as queue:
        field = celerity.Buffer((1000,), np.float32, name="field")
        queue.parallel_for(field.shape, fill, field.write(access.one_to_one()), 3)
        assert queue.fence(field).result().sum() == 3000


def begins_again() -> None:
    """Runtimes end well, by an exception and by failures. Each takes 60 % of the memory, and none leaves any."""
    import cupy

    @celerity.kernel
    def divide(chunk: Any, out: Any) -> None:
        half = out[chunk.box]
        raise ZeroDivisionError(half.shape)

    free_before, total = cupy.cuda.runtime.memGetInfo()
    large = int(0.6 * total)
    buffers = []
    for end in ("well", "exception", "failure", "left open", "too large", "well"):
        try:
            queue = celerity.Queue()
            buffers.append(celerity.Buffer((large,), np.uint8, name="large"))
            queue.parallel_for(large, fill, buffers[-1].write(access.one_to_one()), 7)
            assert queue.fence(buffers[-1], Box((0,), (4,))).result().tolist() == [7] * 4
            if end in {"failure", "left open"}:
                queue.parallel_for(large, divide, buffers[-1].write(access.one_to_one()))
            elif end == "too large":
                huge = celerity.Buffer((1 << 42,), np.uint8, name="huge")
                queue.parallel_for(huge.shape, fill, huge.write(access.one_to_one()), 1)
            if end == "left open":
                queue.wait()
            with queue:
                if end == "exception":
                    print(os.environ[f"no {end}"])
        except (celerity.CelerityError, KeyError) as error:
            print(f"{end}: {type(error).__name__}")
    cupy.get_default_memory_pool().free_all_blocks()
    print(f"{(free_before - cupy.cuda.runtime.memGetInfo()[0]) / (1 << 20):.0f} MiB")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
