# SPDX-License-Identifier: MIT
"""On a single rank, a failure ends the runtime and not the process."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import CelerityError, ClosedQueue, DeviceError, NestedUse, TaskFailed
from celerity_py.executor.failures.failure import WHAT_THEN, make_failure
from celerity_py.runtime import lifecycle
from celerity_py.runtime.run_state import RunState
from tests.support.scripts import run

Fail: TypeAlias = Callable[[celerity.Queue, celerity.Buffer[Any]], object]


def divide(*args: Any) -> Any:
    raise ZeroDivisionError("by nothing")


def zeros(box: celerity.Box) -> Any:
    return np.zeros(box.shape)


def fill(chunk: celerity.Chunk, view: celerity.View[Any]) -> None:
    view[chunk.box] = 7


@pytest.fixture
def failed() -> Iterator[tuple[celerity.Queue, celerity.Buffer[Any]]]:
    """A queue that stays open, and a buffer, of a runtime whose failure the program has seen."""
    queue = celerity.Queue()
    buffer = celerity.Buffer.from_array(np.zeros(4), name="lost")
    queue.parallel_for(4, divide, buffer.read_write(access.one_to_one()), name="divide")
    with pytest.raises(TaskFailed, match="make the queue and the buffers again"):
        queue.fence(buffer).result(10)
    yield queue, buffer
    runtime = lifecycle._current
    if runtime is not None and runtime.state.makes_way:
        runtime.abandon()


def test_the_next_queue_starts_afresh(failed: Any) -> None:
    threads = threading.active_count()
    before = lifecycle._current
    with celerity.Queue() as queue:
        assert lifecycle.current() is not before
        assert before is not None
        assert before.state.has_ended
        assert threading.active_count() <= threads, "threads of the failed run are left"
        buffer = celerity.Buffer(4, np.float64)
        queue.parallel_for(4, fill, buffer.write(access.one_to_one()))
        np.testing.assert_array_equal(queue.fence(buffer).result(10), 7)


def test_ranks_are_those_of_the_settings_that_hold_for_the_next_run(failed: Any) -> None:
    assert (celerity.rank(), celerity.size(), celerity.is_dry_run()) == (0, 1, False)
    celerity.configure(dry_run_ranks=8, dry_run_rank=7)
    assert (celerity.rank(), celerity.size(), celerity.is_dry_run()) == (7, 8, True)


def test_a_buffer_starts_afresh_as_a_queue_does(failed: Any) -> None:
    buffer = celerity.Buffer.from_array(np.arange(3))
    with celerity.Queue() as queue:
        np.testing.assert_array_equal(queue.fence(buffer).result(10), np.arange(3))


FAILURES: dict[str, Fail] = {
    "kernel": lambda queue, u: queue.parallel_for(4, divide, u.read_write(access.one_to_one())),
    "host task": lambda queue, u: queue.host_task(divide, u.read(access.all())),
    "part of a host task": lambda queue, u: queue.host_task(divide, u.read(access.one_to_one()), on=4),
    "collective host task": lambda queue, u: queue.collective(divide),
    "mapper": lambda queue, u: queue.parallel_for(4, fill, u.write(divide)),
    "initial contents": lambda queue, u: queue.fence(celerity.Buffer.from_function(4, np.float64, divide)).result(10),
    "kernel of a recording": lambda queue, u: queue.replay(queue.record(lambda: queue.parallel_for(4, divide)), 3),
    "condition of a loop": lambda queue, u: list(queue.until(lambda: queue.fence(u, slice(1)), when=divide, at_most=2)),
    "function of the loop": lambda queue, u: list(queue.until(divide, at_most=2)),
    "callback": lambda queue, u: queue.fence(u).add_done_callback(divide),
}


@pytest.mark.parametrize("place", FAILURES)
@pytest.mark.parametrize("is_left_open", [False, True])
def test_after_a_failure_of_any_place_a_new_queue_works(
    place: str, is_left_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail, open_queues = FAILURES[place], []
    monkeypatch.setattr("traceback.print_exception", lambda *_: None)  # of callbacks, whose errors end nothing
    for _ in range(2):
        if is_left_open:
            open_queues.append(queue := celerity.Queue())
            with suppress(CelerityError, ZeroDivisionError):
                fail(queue, celerity.Buffer.from_function(4, np.float64, zeros))
                queue.wait()
        else:
            with suppress(CelerityError, ZeroDivisionError), celerity.Queue() as queue:
                fail(queue, celerity.Buffer.from_function(4, np.float64, zeros))
        with celerity.Queue() as again:
            buffer = celerity.Buffer(4, np.float64)
            again.parallel_for(4, fill, buffer.write(access.one_to_one()))
            np.testing.assert_array_equal(again.fence(buffer).result(10), 7)
    for queue in open_queues:
        with suppress(CelerityError):
            queue.close()
    assert lifecycle._current is None


def test_the_failed_queue_stays_failed(failed: Any) -> None:
    queue, buffer = failed
    with celerity.Queue():
        for call in (queue.wait, lambda: queue.fence(buffer), lambda: queue.parallel_for(4, fill)):
            with pytest.raises(TaskFailed, match="by nothing"):
                call()
        queue.close()


def test_buffers_of_the_failed_runtime_say_what_has_failed_and_where(failed: Any) -> None:
    _, buffer = failed
    with celerity.Queue() as queue:
        told = (
            r'"lost" \(made at .*test_life_after_failures.py:\d+\) belongs to a runtime that has failed: '
            r"task 'divide' failed \(submitted at .*test_life_after_failures.py:\d+\): ZeroDivisionError: by nothing. "
            r"Its contents are lost, since a later queue or buffer has been made: make it again"
        )
        with pytest.raises(ClosedQueue, match=told):
            queue.fence(buffer)
        with pytest.raises(ClosedQueue, match=told):
            queue.parallel_for(4, fill, buffer.write(access.one_to_one()))
        queue.wait()


def test_a_recording_of_the_failed_runtime_says_so_too() -> None:
    queue = celerity.Queue()
    buffer = celerity.Buffer(4, np.float64)
    recording = queue.record(lambda: queue.parallel_for(4, fill, buffer.write(access.one_to_one())))
    queue.parallel_for(4, divide)
    with pytest.raises(TaskFailed):
        queue.wait()
    with pytest.raises(TaskFailed, match="by nothing"):
        queue.replay(recording, 1)
    with celerity.Queue() as again, pytest.raises(ClosedQueue, match=r"has failed: .*by nothing"):
        again.replay(recording, 1)


def test_a_failure_that_no_call_has_raised_is_raised_first() -> None:
    queue = celerity.Queue()
    queue.parallel_for((), divide)
    queue.flush()
    state = lifecycle.current().state
    assert state.has_failed.sleep(10)
    with pytest.raises(TaskFailed, match="by nothing"):
        celerity.Queue()
    with celerity.Queue() as afresh:
        afresh.wait()


def test_settings_may_change_after_a_failure(failed: Any) -> None:
    celerity.configure(horizon_step=3)
    with celerity.Queue():
        assert lifecycle.current().configuration.horizon_step == 3
    celerity.configure(horizon_step=None)


def test_a_task_cannot_start_another_runtime() -> None:
    begun, let_go = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def wait_and_start(chunk: celerity.Chunk) -> None:
        begun.set()
        let_go.wait(10)
        try:
            celerity.Queue()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    queue = celerity.Queue()
    before = lifecycle.current()
    queue.host_task(wait_and_start, unordered=True)
    assert begun.wait(10)
    queue.parallel_for((), divide)
    with pytest.raises(TaskFailed):
        queue.wait()
    let_go.set()
    with celerity.Queue():
        assert before.state.has_ended
    assert [type(error) for error in errors] == [NestedUse]


def fail_with_a_queue() -> None:
    with pytest.raises(TaskFailed, match="by nothing"), celerity.Queue() as queue:
        queue.parallel_for((), divide)


def fail_without() -> None:
    queue = celerity.Queue()
    queue.parallel_for((), divide)
    with pytest.raises(TaskFailed, match="by nothing"):
        queue.wait()


@pytest.mark.parametrize("fail", [fail_with_a_queue, fail_without])
def test_failures_in_a_row_leave_no_threads_and_no_files(fail: Callable[[], None]) -> None:
    def held() -> tuple[set[threading.Thread], int]:
        return set(threading.enumerate()), len(list(Path("/proc/self/fd").iterdir()))

    with celerity.Queue():
        pass
    threads_before, files_before = held()
    for _ in range(5):
        fail()
    with celerity.Queue():
        pass
    threads, files = held()
    assert threads <= threads_before  # those of earlier tests may have ended meanwhile
    assert files <= files_before


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_gpu_that_has_failed_and_several_ranks_end_the_process(is_alone: bool) -> None:
    state = RunState(lambda: None, is_alone=is_alone)
    assert state.fail(make_failure(0, DeviceError("lost") if is_alone else ValueError("sorry")))
    with pytest.raises(celerity.CelerityError) as caught:
        state.check("wait()")
    assert str(caught.value).endswith(WHAT_THEN)
    assert state.was_failure_seen
    assert not state.makes_way


LARGE = 5 * 2**20  # doubles: more than the allocator keeps for itself


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def use(queue: celerity.Queue) -> celerity.Buffer[Any]:
    buffer = celerity.Buffer(LARGE, np.float64)
    queue.parallel_for(LARGE, fill, buffer.write(access.one_to_one()))
    queue.wait()
    return buffer


def end_well() -> object:
    with celerity.Queue() as queue:
        return use(queue)


def end_by_an_exception() -> object:
    with suppress(KeyError), celerity.Queue() as queue:
        buffer = use(queue)
        raise KeyError
    return buffer


def end_by_a_failure() -> object:
    queue = celerity.Queue()
    buffer = use(queue)
    queue.parallel_for(LARGE, divide, buffer.read_write(access.one_to_one()))
    with pytest.raises(TaskFailed) as caught:
        queue.wait()
    return buffer, queue, caught.value


@pytest.mark.parametrize("end", [end_well, end_by_an_exception, end_by_a_failure])
def test_the_memory_of_a_runtime_is_freed_though_the_program_refers_to_it(end: Callable[[], object]) -> None:
    with celerity.Queue():
        pass
    before = resident_bytes()
    kept = [end() for _ in range(4)]
    with celerity.Queue():
        pass
    assert resident_bytes() - before < 8 * LARGE, f"of {len(kept)} times {8 * LARGE}"


def test_arrays_of_a_kernel_that_failed_do_not_outlive_their_memory() -> None:
    def fail(chunk: celerity.Chunk, view: celerity.View[Any]) -> None:
        array = view[chunk.box]
        raise ZeroDivisionError(array[0])

    queue = celerity.Queue()
    buffer = celerity.Buffer.from_array(np.zeros(4))
    queue.parallel_for(4, fail, buffer.read_write(access.one_to_one()))
    with pytest.raises(TaskFailed) as caught:
        queue.wait()
    trace = caught.value.__cause__.__traceback__ if caught.value.__cause__ is not None else None
    while trace is not None and trace.tb_frame.f_code.co_name != "fail":
        trace = trace.tb_next
    assert trace is not None
    assert "array" in trace.tb_frame.f_locals, "a debugger shows it until another runtime starts"
    with celerity.Queue():
        assert "array" not in trace.tb_frame.f_locals


def test_memory_stays_while_the_program_keeps_an_array_of_it(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        parts = []
        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.ones(2**20))
        queue.host_task(lambda part, u: parts.append(u[...]), u.read(access.all()))
        try:
            queue.wait()
        except errors.KeptArray:
            pass
        del queue, u
        with celerity.Queue():
            pass
        print(parts[0].sum())
        """,
    )
    assert outcome.stdout == "1048576.0\n", outcome.stderr


def test_a_failure_frees_the_communicator_of_its_runtime(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        from mpi4py import MPI
        from celerity_py.runtime import lifecycle

        celerity.configure(comm=MPI.COMM_SELF)
        queue = celerity.Queue()
        duplicate = lifecycle._communicator._comm
        queue.collective(lambda part: 1 / part.comm.Get_rank())
        try:
            queue.wait()
        except errors.TaskFailed:
            print(bool(duplicate))
        with celerity.Queue() as queue:
            queue.collective(lambda part: print(part.comm.Get_size()))
        print(bool(duplicate))
        """,
    )
    assert outcome.stdout.split() == ["True", "1", "False"], outcome.stderr
