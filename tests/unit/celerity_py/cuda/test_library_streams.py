# SPDX-License-Identifier: MIT
"""The current streams of torch, numba and Warp during a Python kernel, with modules that record their calls."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from celerity_py.cuda import library_streams
from celerity_py.cuda.library_streams import library_scopes

STREAM = SimpleNamespace(ptr=0xABC)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name in library_streams._SCOPES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(library_streams, "_wrappers", {})
    return []


def scope(log: list[str], what: str) -> Any:
    @contextmanager
    def scoped() -> Iterator[None]:
        log.append(what)
        try:
            yield
        finally:
            log.append(f"end of {what}")

    return scoped()


def torch(log: list[str], *, has_gpus: bool = True) -> Any:
    def external(handle: int, device: str) -> str:
        log.append("wraps")
        return f"torch {handle:#x} on {device}"

    cuda = SimpleNamespace(
        is_available=lambda: has_gpus, ExternalStream=external, stream=lambda wrapped: scope(log, wrapped)
    )
    return SimpleNamespace(cuda=cuda)


def warp(log: list[str]) -> Any:
    return SimpleNamespace(
        is_cuda_available=lambda: True,
        Stream=lambda device, cuda_stream: f"warp {cuda_stream:#x} on {device}",
        ScopedStream=lambda wrapped, sync_enter: scope(log, f"{wrapped}, {sync_enter}"),
    )


def cupy(log: list[str]) -> Any:
    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def record(self, event: SimpleNamespace) -> None:
            event.behind = self.name

        def wait_event(self, event: SimpleNamespace) -> None:
            log.append(f"{self.name} follows {event.behind}")

    streams = SimpleNamespace(null=Stream("null"), ptds=Stream("ptds"))
    event = SimpleNamespace
    return SimpleNamespace(cuda=SimpleNamespace(Stream=streams, Event=lambda disable_timing: event())), Stream("lane")


def test_nothing_happens_without_these_libraries(log: list[str]) -> None:
    assert library_scopes(0, STREAM) is None
    assert min(timeit.repeat(lambda: library_scopes(0, STREAM), number=1000, repeat=5)) < 5e-3


def test_the_stream_of_the_lane_is_current_for_torch_and_warp(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(log))
    monkeypatch.setitem(sys.modules, "warp", warp(log))
    for _ in range(2):
        scopes = library_scopes(3, STREAM)
        assert scopes is not None
        with scopes:
            log.append("kernel")
    first = ["torch 0xabc on cuda:3", "warp 0xabc on cuda:3, False", "kernel"]
    last = ["end of warp 0xabc on cuda:3, False", "end of torch 0xabc on cuda:3"]
    assert log == ["wraps", *first, *last, *first, *last]


def test_streams_are_restored_after_an_exception(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(log))
    scopes = library_scopes(0, STREAM)
    assert scopes is not None
    with pytest.raises(ZeroDivisionError), scopes:
        1 / 0  # noqa: B018
    assert log[1:] == ["torch 0xabc on cuda:0", "end of torch 0xabc on cuda:0"]


def test_the_first_scope_ends_if_the_second_cannot_begin(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = warp(log)
    broken.is_cuda_available = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "torch", torch(log))
    monkeypatch.setitem(sys.modules, "warp", broken)
    with pytest.raises(ZeroDivisionError):
        library_scopes(0, STREAM)
    assert log[-1] == "end of torch 0xabc on cuda:0"


def test_a_library_without_gpus_is_left_alone(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(log, has_gpus=False))
    scopes = library_scopes(0, STREAM)
    assert scopes is not None
    with scopes:
        pass
    assert not log


def test_a_library_that_is_being_imported_is_left_alone(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    half = ModuleType("torch")
    half.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torch", half)
    scopes = library_scopes(0, STREAM)
    assert scopes is not None
    with scopes:
        pass


@pytest.mark.parametrize("per_thread", [0, 1])
def test_the_default_stream_of_numba_comes_behind_the_lane_and_before_its_next_operation(
    log: list[str], monkeypatch: pytest.MonkeyPatch, per_thread: int
) -> None:
    fake, lane = cupy(log)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setitem(sys.modules, "numba.cuda", SimpleNamespace())
    config = SimpleNamespace(CUDA_PER_THREAD_DEFAULT_STREAM=per_thread)
    monkeypatch.setitem(sys.modules, "numba.core.config", config)
    scopes = library_scopes(0, lane)
    assert scopes is not None

    def kernel() -> None:
        log.append("kernel")
        raise KeyError

    with pytest.raises(KeyError), scopes:
        kernel()
    default = "ptds" if per_thread else "null"
    assert log == [f"{default} follows lane", "kernel", f"lane follows {default}"]
