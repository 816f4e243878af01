# SPDX-License-Identifier: MIT
"""With CHECK, kernels whose results depend on the division of the index space are found, and no others."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.calls.divided_calls import differences
from celerity_py.calls.repeatable_functions import may_run_again

ONE = access.one_to_one()
NEAR = access.neighborhood(1)
SHAPE = (16,)


@pytest.fixture(params=["cpu:1", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=request.param, check=True)
    try:
        with celerity.Queue() as queue:
            yield queue
    finally:
        celerity.configure(devices=None, check=None)


def warnings_of(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, kernel: Callable[..., Any], mapper: Any = NEAR, **more: Any
) -> list[str]:
    """The warnings of a kernel that reads one buffer and writes another one."""
    u = celerity.Buffer.from_array(np.random.default_rng(1).normal(size=more.pop("shape", SHAPE)), name="u")
    out = celerity.Buffer(u.shape, np.float64, name="out")
    with caplog.at_level(logging.WARNING, "celerity_py"):
        for _ in range(3):
            queue.parallel_for(u.shape, kernel, out.write(ONE), u.read(mapper), **more)
        queue.wait()
    return [record.message for record in caplog.records if "is divided into" in record.message]


def rolled(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = np.roll(u.array, 1)[chunk.box.relative_slices(u.box)]


def mean_of_view(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = u[chunk.box] - np.mean(u[...])


def running_sum(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = np.cumsum(u[chunk.box])


def beyond(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = u[chunk.box]
    if chunk.box.shape[0] < 5:
        raise ValueError("too few items")


@pytest.mark.parametrize("kernel", [rolled, mean_of_view, running_sum])
def test_a_function_over_a_whole_view_is_found(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, kernel: Callable[..., Any]
) -> None:
    (text,) = warnings_of(queue, caplog, kernel)
    assert text.startswith(f'kernel "{kernel.__name__}" (submitted at ')
    assert 'gives B2 "out" other values' in text
    assert "instead of" in text


def test_a_kernel_that_raises_for_smaller_chunks_is_found(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    (text,) = warnings_of(queue, caplog, beyond)
    assert "raises ValueError: too few items if its chunk [" in text


def stencil(chunk: Any, out: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1)
    out[chunk.box] = 0
    out[inner] = u[inner.shift(-1)] + u[inner.shift(1)] - 2 * u[inner]


def padded(chunk: Any, out: Any, u: Any) -> None:
    near = u.padded(chunk.box, 1, mode="edge")
    out[chunk.box] = near[2:] - near[:-2]


def rows(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = np.cumsum(u[chunk.box], axis=1) / np.linalg.norm(u[chunk.box], axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kernel", "mapper", "shape"),
    [
        (stencil, NEAR, SHAPE),
        (padded, NEAR, SHAPE),
        (rows, ONE, (12, 5)),
        (lambda chunk, out, u: out[chunk.box].__setitem__(..., u[...].sum()), access.all(), SHAPE),
        (lambda chunk, out, u: out[chunk.box].__setitem__(..., u[...] @ u[...].T), access.slice(1), (6, 6)),
    ],
    ids=["stencil", "padded", "rows", "all", "product"],
)
def test_a_kernel_that_depends_on_what_it_reads_is_not_warned_of(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, kernel: Callable[..., Any], mapper: Any, shape: Any
) -> None:
    if shape == (6, 6):
        mapper, kernel = access.all(), lambda chunk, out, u: out.__setitem__(chunk.box, u[chunk.box] @ u[...])
    assert warnings_of(queue, caplog, kernel, mapper, shape=shape) == []


def test_a_kernel_that_runs_on_multiples_of_rows_is_cut_there(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    def in_pairs(chunk: Any, out: Any, u: Any) -> None:
        pairs = u[chunk.box].reshape(-1, 2)
        out[chunk.box] = np.repeat(pairs.sum(axis=1), 2)

    assert warnings_of(queue, caplog, in_pairs, ONE, constrain=2) == []


CALLS: list[Any] = []


def appends(chunk: Any, out: Any, u: Any) -> None:
    CALLS.append(chunk.box)
    out[chunk.box] = np.roll(u.array, 1)[chunk.box.relative_slices(u.box)]


def test_a_function_that_others_would_notice_is_called_once_per_chunk(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture
) -> None:
    CALLS.clear()
    assert warnings_of(queue, caplog, appends) == []
    assert len(CALLS) == 3 * len(set(CALLS))


def helper(x: Any) -> Any:
    return np.sqrt(x) + math.pi


TABLE = np.zeros(3)
FIXED = np.zeros(3)
FIXED.flags.writeable = False
WIDTH = 3


def pure_functions() -> dict[str, Callable[..., Any]]:
    width, box = 2, Box((0,), (3,))
    return {
        "modules": lambda chunk, u: np.add(u[chunk.box], math.e),
        "helper": lambda chunk, u: helper(u[chunk.box]),
        "cells": lambda chunk, u: u[box][width:],
        "globals": lambda chunk, u: u[chunk.box] * WIDTH * FIXED,
        "loop": lambda chunk, u: [u[i] for i in range(len(FIXED))],
        "views": stencil,
    }


def impure_functions() -> dict[str, Callable[..., Any]]:
    count, seen = 0, []

    def counts(chunk: Any) -> None:
        nonlocal count
        count += 1

    def assigns(chunk: Any) -> None:
        global WIDTH  # noqa: PLW0603
        WIDTH = 3

    def imports(chunk: Any) -> None:
        import os

        os.getpid()

    def attribute(chunk: Any) -> None:
        helper.calls = 1  # type: ignore[attr-defined]

    return {
        "counts": counts,
        "assigns": assigns,
        "imports": imports,
        "attribute": attribute,
        "list": lambda chunk: seen.append(chunk.box),
        "print": lambda chunk: print(chunk.box),
        "open": lambda chunk: open("x", "w"),  # noqa: PTH123
        "random": lambda chunk: np.random.default_rng(),
        "array": lambda chunk: TABLE.__setitem__(0, 1),
        "list of globals": lambda chunk: CALLS,
        "method": CALLS.append,
        "recursion": lambda chunk: appends(chunk, 1, 2),
        "default": lambda chunk, kept=[]: kept.append(chunk),
        "file": lambda chunk: np.save("x", TABLE),
        "no function": np.add,
    }


@pytest.mark.parametrize("name", pure_functions())
def test_functions_of_values_may_run_again(name: str) -> None:
    assert may_run_again(pure_functions()[name], [1, 2.5, (1, "a"), FIXED, np.float32(1)])


@pytest.mark.parametrize("name", impure_functions())
def test_functions_with_effects_may_not(name: str) -> None:
    assert not may_run_again(impure_functions()[name], [])


@pytest.mark.parametrize("argument", [[1], {}, TABLE, object()], ids=["list", "dict", "array", "object"])
def test_arguments_that_can_change_may_not(argument: Any) -> None:
    assert not may_run_again(stencil, [argument])


def test_values_differ_by_more_than_rounding() -> None:
    values = np.array([1e3, 1e-3, np.nan, np.inf], np.float32)
    assert not differences(values, values + np.array([1e-2, 1e-2, 0, 0]), 1).any()
    assert differences(values, np.array([1e3, 1e-3, 0, -np.inf]), 1).tolist() == [False, False, True, True]
    assert differences(values, np.array([1e3, 2, np.nan, np.inf]), 1).tolist() == [False, True, False, False]
    assert differences(np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 5]]), 1).tolist() == [False, True]


def test_a_kernel_may_read_a_single_value(queue: celerity.Queue, caplog: pytest.LogCaptureFixture) -> None:
    def shift(chunk: Any, out: Any, value: Any) -> None:
        out[chunk.box] = value.array + 1

    value = celerity.Buffer.from_array(np.array(2.0), name="value")
    out = celerity.Buffer(SHAPE, np.float64, name="out")
    with caplog.at_level(logging.WARNING, "celerity_py"):
        queue.parallel_for(SHAPE, shift, out.write(ONE), value.read())
        assert (queue.fence(out).result() == 3).all()
    assert not caplog.records
