# SPDX-License-Identifier: MIT
"""Programs that fork, for `test_forks.py`: `python forking_program.py <name>`."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python warn of forks in processes with threads


@celerity.kernel
def add(chunk: Any, view: Any) -> None:
    view[chunk.box] += 1


def report(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def wait_for(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def submit(queue: celerity.Queue, buffer: celerity.Buffer) -> None:
    queue.parallel_for(8, add, buffer.read_write(access.one_to_one()))


@contextlib.contextmanager
def parent() -> Iterator[tuple[celerity.Queue, celerity.Buffer]]:
    """A program that submits before and after the body, and reports its result."""
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8))
        submit(queue, buffer)
        yield queue, buffer
        submit(queue, buffer)
        report(f"parent {queue.fence(buffer).result().sum()}")


def calls_in_the_child() -> None:
    with parent() as (queue, buffer):
        pending = queue.fence(buffer)
        child = os.fork()
        if child == 0:
            calls: list[Callable[[], object]] = [
                lambda: submit(queue, buffer),
                lambda: queue.host_task(print),
                lambda: queue.fence(buffer),
                queue.wait,
                queue.barrier,
                queue.flush,
                queue.statistics,
                celerity.Queue,
                lambda: celerity.Buffer(8),
                lambda: celerity.Buffer.from_array(np.zeros(8)),
                queue.close,
            ]
            for call in calls:
                try:
                    call()
                    report("no error")
                except celerity.errors.ForkedProcess as error:
                    is_named = f"forked from rank {celerity.rank()} (process {os.getppid()})" in str(error)
                    report("refused" if is_named else str(error))
            try:
                report(f"result {pending.result(10).sum()}")  # it may have been there before
            except celerity.errors.ForkedProcess:
                report("result refused")
            del buffer, queue
            os._exit(0)
        assert wait_for(child) == 0


def end_a_child(error: BaseException) -> None:
    child = os.fork()
    if child == 0:
        raise error
    report(f"child {wait_for(child)}")


def child_exits_normally() -> None:
    with parent():
        end_a_child(SystemExit(3))


def child_raises() -> None:
    with parent() as (queue, _):
        queue.wait()
        end_a_child(ZeroDivisionError("in the child"))


ENDS: dict[str, BaseException | None] = {"return": None, "exit": SystemExit(5), "raise": ZeroDivisionError("in a task")}


def fork_in_a_call(part: Any, view: Any, end: str) -> None:
    child = os.fork()
    if child == 0:
        error = ENDS[end]
        if error is not None:
            raise error
        return
    report(f"child of a {'host task' if isinstance(part, celerity.Part) else 'kernel'}: {wait_for(child)}")


def tasks_fork() -> None:
    with parent() as (queue, buffer):
        for end in ENDS:
            queue.host_task(fork_in_a_call, buffer.read(access.all()), end)
            queue.parallel_for(1, fork_in_a_call, buffer.read_write(access.all()), end)
        queue.wait()


def square(number: int) -> int:
    return number * number


def multiprocessing_forks() -> None:
    with parent(), multiprocessing.get_context("fork").Pool(2) as pool:
        report(f"pool {sum(pool.map(square, range(10)))}")


def subprocess_runs() -> None:
    with parent():
        code = "import celerity_py as c, numpy as np; b = c.Buffer.from_array(np.ones(4)); q = c.Queue(); "
        code += "print(q.fence(b).result())"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "HYD"))}
        outcome = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=30
        )
        report(f"subprocess {outcome.stdout.strip()}")


def fork_between_runtimes() -> None:
    def run() -> None:
        with parent():
            pass

    run()
    child = os.fork()
    if child == 0:
        try:
            run()
        except celerity.errors.ForkedProcess:
            report("refused")
        os._exit(0)
    assert wait_for(child) == 0
    run()


if __name__ == "__main__":
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()
