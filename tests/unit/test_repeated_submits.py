# SPDX-License-Identifier: MIT
"""A kernel that is submitted again with arguments of the same kinds: native code does it, and nobody can tell."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, _native, _native_testing, access, hints
from celerity_py.cuda.launches import LaunchPlan
from celerity_py.errors import (
    ClosedQueue,
    DimensionMismatch,
    NestedUse,
    OverlappingAccess,
    UsageError,
)
from celerity_py.kernels import CudaKernel
from celerity_py.runtime import lifecycle
from celerity_py.submit.plain_values import PLAIN_TYPES
from celerity_py.vocabulary.accesses import WRITE, Access, Port
from celerity_py.vocabulary.submissions import Submission
from tests.support.kernels import iota, scale

ONE = access.one_to_one()


def runtime() -> Any:
    return lifecycle.current()


def repeated() -> int:
    """Submits by native code so far."""
    return int(runtime().submitter.num_repeated)


@celerity.kernel
def add(chunk: celerity.Chunk, out: celerity.View, given: celerity.View, amount: float) -> None:
    out[chunk.box] = given[chunk.box] + amount


class Fields:
    """Two buffers, and the kernel that adds a number to the elements of the other one; submitted once already."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.old, self.new = (celerity.Buffer((4, 6), np.float32, name=name) for name in "uv")
        queue.parallel_for((4, 6), iota, self.old.write(ONE))
        self.add(0.0)

    def add(self, amount: Any, shape: Any = (4, 6), kernel: Any = add, **settings: Any) -> None:
        self.queue.parallel_for(shape, kernel, self.new.write(ONE), self.old.read(ONE), amount, **settings)
        self.old, self.new = self.new, self.old

    def contents(self) -> Any:
        return self.queue.fence(self.old).result(20)


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


START = np.arange(24, dtype=np.float32).reshape(4, 6)


# ---- submits that are repeated natively


def test_all_submits_but_the_first_are_repeated(queue: celerity.Queue, fields: Fields) -> None:
    for number in range(1, 5):
        fields.add(float(number))
        assert repeated() == number
    np.testing.assert_array_equal(fields.contents(), START + 10)
    statistics = queue.statistics()
    assert statistics.num_submissions == 7
    assert 0 < statistics.submit_seconds < 60


