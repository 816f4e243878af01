# SPDX-License-Identifier: MIT
"""Contents of buffers after a failure on a single rank."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access, recovery
from celerity_py.calls.binder import array_at
from celerity_py.errors import ClosedQueue, OutOfMemory, ResourceError, TaskFailed, UsageError
from celerity_py.runtime import lifecycle

SIZE = 24
START = np.arange(float(SIZE))
MINE = access.one_to_one()


@pytest.fixture(params=["cpu:1", "cpu:3"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    """A queue of a run that fails, on one device and on several."""
    celerity.configure(devices=request.param, horizon_step=2, run_ahead=256)
    yield celerity.Queue()
    runtime = lifecycle._current
    if runtime is not None:
        runtime.abandon()


@celerity.kernel
def increase(chunk: Any, u: Any, *_: Any) -> None:
    u[chunk.box] += 1


@celerity.kernel
def smooth(chunk: Any, u_next: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1)
    u_next[chunk.box] = u[chunk.box]
    u_next[inner] = u[inner.shift(-1)] + u[inner.shift(1)]


def failing(queue: celerity.Queue, gate: threading.Event | None = None) -> Any:
    """A kernel that fails once all devices have come to it, and so have done their parts of earlier tasks."""
    everyone = threading.Barrier(queue._runtime.num_devices)

    def fail(chunk: Any, *views: Any) -> None:
        everyone.wait(20)
        if gate is not None:
            gate.wait(20)
        raise ValueError("a bad cell")

    return fail


@celerity.kernel
def fail_on_last(chunk: Any, u: Any) -> None:
    u[chunk.box] = -1
    if chunk.box.max[0] == SIZE:
        raise ValueError("a bad cell")


def smoothed(steps: int) -> Any:
    u, u_next = START.copy(), START.copy()
    for _ in range(steps):
        u_next[:] = u
        u_next[1:-1] = u[:-2] + u[2:]
        u, u_next = u_next, u
    return u, u_next


def see_failure(queue: celerity.Queue) -> None:
    with pytest.raises(TaskFailed, match="a bad cell"):
        queue.wait()


def test_a_buffer_that_the_failed_task_reads_has_its_contents_and_goes_on(queue: celerity.Queue) -> None:
    u, v = celerity.Buffer.from_array(START, name="u"), celerity.Buffer(SIZE, np.float64, name="v")
    for _ in range(9):
        queue.parallel_for(SIZE, increase, u.read_write(MINE))
    queue.parallel_for(SIZE, failing(queue), v.write(MINE), u.read(MINE))
    see_failure(queue)
    contents, number, writer = u.recover()
    np.testing.assert_array_equal(contents, START + 9)
    assert writer.startswith("task 'increase' (submitted at ")
    assert number == 9
    with pytest.raises(
        ResourceError, match=r'"v"\.recover\(\): task \'fail\' .*had begun to write it .* or has failed'
    ):
        v.recover()
    np.testing.assert_array_equal(u.recover().contents, START + 9)
    again = celerity.Buffer.from_array(u.recover().contents)
    with celerity.Queue() as other:
        other.parallel_for(SIZE, increase, again.read_write(MINE))
        np.testing.assert_array_equal(other.fence(again).result(10), START + 10)
        with pytest.raises(ClosedQueue, match="comes too late: it belongs to a runtime that has failed: task 'fail'"):
            u.recover()


@pytest.mark.parametrize("steps", [0, 1, 7, 40])
def test_work_that_was_submitted_behind_the_failure_does_not_count(queue: celerity.Queue, steps: int) -> None:
    """The planner is far ahead of the execution, in a loop with borders between the devices."""
    u, u_next = (celerity.Buffer.from_array(START, name=name) for name in ("u", "u_next"))
    gate, other = threading.Event(), celerity.Buffer(SIZE, np.float64, name="other")

    for _ in range(steps):
        queue.parallel_for(SIZE, smooth, u_next.write(MINE), u.read(access.neighborhood(1)))
        u, u_next = u_next, u
    newest, older = u, u_next
    queue.parallel_for(SIZE, failing(queue, gate), other.write(MINE), u.read(MINE), u_next.read(MINE))
    for _ in range(20):
        queue.parallel_for(SIZE, smooth, u_next.write(MINE), u.read(access.neighborhood(1)))
        u, u_next = u_next, u
    queue.flush()
    gate.set()
    see_failure(queue)
    for buffer, expected in zip((newest, older), smoothed(steps), strict=True):
        np.testing.assert_array_equal(buffer.recover().contents, expected)


def test_contents_long_before_the_failure_are_found_beside_other_work(queue: celerity.Queue) -> None:
    matrix = np.arange(SIZE * 6.0).reshape(SIZE, 2, 3)
    old = celerity.Buffer.from_array(matrix, element=(2, 3))
    untouched = celerity.Buffer.from_array(START)
    computed = celerity.Buffer.from_function(SIZE, np.float64, lambda box: START[box.slices] * 2)
    scalar, nothing = celerity.Buffer.from_array(np.array(3.0)), celerity.Buffer(SIZE, np.float64)
    u = celerity.Buffer.from_array(START, name="u")
    queue.parallel_for(SIZE, increase, old.read_write(MINE))
    queue.parallel_for((), increase, scalar.read_write(access.all()))
    for _ in range(30):
        queue.parallel_for(SIZE, increase, u.read_write(MINE))
    queue.parallel_for(SIZE, failing(queue), u.read_write(MINE))
    see_failure(queue)
    np.testing.assert_array_equal(old.recover().contents, matrix + 1)
    np.testing.assert_array_equal(untouched.recover().contents, START)
    np.testing.assert_array_equal(computed.recover().contents, START * 2)
    assert scalar.recover().contents == 4.0
    np.testing.assert_array_equal(nothing.recover().contents, 0)
    assert untouched.recover().writer == ""
    with pytest.raises(ResourceError, match="task 'fail'"):
        u.recover()


def test_a_task_of_which_only_some_chunks_are_done_spoils_its_buffer() -> None:
    celerity.configure(devices="cpu:3")
    queue = celerity.Queue()
    u = celerity.Buffer.from_array(START, name="u")
    queue.parallel_for(SIZE, fail_on_last, u.write(MINE))
    see_failure(queue)
    with pytest.raises(ResourceError, match=r"task 'fail_on_last' .*had begun to write it"):
        u.recover()
    lifecycle._current.abandon()  # type: ignore[union-attr]


def test_results_of_host_tasks_reductions_and_parts_of_buffers_are_recovered(queue: celerity.Queue) -> None:
    u, total = celerity.Buffer.from_array(START, name="u"), celerity.Buffer((), np.float64, name="total")
    rows = celerity.Buffer((4, SIZE), np.float64, name="rows")

    def add_up(chunk: Any, total: Any, u: Any) -> None:
        total.combine(u[chunk.box].sum())

    def fill(part: Any, row: Any) -> None:
        row[...] = 7

    queue.parallel_for(SIZE, add_up, celerity.reduction(total, "sum"), u.read(MINE))
    queue.host_task(fill, rows.write(access.fixed(celerity.Box((1, 0), (2, SIZE)))))
    queue.wait()
    queue.parallel_for(SIZE, failing(queue), u.read(MINE))
    see_failure(queue)
    assert total.recover().contents == START.sum()
    np.testing.assert_array_equal(rows.recover().contents[1], 7)
    np.testing.assert_array_equal(rows.recover().contents[2:], 0)


def test_a_buffer_that_a_failed_reduction_combines_into_is_refused(queue: celerity.Queue) -> None:
    total, maximum = (celerity.Buffer((), np.float64, name=name) for name in ("total", "maximum"))
    u = celerity.Buffer.from_array(START, name="u")

    def find(chunk: Any, maximum: Any, u: Any) -> None:
        maximum.combine(u[chunk.box].max())

    def add_up(chunk: Any, total: Any, u: Any) -> None:
        total.combine(u[chunk.box].sum())
        raise ValueError("a bad cell")

    queue.parallel_for(SIZE, find, celerity.reduction(maximum, "max"), u.read(MINE))
    queue.wait()
    queue.parallel_for(SIZE, add_up, celerity.reduction(total, "sum"), u.read(MINE))
    queue.parallel_for(SIZE, increase, u.read_write(MINE), total.read(access.all()))
    see_failure(queue)
    with pytest.raises(ResourceError, match="task 'add_up'"):
        total.recover()
    assert maximum.recover().contents == SIZE - 1


def test_an_old_result_that_a_task_was_to_overwrite_is_refused(queue: celerity.Queue) -> None:
    total, u = celerity.Buffer((), np.float64, name="total"), celerity.Buffer.from_array(START, name="u")

    def add_up(chunk: Any, total: Any, u: Any) -> None:
        total.combine(u[chunk.box].sum())

    queue.parallel_for(SIZE, add_up, celerity.reduction(total, "sum"), u.read(MINE))
    for _ in range(20):
        queue.parallel_for(SIZE, increase, u.read_write(MINE))
    queue.wait()
    queue.parallel_for(SIZE, failing(queue), u.read_write(MINE))
    queue.parallel_for(SIZE, add_up, celerity.reduction(total, "sum"), u.read(MINE))
    queue.flush()
    see_failure(queue)
    with pytest.raises(ResourceError, match=r"task 'add_up' .* was to overwrite it, and where its contents were"):
        total.recover()


def test_a_task_without_room_for_its_memory_spoils_nothing(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(START, name="u")
    large = celerity.Buffer((SIZE, 2**48), np.float64, name="large")
    queue.parallel_for(SIZE, increase, u.read_write(MINE))
    queue.wait()

    def use(chunk: Any, u: Any, large: Any) -> None:
        u[chunk.box] += 1

    queue.parallel_for(SIZE, use, u.read_write(MINE), large.write(access.slice(1)))
    with pytest.raises(OutOfMemory):
        queue.wait()
    np.testing.assert_array_equal(u.recover().contents, START + 1)


@pytest.mark.parametrize(("is_recorded", "is_late"), [(False, False), (False, True), (True, False)])
def test_a_repeated_loop_that_is_longer_than_what_is_kept_hides_nothing(
    queue: celerity.Queue, *, is_recorded: bool, is_late: bool
) -> None:
    """In one half of the period, the value is where no period ends. No other task tells the planner of the failure."""
    u, v = (celerity.Buffer.from_array(START, name=name) for name in ("u", "v"))
    calls, last_call = count(1), (31 * 24 + 12 + 12 * is_late) * queue._runtime.num_devices

    def add_on_host(part: Any, u: Any) -> None:
        u[...] += 100

    def work(chunk: Any, v: Any, *_: Any) -> None:
        v[chunk.box] += 1
        if next(calls) == last_call:
            raise ValueError("a bad cell")

    def begin() -> None:
        queue.parallel_for(SIZE, increase, u.read_write(MINE))
        queue.parallel_for(SIZE, work, v.read_write(MINE), u.read(MINE))
        for _ in range(11):
            queue.parallel_for(SIZE, work, v.read_write(MINE))

    def end() -> None:
        queue.host_task(add_on_host, u.read_write(access.all()))
        queue.parallel_for(SIZE, work, v.read_write(MINE), u.read(MINE))
        for _ in range(11):
            queue.parallel_for(SIZE, work, v.read_write(MINE))

    if is_recorded:
        queue.replay(queue.record(lambda: (begin(), end())), 30)
    for _ in range(0 if is_recorded else 31):
        begin()
        end()
    begin()
    if is_late:
        end()
    assert queue._runtime.state.has_failed.wait(20)
    np.testing.assert_array_equal(u.recover().contents, START + 31 * 101 + (101 if is_late else 1))
    with pytest.raises(ResourceError, match="task 'work'"):
        v.recover()
    assert is_recorded or queue._runtime.statistics().scheduler["repeated_tasks"] > 100


CELLS = (
    "queue = celerity.Queue()\nu, u_next = (celerity.Buffer.from_array(START, name=name) for name in ('u', 'u_next'))",
    """def step(chunk, u_next, u):
    inner = chunk.box & u.shape_box.shrink(1)
    u_next[chunk.box] = u[chunk.box]
    u_next[inner] = u[inner.shift(-1)] + u[inner.shift(1)]
    if u[chunk.box].max() > limit:
        raise ValueError("a bad cell")
