# SPDX-License-Identifier: MIT
"""Feeds the executor of one rank with instruction records by hand."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py import _native, _native_testing

Record = dict[str, Any]
USER, HOST, DEVICE0, DEVICE1 = range(4)


def row(begin: int, end: int) -> tuple[int, int, int, int, int, int]:
    return (begin, 0, 0, end, 1, 1)


def box_of(place: int | tuple[int, ...]) -> tuple[int, ...]:
    return row(0, place) if isinstance(place, int) else place


class Script:
    """Makes instruction records for a buffer of float64 elements.

    An instruction depends on those named in `after`, or else on the one before it. A `place` is a box, or the number of
    elements from the first one on.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, kind: str, after: list[int] | None = None, **fields: Any) -> int:
        iid = len(self.records) + 1
        dependencies = after if after is not None else ([iid - 1] if iid > 1 else [])
        record = {"id": iid, "key": (0, "work"), "priority": 0, "dependencies": dependencies, "kind": kind}
        self.records.append(record | fields)
        return iid

    def alloc(self, memory: int, raw: int, place: int | tuple[int, ...], **where: Any) -> int:
        box = box_of(place)
        return self.add(
            "alloc",
            allocation=(memory, raw),
            size_bytes=8 * (box[3] - box[0]),
            alignment_bytes=8,
            buffer=1,
            allocated_box=box,
            submission=0,
            **where,
        )

    def free(self, memory: int, raw: int, count: int, **where: Any) -> int:
        return self.add("free", allocation=(memory, raw), size_bytes=8 * count, **where)

    def copy(
        self,
        source: tuple[int, int],
        destination: tuple[int, int],
        place: int | tuple[int, ...],
        reason: str = "coherence",
        **where: Any,
    ) -> int:
        return self.add(
            "copy",
            source=source,
            source_offset_bytes=0,
            destination=destination,
            destination_offset_bytes=0,
            boxes=[box_of(place)],
            element_size_bytes=8,
            reason=reason,
            buffer=1,
            **where,
        )

    def kernel(self, device: int, submission: int, allocation: tuple[int, int], count: int, **where: Any) -> int:
        access = {
            "buffer": 1,
            "mode": "read_write",
            "allocation": allocation,
            "bounding_box": row(0, count),
            "accessed": [row(0, count)] if allocation[1] else [],
            "whole": row(0, count),
            "parts": [],
        }
        return self.add(
            "device_kernel",
            device=device,
            submission=submission,
            chunk=row(0, count),
            accesses=[access],
            reductions=[],
            is_border=False,
            **where,
        )

    def epoch(self, submission: int, action: str = "none", task: int = 1, **where: Any) -> int:
        return self.add("epoch", task=task, submission=submission, action=action, **where)

    def submit(self, executor: _native.Executor) -> None:
        _native_testing.submit(executor, _native_testing.InstructionRecords(self.records))


def void(_: object) -> None:
    """For lambdas."""


def array_at(address: int, count: int) -> npt.NDArray[np.float64]:
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


class Harness:
    """An executor with a launcher thread per device and a host-task thread, driven by the test's own thread."""

    def __init__(self, **options: Any) -> None:
        self.executor = _native.Executor(_native.ExecutorSettings(**options))
        self.events: list[tuple[Any, ...]] = []
        self.kernels: list[tuple[Any, ...]] = []
        self.body: Callable[[tuple[Any, ...]], None] = lambda call: None
        self.threads = [threading.Thread(target=self.launch, args=(d,)) for d in range(options.get("num_devices", 1))]
        self.threads.append(threading.Thread(target=self.serve_host_tasks))
        for thread in self.threads:
            thread.start()

    def launch(self, device: int) -> None:
        while (call := self.executor.next_kernel(device)) is not None:
            self.kernels.append(call)
            self.body(call)
            self.executor.kernel_returned(call[0])

    def serve_host_tasks(self) -> None:
        while (call := self.executor.next_host_task()) is not None:
            self.body(call)
            self.executor.host_task_done(call[1])

    def run_until(self, *expected: Any, timeout_s: float = 10) -> tuple[Any, ...]:
        """Runs until an event begins with `expected`; keeps all events."""
        deadline = time.monotonic() + timeout_s
        while True:
            for event in self.events:
                if event[: len(expected)] == expected:
                    return event
            assert time.monotonic() < deadline, (
                f"no {expected} among {self.events}; {self.executor.active_instructions()}"
            )
            self.events += self.executor.run(0.05)

    def close(self) -> None:
        self.executor.stop()
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


TRANSFER = (4, 1, 0)


def send_record(iid: int, after: list[int], box: tuple[int, ...]) -> Record:
    return {
        "id": iid,
        "key": (0, "send"),
        "priority": 0,
        "dependencies": after,
        "kind": "send",
        "destination_rank": 1,
        "message": 77,
        "transfer": TRANSFER,
        "source": (HOST, 1),
        "sent_box": box,
        "element_size_bytes": 8,
    }


def make_pilot(box: tuple[int, ...], message: int = 5) -> bytes:
    """The message that another rank's executor would send."""
    sender = _native.Executor(_native.ExecutorSettings(num_ranks=2, rank=1))
    s = Script()
    s.alloc(HOST, 1, 10)
    s.records.append(send_record(2, [1], box) | {"destination_rank": 0, "message": message})
    s.submit(sender)
    (pilot,) = (event[2] for event in sender.run(1) if event[0] == "pilot")
    return bytes(pilot)
