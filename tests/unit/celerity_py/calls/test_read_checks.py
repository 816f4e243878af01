# SPDX-License-Identifier: MIT
"""Writes through read accesses where arrays cannot be made read-only, as CuPy's cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from celerity_py._native import BoundAccess, Box
from celerity_py.calls.binder import Binder
from celerity_py.calls.call_checks import CallChecks
from celerity_py.errors import ReadOnlyAccess
from celerity_py.vocabulary.accesses import READ, READ_WRITE, Port
from celerity_py.vocabulary.submissions import Submission


class UnprotectedBinder(Binder):
    protects_reads = False

    def map(self, address: int, shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
        writable, _ = super().map(address, shape, dtype)
        return writable, writable


class FakeRecord:
    def __init__(self, memory: Any) -> None:
        self.id = 3
        self.shape = memory.shape
        self.dtype = memory.dtype
        self.box = Box((0,) * memory.ndim, memory.shape)
        self.label = 'B3 "u"'
        self.runtime = None
        self.arrays: dict[Any, Any] = {}
        self.checks_values = False


def run(memory: Any, function: Callable[..., None], *accesses: tuple[int, list[Box]]) -> None:
    """Call a function with these accesses to a buffer that lies there, and check it."""
    record: Any = FakeRecord(memory)
    whole = record.box.flat()
    bindings = [
        BoundAccess(3, (2, 9), memory.ctypes.data, whole, whole, [box.flat() for box in boxes]) for _, boxes in accesses
    ]
    ports = [Port(record, mode) for mode, _ in accesses]
    submission = Submission("kernel", "step", function, ports, record.box, sys._getframe())
    binder = UnprotectedBinder()
    with CallChecks().around(submission, None, bindings, binder) as filled:
        function(*binder.arguments(submission, iter(filled), iter(())))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int8, np.dtype([("a", "f4"), ("b", "i1")])])
def test_a_write_through_an_array_of_a_read_access_is_found(dtype: Any) -> None:
    memory = np.zeros((6, 5), dtype)

    def kernel(view: Any) -> None:
        view[2:4, 1:3][1, 1] = np.ones((), dtype)

    with pytest.raises(ReadOnlyAccess, match=r'kernel "step" .*changed 1 elements of B3 "u", first at \[3, 2\], which'):
        run(memory, kernel, (READ, [Box((0, 0), (6, 5))]))


def test_nan_and_equal_values_are_no_change() -> None:
    memory = np.full((4, 4), np.nan)

    def kernel(view: Any) -> None:
        view[...] [...] = np.nan  # fmt: skip

    run(memory, kernel, (READ, [Box((0, 0), (4, 4))]))


def test_elements_that_others_may_write_do_not_count() -> None:
    memory = np.zeros(8)

    def elsewhere(view: Any) -> None:
        memory[6] = 1  # by another kernel, as far as this one knows

    def through_the_other_view(view: Any, target: Any) -> None:
        target[2:4] = 7

    run(memory, elsewhere, (READ, [Box((0,), (4,))]))
    run(memory, through_the_other_view, (READ, [Box((0,), (4,))]), (READ_WRITE, [Box((2,), (4,))]))
    with pytest.raises(ReadOnlyAccess, match=r"changed 1 elements .* at \[1\]"):
        run(
            memory,
            lambda view, target: view[1].fill(1),
            (READ, [Box((0,), (4,))]),
            (READ_WRITE, [Box((2,), (4,))]),
        )
