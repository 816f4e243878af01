# SPDX-License-Identifier: MIT
"""Programs whose reports name what is wrong with them; `python -m tests.support.reported_programs NAME` runs one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access


@celerity.kernel
def add_one(chunk: Any, view: Any) -> None:
    """A short kernel."""
    view[chunk.box] += 1


@celerity.kernel
def take_turns(chunk: Any, after: Any, before: Any, slow_rank: int) -> None:
    """A kernel that takes 5 ms, and 10.5 ms on one rank: a sleep takes longer on a busy machine."""
    time.sleep(10.5e-3 if celerity.rank() == slow_rank else 5e-3)
    after[chunk.box] = before.array.mean()


@celerity.kernel
def add_to_rows(chunk: Any, view: Any) -> None:
    """A kernel that changes all that it accesses."""
    view.array[...] += 1


def starve(queue: celerity.Queue) -> None:
    """The program computes for long between its submits."""
    u = celerity.Buffer.from_array(np.zeros(1024), name="u")
    for _ in range(40):
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
        queue.parallel_for(u.shape, add_one, u.read_write(access.one_to_one()), name="step")
    queue.wait()


def grow(queue: celerity.Queue) -> None:
    """Each step accesses some rows more than the one before, and lookahead is off."""
    u = celerity.Buffer.from_array(np.zeros((64, 65536), np.float32), name="u")
    for step in range(16):
        rows = celerity.Box((0, 0), (4 * step + 4, 65536))
        queue.parallel_for(1, add_to_rows, u.read_write(access.fixed(rows)), name="grow")
    queue.wait()


def look_at_each_step(queue: celerity.Queue) -> None:
    """The program looks at the result of each step before it submits the next one."""
    u = celerity.Buffer.from_array(np.zeros(1024), name="u")
    for _ in range(60):
        queue.parallel_for(u.shape, add_one, u.read_write(access.one_to_one()), name="step")
        if queue.fence(u, slice(0, 1)).result()[0] < 0:
            break


def map_slowly(queue: celerity.Queue) -> None:
    """The mapper is a Python function that computes."""

    def spread(chunk: Any) -> Any:
        np.sort(np.arange(20_000)[::-1])
        return chunk.box

    u = celerity.Buffer.from_array(np.zeros(1024), name="u")
    for _ in range(30):
        queue.parallel_for(u.shape, add_one, u.read_write(spread), name="mapped")
    queue.wait()


def exchange(queue: celerity.Queue, slow_rank: int = 1) -> None:
    """Ranks exchange halos, and one of them is slow."""
    u = celerity.Buffer.from_array(np.zeros((64, 64)), name="u")
    v = celerity.Buffer.from_array(np.zeros((64, 64)), name="v")
    for _ in range(30):
        halo = access.neighborhood(1, 0)
        queue.parallel_for(u.shape, take_turns, u.write(access.one_to_one()), v.read(halo), slow_rank, name="step")
        u, v = v, u
    queue.wait()


PROGRAMS: dict[str, tuple[Callable[[celerity.Queue], None], dict[str, Any]]] = {
    "starve": (starve, {}),
    "grow": (grow, {"lookahead": "none"}),
    "map_slowly": (map_slowly, {}),
    "look_at_each_step": (look_at_each_step, {}),
    "exchange": (exchange, {}),
}


def run(name: str, **settings: Any) -> None:
    """Run a program with its settings."""
    program, own = PROGRAMS[name]
    given = {**own, **settings}
    celerity.configure(**given)
    try:
        with celerity.Queue() as queue:
            program(queue)
    finally:
        celerity.configure(**dict.fromkeys(given))


if __name__ == "__main__":
    run(sys.argv[1])
