# SPDX-License-Identifier: MIT
"""An access outside of the declared region is an error of the task, also if its function catches the exception."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.scheduler.errors import OutOfBoundsAccess, TaskFailed
from celerity_py.vocabulary.hidden_mistakes import FOUND


@pytest.fixture(params=[False, True], ids=["plain", "check"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices="cpu:2", check=request.param)
    before = dict(FOUND)  # of tests that use views without a task
    queue = celerity.Queue()
    try:
        yield queue
    finally:
        with contextlib.suppress(celerity.CelerityError):
            queue.close()
        celerity.configure(devices=None, check=None)
        deadline_s = time.monotonic() + 10  # the call of another chunk may still run
        while FOUND.keys() - before.keys() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert not FOUND.keys() - before.keys()


def beyond_the_access(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = 0
    with contextlib.suppress(IndexError):
        out[chunk.box] = u[chunk.box.shift(1)]


def negative(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = 0
    try:
        out[chunk.box] = u[-1]
    except OutOfBoundsAccess:
        out[chunk.box] = 1


def padded(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] = 0
    with contextlib.suppress(Exception):
        out[chunk.box] = u.padded(chunk.box, 1)[2:]


@pytest.mark.parametrize("kernel", [beyond_the_access, negative, padded])
def test_a_function_cannot_hide_an_access_outside(queue: celerity.Queue, kernel: Callable[..., Any]) -> None:
    u, out = (celerity.Buffer.from_array(np.arange(8.0), name=name) for name in ("u", "out"))
    queue.parallel_for(8, kernel, out.write(access.one_to_one()), u.read(access.one_to_one()))
    with pytest.raises(OutOfBoundsAccess, match="The function has caught this error and gone on"):
        queue.wait()


def test_a_host_task_cannot_hide_it_either(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(8.0), name="u")

    def look(part: Any, u: Any) -> None:
        with contextlib.suppress(IndexError):
            u[7]

    queue.host_task(look, u.read(access.fixed(Box((0,), (4,)))))
    with pytest.raises(OutOfBoundsAccess, match=r"indexes B\d+ \"u\" at \[7\].*The function has caught"):
        queue.wait()


def test_a_reduction_cannot_hide_it_either(queue: celerity.Queue) -> None:
    bins = celerity.Buffer(4, np.int64, name="bins")

    def count(chunk: Any, bins: Any) -> None:
        with contextlib.suppress(IndexError):
            bins.combine_at([4], 1)

    queue.parallel_for(8, count, celerity.reduction(bins, "sum"))
    with pytest.raises(OutOfBoundsAccess, match=r"combines at index 4 .*The function has caught"):
        queue.wait()


def test_another_exception_of_the_function_comes_first(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(8.0), name="u")

    def fail(chunk: Any, u: Any) -> None:
        try:
            u[9]
        except IndexError:
            raise LookupError("mine") from None

    queue.parallel_for(8, fail, u.read(access.one_to_one()))
    with pytest.raises(TaskFailed, match="LookupError: mine"):
        queue.wait()
