# SPDX-License-Identifier: MIT
"""Plain loops as CUDA graphs on one GPU and on all of them: bits as without graphs, with values that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.gpu.test_graphs import SOURCE

Launch = Callable[..., celerity.Queue]
Stop = Literal["none", "fence", "wait"]

ONE = access.one_to_one()
SIZE = 1000
STEPS = 300


@pytest.fixture(params=["one GPU", pytest.param("all GPUs", marks=pytest.mark.several_gpus)])
def devices(request: pytest.FixtureRequest, num_gpus: int) -> int:
    return 1 if request.param == "one GPU" else num_gpus


@celerity.fuse
def decay(chunk: Any, u: Any, v: Any, factor: Any, seed: Any) -> None:
    u[chunk.box] = u[chunk.box] * factor + v[chunk.box] * celerity.random.uniform(chunk, seed=seed, dtype=np.float64)


def iterate(queue: celerity.Queue, stop: Stop) -> list[npt.NDArray[Any]]:
    """Values grow from step to step; a reduction goes into the next step."""
    mix, total, scale = (celerity.CudaKernel(SOURCE, name, block=(64,)) for name in ("mix", "total", "scale"))
    random = np.random.default_rng(3)
    fields = [celerity.Buffer.from_array(random.random(SIZE)) for _ in range(2)]
    largest = celerity.Buffer((), np.float64)
    results = []
    for step in range(STEPS):
        queue.parallel_for(SIZE, mix, fields[0].read_write(ONE), fields[1].read(ONE), 0.001 * step)
        queue.parallel_for(SIZE, decay, fields[1].read_write(ONE), fields[0].read(ONE), 1 / (1 + step), step)
        queue.parallel_for(SIZE, total, fields[0].read(ONE), celerity.reduction(largest, "max"))
        queue.parallel_for(SIZE, scale, fields[0].read_write(ONE), largest.read(access.all()))
        if stop == "fence" and step % 10 == 9:
            results.append(queue.fence(fields[0]).result(60))
        if stop == "wait" and step % 10 == 9:
            queue.wait()
    return results + [queue.fence(field).result(60) for field in fields]


def run(devices: int, record: str, stop: Stop) -> tuple[list[npt.NDArray[Any]], Mapping[str, Any]]:
    settings: dict[str, Any] = {"backend": "cuda", "devices": devices, "record": record}
    celerity.configure(**settings)
    try:
        with celerity.Queue() as queue:
            return iterate(queue, stop), queue.statistics().executor
    finally:
        celerity.configure(**dict.fromkeys(settings))


@pytest.mark.parametrize("stop", ["none", "fence", "wait"])
def test_a_plain_loop_as_graphs_computes_the_bits_of_one_without(devices: int, stop: Stop) -> None:
    expected, plain = run(devices, "explicit", stop)
    found, counts = run(devices, "auto", stop)
    for result, wanted in zip(found, expected, strict=True):
        assert np.array_equal(result, wanted)
    assert plain["graph_runs"] == 0
    assert counts["graph_runs"] > 0, counts
    assert counts["changed_kernels"] > 0, counts


@pytest.mark.parametrize("settings", [{"bounds_check": True}, {"sync": True}, {"trace": "timeline.json"}], ids=str)
def test_settings_that_look_at_single_operations_switch_graphs_off(
    launch: Launch, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = launch(1, **settings)
    iterate(queue, "none")
    assert queue.statistics().executor["graph_runs"] == 0
