# SPDX-License-Identifier: MIT
from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

import celerity_py as celerity
from celerity_py import _native_testing
from celerity_py._native import ActiveInstruction, ExecutorFailure, MemoryHolders, ProgramLog, UnclaimedPilot
from celerity_py.executor.failures import uncaught_exceptions
from celerity_py.executor.failures.failure_handler import FailureTimes
from celerity_py.executor.live_executor import LiveExecutor
from celerity_py.executor.network.communicator import Arrivals
from celerity_py.executor.network.local_communicator import LocalCommunicator
from celerity_py.scheduler.errors import CommunicationError, DeviceError, OutOfMemory, ResourceError, Stalled
from tests.support.planned_rank import Planned
from tests.support.scripted_executor import MemoryNetwork, ScriptedExecutor, ScriptedRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celerity_py.executor.network.communicator import Communicator

PATIENCE_S = 20.0
HASTE = FailureTimes(abort_s=0.2, gone_s=0.0, compare_s=0.5, still_s=0.5, report_s=1.5, silent_s=2.5, stall_s=2.0)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class Rank:
    """A live executor between a scripted engine and a scripted runtime."""

    def __init__(self, communicator: Communicator, num_devices: int = 1, program: ProgramLog | None = None) -> None:
        self.native = ScriptedExecutor()
        self.runtime = ScriptedRuntime()
        self.executor = LiveExecutor(
            self.native, communicator, self.runtime, num_devices=num_devices, times=HASTE, program=program
        )

    def stop(self) -> None:
        self.executor.stop()
        uncaught_exceptions.detach(self.executor._failures)  # a failed run with several ranks keeps this until its end


@pytest.fixture
def single() -> Iterator[Rank]:
    rank = Rank(LocalCommunicator(), num_devices=2)
    rank.executor.start()
    yield rank
    rank.stop()


class Pair:
    def __init__(self, programs: list[ProgramLog] | None = None) -> None:
        self.network = MemoryNetwork(2)
        logs: list[ProgramLog | None] = [*programs] if programs else [None, None]
        self.ranks = [
            Rank(communicator, program=log) for communicator, log in zip(self.network.ranks, logs, strict=True)
        ]
        for rank in self.ranks:
            rank.executor.start()

    def stop(self) -> None:
        for rank in reversed(self.ranks):
            rank.stop()


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # not pytest's, which fails the test
    hooks = sys.excepthook, threading.excepthook
    pair = Pair()
    yield pair
    pair.stop()
    assert (sys.excepthook, threading.excepthook) == hooks


def raise_sorry() -> None:
    raise ValueError("sorry")


def test_what_the_engine_reports_reaches_the_runtime_in_order(single: Rank) -> None:
    single.native.emit(("completed", 3), ("retired", 2), ("user_free", 9), ("completed", 4))
    wait_until(lambda: len(single.runtime.completed) == 2)
    assert single.runtime.completed == [3, 4]
    assert single.runtime.retired == [2]
    assert single.runtime.freed == [9]


def test_a_stop_may_be_repeated_after_an_interrupt(single: Rank) -> None:
    with celerity.Queue():
        pass  # ends a run of an earlier test that has failed, whose threads need the interval until then
    other = Rank(LocalCommunicator())
    other.executor.start()
    short_s = sys.getswitchinterval()
    for _ in range(2):
        single.executor.stop()
        assert sys.getswitchinterval() == short_s, "the other executor still needs it"
    other.stop()
    assert sys.getswitchinterval() > short_s


def test_kernels_run_on_the_launcher_thread_and_report_their_ticket(single: Rank) -> None:
    names: list[str] = []
    submission = single.runtime.submit(lambda: names.append(threading.current_thread().name))
    single.native.start_kernel(70, submission)
    wait_until(lambda: single.native.done_tickets == [70])
    assert names[0].startswith("celerity-device-")


def test_host_tasks_that_wait_for_each_other_do_not_starve(single: Rank) -> None:
    meeting = threading.Barrier(10)
    submission = single.runtime.submit(lambda: print(meeting.wait(PATIENCE_S)))
    for ticket in range(10):
        single.native.start_host_task(ticket, submission)
    wait_until(lambda: sorted(single.native.done_tickets) == list(range(10)))


