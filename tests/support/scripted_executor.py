# SPDX-License-Identifier: MIT
"""A native executor, a runtime and a network that follow a test, to test the live executor by itself."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from celerity_py import _native
from celerity_py._native import (
    ActiveInstruction,
    Box,
    CombineCall,
    HostTaskCall,
    InitializeCall,
    KernelCall,
    UnclaimedPilot,
)
from celerity_py.executor.network.communicator import Arrivals, Notice
from celerity_py.vocabulary.notation import show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celerity_py._native import MessagePort
    from celerity_py.executor.failures.failure import Failure


LOOK_S = 2e-3
Call = TypeVar("Call", KernelCall, HostTaskCall)


def _event(kind: str, *fields: Any) -> tuple[Any, ...]:
    """The event of this kind that the native executor would return."""
    name = kind.title().replace("_", "") + "Event"
    event: tuple[Any, ...] = getattr(_native, name)(kind, *fields)
    return event


class ScriptedExecutor:
    """Stands in for `_native.Executor`: `emit` decides on the events of `run`, `start_kernel` on kernels."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._items: list[tuple[Any, ...]] = []
        self._is_awake = False
        self._is_stopped = False
        self._kernels: queue.SimpleQueue[KernelCall | None] = queue.SimpleQueue()
        self._host_tasks: queue.SimpleQueue[HostTaskCall | None] = queue.SimpleQueue()
        self._moved_at_s = time.monotonic()
        self._longest_run_s = 1.0
        self.done_tickets: list[int] = []
        self.active: list[ActiveInstruction] = []
        self.unclaimed: list[UnclaimedPilot] = []
        self.has_failed = False
        self.num_runs = 0

    def emit(self, *items: tuple[Any, ...]) -> None:
        with self._condition:
            self._items += [_event(*item) for item in items]
            self._condition.notify_all()

    def start_kernel(self, ticket: int, submission: int) -> None:
        self._kernels.put(KernelCall(ticket, submission))

    def start_host_task(self, ticket: int, submission: int) -> None:
        self._host_tasks.put(HostTaskCall("host_task", ticket, submission))

    def run(self, timeout_s: float) -> list[tuple[Any, ...]]:
        with self._condition:
            self.num_runs += 1
            self._condition.wait_for(
                lambda: self._items or self._is_awake or self._is_stopped, min(timeout_s, self._longest_run_s)
            )
            items, self._items, self._is_awake = self._items, [], False
            if items:
                self._moved_at_s = time.monotonic()
            return items

    @property
    def still_s(self) -> float:
        return time.monotonic() - self._moved_at_s

    def connect(self, port: MessagePort, *, spins: bool, cores_per_rank: float, has_other_ways: bool) -> None:
        self._longest_run_s = LOOK_S  # the live executor looks at the port behind each run

    def wake(self) -> None:
        with self._condition:
            self._is_awake = True
            self._condition.notify_all()

    def next_kernel(self, device: int) -> KernelCall | None:
        return self._next(self._kernels)

    def kernel_returned(self, ticket: int) -> None:
        self.done_tickets.append(ticket)

    def next_host_task(self) -> HostTaskCall | None:
        return self._next(self._host_tasks)

    def host_task_done(self, ticket: int) -> None:
        self.done_tickets.append(ticket)

    def unclaimed_pilots(self) -> list[UnclaimedPilot]:
        return self.unclaimed

    def active_instructions(self) -> list[ActiveInstruction]:
        return self.active

    def fail(self) -> None:
        self.has_failed = True

    def stop(self) -> None:
        self._is_stopped = True
        self._kernels.put(None)
        self._host_tasks.put(None)
        self.wake()

    def release_devices(self) -> bool:
        return True

    @staticmethod
    def _next(calls: queue.SimpleQueue[Call | None]) -> Call | None:
        call = calls.get()
        if call is None:
            calls.put(None)  # for the next thread
        return call


