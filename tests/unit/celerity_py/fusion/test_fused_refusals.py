# SPDX-License-Identifier: MIT
"""What a fused function must not do: each message names the line in the function, and what to write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.fusion.mistakes import NotTakenError
from celerity_py.scheduler.errors import (
    ArgumentTypeError,
    CelerityError,
    OutOfBoundsAccess,
    ReadOnlyAccess,
    UsageError,
)
from tests.support.fused_kernels import Access, make_kernel

BOX = Box((1, 1), (5, 6))


def _refuse(function: Callable[..., Any], error: type[Exception], *arguments: Any) -> str:
    fields = (Access(np.zeros((8, 9), "f4")), Access(np.zeros((8, 9), "f4"), writable=False))
    with pytest.raises(error) as caught:
        make_kernel(function, BOX, *fields, *arguments)
    return str(caught.value)


def _first_line(function: Callable[..., Any]) -> str:
    return f"test_fused_refusals.py:{function.__code__.co_firstlineno + 1})"


def _if(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = 1 if u[chunk.box] > 0 else 2


def _and(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = u[chunk.box] > 0 and v[chunk.box] > 0


def _chained(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = 0 < u[chunk.box] < 1


def _number(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = int(v[1, 1])


def _foreign(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = np.linalg.norm(np.asarray(v[chunk.box]))


def _shapes(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = v[chunk.box] + v[chunk.box][1:]


def _assignment(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box][...] = v[chunk.box][1:]


def _data_shape(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = v[chunk.box][v[chunk.box] > 0]


def _index(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = v[chunk.box][7]


def _device(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = chunk.device


def _roll(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = np.roll(v[chunk.box], 1)


def _where(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = np.where(v[chunk.box])


def _update(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box][0] += v[chunk.box]


def _int_update(chunk: Any, u: Any, v: Any) -> None:
    chunk.index(0)[...] += 0.5


def _list(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = v[chunk.box] + [1, 2]


def _view(chunk: Any, u: Any, v: Any) -> None:
    u[chunk.box] = np.add(v[chunk.box], v)


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (_if, "numpy.where"),
        (_and, "numpy.where"),
        (_chained, r"(a < x) & (x < b)"),
        (_number, "pass the number as an argument"),
        (_foreign, "@celerity.kernel"),
        (_shapes, "boxes of the same shape"),
        (_assignment, "Assign an array of that shape"),
        (_data_shape, "numpy.where"),
        (_index, "from 0 to 3"),
        (_device, "all devices run the same kernel"),
        (_roll, "shifted box"),
        (_where, "numpy.where(condition, a, b)"),
        (_update, "Assign to a new variable"),
        (_int_update, "Convert an operand"),
        (_list, "Make an array with chunk.xp.zeros()"),
        (_view, "Index a view first"),
    ],
)
def test_a_mistake_is_refused_at_its_line_with_a_remedy(function: Callable[..., Any], remedy: str) -> None:
    text = _refuse(function, UsageError)
    assert remedy in text
    assert _first_line(function) in text


@pytest.mark.parametrize(
    ("function", "error", "part"),
    [
        (lambda chunk, u, v: u[chunk.box.shift(5, 0)] + 1, OutOfBoundsAccess, "outside of its declared region"),
        (lambda chunk, u, v: u[-1], OutOfBoundsAccess, "negative ones do not count from the end"),
        (lambda chunk, u, v: v.__setitem__(chunk.box, 1), ReadOnlyAccess, "Declare the access as read_write"),
        (lambda chunk, u, v: v[chunk.box].__iadd__(1), ReadOnlyAccess, "array.copy()"),
        (lambda chunk, u, v: u.__setitem__(chunk.box, 1j), UsageError, "complex"),
        (lambda chunk, u, v: u.__setitem__(chunk.box, v[chunk.box] * 1j), UsageError, "value.real.astype"),
        (lambda chunk, u, v: u + 1, ArgumentTypeError, "Index it first"),
    ],
)
def test_views_refuse_what_they_refuse_in_functions_that_are_not_fused(
    function: Callable[..., Any], error: type[CelerityError], part: str
) -> None:
    assert part in _refuse(function, error)


def test_an_index_outside_is_refused_also_if_the_function_catches_the_error() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        with contextlib.suppress(OutOfBoundsAccess):
            u[chunk.box.shift(6, 0)] = 1

    assert "caught this error" in _refuse(function, OutOfBoundsAccess)


def test_a_mistake_is_told_also_if_the_function_catches_the_error() -> None:
    def goes_on(chunk: Any, u: Any, v: Any) -> None:
        try:
            u[chunk.box] = 1 if v[chunk.box] > 0 else 2
        except CelerityError:
            u[chunk.box] = 3

    def raises(chunk: Any, u: Any, v: Any) -> None:
        try:
            u[chunk.box] = 1 if v[chunk.box] > 0 else 2
        except UsageError:
            raise KeyError("something else") from None

    def is_not_fused(chunk: Any, u: Any, v: Any) -> None:
        try:
            u[chunk.box] = np.median(v[chunk.box])
        except NotImplementedError:
            u[chunk.box] = 3

    text = _refuse(goes_on, UsageError)
    assert "numpy.where" in text
    assert "has caught this error and gone on" in text
    assert f"test_fused_refusals.py:{goes_on.__code__.co_firstlineno + 2})" in text
    text = _refuse(raises, UsageError)
    assert "numpy.where" in text
    assert "caught" not in text
    assert "numpy.median" in _refuse(is_not_fused, NotTakenError)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda chunk, u, v: f"{v[chunk.box]:.2f}", "expression.__format__"),
        (lambda chunk, u, v: v[chunk.box](), "'expression' object is not callable"),
        (lambda chunk, u, v: {}[v[chunk.box]], "<expression of shape (4, 5) and dtype float32>"),
        (lambda chunk, u, v: chunk(), "'Chunk' object"),
        (lambda chunk, u, v: u(), "'View' object"),
        (lambda chunk, u, v: chunk.box.min[0] + v, "itself as an operand"),
    ],
)
def test_errors_of_python_name_no_class_that_users_do_not_know(function: Callable[..., Any], words: str) -> None:
    assert words in _refuse(function, Exception)


def test_an_array_is_not_used_after_the_call() -> None:
    kept = []

    def function(chunk: Any, u: Any, v: Any) -> None:
        kept.append(u[chunk.box])

    make_kernel(function, BOX, *(Access(np.zeros((8, 9), "f4")) for _ in "uv"))
    with pytest.raises(UsageError, match="after the call"):
        kept[0] + 1


def test_too_many_operations_are_refused_at_the_line_of_the_loop() -> None:
    def function(chunk: Any, u: Any, v: Any) -> None:
        for _ in range(2000):
            u[chunk.box] += 1

    text = _refuse(function, UsageError)
    assert "1000 operations" in text
    assert f"test_fused_refusals.py:{function.__code__.co_firstlineno + 2})" in text


@pytest.mark.parametrize(
    "function",
    [
        lambda chunk, u, v: v[chunk.box].cumsum(),
        lambda chunk, u, v: np.median(v[chunk.box]),
        lambda chunk, u, v: np.add.accumulate(v[chunk.box]),
        lambda chunk, u, v: np.exp(v[chunk.box].astype("F")),
        lambda chunk, u, v: v[chunk.box] + np.ones(5),
        lambda chunk, u, v: np.add(v[chunk.box], 1, where=True),
        lambda chunk, u, v: v[chunk.box].astype("F").real.__setitem__(..., 1),
        lambda chunk, u, v: chunk.xp.arange(0.5),
        lambda chunk, u, v: chunk.index(0) ** chunk.index(1),
        lambda chunk, u, v: np.reciprocal(chunk.index(0)),
    ],
)
def test_what_is_not_fused_yet_is_an_error(function: Callable[..., Any]) -> None:
    assert "yet" in _refuse(function, NotTakenError)
