# SPDX-License-Identifier: MIT
"""The life of a run: which phase follows which, and what calls raise in each."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from celerity_py.errors import CelerityError, ClosedQueue, NestedUse, TaskFailed
from celerity_py.executor.failures.failure import make_failure
from celerity_py.runtime.forks import Fork
from celerity_py.runtime.run_state import Phase, RunState
from celerity_py.scheduler.errors import ForkedProcess

FAILURE = make_failure(0, ValueError("sorry"))


class Refusals:
    def __init__(self) -> None:
        self.count = 0
        self.state = RunState(self.refuse)

    def refuse(self) -> None:
        self.count += 1


def error_of(state: RunState) -> type[BaseException] | None:
    try:
        state.check("wait()")
    except CelerityError as error:
        return type(error)
    return None


def test_native_code_refuses_whenever_a_run_leaves_a_phase() -> None:
    refusals = Refusals()
    state = refusals.state
    assert (error_of(state), refusals.count) == (None, 0)
    assert state.fail(FAILURE)
    assert (error_of(state), refusals.count) == (TaskFailed, 1)
    state.end()
    assert (error_of(state), refusals.count) == (TaskFailed, 2)  # why it has ended
    state.disown(Fork(0, 7))
    assert (error_of(state), refusals.count) == (ForkedProcess, 3)
    assert state.has_ended


def test_calls_of_other_threads_are_told_who_closes_or_has_closed() -> None:
    state = Refusals().state
    told: list[str] = []

    def call() -> None:
        with pytest.raises(ClosedQueue) as caught:
            state.check("wait()")
        told.append(str(caught.value))

    def call_in_thread() -> None:
        thread = threading.Thread(target=call, name="other")
        thread.start()
        thread.join()

    state.begin_end()
    call_in_thread()
    state.end()
    call_in_thread()
    call()
    assert told[0].startswith("wait() of thread 'other': thread 'MainThread' closes the last queue. Join all threads")
    assert told[1].startswith(
        "wait() of thread 'other': thread 'MainThread' has closed the last queue. Join all threads"
    )
    assert told[2].startswith("wait(): the runtime has ended with its last queue.")


def test_a_failure_after_the_end_is_none() -> None:
    state = Refusals().state
    state.end()
    assert not state.fail(FAILURE)
    assert error_of(state) is ClosedQueue
    assert state.failure is None


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.DISOWNED])
def test_nothing_follows_twice(phase: Phase) -> None:
    state = Refusals().state
    steps: dict[Phase, Callable[[], None]] = {Phase.ENDED: state.end, Phase.DISOWNED: lambda: state.disown(Fork(0, 7))}
    steps[phase]()
    with pytest.raises(AssertionError):
        steps[phase]()
    if phase is Phase.DISOWNED:
        with pytest.raises(AssertionError):
            state.end()


def test_a_failure_counts_as_seen_once_the_program_has_got_it() -> None:
    state = Refusals().state
    state.note_seen(TaskFailed("before"))
    assert not state.was_failure_seen
    state.fail(FAILURE)
    assert not state.was_failure_seen
    state.note_seen(KeyboardInterrupt())
    assert not state.was_failure_seen
    state.note_seen(TaskFailed("of a future"))
    assert state.was_failure_seen


def test_threads_that_run_user_code_are_refused_first() -> None:
    state = Refusals().state
    state.enter_thread()
    state.fail(FAILURE)
    assert error_of(state) is NestedUse
    with pytest.raises(NestedUse):
        state.check_waiter("Future.result()")
