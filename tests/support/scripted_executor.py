# SPDX-License-Identifier: MIT
"""A native executor, a runtime and a network that follow a test, to test the live executor by itself."""

from __future__ import annotations

import queue
import threading
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

    from celerity_py._native import Payload
    from celerity_py.executor.failures.failure import Failure


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
        self.outstanding_communication = False
        self.completed_requests: list[int] = []
        self.pilots: list[tuple[int, bytes]] = []
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
            self._condition.wait_for(lambda: self._items or self._is_awake or self._is_stopped, timeout_s)
            items, self._items, self._is_awake = self._items, [], False
            return items

    def notify_complete(self, request: int) -> None:
        self.completed_requests.append(request)

    def notify_pilot(self, source_rank: int, pilot: bytes) -> None:
        self.pilots.append((source_rank, pilot))

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
    """Communicators of several ranks within one process; messages arrive at the next poll, payloads carry no data."""

    def __init__(self, num_ranks: int) -> None:
        self.pilots: list[deque[tuple[int, bytes]]] = [deque() for _ in range(num_ranks)]
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
        self._completed: list[int] = []
        self._barriers: list[int] = []
        self._num_barriers_passed = 0
        self.alive: dict[int, bool | None] = {}
        self.processes: dict[int, int] = {}
        self.payloads: list[Payload] = []
        self.unasked: list[tuple[int, int]] = []

    @property
    def outstanding(self) -> int:
        return len(self._barriers) - self._num_barriers_passed

    def exchange(self, data: bytes) -> list[bytes]:
        raise NotImplementedError

    def send_pilot(self, destination_rank: int, pilot: bytes) -> None:
        self._network.pilots[destination_rank].append((self.rank, pilot))

    def send_notice(self, destination_rank: int, kind: int, content: bytes) -> None:
        self._network.notices[destination_rank].append(Notice(kind, self.rank, content))

    def send(self, payload: Payload) -> None:
        self.payloads.append(payload)
        self._completed.append(payload.request)

    def receive(self, payload: Payload) -> None:
        self.send(payload)

    def barrier(self, request: int) -> None:
        with self._network.lock:
            if len(self._network.barriers) == len(self._barriers):
                self._network.barriers.append(set())
            self._network.barriers[len(self._barriers)].add(self.rank)
            self._barriers.append(request)

    def settle(self, request: int) -> None:
        self.barrier(request)

    def unasked_payloads(self) -> list[tuple[int, int]]:
        return self.unasked

    def poll(self) -> Arrivals:
        arrivals = Arrivals([], self._completed, [])
        self._completed = []
        for inbox, arrived in (
            (self._network.pilots[self.rank], arrivals.pilots),
            (self._network.notices[self.rank], arrivals.notices),
        ):
            while inbox:
                arrived.append(inbox.popleft())  # type: ignore[arg-type]
        for index in range(self._num_barriers_passed, len(self._barriers)):
            if len(self._network.barriers[index]) == self.size:
                arrivals.completed.append(self._barriers[index])
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
