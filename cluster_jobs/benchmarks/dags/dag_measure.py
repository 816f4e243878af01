# SPDX-License-Identifier: MIT
"""Checks the variants of a DAG program, and times them in turns."""

from __future__ import annotations

import gc
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.dags.dag_programs import Program, ResidentProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

#: Longer than it takes to issue a whole program, so that nothing is complete when its successors are issued.
HOLD_US = 20_000
BATCH_S, ALONE_S = 0.01, 0.003
MOST_RUNS, MOST_ALONE = 200, 20
FEWEST_ROUNDS, WARM_UP_ROUNDS = 5, 3
CHECKED_RUNS = 2


class Variant(Protocol):
    """One way to run a program."""

    name: str

    def prepare(self) -> None:
        """Renew the dirty inputs on the host; not timed."""

    def submit(self) -> None:
        """Submit a run behind the one before."""

    def submit_in_a_row(self, count: int) -> None:
        """Submit so many runs."""
        for _ in range(count):
            self.submit()

    def finish(self) -> None:
        """Wait for all runs."""

    def submit_alone(self) -> None:
        """Submit a run by itself, with its copies from and to the host."""

    def finish_alone(self) -> None:
        """Wait for the run, and for the results on the host."""

    def reset(self) -> None:
        """Begin anew, from the initial contents."""

    def results(self) -> dict[str, NDArray[Any]]:
        """Copies of the results."""

    def read(self) -> dict[str, NDArray[Any]]:
        """The results of the latest run by itself, as the host has read them."""


class Ours(Variant):
    """The program on our runtime; begin with `reset`."""

    name = "d"

    def __init__(self, program: Program, queue: celerity.Queue, *, from_host: bool) -> None:
        self.program = program
        self.queue = queue
        self.from_host = from_host
        self._resident: ResidentProgram
        self._asked: dict[str, Any] = {}
        self._read: dict[str, NDArray[Any]] = {}

    def prepare(self) -> None:
        """Renew the dirty inputs by a host task."""
        if self.from_host:
            self._resident.renew(self.program.dirty)
            self.queue.wait()

    def submit(self) -> None:
        """Submit the kernels."""
        self._resident.run()

    def finish(self) -> None:
        """Wait for everything."""
        self.queue.wait()

    def submit_alone(self) -> None:
        """Submit the kernels, and fences for the results on the host."""
        self.submit()
        if self.from_host:
            self._asked = self._resident.read_back()

    def finish_alone(self) -> None:
        """Wait for the results on the host, or for everything."""
        if self.from_host:
            self._read = {name: future.result() for name, future in self._asked.items()}
        else:
            self.queue.wait()

    def reset(self) -> None:
        """Make new buffers."""
        self._resident = ResidentProgram(self.program, self.queue)

    def results(self) -> dict[str, NDArray[Any]]:
        """Fetch them."""
        return self._resident.results()

    def read(self) -> dict[str, NDArray[Any]]:
        """The results of the fences."""
        return self._read


class Replayed(Ours):
    """The program, recorded by `reset`, and replayed in all runs."""

    name = "d'"
    _recorded: celerity.Recording

    def submit(self) -> None:
        """Replay once."""
        self.submit_in_a_row(1)

    def submit_in_a_row(self, count: int) -> None:
        """Replay by one call."""
        self.queue.replay(self._recorded, count)
        self._resident.runs += count

    def reset(self) -> None:
        """Make new buffers and a new recording, and undo the recorded run: the results are those of replays."""
        super().reset()
        self._recorded = self.queue.record(self._resident.submit_steps)
        self._resident.runs += 1
        self._resident.renew(self.program.buffers)


