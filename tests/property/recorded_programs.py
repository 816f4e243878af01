# SPDX-License-Identifier: MIT
"""Random programs with recordings: tasks, recordings of several tasks, and replays among them, beside a model in NumPy.

    python -m tests.property.recorded_programs --programs 200
    mpiexec -n 2 python -m tests.property.recorded_programs --programs 200 --seed 7

Values are unsigned 32-bit numbers that wrap, so that no division and no order of additions changes a result.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import celerity_py as celerity
from celerity_py import access, hints
from tests.property.illegal_replays import Place

SIZE = 40
KINDS = ("map", "stencil", "all", "scale", "host once", "host split", "reduction", "spread", "gather", "method")
HINTS: dict[str, Sequence[hints.Hint] | hints.Hint] = {
    "plain": (),
    "oversubscribed": hints.oversubscribe(3),
    "border first": hints.border_first(2),
}
#: The machines of live programs, which take turns.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"devices": "cpu:1"},
    {"devices": "cpu:3", "horizon_step": 2},
    {"devices": "cpu:2", "lookahead": "infinite", "run_ahead": 2},
    {"devices": "cpu:2", "lookahead": "none", "check": True},
    {"devices": "cpu:4", "horizon_step": 1, "run_ahead": 2},
)
#: Kernels that may compute borders of other shares again. The others of a recording lack the hint.
DEEP = frozenset({"stencil", "scale", "method", "spread"})
PROGRAMS_PER_RUNTIME = 8
ACTIONS = ("task", "task", "record", "replay", "replay", "look", "die", "stream")
#: A global variable would be the same one for all recordings.
PLACES = ("cell", "attribute", "item", "element", "chain")
ONE = access.one_to_one()
_WIDE = np.uint32

Array = Any


@dataclass(frozen=True)
class Step:
    """One task. `into` and `sources` are numbers of buffers; `amount` a plain value."""

    kind: str
    into: int
    sources: tuple[int, int]
    amount: int
    hint: str
    rows: Array
    """Of a gather: two for each element, other ones in each step."""
    recompute: int = 0
    """Repetitions between exchanges of halos; 0: no hint."""

    @property
    def hints(self) -> list[hints.Hint]:
        given = HINTS[self.hint]
        return [
            *([given] if isinstance(given, hints.Hint) else given),
            *([hints.recompute(self.recompute)] if self.recompute else ()),
        ]


class Scaled:
    """A kernel as a method, with a value of its object."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def step(self, chunk: Any, into: Any, extra: int) -> None:
        into[chunk.box] = into[chunk.box] * _WIDE((self.amount + extra) | 1) + _WIDE(2)


def _sum(array: Array) -> Any:
    return array.sum(dtype=_WIDE)


def _map(chunk: Any, into: Any, first: Any, second: Any, amount: int, extra: int = 0) -> None:  # noqa: PLR0917
    into[chunk.box] = first[chunk.box] * _WIDE(3) + second[chunk.box] + _WIDE(amount + extra)


def _stencil(chunk: Any, into: Any, first: Any, second: Any, amount: int, extra: int = 0) -> None:  # noqa: PLR0917
    inner = chunk.box & celerity.Box((1,), (SIZE - 1,))
    into[inner] = first[inner.shift(-1)] + first[inner.shift(1)] * _WIDE(5) + second[inner] + _WIDE(amount + extra)


def _all(chunk: Any, into: Any, first: Any, amount: int, extra: int = 0) -> None:
    into[chunk.box] = _sum(first.array) + _WIDE(amount + extra)


def _scale(chunk: Any, into: Any, amount: int, extra: int = 0) -> None:
    into[chunk.box] = into[chunk.box] * _WIDE((amount + extra) | 1) + _WIDE(1)


def _host_once(part: Any, into: Any, first: Any, amount: int, extra: int = 0) -> None:
    into.array[...] = first.array[::-1] + _WIDE(amount + extra)


def _host_split(part: Any, into: Any, first: Any, amount: int, extra: int = 0) -> None:
    into[part.box] = into[part.box] + first[part.box] * _WIDE(amount + extra)


def _reduce(chunk: Any, first: Any, out: Any) -> None:
    out.combine(_sum(first[chunk.box]))


def _spread(chunk: Any, into: Any, result: Any, amount: int, extra: int = 0) -> None:
    into[chunk.box] = into[chunk.box] + result.array * _WIDE(amount + extra)