def test_a_failing_kernel_fails_the_run_and_never_completes(single: Rank) -> None:
    submission = single.runtime.submit(raise_sorry)
    single.native.start_kernel(1, submission)
    assert single.runtime.has_failed.wait(PATIENCE_S)
    failure = single.runtime.failure
    assert failure is not None
    assert failure.message() == "rank 0: task 'raise_sorry' failed (submitted at program.py:1): ValueError: sorry"
    assert isinstance(failure.exception(), ValueError)
    assert failure is single.executor.failure
    assert single.native.has_failed
    assert single.native.done_tickets == []
    assert single.executor.wait_shutdown(0.0), "a failed run has nothing left to wait for"


def test_only_the_first_failure_counts(single: Rank) -> None:
    single.executor.fail(ValueError("first"))
    single.executor.fail(ValueError("second"))
    assert single.executor.failure is not None
    assert "first" in single.executor.failure.text


def test_a_failure_of_the_engine_itself_is_a_resource_error(single: Rank) -> None:
    submission = single.runtime.submit(raise_sorry)
    single.native.emit(("failed", ExecutorFailure("fault", "no such lane", "I7 copy", submission)))
    assert single.runtime.has_failed.wait(PATIENCE_S)
    assert single.runtime.failure is not None
    assert isinstance(single.runtime.failure.error, ResourceError)
    assert "task 'raise_sorry' failed" in single.runtime.failure.message()
    assert "I7 copy failed: no such lane" in single.runtime.failure.message()


def test_a_shortage_of_memory_names_what_was_asked_for_and_who_holds_most(single: Rank) -> None:
    shortage = MemoryHolders(3, 1, 3 << 29, 40 << 10, [(4, 30 << 10), (0, 10 << 10)])
    single.native.emit(("failed", ExecutorFailure("memory", shortage=shortage)))
    assert single.runtime.has_failed.wait(PATIENCE_S)
    assert single.runtime.failure is not None
    assert isinstance(single.runtime.failure.error, OutOfMemory)
    assert (
        'there is no room for 1.5 GiB for B3 "u" in the memory of D1. This rank holds 40 KiB there: 30 KiB for B4 "u", '
        "10 KiB for staging. Use more ranks"
    ) in single.runtime.failure.text


def test_an_index_outside_of_a_region_is_explained_by_the_runtime(single: Rank) -> None:
    violation = ExecutorFailure("bounds", submission=5, access=2, element=(7, 8, 0), declared=[(0, 0, 0, 4, 4, 1)])
    single.native.emit(("failed", violation))
    assert single.runtime.has_failed.wait(PATIENCE_S)
    assert single.runtime.failure is not None
    assert single.runtime.failure.submission == 5
    assert "submission 5, access 2, at (7, 8, 0), declared [(0, 0, 0, 4, 4, 1)]" in single.runtime.failure.text


@pytest.mark.parametrize(("status", "is_lost"), [(700, True), (719, True), (400, False), (2, False)])
def test_what_cupy_raises_after_a_device_has_failed_names_the_tasks_in_flight(
    single: Rank, status: int, is_lost: bool
) -> None:
    class CUDARuntimeError(RuntimeError):
        def __init__(self) -> None:
            super().__init__("in any words")
            self.status = status

    def launch() -> None:
        raise CUDARuntimeError

    single.native.start_kernel(1, single.runtime.submit(launch))
    assert single.runtime.has_failed.wait(PATIENCE_S)
    assert single.runtime.failure is not None
    assert isinstance(single.runtime.failure.error, DeviceError if is_lost else CUDARuntimeError)
    assert ("in any words. In flight is task 'launch'" in single.runtime.failure.text) is is_lost