@pytest.mark.parametrize(
    ("settings", "are_known"),
    [
        (lambda: {"shape": Box((0, 0), (4, 6))}, True),
        (lambda: {"shape": [4, 6]}, False),
        (lambda: {"shape": (np.int64(4), 6)}, False),
        (lambda: {"name": "sum"}, True),
        (lambda: {"name": "a\0b"}, True),
        (lambda: {"hints": hints.oversubscribe(2)}, True),
        (lambda: {"hints": (hints.split_2d(), hints.oversubscribe(3))}, True),
        (lambda: {"hints": [hints.border_first(1)]}, True),
    ],
)
def test_a_submit_with_settings_is_repeated(fields: Fields, settings: Callable[[], Any], are_known: bool) -> None:
    fields.add(1.0, **settings())
    before = repeated()
    for _ in range(2):
        fields.add(1.0, **settings())
    assert repeated() - before == (2 if are_known else 0)
    np.testing.assert_array_equal(fields.contents(), START + 3)


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        2j,
        True,
        "two",
        np.bool_(True),
        *(np.dtype(code).type(2) for code in np.typecodes["AllInteger"] + "efdgFDG"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_are_passed_on_as_they_are(queue: celerity.Queue, value: Any) -> None:
    passed = []

    @celerity.kernel
    def keep(chunk: celerity.Chunk, given: Any) -> None:
        passed.append(given)

    for _ in range(3):
        queue.parallel_for(1, keep, value)
    assert repeated() == 2
    queue.wait()
    assert len(passed) == 3
    assert all(each is value for each in passed)


def test_a_value_of_another_type_than_before_is_looked_at_once(fields: Fields) -> None:
    for known, amount in ((2, 1.0), (3, np.float32(2)), (4, 3), (5, np.int8(4))):  # the fixture had a float
        for _ in range(2):
            fields.add(amount)
        assert repeated() == known
    np.testing.assert_array_equal(fields.contents(), START + 20)


def test_buffers_values_and_index_spaces_may_be_others(queue: celerity.Queue, fields: Fields) -> None:
    fields.add(5.0)
    third = celerity.Buffer.from_array(np.zeros((4, 6), np.float32))
    lower = Box((2, 0), (4, 6))
    for space in ((2, 6), lower):
        queue.parallel_for(space, add, third.read_write(ONE), fields.old.read(ONE), 7.0)
    before = repeated()
    for space, amount in ((lower, -3.0), ((2, 6), 0.0), (lower, 2.0)):
        queue.parallel_for(space, add, third.read_write(ONE), fields.old.read(ONE), amount)
        queue.parallel_for(space, add, third.read_write(ONE), third.read(ONE), 0.0)
    assert repeated() - before == 6
    expected = START + 5
    expected[2:] += 2
    np.testing.assert_array_equal(queue.fence(third).result(20), expected)


def test_a_slice_of_mappers_is_as_good_as_any(queue: celerity.Queue) -> None:
    source = celerity.Buffer.from_array(np.arange(8.0))
    target = celerity.Buffer(8, np.float64)

    @celerity.kernel
    def shift(chunk: celerity.Chunk, out: celerity.View, given: celerity.View, by: int) -> None:
        low, high = chunk.box.min[0], chunk.box.max[0]
        out[chunk.box] = given.array[: high - low] + by if by else given[low:high]

    for number, (mapper, by) in enumerate([(access.neighborhood(1), 0), (access.all(), 0), (ONE, 1), (ONE, 2)]):
        queue.parallel_for(8, shift, target.write(ONE), source.read(mapper), by)
        assert repeated() == number
        np.testing.assert_array_equal(queue.fence(target).result(20), np.arange(8.0) + by)


def test_a_repeated_submit_leaves_the_same_record_as_the_first(fields: Fields) -> None:
    _native_testing.set_paused(runtime().scheduler, True)
    records = []
    for _ in range(2):
        number = runtime().next_id
        fields.add(2.0, name="sum")
        records.append(runtime().submissions[number])
        fields.old, fields.new = fields.new, fields.old
    _native_testing.set_paused(runtime().scheduler, False)
    assert repeated() == 2  # the name is not among what is checked
    first, second = records
    for name in ("kind", "name", "function", "args", "box", "code", "lasti", "future"):
        assert getattr(second, name) == getattr(first, name)
    assert [type(arg).__name__ for arg in second.args] == ["Port", "Port", "float"]
    assert second.describe() == first.describe()
    assert f'kernel "sum" (submitted at {__file__}:' in second.describe()


def test_a_buffer_dies_as_early_as_after_a_first_submit(queue: celerity.Queue, fields: Fields) -> None:
    for count in range(3):
        buffer = celerity.Buffer((4, 6), np.float32)
        gone = weakref.ref(buffer)
        _native_testing.set_paused(runtime().scheduler, True)
        queue.parallel_for((4, 6), add, buffer.write(ONE), fields.old.read(ONE), 1.0)
        del buffer
        assert gone() is None
        _native_testing.set_paused(runtime().scheduler, False)
        assert repeated() == count + 1
    queue.wait()
    assert len(runtime().submissions) < 5


def test_a_kernel_that_knows_itself_is_collected(queue: celerity.Queue) -> None:
    def make() -> Any:
        @celerity.kernel
        def itself(chunk: celerity.Chunk, number: int) -> None:
            assert itself is not None

        return itself

    kernel = make()
    before = repeated()
    for number in range(3):
        queue.parallel_for(4, kernel, number)
    assert repeated() == before + 2
    for _ in range(3):
        queue.wait()
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_a_kernel_with_ever_new_kinds_of_arguments_keeps_the_latest(queue: celerity.Queue) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, *values: Any) -> None: ...

    for number in range(20):
        queue.parallel_for(4, anything, *[1] * number)
    assert repeated() == 0
    for number in range(13, 20):
        queue.parallel_for(4, anything, *[2] * number)
    assert repeated() == 7


