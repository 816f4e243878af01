# SPDX-License-Identifier: MIT
"""The two parts of a hand-written program: the problem that it solves, and the worker that solves a GPU's share of it.

A step has a parity. Of two arrays, the first is read and the second written in even steps, the other way round in odd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

#: Enqueues a step of a parity.
Step = Callable[[int], None]
AnyWorker = TypeVar("AnyWorker", bound="Worker")


class Problem(ABC):
    """A problem of the size and with the steps that the command line asks for."""

    default_size: ClassVar[int]
    size_help: ClassVar[str]
    default_steps: ClassVar[int] = 200
    #: Steps are so long that few of them are timed.
    has_long_steps: ClassVar[bool] = False
    #: Each check begins with the initial contents; otherwise where the check of the variant before has ended.
    starts_over: ClassVar[bool] = True

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options

    @property
    def checked_steps(self) -> int:
        """Steps of a check of one variant."""
        return (int(self.options.steps) // 2 + 1) * 2

    def extents(self) -> dict[str, int]:
        """Extents besides the size, for the figures."""
        return {}

    @abstractmethod
    def verdict(self, results: Sequence[NDArray[Any]], steps: int) -> int:
        """Compare the results of all GPUs after some steps with NumPy, and print the verdict; the exit status."""


class Worker(ABC):
    """One GPU with its share of the problem, and its streams."""

    share: Any  # has `result()`, and `reset()` if the problem starts over
    streams: tuple[Any, ...]

    def connect(self, workers: list[Self]) -> None:  # noqa: B027 - ranks find each other through NCCL
        """Find the memory of the other GPUs of this process."""

    @classmethod
    @abstractmethod
    def variants(cls, workers: list[Self]) -> dict[str, Step]:
        """By name, the ways to enqueue a step on all GPUs of this process."""

    def synchronize(self) -> None:
        """Wait for all streams."""
        for stream in self.streams:
            stream.synchronize()


def on_each(workers: list[AnyWorker], enqueue: Callable[[AnyWorker, int], None]) -> Step:
    """A step that is enqueued on one GPU after the other."""
    steps = [partial(enqueue, worker) for worker in workers]
    if len(steps) == 1:
        return steps[0]

    def step(parity: int) -> None:
        for enqueue_here in steps:
            enqueue_here(parity)

    return step


def rows_of(rows: int, part: int, parts: int, fewest: int = 0) -> tuple[int, int]:
    """The first row of a part and the one behind its last.

    Raises:
        SystemExit: If a part has fewer than `fewest`.
    """
    if rows // parts < fewest:
        raise SystemExit(f"{rows} rows are too few for {parts} GPUs")
    return rows * part // parts, rows * (part + 1) // parts


def reach(devices: Iterable[int]) -> None:
    """Let the current GPU use the memory of others."""
    import cupy

    for device in devices:
        cupy.cuda.runtime.deviceEnablePeerAccess(device)


def others_of(device: int, count: int) -> list[int]:
    """All GPUs but one."""
    return [other for other in range(count) if other != device]