class ScriptedRuntime:
    """Stands in for the runtime: submissions are functions."""

    def __init__(self) -> None:
        self.functions: dict[int, Callable[[], None]] = {}
        self.stories: dict[int, list[str]] = {}
        self.completed: list[int] = []
        self.retired: list[int] = []
        self.freed: list[int] = []
        self.failure: Failure | None = None
        self.has_failed = threading.Event()

    def submit(self, function: Callable[[], None]) -> int:
        submission = len(self.functions) + 1
        self.functions[submission] = function
        return submission

    def enter_thread(self) -> None:
        pass

    def run_kernel(self, device: int, call: KernelCall) -> None:
        self.functions[call.submission]()

    def run_host_task(self, call: HostTaskCall | InitializeCall | CombineCall) -> None:
        assert call.kind == "host_task"
        self.functions[call.submission]()

    def submission_completed(self, submission: int) -> None:
        self.completed.append(submission)

    def submissions_retired(self, last_submission: int) -> None:
        self.retired.append(last_submission)

    def user_memory_freed(self, raw: int) -> None:
        self.freed.append(raw)

    def reduction_is_empty(self, number: int) -> None:
        raise AssertionError(f"reduction {number} is empty")

    def failed(self, failure: Failure) -> None:
        assert self.failure is None, "told twice"
        self.failure = failure
        self.has_failed.set()

    def tell_story(self, submission: int, most: int) -> list[str]:
        return self.stories.get(submission, [])[:most]

    def describe_submission(self, submission: int) -> tuple[str, str] | None:
        function = self.functions.get(submission)
        return (f"task {function.__name__!r}", f"program.py:{submission}") if function else None

    def explain_violation(
        self, submission_id: int, access: int, index: tuple[int, ...], declared: Sequence[tuple[int, ...]]
    ) -> BaseException:
        return IndexError(f"submission {submission_id}, access {access}, at {index}, declared {declared}")

    def describe_buffer(self, buffer: int, box: tuple[int, ...] | None = None) -> str:
        where = "" if box is None else f" {show(Box(box[:2], box[3:5]))}"
        return f'B{buffer} "u"{where}'

    def describe_site(self, number: int) -> str:
        return f"program.py:{number}" if number else ""


class MemoryNetwork:
    """Communicators of several ranks within one process, without ports; notices arrive at the next poll."""

    def __init__(self, num_ranks: int) -> None:
        self.notices: list[deque[Notice]] = [deque() for _ in range(num_ranks)]
        self.barriers: list[set[int]] = []
        self.aborts: list[int] = []
        self.lock = threading.Lock()
        self.ranks = [MemoryCommunicator(self, rank, num_ranks) for rank in range(num_ranks)]


class MemoryCommunicator:
    def __init__(self, network: MemoryNetwork, rank: int, size: int) -> None:
        self._network = network
        self.rank = self.local_rank = rank
        self.size = self.local_size = size
        self.local_ranks = tuple(range(size))
        self.library = ""
        self.port = None
        self._barriers: list[int] = []
        self._num_barriers_passed = 0
        self.alive: dict[int, bool | None] = {}
        self.processes: dict[int, int] = {}
        self.unasked: list[tuple[int, int]] = []

    def exchange(self, data: bytes) -> list[bytes]:
        raise NotImplementedError

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        self._network.notices[destination_rank].append(Notice(kind, self.rank, content))

    def settle(self, number: int) -> None:
        with self._network.lock:
            if len(self._network.barriers) == len(self._barriers):
                self._network.barriers.append(set())
            self._network.barriers[len(self._barriers)].add(self.rank)
            self._barriers.append(number)

    def unasked_payloads(self) -> list[tuple[int, int]]:
        return self.unasked

    def poll(self) -> Arrivals:
        arrivals = Arrivals([], [])
        inbox = self._network.notices[self.rank]
        while inbox:
            arrivals.notices.append(inbox.popleft())
        for index in range(self._num_barriers_passed, len(self._barriers)):
            if len(self._network.barriers[index]) == self.size:
                arrivals.settled.append(self._barriers[index])
                self._num_barriers_passed += 1
        return arrivals

    def is_alive(self, rank: int) -> bool | None:
        return self.alive.get(rank)

    def process_of(self, rank: int) -> int | None:
        return self.processes.get(rank)

    def connect_group(self, number: int) -> NoReturn:
        raise NotImplementedError

    def abort(self, status: int) -> NoReturn:  # type: ignore[misc]  # nothing follows it on the thread that calls it
        self._network.aborts.append(status)

    def close(self) -> None:
        pass
