# SPDX-License-Identifier: MIT
"""Ranks that go different ways, for `test_lonely_ranks.py`: `python lonely_program.py <name>`."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    from collections.abc import Callable


def compute() -> float:
    with celerity.Queue() as queue:
        return float(queue.fence(celerity.Buffer.from_array(np.ones(8))).result().sum())


def only_the_master_makes_a_queue() -> None:
    if celerity.is_master():
        compute()


def only_the_last_rank_makes_a_queue() -> None:
    if celerity.rank() == celerity.size() - 1:
        compute()


def one_rank_exits_before_the_queue() -> None:
    if celerity.rank() == 1:
        sys.exit(0)
    compute()


def one_rank_ends_after_it_has_imported_mpi() -> None:
    from mpi4py import MPI  # ends in MPI_Finalize, which waits for the others

    if MPI.COMM_WORLD.Get_rank() != 1:
        compute()


def one_rank_raises_before_the_queue() -> None:
    if celerity.rank() == 1:
        raise ValueError("no input")
    compute()


def one_rank_raises_before_any_call() -> None:
    if os.environ["PMI_RANK"] == "1":
        raise ValueError("no input")
    compute()


def only_the_master_makes_another_queue() -> None:
    compute()
    if celerity.is_master():
        compute()


def all_make_queues_and_ask_for_their_rank() -> None:
    celerity.rank()
    for _ in range(3):
        assert compute() == 8
        celerity.is_master()


def all_make_no_queue() -> None:
    celerity.rank()


def a_child_makes_a_queue() -> None:
    assert compute() == 8
    child = multiprocessing.get_context("spawn").Process(target=compute_alone)
    child.start()
    child.join(30)
    print(f"rank {celerity.rank()}: {child.exitcode}", flush=True)


def compute_alone() -> None:
    assert celerity.size() == 1
    assert compute() == 8


has_begun = threading.Event()


def find_mpi_files() -> list[str]:
    return re.findall(r"/dev/shm/mpich_shm_\w+", Path("/proc/self/maps").read_text())


def step(chunk: Any, view: Any) -> None:
    view[chunk.box] += 1
    has_begun.set()
    time.sleep(0.05)


def a_signal_ends_rank_1() -> None:
    number = int(sys.argv[2])
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(8), name="u")
        for _ in range(30):
            queue.parallel_for(8, step, u.read_write(access.one_to_one()))  # LINE step
        future = queue.fence(u)  # everything runs from here on
        print(*find_mpi_files(), flush=True)
        if number and celerity.rank() == 1:
            has_begun.wait()
            os.kill(os.getpid(), number)
        future.result()


def rank_1_crashes_in_a_kernel() -> None:
    import ctypes

    def crash(chunk: Any, view: Any) -> None:
        view[chunk.box] += 1
        if celerity.rank() == 1:
            ctypes.string_at(0)

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(8), name="u")
        queue.parallel_for(8, crash, u.read_write(access.one_to_one()))
        queue.wait()


def ranks_order_threads_differently() -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(8), name="u")

        def submit() -> None:
            def add(chunk: Any, view: Any) -> None:
                view[chunk.box] += 1

            name = threading.current_thread().name
            queue.parallel_for(8, add, u.read_write(access.one_to_one()), name=f"add of {name}")

        threads = [threading.Thread(target=submit, name=name) for name in ("low", "high")]
        for thread in threads if celerity.rank() == 0 else reversed(threads):
            thread.start()
            thread.join()
        queue.wait()


if __name__ == "__main__":
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()
