# SPDX-License-Identifier: MIT
"""The hand-written variants of the DAG programs on a GPU made of NumPy: their launches and copies.

It reads the parameters of each launch from memory, as the device header declares them, runs the NumPy function of the
kernel at once, and copies bytes. The order that streams keep is checked in `test_dag_schedules.py`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cluster_jobs.benchmarks.cuda_driver import DriverError
from cluster_jobs.benchmarks.dags import dag_measure, dags_by_hand
from cluster_jobs.benchmarks.dags.dag_programs import Program
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, REGIMES, build, joined
from cluster_jobs.benchmarks.dags.dag_schedules import schedule_of
from cluster_jobs.benchmarks.dags.sharing_programs import CASES
from cluster_jobs.benchmarks.dags.sharing_programs import build as build_case
from cluster_jobs.benchmarks.dags.sharing_runners import HandTogether

HOST, DEVICE = 1, 2


class FakeStream:
    def __init__(self, gpu: FakeGpu, priority: int) -> None:
        self.gpu = gpu
        self.priority = priority
        self.ptr = gpu.number_of(self)

    def synchronize(self) -> None:
        assert self.gpu.captured is None
        self.gpu.synchronized += 1

    def wait_event(self, event: FakeEvent) -> None:
        self.gpu.waits += 1

    def begin_capture(self) -> None:
        assert self.gpu.captured is None
        self.gpu.captured = []

    def end_capture(self) -> FakeGraph:
        captured = self.gpu.captured
        assert captured is not None
        self.gpu.captured = None
        return FakeGraph(captured)


class FakeEvent:
    def record(self, stream: FakeStream) -> None:
        pass


class FakeGraph:
    def __init__(self, work: list[Callable[[], None]]) -> None:
        self.work = work

    def upload(self, stream: FakeStream) -> None:
        pass

    def launch(self, stream: FakeStream) -> None:
        for work in self.work:
            work()


class FakeArray:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.nbytes = array.nbytes
        address = array.ctypes.data
        self.data = SimpleNamespace(ptr=address, memset=lambda value, size: ctypes.memset(address, value, size))

    def set(self, array: np.ndarray[Any, Any]) -> None:
        assert (array.shape, array.dtype) == (self.array.shape, self.array.dtype)
        self.array[...] = array


class FakeGpu:
    """The parts of CuPy and of the driver that `dags_by_hand.py` uses."""

    def __init__(self) -> None:
        self._known: list[Any] = [None]
        self.kernels: dict[int, Any] = {}
        self.captured: list[Callable[[], None]] | None = None
        self.waits = self.launches = self.synchronized = 0
        self.copied = {HOST: 0, DEVICE: 0}
        self.most_threads = 0
        self.threads: set[int] = set()
        runtime = SimpleNamespace(
            setDevice=lambda ordinal: None,
            deviceSynchronize=lambda: None,
            memcpyAsync=self._copy,
            memcpyHostToDevice=HOST,
            memcpyDeviceToHost=DEVICE,
        )
        cuda = SimpleNamespace(
            runtime=runtime,
            Stream=lambda non_blocking, priority: FakeStream(self, priority),
            Event=lambda disable_timing: FakeEvent(),
        )
        self.cupy = SimpleNamespace(
            cuda=cuda,
            empty=lambda shape, dtype: FakeArray(np.full(shape, 99, dtype)),
            asnumpy=lambda array: array.array.copy(),
        )
        self.cupyx = SimpleNamespace(empty_pinned=np.empty)

    def number_of(self, thing: Any) -> int:
        self._known.append(thing)
        return len(self._known) - 1

    def make_current(self) -> None:
        self.threads.add(threading.get_ident())

    def function(self, name: str) -> Callable[..., int]:
        assert name == "cuLaunchKernel"
        return self._launch

    def _do(self, work: Callable[[], None]) -> None:
        if self.captured is None:
            work()
        else:
            self.captured.append(work)

    def _copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        assert isinstance(self._known[stream], FakeStream)

        def copy() -> None:
            self.copied[kind] += size
            ctypes.memmove(target, source, size)

        self._do(copy)

    def _launch(self, function: int, *rest: Any) -> int:
        blocks, threads, (shared, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        assert shared == 0
        assert extra is None
        assert isinstance(self._known[stream.value], FakeStream)
        assert blocks[0] >= 1
        assert all(0 < count <= 65535 for count in blocks[1:])
        kernel = self.kernels[function]
        pointers = (ctypes.c_uint64 * (1 + len(kernel.declared()))).from_address(parameters.value)
        corners = np.frombuffer(ctypes.string_at(pointers[0], 32 * kernel.dims), np.int64).reshape(4, kernel.dims)
        assert not corners[0].any()
        assert np.array_equal(corners[:2], corners[2:])
        if not kernel.is_fold and kernel.name != "standardize":
            assert len(threads) == 3
            assert np.prod(threads) >= 32
        self.most_threads = max(self.most_threads, int(np.prod(threads)))
        args = [_argument(declared, address) for declared, address in zip(kernel.declared(), pointers[1:], strict=True)]

        def run() -> None:
            self.launches += 1
            kernel.numpy(*(self._view(*arg) if isinstance(arg, tuple) else arg for arg in args))

        self._do(run)
        return 0

    def _view(self, address: int, strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The array at an address; its strides must be those of a dense array."""
        array: np.ndarray[Any, Any] = self.arrays[address]
        assert array.dtype == dtype
        assert strides == tuple(stride // array.itemsize for stride in array.strides[:-1] or (array.itemsize,))
        return array

    arrays: dict[int, np.ndarray[Any, Any]] = {}  # noqa: RUF012 - of the program at hand


def _argument(declared: tuple[str, str, str, str], address: int) -> Any:
    _, kind, _, ndim = declared
    if not ndim:
        return int(np.frombuffer(ctypes.string_at(address, 4), np.int32)[0])
    words = np.frombuffer(ctypes.string_at(address, 8 * (1 + max(1, int(ndim) - 1))), np.uint64)
    dtype = np.dtype({"float": np.float32, "double": np.float64, "int": np.int32}[kind])
    return int(words[0]), tuple(int(word) for word in words[1:]), dtype


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    fake = FakeGpu()
    monkeypatch.setitem(sys.modules, "cupy", fake.cupy)
    monkeypatch.setitem(sys.modules, "cupyx", fake.cupyx)
    monkeypatch.setattr(dags_by_hand, "Driver", lambda ordinal: fake)

    def function(self: dags_by_hand.Arrays, step: Any) -> int:
        fake.kernels[id(step.kernel)] = step.kernel
        return id(step.kernel)

    monkeypatch.setattr(dags_by_hand.Arrays, "function", function)
    yield fake
    FakeGpu.arrays = {}


def _arrays(program: Program, *, from_host: bool) -> dags_by_hand.Arrays:
    arrays = dags_by_hand.Arrays(program, from_host=from_host)
    on_device: dict[str, Any] = arrays.on_device
    FakeGpu.arrays = {array.data.ptr: array.array for array in on_device.values()}
    return arrays


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", ALL)
def test_each_variant_computes_what_numpy_computes(name: str, regime: str, gpu: FakeGpu) -> None:
    from_host = REGIMES[regime].from_host
    program = joined(name, build(name, REGIMES[regime], scale=1e-4))
    arrays = _arrays(program, from_host=from_host)
    for kind in ("a0", "a1", "b", "c"):
        variant = dags_by_hand.HandWritten(kind, arrays, schedule_of(name), from_host=from_host)
        first = dag_measure.first_results(variant, program, from_host=from_host)
        dag_measure.check_again(variant, first, from_host=from_host)
        launches, copied, waits = gpu.launches, dict(gpu.copied), gpu.waits
        variant.submit_alone()
        variant.finish_alone()
        assert gpu.launches - launches == len(program.steps)
        dirty = sum(program.buffers[buffer].nbytes for buffer in program.dirty) if from_host else 0
        assert gpu.copied[HOST] - copied[HOST] == dirty
        assert (gpu.copied[DEVICE] > copied[DEVICE]) == from_host
        if not from_host:
            assert gpu.waits - waits == (program.least_waits if kind == "b" else 0)
    assert gpu.most_threads <= 512


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_programs_beside_each_other_compute_what_numpy_computes(case: str, ahead: bool, gpu: FakeGpu) -> None:
    programs = dict(enumerate(build_case(CASES[case], "tiny")))
    priorities = dict(enumerate(CASES[case].priorities))
    runner = HandTogether(programs, priorities, ahead=ahead)
    on_device: list[Any] = [array for of in runner._variants.values() for array in of.arrays.on_device.values()]
    FakeGpu.arrays = {array.data.ptr: array.array for array in on_device}
    assert sorted({-stream.priority for stream in gpu._known[1:]}) == sorted(set(priorities.values()))
    runner.renew(list(programs))
    copied = gpu.copied[HOST]
    ends = runner.start(list(programs), with_priorities=True)
    dirty = sum(program.buffers[name].nbytes for program in programs.values() for name in program.dirty)
    assert gpu.copied[HOST] - copied == (0 if ahead else dirty)
    assert gpu.copied[DEVICE] > 0
    assert list(ends) == list(programs)
    for number, program in programs.items():
        program.check(runner.results(number), 1)
    if ahead:
        runner.renew(list(programs))
        with ThreadPoolExecutor(1) as thread:
            thread.submit(runner.enter_thread).result()
        assert len(gpu.threads) == 1
        for number, program in programs.items():
            runner.repeat(number, 2)
            if program.name != "ML":  # whose scores are added to those of the run before
                program.check(runner.results(number), 2)
    runner.close()


def test_a_variant_without_its_copies_is_found(gpu: FakeGpu) -> None:
    program = joined("VEC", build("VEC", REGIMES["R3"], scale=1e-4))
    arrays = _arrays(program, from_host=True)
    variant = dags_by_hand.HandWritten("a1", arrays, schedule_of("VEC"), from_host=True)
    arrays.sources[True]["y"][...] = 0
    with pytest.raises(AssertionError, match="result"):
        dag_measure.first_results(variant, program, from_host=True)


def test_a_variant_that_leaves_old_results_is_found(gpu: FakeGpu) -> None:
    program = joined("VEC", build("VEC", REGIMES["R4"], scale=1e-2))
    arrays = _arrays(program, from_host=False)
    good = dags_by_hand.HandWritten("a1", arrays, schedule_of("VEC"), from_host=False)
    dag_measure.first_results(good, program, from_host=False)
    lazy = dags_by_hand.HandWritten("b", arrays, schedule_of("VEC"), from_host=False)
    lazy._again = []
    with pytest.raises(AssertionError, match="result"):
        dag_measure.first_results(lazy, program, from_host=False)


def test_a_status_of_the_driver_is_an_error() -> None:
    with pytest.raises(DriverError, match="700"):
        dags_by_hand.issue([(lambda: 0, ()), (lambda: 700, ())])
