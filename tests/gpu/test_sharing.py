# SPDX-License-Identifier: MIT
"""Programs that share a GPU: all ways of the benchmark, small; and queues that divide the multiprocessors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import UsageError
from tests.gpu.latch import wait_until

ROOT = Path(__file__).parents[2]
Launch = Callable[..., celerity.Queue]
ONE = access.one_to_one()
THREADS = 128

SOURCE = """
// Tells on which multiprocessor each block runs, and keeps it busy, so that the blocks spread over all of them.
__global__ void find_place(celerity::chunk<1> chunk, accessor<int, 1> place, accessor<int, 1> rounds,
    long long cycles) {
    const auto item = chunk.item();
    if (!chunk.contains(item)) return;
    int found;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(found));
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
    place[item] = found;
    rounds[item] += 1;
}
__global__ void wait_for_host(celerity::chunk<1> chunk, accessor<int, 1> out, unsigned long long words,
    long long limit) {
    __shared__ int has_come;
    volatile unsigned int* const word = (volatile unsigned int*)words;
    if (threadIdx.x == 0) {
        word[1] = 1;
        const long long begin = clock64();
        while (word[0] == 0 && clock64() - begin < limit) {}
        has_come = word[0] != 0;
    }
    __syncthreads();
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = has_come;
}"""
RAW = """extern "C" __global__ void find_place(int* place, int count, long long cycles) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count) return;
    int found;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(found));
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
    place[item] = found;
}"""
CYCLES = 200_000
#: About 20 s.
LIMIT_CYCLES = 40_000_000_000


def _run(tmp_path: Path, module: str, *arguments: str) -> dict[str, object]:
    output = tmp_path / "figures.json"
    command = [sys.executable, "-m", f"cluster_jobs.benchmarks.dags.{module}", "--backend", "cuda", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CELERITY_")}
    result = subprocess.run(
        [*command, "--output", str(output)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    figures: dict[str, object] = json.loads(output.read_text())
    assert figures["problems"] == []
    return figures


@pytest.mark.parametrize(
    ("case", "prefetch"),
    [("MP-1", "off"), ("MP-1", "on"), ("MP-2", "on"), ("MP-2", "off"), ("latency,starvation", "on")],
)
def test_programs_that_share_a_gpu_are_right_in_all_ways(case: str, prefetch: str, tmp_path: Path) -> None:
    ways = "priorities,one,split,slices,streams" + (",mps" if shutil.which("nvidia-cuda-mps-control") else "")
    figures = _run(
        tmp_path, "sharing", "--case", case, "--prefetch", prefetch, "--ways", ways,
        "--size", "small", "--rounds", "3", "--seconds", "12",
    )  # fmt: skip
    rows = figures["rows"]
    assert isinstance(rows, list)
    ways_of_case = set(figures["ways"]) - ({"split"} if "latency" not in case else set())  # type: ignore[call-overload]
    assert {row["way"] for row in rows} == ways_of_case


# ---- a split of the multiprocessors


def _size(num_gpus: int) -> int:
    """Items of which each GPU gets several blocks for each multiprocessor."""
    import cupy

    count: int = cupy.cuda.Device(0).attributes["MultiProcessorCount"]
    return num_gpus * THREADS * count * 32


def _places(found: Any, num_gpus: int) -> list[set[int]]:
    """Of each GPU: the multiprocessors on which its part of the items ran."""
    return [set(part.tolist()) for part in np.split(found, num_gpus)]


def _check_places(share: Any, rest: Any, parts: list[dict[str, int]], num_gpus: int) -> None:
    for own, others, part in zip(_places(share, num_gpus), _places(rest, num_gpus), parts, strict=True):
        assert 0 < len(own) <= part["share"], f"kernels on a share of {part} ran on {sorted(own)}"
        assert 0 < len(others) <= part["rest"], f"kernels on the rest of {part} ran on {sorted(others)}"
        assert not own & others, "both parts have a multiprocessor in common"


@pytest.mark.parametrize("how", ["launches", "replays"])
def test_a_queue_with_a_quarter_of_the_multiprocessors_runs_on_no_others(
    how: str, launch: Launch, num_gpus: int
) -> None:
    low = launch(num_gpus)
    size = _size(num_gpus)
    with celerity.Queue(priority=2, multiprocessors=0.25) as high:
        find_place = celerity.CudaKernel(SOURCE, "find_place", block=(THREADS,))
        places = {queue: celerity.Buffer((size,), np.int32) for queue in (low, high)}
        rounds = {queue: celerity.Buffer.from_array(np.zeros(size, np.int32)) for queue in (low, high)}

        def step() -> None:
            for queue in (low, high):  # at the same time
                queue.parallel_for(size, find_place, places[queue].write(ONE), rounds[queue].read_write(ONE), CYCLES)

        times = 8
        if how == "launches":
            for _ in range(times):
                step()
        else:
            times = 2001
            low.replay(low.record(step), times - 1)
            assert low.fence(rounds[low]).result(60)[0] == times
            assert low.statistics().executor["graph_runs"] > 0
        parts = low.statistics().executor["multiprocessors"]
        assert len(parts) == num_gpus
        for part in parts:
            assert 0.15 < part["share"] / (part["share"] + part["rest"]) < 0.35
        _check_places(high.fence(places[high]).result(60), low.fence(places[low]).result(60), parts, num_gpus)
        for queue in (low, high):
            assert (queue.fence(rounds[queue]).result(60) == times).all()


def test_python_kernels_of_a_queue_with_a_share_run_on_it(launch: Launch, num_gpus: int) -> None:
    import cupy

    low = launch(num_gpus)
    size = _size(num_gpus)
    find_place = cupy.RawKernel(RAW, "find_place")

    def run(chunk: Any, place: Any) -> None:
        array = place.array
        find_place((-(-array.size // THREADS),), (THREADS,), (array, np.int32(array.size), np.int64(CYCLES)))
        assert int(cupy.arange(10).sum()) == 45  # other kernels of CuPy, on the same stream

    with celerity.Queue(priority=1) as middle, celerity.Queue(priority=4, multiprocessors=0.5) as high:
        places = {queue: celerity.Buffer((size,), np.int32) for queue in (low, middle, high)}
        for _ in range(3):
            for queue, place in places.items():
                queue.parallel_for(size, run, place.write(ONE))
        found = {queue: queue.fence(place).result(60) for queue, place in places.items()}
        parts = low.statistics().executor["multiprocessors"]
        for queue in (low, middle):
            _check_places(found[high], found[queue], parts, num_gpus)


def test_a_kernel_with_a_share_runs_while_blocks_that_wait_fill_the_rest(launch: Launch) -> None:
    """Without a share, no block would start before one of the others has ended."""
    import cupy

    low = launch(1)
    memory = cupy.cuda.alloc_pinned_memory(64)
    words = np.frombuffer(memory, np.uint32, 16)
    words[:] = 1
    wait = celerity.CudaKernel(SOURCE, "wait_for_host", block=(1024,))
    find_place = celerity.CudaKernel(SOURCE, "find_place", block=(THREADS,))
    blocks = 4 * cupy.cuda.Device(0).attributes["MultiProcessorCount"]  # at most two of 1024 threads fit on one
    large = celerity.Buffer((1024 * blocks,), np.int32)
    with celerity.Queue(priority=1, multiprocessors=0.25) as high:
        place, rounds = celerity.Buffer((THREADS,), np.int32), celerity.Buffer.from_array(np.zeros(THREADS, np.int32))

        def ask() -> Any:
            high.parallel_for(THREADS, find_place, place.write(ONE), rounds.read_write(ONE), 0)
            return high.fence(rounds).result(60)

        # Once before, so that modules and memory are there.
        low.parallel_for(large.shape, wait, large.write(ONE), memory.ptr, LIMIT_CYCLES)
        assert (ask() == 1).all()
        low.wait()
        words[:] = 0
        low.parallel_for(large.shape, wait, large.write(ONE), memory.ptr, LIMIT_CYCLES)
        low.flush()
        wait_until(lambda: words[1] > 0, "a block that waits")
        assert (ask() == 2).all()
        words[0] = 1
        assert (low.fence(large).result(60) == 1).all(), "a block has waited in vain"


def test_a_share_that_a_gpu_cannot_have_is_told_with_those_that_it_can(launch: Launch) -> None:
    import cupy

    count = cupy.cuda.Device(0).attributes["MultiProcessorCount"]
    low = launch(1)
    with pytest.raises(
        UsageError, match=rf"rounds to .* GPU \d+ has {count} multiprocessors, .* give a share from 0\.\d+ to 0"
    ):
        celerity.Queue(priority=1, multiprocessors=0.001)
    assert low.statistics().executor["multiprocessors"] == []
    with celerity.Queue(priority=1, multiprocessors=0.5) as high:
        buffer = celerity.Buffer((100,), np.float32)
        high.fill(buffer, 7)
        assert (high.fence(buffer).result(60) == 7).all()
