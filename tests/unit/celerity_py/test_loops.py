# SPDX-License-Identifier: MIT
"""`Queue.until` and `Queue.any`: loops that end at the iteration whose value says so, and submit ahead of it."""

from __future__ import annotations

import concurrent.futures
import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, ClosedQueue, NestedUse, UsageError
from tests.support.scripts import run

ONE = access.one_to_one()
START = np.arange(1, 13, dtype=np.float64).reshape(4, 3)


@celerity.kernel
def halve(chunk: Any, new: Any, old: Any) -> None:
    new[chunk.box] = old[chunk.box] / 2


@celerity.kernel
def find_largest(chunk: Any, u: Any, out: Any) -> None:
    out.combine(u[chunk.box].max())


class Fields:
    """Two buffers that take turns: after n iterations `old` is START / 2**n, and its largest element 12 / 2**n."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.old = celerity.Buffer.from_array(START, name="u")
        self.new = celerity.Buffer(START.shape, START.dtype, name="v")
        self.largest = celerity.Buffer((), np.float64, name="largest")
        self.asked: list[int] = []
        self.submitted = 0

    def step(self) -> None:
        self.queue.parallel_for(START.shape, halve, self.new.write(ONE), self.old.read(ONE))
        self.old, self.new = self.new, self.old
        self.submitted += 1

    def run(self, loop: celerity.Loop) -> None:
        for _ in loop:
            self.step()

    def ask(self) -> Any:
        self.asked.append(self.submitted)
        self.queue.parallel_for(START.shape, find_largest, self.old.read(ONE), celerity.reduction(self.largest, "max"))
        return self.queue.fence(self.largest)

    def contents(self) -> Any:
        return self.queue.fence(self.old).result(20)


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


def is_small(largest: Any) -> bool:
    """After 7 iterations, not after 6."""
    return bool(largest < 0.1)


# ---- the end of the loop


@pytest.mark.parametrize(
    ("every", "at_most", "needed", "submitted"),
    [
        (1, 50, 7, 8),
        (2, 50, 8, 10),
        (3, 50, 9, 12),
        (10, 50, 10, 20),
        (np.int64(4), np.int64(10), 8, 10),
        (4, 8, 8, 8),
        (100, 9, 9, 9),
        (3, 5, 5, 5),
        (1, 6, 6, 6),
        (3, 1, 1, 1),
        (1, 0, 0, 0),
    ],
)
def test_a_loop_ends_at_the_first_iteration_whose_value_says_so(
    fields: Fields, every: int, at_most: int, needed: int, submitted: int
) -> None:
    loop = fields.queue.until(fields.ask, every=every, at_most=at_most, keep=lambda: fields.old, when=is_small)
    seen = []
    for i in loop:
        assert loop.iterations == i
        assert loop.stopped is False
        seen.append(i)
        fields.step()
    assert seen == list(range(submitted))
    assert (loop.iterations, loop.stopped) == (needed, needed > 6)
    assert submitted - needed <= every
    np.testing.assert_array_equal(fields.contents(), START / 2**needed)
    assert fields.asked == sorted({*range(every, needed + 1, every), *([at_most] if needed == at_most else [])} - {0})
    assert loop.value == (None if at_most == 0 else 12 / 2**needed)
    assert list(loop) == []
    assert repr(loop) == f"<Loop of queue.until(), {needed} of at most {at_most} iteration(s)>"


def test_without_keep_the_further_iterations_take_effect(fields: Fields) -> None:
    loop = fields.queue.until(fields.ask, every=2, at_most=50, when=is_small)
    for _ in loop:
        fields.step()
    assert loop.iterations == 8
    np.testing.assert_array_equal(fields.contents(), START / 2**10)


def test_by_default_a_value_other_than_zero_ends_the_loop(queue: celerity.Queue) -> None:
    counter = celerity.Buffer.from_array(np.array(-5))

    def count(chunk: Any, view: Any) -> None:
        view[()] += 1

    loop = queue.until(lambda: queue.any(counter), at_most=20)
    for _ in loop:
        queue.parallel_for((), count, counter.read_write())
    assert (loop.iterations, loop.value, loop.stopped) == (1, True, True)
    loop = queue.until(lambda: queue.fence(counter), at_most=20, when=np.logical_not)
    for _ in loop:
        queue.parallel_for((), count, counter.read_write())
    assert (loop.iterations, loop.value, loop.stopped) == (3, 0, True)


def test_the_next_iterations_are_submitted_while_a_value_is_under_way(queue: celerity.Queue) -> None:
    """Iteration 0 cannot end before all of iterations 1 and 2 are submitted."""
    done = celerity.Buffer.from_array(np.array(0))
    let_go = threading.Event()

    def work(chunk: Any, view: Any) -> None:
        assert let_go.wait(20)
        view[()] += 1

    for i in queue.until(lambda: queue.fence(done), every=2, at_most=9):
        queue.parallel_for((), work, done.read_write())
        if i == 3:
            let_go.set()
    assert i == 3


def test_several_buffers_are_kept_by_the_names_for_which_they_stand(fields: Fields) -> None:
    names = celerity.Buffer.from_array(np.zeros(5, np.int16))

    def count(chunk: Any, view: Any) -> None:
        view[chunk.box] += 1

    def kept() -> tuple[celerity.Buffer, ...]:
        return fields.new, names, fields.old

    loop = fields.queue.until(fields.ask, every=3, at_most=50, when=is_small, keep=kept)
    for _ in loop:
        fields.step()
        fields.queue.parallel_for(5, count, names.read_write(ONE))
    assert fields.submitted % 2 == 0
    assert loop.iterations % 2 == 1, "the names stand for other buffers than after the last needed iteration"
    np.testing.assert_array_equal(fields.contents(), START / 2**9)
    np.testing.assert_array_equal(fields.queue.fence(fields.new).result(20), START / 2**8)
    np.testing.assert_array_equal(fields.queue.fence(names).result(20), np.full(5, 9))


def test_a_body_may_replay_and_loop(fields: Fields) -> None:
    queue = fields.queue

    def two_steps() -> None:
        fields.step()
        fields.step()
        fields.submitted -= 2  # a recorded function leaves what it reads as it was

    recording = queue.record(two_steps)
    inner = 0
    loop = queue.until(fields.ask, at_most=50, when=is_small, keep=lambda: fields.old)
    for _ in loop:
        queue.replay(recording, 1)
        for _ in queue.until(fields.ask, at_most=2, when=lambda largest: False):
            inner += 1
    np.testing.assert_array_equal(fields.contents(), START / 2 ** (2 + 2 * loop.iterations))
    assert loop.iterations == 3
    assert inner == 8


def test_a_program_may_leave_a_loop(fields: Fields) -> None:
    loop = fields.queue.until(fields.ask, every=2, at_most=50, keep=lambda: fields.old, when=is_small)
    for i in loop:
        fields.step()
        if i == 4:
            break
    assert (loop.iterations, loop.stopped) == (4, False)
    np.testing.assert_array_equal(fields.contents(), START / 2**5)


def test_a_loop_that_is_left_keeps_no_buffer(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(START, name="u")
    loop = queue.until(lambda: queue.any(u), at_most=50, keep=lambda: u)
    gc.collect()
    gc.disable()
    try:
        for i in loop:
            queue.parallel_for(START.shape, halve, u.read_write(ONE), u.read(ONE))
            if i == 1:
                break
        (copy,) = (weakref.ref(buffer) for buffer in loop._copies)
        assert copy() is not None
        del loop
        assert copy() is None
    finally:
        gc.enable()


# ---- mistakes


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"every": 0}, UsageError, "queue.until(every=0): at least 1 is needed."),
        ({"at_most": -1}, UsageError, "queue.until(at_most=-1): at least 0 is needed."),
        ({"every": 1.5}, ArgumentTypeError, "queue.until(every=...) takes a number of iterations, not 1.5."),
        ({"at_most": None}, ArgumentTypeError, "queue.until(at_most=...) takes a number of iterations, not None."),
        ({"future_of": 5}, ArgumentTypeError, "queue.until(future_of=...) takes a function that returns a future"),
        ({"keep": 5}, ArgumentTypeError, "queue.until(keep=...) takes a function that returns buffers, such as"),
        ({"when": 0.5}, ArgumentTypeError, "queue.until(when=...) takes a function of the value, not 0.5."),
    ],
)
def test_a_wrong_argument_is_refused_at_the_call(
    fields: Fields, changed: dict[str, Any], error: type[Exception], told: str
) -> None:
    given: dict[str, Any] = {"future_of": fields.ask, "at_most": 3} | changed
    with pytest.raises(error, match=re.escape(told)):
        fields.queue.until(**given)


def test_a_loop_needs_an_end(fields: Fields) -> None:
    with pytest.raises(TypeError, match=r"Queue.until\(\) missing 1 required keyword-only argument: 'at_most'"):
        fields.queue.until(fields.ask)  # type: ignore[call-arg]


@pytest.mark.parametrize("returned", ["no future", None, "a result", "another future"])
def test_a_function_that_returns_no_future_is_refused(fields: Fields, returned: Any) -> None:
    def ask() -> Any:
        if returned == "a result":
            return fields.ask().result(20)
        return concurrent.futures.Future() if returned == "another future" else returned

    loop = fields.queue.until(ask, at_most=3)
    with pytest.raises(
        ArgumentTypeError, match=r"'ask' of queue.until\(\) returns .*, which is no future.*without .res.* when="
    ):
        fields.run(loop)
    assert (fields.submitted, list(loop)) == (1, [])
    np.testing.assert_array_equal(fields.contents(), START / 2)


def test_a_future_of_which_only_rank_0_gets_the_result_is_refused(fields: Fields) -> None:
    loop = fields.queue.until(lambda: fields.queue.fence(fields.old, on="master"), at_most=3)
    with pytest.raises(
        UsageError, match=r"Future of fence of B\d+ \"v\".*is not the same on all ranks.*without on='master'"
    ):
        fields.run(loop)


def test_a_function_that_raises_ends_the_loop_and_not_the_runtime(fields: Fields) -> None:
    def ask() -> Any:
        raise KeyError("mine")

    loop = fields.queue.until(ask, at_most=3)
    with pytest.raises(KeyError, match="mine"):
        fields.run(loop)
    assert list(loop) == []
    np.testing.assert_array_equal(fields.contents(), START / 2)


def test_a_value_that_is_neither_true_nor_false_is_refused(fields: Fields) -> None:
    loop = fields.queue.until(lambda: fields.queue.fence(fields.old), every=2, at_most=50)
    with pytest.raises(UsageError, match=r"value after iteration 1 of .* an array of shape \(4, 3\), .*use queue.any"):
        fields.run(loop)
    assert fields.submitted == 4
    loop = fields.queue.until(fields.ask, at_most=50, when=print)
    with pytest.raises(UsageError, match=r"result of when='print' after iteration 0 of queue.until\(\) is None"):
        fields.run(loop)


@pytest.mark.parametrize(
    ("dtype", "shown"), [("f8", "3.0, of the type float64"), ("c8", r"\(3\+0j\), of the type complex64")]
)
def test_a_value_that_is_neither_a_bool_nor_an_integer_needs_when(
    queue: celerity.Queue, dtype: str, shown: str
) -> None:
    u = celerity.Buffer.from_array(np.array(3, dtype))
    with pytest.raises(UsageError, match=rf"value after iteration 4 of .* is {shown}. .*: when=lambda value: value <"):
        list(queue.until(lambda: queue.fence(u), every=5, at_most=50))
    loop = queue.until(lambda: queue.fence(u), every=5, at_most=50, when=lambda value: abs(value) < 4)
    assert len(list(loop)) == 10
    assert loop.stopped


def test_buffers_that_cannot_be_kept_are_refused(fields: Fields) -> None:
    def look(keep: Callable[[], Any]) -> None:
        fields.run(fields.queue.until(fields.ask, at_most=50, keep=keep, when=bool))

    with pytest.raises(ArgumentTypeError, match=r"keep=...\) takes a function that returns a buffer or .*, not array"):
        look(lambda: START)
    different = iter([fields.old, fields.largest])
    with pytest.raises(UsageError, match=r"keep='<lambda>'.*\(4, 3\), 'float64'.*at first, and \[\(\(\), 'float64'"):
        look(lambda: next(different))


def test_a_loop_is_no_part_of_a_recording_kernel_or_closed_queue(fields: Fields) -> None:
    queue = fields.queue

    def body() -> None:
        queue.until(fields.ask, at_most=3)

    with pytest.raises(UsageError, match=r"queue.until\(\) was called inside of 'body', which queue.record\(\) runs"):
        queue.record(body)
    errors: list[Exception] = []

    def nested(part: Any) -> None:
        for call in (lambda: queue.until(fields.ask, at_most=3), lambda: queue.any(fields.old)):
            try:
                call()
            except NestedUse as error:
                errors.append(error)

    queue.host_task(nested)
    queue.wait()
    assert len(errors) == 2
    another = celerity.Queue()
    another.close()
    with pytest.raises(ClosedQueue, match=r"until\(\) on a queue that is closed"):
        another.until(fields.ask, at_most=3)


def test_a_failure_in_an_iteration_leaves_the_loop(tmp_path: Any) -> None:
    result = run(
        tmp_path,
        """
        def work(chunk, u):
            raise ValueError("in the body")

        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.zeros(4), name="u")
        try:
            for i in queue.until(lambda: queue.any(u), every=2, at_most=10**9):
                queue.parallel_for(4, work, u.read_write(celerity.access.one_to_one()))
        except celerity.TaskFailed as error:
            print(f"iteration {i}: {error}")
        """,
    )
    assert re.match(r"iteration [0-3]: rank 0: task 'work' failed .*in the body", result.stdout), result


# ---- any


@pytest.mark.parametrize(
    "contents",
    [
        np.zeros(10),
        np.arange(10) == 9,
        np.eye(5)[2:, :2],
        np.zeros((3, 4, 5), np.uint8),
        np.full((2, 2), np.nan),
        np.array(0),
        np.array(2j),
        np.array([[True]]),
    ],
)
def test_any_tells_whether_an_element_is_other_than_zero(queue: celerity.Queue, contents: Any) -> None:
    flags = celerity.Buffer.from_array(contents, name="flags")
    future = queue.any(flags)
    assert future.result(20) is bool(contents.any())
    assert isinstance(future, concurrent.futures.Future)
    assert "flags" in repr(future)


def test_any_is_asked_at_a_point_of_the_program(queue: celerity.Queue) -> None:
    flags = celerity.Buffer.from_array(np.zeros(9, np.int32))

    def add(chunk: Any, view: Any, amount: int) -> None:
        view[chunk.box] += amount

    futures = []
    for amount in (0, 1, -1):
        queue.parallel_for(9, add, flags.read_write(ONE), amount)
        futures.append(queue.any(flags))
    assert [future.result(20) for future in futures] == [False, True, False]


def test_any_refuses_other_things_than_buffers_of_numbers(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match=r"takes a Buffer, not True. Let a kernel or host task write the flags"):
        queue.any(True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"takes a buffer of numbers, but B\d+ \"pairs\" has \[\('a', '<i4'\)\]"):
        queue.any(celerity.Buffer(3, np.dtype([("a", np.int32)]), name="pairs"))
