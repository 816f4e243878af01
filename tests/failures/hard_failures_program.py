# SPDX-License-Identifier: MIT
"""Failures that are hard to report, for `test_hard_failures.py`: `python hard_failures_program.py <name>`."""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Callable

STARTS_BEFORE = 3


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


class Particular(celerity.CelerityError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def refuse_start(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def is_culprit() -> bool:
    return celerity.rank() == 1 or celerity.size() == 1


def run_kernel(fail: Callable[[], None]) -> None:
    def faulty(chunk: Any, out: Any) -> None:
        if is_culprit():
            fail()
        out[...] = 1

    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8)
        queue.parallel_for(8, faulty, buffer.write(access.one_to_one()))  # LINE faulty
        queue.fence(buffer).result()


def kernel_raises_what_has_no_text() -> None:
    def fail() -> None:
        raise UnprintableError

    run_kernel(fail)


def kernel_raises_an_error_with_arguments() -> None:
    def fail() -> None:
        raise Particular(1, 2)

    run_kernel(fail)


def host_task_raises_what_has_no_text() -> None:
    def faulty(part: Any) -> None:
        if is_culprit():
            raise UnprintableError

    with celerity.Queue() as queue:
        queue.host_task(faulty, on=celerity.size())
        queue.wait()


def kernel_raises_without_a_thread_left() -> None:
    def fail() -> None:
        threading.Thread.start = refuse_start  # type: ignore[method-assign]
        raise ValueError("a bad cell")

    run_kernel(fail)


def kernel_raises_without_memory_left() -> None:
    def fail() -> None:
        limit_memory(1 << 20)
        raise ValueError("a bad cell")

    run_kernel(fail)


def host_tasks_without_a_thread_left() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer.from_array(np.zeros(8))
        queue.wait()
        threading.Thread.start = refuse_start  # type: ignore[method-assign]

        def add(part: Any, view: Any) -> None:
            view[...] += 1

        for _ in range(5):
            queue.host_task(add, buffer.read_write(access.all()), on="master")
        print(queue.fence(buffer).result().sum())


def no_thread_at_the_start() -> None:
    start, started = threading.Thread.start, [0]

    def refuse_later(self: threading.Thread) -> None:
        started[0] += 1
        if started[0] > STARTS_BEFORE:
            refuse_start(self)
        start(self)

    threading.Thread.start = refuse_later  # type: ignore[method-assign]
    try:
        celerity.Queue()
    except celerity.CelerityError as error:
        print(type(error).__name__, error)
    threading.Thread.start = start  # type: ignore[method-assign]
    succeed()


def limit_memory(left_bytes: int) -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + left_bytes, resource.RLIM_INFINITY))


def no_memory_at_the_start() -> None:
    celerity.rank()  # imports what a program imports
    limit_memory(12 << 20)  # a stack, and a little
    try:
        celerity.Queue()
    except celerity.CelerityError as error:
        print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    succeed()


def succeed() -> None:
    with celerity.Queue() as queue:
        buffer = celerity.Buffer(8)
        queue.parallel_for(8, lambda chunk, view: view.array.fill(1), buffer.write(access.one_to_one()))
        print(queue.fence(buffer).result().sum())


if __name__ == "__main__":
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()
