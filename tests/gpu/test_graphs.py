# SPDX-License-Identifier: MIT
"""Replays as CUDA graphs on one GPU and on all of them: results to the bit as without graphs; counts and failures."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import native_objects
from cluster_jobs.benchmarks.dags.dag_measure import Ours, Replayed
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES, build, joined
from tests.gpu.launching import line_of, run

Launch = Callable[..., celerity.Queue]

APPS = str(Path(__file__).parents[2] / "cluster_jobs" / "apps")
ONE = access.one_to_one()
SIZE = 1000
SOURCE = """
__global__ void mix(celerity::chunk<1> chunk, accessor<double, 1> out, accessor<const double, 1> in, double factor) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = out[item] * 0.5 + in[item] * factor;
}
__global__ void total(celerity::chunk<1> chunk, accessor<const double, 1> in, reducer<double, celerity::max> largest) {
    const auto item = chunk.item();
    largest.combine_block(chunk.contains(item) ? in[item] : largest.identity());
}
__global__ void scale(celerity::chunk<1> chunk, accessor<double, 1> out, accessor<const double, 0> largest) {
    const auto item = chunk.item();
    if (chunk.contains(item)) out[item] = out[item] / (largest() + 1);
}
"""


def runs_of(queue: celerity.Queue) -> int:
    return int(queue.statistics().executor["graph_runs"])


@pytest.fixture(params=[True, False], ids=["graphs", "one by one"])
def graphs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(native_objects, "RUNS_GRAPHS", request.param)
    return bool(request.param)


@pytest.fixture(params=["one GPU", pytest.param("all GPUs", marks=pytest.mark.several_gpus)])
def devices(request: pytest.FixtureRequest, num_gpus: int) -> int:
    return 1 if request.param == "one GPU" else num_gpus


@pytest.mark.parametrize("size", [512, 2048])
def test_a_replay_of_wave_sim_computes_the_bits_of_numpy(
    launch: Launch, graphs: bool, devices: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(APPS)  # applications import each other as scripts do
    wave_sim = importlib.import_module("wave_sim")
    queue = launch(devices)
    steps = 120
    states = [
        celerity.Buffer.from_function((size, size), np.float32, lambda box: wave_sim.drops(box, size)) for _ in range(2)
    ]
    kernel = wave_sim.wave_step(wave_sim.best_rows(size**2 // devices))
    recorded = queue.record(lambda: wave_sim.advance_waves(queue, states, (), lambda: None, 2, kernel=kernel))
    queue.replay(recorded, steps // 2 - 1)
    assert np.array_equal(queue.fence(states[0]).result(60), wave_sim.reference(size, steps))
    assert (runs_of(queue) > 0) == graphs
    assert queue.statistics().executor["instructions"]["device_kernel"] >= steps * devices


@pytest.mark.parametrize("size", [1000, 1 << 20])  # a kernel fetches what is small, and the copy engines the rest
def test_every_device_reads_all_data(launch: Launch, graphs: bool, devices: int, size: int) -> None:
    source = """
    __global__ void spread(celerity::chunk<1> chunk, accessor<int, 1> out, accessor<const int, 1> in, long long size) {
        const auto i = chunk.item();
        if (chunk.contains(i)) out[i] = out[i] * 3 + in[(7 * i[0] + 5) % size];
    }"""
    queue = launch(devices)
    spread = celerity.CudaKernel(source, "spread")
    states = [np.arange(size, dtype=np.int32) + i for i in range(2)]
    buffers = [celerity.Buffer.from_array(state) for state in states]

    def turn() -> None:
        for new, old in ((0, 1), (1, 0)):
            queue.parallel_for(size, spread, buffers[new].read_write(ONE), buffers[old].read(access.all()), size)

    queue.replay(queue.record(turn), 99)
    far = (7 * np.arange(size) + 5) % size
    for step in range(200):
        states[step % 2] = states[step % 2] * np.int32(3) + states[1 - step % 2][far]
    for buffer, state in zip(buffers, states, strict=True):
        assert np.array_equal(queue.fence(buffer).result(60), state)
    assert (runs_of(queue) > 0) == graphs


def test_memory_is_allocated_and_kernels_are_loaded_while_graphs_run(launch: Launch, devices: int) -> None:
    queue = launch(devices)
    source = """
    __global__ void spread(celerity::chunk<1> chunk, accessor<int, 1> out, accessor<const int, 1> in) {
        const auto i = chunk.item();
        if (chunk.contains(i)) out[i] = out[i] * 3 + in[(7 * i[0] + 5) % 1000];
    }"""
    spread = celerity.CudaKernel(source, "spread")
    state = np.arange(SIZE, dtype=np.int32)
    buffers = [celerity.Buffer.from_array(state), celerity.Buffer.from_array(state)]

    def turn() -> None:
        for new, old in ((0, 1), (1, 0)):
            queue.parallel_for(SIZE, spread, buffers[new].read_write(ONE), buffers[old].read(access.all()))

    recorded = queue.record(turn)
    results = []
    for number in range(5):
        queue.replay(recorded, 400)
        # Neither the memory nor the kernel has been there before.
        grown = celerity.Buffer(((number + 1) << 22,), np.float32)
        fill = celerity.CudaKernel(
            f"""
            __global__ void fill_{number}(celerity::chunk<1> chunk, accessor<float, 1> out) {{
                if (chunk.contains(chunk.item())) out[chunk.item()] = {number + 1};
            }}""",
            f"fill_{number}",
        )
        queue.parallel_for(grown.shape, fill, grown.write(ONE))
        results.append(queue.fence(grown))
        del grown
    expected = [state.copy(), state.copy()]
    far = (7 * np.arange(SIZE) + 5) % SIZE
    for step in range(2 * (1 + 5 * 400)):
        expected[step % 2] = expected[step % 2] * np.int32(3) + expected[1 - step % 2][far]
    for number, result in enumerate(results):
        assert np.all(result.result(60) == number + 1)
    for buffer, values in zip(buffers, expected, strict=True):
        assert np.array_equal(queue.fence(buffer).result(60), values)


def iterate(queue: celerity.Queue, replays: bool) -> list[npt.NDArray[Any]]:
    """Three buffers that take turns, a reduction in each turn, and other tasks before, between and after."""
    mix, total, scale = (celerity.CudaKernel(SOURCE, name, block=(64,)) for name in ("mix", "total", "scale"))
    random = np.random.default_rng(3)
    fields = [celerity.Buffer.from_array(random.random(SIZE)) for _ in range(3)]
    largest = celerity.Buffer((), np.float64)

    def turn() -> None:
        for i in range(3):
            queue.parallel_for(SIZE, mix, fields[i].read_write(ONE), fields[(i + 1) % 3].read(ONE), 0.25 * (i + 1))
        queue.parallel_for(SIZE, total, fields[2].read(ONE), celerity.reduction(largest, "max"))
        queue.parallel_for(SIZE, scale, fields[0].read_write(ONE), largest.read(access.all()))

    results = []
    recorded = queue.record(turn) if replays else turn()
    for times in (50, 1, 64, 7):
        if recorded is not None:
            queue.replay(recorded, times)
        else:
            for _ in range(times):
                turn()
        queue.parallel_for(SIZE, mix, fields[1].read_write(ONE), fields[0].read(ONE), 0.125)
        results += [queue.fence(field).result(60) for field in fields] + [queue.fence(largest).result(60)]
    return results


def test_replays_with_reductions_and_other_tasks_between_compute_the_bits_of_a_loop(
    launch: Launch, graphs: bool, devices: int
) -> None:
    queue = launch(devices)
    expected = iterate(queue, replays=False)
    before = runs_of(queue)
    for result, wanted in zip(iterate(queue, replays=True), expected, strict=True):
        assert np.array_equal(result, wanted)
    assert (runs_of(queue) > before) == graphs


@pytest.mark.parametrize("name", ALL)
def test_a_replayed_program_of_the_dag_suite_is_right(launch: Launch, graphs: bool, name: str) -> None:
    queue = launch(1)
    program = joined(name, build(name, REGIMES["R4"], scale=0.5))
    found = []
    for variant in (Ours, Replayed):
        ours = variant(program, queue, from_host=False)
        ours.reset()
        ours.submit()
        ours.submit_in_a_row(40)
        ours.finish()
        found.append(ours.results())
    for buffer, wanted in found[0].items():
        assert np.array_equal(found[1][buffer], wanted, equal_nan=wanted.dtype.kind == "f"), buffer
    assert (runs_of(queue) > 0) == graphs


@pytest.mark.parametrize("settings", [{"bounds_check": True}, {"sync": True}, {"trace": "timeline.json"}], ids=str)
def test_some_settings_switch_graphs_off(
    launch: Launch, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = launch(1, **settings)
    iterate(queue, replays=True)
    assert runs_of(queue) == 0


@pytest.mark.processes
def test_a_kernel_that_fails_in_a_graph_is_named(devices: int) -> None:
    program = Path(__file__).with_name("failing_gpu_program.py")
    outcome = run(str(program), "replay_fails", variables={"CELERITY_DEVICES": str(devices)}, limit_s=120)
    assert outcome.status not in {0, 124}, outcome
    for text in ("DeviceError", "'count'", line_of(program, "replay_fails"), "of which any may be the cause"):
        assert text in outcome.errors, f"{text!r} is not in\n{outcome.errors}"
    assert outcome.duration_s < 60
