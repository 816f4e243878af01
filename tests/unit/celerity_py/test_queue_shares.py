# SPDX-License-Identifier: MIT
"""Queues with a share of the multiprocessors of each GPU, on the CPU backend of this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, ResourceError, UsageError
from celerity_py.runtime import lifecycle
from celerity_py.runtime.devices import Devices
from tests.support.kernels import iota
from tests.support.queues import queues


@pytest.mark.parametrize("given", ["0.25", True, 1j, [0.25]])
def test_a_share_is_a_number(given: Any) -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"Queue\(multiprocessors=\.\.\.\) takes a number between 0 and 1, .* not "
    ):
        celerity.Queue(priority=1, multiprocessors=given)


@pytest.mark.parametrize("given", [0, 1, -0.5, 32, float("nan"), float("inf")])
def test_a_share_is_above_0_and_below_1(given: float) -> None:
    with pytest.raises(UsageError, match=rf"Queue\(multiprocessors={given}\) is out of range: .* above 0 and below 1"):
        celerity.Queue(priority=1, multiprocessors=given)


def test_a_share_needs_a_priority() -> None:
    with pytest.raises(UsageError, match=r"from 1 to 4, as in Queue\(priority=1, multiprocessors=0\.25\)"):
        celerity.Queue(multiprocessors=0.25)


def test_queues_with_a_share_compute_on_cpu_devices_as_any_other() -> None:
    celerity.configure(devices="cpu:2")
    try:
        with (
            celerity.Queue() as low,
            celerity.Queue(priority=2, multiprocessors=0.25) as high,
            celerity.Queue(priority=3, multiprocessors=np.float64(0.25)) as highest,
            celerity.Queue(priority=2, multiprocessors=0.25) as another,
        ):
            assert (low.multiprocessors, high.multiprocessors, highest.multiprocessors) == (None, 0.25, 0.25)
            assert repr(highest) == "<Queue with priority 3 and a share of 0.25 on rank 0 of 1>"
            u = celerity.Buffer.from_array(np.zeros(8))
            for queue in (low, high, highest, another):
                queue.parallel_for(8, iota, u.write(access.one_to_one()))
            np.testing.assert_array_equal(another.fence(u).result(30), np.arange(8))
            assert low.statistics().executor["multiprocessors"] == []  # only GPUs are divided
    finally:
        celerity.configure(devices=None)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((1, 0.25), (2, 0.5), r"asks for a share of 0\.5 .* an earlier queue has a share of 0\.25\..* or leave it out"),
        (
            (1, 0.25),
            (1, None),
            r"asks for no share .* priority 1 for a share of 0\.25\..* give it multiprocessors=0\.25, or",
        ),
        ((1, None), (1, 0.25), r"asks for a share of 0\.25 .* priority 1 for none\..* give it no multiprocessors=, or"),
    ],
)
def test_a_run_divides_the_multiprocessors_once(
    first: tuple[int, float | None], second: tuple[int, float | None], message: str
) -> None:
    with queues(0), celerity.Queue(priority=first[0], multiprocessors=first[1]):
        with pytest.raises(UsageError, match=rf"^Queue\(priority={second[0]}.*{message}"):
            celerity.Queue(priority=second[0], multiprocessors=second[1])
        celerity.Queue(priority=first[0], multiprocessors=first[1]).close()


def test_the_next_run_may_divide_the_multiprocessors_otherwise() -> None:
    for share in (0.25, 0.5):
        with queues(0), celerity.Queue(priority=1, multiprocessors=share) as queue:
            queue.wait()


def test_the_first_share_comes_before_the_first_submission() -> None:
    with queues(0) as (low,):
        u = celerity.Buffer.from_array(np.zeros(8))
        low.parallel_for(8, iota, u.write(access.one_to_one()))
        low.wait()
        with pytest.raises(
            UsageError, match=r"multiprocessors=0\.25\) would divide .* after 2 submission\(s\), .* before the first"
        ):
            celerity.Queue(priority=1, multiprocessors=0.25)
        celerity.Queue(priority=1).close()  # the refused one is not remembered


def test_a_later_queue_may_join_the_share() -> None:
    with queues(0) as (low,), celerity.Queue(priority=1, multiprocessors=0.25):
        low.wait()
        celerity.Queue(priority=2, multiprocessors=0.25).close()


class DrivenGpu:
    """An executor whose GPU has parts, or whose driver fails with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.prepared: list[tuple[int, float]] = []

    def prepare_queue(self, priority: int, share: float) -> None:
        if self.error is not None:
            raise self.error
        self.prepared.append((priority, share))

    def statistics(self) -> dict[str, Any]:
        return {"multiprocessors": [{"share": 32, "rest": 100}]}


@contextmanager
def on_gpu(driven: DrivenGpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run whose new queues are those of a GPU."""
    with queues(0, log_level="info"), monkeypatch.context() as patched:
        runtime = lifecycle.current()
        patched.setattr(runtime, "devices", Devices("cuda", 1, (3,)))
        patched.setattr(runtime, "executor", driven)
        yield


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            ValueError("a share of 0.01 rounds to none of its multiprocessors. GPU 3 has 132 multiprocessors"),
            UsageError,
            r"rank 0 cannot divide its GPUs for Queue\(priority=1, multiprocessors=0\.01\): a share of 0\.01 .* 132 ",
        ),
        (
            RuntimeError("the CUDA driver of this machine is too old to divide multiprocessors"),
            ResourceError,
            r"rank 0 cannot make streams for Queue\(priority=1, multiprocessors=0\.01\): the CUDA .* too old .* leave",
        ),
    ],
)
def test_a_gpu_that_cannot_be_divided_so_is_told(
    error: Exception, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = DrivenGpu(error)
    with on_gpu(driven, monkeypatch):
        with pytest.raises(kind, match=message):
            celerity.Queue(priority=1, multiprocessors=0.01)
        driven.error = None
        monkeypatch.setattr(lifecycle.current(), "num_queues", lifecycle.current().num_queues - 1)  # never closed
        celerity.Queue(priority=1, multiprocessors=0.5)
        assert driven.prepared == [(1, 0.5)]


def test_a_limit_of_mps_and_a_share_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = DrivenGpu()
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    with on_gpu(driven, monkeypatch):
        with pytest.raises(ResourceError, match=r"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 is set, .* Remove the variable"):
            celerity.Queue(priority=1, multiprocessors=0.25)
        assert driven.prepared == []


def test_a_split_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("celerity_py").propagate = True
    with on_gpu(DrivenGpu(), monkeypatch):
        monkeypatch.setattr(lifecycle.current(), "num_queues", lifecycle.current().num_queues - 1)  # never closed
        celerity.Queue(priority=2, multiprocessors=0.25)
    assert (
        "Rank 0 gives 32 of the 132 multiprocessors of GPU 3 to queues of priority 2, and the rest to all others."
        in caplog.messages
    )
