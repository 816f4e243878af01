# SPDX-License-Identifier: MIT
"""Arrays of other libraries, in and out, by the protocols that these offer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.scheduler.errors import ArgumentTypeError
from tests.support.scripts import run

GPU = (2, 0)


class Exported:
    """An array that offers nothing but DLPack."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.contents = array
        self.device = device

    def __dlpack__(self, *, dl_device: Any = None, **options: Any) -> Any:
        if self.device == GPU and dl_device is None:
            raise BufferError("no way to the host")
        return self.contents.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OnlyOnGpu:
    """An array that offers nothing but CUDA's array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,)}


class Quantity:
    """A value with a unit, which an array of NumPy would lose."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.ones(4)


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    with celerity.Queue() as queue:
        yield queue


@pytest.mark.parametrize("device", [(1, 0), GPU])
@pytest.mark.parametrize("copy", [True, False])
def test_a_buffer_begins_with_an_array_of_another_library(queue: celerity.Queue, device: Any, copy: bool) -> None:
    array = np.arange(12.0).reshape(3, 4)
    u = celerity.Buffer.from_array(Exported(array, device), copy=copy)
    queue.wait()
    array[...] = 0
    assert np.array_equal(queue.fence(u).result(10), np.arange(12.0).reshape(3, 4))


def test_a_borrowed_array_of_another_library_is_not_copied(queue: celerity.Queue) -> None:
    array = np.zeros(4)
    u = celerity.Buffer.from_array(Exported(array), copy=False)
    array[...] = 7  # against the rule of the documentation: nothing has read it yet
    assert np.array_equal(queue.fence(u).result(10), np.full(4, 7.0))


def test_an_array_on_a_gpu_comes_through_cupy_if_that_is_loaded(
    queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = SimpleNamespace(asarray=lambda array: array, asnumpy=lambda array: np.ones(4))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    u = celerity.Buffer.from_array(OnlyOnGpu())  # type: ignore[call-overload]
    assert np.array_equal(queue.fence(u).result(10), np.ones(4))


@pytest.mark.parametrize("array", [OnlyOnGpu(), Exported("none")])
def test_an_array_that_numpy_cannot_take_is_refused(queue: celerity.Queue, array: Any) -> None:
    text = r"from_array\(\) got an object of type .*(Exported|OnlyOnGpu), of which NumPy cannot .*: .*\. Convert it,"
    with pytest.raises(ArgumentTypeError, match=text):
        celerity.Buffer.from_array(array)
    with pytest.raises(ArgumentTypeError, match=r'^B\d+ "u" is used as an array'):
        celerity.Buffer.from_array(celerity.Buffer(4, name="u"))


def test_sequences_of_unequal_lengths_are_refused(queue: celerity.Queue) -> None:
    ragged: Any = [[1, 2], [3]]
    text = r"from_array\(\) got a list, of which NumPy cannot make an array: .*\. Nested sequences need equal lengths\."
    with pytest.raises(ArgumentTypeError, match=text):
        celerity.Buffer.from_array(ragged)


def test_a_function_returns_an_array_of_another_library(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_function(4, np.float64, lambda box: Exported(np.full(box.shape, 3.0)))
    assert np.array_equal(queue.fence(u).result(10), np.full(4, 3.0))


#: Tasks that fail, in programs of their own.
EXPORTED = """
class Exported:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(max_version=options.get("max_version"))

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

kept = []
queue = celerity.Queue()
u = celerity.Buffer.from_function(4, np.int32, lambda box: Exported(np.ones(box.shape, {dtype!r})), name="u")
queue.host_task(lambda part, view: {call}, u.read_write(access.all()))
queue.wait()
"""


@pytest.mark.parametrize(
    ("dtype", "call", "message"),
    [
        ("M8[s]", "None", "It returned an object of type __main__.Exported, of which NumPy cannot make an array: "),
        ("i4", "view.__setitem__(..., Exported(np.ones(4)))", "elements are int32, which cannot hold it"),
        ("i4", "kept.append(np.from_dlpack(view))", 'keeps an array that it has taken from its view of B1 "u"'),
    ],
)
def test_an_array_of_another_library_that_is_of_no_use_ends_the_run(
    dtype: str, call: str, message: str, tmp_path: Path
) -> None:
    result = run(tmp_path, EXPORTED.format(dtype=dtype, call=call))
    assert result.returncode != 0
    assert message in result.stderr


@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: (array, 1)])
def test_a_task_sees_an_array_as_it_was_at_the_submit(queue: celerity.Queue, wrap: Any) -> None:
    array = np.arange(4.0)
    seen = []

    def look(part: Any, given: Any) -> None:
        given = given[0] if isinstance(given, tuple) else given
        seen.append((type(given), given.flags.writeable, given.tolist()))

    queue.host_task(lambda part: None)
    queue.host_task(look, wrap(Exported(array)))
    array[...] = 9
    queue.wait()
    assert seen == [(np.ndarray, False, [0, 1, 2, 3])]


@pytest.mark.parametrize("array", [OnlyOnGpu(), Exported(np.ones(4), GPU)])
@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: (array, 1), lambda array: [array]])
def test_an_array_on_a_gpu_is_no_argument(queue: celerity.Queue, array: Any, wrap: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r'host task "print" got a .* It lies on one GPU and can change'):
        queue.host_task(print, wrap(array))


def test_a_quantity_stays_as_it_is(queue: celerity.Queue) -> None:
    seen: list[type] = []
    queue.host_task(lambda part, given: seen.append(type(given)), Quantity())
    queue.wait()
    assert seen == [Quantity]


def test_a_view_is_assigned_an_array_of_another_library(queue: celerity.Queue) -> None:
    u = celerity.Buffer(4, name="u")

    def assign(chunk: celerity.Chunk, view: celerity.View) -> None:
        view[chunk.box] = Exported(np.full(chunk.box.shape, 2.0))

    queue.parallel_for(4, assign, u.write(access.one_to_one()))
    assert np.array_equal(queue.fence(u).result(10), np.full(4, 2.0))


def test_other_libraries_take_views_and_fences_without_a_copy(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(4.0))

    def double(part: celerity.Part, view: celerity.View) -> None:
        taken = np.from_dlpack(view)
        assert taken.__array_interface__["data"] == view.array.__array_interface__["data"]
        view[...] = taken * 2

    queue.host_task(double, u.read_write(access.all()))
    result = queue.fence(u).result(10)
    assert np.shares_memory(np.from_dlpack(result), result)
    assert result.tolist() == [0, 2, 4, 6]


def test_torch_reads_and_writes_a_view(queue: celerity.Queue) -> None:
    torch = pytest.importorskip("torch")
    u = celerity.Buffer.from_array(torch.arange(4.0))

    def double(part: celerity.Part, view: celerity.View) -> None:
        torch.from_dlpack(view).mul_(2)

    queue.host_task(double, u.read_write(access.all()))
    assert torch.from_dlpack(queue.fence(u).result(10)).tolist() == [0, 2, 4, 6]
