# SPDX-License-Identifier: MIT
"""Fences and waits: when results are there, and how a program asks for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.errors import OutOfMemory, UsageError
from tests.support.kernels import iota, scale
from tests.support.scripts import run


def test_a_fence_gives_a_fresh_writable_array_of_the_box(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((6, 5), np.int64)
    queue.parallel_for((6, 5), iota, buffer.write(access.one_to_one()))
    first = queue.fence(buffer, Box((1, 2), (4, 5)))
    assert isinstance(first, concurrent.futures.Future)
    second = queue.fence(buffer, (slice(1, 4), slice(2, None)))
    expected = np.arange(30).reshape(6, 5)[1:4, 2:5]
    first.result(10)[...] = -1
    np.testing.assert_array_equal(second.result(10), expected)
    assert second.result().flags.writeable
    assert queue.fence(buffer, Box((2, 2), (2, 2))).result(10).shape == (0, 0)


def test_a_fence_to_the_device_gives_an_array_of_numpy_on_cpu_devices(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((6, 5), np.dtype([("a", "i8"), ("b", "f4")]))

    def fill(chunk: celerity.Chunk, out: Any) -> None:
        out[chunk.box]["a"] = np.arange(*(chunk.box.slices[0].start, chunk.box.slices[0].stop))[:, None]
        out[chunk.box]["b"] = 1

    queue.parallel_for((6, 5), fill, buffer.write(access.one_to_one()))
    result = queue.fence(buffer, Box((1, 2), (4, 5)), to="device").result(10)
    assert isinstance(result, np.ndarray)
    assert result.flags.writeable
    np.testing.assert_array_equal(result["a"], [[1] * 3, [2] * 3, [3] * 3])
    assert queue.fence(buffer, Box((2, 2), (2, 2)), to="device").result(10).shape == (0, 0)
    assert queue.fence(buffer, on="master", to="device").result(10).shape == (6, 5)


@pytest.mark.parametrize("to", ["gpu", None, 1])
def test_a_fence_refuses_other_places(queue: celerity.Queue, to: Any) -> None:
    with pytest.raises(UsageError, match=rf"fence of B\d+: to= takes 'host' or 'device', not {to!r}"):
        queue.fence(celerity.Buffer(4), to=to)


def test_a_host_object_has_no_place_on_a_device(queue: celerity.Queue) -> None:
    with pytest.raises(UsageError, match="got to='device', but a host object stays where it is"):
        queue.fence(celerity.HostObject([1]), to="device")  # type: ignore[call-overload]


def test_a_result_offers_dlpack(queue: celerity.Queue) -> None:
    result = queue.fence(celerity.Buffer.from_array(np.arange(4.0)), to="device").result(10)
    np.testing.assert_array_equal(np.from_dlpack(result), np.arange(4.0))


def test_a_result_belongs_to_the_program_alone(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(8))
    future = queue.fence(buffer)
    array = weakref.ref(future.result(10))
    assert array() is not None
    del future
    assert array() is None, "the runtime keeps it"


def test_the_memory_of_many_fences_is_that_of_a_few(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(8))
    for _ in range(1000):
        queue.fence(buffer).result(10)
    assert len(queue._runtime.submissions) < 300
    assert queue.statistics().scheduler["horizons"] >= 5


def test_a_fence_sees_what_was_submitted_before_it_and_nothing_after(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer.from_array(np.ones(8))
    futures: list[celerity.Future[Any]] = []
    for _ in range(5):
        futures.append(queue.fence(buffer, on="master"))
        queue.parallel_for(8, scale, buffer.read_write(access.one_to_one()), 2.0)
    assert [future.result(10)[0] for future in futures] == [1, 2, 4, 8, 16]


def test_a_fence_of_more_than_the_host_holds_is_told_with_buffer_and_box(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(2**50, np.float64, name="vast")
    with pytest.raises(
        OutOfMemory, match=r'fence of B\d+ "vast" asks for \[0:1125899906842624\], .* Fence smaller boxes'
    ):
        queue.fence(buffer)


def test_a_fence_can_be_awaited(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(10, np.int64)

    async def program() -> Any:
        queue.parallel_for(10, iota, buffer.write(access.one_to_one()))
        first, second = await asyncio.gather(*(queue.fence(buffer, Box((i,), (i + 2,))) for i in (0, 5)))
        return [*first, *second, *(await queue.fence(buffer, slice(9, 10)))]

    assert asyncio.run(program()) == [0, 1, 5, 6, 9]


def test_a_fence_is_named_by_its_buffer(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.zeros(4), name="u")
    future = queue.fence(u)
    future.result(10)
    assert re.fullmatch(r'<Future of fence of B\d+ "u", finished>', repr(future))


def test_a_fence_that_fails_is_not_called_a_task(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        queue = celerity.Queue()
        u = celerity.Buffer(5, name="u")
        try:
            queue.fence(u).result()
        except celerity.CelerityError as error:
            print(error)
        """,
        CELERITY_CHECK="1",
    )
    assert re.match(
        r'rank 0: the fence of B\d+ "u" failed: UninitializedRead: .* "u" \[0:5\], but nothing', result.stdout
    )


def test_a_pending_fence_times_out_and_cannot_be_cancelled(queue: celerity.Queue) -> None:
    let_go = threading.Event()
    buffer = celerity.Buffer.from_array(np.zeros(4))
    queue.parallel_for((), lambda chunk, out: let_go.wait(10), buffer.read_write(access.all()))
    future = queue.fence(buffer)
    with pytest.raises(TimeoutError):
        future.result(0.05)
    with pytest.raises(TimeoutError):
        future.exception(0)
    assert not future.cancel()
    let_go.set()
    assert future.exception(10) is None
    assert future.result().shape == (4,)


def test_wait_returns_when_everything_is_done(queue: celerity.Queue) -> None:
    done: list[int] = []

    def slow(chunk: celerity.Chunk, number: int) -> None:
        time.sleep(0.05)
        done.append(number)

    queue.parallel_for((), slow, 1)
    queue.wait()
    assert done == [1]
    queue.parallel_for((), slow, 2)
    queue.barrier()
    assert done == [1, 2]


def test_flush_starts_what_lookahead_holds_back() -> None:
    celerity.configure(lookahead="infinite")
    with celerity.Queue() as queue:
        started = threading.Event()
        buffer = celerity.Buffer(4)
        queue.parallel_for(4, lambda chunk, out: started.set(), buffer.write(access.one_to_one()))
        assert not started.wait(0.05)
        queue.flush()
        assert started.wait(10)
    celerity.configure(lookahead=None)
