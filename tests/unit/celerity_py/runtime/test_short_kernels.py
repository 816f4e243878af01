# SPDX-License-Identifier: MIT
"""Behind a short kernel its thread carries out the executor's loop. A kernel that blocks holds nothing up."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.support.kernels import scale

PATIENCE_S = 20.0


@pytest.fixture(params=["cpu:1", "cpu:2"])
def short_kernels(request: pytest.FixtureRequest) -> tuple[celerity.Queue, celerity.Buffer]:
    """A queue whose last kernels were short, and the buffer of ones that they have left as it was."""
    celerity.configure(devices=request.param)
    queue = celerity.Queue()
    buffer = celerity.Buffer.from_array(np.ones(8, np.float32))
    for _ in range(50):
        queue.parallel_for(8, scale, buffer.read_write(access.one_to_one()), np.float32(1))
    return queue, buffer


def test_a_kernel_may_wait_for_a_host_task_that_is_submitted_meanwhile(
    short_kernels: tuple[celerity.Queue, celerity.Buffer],
) -> None:
    begun, called, has_come = threading.Event(), threading.Event(), []

    def wait(chunk: celerity.Chunk, view: celerity.View, begun: threading.Event, called: threading.Event) -> None:
        begun.set()
        has_come.append(called.wait(PATIENCE_S))

    with short_kernels[0] as queue:
        written = short_kernels[1].read_write(access.one_to_one())
        queue.parallel_for(8, wait, written, begun, called)
        assert begun.wait(PATIENCE_S)
        queue.host_task(lambda part, called: called.set(), called)
        result = queue.fence(short_kernels[1]).result()
    celerity.configure(devices=None)
    assert all(has_come)
    np.testing.assert_array_equal(result, 1)


def test_kernels_of_two_devices_may_wait_for_each_other() -> None:
    celerity.configure(devices="cpu:2")
    barrier = threading.Barrier(2)

    def meet(chunk: celerity.Chunk, view: celerity.View, barrier: threading.Barrier) -> None:
        barrier.wait(PATIENCE_S)

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8)
        for _ in range(50):
            queue.parallel_for(8, meet, buffer.write(access.one_to_one()), barrier)
    celerity.configure(devices=None)


def test_the_failure_of_a_kernel_behind_short_ones_is_raised(
    short_kernels: tuple[celerity.Queue, celerity.Buffer],
) -> None:
    def fail(chunk: celerity.Chunk, view: celerity.View) -> None:
        raise ArithmeticError("on purpose")

    queue, buffer = short_kernels
    queue.parallel_for(8, fail, buffer.read_write(access.one_to_one()))
    with pytest.raises(celerity.TaskFailed, match="on purpose"):
        queue.wait()
    celerity.configure(devices=None)
