# SPDX-License-Identifier: MIT
"""Python kernels on GPUs, with a CuPy made of NumPy arrays: current device and stream, and arguments of kernels."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from celerity_py import _native
from celerity_py._native import BoundAccess, BoundReduction, Box, KernelCall
from celerity_py.calls.call_checks import CallChecks
from celerity_py.cuda import binder as cuda_execution
from celerity_py.cuda.binder import CudaBinder, CudaReducer, CudaView, stream_of
from celerity_py.errors import IncompleteWrite, KeptArray, OutOfBoundsAccess, ReadOnlyAccess
from celerity_py.executor.failures.failure import describe_error
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.runtime.executor_delegate import explain_violation
from celerity_py.vocabulary.accesses import READ, READ_WRITE, WRITE, Port
from celerity_py.vocabulary.submissions import Submission


def test_a_kernel_with_an_index_outside_is_told_what_to_write() -> None:
    record: Any = SimpleNamespace(
        id=3, dtype=np.dtype("f4"), shape=(100,), label='B3 "u"', runtime=None, box=Box((0,), (100,))
    )
    task: Any = SimpleNamespace(args=[Port(record, READ)], describe=lambda: 'kernel "step" (submitted at app.py:12)')

    def told(index: int) -> str:
        error = explain_violation(task, 0, (index, 0, 0), [(40, 0, 0, 50, 1, 1)])
        assert isinstance(error, OutOfBoundsAccess)
        return str(error)

    where = 'kernel "step" (submitted at app.py:12) accesses B3 "u" at [{}], outside of its declared region [40:50].'
    assert told(50) == (
        where.format(50)
        + " Widen the range mapper of this access, or test the index in the kernel (the whole buffer is [0:100])."
    )
    assert told(2**63 - 1).startswith(where.format(2**63 - 1) + " Widen the range mapper")
    nothing = explain_violation(task, 0, (9, 0, 0), [])
    assert "outside of its declared region {}. Widen the range mapper" in str(nothing)
    assert told(9).startswith(
        where.format(9) + " Indices are global coordinates, and this access begins at [40]: if the index counts from "
        "there, use the coordinates of chunk.item(). Otherwise widen the range mapper of this access, or test the index"
    )


def test_a_kernel_with_an_index_outside_of_the_target_of_a_reduction_is_told() -> None:
    read: Any = SimpleNamespace(id=3, dtype=np.dtype("f4"), shape=(100,), label="B3", runtime=None)
    target: Any = SimpleNamespace(
        id=4, dtype=np.dtype("f4"), shape=(5, 7), label='B4 "sums"', runtime=None, box=Box((0, 0), (5, 7))
    )
    read.checks_values = target.checks_values = False
    args = [ReductionPort(target, "sum"), Port(read, READ)]
    task: Any = SimpleNamespace(args=args, describe=lambda: 'kernel "step" (submitted at app.py:12)')
    error = explain_violation(task, 1, (4, 7, 0), [])
    assert isinstance(error, OutOfBoundsAccess)
    assert str(error) == (
        'kernel "step" (submitted at app.py:12) combines a value into B4 "sums" at [4, 7], outside of the buffer '
        "[0:5, 0:7]. Test the index in the kernel, or make the buffer larger."
    )


class FakeStream:
    def __init__(self, handle: int, log: list[str]) -> None:
        self.handle = handle
        self.log = log

    def __enter__(self) -> None:
        self.log.append(f"stream {self.handle:#x}")

    def __exit__(self, *_: object) -> None:
        self.log.append("end of stream")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    log: list[str] = []

    def enter(ordinal: int) -> int:
        log.append(f"device {ordinal}")
        return 0x17

    def leave(previous: int) -> None:
        assert previous == 0x17
        log.append("end of device")

    def ndarray(shape: tuple[int, ...], dtype: Any, pointer: tuple[int, int]) -> np.ndarray[Any, Any]:
        memory: Any = (ctypes.c_byte * pointer[1]).from_address(pointer[0])
        return np.ndarray(shape, dtype, memory)

    cuda = SimpleNamespace(
        Stream=SimpleNamespace(from_external=lambda stream: FakeStream(stream.__cuda_stream__()[1], log)),
        UnownedMemory=lambda address, size, owner, ordinal: (address, size),
        MemoryPointer=lambda memory, offset: memory,
    )
    cupy = SimpleNamespace(cuda=cuda, ndarray=ndarray, empty=np.empty, add=np.add, maximum=np.maximum)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_native, "cuda_enter", enter)
    monkeypatch.setattr(_native, "cuda_leave", leave)
    monkeypatch.setattr(cuda_execution, "_streams", {})
    return log


class FakeRecord:
    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        self.id = 3
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.box = Box((0,) * len(shape), shape)
        self.label = 'B3 "u"'
        self.runtime = None
        self.checks_values = False
        self.arrays: dict[Any, Any] = {}


def fake_record(*args: Any) -> Any:
    return FakeRecord(*args)


def call_of(function: Any, args: list[Any], bindings: list[Any], partials: list[Any]) -> Any:
    submission = Submission("kernel", "step", function, args, Box((0,), (8,)), sys._getframe())
    accesses = [binding and BoundAccess(*binding) for binding in bindings]
    reductions = [BoundReduction(*partial) for partial in partials]
    return submission, KernelCall(1, 7, Box((2,), (6,)).flat(), accesses, reductions, 0xABC)


def address_of(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def test_device_and_stream_are_current_during_the_call_and_no_longer(log: list[str]) -> None:
    def step(chunk: Any) -> None:
        log.append(f"{chunk.box} on {chunk.device}, {chunk.xp is sys.modules['cupy']}, {chunk.stream.handle:#x}")

    run_kernel(call_of(step, [], [], []), 5, 1)
    assert log == ["device 5", "stream 0xabc", "Box((2,), (6,)) on 1, True, 0xabc", "end of stream", "end of device"]


def run_kernel(made: tuple[Submission, KernelCall], ordinal: int, device: int, *checks: CallChecks) -> None:
    submission, call = made
    CudaBinder(ordinal).run_kernel(submission, device, call, *checks)


def test_views_alias_the_allocation_in_global_coordinates(log: list[str]) -> None:
    memory = np.arange(8, dtype=np.float32)
    record = fake_record((16,))
    binding = (3, (2, 9), address_of(memory), Box((4,), (12,)).flat(), Box((5,), (9,)).flat(), [Box((5,), (9,)).flat()])

    def step(chunk: Any, u: Any, factor: int) -> None:
        assert type(u) is CudaView
        u[5:7] = u[5:7] * factor

    made = call_of(step, [Port(record, READ_WRITE), 10], [binding], [])
    run_kernel(made, 0, 0)
    assert memory.tolist() == [0, 10, 20, 3, 4, 5, 6, 7]
    assert list(record.arrays) == [(2, 9)]


def test_writing_through_a_read_access_is_refused(log: list[str]) -> None:
    memory = np.zeros(4, np.float32)
    box = Box((0,), (4,)).flat()

    def step(chunk: Any, u: Any) -> None:
        u[0:2] = 1

    made = call_of(step, [Port(fake_record((4,)), READ)], [(3, (2, 9), address_of(memory), box, box, [box])], [])
    with pytest.raises(ReadOnlyAccess, match=r'writes through its read access to B3 "u", at \[0:2\]'):
        run_kernel(made, 0, 0)
    assert log[-2:] == ["end of stream", "end of device"]


def test_an_array_that_a_kernel_keeps_is_an_error(log: list[str]) -> None:
    memory = np.zeros(4, np.float32)
    box = Box((0,), (4,)).flat()
    binding = (3, (2, 9), address_of(memory), box, box, [box])
    kept: list[Any] = []
    record = fake_record((4,))
    ways: list[Callable[[Any], Any]] = [lambda u: u[1:], lambda u: u.array[1:][:1], lambda u: u.array]
    for keep in ways:
        made = call_of(lambda chunk, u: kept.append(keep(u)), [Port(record, READ)], [binding], [])  # noqa: B023
        with pytest.raises(KeptArray, match=r'kernel "step" .* keeps an array .* from its view of B3 "u"'):
            run_kernel(made, 0, 0)
    made = call_of(lambda chunk, u: kept.append(u), [Port(record, READ)], [binding], [])
    run_kernel(made, 0, 0)
    with pytest.raises(KeptArray, match="has returned"):
        kept[-1][...]


MIXED = "Unsupported type <class 'numpy.ndarray'>"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            [np.ones(3)],
            "argument 2, 'weights', is an array .* Write chunk.xp.asarray\\(weights\\) in the kernel, or pass a B",
        ),
        ([5, np.ones(3)], "argument 3, 'rest\\[0\\]', is an array of NumPy"),
        ([np.ones(3), 5, np.ones(2)], "argument 2, 'weights', and argument 4, 'rest\\[1\\]', are arrays .*xp.asarray"),
        ([5], "arrays of views are those of CuPy, .* Write chunk.xp.asarray\\(array\\)"),
    ],
)
def test_a_kernel_that_mixes_arrays_of_numpy_with_views_is_told_which_and_what_to_write(
    log: list[str], arguments: list[Any], told: str
) -> None:
    memory = np.zeros(4, np.float32)
    box = Box((0,), (4,)).flat()

    def step(chunk: Any, u: Any, weights: Any, *rest: Any) -> None:
        raise TypeError(MIXED)

    made = call_of(
        step, [Port(fake_record((4,)), READ), *arguments], [(3, (2, 9), address_of(memory), box, box, [box])], []
    )
    with pytest.raises(TypeError, match=r"numpy\.ndarray") as caught:
        run_kernel(made, 0, 0)
    assert re.search(told, describe_error(caught.value)), describe_error(caught.value)
    assert describe_error(caught.value).startswith(f"TypeError: {MIXED}. ")


def test_other_errors_of_a_kernel_stay_as_they_are(log: list[str]) -> None:
    def step(chunk: Any, weights: Any) -> None:
        raise TypeError("no number")

    with pytest.raises(TypeError) as caught:
        run_kernel(call_of(step, [np.ones(3)], [], []), 0, 0)
    assert "NumPy" not in describe_error(caught.value)


def test_a_chunk_that_accesses_nothing_gets_an_empty_view(log: list[str]) -> None:
    seen: list[Any] = []
    made = call_of(lambda chunk, u: seen.append(u[...].shape), [Port(fake_record((4, 4)), READ)], [None], [])
    run_kernel(made, 0, 0)
    assert seen == [(0, 0)]


@pytest.mark.parametrize(("op", "expected"), [("sum", 12), ("max", 7)])
def test_partial_results_start_with_the_identity(op: str, expected: int, log: list[str]) -> None:
    partial = np.array(99, np.int32)

    def step(chunk: Any, out: Any) -> None:
        assert type(out) is CudaReducer
        out.combine(5)
        out.combine(np.array([7], np.int32))

    port = ReductionPort(fake_record((1,), np.int32), op)
    run_kernel(call_of(step, [port], [], [(address_of(partial), op, "int32")]), 0, 0)
    assert partial == expected


class FakeArray(np.ndarray[Any, Any]):
    """Has the members of CuPy's arrays that NumPy's lack."""

    def get(self) -> np.ndarray[Any, Any]:
        return np.array(self)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


@pytest.fixture
def checks(log: list[str], monkeypatch: pytest.MonkeyPatch) -> CallChecks:
    cupy = sys.modules["cupy"]
    ndarray = cupy.ndarray
    monkeypatch.setattr(cupy, "ndarray", lambda *args: ndarray(*args).view(FakeArray))
    monkeypatch.setattr(cupy, "empty", lambda *args: np.empty(*args).view(FakeArray))
    monkeypatch.setattr(cupy, "asarray", lambda array: array.view(FakeArray), raising=False)
    return CallChecks()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_elements_left_unwritten_are_found_before_the_stream_is_left(
    log: list[str], checks: CallChecks, dtype: Any
) -> None:
    memory = np.zeros(8, dtype)
    box = Box((4,), (12,)).flat()
    accessed = Box((5,), (9,)).flat()
    port = Port(fake_record((16,), dtype), WRITE)

    def step(chunk: Any, u: Any, until: int) -> None:
        u[5:until] = 3

    for until in (9, 8):
        made = call_of(step, [port, until], [(3, (2, 9), address_of(memory), box, accessed, [accessed])], [])
        if until == 9:
            run_kernel(made, 0, 0, checks)
            assert memory.tolist() == [0, 3, 3, 3, 3, 0, 0, 0]
        else:
            with pytest.raises(IncompleteWrite, match=r"leaves 1 of these 4 elements unwritten, first \[8:9\]"):
                run_kernel(made, 0, 0, checks)
    assert log[-2:] == ["end of stream", "end of device"]


def test_gaps_of_regions_are_watched(log: list[str], checks: CallChecks) -> None:
    memory = np.arange(8, dtype=np.float32)
    box, accessed = Box((0,), (8,)).flat(), [Box((0,), (2,)).flat(), Box((5,), (8,)).flat()]
    record = fake_record((8,))

    def call(step: Any) -> None:
        binding = (3, (2, 9), address_of(memory), box, box, accessed)
        run_kernel(call_of(step, [Port(record, READ_WRITE)], [binding], []), 0, 0, checks)

    def negate(chunk: Any, u: Any) -> None:
        u[0:2], u[5:8] = -u[0:2], -u[5:8]

    call(negate)
    assert memory.tolist() == [0, -1, 2, 3, 4, -5, -6, -7]
    assert not record.arrays, "nobody may find the memory of the copy again"
    with pytest.raises(OutOfBoundsAccess, match=r'writes B3 "u" \[2:5\], outside of its declared region'):
        call(lambda chunk, u: u.array.fill(0))


def test_a_stream_is_wrapped_once(log: list[str]) -> None:
    assert stream_of(0, 1) is stream_of(0, 1)
    assert stream_of(0, 1) is not stream_of(1, 1)
