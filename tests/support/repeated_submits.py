# SPDX-License-Identifier: MIT
"""Submits that are repeated: a kernel that is submitted again and again, and the number of submits by native code."""

from __future__ import annotations

from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access
from celerity_py.runtime import lifecycle
from tests.support.kernels import iota

ONE = access.one_to_one()
START = np.arange(24, dtype=np.float32).reshape(4, 6)


def runtime() -> Any:
    return lifecycle.current()


def repeated() -> int:
    """Submits by native code so far."""
    return int(runtime().submitter.num_repeated)


@celerity.kernel
def add(chunk: celerity.Chunk, out: celerity.View, given: celerity.View, amount: float) -> None:
    out[chunk.box] = given[chunk.box] + amount


class Fields:
    """Two buffers, and the kernel that adds a number to the elements of the other one; submitted once already."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.old, self.new = (celerity.Buffer((4, 6), np.float32, name=name) for name in "uv")
        queue.parallel_for((4, 6), iota, self.old.write(ONE))
        self.add(0.0)

    def add(self, amount: Any, shape: Any = (4, 6), kernel: Any = add, **settings: Any) -> None:
        self.queue.parallel_for(shape, kernel, self.new.write(ONE), self.old.read(ONE), amount, **settings)
        self.old, self.new = self.new, self.old

    def contents(self) -> Any:
        return self.queue.fence(self.old).result(20)
