# SPDX-License-Identifier: MIT
"""How long the compiled code of fused kernels lives, and the text from which it was made."""

from __future__ import annotations

import ctypes
import gc
from typing import Any
from weakref import WeakSet, ref

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.cpu.compilation import CpuKernel
from celerity_py.errors import UsageError
from celerity_py.fusion import plans
from celerity_py.submit import fused_targets

NOTHING = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(lambda *_: None)


class _Code:
    """Stands for machine code."""


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> WeakSet[_Code]:
    """The code of compiled kernels, which compute nothing."""
    pytest.importorskip("numba")
    found: WeakSet[_Code] = WeakSet()

    def compile_for_cpu(text: str, name: str, num_passes: int) -> CpuKernel:
        code = _Code()
        found.add(code)
        address: Any = ctypes.cast(NOTHING, ctypes.c_void_p).value
        return CpuKernel((address,) * num_passes, code)

    monkeypatch.setattr(fused_targets, "compile_for_cpu", compile_for_cpu)
    monkeypatch.setattr(plans, "_MOST_PLANS", 3)
    return found


def scale(chunk: Any, u: Any, times: int) -> None:
    for _ in range(times):
        u[chunk.box] *= 2


def test_code_goes_with_its_plan_when_no_launch_needs_it(alive: WeakSet[_Code]) -> None:
    kernel = celerity.fuse(scale)
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(6))

        def submit(times: int) -> None:
            queue.parallel_for(6, kernel, u.read_write(access.one_to_one()), times)

        def submit_many(start: int) -> None:
            for times in range(start, start + 14):
                submit(times)
                queue.wait()
            gc.collect()

        recorded = queue.record(lambda: submit(1))
        (code,) = alive
        first = ref(code)
        del code
        submit_many(2)
        assert first() is not None
        assert len(alive) < 8
        queue.replay(recorded, 3)
        del recorded
        submit_many(16)
        assert first() is None
        assert len(alive) < 8


def test_submits_of_equal_kinds_share_code(alive: WeakSet[_Code]) -> None:
    kernel = celerity.fuse(scale)
    with celerity.Queue() as queue:
        buffers = [celerity.Buffer.from_array(np.ones(size)) for size in (6, 7, 8, 6)]
        for u in buffers:
            queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()), 2)
        queue.wait()
        assert len(alive) == 1


def test_the_source_is_that_of_the_last_kind_of_submit(alive: WeakSet[_Code]) -> None:
    @celerity.fuse
    def power(chunk: Any, u: Any, times: int) -> None:
        for _ in range(times):
            u[chunk.box] *= 2
        if chunk.box.min[0] == 0:
            u[0] = -1

    with pytest.raises(UsageError, match=r"'power' has no source yet: a submit makes it.*Call source\(\) after"):
        power.source()
    celerity.configure(devices="cpu:3")
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(9))
        sources = []
        for times in (1, 2, 2):
            queue.parallel_for(9, power, u.read_write(access.one_to_one()), times)
            sources.append(power.source())
    first, second, third = sources
    assert first.count("def fused_power_0(") == 2  # the first chunk has a structure of its own
    assert first.count("multiply_(") * 2 == second.count("multiply_(")
    assert second == third


@pytest.mark.filterwarnings("ignore:.*runs as a Python kernel")
@pytest.mark.usefixtures("alive")
def test_streams_are_drained_once_for_each_kind_of_submit_whatever_code_a_rank_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drains: list[int] = []
    monkeypatch.setattr(fused_targets.CpuTarget, "begin", lambda _: drains.append(1))

    @celerity.fuse
    def two_structures(chunk: Any, u: Any) -> None:
        if chunk.box.min[0] == 0:
            u[chunk.box] *= 3
        u[chunk.box] *= 2

    @celerity.fuse
    def not_fused(chunk: Any, u: Any) -> None:
        u[chunk.box] += np.zeros(chunk.box.shape)

    celerity.configure(devices="cpu:2")
    with celerity.Queue() as queue:
        buffers = [celerity.Buffer.from_array(np.ones(size)) for size in (6, 6, 8)]
        for kernel, expected in ((two_structures, 2), (not_fused, 4)):
            for _ in range(2):
                for u in buffers:
                    queue.parallel_for(u.shape, kernel, u.read_write(access.one_to_one()))
            assert len(drains) == expected
