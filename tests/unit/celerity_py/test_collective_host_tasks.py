# SPDX-License-Identifier: MIT
"""Collective host tasks on one rank; tests/mpi has those on several."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, NestedUse, UsageError
from celerity_py.executor.failures.missing_attributes import explain_missing


def test_a_collective_task_runs_once_on_each_rank_with_rank_size_and_arguments(queue: celerity.Queue) -> None:
    seen: list[Any] = []
    values = celerity.Buffer.from_array(np.arange(4.0))
    notes = celerity.HostObject[list[float]]([])

    def look(part: celerity.CollectivePart, view: celerity.View, given: list[float], scale: int) -> None:
        seen.append((part.rank, part.size, part.box, part.global_shape))
        given.append(float(view[...].sum()) * scale)

    queue.collective(look, values.read(access.all()), notes.side_effect(), 2)
    assert queue.fence(notes).result() == [12.0]
    assert seen == [(0, 1, celerity.Box((0,), (1,)), (1,))]


def test_every_host_task_has_rank_and_size(queue: celerity.Queue) -> None:
    seen: list[Any] = []
    for on in ("once", "master", 3):
        queue.host_task(lambda part: seen.append((part.rank, part.size)), on=on)
    queue.wait()
    assert seen == [(0, 1)] * 3


def test_tasks_of_one_group_run_in_program_order_and_those_of_two_groups_overlap(queue: celerity.Queue) -> None:
    both = threading.Barrier(2, timeout=10)
    order: list[int] = []

    def meet(part: celerity.CollectivePart, number: int) -> None:
        both.wait()
        order.append(number)

    for number in range(5):
        queue.collective(meet, number)
        queue.collective(meet, 10 + number, group="other")
    queue.wait()
    assert [number for number in order if number < 10] == [0, 1, 2, 3, 4]
    assert [number for number in order if number >= 10] == [10, 11, 12, 13, 14]


SINGLE_RANK = """
import sys
import threading
import celerity_py as celerity

lock = threading.Lock()

def add(part):
    assert part.comm is part.comm
    with lock:
        print(part.comm.size, part.comm.allreduce(3))

for _ in range(2):
    with celerity.Queue() as queue:
        queue.collective(lambda part: print(part.size, "mpi4py.MPI" in sys.modules))
        queue.wait()
        queue.collective(add)
        queue.collective(add, group="other")
"""


ENDED_AT_EXIT = """
import atexit
import celerity_py as celerity

queue = celerity.Queue()
atexit.register(print, "hook of the program")

def add(part):
    print(part.comm.allreduce(3))

queue.collective(add)
if WAITS:
    queue.wait()
    print("end")
"""


@pytest.mark.parametrize("waits", [True, False])
def test_a_runtime_that_ends_with_the_interpreter_has_its_communicators_until_then(waits: bool) -> None:
    program = ENDED_AT_EXIT.replace("WAITS", str(waits))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    expected = ["3", "end", "hook of the program"] if waits else ["3", "hook of the program"]
    assert sorted(run.stdout.splitlines()) == sorted(expected)


def test_a_single_rank_has_a_communicator_too_and_no_mpi_before_it_asks_for_one() -> None:
    run = subprocess.run([sys.executable, "-c", SINGLE_RANK], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == ("1 False\n1 3\n1 3\n1 True\n1 3\n1 3\n", "")
    assert run.returncode == 0


def test_collective_tasks_are_recorded_and_replayed(queue: celerity.Queue) -> None:
    seen: list[int] = []
    recording = queue.record(lambda: queue.collective(lambda part: seen.append(part.size), group="new"))
    queue.replay(recording, 100)
    queue.wait()
    assert seen == [1] * 101


def test_there_are_as_many_groups_as_may_wait_for_other_ranks_at_the_same_time(queue: celerity.Queue) -> None:
    all_of_them = threading.Barrier(32, timeout=20)
    for number in range(32):
        queue.collective(lambda part: all_of_them.wait() and None, group=f"group {number}")
    with pytest.raises(UsageError, match="group='group 32' is one more than the 32 groups of a run"):
        queue.collective(lambda part: None, group="group 32")
    queue.wait()


def test_misuse_of_collective_tasks_is_refused(queue: celerity.Queue) -> None:
    with pytest.raises(ArgumentTypeError, match="group= takes a string or None, not 3"):
        queue.collective(lambda part: None, group=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"collective\(fn, \.\.\.\) got on='master'\."):
        queue.collective(lambda part: None, on="master")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r'collective host task ".*lambda.*" is called with a part and 1 arg'):
        queue.collective(lambda part: None, 3)
    queue.collective(lambda part: None, group="after a refused one")
    told: list[str] = []

    def ask(part: Any) -> None:
        with pytest.raises(AttributeError) as missing:
            part.comm  # noqa: B018
        assert "has no communicator. Submit the function with queue.collective(fn" in explain_missing(missing.value)
        with pytest.raises(NestedUse, match=r"collective\(\)"):
            queue.collective(lambda part: None)
        told.append("both")

    queue.host_task(ask)
    queue.wait()
    assert told == ["both"]
