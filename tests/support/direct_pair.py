# SPDX-License-Identifier: MIT
"""The executors of two ranks of one host in this process, and instruction records of messages between them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py import _native
from tests.support.executor_harness import TRANSFER, USER, Script, row

PATIENCE_S = 10


class MessageScript(Script):
    """Adds messages from rank 0 to rank 1, and keys of tasks."""

    def add(
        self, kind: str, after: list[int] | None = None, key_task: int = 1, phase: str = "work", **fields: Any
    ) -> int:
        return super().add(kind, after, key=(key_task, phase), **fields)

    def host_task(self, submission: int) -> int:
        return self.add("host_task", submission=submission, chunk=row(0, 1), accesses=[])

    def send(self, message: int, source: tuple[int, int], sent: tuple[int, ...], **more: Any) -> int:
        more.setdefault("transfer", TRANSFER)
        return self.add(
            "send",
            phase="send",
            destination_rank=1,
            message=message,
            source=source,
            sent_box=sent,
            element_size_bytes=8,
            **more,
        )

    def receive(self, destination: tuple[int, int], received: tuple[int, ...], **more: Any) -> int:
        more.setdefault("boxes", [received])
        more.setdefault("transfer", TRANSFER)
        return self.add("receive", phase="receive", destination=destination, element_size_bytes=8, **more)


class Pair:
    """Rank 0 and rank 1 of one host."""

    def __init__(self) -> None:
        self.ranks = [
            _native.Executor(_native.ExecutorSettings(num_ranks=2, rank=rank, num_devices=2, direct=True))
            for rank in range(2)
        ]
        self.offers = [executor.offer_direct([0, 1]) for executor in self.ranks]
        for rank, executor in enumerate(self.ranks):
            executor.open_direct(1 - rank, self.offers[1 - rank])
            executor.agree_direct([1 - rank])
        self.events: list[list[tuple[Any, ...]]] = [[], []]
        self.arrays: list[npt.NDArray[np.float64]] = []

    def submit(self, rank: int, script: Script) -> None:
        script.submit(self.ranks[rank])

    def register(self, rank: int, array: npt.NDArray[np.float64], first: int = 0) -> tuple[int, int]:
        self.arrays.append(array)
        return (USER, self.ranks[rank].register_user_memory(array.ctypes.data, row(first, first + array.size)))

    def step(self) -> None:
        for rank, executor in enumerate(self.ranks):
            for event in executor.run(0.001):
                self.events[rank].append(event)
                assert event[0] != "failed", event
                if event[0] == "pilot":
                    self.ranks[event[1]].notify_pilot(rank, event[2])

    def finish_host_task(self, rank: int) -> None:
        call = self.ranks[rank].next_host_task()
        assert call is not None
        self.ranks[rank].host_task_done(call[1])

    def run_until(self, rank: int, kind: str, value: int | None = None) -> tuple[Any, ...]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for event in self.events[rank]:
                if event[0] == kind and (value is None or event[1] == value):
                    return event
            self.step()
        raise AssertionError(f"no {kind} {value}: {[e.active_instructions()[:5] for e in self.ranks]}")

    def settle(self) -> None:
        for _ in range(30):
            self.step()
