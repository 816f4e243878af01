# SPDX-License-Identifier: MIT
"""The executor of one rank, fed with instruction records by hand."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from celerity_py import _native

Record = dict[str, Any]
USER, HOST, DEVICE0, DEVICE1 = range(4)


def row(begin: int, end: int) -> tuple[int, ...]:
    return (begin, 0, 0, end, 1, 1)


class Script:
    """Makes instruction records for a buffer of float64 elements.

    An instruction depends on those named in `after`, or else on the one before it.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.pilots: list[Record] = []

    def add(self, kind: str, after: list[int] | None = None, **fields: Any) -> int:
        iid = len(self.records) + 1
        dependencies = after if after is not None else ([iid - 1] if iid > 1 else [])
        self.records.append(
            {
                "id": iid,
                "key": (0, "work"),
                "priority": 0,
                "dependencies": dependencies,
                "kind": kind,
                **fields,
            }
        )
        return iid

    def alloc(self, memory: int, raw: int, count: int, **where: Any) -> int:
        return self.add(
            "alloc",
            allocation=(memory, raw),
            size_bytes=8 * count,
            alignment_bytes=8,
            buffer=1,
            allocated_box=row(0, count),
            **where,
        )

    def free(self, memory: int, raw: int, count: int, **where: Any) -> int:
        return self.add("free", allocation=(memory, raw), size_bytes=8 * count, **where)

    def copy(
        self, source: tuple[int, int], destination: tuple[int, int], count: int, reason: str = "coherence", **where: Any
    ) -> int:
        layout = {"is_linear": False, "allocated_box": row(0, count), "offset_bytes": 0}
        return self.add(
            "copy",
            source=source,
            source_layout=layout,
            destination=destination,
            destination_layout=layout,
            boxes=[row(0, count)],
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
            "allocated_box": row(0, count),
            "bounding_box": row(0, count),
            "accessed": [row(0, count)] if allocation[1] else [],
        }
        return self.add(
            "device_kernel",
            device=device,
            submission=submission,
            chunk=row(0, count),
            accesses=[access],
            reductions=[],
            **where,
        )

    def epoch(self, submission: int, action: str = "none", task: int = 1, **where: Any) -> int:
        return self.add("epoch", task=task, submission=submission, last_submission=submission, action=action, **where)

    def submit(self, executor: _native.Executor) -> None:
        executor.submit(_native.InstructionRecords(self.records, self.pilots))


def void(_: object) -> None:
    """For lambdas."""


def array_at(address: int, count: int) -> npt.NDArray[np.float64]:
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


class Harness:
    """An executor with a launcher thread per device and a host-task thread, driven by the test's own thread."""

    def __init__(self, **options: Any) -> None:
        self.executor = _native.Executor(**options)
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
            self.executor.kernel_issued(call[0])
            self.executor.kernel_done(call[0])

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


@pytest.fixture
def harness() -> Iterator[Callable[..., Harness]]:
    made: list[Harness] = []

    def make(**options: Any) -> Harness:
        made.append(Harness(**options))
        return made[-1]

    yield make
    for item in made:
        item.close()


