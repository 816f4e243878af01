# SPDX-License-Identifier: MIT
"""Replays and plain loops with templates give the same instructions as without: random ones, with other tasks around.

python -m tests.property.template_programs --programs 2000
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from tests.property.draws import SeededDraws
from tests.property.loops import random_reaches
from tests.property.program_generator import ProgramGenerator
from tests.property.programs import BufferDecl, Destroy, Epoch, Fence, HostTask, Kernel, Program, Replay, Settings, Step
from tests.verification.contexts import RankContext

#: Of the moments of a rank, those at which it is so idle that its scheduler flushes.
IDLE_SHARES = (0.0, 0.0, 0.05, 0.3)


def uses(task: Kernel | HostTask) -> set[int]:
    reductions = task.reductions if isinstance(task, Kernel) else ()
    return {access.buffer for access in task.accesses} | {reduction.buffer for reduction in reductions}


def with_replays(program: Program, source: Random) -> list[Step]:
    """The steps of the program, and replays of some of its tasks wherever their buffers live."""
    steps: list[Step] = []
    recordings: list[tuple[Kernel | HostTask, ...]] = []
    reaches: list[Any] = []
    first = 1 + max((step.recording for step in program.steps if isinstance(step, Replay)), default=-1)
    recent: list[Kernel | HostTask] = []
    live: set[int] = set()
    for step in program.steps:
        steps.append(step)
        if isinstance(step, BufferDecl):
            live.add(step.number)
        elif isinstance(step, Destroy):
            live.discard(step.buffer)
        elif isinstance(step, Kernel | HostTask):
            recent.append(step)
        if recent and source.random() < 0.3:
            length = source.choice([1, 1, 2, 3, 5])
            tasks = tuple(task for task in recent[-length:] if uses(task) <= live)
            if tasks:
                recordings.append(tasks)
                reaches.append(random_reaches(SeededDraws(source.randrange(2**32)), tasks))
        possible = [n for n, tasks in enumerate(recordings) if all(uses(task) <= live for task in tasks)]
        while possible and source.random() < 0.4:
            chosen = source.choice(possible[-3:])
            times = source.choice([1, 1, 2, 4]) if source.random() < 0.3 else 0
            replay = Replay(first + chosen, recordings[chosen], times, reaches[chosen])
            if times:
                steps += with_stops(replay, program, source)
            else:
                phase = source.randrange(replay.num_phases)
                steps.append(replace(replay, times=source.choice([1, 2, 3, 5, 9, 20, 40]), phase=phase))
        if possible and source.random() < 0.3:
            steps += plain_loop(recordings[source.choice(possible[-3:])], program, source)
    return steps


def plain_loop(body: tuple[Kernel | HostTask, ...], program: Program, source: Random) -> list[Step]:
    """The tasks again and again, often with the same waits and fences between, now and then with something else."""
    stops = random_stops(body, program, source) if source.random() < 0.5 else []
    every = source.choice([1, 2, 5, 13])
    disturbance = source.choice([0.0, 0.0, 0.05])
    steps: list[Step] = []
    for number in range(source.choice([8, 16, 32, 48])):
        steps += body if source.random() >= disturbance else body[:-1]
        if stops and number % every == every - 1:
            steps += stops
        if source.random() < disturbance:
            steps += random_stops(body, program, source)
    return steps


def random_stops(tasks: tuple[Kernel | HostTask, ...], program: Program, source: Random) -> list[Step]:
    """Waits, and fences of buffers of the tasks."""
    shapes = {step.number: step.shape for step in program.steps if isinstance(step, BufferDecl)}
    stops: list[Step] = []
    for _ in range(source.choice([1, 1, 2])):
        possible: list[Step] = [Epoch(), Epoch("barrier")]
        for buffer in sorted(set().union(*map(uses, tasks))):
            box = tuple((0, source.randint(1, extent)) for extent in shapes[buffer])
            possible.append(Fence(buffer, box, on_all=source.random() < 0.7, to_device=source.random() < 0.2))
        stops.append(source.choice(possible))
    return stops


def with_stops(replay: Replay, program: Program, source: Random) -> list[Step]:
    """Replay again and again with the same waits and fences between, now and then with something else."""
    stops = random_stops(replay.tasks, program, source)
    steps: list[Step] = []
    phase = 0
    for _ in range(source.choice([3, 6, 12])):
        times = replay.times + (source.random() < 0.1)
        parts = [times] if source.random() < 0.8 else [1] * times
        for part in parts:
            steps.append(replace(replay, times=part, phase=phase % replay.num_phases))
            phase += part if source.random() < 0.98 else part + 1
        steps += stops if source.random() < 0.9 else stops[:-1]
    return steps


class TwoPipelines:
    """One rank with templates, and the same one without."""

    def __init__(self, settings: Settings, rank: int = 0) -> None:
        seed = settings.seed % 1000 + rank + 1  # what is handed over late differs by rank
        self.contexts = [
            RankContext(settings, rank, templates=True, loops=True, batch_seed=seed),
            RankContext(settings, rank, templates=False),
        ]
        self.expected: list[Any] = []
        """Instructions without templates that the pipeline with templates has yet to hand over."""
        self.unreported: list[int] = []

    def apply(self, step: Step) -> None:
        for context in self.contexts:
            context.apply(step)
        self.compare(step)

    def flush_when_idle(self) -> None:
        for context in self.contexts:
            context.flush_when_idle()
        self.compare("a flush")

    def finish(self) -> None:
        for context in self.contexts:
            context.finish()
        self.compare("the end")
        assert not self.expected, f"not handed over: {self.expected}"

    def compare(self, step: object) -> None:
        found, expected = ([*context.native.take_instructions()] for context in self.contexts)
        self.expected += expected
        for one, other in zip(found, self.expected, strict=False):
            assert one == other, f"{step}:\nfound    {one}\nexpected {other}"
        assert len(found) <= len(self.expected), f"{step}: {len(found)} instructions instead of {len(self.expected)}"
        del self.expected[: len(found)]
        notices = [context.native.take_notices() for context in self.contexts]
        assert notices[0] == notices[1], f"{step}: {notices[0]} instead of {notices[1]}"
        tasks = [context.native.take_tasks() for context in self.contexts]
        commands = [context.native.take_commands() for context in self.contexts]
        for made, wanted in (tasks, commands):  # a template makes neither, or later
            numbers = {one["id"] for one in wanted} & {one["id"] for one in made}
            common = [[one for one in records if one["id"] in numbers] for records in (made, wanted)]
            assert common[0] == common[1], f"{step}:\n{made}\n{wanted}"
        self.unreported += [one["task"] for one in found if one["kind"] in ("horizon", "epoch")]

    def report(self, count: int) -> None:
        """The executor has passed so many horizons and epochs."""
        for task in self.unreported[:count]:
            for context in self.contexts:
                context.native.notify_epoch_reached(task)
        del self.unreported[:count]

    @property
    def expanded(self) -> int:
        """Repetitions of recordings that came from a template."""
        return int(self.contexts[0].native.expanded_repetitions)

    @property
    def batched(self) -> int:
        """Periods of plain loops in batches that devices may carry out as graphs."""
        return int(self.contexts[0].native.batched_periods)

    @property
    def repeated(self) -> int:
        """Tasks of plain loops that did."""
        return int(self.contexts[0].native.repeated_tasks)


@dataclass
class Counts:
    programs: int = 0
    with_templates: int = 0
    """Programs of which a repetition was expanded from a template."""
    repetitions: int = 0
    expanded: int = 0
    with_loops: int = 0
    """Programs of which a plain loop came from a template."""
    tasks: int = 0
    repeated: int = 0
    batched: int = 0


def check_templates(program: Program, counts: Counts) -> None:
    """Adds replays to the program, and requires the same instructions of both pipelines on each rank."""
    source = Random(str(program))
    steps = with_replays(program, source)
    share = source.choice([0.0, 0.5, 1.0])
    idle_share = source.choice(IDLE_SHARES)
    expanded = repeated = batched = 0
    for rank in range(program.settings.num_ranks):
        pipelines = TwoPipelines(program.settings, rank)
        try:
            for step in steps:
                pipelines.apply(step)
                if source.random() < idle_share:
                    pipelines.flush_when_idle()
                pipelines.report(round(len(pipelines.unreported) * share))
            pipelines.finish()
        except AssertionError as error:
            lines = "\n".join(map(str, steps))
            raise AssertionError(f"rank {rank}: {error}\n{program.settings}\n{lines}") from None
        expanded += pipelines.expanded
        repeated += pipelines.repeated
        batched += pipelines.batched
    counts.programs += 1
    counts.with_loops += repeated > 0
    counts.tasks += program.settings.num_ranks * sum(isinstance(step, Kernel | HostTask) for step in steps)
    counts.repeated += repeated
    counts.batched += batched
    counts.with_templates += expanded > 0
    counts.repetitions += program.settings.num_ranks * sum(step.times for step in steps if isinstance(step, Replay))
    counts.expanded += expanded


def check_many(first: int, count: int) -> Counts:
    counts = Counts()
    for seed in range(first, first + count):
        check_templates(ProgramGenerator(SeededDraws(seed)).generate(), counts)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    counts = check_many(options.seed, options.programs)
    print(json.dumps(asdict(counts)) if options.counts else counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
