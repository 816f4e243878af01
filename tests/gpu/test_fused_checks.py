# SPDX-License-Identifier: MIT
"""With CHECK, fused kernels of GPUs are compared with NumPy: right ones pass, and a wrong one is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import InternalError
from celerity_py.fusion import operations
from celerity_py.submit.fused_forms import FusedForm

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    celerity.configure(devices="0,", check=True)
    yield
    celerity.configure(devices=None, check=None)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """The results of native kernels that were compared."""
    found: list[Array] = []
    compare = FusedForm._compare

    def note(self: FusedForm, submission: Any, part: Any, copy: Any, array: Array) -> None:
        found.append(array)
        compare(self, submission, part, copy, array)

    monkeypatch.setattr(FusedForm, "_compare", note)
    return found


def wave(chunk: Any, u_next: Any, u: Any, c2: float) -> None:
    inner = chunk.box & u.shape_box.shrink(1, 1)
    u_next[inner] = (
        2 * u[inner]
        - u_next[inner]
        + c2 * (u[inner.shift(-1, 0)] + u[inner.shift(1, 0)] + u[inner.shift(0, -1)] + u[inner.shift(0, 1)])
    )


def in_place(chunk: Any, u_next: Any, u: Any, c2: float) -> None:
    """With scratch memory, and with a function that rounds otherwise."""
    low, high = chunk.box.min[0], chunk.box.max[0]
    u_next[low + 1 : high] = u_next[low : high - 1] * c2
    u_next[low : low + 1] = np.sin(u_next[low : low + 1])


def run(kernel: Any, shape: tuple[int, int], *, records: bool = False) -> None:
    with celerity.Queue() as queue:
        start = np.random.default_rng(1).random(shape).astype(np.float32)
        u, v = (celerity.Buffer.from_array(start, name=name) for name in ("u", "v"))

        def loop(c2: Any) -> None:
            for a, b in ((u, v), (v, u)):
                queue.parallel_for(
                    shape,
                    kernel,
                    a.read_write(access.one_to_one()),
                    b.read(access.neighborhood(1, 1, shape="axes")),
                    c2,
                )

        if records:
            queue.replay(queue.record(loop, c2=np.float32(0.25)), 2, c2=np.float32(0.125))
        else:
            loop(np.float32(0.25))


@pytest.mark.parametrize("function", [wave, in_place])
@pytest.mark.parametrize("shape", [(64, 256), (37, 131)])
@pytest.mark.parametrize("records", [False, True])
def test_a_right_kernel_is_compared(function: Any, shape: tuple[int, int], records: bool, compared: list[Any]) -> None:
    run(celerity.fuse(function), shape, records=records)
    assert len(compared) >= 4


def test_a_wrong_operation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operations.NAMES, np.subtract, "add")
    line = wave.__code__.co_firstlineno + 2
    with pytest.raises(InternalError, match=rf"leaves other values .* stored at {re.escape(__file__)}:{line}"):
        run(celerity.fuse(wave), (64, 256))
