# SPDX-License-Identifier: MIT
"""A rank that loads code waits for its own devices. The other ranks know nothing of that, and submit the same tasks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import lifecycle
from celerity_py.submit import fused_targets

pytestmark = [pytest.mark.mpi, pytest.mark.direct]

SIZE = 64
NUM_DEVICES = 2


@pytest.fixture
def queue() -> Iterator[celerity.Queue]:
    celerity.configure(devices=f"cpu:{NUM_DEVICES}", transport="direct")
    with celerity.Queue() as queue:
        yield queue
    celerity.configure(devices=None, transport=None)


def step(chunk: Any, out: Any, u: Any, first: int) -> None:
    near = u.padded(chunk.box, 1)
    out[chunk.box] = near[:-2] + near[2:]
    if chunk.box.min[0] == 0:  # a trace of another chunk does not ask for the value
        out[first : first + 1] = 7


def test_one_rank_alone_makes_new_plans(queue: celerity.Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    drains = []

    def begin(_: Any) -> None:
        lifecycle.current().drain()
        drains.append(1)

    monkeypatch.setattr(fused_targets.CpuTarget, "begin", begin)
    results = []
    for kernel in (celerity.fuse(step), celerity.kernel(step)):
        u, out = (celerity.Buffer.from_array(np.linspace(0, 1, SIZE)) for _ in range(2))
        for first in (0, 3, 1, 4, 2):
            reads = u.read(access.neighborhood(1))
            queue.parallel_for(SIZE, kernel, out.write(access.one_to_one()), reads, first)
            u, out = out, u
        results.append(queue.fence(u).result())
    assert np.array_equal(results[0], results[1])
    assert len(drains) == (5 if celerity.is_master() else 1)


def test_a_drain_waits_for_the_devices_of_this_rank_only(queue: celerity.Queue) -> None:
    if celerity.size() == 1:
        pytest.skip("no stream waits for another rank")
    runtime: Any = lifecycle.current()
    may_end = threading.Event()
    calls = []

    def slow(chunk: Any, out: Any, u: Any) -> None:
        time.sleep(0.01)
        near = u.padded(chunk.box, 1)
        out[chunk.box] = near[:-2] + near[2:]
        calls.append(chunk.box)

    def forth() -> None:
        queue.parallel_for(SIZE, slow, out.write(access.one_to_one()), u.read(access.neighborhood(1)))
        queue.parallel_for(SIZE, slow, u.write(access.one_to_one()), out.read(access.neighborhood(1)))

    u, out = (celerity.Buffer.from_array(np.ones(SIZE)) for _ in range(2))
    queue.host_task(lambda part: may_end.wait(60), on=celerity.size())
    for turn in range(4):
        if celerity.rank() == (turn + 1) % celerity.size():
            time.sleep(0.05)  # the rank that drains waits for tasks which this one has yet to submit
        forth()
        if celerity.rank() == turn % celerity.size():
            runtime.drain()
            assert len(calls) == 2 * NUM_DEVICES * (turn + 1)
    queue.replay(queue.record(forth), 5)
    if celerity.is_master():
        runtime.drain()
        assert len(calls) == 2 * NUM_DEVICES * (4 + 1 + 5)
    may_end.set()
    assert queue.fence(u, on="master").result() is not None or not celerity.is_master()
