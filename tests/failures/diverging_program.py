# SPDX-License-Identifier: MIT
"""Runs a program in which rank 1 does one thing otherwise: the one that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access, hints

N, STEPS, ODD_STEP = 64, 30, 11


@celerity.kernel
def step(chunk: Any, new: Any, old: Any, factor: float) -> None:
    inner = chunk.box & old.shape_box.shrink(1)
    new[inner] = factor * (old[inner.shift(-1)] + old[inner.shift(1)])


@celerity.kernel
def other(chunk: Any, new: Any, old: Any, factor: float) -> None:
    new[chunk.box] = factor * old[chunk.box]


def look(part: Any, view: Any) -> None:
    """A host task that only reads."""


def shape_of(odd: bool) -> None:
    celerity.Buffer((N + odd,), name="made")


def dtype_of(odd: bool) -> None:
    celerity.Buffer((N,), np.int32 if odd else np.float32, name="made")


def element_of(odd: bool) -> None:
    celerity.Buffer((N,), np.float32, element=(3, 3 + odd), name="made")


def contents_of(odd: bool) -> None:
    celerity.Buffer.from_array(np.full(N, 1 + odd, np.float32), name="made")


def initializer_of(odd: bool) -> None:
    make = (lambda box: np.ones(box.shape)) if odd else (lambda box: np.zeros(box.shape))
    celerity.Buffer.from_function((N,), np.float32, make, name="made")


def kernel(odd: bool) -> None:
    submit(other if odd else step, name="step")


def name(odd: bool) -> None:
    submit(step, name="odd" if odd else "even")


def scalar(odd: bool) -> None:
    submit(step, factor=0.25 + odd)


def index_space(odd: bool) -> None:
    submit(step, shape=N - odd)


def mode(odd: bool) -> None:
    submit(step, write=odd)


def hint(odd: bool) -> None:
    submit(step, hints=hints.oversubscribe(2) if odd else ())


def weights(odd: bool) -> None:
    submit(step, hints=hints.weights((2, 1) if odd else (1, 2)))


def halo(odd: bool) -> None:
    submit(step, reach=1 + odd)


def constrain(odd: bool) -> None:
    submit(step, constrain=8 if odd else 4)


def extra_task(odd: bool) -> None:
    if odd:
        submit(step)


def missing_task(odd: bool) -> None:
    if not odd:
        submit(step)


def extra_fence(odd: bool) -> None:
    if odd:
        queue.fence(u).result()


def box_of_fence(odd: bool) -> None:
    queue.fence(u, celerity.Box((0,), (N - odd,))).result()


def extra_wait(odd: bool) -> None:
    if odd:
        queue.wait()


def extra_barrier(odd: bool) -> None:
    if odd:
        queue.barrier()


def on_of_fence(odd: bool) -> None:
    queue.fence(u, on="master" if odd else "all")


def to_of_fence(odd: bool) -> None:
    queue.fence(u, to="device" if odd else "host")


def local_contents(odd: bool) -> None:
    """One rank alone waits for the boxes of the other one."""
    if odd:
        celerity.Buffer.from_local(N, np.float32, [], name="made")


def shape_of_local(odd: bool) -> None:
    celerity.Buffer.from_local(N + odd, np.float32, [], name="made")


def on_of_host_task(odd: bool) -> None:
    queue.host_task(look, u.read(access.all()), on="master" if odd else "once")


def unordered(odd: bool) -> None:
    queue.host_task(look, u.read(access.all()), unordered=odd)


def host_objects(odd: bool) -> None:
    first, second = celerity.HostObject([1]), celerity.HostObject([2])
    queue.host_task(lambda part, numbers: None, (second if odd else first).side_effect(), name="look")


def collective(odd: bool) -> None:
    """One rank alone waits for the other one in MPI."""
    if odd:
        queue.collective(lambda part: part.comm.Barrier(), name="meet")


def group(odd: bool) -> None:
    for name in ("a", "b"):
        queue.collective(lambda part: part.comm.Barrier(), group=name)
    queue.collective(lambda part: part.comm.Barrier(), group="a" if odd else "b")


def group_of_rank(odd: bool) -> None:
    """As if the ranks of each group had a communicator of their own."""
    queue.collective(lambda part: part.comm.Barrier(), group="odd" if odd else "even")


def identity(odd: bool) -> None:
    target = celerity.reduction(celerity.Buffer((), np.float32), np.maximum, identity=-int(odd))
    queue.parallel_for(N, lambda chunk, out: out.combine(np.float32(1)), target)


def order(odd: bool) -> None:
    """As if each rank went through a set."""
    for buffer in (v, u) if odd else (u, v):
        queue.host_task(look, buffer.read(access.all()), on=N)


def replays(odd: bool) -> None:
    recorded = queue.record(lambda: submit(other, name="recorded"))
    queue.replay(recorded, 3 + odd)


def value_of_replay(odd: bool) -> None:
    recorded = queue.record(lambda factor: submit(step, factor=factor), factor=0.25)
    queue.replay(recorded, 3, factor=0.5 + odd)


def loop(odd: bool) -> None:
    for _ in queue.until(lambda: queue.fence(w), every=2, at_most=9, when=lambda ones: odd or ones.sum() < 0):
        submit(step)


def priority(odd: bool) -> None:
    with celerity.Queue(priority=1 + odd) as urgent:
        urgent.parallel_for(N, fill, w.write(access.one_to_one()))


def early_end(odd: bool) -> None:
    if odd:
        queue.wait()
        sys.exit(0)


def exit_at_once(odd: bool) -> None:
    if odd:
        sys.exit(0)


def no_communication(odd: bool) -> None:
    """Nothing of this travels: only the claims tell."""
    for _ in range(3):
        queue.parallel_for(N, fill, w.write(access.one_to_one()), name="odd" if odd else "fill")
    queue.wait()
    import time

    time.sleep(5)


def last_task(odd: bool) -> None:
    if odd:
        queue.parallel_for(N, fill, w.write(access.one_to_one()))


def last_fence(odd: bool) -> None:
    if odd:
        queue.fence(w).result()


def last_wait(odd: bool) -> None:
    if odd:
        queue.wait()


@celerity.kernel
def fill(chunk: Any, out: Any) -> None:
    out[chunk.box] = 1


def submit(
    what: Any, *, shape: int = N, factor: float = 0.5, reach: int = 1, write: bool = False, **options: Any
) -> None:
    access_of = v.write if write else v.read_write
    queue.parallel_for(
        shape, what, access_of(access.one_to_one()), u.read(access.neighborhood(reach)), factor, **options
    )


AT_THE_END = {last_task, last_fence, last_wait}  # nobody waits for them, and nothing of them travels
mistake: Callable[[bool], None] = globals()[sys.argv[1]]
print(f"mistake at line {mistake.__code__.co_firstlineno}", flush=True)
with celerity.Queue() as queue:
    u = celerity.Buffer.from_array(np.arange(N, dtype=np.float32), name="u")
    v = celerity.Buffer.from_array(np.arange(N, dtype=np.float32), name="v")
    w = celerity.Buffer((N,), name="w")
    queue.parallel_for(N, fill, w.write(access.one_to_one()))
    queue.fence(w).result()
    for i in range(STEPS):
        if i == ODD_STEP and mistake not in AT_THE_END:
            mistake(celerity.rank() == 1)
        submit(step)
        u, v = v, u
    queue.fence(u).result()
    if mistake in AT_THE_END:
        mistake(celerity.rank() == 1)
print("finished")