def _gather(chunk: Any, into: Any, first: Any, rows: Array, amount: int, extra: int = 0) -> None:  # noqa: PLR0917
    low, high = chunk.box.min[0], chunk.box.max[0]
    sums = [_sum(chunk.xp.stack([first[int(row)] for row in each])) for each in rows[low:high]]
    into[chunk.box] = chunk.xp.stack(sums) + _WIDE(amount + extra)


def _add(chunk: Any, into: Any, frame: Any, amount: int, extra: int = 0) -> None:
    into[chunk.box] = into[chunk.box] + frame[chunk.box] * _WIDE(amount + extra)


def _write(chunk: Any, into: Any, amount: int, extra: int = 0) -> None:
    low, high = chunk.box.min[0], chunk.box.max[0]
    into[chunk.box] = chunk.xp.arange(low, high, dtype=_WIDE) * _WIDE(amount + extra)


_KERNELS: dict[str, Callable[..., None]] = {"map": _map, "stencil": _stencil, "all": _all, "scale": _scale}


@dataclass(frozen=True)
class Recorded:
    """A recording, and what it holds. Its function takes `extra` from a place, and tasks add it to their amounts.

    Without a place, `extra` is a parameter of the recording.
    """

    queue: celerity.Queue
    recording: celerity.Recording
    steps: list[Step]
    place: Place | None
    extra: int


