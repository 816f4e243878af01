# SPDX-License-Identifier: MIT
"""Smooths an array under `celerity-py run --restarts`: `restarted_program.py STEPS SLEEP_S`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    print("process", os.getpid(), flush=True)  # a rank may be killed from its first moment on

import numpy as np

import celerity_py as celerity
from celerity_py import access

if TYPE_CHECKING:
    import numpy.typing as npt

SIZE = 1000
EVERY = 4


def initial() -> npt.NDArray[np.float64]:
    return np.random.default_rng(1).random(SIZE)


@celerity.kernel
def smooth(chunk: Any, u_next: Any, u: Any) -> None:
    inner = chunk.box & u.shape_box.shrink(1)
    u_next[inner] = 0.25 * (u[inner.shift(-1)] + 2 * u[inner] + u[inner.shift(1)])


def expected(steps: int) -> npt.NDArray[np.float64]:
    u, u_next = initial(), initial()
    for _ in range(steps):
        u_next[1:-1] = 0.25 * (u[:-2] + 2 * u[1:-1] + u[2:])
        u, u_next = u_next, u
    return u


def main(steps: int, sleep_s: float) -> None:
    with celerity.Queue() as queue:
        restored = celerity.restore("memory", missing_ok=True)
        if restored is None:
            first = 0
            u, u_next = (celerity.Buffer.from_array(initial(), name=name) for name in ("u", "u_next"))
        else:
            first, u, u_next = restored.step, restored["u"], restored["u_next"]
        for step in range(first, steps):
            queue.parallel_for(u.shape, smooth, u_next.read_write(access.one_to_one()), u.read(access.neighborhood(1)))
            u, u_next = u_next, u
            if (step + 1) % EVERY == 0:
                celerity.checkpoint(queue, to="memory", contents={"u": u, "u_next": u_next}, step=step + 1)
            queue.wait()
            if celerity.is_master():
                print("step", step + 1, f"{time.monotonic():.3f}", flush=True)
            time.sleep(sleep_s)
        result = queue.fence(u).result()
    if celerity.is_master():
        print("result", result.tobytes().hex(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
