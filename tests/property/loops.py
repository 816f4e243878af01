# SPDX-License-Identifier: MIT
"""Loops of random programs whose steps make something anew: a buffer that the step drops, or lists of a gather."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.property.access_choice import LiveBuffer, gather_of, random_box
from tests.property.draws import Draws, chance, choice, weighted
from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Fence,
    Flush,
    HostTask,
    Initial,
    Kernel,
    Mode,
    Program,
    Reduction,
    Replay,
    Step,
)
from tests.support import mappers
from tests.verification.elements import full_box

if TYPE_CHECKING:
    from tests.property.program_generator import ProgramGenerator

MOST_KEPT = 2
INITIALS: tuple[Initial, ...] = ("array", "function", "none", "local")
_ONE = mappers.one_to_one()


class StreamingLoop:
    """Each step makes a buffer, uses it and drops it, some steps later or at once."""

    def __init__(self, generator: ProgramGenerator) -> None:
        draws = generator.draws
        self.generator = generator
        self.draws = draws
        self.shape = generator.base_shape if chance(draws, 60) else generator.random_shape()
        self.initials = INITIALS if chance(draws, 25) else (choice(draws, INITIALS),)
        self.num_kept = weighted(draws, [(3, 0), (2, 1), (1, MOST_KEPT)])
        self.fence_percent = choice(draws, [0, 30, 100])
        self.uses: list[Callable[[LiveBuffer], LiveBuffer]] = [self._add_to_state, self._map, self._reduce, self._host]
        self.use = choice(draws, self.uses)
        self.state = generator.add_buffer(self.shape, "array")
        self.total = generator.add_buffer((1,), "array")
        self.results: list[LiveBuffer] = []
        self.options = generator.split_options(len(self.shape), True)[1:]

    def add(self) -> None:
        kept: list[LiveBuffer] = []
        for _ in range(weighted(self.draws, [(3, self.draws.integer(2, 5)), (1, self.draws.integer(6, 14))])):
            frame = self._make()
            use = choice(self.draws, self.uses) if chance(self.draws, 10) else self.use
            changed = use(frame)
            if chance(self.draws, self.fence_percent):
                self._fence(changed)
            if chance(self.draws, 8):
                self.generator.program.steps.append(Flush())
            if chance(self.draws, 5):
                self.generator.add_epoch()
            self._drop(self.results)
            self.results.clear()
            kept.append(frame)
            self._drop(kept[: -self.num_kept or None])
            kept = kept[-self.num_kept :] if self.num_kept else []
        if chance(self.draws, 80):
            self._drop(kept)
        if chance(self.draws, 50):
            self._drop([self.state, self.total])

    def _make(self) -> LiveBuffer:
        shape = self.shape
        if chance(self.draws, 10):  # data of another size: all that the step does has that size
            shape = tuple(self.draws.integer(1, extent) for extent in shape)
        frame = self.generator.add_buffer(shape, choice(self.draws, self.initials))
        if frame.decl.initial == "none":
            accesses = [Access(frame.decl.number, "write", _ONE)]
            if chance(self.draws, 40):
                accesses.append(Access(self.state.decl.number, "read", self._reader()))
            self._kernel(shape, accesses)
        return frame

    def _reader(self) -> mappers.Mapper:
        extents = [self.draws.integer(0, 1) for _ in self.shape]
        return choice(self.draws, [_ONE, mappers.neighborhood(*extents), mappers.all_()])

    def _kernel(self, shape: tuple[int, ...], accesses: list[Access], *reductions: Reduction) -> None:
        self.generator.submit(Kernel(full_box(shape), tuple(accesses), reductions, None, *self.options))

    def _add_to_state(self, frame: LiveBuffer) -> LiveBuffer:
        """Steps follow each other."""
        mode: Mode = choice(self.draws, ["read_write", "write"])
        accesses = [Access(self.state.decl.number, mode, _ONE), Access(frame.decl.number, "read", self._reader())]
        self._kernel(frame.decl.shape, accesses)
        return self.state

    def _map(self, frame: LiveBuffer) -> LiveBuffer:
        """Steps have nothing to do with each other."""
        result = self.generator.add_buffer(frame.decl.shape, "none")
        accesses = [Access(result.decl.number, "write", _ONE), Access(frame.decl.number, "read", self._reader())]
        self._kernel(frame.decl.shape, accesses)
        self.results.append(result)
        return result

    def _reduce(self, frame: LiveBuffer) -> LiveBuffer:
        reduction = Reduction(self.total.decl.number, "sum", include_current=chance(self.draws, 70))
        self._kernel(frame.decl.shape, [Access(frame.decl.number, "read", _ONE)], reduction)
        return self.total

    def _host(self, frame: LiveBuffer) -> LiveBuffer:
        """A kernel works in place, and a host task takes the result."""
        number = frame.decl.number
        self._kernel(frame.decl.shape, [Access(number, "read_write", _ONE)])
        accesses = (Access(number, "read", mappers.all_()),)
        self.generator.submit(HostTask(choice(self.draws, ["once", "master"]), (), accesses))
        return frame

    def _fence(self, buffer: LiveBuffer) -> None:
        shape = buffer.decl.shape
        box = full_box(shape) if chance(self.draws, 70) else random_box(self.draws, shape)
        on_all, to_device = not chance(self.draws, 30), chance(self.draws, 20)
        self.generator.submit(Fence(buffer.decl.number, box, on_all, to_device))

    def _drop(self, buffers: list[LiveBuffer]) -> None:
        for buffer in buffers:
            del self.generator.live[buffer.decl.number]
            self.generator.program.steps.append(Destroy(buffer.decl.number))


def add_rebuilt_gathers(generator: ProgramGenerator) -> None:
    """Particles with lists of their neighbours, which are other ones in each step."""
    draws = generator.draws
    count = draws.integer(2, 24)
    current, following = (generator.add_buffer((count,), initial) for initial in ("array", "none"))
    whole = full_box((count,))
    lists = gather_of(draws, whole, (count,))
    options = generator.split_options(1, False)
    if chance(draws, 40):
        options = (None, "cyclic", 1, 0, draws.integer(1, 4), ())
    takes_turns = chance(draws, 50)
    for _ in range(draws.integer(3, 7)):
        accesses = (Access(following.decl.number, "write", _ONE), Access(current.decl.number, "read", lists))
        generator.submit(Kernel(whole, accesses, (), *options))
        if not chance(draws, 20):  # a step may use the lists of the one before
            lists = gather_of(draws, whole, (count,))
        if takes_turns:
            current, following = following, current
        elif chance(draws, 50):
            generator.submit(Kernel(whole, (Access(current.decl.number, "read_write", _ONE),), (), *options))


def may_reach(kernel: Kernel) -> bool:
    """Whether shares may compute borders of others as well: the elements that an item writes are its own."""
    written = {access.buffer for access in kernel.accesses if access.mode != "read"}
    own = all(access.mapper == _ONE for access in kernel.accesses if access.buffer in written)
    is_built_in = not any(access.mapper.is_callable for access in kernel.accesses)
    return own and is_built_in and bool(kernel.box) and not kernel.reductions and kernel.split != "cyclic"


def random_reach(draws: Draws, kernel: Kernel, percent: int = 25) -> tuple[int, ...]:
    """Items by which shares grow; often none."""
    if not may_reach(kernel) or not chance(draws, percent):
        return ()
    return tuple(draws.integer(0, 3) for _ in kernel.box)


def random_reaches(draws: Draws, tasks: tuple[Kernel | HostTask, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Of a recording, by phase and task; mostly it has one phase."""
    if not chance(draws, 40):
        return ()
    return tuple(
        tuple(random_reach(draws, task, 70) if isinstance(task, Kernel) else () for task in tasks)
        for _ in range(draws.integer(2, 4))
    )


