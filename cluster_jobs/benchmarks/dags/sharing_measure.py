# SPDX-License-Identifier: MIT
"""Starts the ways to share a GPU, and measures them in turns."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cluster_jobs.benchmarks.dags import dag_measure
from cluster_jobs.benchmarks.dags.sharing_processes import Job, MultiProcessService, Setting, Task, Worker
from cluster_jobs.benchmarks.dags.sharing_programs import bytes_of

T = TypeVar("T")

#: The ways to run the programs of a case at the same time.
WAYS = {
    "priorities": "one runtime, priorities",
    "one": "one runtime",
    "split": "one runtime, priorities and a split",
    "slices": "processes, time slices",
    "mps": "processes, MPS",
    "streams": "streams by hand",
}
ON_CPU = ("priorities", "one", "split", "slices")
#: From the message to the processes until they begin.
LEAD_S = 0.003
#: Until processes have loaded CUDA, compiled their kernels, checked small programs and run the large ones once.
START_S = 100.0
MOST_STARTS, FEWEST_ROUNDS, WARM_UP_ROUNDS = 30, 3, 1
#: Of the memory that buffers take, and of a process for its context and kernels.
_SLACK, _CONTEXT_BYTES = 1.1, 700_000_000


@dataclass
class Way:
    """A way to share the GPU whose processes run."""

    name: str
    workers: list[Worker]
    with_priorities: bool
    digests: dict[int, int]
    problem: str = ""

    def of(self, numbers: Iterable[int]) -> list[tuple[Worker, list[int]]]:
        """The processes that have some of the programs, with these programs."""
        wanted = list(numbers)
        parts = [(worker, [number for number in wanted if number in worker.numbers]) for worker in self.workers]
        return [(worker, part) for worker, part in parts if part]


def tasks_of(way: str, setting: Setting, environment: Mapping[str, str]) -> list[Task]:
    """The processes of a way."""
    numbers = range(len(setting.programs))
    groups = [[number] for number in numbers] if way in {"slices", "mps"} else [list(numbers)]

    def task_of(group: list[int]) -> Task:
        trace = f"{setting.case.name}-{way}-{'+'.join(map(str, group))}.json"
        return Task(
            name=f"{way} {'+'.join(setting.case.programs[number] for number in group)}",
            kind="hand" if way == "streams" else "ours",
            numbers=group,
            setting=setting,
            share=setting.share if way == "split" else None,
            trace=str(setting.traces / trace) if setting.traces else "",
            environment=environment,
        )

    return [task_of(group) for group in groups]


def groups_that_fit(names: Sequence[str], setting: Setting, free_bytes: float | None) -> list[list[str]]:
    """The ways in groups whose processes fit on the GPU at the same time; the two with one runtime share a process.

    Args:
        names: Of `WAYS`.
        setting: What is measured.
        free_bytes: Of the GPU; None if nobody knows.
    """
    data = _SLACK * sum(bytes_of(program) for program in setting.programs)
    groups: list[list[str]] = []
    used = 0.0
    for name in names:
        count = len(setting.programs) if name in {"slices", "mps"} else 1
        needed = data + count * _CONTEXT_BYTES
        if name == "one" and groups and "priorities" in groups[-1]:
            needed = 0
        if not groups or (free_bytes is not None and used + needed > free_bytes):
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += needed
    return groups


@contextlib.contextmanager
def running(names: Sequence[str], setting: Setting) -> Iterator[list[Way]]:
    """The ways with their processes, which have been checked; a way that fails is a problem of the setting."""
    ways: list[Way] = []
    with contextlib.ExitStack() as stack:
        begun: list[tuple[Way, MultiProcessService | None]] = []
        for name in names:
            begin = functools.partial(_begin, name, setting, [way for way, _ in begun], stack)
            started = dag_measure.attempt(setting.problems, name, begin)
            begun += [started] if started else []
        for way, service in begun:
            attempt(way, setting, functools.partial(_complete, service=service, ways=ways))
            if not way.problem:
                ways.append(way)
        yield ways
        again = list({id(way.workers): way for way in ways if not way.problem}.values())
        for call in (_ask_again, _compare):  # all processes at the same time
            for way in again:
                if not way.problem:
                    attempt(way, setting, call)
        for way in ways:
            for other in again:
                if other.workers is way.workers and other.problem:
                    way.problem = setting.problems[way.name] = other.problem


def _begin(
    name: str, setting: Setting, ways: Sequence[Way], stack: contextlib.ExitStack
) -> tuple[Way, MultiProcessService | None]:
    """Start the processes of a way; they prepare themselves at the same time as those of other ways."""
    with_priorities = name in {"priorities", "split"}
    sibling = next((way for way in ways if {name, way.name} == {"priorities", "one"}), None)
    if sibling:
        return Way(name, sibling.workers, with_priorities, sibling.digests), None
    service = None
    if name == "mps":
        service = MultiProcessService()
        stack.callback(service.stop)
    workers = []
    for task in tasks_of(name, setting, service.variables if service else {}):
        workers.append(Worker(task))
        stack.callback(workers[-1].end)
    return Way(name, workers, with_priorities, {}), service


def _complete(way: Way, service: MultiProcessService | None, ways: Sequence[Way]) -> None:
    """Wait until the processes have checked themselves, and compare their results with those of another way."""
    if not way.digests:
        for worker in way.workers:
            way.digests |= worker.answer(START_S)
    if service and not service.has_clients():
        raise RuntimeError("the processes run without MPS, although its daemon is there")
    for other in ways[:1]:
        if way.digests != other.digests:
            raise AssertionError(f"the results differ from those of {other.name}")


def _ask_again(way: Way) -> None:
    for worker in way.workers:
        worker.ask("digests")


def _compare(way: Way) -> None:
    """Compare results with those before the measurement."""
    found: dict[int, int] = {}
    for worker in way.workers:
        found |= worker.answer()
    if found != way.digests:
        raise AssertionError("the results have changed")


def attempt(way: Way, setting: Setting, call: Callable[[Way], T]) -> T | None:
    """Do something with a way; what goes wrong is its problem, and None is returned."""
    found = dag_measure.attempt(setting.problems, way.name, functools.partial(call, way))
    way.problem = setting.problems.get(way.name, "")
    return found


# ---- one run of each program


@dataclass
class Start:
    """A run of each program from a common moment, in seconds."""

    ends: dict[int, float]
    late: float


def start(way: Way, numbers: Sequence[int]) -> Start:
    """Let programs run once, from the same moment on."""
    parts = way.of(numbers)
    for worker, part in parts:
        worker.ask("prepare", part)
    for worker, _ in parts:
        worker.answer()
    moment = time.monotonic() + LEAD_S
    for worker, part in parts:
        worker.ask("start", part, moment, way.with_priorities)
    ends: dict[int, float] = {}
    late = 0.0
    for worker, _ in parts:
        its_late, its_ends = worker.answer()
        late = max(late, its_late)
        ends |= {number: end - moment for number, end in its_ends.items()}
    return Start(ends, late)


def in_rounds(ways: Sequence[Way], rounds: int, until: float) -> Iterator[tuple[int, Way]]:
    """The turns of the ways that have no problem, and the round, which is negative while it does not count."""
    turns = dag_measure.in_rounds(ways, range(-WARM_UP_ROUNDS, rounds), FEWEST_ROUNDS, until)
    return ((number, way) for number, way in turns if not way.problem)


def measure_starts(ways: Sequence[Way], setting: Setting, rounds: int, until: float) -> dict[str, dict[str, Any]]:
    """Starts of all programs, and of each by itself, in turns; seconds by way.

    The program with the highest priority starts by itself as often as all programs together, the others once in a turn.
    """
    everything = range(len(setting.programs))

    def nothing() -> dict[str, Any]:
        return {"together": [], "alone": {number: [] for number in everything}, "late": [], "rounds": 0}

    found = {way.name: nothing() for way in ways}
    seconds: dict[str, float] = {}
    budget = until - time.monotonic()

    def turn(way: Way, count: int) -> None:
        into = found[way.name]
        # In a row: the runtime recognises what a replay has in common with the one before.
        together = [start(way, everything) for _ in range(count)]
        alone = [start(way, [0]) for _ in range(count)]
        into["together"] += [begun.ends for begun in together]
        into["alone"][0] += [begun.ends[0] for begun in alone]
        into["late"] += [begun.late for begun in (*together, *alone)]
        for number in everything[1:]:
            into["alone"][number].append(start(way, [number]).ends[number])
        into["rounds"] += 1

    for number, way in in_rounds(ways, rounds, until):
        begun = time.monotonic()
        count = 1
        if number >= 0:
            count = int(budget / (rounds + WARM_UP_ROUNDS) / sum(seconds.values()))
        attempt(way, setting, functools.partial(turn, count=min(MOST_STARTS, max(1, count))))
        if number < 0:
            seconds[way.name] = time.monotonic() - begun
            found[way.name] = nothing()
    return found


# ---- programs that run again and again


def loop(way: Way, jobs: Mapping[int, Job], seconds: float) -> tuple[float, dict[int, list[tuple[float, float]]]]:
    """Let programs repeat their jobs; the first moment, and when each repetition began and ended, by program."""
    parts = way.of(jobs)
    moment = time.monotonic() + LEAD_S
    for worker, part in parts:
        worker.ask("loop", {number: jobs[number] for number in part}, moment, moment + seconds, way.with_priorities)
    spans: dict[int, list[tuple[float, float]]] = {}
    for worker, _ in parts:
        spans |= worker.answer()
    return moment, spans


def rate(spans: Sequence[tuple[float, float]], moment: float, runs: int) -> float:
    """Runs per second, until the end of the last repetition."""
    return runs * len(spans) / (spans[-1][1] - moment)


def measure_loops(
    ways: Sequence[Way], setting: Setting, jobs: Mapping[int, Job], rounds: int, until: float
) -> dict[str, dict[str, Any]]:
    """Programs beside each other, and each by itself, in turns; the figures of the rounds by way.

    Of each way: `spans` by program, and `alone`; both as lists of durations in seconds; `rates` and `rates_alone` in
    runs per second.
    """
    found: dict[str, dict[str, Any]] = {way.name: _nothing(jobs) for way in ways}
    # A turn of all ways is the programs together, for as long as all of them by themselves.
    seconds = (until - time.monotonic()) / ((rounds + WARM_UP_ROUNDS) * len(ways) * 2)

    def turn(way: Way) -> None:
        into = found[way.name]
        moment, spans = loop(way, jobs, seconds)
        for number, job in jobs.items():
            into["spans"][number] += [end - begun for begun, end in spans[number]]
            into["rates"][number].append(rate(spans[number], moment, job.runs))
            alone_from, alone = loop(way, {number: job}, seconds / len(jobs))
            into["alone"][number] += [end - begun for begun, end in alone[number]]
            into["rates_alone"][number].append(rate(alone[number], alone_from, job.runs))
        into["rounds"] += 1

    for number, way in in_rounds(ways, rounds, until):
        attempt(way, setting, turn)
        if number < 0:
            found[way.name] = _nothing(jobs)
    return found


def _nothing(jobs: Iterable[int]) -> dict[str, Any]:
    return {"rounds": 0} | {key: {number: [] for number in jobs} for key in ("spans", "alone", "rates", "rates_alone")}


def measure_progress(
    ways: Sequence[Way], setting: Setting, jobs: Mapping[int, Job], seconds: float
) -> dict[str, dict[str, Any]]:
    """One long loop of each way, and one of the last program by itself: when its repetitions ended, in seconds."""
    last = max(jobs)
    found: dict[str, dict[str, Any]] = {}

    def turn(way: Way) -> dict[str, Any]:
        loop(way, jobs, 0.2)
        alone_from, alone = loop(way, {last: jobs[last]}, seconds / 4)
        moment, spans = loop(way, jobs, seconds)
        return {
            "seconds": seconds,
            "rate_alone": rate(alone[last], alone_from, jobs[last].runs),
            "ends": {number: [end - moment for _, end in spans[number]] for number in jobs},
            "rates": {number: rate(spans[number], moment, job.runs) for number, job in jobs.items()},
        }

    for way in ways:
        if not way.problem and (figures := attempt(way, setting, turn)) is not None:
            found[way.name] = figures
    return found
