# SPDX-License-Identifier: MIT
"""Calls of live programs with nothing to do: empty index spaces, boxes and buffers, and reductions over nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import Box, access

_ONE = access.one_to_one()


def _refuse(*_: Any) -> None:
    raise AssertionError("a function with an empty index space was called")


def _copy_sum(chunk: celerity.Chunk, out: Any, nothing: Any) -> None:
    out[chunk.box] = nothing[...].sum() + 1


class Nothing:
    """Makes such calls, which change none of the buffers that are given to them."""

    def __init__(self, queue: celerity.Queue, choices: random.Random) -> None:
        self._queue = queue
        self._choices = choices

    def call(self, buffer: celerity.Buffer[Any]) -> str:
        """Make one of the calls. Returns what is wrong."""
        shape = list(buffer.shape)
        if shape:
            shape[self._choices.randrange(len(shape))] = 0
        calls: list[Callable[[], str]] = [self._reduce, self._use_empty_buffer]
        if shape:
            calls += [lambda: self._launch(buffer, tuple(shape)), lambda: self._fill_and_copy(buffer, tuple(shape))]
        return self._choices.choice(calls)()

    def _launch(self, buffer: celerity.Buffer[Any], shape: tuple[int, ...]) -> str:
        accesses = buffer.read_write(_ONE), buffer.read(access.neighborhood(*(1 for _ in shape)))
        given = self._choices.choice(accesses)
        if self._choices.random() < 0.5:
            self._queue.parallel_for(shape, _refuse, given)
        else:
            self._queue.host_task(_refuse, given, on=shape)
        return ""

    def _fill_and_copy(self, buffer: celerity.Buffer[Any], shape: tuple[int, ...]) -> str:
        box = Box((0,) * len(shape), shape)
        self._queue.fill(buffer, np.zeros((), buffer.dtype)[()], box)
        self._queue.copy(buffer, buffer, box, box)
        return ""

    def _reduce(self) -> str:
        includes_current = self._choices.random() < 0.5
        total = celerity.Buffer.from_array(np.full(3, 5, np.int64), name="total")
        operation, identity = self._choice_of_operation()
        reduction = celerity.reduction(total, operation, include_current=includes_current)
        self._queue.parallel_for((4, 0), _refuse, reduction)
        found = self._queue.fence(total).result()
        expected = 5 if includes_current else identity
        return "" if (found == expected).all() else f"{operation} over nothing gives {found}, not {expected}"

    def _choice_of_operation(self) -> tuple[Any, int]:
        return self._choices.choice([("sum", 0), ("prod", 1)])

    def _use_empty_buffer(self) -> str:
        shape = self._choices.choice([(0,), (0, 3), (2, 0), (2, 0, 3)])
        contents = np.empty(shape, np.uint32)
        nothing: celerity.Buffer[Any] = (
            celerity.Buffer.from_array(contents) if self._choices.random() < 0.5 else celerity.Buffer(shape, np.uint32)
        )
        self._queue.fill(nothing, 3)
        self._queue.parallel_for(shape, _refuse, nothing.read_write(_ONE))
        out: celerity.Buffer[Any] = celerity.Buffer(4, np.uint32, name="out")
        self._queue.parallel_for(4, _copy_sum, out.write(_ONE), nothing.read(access.all()))
        found = self._queue.fence(nothing).result()
        sums = self._queue.fence(out).result()
        is_right = found.shape == shape and found.dtype == np.uint32 and (sums == 1).all()
        return "" if is_right else f"an empty buffer of shape {shape} gives {found.shape}, and the sums {sums}"
