# SPDX-License-Identifier: MIT
"""Arrays on GPUs as the runtime takes and makes them, with a CuPy made of NumPy arrays."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import _native
from celerity_py.cuda.device_arrays import (
    contiguous_on_device,
    copy_on_device,
    is_cupy_dtype,
    new_device_array,
    ordinal_of,
)
from celerity_py.errors import ArgumentTypeError
from celerity_py.runtime import initial_contents, lifecycle
from celerity_py.runtime.devices import Devices
from celerity_py.runtime.initial_contents import take_array


class FakeArray(np.ndarray[Any, Any]):
    """An array on GPU 5."""

    device = SimpleNamespace(id=5)  # type: ignore[assignment] # as CuPy has it

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def __dlpack_device__(self) -> Any:
        return 2, 5


class Foreign:
    """An array of another library on GPU 5."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self, **_: Any) -> Any:
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 5


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    log: list[str] = []

    def made(what: str, array: Any) -> Any:
        log.append(what)
        return np.asarray(array).view(FakeArray)

    def enter(ordinal: int) -> int:
        log.append(f"device {ordinal}")
        return 0

    stream = SimpleNamespace(synchronize=lambda: log.append("waits"))
    cupy = SimpleNamespace(
        ndarray=FakeArray,
        cuda=SimpleNamespace(get_current_stream=lambda: stream),
        empty=lambda shape, dtype: made("allocates", np.empty(shape, dtype)),
        array=lambda array, order, copy: made("copies", np.array(array, order=order, copy=copy)),
        asarray=lambda array, order="K": made("takes", np.asarray(array, order=order)) if order == "C" else array,
        from_dlpack=lambda array: made("exchanges", array.values),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_native, "cuda_enter", enter)
    monkeypatch.setattr(_native, "cuda_leave", lambda previous: log.append("end of device"))
    return log


def test_an_array_is_handed_out_when_nothing_uses_its_memory(log: list[str]) -> None:
    array, address = new_device_array(5, (2, 3), np.dtype("f4"))
    assert array.shape == (2, 3)
    assert address == array.__array_interface__["data"][0]
    assert log == ["device 5", "allocates", "waits", "end of device"]


def test_a_copy_is_complete(log: list[str]) -> None:
    given = np.arange(6.0).reshape(2, 3).T.view(FakeArray)
    copied = copy_on_device(given)
    assert copied.flags.c_contiguous
    assert not np.may_share_memory(copied, given)
    assert log == ["device 5", "copies", "waits", "end of device"]


@pytest.mark.parametrize("contiguous", [True, False])
def test_an_array_is_borrowed_if_it_is_contiguous(log: list[str], contiguous: bool) -> None:
    given = np.arange(6.0).reshape(2, 3).view(FakeArray)
    result, is_same = contiguous_on_device(given if contiguous else given.T, 5, copy=False)
    assert is_same == contiguous == np.may_share_memory(result, given)


@pytest.mark.parametrize("copy", [True, False])
def test_an_array_without_dimensions_gets_none(log: list[str], copy: bool) -> None:
    result, _ = contiguous_on_device(np.array(3.0).view(FakeArray), 5, copy=copy)
    assert result.shape == ()


def test_other_libraries_tell_by_dlpack_which_stream_they_use(log: list[str]) -> None:
    result, _ = contiguous_on_device(Foreign(np.arange(3.0)), 5, copy=True)
    assert result.tolist() == [0, 1, 2]
    assert log == ["device 5", "exchanges", "copies", "waits", "end of device"]


def test_where_an_array_lies() -> None:
    assert ordinal_of(Foreign(None)) == 5
    assert ordinal_of(np.ones(3)) == -1
    assert ordinal_of(SimpleNamespace(device=SimpleNamespace(id=3))) == 3
    assert ordinal_of(SimpleNamespace(device="cuda")) == -1
    assert not is_cupy_dtype(np.dtype([("a", "i4")]))
    assert not is_cupy_dtype(np.dtype(">f8"))
    assert is_cupy_dtype(np.dtype("c8"))


def test_only_arrays_on_gpus_of_the_rank_stay_there(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices("cuda", 2, (4, 5))
    monkeypatch.setattr(lifecycle, "current", lambda: SimpleNamespace(devices=devices))
    given = Foreign(np.arange(3.0))
    taken = take_array(given, "It got", copy=True)
    assert (taken.device, taken.is_borrowed) == (1, False)
    devices = Devices("cuda", 1, (4,))
    monkeypatch.setattr(initial_contents, "to_numpy", lambda array, use: array.values)
    taken = take_array(given, "It got", copy=True)
    assert (taken.device, taken.array.tolist()) == (-1, [0, 1, 2])


def test_an_array_that_cupy_refuses_is_told_with_a_remedy(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices("cuda", 1, (5,))
    monkeypatch.setattr(lifecycle, "current", lambda: SimpleNamespace(devices=devices))
    with pytest.raises(ArgumentTypeError, match=r"It got an object of type .*Foreign, of which CuPy cannot make"):
        take_array(Foreign.__new__(Foreign), "It got", copy=True)


def test_an_array_on_a_gpu_passes_through_the_host_on_cpu_devices(queue: celerity.Queue) -> None:
    class OnGpu(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            return self.values.__dlpack__()

    u = celerity.Buffer.from_array(OnGpu(np.arange(4.0)))
    np.testing.assert_array_equal(queue.fence(u).result(10), np.arange(4.0))