def add_replays(generator: ProgramGenerator) -> None:
    """The latest tasks again, or a recording from before, with waits and fences among the replays."""
    draws = generator.draws
    recorded = [each for each in generator.recordings if _used_by(each[0]) <= generator.live.keys()]
    if not recorded or chance(draws, 60):
        tasks = _latest_tasks(generator)
        if not tasks:
            return
        generator.recordings.append((tasks, random_reaches(draws, tasks)))
        number = len(generator.recordings) - 1
    else:
        number = generator.recordings.index(choice(draws, recorded))
    tasks, reaches = generator.recordings[number]
    times = weighted(draws, [(2, draws.integer(1, 4)), (3, draws.integer(5, 12)), (1, 20)])
    is_stopping = chance(draws, 40)
    goes_on, phase = chance(draws, 80), 0
    for _ in range(weighted(draws, [(3, 1), (1, 2), (1, 4)])):
        begun = phase if goes_on else draws.integer(0, max(0, len(reaches) - 1))
        generator.program.steps.append(Replay(number, tasks, times, reaches, begun))
        phase = (begun + times) % max(1, len(reaches))
        if is_stopping:
            choice(draws, [generator.add_epoch, generator.add_fence])()


def add_plain_loop(generator: ProgramGenerator) -> None:
    """The latest tasks again and again, one by one, with a fence or wait behind some of the repetitions."""
    draws = generator.draws
    tasks = _latest_tasks(generator)
    if not tasks:
        return
    stop = choice(draws, [generator.add_epoch, generator.add_fence])
    every, percent = choice(draws, [0, 0, 1, 3]), choice(draws, [0, 0, 5])
    for number in range(1, weighted(draws, [(3, 12), (1, 24), (1, 4)]) + 1):
        for task in tasks:
            generator.submit(task)
        if (every and number % every == 0) or chance(draws, percent):
            stop()


