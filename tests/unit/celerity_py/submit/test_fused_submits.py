# SPDX-License-Identifier: MIT
"""Submits that repeat earlier ones of a fused kernel: native code finds the launch, and never one for other values."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import CelerityWarning, UsageError
from celerity_py.runtime import lifecycle

pytest.importorskip("numba")

ONE = access.one_to_one()
offset = 1
settings = SimpleNamespace(scale=2)


def repeated() -> int:
    """Submits by native code so far."""
    runtime: Any = lifecycle.current()
    return int(runtime.submitter.num_repeated)


class Line:
    """A buffer, a fused kernel, and how often its function was traced."""

    def __init__(self, queue: celerity.Queue, function: Callable[..., Any], size: int = 8) -> None:
        self.queue = queue
        self.traces: list[int] = []
        self.kernel = celerity.fuse(self._counting(function))
        self.expected = np.zeros(size)
        self.buffer = celerity.Buffer.from_array(self.expected)
        self._function = function

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        note = self.traces.append

        def counting(chunk: Any, u: Any, *args: Any) -> None:
            note(len(args))
            function(chunk, u, *args)

        return counting

    def submit(self, *args: Any, **options: Any) -> None:
        """Submit the kernel, and do the same on an array."""
        size = len(self.expected)
        self.queue.parallel_for(size, self.kernel, self.buffer.read_write(ONE), *args, **options)
        box = celerity.Box((0,), (size,))
        self._function(SimpleNamespace(box=box.slices), self.expected, *args)

    def check(self) -> None:
        found = self.queue.fence(self.buffer).result(20)
        assert found.tobytes() == self.expected.tobytes()


def scaled(chunk: Any, u: Any, a: Any, b: Any = 0) -> None:
    u[chunk.box] = u[chunk.box] * a + b


def test_a_repeated_submit_asks_neither_the_delegate_nor_the_function() -> None:
    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        line = Line(queue, scaled)
        for a, b in ((1.0, 2), (1.0, 2), (-0.0, 2), (0.0, 7), (math.inf, 7), (1.5, -1)):
            line.submit(a, b)
        assert repeated() == 5
        assert len(line.traces) == 2  # one for each device
        line.check()


def test_an_argument_of_another_type_is_another_kernel() -> None:
    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        line = Line(queue, scaled)
        for _ in range(2):
            for a in (2, 2.0, np.float32(0.1), np.float64(0.1), 2):
                line.submit(a, 1)
        assert len(line.traces) == 4
        line.check()


def powers(chunk: Any, u: Any, count: int, how: str, positive: bool) -> None:
    for _ in range(count):
        u[chunk.box] += 1 if how == "up" and positive else -3


def test_values_that_the_trace_needs_are_compared() -> None:
    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        line = Line(queue, powers)
        calls = [(1, "up", True), (2, "up", True), (1, "do" + "wn", True), (1, "up", False)]
        for args in (*calls, *calls):
            line.submit(*args)
        assert len(line.traces) == len(calls)
        assert repeated() == len(calls)
        line.check()


def helper(value: int, by: int = 3, *, more: int = 1) -> int:
    return value + by + more


def test_values_from_outside_are_looked_up_at_each_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    local = 5

    def step(chunk: Any, u: Any, own: int = 1) -> None:
        place = helper(settings.scale) + offset + local + own  # a number of the text would be compiled each time
        u[place : place + 1] += 1

    def submit(by_native: int = 1) -> None:
        before = repeated()
        for _ in range(2):
            queue.parallel_for(1, kernel, u.read_write(access.all()))
            step(None, expected)
        assert repeated() == before + by_native

    celerity.configure(devices="cpu:1")
    kernel, expected = celerity.fuse(step), np.zeros(200)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(expected)
        submit()
        monkeypatch.setitem(globals(), "offset", 20)
        submit()
        monkeypatch.setattr(settings, "scale", 31)
        submit()
        local = 47
        submit()
        monkeypatch.setattr(step, "__defaults__", (2,))
        submit()
        monkeypatch.setattr(helper, "__defaults__", (17,))
        submit()
        monkeypatch.setattr(helper, "__kwdefaults__", {"more": 29})
        submit()
        monkeypatch.setattr(helper, "__code__", (lambda value, by=0, *, more=0: value + by - more).__code__)
        submit()
        monkeypatch.setitem(globals(), "settings", SimpleNamespace(scale=settings.scale))
        submit(2)  # the same value in another place
        assert np.array_equal(queue.fence(u).result(20), expected)
        assert np.count_nonzero(expected) == 8


def test_the_code_of_the_function_may_be_replaced() -> None:
    def step(chunk: Any, u: Any) -> None:
        u[chunk.box] += 1

    def other(chunk: Any, u: Any) -> None:
        u[chunk.box] *= 3

    kernel = celerity.fuse(step)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(4))
        for _ in range(2):
            queue.parallel_for(4, kernel, u.read_write(ONE))
        step.__code__ = other.__code__
        queue.parallel_for(4, kernel, u.read_write(ONE))
        assert np.array_equal(queue.fence(u).result(20), np.full(4, 9.0))


def spread(chunk: Any, out: Any, u: Any) -> None:
    (low,), (high,) = u.box.min, u.box.max
    out[chunk.box] = u[chunk.box] + 10 * u[low : low + 1] - 3 * u[high - 1 : high]


@pytest.mark.parametrize("devices", ["cpu:1", "cpu:3"])
def test_other_places_extents_mappers_and_splits_are_other_kernels(devices: str) -> None:
    hints = ((), celerity.hints.oversubscribe(2))
    results, counts = [], []
    for kind in (celerity.fuse, celerity.kernel):
        kernel = kind(spread)
        celerity.configure(devices=devices)
        with celerity.Queue() as queue:
            buffers = [celerity.Buffer.from_array(np.linspace(0, 1, size)) for size in (12, 12, 15)]
            outs = [celerity.Buffer.from_array(np.zeros(size)) for size in (12, 12, 15)]
            found = []
            for space in (celerity.Box((0,), (12,)), celerity.Box((2,), (11,))):
                for mapper in (access.neighborhood(1), access.neighborhood(2), access.all()):
                    for hint in hints:
                        for u, out in zip(buffers, outs, strict=True):
                            queue.parallel_for(space, kernel, out.write(ONE), u.read(mapper), hints=hint)
                        found += [queue.fence(out).result(20) for out in outs]
            counts.append(repeated())
            results.append(np.concatenate(found))
    assert np.array_equal(results[0], results[1])
    assert counts[0] >= 12  # the second buffer of each three


def both(chunk: Any, out: Any, u: Any) -> None:
    out[chunk.box] += 1
    out[chunk.box] += u[chunk.box]


def test_two_accesses_to_one_buffer_are_another_kernel_than_those_to_two() -> None:
    celerity.configure(devices="cpu:1")
    kernel = celerity.fuse(both)
    with celerity.Queue() as queue:
        u, v = (celerity.Buffer.from_array(np.ones(4)) for _ in range(2))
        for out, other in ((u, v), (u, u), (v, u), (v, v)):
            queue.parallel_for(4, kernel, out.read_write(ONE), other.read(ONE))
        assert repeated() == 2
        assert np.array_equal(queue.fence(u).result(20), np.full(4, 8.0))
        assert np.array_equal(queue.fence(v).result(20), np.full(4, 22.0))


def test_queues_threads_and_runs_share_a_kernel() -> None:
    kernel = celerity.fuse(scaled)
    for _ in range(2):
        celerity.configure(devices="cpu:1")
        with celerity.Queue() as queue, celerity.Queue(priority=1) as other:
            u, v = (celerity.Buffer.from_array(np.zeros(4)) for _ in range(2))

            def submit(one: celerity.Queue, buffer: Any) -> None:
                for step in range(40):
                    one.parallel_for(4, kernel, buffer.read_write(ONE), 1.0, step % 3)

            threads = [threading.Thread(target=submit, args=pair) for pair in ((queue, u), (other, v))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert repeated() >= 78
            assert np.array_equal(queue.fence(u).result(20), np.full(4, 39.0))
            assert np.array_equal(other.fence(v).result(20), np.full(4, 39.0))


def test_an_integer_that_does_not_fit_is_refused_by_repeated_submits() -> None:
    celerity.configure(devices="cpu:1")
    kernel = celerity.fuse(scaled)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(5, np.int8))
        for b in (1, 2):
            queue.parallel_for(5, kernel, u.read_write(ONE), 1, b)
        with pytest.raises(UsageError, match=r"300 does not fit into int8"):
            queue.parallel_for(5, kernel, u.read_write(ONE), 1, 300)
        assert np.array_equal(queue.fence(u).result(20), np.full(5, 4, np.int8))


def test_the_name_of_a_fused_kernel_is_that_of_its_task() -> None:
    def add(chunk: Any, u: Any) -> None:
        u[chunk.box] += np.zeros(5)

    celerity.configure(devices="cpu:1")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(5))
        with pytest.warns(CelerityWarning, match='kernel "my kernel"'):
            queue.parallel_for(5, celerity.fuse(add, name="my kernel"), u.read_write(ONE))


def test_a_kernel_that_nobody_has_is_freed() -> None:
    def step(chunk: Any, u: Any) -> None:
        u[chunk.box] += 1

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(5))
        kernel = celerity.fuse(step)
        for _ in range(3):
            queue.parallel_for(5, kernel, u.read_write(ONE))
        queue.wait()
        watch = weakref.ref(kernel)
        del kernel
        gc.collect()
        assert watch() is None