def test_with_one_rank_nothing_is_printed_and_no_hook_ends_the_job(
    single: Rank, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sys.excepthook in {sys.__excepthook__, uncaught_exceptions._print_uncaught}
    single.executor.fail(ValueError("quiet"))
    assert capsys.readouterr() == ("", "")


def test_stopping_joins_all_threads_and_restores_the_switch_interval() -> None:
    interval = sys.getswitchinterval()
    threads = set(threading.enumerate())
    first, second = Rank(LocalCommunicator()), Rank(LocalCommunicator())
    first.executor.start()
    second.executor.start()
    assert sys.getswitchinterval() == pytest.approx(50e-6)
    first.executor.stop()
    assert sys.getswitchinterval() == pytest.approx(50e-6)
    second.executor.stop()
    assert sys.getswitchinterval() == pytest.approx(interval)
    assert set(threading.enumerate()) <= threads  # those of earlier tests may have ended meanwhile


def test_an_idle_executor_looks_around_only_a_few_times_per_second(single: Rank) -> None:
    time.sleep(0.1)
    before = single.native.num_runs
    time.sleep(0.5)
    assert single.native.num_runs - before < 15


@pytest.mark.parametrize("is_alive", [False, True, None])
def test_memory_of_a_peer_that_cannot_be_mapped_is_told_as_what_it_is(pair: Pair, is_alive: bool | None) -> None:
    first = pair.ranks[0]
    pair.network.ranks[0].alive[1] = is_alive
    first.native.emit(("failed", ExecutorFailure("peer", "opening /proc/77/fd/33: No such file or directory", peer=1)))
    assert first.runtime.has_failed.wait(PATIENCE_S)
    assert first.runtime.failure is not None
    if is_alive is False:
        assert "CommunicationError: the process of rank 1 is gone" in first.runtime.failure.text
        assert "/proc" not in first.runtime.failure.text
    else:
        assert "the memory of rank 1 cannot be mapped (opening /proc/77/fd/33: No such" in first.runtime.failure.text


def test_a_failure_of_the_network_is_told_in_the_words_of_its_library(pair: Pair) -> None:
    first, _ = pair.ranks
    first.native.emit(("failed", ExecutorFailure("network", "MPI_Testsome failed: a link is down")))
    assert first.runtime.has_failed.wait(PATIENCE_S)
    assert first.runtime.failure is not None
    assert isinstance(first.runtime.failure.error, CommunicationError)
    assert "the network has failed (): MPI_Testsome failed: a link is down" in first.runtime.failure.text
    wait_until(lambda: pair.network.aborts)


def test_ranks_shut_down_together(pair: Pair) -> None:
    first, second = pair.ranks
    first.native.emit(("shutdown",))
    assert not first.executor.wait_shutdown(0.2)
    second.native.emit(("shutdown",))
    assert first.executor.wait_shutdown(PATIENCE_S)
    assert second.executor.wait_shutdown(PATIENCE_S)
    assert first.executor.failure is None


@pytest.mark.parametrize("comes_late", [False, True])
def test_a_message_that_nobody_has_asked_for_at_the_end_fails_all_ranks(pair: Pair, comes_late: bool) -> None:
    first, second = pair.ranks
    leftover = UnclaimedPilot(0, 17, (5, 3, 0), (0, 4, 0, 8, 6, 1))
    if not comes_late:
        second.native.unclaimed = [leftover]
    second.native.emit(("shutdown",))
    if comes_late:
        time.sleep(0.1)
        assert second.executor.failure is None
        second.native.unclaimed = [leftover]
        first.native.emit(("shutdown",))
    for rank in pair.ranks:
        assert rank.runtime.has_failed.wait(PATIENCE_S)
        assert rank.runtime.failure is not None
        assert rank.runtime.failure.rank == 1
        assert 'rank 0 sent message 17 with B3 "u" [0:8, 4:6] for transfer T5.B3' in rank.runtime.failure.text
        assert rank.runtime.failure.text.startswith("InternalError")


def test_a_payload_that_was_never_announced_fails_all_ranks(pair: Pair) -> None:
    pair.network.ranks[0].unasked = [(1, 2)]
    for rank in pair.ranks:
        rank.native.emit(("shutdown",))
    for rank in pair.ranks:
        assert rank.runtime.has_failed.wait(PATIENCE_S)
        assert rank.runtime.failure is not None
        assert "2 messages of rank 1 beyond those that it has announced" in rank.runtime.failure.text


def test_a_failure_is_told_to_all_printed_once_and_ends_the_job(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = pair.ranks
    second.native.start_kernel(1, second.runtime.submit(raise_sorry))
    assert first.runtime.has_failed.wait(PATIENCE_S)
    failure = first.runtime.failure
    assert failure is not None
    assert failure.is_remote
    message = "rank 1: task 'raise_sorry' failed (submitted at program.py:1): ValueError: sorry"
    assert failure.message() == str(failure.exception()) == message
    wait_until(lambda: pair.network.aborts == [1, 1])
    output = capfd.readouterr().err
    assert output.count(message) == 2
    assert output.count("Traceback") == 1, "only where it happened"


def test_an_exception_that_nobody_caught_is_a_failure_of_the_run(pair: Pair, capfd: pytest.CaptureFixture[str]) -> None:
    second = pair.ranks[1]
    thread = threading.Thread(target=raise_sorry)
    thread.start()
    thread.join()
    wait_until(lambda: len(pair.network.aborts) == 2)
    assert second.executor.failure is not None
    assert second.executor.failure.site.startswith(__file__)
    assert "ValueError: sorry" in second.executor.failure.text
    output = capfd.readouterr().err
    assert output.count("celerity_py, rank 0: rank 1 failed at") == 1
    assert output.count("celerity_py, rank 1: the program failed at") == 1
    assert output.count("Traceback") == 1


def test_an_interrupt_ends_the_job_with_the_status_of_an_interrupt(pair: Pair) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    wait_until(lambda: pair.network.aborts == [130, 130])  # of both ranks


def test_a_rank_that_goes_on_after_another_has_ended_fails() -> None:
    with Planned(0) as ending, Planned(1) as going_on:
        pair = Pair([ending.log, going_on.log])
        first, second = pair.ranks
        for planned in (ending, going_on):
            planned.kernel(planned.buffer())
            planned.latest()
        _native_testing.submit_task(ending.scheduler, _native_testing.make_epoch("shutdown"))
        ending.latest()
        first.native.emit(("shutdown",))
        time.sleep(0.1)
        assert second.executor.failure is None
        going_on.kernel(1, name="more")
        assert second.runtime.has_failed.wait(PATIENCE_S)
        failure = second.executor.failure
        assert failure is not None
        assert "Call 4 is the first that differs. Rank 0: end of the program." in failure.text
        assert 'Rank 1: kernel "more".' in failure.text
        wait_until(lambda: len(pair.network.aborts) == 2)
        pair.stop()


def test_ranks_that_wait_compare_their_programs() -> None:
    with Planned(0) as one, Planned(1) as other:
        pair = Pair([one.log, other.log])
        for rank, planned in zip(pair.ranks, (one, other), strict=True):
            planned.kernel(planned.buffer(), name="a" if planned is one else "b")
            planned.latest()
            rank.native.active = [ActiveInstruction(5.0, "receive", 0, 1, None, None, None)]
        assert pair.ranks[0].runtime.has_failed.wait(PATIENCE_S)
        failure = pair.ranks[0].executor.failure
        assert failure is not None
        assert "Call 3 is the first that differs, in its name." in failure.text
        wait_until(lambda: len(pair.network.aborts) == 2)
        pair.stop()


@pytest.mark.parametrize("is_computing", [False, True])
def test_a_run_in_which_nobody_moves_is_reported_by_one_rank_and_ends(
    is_computing: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    pair = Pair()
    first, second = pair.ranks
    submission = first.runtime.submit(raise_sorry)
    first.native.active = [
        ActiveInstruction(5.0, "I7 receive", submission, 3, (0, 4, 0, 8, 5, 1), 1, (6, 3, 0), "receive")
    ]
    second.native.active = [
        ActiveInstruction(5.0, "I9 device_kernel", 0, 0, None, None, None, "device_kernel", is_computing)
    ]
    has_ended = first.runtime.has_failed.wait(PATIENCE_S if not is_computing else 3 * HASTE.stall_s)
    errors = capfd.readouterr().err
    if is_computing:
        assert (has_ended, errors) == (False, "")
        pair.stop()
        return
    assert errors.count("nothing has moved for") - errors.count("Stalled: nothing has moved") == 1
    assert (
        'rank 0 waits for I7 receive, B3 "u" [0:8, 4:5], peer rank 1, transfer T6.B3, '
        "task 'raise_sorry' (submitted at program.py:1) (its program is at "
    ) in errors
    assert "rank 1 waits for I9 device_kernel (its program is at " in errors
    failure = first.executor.failure
    assert failure is not None
    assert isinstance(failure.error, Stalled)
    assert "CELERITY_STALL_S" in failure.text
    wait_until(lambda: len(pair.network.aborts) == 2)
    pair.stop()


def test_one_rank_alone_ends_when_nothing_moves(single: Rank) -> None:
    single.native.active = [ActiveInstruction(5.0, "I7 alloc", 0, 3, None, None, None)]
    assert single.runtime.has_failed.wait(PATIENCE_S)
    assert single.executor.failure is not None
    assert isinstance(single.executor.failure.error, Stalled)


def test_a_silent_peer_ends_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    network = MemoryNetwork(3)
    answering, waiting = Rank(network.ranks[0]), Rank(network.ranks[2])  # nobody runs rank 1
    for rank in (answering, waiting):
        rank.executor.start()
    waiting.native.active = [ActiveInstruction(30.0, "I7 receive", 0, 3, None, 1, (6, 3, 0))]
    assert waiting.runtime.has_failed.wait(PATIENCE_S)
    output = capfd.readouterr().err
    assert "rank 1 does not answer\n" in output
    assert "rank 0 has nothing to do" in output
    assert waiting.runtime.failure is not None
    assert "rank 1 does not answer any more" in waiting.runtime.failure.text
    wait_until(lambda: len(network.aborts) == 2)
    for rank in (waiting, answering):
        rank.stop()


def test_a_peer_that_has_answered_and_goes_silent_ends_the_job() -> None:
    pair = Pair()
    waiting, answering = pair.ranks
    pair.network.ranks[0].alive[1] = None  # on another host
    waiting.native.active = [ActiveInstruction(30.0, "I7 receive", 0, 3, None, 1, (6, 3, 0))]
    answering.native.active = [ActiveInstruction(30.0, "I7 kernel", 0, 0, None, None, None, "device_kernel", True)]
    wait_until(lambda: waiting.executor._watchdog._statuses)
    pair.network.ranks[1].poll = lambda: Arrivals([], [])  # type: ignore[method-assign]
    assert waiting.runtime.has_failed.wait(PATIENCE_S)
    assert waiting.runtime.failure is not None
    assert "rank 1 does not answer any more" in waiting.runtime.failure.text
    wait_until(lambda: pair.network.aborts)
    pair.stop()


@pytest.mark.parametrize("state", ["stopped", "asleep", "computing"])
def test_a_silent_peer_on_this_host_stands_still_unless_it_computes(
    state: str, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "while True: pass" if state == "computing" else "import time; time.sleep(600)"
    network = MemoryNetwork(2)  # nobody runs rank 1
    waiting = Rank(network.ranks[0])
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            if state == "stopped":
                process.send_signal(signal.SIGSTOP)
            network.ranks[0].alive[1], network.ranks[0].processes[1] = True, process.pid
            waiting.executor.start()
            waiting.native.active = [ActiveInstruction(30.0, "I7 receive", 0, 3, None, 1, (6, 3, 0))]
            has_ended = waiting.runtime.has_failed.wait(5 * HASTE.stall_s if state == "computing" else PATIENCE_S)
        finally:
            process.kill()
    errors = capfd.readouterr().err
    if state == "computing":
        assert (has_ended, errors) == (False, "")
    else:
        how = {"stopped": ": a signal or a debugger has stopped its process", "asleep": ", and its process computes"}
        assert f"\n  rank 1 does not answer{how[state]}" in errors
        assert waiting.executor.failure is not None
        assert isinstance(waiting.executor.failure.error, Stalled)
        assert f"; rank 1 does not answer{how[state]}" in waiting.executor.failure.text
        wait_until(lambda: network.aborts == [1])
    waiting.stop()


def test_a_peer_whose_process_is_gone_is_noticed_without_asking_it(capfd: pytest.CaptureFixture[str]) -> None:
    network = MemoryNetwork(2)
    waiting = Rank(network.ranks[0])
    network.ranks[0].alive[1] = False
    waiting.executor.start()
    waiting.native.active = [ActiveInstruction(5.0, "receive of B3", 0, 3, None, 1, None)]
    assert waiting.runtime.has_failed.wait(PATIENCE_S)
    assert waiting.runtime.failure is not None
    assert "the process of rank 1 is gone" in waiting.runtime.failure.text
    assert "no progress" not in capfd.readouterr().err
    wait_until(lambda: network.aborts == [1])
    waiting.stop()


def test_a_device_that_fails_names_the_tasks_in_flight_once_each_and_not_hundreds_of_them(
    single: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = {task: (f"task 'step{task % 10}'", f"program.py:{task % 10}") for task in range(1, 500)}
    monkeypatch.setattr(single.runtime, "describe_submission", sites.get)
    failure = ExecutorFailure("device", "a kernel or copy failed", in_flight=sorted(sites))
    single.native.emit(("failed", failure))
    wait_until(lambda: single.executor.failure)
    assert single.executor.failure is not None
    text = single.executor.failure.message()
    assert "50 times task 'step1' (submitted at program.py:1); 50 times task 'step2'" in text
    assert "; and 2 others. Run with CELERITY_SYNC=1" in text
    assert len(text) < 1000
