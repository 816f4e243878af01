# SPDX-License-Identifier: MIT
"""Kernels and buffers of recordings that several tests make."""

from __future__ import annotations

from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access

ONE = access.one_to_one()
START = np.arange(24, dtype=np.float32).reshape(4, 6)


@celerity.kernel
def add(chunk: Any, out: Any, given: Any, amount: float) -> None:
    out[chunk.box] = given[chunk.box] + amount


@celerity.kernel
def total(chunk: Any, given: Any, out: Any) -> None:
    out.combine(given.array.max())


@celerity.kernel
def use_one(chunk: Any, out: Any) -> None:
    out[chunk.box] += 1


class Fields:
    """Two buffers that take turns in a function of two kernels."""

    def __init__(self, queue: celerity.Queue) -> None:
        self.queue = queue
        self.old, self.new = (celerity.Buffer.from_array(START, name=name) for name in "uv")

    def step(self) -> None:
        for amount in (1.0, 2.0):
            self.queue.parallel_for((4, 6), add, self.new.write(ONE), self.old.read(ONE), amount)
            self.old, self.new = self.new, self.old

    def contents(self) -> Any:
        return self.queue.fence(self.old).result(20)
