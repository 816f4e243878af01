# SPDX-License-Identifier: MIT
"""Loops that make a buffer per step, as data pipelines do: kernels run beside the loop, and memory stays flat."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access

STEPS = 100


@pytest.fixture(params=["cpu:1", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices=request.param)
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None)


@pytest.mark.parametrize("is_kept", [False, True])
def test_kernels_run_beside_a_loop_that_makes_a_buffer_per_step(queue: celerity.Queue, is_kept: bool) -> None:
    runs: list[int] = []
    kept: list[celerity.Buffer[Any]] = []
    for step in range(STEPS):
        frame = celerity.Buffer.from_array(np.full(64, float(step)))
        queue.parallel_for(1, lambda chunk, u, step: runs.append(step), frame.read(access.all()), step)
        if is_kept:
            kept.append(frame)
        time.sleep(0.002)
    beside = len(runs)
    queue.wait()
    assert len(runs) == STEPS
    assert beside > 0.8 * STEPS


def test_the_contents_of_earlier_steps_do_not_pile_up(queue: celerity.Queue) -> None:
    contents_of_steps: list[weakref.ref[Any]] = []
    most = 0
    for _ in range(STEPS):
        contents = np.ones(4096)
        contents_of_steps.append(weakref.ref(contents))
        frame = celerity.Buffer.from_array(contents, copy=False)
        queue.parallel_for(4096, lambda chunk, u: None, frame.read_write(access.one_to_one()))
        del frame, contents
        time.sleep(0.002)
        most = max(most, sum(contents() is not None for contents in contents_of_steps))
    queue.wait()
    assert most < 0.3 * STEPS, f"the contents of {most} of {STEPS} steps were alive at once"
