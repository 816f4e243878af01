# SPDX-License-Identifier: MIT
"""Recordings and replays on GPUs: kernels in CUDA C++ and in Python, in one process and on ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from cluster_jobs.benchmarks.dags.sharing_processes import MultiProcessService
from cluster_jobs.benchmarks.launching import devices_of
from tests.gpu.launching import run
from tests.property.recorded_programs import run_recorded_programs

PROGRAM = str(Path(__file__).with_name("rank_programs.py"))
Launch = Callable[..., celerity.Queue]

ADD = """
__global__ void add(celerity::chunk<1> chunk, accessor<float, 1> out, accessor<const float, 1> given, float amount) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = given[item] + amount;
}"""
SIZE = 5000
ONE = access.one_to_one()


@pytest.mark.parametrize("settings", [{}, {"bounds_check": True}, {"sync": True}, {"check": True}], ids=str)
def test_kernels_in_cuda_are_replayed(launch: Launch, num_gpus: int, settings: dict[str, Any]) -> None:
    queue = launch(num_gpus, **settings)
    add = celerity.CudaKernel(ADD, "add")
    old, new = (celerity.Buffer.from_array(np.zeros(SIZE, np.float32)) for _ in range(2))

    def step() -> None:
        queue.parallel_for(SIZE, add, new.write(ONE), old.read(ONE), 1.0)
        queue.parallel_for(SIZE, add, old.write(ONE), new.read(ONE), np.float32(2.0))

    recorded = queue.record(step)
    queue.replay(recorded, 300)
    queue.parallel_for(SIZE, add, new.write(ONE), old.read(ONE), 0.5)
    queue.replay(recorded, 2)
    assert (queue.fence(old).result(60) == 909).all()
    assert (queue.fence(new).result(60) == 907).all()


def test_scalars_of_kernels_in_cuda_change_from_replay_to_replay(launch: Launch, num_gpus: int) -> None:
    queue = launch(num_gpus)
    add = celerity.CudaKernel(ADD, "add")
    u, v = (celerity.Buffer.from_array(np.zeros(SIZE, np.float32)) for _ in range(2))

    def step(amount: float) -> None:
        queue.parallel_for(SIZE, add, v.write(ONE), u.read(ONE), amount)
        queue.parallel_for(SIZE, add, u.write(ONE), v.read(ONE), 1.0)

    recorded = queue.record(step, amount=1.0)
    expected = 2.0
    for times, amount in ((300, 1.0), (300, 2), (1, 4.0), (300, np.float32(2)), (300, 1.0), (40, 8.0), (300, 2.0)):
        queue.replay(recorded, times, amount=amount)
        expected += times * (float(amount) + 1)
        assert (queue.fence(u).result(60) == expected).all()
    with pytest.raises(celerity.errors.UsageError, match="does not fit"):
        queue.replay(recorded, 1, amount="much")


@pytest.fixture
def on_gpus(num_gpus: int) -> Iterator[None]:
    celerity.configure(backend="cuda", devices=num_gpus, horizon_step=2)
    yield
    celerity.configure(backend=None, devices=None, horizon_step=None)


@pytest.mark.usefixtures("on_gpus")
def test_random_programs_with_replays_give_the_results_of_a_sequential_run() -> None:
    assert run_recorded_programs(500, 32)["replay many times"] > 0


@pytest.fixture
def at_once(num_gpus: int) -> Iterator[dict[str, str]]:
    """Variables with which the kernels of ranks on so many GPUs run at once: on GPUs of their own, or on one by MPS."""
    devices = devices_of("cuda", "rank", num_gpus)
    if num_gpus > 1:
        yield devices
        return
    service = MultiProcessService()
    try:
        yield {**devices, **service.variables, "TEST_EXCHANGES_ON_SHARED_GPUS": "1"}
    finally:
        service.stop()


@pytest.mark.processes
@pytest.mark.parametrize("transport", ["host", "direct"])
@pytest.mark.parametrize("name", ["replaying", "replaying_with_a_host_task"])
def test_a_recording_is_replayed_on_ranks(name: str, transport: str) -> None:
    variables = {"CELERITY_TRANSPORT": transport}
    outcome = run(PROGRAM, name, num_ranks=2, variables=variables, limit_s=120)
    assert outcome.status == 0, f"{outcome.output[-4000:]}\n{outcome.errors[-8000:]}"
    assert outcome.output.count(" sent {") == 2


@pytest.mark.processes
@pytest.mark.parametrize(
    "settings", [{}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"CELERITY_HORIZON_STEP": "1"}], ids=str
)
def test_a_replayed_stencil_runs_as_graphs(num_gpus: int, at_once: dict[str, str], settings: dict[str, str]) -> None:
    ranks = max(num_gpus, 2)
    outcome = run(PROGRAM, "replaying_graphs", num_ranks=ranks, variables={**at_once, **settings}, limit_s=120)
    assert outcome.status == 0, f"{outcome.output[-4000:]}\n{outcome.errors[-8000:]}"
    numbers = [int(number) for number in re.findall(r" in (\d+) graphs", outcome.output)]
    assert len(numbers) == ranks
    assert all(numbers)


@pytest.mark.processes
def test_ranks_that_share_a_gpu_exchange_nothing_in_graphs(num_gpus: int) -> None:
    variables = devices_of("cuda", "rank", num_gpus)
    outcome = run(PROGRAM, "replaying_graphs", num_ranks=2 * num_gpus, variables=variables, limit_s=120)
    assert outcome.status == 0, f"{outcome.output[-4000:]}\n{outcome.errors[-8000:]}"
    assert re.findall(r" in (\d+) graphs", outcome.output) == ["0"] * 2 * num_gpus


@pytest.mark.processes
def test_a_rank_that_is_killed_ends_the_others_though_their_graphs_wait_for_it(
    num_gpus: int, at_once: dict[str, str]
) -> None:
    outcome = run(PROGRAM, "waiting_in_a_graph", num_ranks=max(num_gpus, 2), variables=at_once, limit_s=60)
    assert outcome.status not in {0, 124}, outcome
    assert outcome.duration_s < 50