def test_what_went_the_long_way_again_is_kept_once(queue: celerity.Queue) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    queue.parallel_for(4, anything, "text")
    for number in range(20):
        queue.parallel_for([4], anything, number)  # a shape that is looked at each time
    assert repeated() == 0
    queue.parallel_for(4, anything, "text")
    assert repeated() == 1


def test_the_code_of_others_may_run_in_the_middle_and_its_exceptions_come_out(queue: celerity.Queue) -> None:
    class Shape(int):
        def __hash__(self) -> int:
            raise KeyboardInterrupt

    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    for _ in range(2):
        queue.parallel_for(4, anything, 1)
        with pytest.raises(KeyboardInterrupt):
            queue.parallel_for(Shape(4), anything, 1)
    queue.parallel_for(4, anything, 1, hints=None)  # type: ignore[arg-type]


def test_a_copy_of_a_kernel_begins_anew(queue: celerity.Queue) -> None:
    for kernel in (add, CudaKernel("", "launch")):
        twin = copy.deepcopy(kernel)
        assert twin.memo is not kernel.memo
        assert pickle.loads(pickle.dumps(kernel.memo)) is not kernel.memo


def test_the_functions_of_a_kernel_stay(queue: celerity.Queue) -> None:
    kernel: Any = celerity.kernel(cpu=len)
    with pytest.raises(AttributeError):
        kernel.cpu = max


# ---- submits that are not


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.queue.parallel_for((4, 6), add, f.new.write(ONE), f.old.read(ONE)), "does not fit its signature"),
        (lambda f: f.add(celerity.Buffer(3)), "got the bare buffer"),
        (lambda f: f.add(1.0, shape=(4, 0)), "is empty"),
        (lambda f: f.add(1.0, hints=["split"]), "takes hints"),
        (lambda f: f.add(1.0, constrain=(1, 2, 3)), "one int per dimension"),
        (lambda f: f.add(1.0, shape=None), "not None"),
        (lambda f: f.add(1.0, kernel=None), "not None"),
    ],
)
def test_mistakes_are_found_however_often_it_went_well(
    fields: Fields, change: Callable[[Fields], None], message: str
) -> None:
    fields.add(1.0)
    for _ in range(2):
        before = runtime().next_id
        with pytest.raises(celerity.CelerityError, match=message):
            change(fields)
        assert runtime().next_id == before
    fields.add(1.0)
    assert repeated() == 2
    np.testing.assert_array_equal(fields.contents(), START + 2)


def test_accesses_that_contradict_each_other_are_refused_by_name(fields: Fields) -> None:
    before = runtime().next_id
    for _ in range(2):
        with pytest.raises(DimensionMismatch, match=r'kernel "add", write access to B\d+ "."'):
            fields.queue.parallel_for((4, 6), add, fields.new.write(access.neighborhood(1)), fields.old.read(ONE), 1.0)
    if runtime().num_devices > 1:
        with pytest.raises(OverlappingAccess, match=r'kernel "add".*B\d+'):
            fields.queue.parallel_for((4, 6), add, fields.new.write(access.all()), fields.old.read(ONE), 1.0)
    assert runtime().next_id == before
    assert before not in runtime().submissions
    assert repeated() == 0
    fields.add(3.0)
    np.testing.assert_array_equal(fields.contents(), START + 3)


class Meters(np.float64):
    """A type that a program may drop at any time."""


@pytest.mark.parametrize(
    "value",
    [np.ones(6, np.float32), np.array((1, 2.0), "i4,f8")[()], np.datetime64(3, "s"), Meters(1), Fraction(1, 2), None],
    ids=lambda value: type(value).__name__,
)
def test_values_of_other_types_are_looked_at_anew(queue: celerity.Queue, value: Any) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    for _ in range(3):
        queue.parallel_for(4, anything, value)
    assert repeated() == 0


def test_functions_and_callable_mappers_and_reductions_are_left_to_python(queue: celerity.Queue) -> None:
    buffer, total = celerity.Buffer.from_array(np.ones(6)), celerity.Buffer((), np.float64)

    def double(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] *= 2

    @celerity.kernel
    def add_up(chunk: celerity.Chunk, given: celerity.View, out: Any) -> None:
        out.combine(given.array.sum())

    before = repeated()
    for _ in range(3):
        queue.parallel_for(6, double, buffer.read_write(ONE))
        queue.parallel_for(6, scale, buffer.read_write(lambda chunk: chunk.box), 1.0)
        queue.parallel_for(6, add_up, buffer.read(ONE), celerity.reduction(total, "sum"))
    assert repeated() == before
    assert queue.fence(total).result(20) == 48


