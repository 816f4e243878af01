# SPDX-License-Identifier: MIT
"""Flushes at times of which the other ranks know nothing: a program pauses, or has dropped too much."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.configuration import Lookahead, Transport
from celerity_py.runtime import native_objects

pytestmark = pytest.mark.mpi

SIZE = 64
FRAMES = 100
BOUND = 2**16


@pytest.fixture(params=["host", pytest.param("direct", marks=pytest.mark.direct)])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    celerity.configure(devices="cpu:2", transport=request.param)
    yield request.param
    celerity.configure(devices=None, transport=None)


def double(chunk: celerity.Chunk, u: celerity.View) -> None:
    u[...] *= 2


def test_ranks_that_pause_get_work_done_for_which_they_need_each_other(transport: Transport) -> None:
    started = threading.Event()

    def total(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        out[...] = u[...].sum()
        started.set()

    with celerity.Queue() as queue:
        u, out = celerity.Buffer.from_array(np.ones(SIZE)), celerity.Buffer(SIZE)
        for _ in range(4):
            queue.parallel_for(SIZE, double, u.read_write(access.one_to_one()))
        # Part of `out`, which may grow.
        queue.parallel_for(SIZE - 8, total, out.write(access.one_to_one()), u.read(access.all()))
        assert started.wait(30)


@pytest.mark.parametrize("lookahead", ["auto", "infinite"])
def test_ranks_that_drop_much_wait_for_each_other_and_go_on(
    transport: Transport, lookahead: Lookahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_objects, "MOST_KEPT_BYTES", BOUND)
    celerity.configure(lookahead=lookahead)

    def add(chunk: celerity.Chunk, out: celerity.View, frame: celerity.View) -> None:
        out[...] += frame[...].sum()

    with celerity.Queue() as queue:
        out = celerity.Buffer.from_array(np.zeros(2 * SIZE))
        for _ in range(FRAMES):
            frame = celerity.Buffer.from_array(np.ones(1024))
            queue.parallel_for(1024, double, frame.read_write(access.one_to_one()))
            queue.parallel_for(SIZE, add, out.read_write(access.one_to_one()), frame.read(access.all()))
            del frame
        expected = np.zeros(2 * SIZE)
        expected[:SIZE] = 2 * 1024 * FRAMES
        np.testing.assert_array_equal(queue.fence(out).result(30), expected)
    celerity.configure(lookahead=None)