def count_ours(program: Program, *, is_cuda: bool) -> dict[str, int]:
    """Waits between streams in a run with resident data, and compute streams used; in a runtime of its own.

    Args:
        program: Small: each kernel is held on the GPU until all of the program is issued.
        is_cuda: Whether there is a GPU.

    Returns:
        `lane_waits` as the engine counts them, `driver_waits` as the driver calls, if there is one, and `streams`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        celerity.configure(trace=str(path))
        try:
            with celerity.Queue() as queue:
                counted = ResidentProgram(program, queue, HOLD_US if is_cuda else 0).count_waits()
        finally:
            celerity.configure(trace=None)
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    return counted | {"streams": sum(re.fullmatch(r"D0 compute( \d+)?", track) is not None for track in tracks)}


# ---- checks


def first_results(variant: Variant, program: Program, *, from_host: bool) -> dict[str, NDArray[Any]]:
    """Run from the initial contents, compare with NumPy, and return the results.

    Raises:
        AssertionError: If a result differs.
    """
    results = _run_anew(variant, from_host=from_host)
    program.check(results, 1 if from_host else CHECKED_RUNS)
    if from_host:
        for name, read in variant.read().items():
            part = tuple(slice(extent) for extent in read.shape)
            assert np.array_equal(read, results[name][part]), f"{name}: the host has read something else"
    return results


def check_again(variant: Variant, first: Mapping[str, NDArray[Any]], *, from_host: bool) -> None:
    """After it has been timed: the same results, to the bit.

    Raises:
        AssertionError: If a result differs.
    """
    for name, result in _run_anew(variant, from_host=from_host).items():
        assert np.array_equal(result, first[name], equal_nan=result.dtype.kind == "f"), f"{name} is not what it was"


def _run_anew(variant: Variant, *, from_host: bool) -> dict[str, NDArray[Any]]:
    variant.reset()
    if from_host:
        variant.prepare()
        variant.submit_alone()
        variant.finish_alone()
    else:
        for _ in range(CHECKED_RUNS):
            variant.submit()
    variant.finish()
    return variant.results()


# ---- times


@dataclass
class Samples:
    """The measurements of a variant, in microseconds per run."""

    #: Runs that follow each other without waiting in between.
    in_a_row: list[float] = field(default_factory=list)
    #: Runs by themselves, each until the host knows that it is over.
    alone: list[float] = field(default_factory=list)
    #: Of these, until the calls that submit it have returned.
    submit: list[float] = field(default_factory=list)


def run_alone(variant: Variant) -> tuple[float, float]:
    """Microseconds of a run by itself, and those until it is submitted."""
    variant.prepare()
    begun = time.perf_counter()
    variant.submit_alone()
    submitted = time.perf_counter()
    variant.finish_alone()
    ended = time.perf_counter()
    return (ended - begun) * 1e6, (submitted - begun) * 1e6


def run_in_a_row(variant: Variant, count: int) -> float:
    """Microseconds per run."""
    begun = time.perf_counter()
    variant.submit_in_a_row(count)
    variant.finish()
    return (time.perf_counter() - begun) * 1e6 / count


@dataclass
class Pace:
    """The number of runs in a round."""

    in_a_row: int
    alone: int

    @classmethod
    def of(cls, variant: Variant, *, from_host: bool) -> Pace:
        """As much as fits into a round, by the speed of a variant."""
        seconds = min(run_alone(variant)[0] for _ in range(3)) / 1e6
        in_a_row = 0 if from_host else int(min(MOST_RUNS, max(2, BATCH_S / seconds)))
        return cls(in_a_row, int(min(MOST_ALONE, max(1, ALONE_S / seconds))))


def in_rounds(items: Sequence[T], rounds: Iterable[int], fewest: int, until: float) -> Iterator[tuple[int, T]]:
    """The turns of all items, each with its round, which is negative while it does not count.

    Each round begins with another item. No round begins after `until`, but for the fewest that are needed.
    """
    for number in rounds:
        if number >= fewest and time.monotonic() > until:
            return
        first = number % len(items)
        for item in (*items[first:], *items[:first]):
            yield number, item


def measure(
    variants: Sequence[Variant], pace: Pace, rounds: int, until: float
) -> tuple[dict[str, Samples], dict[str, str]]:
    """Time the variants in turns; each begins as often as any other.

    Args:
        variants: Checked.
        pace: How much is measured in a round.
        rounds: How many count, at most; some more come first.
        until: By `time.monotonic`, no round begins later, but for the fewest that are needed.

    Returns:
        The samples by variant, and what went wrong by variant.
    """
    samples = {variant.name: Samples() for variant in variants}
    problems: dict[str, str] = {}
    gc.collect()
    gc.disable()
    try:
        for number, variant in in_rounds(variants, range(-WARM_UP_ROUNDS, rounds), FEWEST_ROUNDS, until):
            if variant.name not in problems:
                kept = samples[variant.name] if number >= 0 else Samples()
                attempt(problems, variant.name, partial(_measure_round, variant, pace, kept))
    finally:
        gc.enable()
    return samples, problems


def _measure_round(variant: Variant, pace: Pace, samples: Samples) -> None:
    run_alone(variant)  # cores and GPU may have gone to sleep during the turns of the others
    if pace.in_a_row:
        samples.in_a_row.append(run_in_a_row(variant, pace.in_a_row))
    for _ in range(pace.alone):
        whole, submit = run_alone(variant)
        samples.alone.append(whole)
        samples.submit.append(submit)


def describe(error: BaseException) -> str:
    """An exception on a few lines."""
    return f"{type(error).__name__}: {error}"[:2000]


def attempt(problems: dict[str, str], name: str, call: Callable[[], T]) -> T | None:
    """Call a function; what it raises becomes the problem of that name, and None is returned."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
        problems[name] = describe(error)
        return None