""",
    """for _ in range(12):
    queue.parallel_for(SIZE, step, u_next.write(MINE), u.read(access.neighborhood(1)))
    u, u_next = u_next, u
result = queue.fence(u).result()
""",
    """kept = {}
for buffer in (u, u_next):
    try:
        kept[buffer.name] = buffer.recover()
    except ResourceError as error:
        refused = str(error)
newest = max(kept.values(), key=lambda found: found.number)
queue = celerity.Queue()
u, u_next = (celerity.Buffer.from_array(newest.contents, name=name) for name in ('u', 'u_next'))
done = newest.number
""",
)


def test_a_notebook_goes_on_where_a_kernel_raised() -> None:
    """The cell with the steps fails and is mended; the buffer that the failed step reads is the newest one."""
    celerity.configure(devices="cpu:2")
    names: dict[str, Any] = {**globals(), "limit": 300.0}
    for cell in CELLS[:2]:
        exec(cell, names)
    with pytest.raises(TaskFailed, match="a bad cell"):
        exec(CELLS[2], names)
    exec(CELLS[3], names)
    assert "task 'step'" in names["refused"]
    done = names["done"]
    np.testing.assert_array_equal(names["newest"].contents, smoothed(done)[0])
    names["limit"] = np.inf
    exec(CELLS[2].replace("12", "12 - done"), names)
    np.testing.assert_array_equal(names["result"], smoothed(12)[0])
    names["queue"].close()


def test_recovery_works_behind_a_block_and_says_when_it_comes_too_late() -> None:
    celerity.configure(devices="cpu:1")
    u = celerity.Buffer.from_array(START, name="u")
    with suppress(TaskFailed), celerity.Queue() as queue:
        queue.parallel_for(SIZE, increase, u.read_write(MINE))
        queue.parallel_for(SIZE, failing(queue), u.read(MINE))
        queue.wait()
    np.testing.assert_array_equal(u.recover().contents, START + 1)
    v = celerity.Buffer.from_array(u.recover().contents)
    with pytest.raises(ClosedQueue, match=r'"u"\.recover\(\) comes too late: .* Its memory is free'):
        u.recover()
    with pytest.raises(UsageError, match=r"is for runtimes that have failed\. queue\.fence\(\)"):
        v.recover()
    with pytest.raises(KeyError), celerity.Queue():
        raise KeyError  # of the program, not of a task: the queue ends
    with pytest.raises(ClosedQueue, match="comes too late: it belongs to a runtime that ended with its last queue"):
        v.recover()


def test_parts_of_gpu_memory_are_read_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(5 * 6 * 4, dtype=np.complex64).reshape(5, 6, 2, 2)
    record: Any = SimpleNamespace(shape=(9, 9), dtype=np.dtype((np.complex64, (2, 2))))
    read: list[Any] = []

    def to_host(array: Any) -> Any:
        assert array.flags.c_contiguous
        read.append(array.shape)
        return array

    runtime = SimpleNamespace(
        devices=SimpleNamespace(is_cuda=True, ordinals=[0]),
        binders=[SimpleNamespace(array_at=array_at, to_host=to_host)],
    )
    monkeypatch.setattr(recovery, "on_device", nullcontext)
    part: Any = SimpleNamespace(
        where=celerity.Box((3, 2), (5, 7)).flat(),
        allocated=celerity.Box((2, 1), (7, 7)).flat(),
        address=values.ctypes.data,
        memory=2,
    )
    contents = np.zeros(record.shape, record.dtype)
    recovery._read(runtime, record, part, contents)
    np.testing.assert_array_equal(contents[3:5, 2:7], values[1:3, 1:6])
    assert np.count_nonzero(contents) == np.count_nonzero(values[1:3, 1:6])
    assert read == [(2, 6, 32)]


class RandomProgram:
    """Kernels on a few buffers, whose chunks log that they are done, and one that fails. NumPy has all versions."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        self.done: list[int] = []  # numbers of tasks, once per chunk
        devices, horizon_step = chance.choice((1, 2, 3)), chance.choice((1, 2, 4))
        celerity.configure(devices=f"cpu:{devices}", horizon_step=horizon_step, run_ahead=256)
        self.queue = celerity.Queue()
        self.num_devices = self.queue._runtime.num_devices
        self.buffers = [celerity.Buffer.from_array(START + 100 * i, name=f"b{i}") for i in range(4)]
        self.versions: list[list[tuple[int, Any]]] = [[(0, START + 100 * i)] for i in range(4)]

    def run(self, num_before: int, num_after: int) -> None:
        """Until it has failed."""
        for number in range(1, num_before + 1):
            self._submit(number)
        views = [buffer.read(MINE) for buffer in self._chance.sample(self.buffers, 2)]
        gate = threading.Event()

        def fail(chunk: Any, *views: Any) -> None:
            gate.wait(20)
            raise ValueError("a bad cell")

        self.queue.parallel_for(SIZE, fail, *views)
        for number in range(num_before + 1, num_before + num_after + 1):
            self._submit(number)
        self.queue.flush()
        time.sleep(0.01)  # most of what need not wait for the failing task is done
        gate.set()
        see_failure(self.queue)

    def _submit(self, number: int) -> None:
        target, source = self._chance.sample(range(4), 2)
        reach, reads_itself, waits = (self._chance.randrange(n) for n in (3, 2, 12))

        def combine(chunk: Any, out: Any, values: Any) -> None:
            inside = chunk.box & out.shape_box.shrink(reach)
            before = out[chunk.box].copy() if reads_itself else 0
            out[chunk.box] = values[chunk.box] + number + before
            if inside:
                out[inside] += values[inside.shift(-reach)] - values[inside.shift(reach)]
            self.done.append(number)

        mode = self.buffers[target].read_write if reads_itself else self.buffers[target].write
        reads = self.buffers[source].read(access.neighborhood(reach))
        self.queue.parallel_for(SIZE, combine, mode(MINE), reads)
        before, values = (self.versions[i][-1][1] for i in (target, source))
        out = values + number + (before if reads_itself else 0)
        out[reach : SIZE - reach] += values[: SIZE - 2 * reach] - values[2 * reach :]
        self.versions[target].append((number, out))
        if waits == 0:
            self.queue.fence(self.buffers[source])

    def check(self) -> None:
        """Each buffer is that of its last complete task, or its writer is named."""
        for buffer, versions in zip(self.buffers, self.versions, strict=True):
            chunks = [self.done.count(number) for number, _ in versions]
            try:
                contents = buffer.recover().contents
            except ResourceError:
                assert any(0 < count < self.num_devices for count in chunks[1:]) or self.hides(buffer)
                continue
            last = max(i for i, count in enumerate(chunks) if i == 0 or count == self.num_devices)
            assert not any(chunks[last + 1 :]), "parts of a later task are done"
            np.testing.assert_array_equal(contents, versions[last][1])
        self.queue._runtime.abandon()

    def hides(self, buffer: celerity.Buffer[Any]) -> bool:
        """Whether it is not known where the contents are, which is refused."""
        with pytest.raises(ResourceError, match="was to overwrite it, and where its contents were before is not known"):
            buffer.recover()
        return True


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_leave_the_contents_of_the_last_complete_tasks(seed: int) -> None:
    program = RandomProgram(seed)
    program.run(num_before=3 * seed, num_after=25)
    program.check()
