# SPDX-License-Identifier: MIT
"""Command line, checks and timing of the hand-written programs, without a GPU."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from celerity_py.cuda import compilation
from celerity_py.kernels import CudaKernel
from cluster_jobs.benchmarks.scaling.peers import __main__ as driver
from cluster_jobs.benchmarks.scaling.peers import kernels, slabs
from cluster_jobs.benchmarks.scaling.peers.problem import Problem, Step, Worker, on_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
PEERS = ("convolution", "matmul", "nbody", "rsim", "wave_sim")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cluster_jobs.benchmarks.scaling.peers", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("app", PEERS)
def test_a_program_by_hand_has_the_options_that_the_scaling_benchmark_gives_it(app: str) -> None:
    result = _run(app, "--help")
    assert result.returncode == 0, result.stderr
    for option in ("{process,rank}", "--size", "--steps", "--gpus", "--seconds", "--output", "--check", "--overlap"):
        assert option in result.stdout


def test_a_check_that_numpy_takes_too_long_for_is_refused() -> None:
    result = _run("nbody", "process", "--check", "--size", "5000")
    assert result.returncode == 1
    assert "up to 4096 bodies, not 5000" in result.stderr


class Counter(Problem):
    """Each GPU counts the steps of each parity."""

    default_size, size_help = 1, "nothing"

    def verdict(self, results: Sequence[NDArray[Any]], steps: int) -> int:
        self.seen = (np.concatenate(results).tolist(), steps)
        return int(any(result.sum() != steps for result in results))


class CountingGpu(Worker):
    def __init__(self, problem: Counter, device: int, parts: int) -> None:
        self.share, self.streams, self.counts = self, (), np.zeros(2, int)
        self.place = (device, parts)

    def reset(self) -> None:
        self.counts[:] = 0

    def result(self) -> NDArray[Any]:
        return self.counts.copy()

    def plain(self, parity: int) -> None:
        self.counts[parity] += 1

    def forgetful(self, parity: int) -> None:
        self.counts[parity] += self.place != (1, 2)

    @classmethod
    def variants(cls, workers: list[CountingGpu]) -> dict[str, Step]:
        return {"plain": on_each(workers, cls.plain), "forgetful": on_each(workers, cls.forgetful)}


class GoingOn(Counter):
    """Counters that no variant resets."""

    starts_over = False


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, problem in (("counter", Counter), ("going_on", GoingOn)):
        monkeypatch.setitem(driver.PEERS, name, driver.Peer(problem, CountingGpu, slabs.Rank))
    monkeypatch.setitem(sys.modules, "cupy", None)


@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize("app", ["counter", "going_on"])
@pytest.mark.parametrize(("overlap", "status"), [("off", 0), ("on", 1), ("auto", 1)])
def test_a_check_runs_the_variants_that_are_asked_for(
    app: str, overlap: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [app, "process", "--gpus", "2", "--check", "--overlap", overlap, "--steps", "4"]
    assert driver.main(arguments) == status
    assert ("plain: " in capsys.readouterr().out) == (overlap != "on")


@pytest.mark.usefixtures("counters")
@pytest.mark.parametrize("app", ["counter", "going_on"])
def test_a_check_knows_how_many_steps_lie_behind_a_result(app: str) -> None:
    options = driver.parsed([app, "process", "--gpus", "2", "--check", "--steps", "4"])
    problem = driver.PEERS[app].problem(options)
    assert isinstance(problem, Counter)
    driver.check(problem, driver.Run(driver.PEERS[app], problem))
    assert problem.seen == (([3, 3, 0, 0], 6) if app == "counter" else ([6, 6, 3, 3], 12))


@pytest.mark.usefixtures("counters")
def test_the_figures_of_a_program_by_hand_are_written_to_a_file(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    assert driver.main(["counter", "process", "--gpus", "2", "--steps", "3", "--output", str(output)]) == 0
    figures = json.loads(output.read_text())
    assert figures["program"] == "one process, CuPy with peer copies and events"
    assert (figures["gpus"], figures["size"], len(figures["batches_us_per_step"])) == (2, 1, 7)
    assert figures["us_per_step"] == sorted(figures["batches_us_per_step"])[3]


@pytest.mark.parametrize("are_long", [False, True])
def test_the_faster_variant_is_timed_in_steps_of_both_parities(*, are_long: bool) -> None:
    parities: list[int] = []

    def slow(parity: int) -> None:
        time.sleep(1e-3)

    options = argparse.Namespace(steps=3, batches=2, seconds=60.0)
    run: Any = SimpleNamespace(
        variants={"slow": slow, "fast": parities.append},
        finish=lambda: None,
        agree=lambda value: value,
        slowest=lambda value: value,
    )
    best, times = driver.time_variants(run, options, are_long=are_long)
    assert best == "fast"
    assert len(times) == 2
    steps = 3 if are_long else 4
    assert parities[-2 * steps :] == [number % 2 for number in range(steps)] * 2


class HostArray(np.ndarray[Any, Any]):
    """An array that has its address where CuPy's arrays have it."""

    data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))

    def get(self) -> NDArray[Any]:
        return np.array(self)


