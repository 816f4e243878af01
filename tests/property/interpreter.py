# SPDX-License-Identifier: MIT
"""The meaning of a program: run task by task on one big memory.

Every element is a 32-bit unsigned integer, held in 64 bits so that "never written" is a value of its own. The value
that a task leaves in an element depends on the task, on the element, on its old value if the task may read it, and on
all elements that the task reads. So two versions of an element differ, and one wrong input changes everything after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Fence,
    HostTask,
    Kernel,
    Operator,
    Program,
    Reduction,
    Task,
    tasks_of,
)
from tests.verification.elements import FlatBox, UserBox, flat_boxes, flat_indices, full_box, to_flat

Words = npt.NDArray[np.uint64]
Versions = npt.NDArray[np.int64]

POISON = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
UNINITIALISED = -1
INITIAL = 0
WORD_MASK = np.uint64(0xFFFF_FFFF)


def scramble(values: Words) -> Words:
    """A 32-bit mixing function; maps distinct words to distinct words."""
    values = (values ^ (values >> np.uint64(16))) & WORD_MASK
    values = (values * np.uint64(0x7FEB352D)) & WORD_MASK
    values = (values ^ (values >> np.uint64(15))) & WORD_MASK
    values = (values * np.uint64(0x846CA68B)) & WORD_MASK
    return values ^ (values >> np.uint64(16))


def initial_words(decl: BufferDecl) -> Words:
    size = int(np.prod(decl.shape, dtype=np.int64))
    if decl.initial == "none":
        return np.full(size, POISON, dtype=np.uint64)
    return scramble(np.arange(size, dtype=np.uint64) + np.uint64(1_000_003 * (decl.number + 1)))


def fold(op: Operator, words: Words) -> int:
    """The value of a reduction over `words`, modulo 2^32."""
    if op == "sum":
        return int(np.add.reduce(words)) & 0xFFFF_FFFF
    if op == "join":
        return int(np.bitwise_xor.reduce(words))
    if op in {"min", "argmin"}:  # value and place of `argmin` compare as the word does
        return int(np.min(words, initial=np.uint64(0xFFFF_FFFF)))
    if op == "max":
        return int(np.max(words, initial=np.uint64(0)))
    return int(np.multiply.reduce(words.astype(np.uint32), dtype=np.uint32))


def fold_by_element(op: Operator, words: Words, places: npt.NDArray[np.intp], count: int) -> Words:
    """A partial result of `count` elements: word i belongs to element `places[i] % count`."""
    return np.array([fold(op, words[places % count == element]) for element in range(count)], np.uint64)


def contributions(submission: int, position: int, box: UserBox) -> Words:
    """The contribution of each item to a kernel's `position`-th reduction, in the shape of `box`.

    Odd numbers, so that products do not end at 0.
    """
    shape = tuple(high - low for low, high in box)
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(count, dtype=np.uint64) + np.uint64(submission * 7919 + position * 104_729)
    return (scramble(numbers) | np.uint64(1)).reshape(shape)


@dataclass
class BufferState:
    decl: BufferDecl
    words: Words
    versions: Versions

    @property
    def space(self) -> FlatBox:
        return to_flat(full_box(self.decl.shape))

    def copy(self) -> BufferState:
        return BufferState(self.decl, self.words.copy(), self.versions.copy())


@dataclass
class TaskMeaning:
    """One task: its buffers before and after it, and the contributions of its items to reductions."""

    task: Task
    before: dict[int, BufferState] = field(default_factory=dict)
    after: dict[int, BufferState] = field(default_factory=dict)
    contributions: list[Words] = field(default_factory=list)
    fence_result: Words | None = None


@dataclass
class Meaning:
    """Of a whole program, by submission id."""

    tasks: dict[int, TaskMeaning]
    initial: dict[int, Words]
    """Contents of each buffer that ever was, before the first task."""
    final: dict[int, BufferState]


class UninitialisedReadError(AssertionError):
    """The program itself is wrong: it reads elements that nobody wrote."""


def region_indices(access: Access, chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """Distinct row-major positions in the buffer that the access touches for `chunk`."""
    boxes = flat_boxes(access.mapper.region(chunk, whole, shape))
    indices = flat_indices(to_flat(full_box(shape)), boxes)
    return indices if len(boxes) <= 1 else np.unique(indices)


def interpret(program: Program) -> Meaning:
    states: dict[int, BufferState] = {}
    tasks: dict[int, TaskMeaning] = {}
    initial: dict[int, Words] = {}
    submission = 0
    for step in program.steps:
        if isinstance(step, BufferDecl):
            words = initial_words(step)
            initial[step.number] = words.copy()
            version = UNINITIALISED if step.initial == "none" else INITIAL
            states[step.number] = BufferState(step, words, np.full(words.size, version, dtype=np.int64))
        elif isinstance(step, Destroy):
            del states[step.buffer]
        for task in tasks_of(step):
            submission += 1
            tasks[submission] = _run(submission, task, states)
    return Meaning(tasks, initial, states)


def _run(submission: int, task: Task, states: dict[int, BufferState]) -> TaskMeaning:
    meaning = TaskMeaning(task)
    if isinstance(task, Fence):
        state = states[task.buffer]
        meaning.before[task.buffer] = state.copy()
        result = state.words[flat_indices(state.space, flat_boxes([task.box]))]
        _require_initialised(submission, task.buffer, result)
        meaning.fence_result = result
    elif isinstance(task, Kernel | HostTask):
        reductions = task.reductions if isinstance(task, Kernel) else ()
        for number in {access.buffer for access in task.accesses} | {reduction.buffer for reduction in reductions}:
            meaning.before[number] = states[number].copy()
        digest = _digest_of_reads(submission, task, meaning.before)
        for access in task.accesses:
            if access.mode != "read":
                _write(access, submission, meaning, states[access.buffer], digest)
        for position, reduction in enumerate(reductions):
            items = contributions(submission, position, task.box)
            meaning.contributions.append(items)
            _reduce(submission, reduction, items, states[reduction.buffer])
        for number in meaning.before:
            meaning.after[number] = states[number].copy()
    return meaning


def _digest_of_reads(submission: int, task: Kernel | HostTask, before: dict[int, BufferState]) -> int:
    digest = submission * 0x9E3779B1
    for position, access in enumerate(task.accesses):
        if access.mode == "write":
            continue
        state = before[access.buffer]
        words = state.words[region_indices(access, task.box, task.box, state.decl.shape)]
        _require_initialised(submission, access.buffer, words)
        weights = np.arange(1, words.size + 1, dtype=np.uint64) * np.uint64(2 * position + 3)
        digest += int(np.add.reduce((words * weights) & WORD_MASK))
    return digest & 0xFFFF_FFFF


def _write(access: Access, submission: int, meaning: TaskMeaning, state: BufferState, digest: int) -> None:
    assert isinstance(meaning.task, Kernel | HostTask)
    whole = meaning.task.box
    indices = region_indices(access, whole, whole, state.decl.shape)
    operation = meaning.task.operation if isinstance(meaning.task, Kernel) else "kernel"
    if operation == "copy":
        source = meaning.task.accesses[1]
        before = meaning.before[source.buffer]
        values = before.words[region_indices(source, whole, whole, before.decl.shape)]
    else:
        places = np.zeros_like(indices) if operation == "fill" else indices
        values = scramble((places.astype(np.uint64) * np.uint64(0x01000193) + np.uint64(digest)) & WORD_MASK)
    if access.mode == "read_write":
        values = (values + meaning.before[access.buffer].words[indices] * np.uint64(3)) & WORD_MASK
    state.words[indices] = values
    state.versions[indices] = submission


def _reduce(submission: int, reduction: Reduction, items: Words, state: BufferState) -> None:
    words, places, count = items.reshape(-1), np.arange(items.size), state.words.size
    if reduction.include_current:
        _require_initialised(submission, reduction.buffer, state.words)
        words, places = np.concatenate([state.words, words]), np.concatenate([np.arange(count), places])
    state.words[:] = fold_by_element(reduction.op, words, places, count)
    state.versions[:] = submission


def _require_initialised(submission: int, buffer: int, words: Words) -> None:
    if np.any(words > WORD_MASK):
        raise UninitialisedReadError(f"S{submission} reads elements of b{buffer} that nobody wrote")