def test_another_runtime_looks_at_everything_anew() -> None:
    kept = []
    for _ in range(2):
        with celerity.Queue() as queue:
            fields = Fields(queue)
            assert repeated() == 0
            fields.add(1.0)
            assert repeated() == 1
            np.testing.assert_array_equal(fields.contents(), START + 1)
            kept.append(fields.old)
    with celerity.Queue() as queue:
        fields = Fields(queue)
        fields.old = kept[0]
        with pytest.raises(ClosedQueue, match="belongs to a runtime that ended"):
            fields.add(1.0)


def test_a_closed_queue_refuses_what_it_knows() -> None:
    with celerity.Queue() as queue:
        fields = Fields(queue)
    with pytest.raises(ClosedQueue, match=r"parallel_for\(\) on a queue that is closed"):
        fields.add(1.0)


def test_a_known_kernel_cannot_be_submitted_from_inside_of_a_task(fields: Fields) -> None:
    errors: list[Any] = []

    def nested(chunk: celerity.Chunk) -> None:
        try:
            fields.add(1.0)
        except NestedUse as error:
            errors.append(error)

    fields.queue.parallel_for(1, nested)
    fields.queue.wait()
    assert len(errors) == 1
    thread = threading.Thread(target=fields.add, args=(1.0,))  # another thread may, in its turn
    thread.start()
    thread.join()
    np.testing.assert_array_equal(fields.contents(), START + 1)


# ---- kernels that the executor launches by itself


WHOLE = Box((0, 0), (4, 6))


class Launches:
    """A submitter to a scheduler of its own, with a kernel whose code nobody ever calls; answers its questions."""

    submission_class = Submission
    hint_class = hints.Hint
    plain_types = PLAIN_TYPES
    is_cuda = True
    may_repeat = True

    def __init__(self) -> None:
        planning = _native.PlanningSettings(
            num_ranks=1,
            rank=0,
            num_devices=1,
            lookahead="none",
            horizon_step=2,
            horizon_max_parallelism=64,
        )
        self.scheduler = _native.Scheduler(planning, None, run_ahead=16)
        self.table: dict[int, Any] = {}
        self.kernel = CudaKernel("", "launch")
        self.executor = _native.Executor(_native.ExecutorSettings(num_ranks=1, rank=0, num_devices=1))
        self.known: list[Any] = []
        self.usable_checks: list[str] = []
        self.runtime = self
        self.inside: set[int] = set()
        self.boxes = {(4, 6): WHOLE}
        self.is_native = True
        self.submitter = self.make_submitter()
        self.ports = [self.port(np.float32), self.port(np.float64)]
        function = _native.CudaFunction(
            functions=[1], block=(8, 32), grid=None, shared_bytes=0, parameters=[("chunk", 2), ("scalar", 1, 1)]
        )
        parameter: Any = SimpleNamespace(dtype=np.dtype(np.uint8), text="unsigned char c")
        self.plan = LaunchPlan(function, [(1, parameter)])

    def make_submitter(self) -> _native.Submitter:
        submitter = _native.Submitter(
            self.scheduler,
            self.executor,
            entries=self.table,
            is_shared=False,
        )
        submitter.set_delegate(self)
        return submitter

    def port(self, dtype: Any) -> Port:
        record: Any = SimpleNamespace(shape=(4, 6), dtype=np.dtype(dtype), runtime=self)
        record.id = self.scheduler.create_buffer(_native.BufferInfo(shape=(4, 6), element_size=record.dtype.itemsize))
        return Port(record, WRITE)

    def plan_kernel(self, kernel: Any, _: Any, args: Any, *others: Any) -> Any:
        frame, _ = others[-2:]
        submission = Submission("kernel", kernel.name, kernel, [args[0].port, *args[1:]], WHOLE, frame)
        return submission, _native.Task.kernel(WHOLE), [args[0]]

    def prepare_launch(self, submission: Submission, known: LaunchPlan | None) -> tuple[LaunchPlan, bytes] | None:
        self.known.append(known)
        return (self.plan, self.plan.pack(submission)) if self.is_native else None

    def plan_host_task(self, *_: Any) -> Any:
        raise AssertionError("no host task is submitted")

    def check_usable(self, call: str) -> None:
        self.usable_checks.append(call)
        raise ClosedQueue(call)

    def submit(self, value: Any, port: int = 0, given: Any = ()) -> int:
        """The number of times that Python was asked so far."""
        args = Access(None, ONE, self.ports[port]), value
        self.submitter.submit_kernel(self.kernel, (4, 6), args, None, given, None, sys._getframe())
        return len(self.known)


