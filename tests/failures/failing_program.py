# SPDX-License-Identifier: MIT
"""Programs with one mistake each, for `test_failing_programs.py`: `python failing_program.py <name>`."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import _native_testing, access
from celerity_py.runtime import lifecycle
from tests.support.executor_harness import make_pilot

if TYPE_CHECKING:
    from collections.abc import Callable

    from celerity_py.executor.network.communicator import Arrivals

SHAPE = (64, 32)


@celerity.kernel
def fill(chunk: Any, out: Any) -> None:
    out[chunk.box] = 1.0


@celerity.kernel
def faulty(chunk: Any, out: Any) -> None:
    if celerity.rank() == 1 or celerity.size() == 1:
        raise ValueError("a bad cell")
    out[chunk.box] = 2.0


@celerity.kernel
def total(chunk: Any, values: Any) -> None:
    values[...].sum()


@celerity.kernel
def reach_too_far(chunk: Any, out: Any, values: Any) -> None:
    out[chunk.box] = values[chunk.box.grow(1, 0) & values.shape_box]


def filled(queue: celerity.Queue, name: str = "field") -> celerity.Buffer:
    buffer = celerity.Buffer(SHAPE, np.float64, name=name)
    queue.parallel_for(SHAPE, fill, buffer.write(access.one_to_one()))
    return buffer


def nothing_fails() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        assert queue.fence(field).result().sum() == 64 * 32


def nothing_is_written() -> None:
    with celerity.Queue() as queue:
        queue.fence(celerity.Buffer(SHAPE, name="field")).result()  # LINE nothing_is_written


def kernel_raises() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        queue.parallel_for(SHAPE, faulty, field.write(access.one_to_one()), name="step 2")  # LINE kernel_raises
        queue.parallel_for(SHAPE, total, field.read(access.all()))
        queue.fence(field).result()


def exception_is_swallowed() -> None:
    try:
        kernel_raises()
    except celerity.CelerityError:
        time.sleep(60)


def failure_is_not_looked_at() -> None:
    queue = celerity.Queue()
    field = celerity.Buffer(SHAPE, np.float64, name="field")
    queue.parallel_for(SHAPE, faulty, field.write(access.one_to_one()))
    time.sleep(0.5)


def failure_between_repeated_submits() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        queue.parallel_for(SHAPE, faulty, field.write(access.one_to_one()))
        for _ in range(1_000_000):  # of a kernel that has been submitted before; without an end if nobody refuses
            queue.parallel_for(SHAPE, fill, field.write(access.one_to_one()))
            time.sleep(1e-4)


def host_task_raises() -> None:
    def write_file(part: Any) -> None:
        raise OSError("disk full")

    with celerity.Queue() as queue:
        queue.host_task(write_file, on="master")  # LINE host_task_raises


def program_raises() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        if celerity.rank() == celerity.size() - 1:
            raise ZeroDivisionError("in the program")  # LINE program_raises
        queue.parallel_for(SHAPE, total, field.read(access.all()))
        queue.fence(field).result()


def all_ranks_raise() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        queue.parallel_for(-1, fill, field.write(access.one_to_one()))  # LINE all_ranks_raise


def every_rank_raises_its_own() -> None:
    with celerity.Queue():
        time.sleep(1)  # a call of the runtime could raise what another rank has raised before
        raise ZeroDivisionError(f"of rank {celerity.rank()}")


def program_raises_early() -> None:
    if os.environ["PMI_RANK"] == "1":
        raise ZeroDivisionError("before the first queue")
    nothing_fails()


def leaves_before_mpi() -> None:
    if os.environ["PMI_RANK"] == "1":
        sys.exit(0)
    nothing_fails()


def leaves_before_the_first_queue() -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 1:
        sys.exit(0)
    nothing_fails()


def never_comes() -> None:
    if os.environ["PMI_RANK"] == "1":
        time.sleep(50)
    nothing_fails()


def computes_before_it_comes() -> None:
    if os.environ["PMI_RANK"] == "1":
        end_s = time.monotonic() + 9
        while time.monotonic() < end_s:
            pass
    nothing_fails()


def comes_late() -> None:
    if os.environ["PMI_RANK"] == "1":
        time.sleep(8)
    nothing_fails()


def thread_raises() -> None:
    def work() -> None:
        raise ZeroDivisionError("in a thread")

    with celerity.Queue() as queue:
        field = filled(queue)
        if celerity.rank() == 1:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            time.sleep(60)
        queue.parallel_for(SHAPE, total, field.read(access.all()))
        queue.fence(field).result()


def rank_exits() -> None:
    queue = celerity.Queue()
    field = filled(queue)
    if celerity.rank() == 1:
        sys.exit(3)
    queue.parallel_for(SHAPE, total, field.read(access.all()))  # LINE rank_exits
    queue.fence(field).result()
    queue.wait()


def rank_is_killed() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        queue.wait()
        if celerity.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        queue.parallel_for(SHAPE, total, field.read(access.all()))
        queue.barrier()


def rank_is_interrupted() -> None:
    with celerity.Queue() as queue:
        queue.wait()
        if celerity.rank() == 1:
            signal.raise_signal(signal.SIGINT)
        queue.barrier()


def message_is_for_nobody() -> None:
    for_nobody = bytearray(make_pilot((0, 0, 0, 32, 32, 1)))
    struct.pack_into("<Q", for_nobody, 8, 999)  # the consumer task
    is_sent = threading.Event()

    def send_and_poll() -> Arrivals:  # on the executor thread
        if not is_sent.is_set():
            assert communicator.port is not None
            _native_testing.send_pilot(communicator.port, 1, bytes(for_nobody))
            is_sent.set()
        return poll()

    with celerity.Queue() as queue:
        field = filled(queue)
        communicator = lifecycle.current().communicator
        poll = communicator.poll
        if celerity.rank() == 0:
            communicator.poll = send_and_poll  # type: ignore[method-assign]
            is_sent.wait()
        queue.parallel_for(SHAPE, total, field.read(access.all()))


def mapper_overlaps() -> None:
    with celerity.Queue() as queue:
        field = celerity.Buffer(SHAPE, np.float64, name="field")
        queue.parallel_for(SHAPE, fill, field.write(lambda chunk: chunk.box.grow(1, 0)))


def mapper_names_too_little() -> None:
    with celerity.Queue() as queue:
        field = filled(queue)
        result = celerity.Buffer(SHAPE, np.float64, name="result")
        queue.parallel_for(  # LINE mapper_names_too_little
            SHAPE, reach_too_far, result.write(access.one_to_one()), field.read(access.one_to_one())
        )
        queue.fence(result).result()


def memory_is_short() -> None:
    with celerity.Queue() as queue:
        held = filled(queue, "held")
        huge = celerity.Buffer((1 << 50,), np.uint8, name="huge")
        queue.wait()
        queue.parallel_for(SHAPE[0], total, huge.write(access.even_split()))
        queue.wait()
        del held


if __name__ == "__main__":
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()
