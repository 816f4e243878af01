# SPDX-License-Identifier: MIT
"""Programs for `test_contexts.py`: `python context_programs.py <name>`."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import lifecycle

SIZE = 4096


def contexts() -> list[int]:
    """The GPUs on which this process has a context."""
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    assert driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    found = []
    for ordinal in range(count.value):
        flags, active = ctypes.c_uint(), ctypes.c_int()
        assert driver.cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(active)) == 0
        found += [ordinal] if active.value else []
    return found


def add(chunk: Any, out: Any, values: Any) -> None:
    out[chunk.box] = values[chunk.box] + chunk.xp.float32(1)


def steps(queue: celerity.Queue) -> float:
    """Five additions of one to each element, each with a reduction. Returns the sum of all elements."""
    u = celerity.Buffer.from_array(np.zeros(SIZE, np.float32), name="u")
    v = celerity.Buffer(SIZE, np.float32, name="v")
    total = celerity.Buffer((), np.float32, name="total")
    for _ in range(5):
        queue.parallel_for(SIZE, add, v.write(access.one_to_one()), u.read(access.one_to_one()))
        u, v = v, u
        queue.parallel_for(
            SIZE,
            lambda chunk, values, out: out.combine(values[chunk.box].sum()),
            u.read(access.one_to_one()),
            celerity.reduction(total, "sum"),
        )
        queue.wait()
    return float(queue.fence(total).result())


def only_own_gpus() -> None:
    with celerity.Queue() as queue:
        own = lifecycle.current().devices.ordinals
        assert steps(queue) == 5 * SIZE
        assert contexts() == sorted(own), f"contexts on {contexts()}, but this rank drives {own}"
    print(f"contexts on {contexts()} only")


def sum_on_all_ranks() -> None:
    with celerity.Queue() as queue:
        print(steps(queue))


def memory_is_taken() -> None:
    try:
        celerity.Queue()
    except celerity.errors.ResourceError as error:
        print(f"ResourceError: {error}")


def write_through_a_read_access() -> None:
    def kernel(chunk: Any, out: Any, values: Any) -> None:
        values[chunk.box][...] = 3
        out[chunk.box] = values[chunk.box]

    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.zeros(SIZE, np.float32), name="u")
        v = celerity.Buffer(SIZE, np.float32, name="v")
        queue.parallel_for(SIZE, kernel, v.write(access.one_to_one()), u.read(access.one_to_one()))
        queue.wait()


if __name__ == "__main__":
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()