def _latest_tasks(generator: ProgramGenerator) -> tuple[Kernel | HostTask, ...]:
    """Up to four; none if a buffer of theirs is gone."""
    recent = [step for step in generator.program.steps if isinstance(step, Kernel | HostTask)]
    tasks = tuple(recent[-generator.draws.integer(1, 4) :])
    return tasks if _used_by(tasks) <= generator.live.keys() else ()


def _used_by(tasks: tuple[Kernel | HostTask, ...]) -> set[int]:
    return {each.buffer for task in tasks for each in (*task.accesses, *getattr(task, "reductions", ()))}


# ---- which of them a program has

MANY = 6
MOST_LIFE = 20
"""In steps of the program."""


def loop_features(program: Program) -> set[str]:
    """Names of the ways in which a program makes things anew in loops."""
    result = set()
    lives = _short_lives(program.steps)
    if len(lives) >= 3:
        result.add("a buffer per step")
        result |= {f"a buffer per step, initial {decl.initial}" for decl, _ in lives}
        if any(isinstance(step, Fence) for _, steps in lives for step in steps):
            result.add("a buffer per step, with fences")
        if len(lives) >= MANY:
            result.add("a buffer per step, many steps")
    gathers = [_gather_key(step) for step in program.steps if isinstance(step, Kernel)]
    rebuilt = [first for first, second in pairwise(gathers) if first and second and first != second]
    if len(rebuilt) >= 2:
        result.add("a gather per step")
    if any(isinstance(step, Kernel) and step.split == "cyclic" and _gather_key(step) for step in program.steps):
        result.add("a gather, cyclic")
    return result


def replay_features(program: Program) -> set[str]:
    """Names of the kinds of replays, plain loops and replicated executions of a program."""
    replays = [step for step in program.steps if isinstance(step, Replay)]
    features = {"replay of several tasks" if len(step.tasks) > 1 else "replay of a task" for step in replays}
    features |= {"replay with deep halos" for step in replays if step.reaches}
    submitted = [step for step in program.steps if isinstance(step, Kernel | HostTask)]
    features |= {"replicated execution" for step in submitted if isinstance(step, Kernel) and any(step.reach)}
    for period in range(1, 5):
        repeats = [a == b for a, b in zip(submitted, submitted[period:], strict=False)]
        if any(all(repeats[first : first + 3 * period]) for first in range(len(repeats) - 3 * period)):
            features.add("a plain loop")
    return features


def _gather_key(kernel: Kernel) -> str:
    return "".join(str(access.mapper) for access in kernel.accesses if access.mapper.kind == "gather")


def _short_lives(steps: list[Step]) -> list[tuple[BufferDecl, list[Step]]]:
    """Buffers that the program drops soon after it has made them, with the steps in between."""
    made: dict[int, int] = {}
    result = []
    for place, step in enumerate(steps):
        if isinstance(step, BufferDecl):
            made[step.number] = place
        elif isinstance(step, Destroy) and place - made[step.buffer] <= MOST_LIFE:
            decl = steps[made[step.buffer]]
            assert isinstance(decl, BufferDecl)
            result.append((decl, steps[made[step.buffer] + 1 : place]))
    return result