class Device:
    """A GPU of `cupy_on_the_host`, and its streams and events, where everything happens at once."""

    ptr = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def record(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


Launched = list[tuple[Any, ...]]


@pytest.fixture
def cupy_on_the_host(monkeypatch: pytest.MonkeyPatch) -> Launched:
    """Replaces CuPy by NumPy; all launches, which do nothing, but for those of `wave_step`."""
    launched: Launched = []

    def launch(function: str, *arguments: int) -> None:
        *shape, address, _ = arguments
        launched.append((function, *shape))
        if function == "wave_step":
            advance_wave(ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)))

    def copy(target: int, source: int, size_bytes: int, *_: int) -> None:
        ctypes.memmove(target, source, size_bytes)

    runtime = SimpleNamespace(
        memcpyAsync=copy,
        memcpyDeviceToDevice=3,
        setDevice=lambda device: None,
        deviceSynchronize=lambda: None,
        deviceEnablePeerAccess=lambda device: None,
    )
    driver_module = SimpleNamespace(launchKernel=launch)
    cuda = SimpleNamespace(runtime=runtime, driver=driver_module, Device=Device, Stream=Device, Event=Device)
    cupy = SimpleNamespace(
        ndarray=HostArray, cuda=cuda, asarray=lambda values, **given: np.array(values, **given).view(HostArray)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(compilation, "load", lambda program, ordinals: [program.name for _ in ordinals])
    return launched


def advance_wave(parameters: Any) -> None:
    """A launch of the kernel of WaveSim, in plain NumPy."""

    def longs(index: int, count: int) -> list[int]:
        return list((ctypes.c_longlong * count).from_address(parameters[index]))

    top, _, bottom, width, _, _, height, columns = longs(0, 8)
    assert width == columns

    def rows(index: int, first: int, end: int) -> NDArray[np.float32]:
        base, stride = longs(index, 2)
        assert stride == columns
        memory = (ctypes.c_float * ((end - first) * stride)).from_address(base + 4 * first * stride)
        return np.ctypeslib.as_array(memory).reshape(end - first, stride)

    top, bottom = max(top, 1), min(bottom, height - 1)
    u, u_next = rows(2, top - 1, bottom + 1), rows(1, top, bottom)[:, 1:-1]
    c2 = np.float32(ctypes.c_float.from_address(parameters[3]).value)
    laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    u_next[...] = 2 * u[1:-1, 1:-1] - u_next + c2 * laplacian


@pytest.mark.parametrize(("gpus", "size"), [(1, 37), (2, 37), (3, 40)])
def test_slabs_compute_with_the_kernel_of_the_application_what_numpy_computes(
    gpus: int, size: int, cupy_on_the_host: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["wave_sim", "process", "--gpus", str(gpus), "--size", str(size), "--steps", "10", "--check"]
    assert driver.main(arguments) == 0
    assert capsys.readouterr().out.count("Verified: bit-identical to plain NumPy.") == 2  # plain and overlapped
    assert {shape[0] for shape in cupy_on_the_host} == {"wave_step"}


def test_a_launch_has_the_grid_and_the_parameters_that_the_runtime_gives_it(cupy_on_the_host: Launched) -> None:
    kernel = CudaKernel("", "some", block=(4, 32), items=(2, 4), shared_bytes=100)
    array = np.zeros((6, 50), np.float64).view(HostArray)
    values = (kernels.chunk((3, 0), (22, 50), (80, 50)), kernels.accessor(array, 3), array, np.float32(0.5))
    launch = kernels.Launch(kernel, 0, *values)
    launch(SimpleNamespace(ptr=77))
    assert cupy_on_the_host == [("some", 1, 3, 1, 32, 4, 1, 100, 77)]
    base, stride = kernels.accessor(array, 3)
    assert (base + 3 * 50 * 8, stride) == (array.ctypes.data, 50)
    packed = [ctypes.c_void_p.from_address(launch._address + 8 * index).value for index in range(4)]
    assert ctypes.c_ulonglong.from_address(packed[2] or 0).value == array.ctypes.data
    assert ctypes.c_float.from_address(packed[3] or 0).value == 0.5