def test_data_goes_from_user_memory_through_devices_and_back(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    count = 1000
    source, result = np.arange(count, dtype=float), np.zeros(count)
    raw_in = h.executor.register_user_memory(source.ctypes.data, source.nbytes)
    raw_out = h.executor.register_user_memory(result.ctypes.data, result.nbytes)

    def double(call: tuple[Any, ...]) -> None:
        _, _, _, [(_, _, address, _, _, _)], _, _ = call
        array_at(address, count)[:] *= 2

    h.body = double
    s = Script()
    s.alloc(HOST, 1, count)
    s.alloc(DEVICE0, 1, count)
    s.alloc(DEVICE1, 1, count)
    s.copy((USER, raw_in), (HOST, 1), count, "initial")
    s.copy((HOST, 1), (DEVICE0, 1), count)
    s.kernel(0, 1, (DEVICE0, 1), count)
    s.copy((DEVICE0, 1), (DEVICE1, 1), count)
    s.kernel(1, 2, (DEVICE1, 1), count)
    s.copy((DEVICE1, 1), (HOST, 1), count)
    s.copy((HOST, 1), (USER, raw_out), count, "fence")
    s.add("fence", submission=3)
    s.free(USER, raw_in, count)
    for memory in (HOST, DEVICE0, DEVICE1):
        s.free(memory, 1, count)
    s.epoch(4, "shutdown")
    s.submit(h.executor)
    h.run_until("shutdown")

    assert np.array_equal(result, 4 * np.arange(count))
    assert [e for e in h.events if e[0] != "retired"] == [
        ("completed", 3),
        ("user_free", raw_in),
        ("completed", 4),
        ("shutdown",),
    ]
    assert h.events[-2:] == [("retired", 4), ("shutdown",)]
    statistics = h.executor.statistics()
    assert statistics["instructions"]["copy"] == 5
    assert statistics["copied_bytes"] == {
        "coherence": 3 * 8 * count,
        "resize": 0,
        "staging": 0,
        "initial": 8 * count,
        "fence": 8 * count,
        "reduction": 0,
    }
    assert statistics["allocations"] == 3
    assert statistics["memories"][DEVICE0] == {"allocations": 1, "current_bytes": 0, "peak_bytes": 8 * count}
    assert statistics["allocations_by_buffer"] == {(1, HOST): 1, (1, DEVICE0): 1, (1, DEVICE1): 1}
    assert statistics["busy_seconds"] > 0


def test_long_chains_of_copies_over_all_lanes_keep_their_order(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    count = 40_000  # too large to be copied by the executor thread itself
    places = [(HOST, 1), (DEVICE0, 1), (DEVICE1, 1), (HOST, 2)]

    def increment(call: tuple[Any, ...]) -> None:
        array_at(call[3][0][2], count)[:] += 1

    h.body = increment
    s = Script()
    for memory, raw in places:
        s.alloc(memory, raw, count)
    user = np.zeros(count)
    raw_user = h.executor.register_user_memory(user.ctypes.data, user.nbytes)
    s.copy((USER, raw_user), places[0], count)
    for _ in range(50):
        s.copy(places[0], places[1], count)
        s.kernel(0, 1, places[1], count)
        s.copy(places[1], places[2], count)
        s.kernel(1, 2, places[2], count)
        s.copy(places[2], places[3], count)
        s.copy(places[3], places[0], count)
    s.copy(places[0], (USER, raw_user), count)
    s.epoch(9)
    s.submit(h.executor)
    h.run_until("completed", 9)
    assert np.array_equal(user, np.full(count, 100.0))
    assert h.executor.statistics()["issued_early"] > 200


def test_independent_kernels_of_two_devices_run_at_the_same_time(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2)
    meeting = threading.Barrier(2, timeout=5)
    h.body = lambda call: void(meeting.wait())
    s = Script()
    first = s.kernel(0, 1, (0, 0), 1, after=[])
    second = s.kernel(1, 1, (0, 0), 1, after=[])
    s.epoch(2, after=[first, second])
    s.submit(h.executor)
    h.run_until("completed", 2)


def test_a_kernel_call_carries_submission_chunk_accesses_and_reductions(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.alloc(DEVICE0, 7, 10)
    s.kernel(0, 5, (DEVICE0, 7), 10)
    s.records[-1]["accesses"].append({**s.records[-1]["accesses"][0], "allocation": (0, 0), "accessed": []})
    s.records[-1]["reductions"] = [
        {
            "reduction": 1,
            "buffer": 2,
            "allocation": (DEVICE0, 7),
            "offset_bytes": 16,
            "op": "logical_and",
            "type": "boolean",
        }
    ]
    s.epoch(6)
    s.submit(h.executor)
    h.run_until("completed", 6)
    ((_, submission, chunk, [access, empty], [reduction], stream),) = h.kernels
    assert (submission, chunk, stream) == (5, row(0, 10), 0)
    buffer, allocation, address, allocated, bounding, accessed = access
    assert (buffer, allocation, allocated, bounding, accessed) == (
        1,
        (DEVICE0, 7),
        row(0, 10),
        row(0, 10),
        [row(0, 10)],
    )
    assert address % 64 == 0
    assert empty is None
    assert reduction == (address + 16, "and", "bool")


def test_host_tasks_and_initialisers_run_on_host_threads(harness: Callable[..., Harness]) -> None:
    h = harness()
    calls: list[tuple[Any, ...]] = []
    h.body = calls.append
    s = Script()
    s.alloc(HOST, 1, 8)
    s.add(
        "initialize",
        buffer=1,
        destination=(HOST, 1),
        allocated_box=row(0, 8),
        boxes=[row(2, 4), row(5, 6)],
        element_size_bytes=8,
    )
    s.add("host_task", submission=3, chunk=row(0, 2), accesses=[])
    s.epoch(4)
    s.submit(h.executor)
    h.run_until("completed", 4)
    (kind, _, buffer, address, allocated, boxes, size), task = calls
    assert (kind, buffer, allocated, boxes, size) == ("initialize", 1, row(0, 8), [row(2, 4), row(5, 6)], 8)
    assert address != 0
    assert (task[0], task[2:]) == ("host_task", (3, row(0, 2), []))


def test_reductions_are_folded_on_the_host(harness: Callable[..., Harness]) -> None:
    h = harness()
    values, result = np.array([1.0, 2.0, 4.0]), np.zeros(2)
    raw_in = h.executor.register_user_memory(values.ctypes.data, values.nbytes)
    raw_out = h.executor.register_user_memory(result.ctypes.data, result.nbytes)
    s = Script()
    s.add(
        "reduce",
        reduction=1,
        op="sum",
        type="float64",
        source=(USER, raw_in),
        count=3,
        destination=(USER, raw_out),
        destination_offset_bytes=8,
    )
    s.epoch(1)
    s.submit(h.executor)
    h.run_until("completed", 1)
    assert result.tolist() == [0, 7]


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
        "allocated_box": row(0, 10),
        "sent_box": box,
        "element_size_bytes": 8,
    }


def test_pilots_leave_at_once_and_sends_when_their_data_is_ready(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    hold = threading.Event()
    h.body = lambda call: void(hold.wait(5))
    s = Script()
    s.alloc(HOST, 1, 10)
    s.kernel(0, 1, (0, 0), 1)
    s.records.append(send_record(3, [2], row(4, 6)))
    s.pilots.append({"to": 1, "message": 77, "transfer": TRANSFER, "sent_box": row(4, 6), "send": 3})
    s.epoch(2)
    s.submit(h.executor)
    _, peer, pilot = h.run_until("pilot")
    assert peer == 1
    assert len(pilot) == _native.Executor.PILOT_SIZE
    assert not [e for e in h.events if e[0] == "send"]
    hold.set()
    _, request, peer, message, address, shape, offset, extent, size = h.run_until("send")
    assert (peer, message, shape, offset, extent, size) == (1, 77, (10, 1, 1), (4, 0, 0), (2, 1, 1), 8)
    assert address != 0
    assert h.executor.outstanding_communication
    h.executor.notify_complete(request)
    h.run_until("completed", 2)
    assert not h.executor.outstanding_communication
    assert h.executor.statistics()["sent_bytes"] == {"host": 16, "direct": 0}


def make_pilot(box: tuple[int, ...], message: int = 5) -> bytes:
    """What another rank's executor would send."""
    sender = _native.Executor(num_ranks=2, rank=1)
    s = Script()
    s.pilots.append({"to": 0, "message": message, "transfer": TRANSFER, "sent_box": box, "send": 1})
    s.submit(sender)
    ((_, _, pilot),) = sender.run(1)
    return bytes(pilot)


@pytest.mark.parametrize("pilot_first", [True, False])
def test_a_receive_is_posted_when_request_and_pilot_have_met(
    harness: Callable[..., Harness], pilot_first: bool
) -> None:
    h = harness(num_ranks=2, rank=0)
    pilot = make_pilot(row(2, 5))
    s = Script()
    s.alloc(HOST, 1, 10)
    s.add(
        "receive",
        transfer=TRANSFER,
        boxes=[row(2, 5)],
        destination=(HOST, 1),
        allocated_box=row(0, 10),
        element_size_bytes=8,
    )
    s.epoch(1)
    if pilot_first:
        h.executor.notify_pilot(1, pilot)
        assert h.executor.run(0.01) == []
        s.submit(h.executor)
    else:
        s.submit(h.executor)
        assert h.executor.run(0.01) == []
        assert h.executor.outstanding_communication
        h.executor.notify_pilot(1, pilot)
    _, request, peer, message, address, shape, offset, extent, size = h.run_until("receive")
    assert (peer, message, shape, offset, extent, size) == (1, 5, (10, 1, 1), (2, 0, 0), (3, 1, 1), 8)
    assert address != 0
    h.executor.notify_complete(request)
    h.run_until("completed", 1)
    assert h.executor.statistics()["received_bytes"] == 24


def test_a_barrier_completes_when_the_outside_says_so(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    s = Script()
    s.epoch(1, "barrier")
    s.kernel(0, 2, (0, 0), 1)
    s.epoch(3)
    s.submit(h.executor)
    _, request = h.run_until("barrier")
    assert h.executor.run(0.01) == []
    assert h.kernels == []
    h.executor.notify_complete(request)
    h.run_until("completed", 3)
    assert h.events.index(("completed", 1)) < h.events.index(("completed", 3))


def test_a_barrier_of_one_rank_needs_nobody(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.epoch(1, "barrier")
    s.submit(h.executor)
    h.run_until("completed", 1)
    assert not [e for e in h.events if e[0] == "barrier"]


def test_horizons_retire_what_was_submitted_before_them(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.kernel(0, 1, (0, 0), 1)
    s.add("horizon", task=2, last_submission=1)
    s.kernel(0, 2, (0, 0), 1)
    s.add("horizon", task=4, last_submission=2)
    s.submit(h.executor)
    h.run_until("retired", 2)
    assert [e for e in h.events if e[0] == "retired"] == [("retired", 1), ("retired", 2)]


def test_fresh_memory_is_poisoned_when_checks_are_on(harness: Callable[..., Harness]) -> None:
    h = harness(check=True)
    seen: list[bytes] = []
    h.body = lambda call: seen.append(ctypes.string_at(call[3][0][2], 80))
    s = Script()
    s.alloc(DEVICE0, 1, 10)
    s.kernel(0, 1, (DEVICE0, 1), 10)
    s.epoch(2)
    s.submit(h.executor)
    h.run_until("completed", 2)
    assert seen == [b"\xff" * 80]


def test_sync_issues_one_piece_of_work_at_a_time(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=2, sync=True)
    running = 0
    most = 0
    lock = threading.Lock()

    def body(call: tuple[Any, ...]) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    h.body = body
    s = Script()
    work = [s.kernel(i % 2, 1, (0, 0), 1, after=[]) for i in range(8)]
    work.append(s.add("host_task", after=[], submission=3, chunk=row(0, 2), accesses=[]))
    s.epoch(4, after=work)
    s.submit(h.executor)
    h.run_until("completed", 4)
    assert most == 1


def test_run_returns_at_the_timeout_and_when_it_is_woken() -> None:
    executor = _native.Executor()
    begin = time.monotonic()
    assert executor.run(0.05) == []
    assert 0.04 < time.monotonic() - begin < 2
    timer = threading.Timer(0.05, executor.wake)
    timer.start()
    begin = time.monotonic()
    assert executor.run(30) == []
    assert time.monotonic() - begin < 10
    timer.join()
    executor.wake()
    assert executor.run(30) == []


def test_an_idle_executor_costs_nothing() -> None:
    executor = _native.Executor()
    begin = time.thread_time()
    executor.run(0.2)
    assert time.thread_time() - begin < 0.02
    statistics = executor.statistics()
    assert statistics["idle_seconds"] > 0.1
    assert statistics["busy_seconds"] < 0.05


def test_time_without_work_while_the_scheduler_is_busy_counts_as_starved() -> None:
    executor = _native.Executor()
    executor.run(0)
    executor.set_scheduler_busy(True)
    executor.run(0.1)
    executor.set_scheduler_busy(False)
    executor.run(0.1)
    statistics = executor.statistics()
    assert statistics["starved_seconds"] > 0.05
    assert statistics["idle_seconds"] > 0.05


def test_stop_wakes_every_thread_and_stays(harness: Callable[..., Harness]) -> None:
    h = harness(num_devices=3)
    runner = threading.Thread(target=h.executor.run, args=(60,))
    runner.start()
    time.sleep(0.02)
    h.executor.stop()
    runner.join(5)
    assert not runner.is_alive()
    h.executor.stop()
    assert h.executor.run(1) == [("stopped",)]
    assert h.executor.next_kernel(0) is None
    assert h.executor.next_host_task() is None


def test_stop_does_not_wait_for_work_that_can_never_be_done() -> None:
    executor = _native.Executor()  # nobody serves its kernels
    s = Script()
    s.alloc(HOST, 1, 100_000)
    s.alloc(DEVICE0, 1, 100_000)
    kernel = s.kernel(0, 1, (DEVICE0, 1), 100_000)
    s.copy((DEVICE0, 1), (HOST, 1), 100_000, after=[kernel])
    s.epoch(2)
    s.submit(executor)
    assert executor.run(0.05) == []
    executor.stop()
    assert executor.run(0) == [("stopped",)]


def test_after_a_failure_nothing_new_begins_but_run_goes_on_returning(harness: Callable[..., Harness]) -> None:
    h = harness()
    started, hold = threading.Event(), threading.Event()

    def body(call: tuple[Any, ...]) -> None:
        started.set()
        hold.wait(5)

    h.body = body
    s = Script()
    s.kernel(0, 1, (0, 0), 1)
    s.kernel(0, 2, (0, 0), 1)
    s.epoch(3)
    s.submit(h.executor)
    h.events += h.executor.run(0.01)
    assert started.wait(5)
    h.executor.fail()
    hold.set()
    for _ in range(5):
        assert h.executor.run(0.01) == []
    assert [call[1] for call in h.kernels] == [1]


def test_an_instruction_that_cannot_be_executed_fails_with_its_story(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.copy((HOST, 3), (DEVICE0, 4), 10)
    s.epoch(1)
    s.submit(h.executor)
    event = h.run_until("failed")
    assert "M1.A3 does not exist" in event[2]
    assert "copy (coherence) from M1.A3 to M2.A4" in event[2]
    assert h.executor.run(0.01) == []


def test_a_shortage_of_memory_names_buffer_and_bytes_and_who_holds_the_rest(harness: Callable[..., Harness]) -> None:
    h = harness()
    s = Script()
    s.alloc(DEVICE0, 1, 1 << 17)
    s.add(
        "alloc", allocation=(DEVICE0, 2), size_bytes=1 << 62, alignment_bytes=8, buffer=7, allocated_box=row(0, 1 << 59)
    )
    s.submit(h.executor)
    event = h.run_until("failed")
    assert "4194304.0 TiB for B7 in the memory of D0" in event[2]
    assert "holds 1.0 MiB there: 1.0 MiB for B1" in event[2]


def test_active_instructions_tell_what_runs_and_what_is_awaited(harness: Callable[..., Harness]) -> None:
    h = harness(num_ranks=2, rank=0)
    started, hold = threading.Event(), threading.Event()

    def body(call: tuple[Any, ...]) -> None:
        started.set()
        hold.wait(5)

    h.body = body
    s = Script()
    s.alloc(HOST, 1, 10)
    kernel = s.kernel(0, 5, (0, 0), 1)
    s.add(
        "receive",
        after=[1],
        transfer=TRANSFER,
        boxes=[row(2, 5)],
        destination=(HOST, 1),
        allocated_box=row(0, 10),
        element_size_bytes=8,
    )
    s.records.append(send_record(4, [1], row(4, 6)))
    s.epoch(6, after=[kernel, 3, 4])
    s.submit(h.executor)
    send = h.run_until("send")
    assert started.wait(5)
    active = {text.split()[1]: (text, *rest) for _, text, *rest in h.executor.active_instructions()}
    assert active["device_kernel"] == ("I2 device_kernel on D0 is running", 5, 0, row(0, 1), -1, None)
    text, _, buffer, box, peer, transfer = active["receive"]
    assert isinstance(text, str)
    assert "for T4: 3 elements have not arrived, 3 of them not even been announced" in text
    assert (buffer, box, peer, transfer) == (1, row(2, 5), -1, TRANSFER)
    assert active["send"][1:] == (0, 1, row(4, 6), 1, TRANSFER)
    ages = [age for age, *_ in h.executor.active_instructions()]
    assert ages == sorted(ages, reverse=True)
    assert min(ages) >= 0

    h.executor.notify_pilot(1, make_pilot(row(2, 5)))
    receive = h.run_until("receive")
    peers = {text.split()[1]: peer for _, text, _, _, _, peer, _ in h.executor.active_instructions()}
    assert peers["receive"] == 1
    for request in (send[1], receive[1]):
        h.executor.notify_complete(request)
    hold.set()
    h.run_until("completed", 6)
    assert h.executor.active_instructions() == []


def test_mistakes_of_the_caller_are_reported() -> None:
    executor = _native.Executor()
    with pytest.raises(ValueError, match="no such device"):
        executor.next_kernel(3)
    with pytest.raises(ValueError, match="no such kernel"):
        executor.kernel_done(1)
    with pytest.raises(ValueError, match="no such host task"):
        executor.host_task_done(1)
    with pytest.raises(ValueError, match=f"{_native.Executor.PILOT_SIZE} bytes, not 3"):
        executor.notify_pilot(0, b"abc")
    with pytest.raises(ValueError, match="not a pilot of this version"):
        executor.notify_pilot(0, bytes(_native.Executor.PILOT_SIZE))
    with pytest.raises(ValueError, match="1 to 62 devices"):
        _native.Executor(num_devices=0)
    executor.notify_complete(99)
    assert executor.run(0.1)[0][0] == "failed"
