# SPDX-License-Identifier: MIT
"""Repeated submits of kernels that the executor launches by itself: which of them ask Python, and for which plan."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from celerity_py import Box, _native, hints
from celerity_py.cuda.launches import LaunchPlan
from celerity_py.errors import ClosedQueue, UsageError
from celerity_py.kernels import CudaKernel
from celerity_py.submit.plain_values import PLAIN_TYPES
from celerity_py.vocabulary.accesses import WRITE, Access, Port
from celerity_py.vocabulary.submissions import Submission
from tests.support.repeated_submits import ONE

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
        self.compares_values = False
        self.number_paths: dict[int, Any] = {}
        self.submitter = self.make_submitter()
        self.ports = [self.port(np.float32), self.port(np.float64)]
        function = _native.CudaFunction(
            functions=[1],
            block=(8, 32),
            grid=None,
            shared_bytes=0,
            parameters=[("chunk", 2, 0, b""), ("scalar", 0, 1, b"")],
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
        self.submitter.submit_kernel(self.kernel, (4, 6), args, None, given, None, sys._getframe(), 0)
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
    assert launches.known == [None, plan, plan, plan, None]
    launches.submitter = launches.make_submitter()
    launches.submit(1)
    assert launches.known[-1] is None


def test_a_type_is_not_taken_for_a_dead_one_at_the_same_address() -> None:
    launches = Launches()
    dead = type("Count", (int,), {})
    address = id(dead)
    launches.submit(dead(1))
    launches.table.clear()  # which holds the value, and so its type
    del dead
    gc.collect()
    others = [type("Measure", (float,), {})]
    while id(others[-1]) != address and len(others) < 1000:
        others.append(type("Measure", (float,), {}))
    launches.submit(others[-1](1))
    assert launches.known == [None, None]


def test_a_kernel_that_python_runs_on_a_gpu_has_no_plan_in_any_index_space() -> None:
    launches = Launches()
    launches.is_native = False
    args = Access(None, ONE, launches.ports[0]), 1
    for shape in ((4, 6), (4, 6), [4, 6], [4, 6]):  # lists are looked at each time
        launches.submitter.submit_kernel(launches.kernel, shape, args, None, (), None, sys._getframe(), 0)
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