@dataclass
class RecordedProgram:
    """Draws a program as it runs it; the model follows. The same on all ranks for the same seed."""

    queues: Sequence[celerity.Queue]
    seed: int
    features: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._queue_of = random.Random(self.seed + 1)
        if self.seed % 3 == 0:
            self.queues = self.queues[:1]
        self.features[f"queues: {'several' if len(self.queues) > 1 else 'one'}"] += 1
        count = self._random.randint(2, 4)
        self._model = [
            np.arange(SIZE, dtype=_WIDE) * _WIDE(self._random.randint(1, 1000)) + _WIDE(n) for n in range(count)
        ]
        self._buffers = [celerity.Buffer.from_array(array, name=f"b{n}") for n, array in enumerate(self._model)]
        self._total = np.zeros((), _WIDE)
        self._result = celerity.Buffer.from_array(self._total, name="total")
        self._recordings: list[Recorded] = []

    @property
    def queue(self) -> celerity.Queue:
        """Another one for each call."""
        return self._queue_of.choice(self.queues)

    def run(self) -> None:
        """Raises AssertionError at the first fence with another result than the model."""
        for _ in range(self._random.randint(6, 14)):
            getattr(self, f"_do_{self._random.choice(ACTIONS)}")()
        self._do_replay()
        self._do_task()
        for number in range(len(self._buffers)):
            self._look_at(number)
        assert self.queue.fence(self._result).result(60) == self._total

    def _do_task(self) -> None:
        step = self._draw()
        self._submit(step)
        self._apply(step)
        self.features["task"] += 1

    def _do_record(self) -> None:
        steps = [self._draw() for _ in range(self._random.randint(0, 5))]
        if self._random.random() < 0.5:
            steps = self._deepen(steps)
        queue, extra = self.queue, self._random.randint(0, 5)
        place = Place(self._random.choice(PLACES), extra) if self._random.random() < 0.5 else None

        def function(extra: Any) -> None:
            for step in steps:
                self._submit(step, extra)

        try:
            recording = queue.record(function, extra=extra) if place is None else queue.record(place.reader(function))
        except celerity.UsageError as error:
            if "1.5 is the most" not in str(error):
                raise
            recording = None
        for step in steps:
            self._apply(step, extra)
        if recording is None:
            self.features["halos that are too deep"] += 1
            return
        assert recording.num_tasks == len(steps)
        self.features["deep halos"] += recording.halos is not None
        for step in steps:
            self.features[f"recorded {step.kind}"] += 1
            self.features[f"recorded {step.hint}"] += 1
        self.features[f"recording of {'several' if len(steps) > 1 else len(steps)}"] += 1
        self._recordings.append(Recorded(queue, recording, steps, place, extra))

    def _deepen(self, steps: list[Step]) -> list[Step]:
        """Mostly stencils, which fetch their halos once in several repetitions."""
        number = self._random.randint(1, 4)
        made = [replace(step, kind=step.kind if self._random.random() < 0.3 else "stencil") for step in steps]
        return [replace(step, recompute=number) if step.kind in DEEP else step for step in made]

    def _do_replay(self) -> None:
        if not self._recordings:
            return
        chosen = self._random.choice(self._recordings)
        times = self._random.choice((0, 1, 2, 3, 5, 8, 40))
        if any(recorded.handle() is None for recorded in chosen.recording.buffers):
            self._require_refusal(chosen, times, "replay with a dead buffer")
            return
        if times and chosen.place is not None and self._random.random() < 0.3:
            chosen.place.change(chosen.extra + 1)
            self._require_refusal(chosen, times, "replay with another value")
            chosen.place.change(chosen.extra)
        extra, values = chosen.extra, {}
        if chosen.place is None and self._random.random() < 0.7:
            extra = self._random.randint(0, 20)
            values["extra"] = extra
            self.features["replay with a parameter"] += 1
        chosen.queue.replay(chosen.recording, times, **values)
        for _ in range(times):
            for step in chosen.steps:
                self._apply(step, extra)
        self.features[f"replay {'many' if times > 8 else 'few' if times > 1 else times} times"] += 1

    def _require_refusal(self, chosen: Recorded, times: int, why: str) -> None:
        try:
            chosen.queue.replay(chosen.recording, times)
        except celerity.UsageError:
            self.features[why] += 1
            return
        raise AssertionError(f"seed {self.seed}: {chosen} was replayed: {why}")

    def _do_stream(self) -> None:
        """Each step makes a buffer, adds it to another one, and drops it."""
        into = self._random.randrange(len(self._buffers))
        initial = self._random.choice(("array", "function", "none"))
        for _ in range(self._random.randint(2, 6)):
            factor = self._random.randint(1, 9)
            frame = self._make_frame(initial, factor)
            self.queue.parallel_for(SIZE, _add, self._buffers[into].read_write(ONE), frame.read(ONE), factor)
            del frame
            self._model[into] = self._model[into] + np.arange(SIZE, dtype=_WIDE) * _WIDE(factor) * _WIDE(factor)
            if self._random.random() < 0.2:
                self._look_at(into)
            if self._recordings and self._random.random() < 0.3:
                self._do_replay()
                self.features["replay among buffers per step"] += 1
        self.features[f"a buffer per step, initial {initial}"] += 1

    def _make_frame(self, initial: str, factor: int) -> celerity.Buffer[Any]:
        contents = np.arange(SIZE, dtype=_WIDE) * _WIDE(factor)
        if initial == "array":
            return celerity.Buffer.from_array(contents, name="frame")
        if initial == "function":
            return celerity.Buffer.from_function(SIZE, _WIDE, lambda box: contents[box.slices], name="frame")
        frame: celerity.Buffer[Any] = celerity.Buffer(SIZE, _WIDE, name="frame")
        self.queue.parallel_for(SIZE, _write, frame.write(ONE), factor)
        return frame

    def _do_look(self) -> None:
        number = self._random.randrange(len(self._buffers))
        if self._random.random() < 0.3:
            self.queue.wait()
        self._look_at(number)
        self.features["fence"] += 1

    def _do_die(self) -> None:
        """A buffer dies, and another one takes its place."""
        if self._random.random() < 0.6:
            return
        number = self._random.randrange(len(self._buffers))
        self._model[number] = np.full(SIZE, self.seed % 1000, _WIDE)
        self._buffers[number] = celerity.Buffer.from_array(self._model[number], name=f"b{number}")
        self.features["buffer death"] += 1

    def _look_at(self, number: int) -> None:
        found = self.queue.fence(self._buffers[number]).result(60)
        np.testing.assert_array_equal(found, self._model[number], f"seed {self.seed}, buffer b{number}")

    def _draw(self) -> Step:
        draw = self._random
        count = len(self._buffers)
        into = draw.randrange(count)
        first, second = (draw.choice([n for n in range(count) if n != into]) for _ in range(2))
        hint = draw.choice(list(HINTS)) if draw.random() < 0.4 else "plain"
        kind = draw.choice(KINDS)
        rows = np.array([draw.randrange(SIZE) for _ in range(2 * SIZE)]) if kind == "gather" else np.empty(0, int)
        return Step(kind, into, (first, second), draw.randint(0, 9), hint, rows.reshape(-1, 2))

    def _submit(self, step: Step, extra: Any = 0) -> None:
        queue, into = self.queue, self._buffers[step.into]
        first, second = (self._buffers[n] for n in step.sources)
        hint = step.hints
        if step.kind == "host once":
            queue.host_task(_host_once, into.write(access.all()), first.read(access.all()), step.amount, extra)
        elif step.kind == "host split":
            queue.host_task(_host_split, into.read_write(ONE), first.read(ONE), step.amount, extra, on=SIZE)
        elif step.kind == "reduction":
            queue.parallel_for(SIZE, _reduce, first.read(ONE), celerity.reduction(self._result, "sum"))
        elif step.kind == "spread":
            queue.parallel_for(SIZE, _spread, into.read_write(ONE), self._result.read(), step.amount, extra, hints=hint)
        elif step.kind == "gather":
            rows = access.gather(step.rows, gap=step.amount)
            queue.parallel_for(
                SIZE, _gather, into.write(ONE), first.read(rows), step.rows, step.amount, extra, hints=hint
            )
        elif step.kind == "method":
            queue.parallel_for(SIZE, Scaled(step.amount).step, into.read_write(ONE), extra, hints=hint)
        else:
            given = {
                "map": (into.write(ONE), first.read(ONE), second.read(lambda chunk: chunk.box)),
                "stencil": (into.read_write(ONE), first.read(access.neighborhood(1)), second.read(ONE)),
                "all": (into.write(ONE), first.read(access.all())),
                "scale": (into.read_write(ONE),),
            }[step.kind]
            queue.parallel_for(SIZE, _KERNELS[step.kind], *given, step.amount, extra, hints=hint)

    def _apply(self, step: Step, extra: int = 0) -> None:
        into = self._model[step.into]
        first, second = (self._model[n] for n in step.sources)
        amount = _WIDE(step.amount + extra)
        if step.kind == "map":
            into = first * _WIDE(3) + second + amount
        elif step.kind == "stencil":
            into = into.copy()
            into[1:-1] = first[:-2] + first[2:] * _WIDE(5) + second[1:-1] + amount
        elif step.kind == "all":
            into = np.full(SIZE, first.sum(dtype=_WIDE) + amount, _WIDE)
        elif step.kind == "scale":
            into = into * (amount | _WIDE(1)) + _WIDE(1)
        elif step.kind == "method":
            into = into * (amount | _WIDE(1)) + _WIDE(2)
        elif step.kind == "gather":
            into = first[step.rows].sum(axis=1, dtype=_WIDE) + amount
        elif step.kind == "host once":
            into = first[::-1] + amount
        elif step.kind == "host split":
            into = into + first * amount
        elif step.kind == "reduction":
            self._total = np.asarray(first.sum(dtype=_WIDE))
        else:
            into = into + self._total * amount
        self._model[step.into] = into


