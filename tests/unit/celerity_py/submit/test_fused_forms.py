# SPDX-License-Identifier: MIT
"""With CHECK, the native kernel of a fused function is compared with the function on arrays of NumPy."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import InternalError
from celerity_py.fusion import operations
from celerity_py.fusion.stores import Agreement
from celerity_py.submit import fused_forms
from celerity_py.submit.fused_forms import FusedForm
from tests.support.fused_kernels import Access, make_kernel

ONE = access.one_to_one()
SIZE = 12


def step(chunk: Any, u: Any, v: Any, c: float) -> None:
    """In place, with scratch memory, and with several chunks."""
    u[chunk.box] = u[chunk.box] + c * v[chunk.box]
    low, high = chunk.box.min[0], chunk.box.max[0]
    u[low + 1 : high] = u[low : high - 1] - v[low + 1 : high]
    v[low : low + 1] = np.exp(-v[low : low + 1])


LINE = step.__code__.co_firstlineno


@pytest.fixture
def checked() -> Iterator[None]:
    pytest.importorskip("numba")
    celerity.configure(devices="cpu:2", check=True)
    yield
    celerity.configure(devices=None, check=None)


@pytest.fixture
def queue(checked: None) -> Iterator[celerity.Queue]:
    with celerity.Queue() as queue:
        yield queue


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Box]:
    """The chunks that were compared."""
    chunks: list[Box] = []
    run_native = FusedForm._run_native

    def note(self: FusedForm, part: Any, *others: Any) -> None:
        chunks.append(part.box)
        run_native(self, part, *others)

    monkeypatch.setattr(FusedForm, "_run_native", note)
    return chunks


def mistake(monkeypatch: pytest.MonkeyPatch, ufunc: np.ufunc, name: str) -> None:
    """Let the maker write another operation."""
    monkeypatch.setitem(operations.NAMES, ufunc, name)


def submit(queue: celerity.Queue, kernel: Any, count: int = 1) -> tuple[Any, Any]:
    u, v = (celerity.Buffer.from_array(np.linspace(0, last, SIZE), name=name) for name, last in (("u", 1), ("v", 2)))
    for number in range(count):
        queue.parallel_for(SIZE, kernel, u.read_write(ONE), v.read_write(ONE), 0.5 + number)
    return u, v


def test_a_right_kernel_is_compared_in_some_calls_of_each_chunk(queue: celerity.Queue, compared: list[Box]) -> None:
    u, _ = submit(queue, celerity.fuse(step), 9)
    assert np.isfinite(queue.fence(u).result()).all()
    halves = [Box((0,), (6,)), Box((6,), (12,))]
    assert [compared.count(half) for half in halves] == [4, 4]  # calls 1, 2, 4 and 8
    assert len(compared) == 8


def test_calls_of_recordings_are_compared(queue: celerity.Queue, compared: list[Box]) -> None:
    kernel = celerity.fuse(step)
    u, v = submit(queue, kernel)

    def loop(c: float) -> None:
        queue.parallel_for(SIZE, kernel, u.read_write(ONE), v.read_write(ONE), c)

    recorded = queue.record(loop, c=1.0)
    queue.wait()
    before = len(compared)
    queue.replay(recorded, 2, c=0.25)
    queue.wait()
    assert len(compared) > before


def test_a_wrong_operation_is_named(checked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch, np.subtract, "add")
    message = (
        r'kernel "step" \(submitted at .*test_fused_forms.py:\d+\), chunk \[(0:6|6:12)\]: the native kernel leaves '
        rf'other values in B\d+ "u" than NumPy, 5 of 6, such as .* instead of .* at \[[17]\], stored at '
        rf".*test_fused_forms.py:{LINE + 4}\. CELERITY_CHECK has found this bug of celerity_py"
    )
    with pytest.raises(InternalError, match=message), celerity.Queue() as queue:
        submit(queue, celerity.fuse(step))


@pytest.mark.parametrize("is_on_gpu", [True, False])
def test_a_function_that_raises_on_arrays_of_numpy_only_is_told_once(
    queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_on_gpu: bool
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no such type")

    monkeypatch.setattr(fused_forms, "call_quietly", fail)
    if is_on_gpu:
        monkeypatch.setattr(fused_forms, "_runs_on_numpy", lambda _: False)
    with caplog.at_level(logging.WARNING, "celerity_py"):
        submit(queue, celerity.fuse(step), 2)
        queue.wait()
    told = [record.message for record in caplog.records if "is not compared with NumPy" in record.message]
    line = fail.__code__.co_firstlineno + 1
    assert len(told) == is_on_gpu
    assert all('kernel "step"' in text and f"ValueError: no such type (at {__file__}:{line})" in text for text in told)


def test_another_rounding_is_no_mistake_but_a_wrong_function_is_warned_of(
    queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mistake(monkeypatch, np.exp, "exp2")
    with caplog.at_level(logging.WARNING, "celerity_py"):
        submit(queue, celerity.fuse(step))
        queue.wait()
    told = [record.message for record in caplog.records if "They differ by more than rounding" in record.message]
    assert len(told) == 1  # exp(0) is exp2(0)
    assert f"at [6], stored at {__file__}:{LINE + 5}" in told[0]


def test_a_chunk_with_nothing_to_read_is_compared(queue: celerity.Queue, compared: list[Box]) -> None:
    @celerity.fuse
    def clear(chunk: Any, u: Any, nothing: Any) -> None:
        u[chunk.box] = 0

    u = celerity.Buffer.from_array(np.ones(SIZE))
    queue.parallel_for(SIZE, clear, u.read_write(ONE), u.read(access.fixed(Box((0,), (0,)))))
    queue.wait()
    assert len(compared) == 2


def test_too_much_memory_is_left_alone_and_said(
    queue: celerity.Queue, compared: list[Box], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("celerity_py.submit.fused_forms._MOST_BYTES", 90)
    with caplog.at_level(logging.WARNING, "celerity_py"):
        submit(queue, celerity.fuse(step))
        queue.wait()
    assert compared == []
    assert sum("is not compared with NumPy" in record.message for record in caplog.records) == 2


def agreements(function: Any, dtype: Any = "f8") -> list[Agreement]:
    kernel = make_kernel(function, Box((0,), (8,)), Access(np.ones(8, dtype)), Access(np.ones(8, dtype)))
    return [store.agreement for store in kernel.stores]


EXACT, ROUNDED, DECIDED = Agreement.EXACT, Agreement.ROUNDED, Agreement.DECIDED


def test_what_rounds_otherwise_reaches_what_is_made_of_it() -> None:
    def function(chunk: Any, a: Any, b: Any) -> None:
        a[chunk.box] = np.sqrt(b[chunk.box]) / 3
        b[chunk.box] = np.exp(a[chunk.box])
        a[0:4] = b[4:8] + 1
        a[chunk.box] = np.where(b[chunk.box] > 2, 1, 0)
        b[0] = 1

    assert agreements(function) == [EXACT, ROUNDED, ROUNDED, DECIDED, EXACT]


def test_operations_of_complex_numbers_round_otherwise() -> None:
    def function(chunk: Any, a: Any, b: Any) -> None:
        a[chunk.box] += b[chunk.box]
        a[chunk.box] = a[chunk.box] * b[chunk.box]
        b[chunk.box] = abs(a[chunk.box]) > 1

    assert agreements(function, "c16") == [EXACT, ROUNDED, DECIDED]


def test_sums_of_floats_have_another_order() -> None:
    def function(chunk: Any, p: Any) -> None:
        p[chunk.box][..., 0] = p[chunk.box].sum(axis=-1)

    for dtype, expected in (("f4", ROUNDED), ("i8", EXACT)):
        kernel = make_kernel(function, Box((0,), (9,)), Access(np.ones((9, 3), dtype), element_ndim=1))
        assert [store.agreement for store in kernel.stores] == [expected]


def test_integers_are_exact() -> None:
    def function(chunk: Any, a: Any, b: Any) -> None:
        a[chunk.box] = b[chunk.box] ** 3 // 2

    assert agreements(function, "i8") == [EXACT]
