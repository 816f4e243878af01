# SPDX-License-Identifier: MIT
"""Runs several programs at the same time in one process: on one runtime, or on streams by hand."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import celerity_py as celerity
from cluster_jobs.benchmarks.dags.dag_programs import Program, ResidentProgram
from cluster_jobs.benchmarks.dags.dag_regimes import in_turns
from cluster_jobs.benchmarks.dags.dag_schedules import SCHEDULES

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: How one runtime gets the programs: their steps in turns, or recorded and replayed.
SUBMITS = ("turns", "replay")


class Runner(Protocol):
    """Programs of one process, by their numbers in the case."""

    def renew(self, numbers: Sequence[int]) -> None:
        """Give programs their initial contents, and wait. With `ahead`, the inputs are on the device then."""

    def prepare(self, numbers: Sequence[int]) -> None:
        """Renew the inputs that the next run copies, if it copies any; not timed."""

    def start(self, numbers: Sequence[int], *, with_priorities: bool) -> dict[int, float]:
        """Run programs once, at the same time; when each of them had ended, by `time.monotonic`.

        The host waits for the programs in the given order, so that the time of the first one is exact.
        """

    def enter_thread(self) -> None:
        """Called first by each thread that calls `repeat`."""

    def repeat(self, number: int, runs: int) -> None:
        """Run a program several times in a row, and wait for a result of the last run. Each thread has a program."""

    def use_priorities(self, with_priorities: bool) -> None:
        """Choose the queues of the following calls of `repeat`."""

    def results(self, number: int) -> dict[str, NDArray[Any]]:
        """Copies of the results of a program."""

    def close(self) -> None:
        """Give back what belongs to the programs."""


def digest(results: Mapping[str, NDArray[Any]]) -> int:
    """A checksum of results."""
    value = 0
    for name in sorted(results):
        content: Any = np.ascontiguousarray(results[name]).reshape(-1).view(np.uint8)
        value = zlib.crc32(content, value)
    return value


class OursTogether(Runner):
    """Programs on one runtime; a queue with a priority for each of them, and one for all.

    Args:
        programs: By number.
        priorities: Of each program.
        ahead: `renew` copies the inputs to the device. Otherwise each run copies its dirty inputs.
        submit: Of `SUBMITS`.
        share: Of the multiprocessors, for the program of the highest priority.
    """

    def __init__(
        self,
        programs: Mapping[int, Program],
        priorities: Mapping[int, int],
        *,
        ahead: bool,
        submit: str,
        share: float | None = None,
    ) -> None:
        self.programs = programs
        self.ahead = ahead
        self.submit = submit
        #: By the numbers of the programs with their queues.
        self._recordings: dict[tuple[tuple[int, celerity.Queue], ...], celerity.Recording] = {}
        self._one_records = threading.Lock()
        self._queue = celerity.Queue()
        self._priorities = priorities
        self._by_priority: dict[int, celerity.Queue] = {}
        if share is not None:  # before the first submission
            self._make_queues({max(programs, key=priorities.__getitem__): share})
        self._residents = {
            number: ResidentProgram(program, self._queue, renewed=program.dirty) for number, program in programs.items()
        }

    def renew(self, numbers: Sequence[int]) -> None:
        """Renew by a host task and, with `ahead`, by kernels that read the inputs."""
        for number in numbers:
            self._residents[number].renew(self.programs[number].dirty)
            if self.ahead:
                self._residents[number].copy_ahead(self.programs[number].dirty)
        self._queue.wait()

    def prepare(self, numbers: Sequence[int]) -> None:
        """Write the dirty inputs on the host."""
        if not self.ahead:
            self.renew(numbers)

    def start(self, numbers: Sequence[int], *, with_priorities: bool) -> dict[int, float]:
        """Submit the kernels of all programs, and fences behind the last kernel of each."""
        self.use_priorities(with_priorities)
        asked: dict[int, dict[str, Any]] = {}
        if self.submit == "turns":
            chosen = [self._residents[number] for number in numbers]
            counts = [len(resident.program.steps) for resident in chosen]
            for part, step in in_turns(counts):
                chosen[part].submit_step(step)
                if step == counts[part] - 1:
                    asked[numbers[part]] = chosen[part].read_back()
        else:
            self._replay(numbers, 1)
            asked = {number: self._residents[number].read_back() for number in numbers}
        ends = {}
        for number in numbers:
            for future in asked[number].values():
                future.result()
            ends[number] = time.monotonic()
        return ends

    def enter_thread(self) -> None:
        """Nothing to do."""

    def repeat(self, number: int, runs: int) -> None:
        """Submit runs, and a fence."""
        resident = self._residents[number]
        if self.submit == "replay":
            self._replay([number], runs)
        else:
            for _ in range(runs):
                resident.run()
        for future in resident.read_back().values():
            future.result()

    def _replay(self, numbers: Sequence[int], runs: int) -> None:
        """Submit runs of programs, each on its queue; the first of all is recorded."""
        residents = [self._residents[number] for number in numbers]
        key = tuple((number, resident.queue) for number, resident in zip(numbers, residents, strict=True))
        if key not in self._recordings:

            def run() -> None:
                for resident in residents:
                    resident.submit_steps()

            with self._one_records:
                self._recordings[key] = self._queue.record(run)
            runs -= 1
        self._queue.replay(self._recordings[key], runs)

    def use_priorities(self, with_priorities: bool) -> None:
        """Give each program the queue of its priority, or the one for all."""
        if with_priorities and not self._by_priority:
            self._make_queues({})
        for number, resident in self._residents.items():
            resident.queue = self._by_priority[number] if with_priorities else self._queue

    def _make_queues(self, shares: Mapping[int, float]) -> None:
        for number in self.programs:
            share = shares.get(number)
            self._by_priority[number] = celerity.Queue(priority=self._priorities[number], multiprocessors=share)

    def results(self, number: int) -> dict[str, NDArray[Any]]:
        """Fetch them."""
        return self._residents[number].results()

    def close(self) -> None:
        """End the runtime."""
        self._recordings.clear()
        self._residents.clear()
        for queue in (*self._by_priority.values(), self._queue):
            queue.close()


class HandTogether(Runner):
    """Programs on streams and events by hand, one after the other; all streams of a program have its priority."""

    def __init__(
        self, programs: Mapping[int, Program], priorities: Mapping[int, int], *, ahead: bool, submit: str = "turns"
    ) -> None:
        from cluster_jobs.benchmarks.dags.dags_by_hand import Arrays, HandWritten

        self._variants: dict[int, HandWritten] = {}
        for number, program in programs.items():
            arrays, schedule = Arrays(program, from_host=True, ahead=ahead), SCHEDULES[program.name]
            # CUDA's highest priority has the lowest number.
            variant = HandWritten("b", arrays, schedule, from_host=True, priority=-priorities[number])
            self._variants[number] = variant

    def renew(self, numbers: Sequence[int]) -> None:
        """Upload the inputs that no run copies, and clear all other buffers."""
        for number in numbers:
            self._variants[number].reset()

    def prepare(self, numbers: Sequence[int]) -> None:
        """Nothing: the host's arrays stay as they are."""

    def start(self, numbers: Sequence[int], *, with_priorities: bool) -> dict[int, float]:
        """Issue the programs one after the other; streams have the priorities of their programs in any case."""
        for number in numbers:
            self._variants[number].submit_alone()
        ends = {}
        for number in numbers:
            self._variants[number].finish_alone()
            ends[number] = time.monotonic()
        return ends

    def enter_thread(self) -> None:
        """Choose the GPU for the thread."""
        for variant in self._variants.values():
            variant.arrays.cupy.cuda.runtime.setDevice(0)
            variant.arrays.driver.make_current()

    def repeat(self, number: int, runs: int) -> None:
        """Issue runs and the copies of the results."""
        variant = self._variants[number]
        for _ in range(runs):
            variant.submit()
        variant.submit_copies()
        variant.finish()

    def use_priorities(self, with_priorities: bool) -> None:
        """Nothing: streams have a priority for life."""

    def results(self, number: int) -> dict[str, NDArray[Any]]:
        """Copies of the arrays."""
        return self._variants[number].results()

    def close(self) -> None:
        """Forget the arrays."""
        self._variants.clear()


RUNNERS: dict[str, type[OursTogether] | type[HandTogether]] = {"ours": OursTogether, "hand": HandTogether}