def test_a_value_that_its_parameter_cannot_hold_is_left_to_python() -> None:
    launches = Launches()
    assert launches.submit(3) == 1
    for value in (300, -1):
        with pytest.raises(UsageError, match="is not a whole number from 0 to 255"):
            launches.submit(value)
    assert len(launches.known) == 3
    assert launches.submit(255) == launches.submit(0) == 3
    assert [(number, entry.name, entry.args) for number, entry in launches.table.items()] == [
        (number + 1, "launch", [launches.ports[0], value]) for number, value in enumerate((3, 255, 0))
    ]
    assert launches.submitter.num_repeated == 2
    assert launches.submitter.num_submitted == 3
    assert launches.submitter.busy_ns > 0
    assert launches.submitter.blocked_ns == 0


def test_values_of_numpy_are_packed_without_python_if_they_fit_as_they_are() -> None:
    launches = Launches()
    assert launches.submit(np.uint8(3)) == launches.submit(np.uint8(255)) == 1
    assert launches.submit(np.int64(254)) == launches.submit(np.int64(255)) == 2
    with pytest.raises(UsageError, match=r"argument 2, np.int64\(300\) of type int64.* from 0 to 255"):
        launches.submit(np.int64(300))
    # Python converts whole numbers of floating types.
    assert [launches.submit(np.float32(number)) for number in range(3)] == [4, 5, 6]
    with pytest.raises(UsageError, match=r"np.float32\(0.5\) of type float32.* is not a whole number"):
        launches.submit(np.float32(0.5))
    assert launches.submitter.num_repeated == 2


def test_the_plan_of_a_launch_is_made_once_for_each_kind_of_arguments() -> None:
    class Count(int):
        """A type that Python looks at each time."""

    launches = Launches()
    launches.submit(1)
    launches.submit(Count(1))
    launches.submit(Count(2))
    launches.submit(1, given=[hints.split_1d()])
    launches.submit(1, port=1)
    launches.submit(2, port=1)
    plan = launches.plan
    assert launches.known == [None, None, plan, plan, None]
    launches.submitter = launches.make_submitter()
    launches.submit(1)
    assert launches.known[-1] is None


def test_a_kernel_that_python_runs_on_a_gpu_has_no_plan_in_any_index_space() -> None:
    launches = Launches()
    launches.is_native = False
    args = Access(None, ONE, launches.ports[0]), 1
    for shape in ((4, 6), (4, 6), [4, 6], [4, 6]):  # lists are looked at each time
        launches.submitter.submit_kernel(launches.kernel, shape, args, None, (), None, sys._getframe())
    assert launches.known == [None, None, None]


def test_nothing_is_repeated_once_the_runtime_refuses_or_for_another_one() -> None:
    launches = Launches()
    launches.submit(1)
    launches.ports[0].runtime = None
    assert launches.submit(1) == 2
    launches.ports[0].runtime = launches
    assert launches.submit(1) == 2
    launches.submitter.refuse()
    with pytest.raises(ClosedQueue):
        launches.submit(1)
    assert launches.usable_checks == ["parallel_for()"]
    assert launches.submitter.num_submitted == len(launches.table) == 3


def test_an_access_is_made_of_three_things() -> None:
    make: Any = _native.access_maker(Access)
    assert make(1, ONE, 3).mapper is ONE
    with pytest.raises(TypeError, match="made of a buffer, a mapper and a port"):
        make(1, ONE)