def run_recorded_programs(first_seed: int, count: int) -> Counter[str]:
    """Run programs with the settings of `celerity.configure`, several per runtime.

    Returns:
        How many programs have each feature.
    """
    found: Counter[str] = Counter()
    for begin in range(0, count, PROGRAMS_PER_RUNTIME):
        with ExitStack() as stack:
            queues = [stack.enter_context(celerity.Queue(priority=each)) for each in (0, 2, 4)]
            for seed in range(first_seed + begin, first_seed + min(begin + PROGRAMS_PER_RUNTIME, count)):
                program = RecordedProgram(queues, seed)
                program.run()
                found.update(program.features.keys())
    return found


def check_distribution(found: Counter[str], count: int) -> None:
    """Print the shares of the features. Nothing may be too rare to be tested."""
    print("\n".join(f"{name:<32} {100 * found[name] / count:5.1f} %" for name in sorted(found)))
    wanted = {f"recorded {kind}" for kind in (*KINDS, *HINTS)} | {
        *("task", "fence", "buffer death", "replay with a dead buffer", "replay with another value"),
        "replay with a parameter",
        *(
            "replay among buffers per step",
            *(f"a buffer per step, initial {each}" for each in ("array", "function", "none")),
        ),
        *("recording of 0", "recording of 1", "recording of several"),
        *("queues: one", "queues: several", "deep halos"),
        *("replay 0 times", "replay 1 times", "replay few times", "replay many times"),
    }
    rare = {name for name in wanted if 100 * found[name] < 5 * count}
    assert not rare, f"in less than 5 % of the programs: {rare}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", action="store_true", help="print the counts of the table as JSON")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for first in range(options.seed, options.seed + options.programs, PROGRAMS_PER_RUNTIME):
        settings = SETTINGS[first % len(SETTINGS)]
        celerity.configure(**settings)
        count = min(PROGRAMS_PER_RUNTIME, options.seed + options.programs - first)
        found += run_recorded_programs(first, count)
        celerity.configure(**dict.fromkeys(settings))
    if not celerity.is_master():
        return 0
    if options.counts:
        print(json.dumps({"programs": options.programs, **found}))
    else:
        check_distribution(found, options.programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
