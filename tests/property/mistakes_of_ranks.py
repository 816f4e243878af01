# SPDX-License-Identifier: MIT
"""Mistakes by which the program of one rank differs, and the error that reports each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.property.draws import Draws, choice
from tests.property.mistake import DIVERGED, MISTAKES, Illegal, Tampering, large_kernels, mistake
from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    HostTask,
    Kernel,
    Program,
    Reduction,
    Step,
    Task,
)
from tests.support import mappers
from tests.verification.elements import UserBox, box_size, full_box

_Edit = Callable[[Draws, Step], Step | None]


def _differs(kind: str, edit: _Edit, *, needs_check: bool = False) -> None:
    """One step is another one on one rank."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        candidates = [
            (n, edited) for n, step in enumerate(program.steps) if (edited := edit(draws, step)) not in (None, step)
        ]
        if not candidates:
            return None
        place, edited = choice(draws, candidates)
        assert edited is not None
        steps = (*program.steps[:place], edited, *program.steps[place + 1 :])
        return Illegal(kind, DIVERGED, program, steps, needs_check=needs_check)

    MISTAKES[kind] = change


def _shrunk(box: UserBox) -> UserBox | None:
    for dim, (low, high) in enumerate(box):
        if high - low > 1:
            return (*box[:dim], (low, high - 1), *box[dim + 1 :])
    return None


def _other_space(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Kernel) or (box := _shrunk(step.box)) is None:
        return None
    return replace(step, box=box)


def _edited_access(step: Step, edit: Callable[[Access], Access | None]) -> Step | None:
    if not isinstance(step, Kernel | HostTask):
        return None
    for place, access in enumerate(step.accesses):
        # Otherwise the odd rank's program might be refused for itself.
        is_alone = sum(other.buffer == access.buffer for other in step.accesses) == 1
        if is_alone and (edited := edit(access)):
            return replace(step, accesses=(*step.accesses[:place], edited, *step.accesses[place + 1 :]))
    return None


def _other_mode(draws: Draws, step: Step) -> Step | None:
    return _edited_access(step, lambda a: replace(a, mode="read_write") if a.mode == "write" else None)


def _wider_halo(draws: Draws, step: Step) -> Step | None:
    def wider(access: Access) -> Access | None:
        if access.mapper.kind != "neighborhood":
            return None
        extents, shape, wrap = access.mapper.arguments
        wider = mappers.neighborhood(*(extent + 1 for extent in extents), shape=shape, wrap=wrap)
        return replace(access, mapper=wider)

    return _edited_access(step, wider)


def _other_mapper(draws: Draws, step: Step) -> Step | None:
    return _edited_access(
        step, lambda a: replace(a, mapper=mappers.all_()) if a.mode == "read" and a.mapper.kind != "all" else None
    )


def _other_hint(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Kernel) or step.border or step.block or step.reductions:  # reductions ignore the hint
        return None
    return replace(step, oversubscribe=step.oversubscribe + 1)


def _other_constraint(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Kernel) or not step.box:
        return None
    given = step.granularity or tuple(1 for _ in step.box)
    return replace(step, granularity=tuple(extent + 2 for extent in given))


def _other_shape(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, BufferDecl) or box_size(full_box(step.shape)) == 1:  # reductions need one element
        return None
    return replace(step, shape=(step.shape[0] + 1, *step.shape[1:]))


def _other_dtype(draws: Draws, step: Step) -> Step | None:
    return replace(step, element_size_bytes=12 - step.element_size_bytes) if isinstance(step, BufferDecl) else None


def _other_initial(draws: Draws, step: Step) -> Step | None:
    return replace(step, initial="function") if isinstance(step, BufferDecl) and step.initial == "array" else None


def _other_fence_box(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Fence) or (box := _shrunk(step.box)) is None:
        return None
    return replace(step, box=box)


def _other_fence_place(draws: Draws, step: Step) -> Step | None:
    return replace(step, on_all=not step.on_all) if isinstance(step, Fence) else None


def _other_fence_memory(draws: Draws, step: Step) -> Step | None:
    return replace(step, to_device=not step.to_device) if isinstance(step, Fence) else None


def _other_host_place(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, HostTask) or step.on == "split":
        return None
    return replace(step, on="once" if step.on == "master" else "master")


def _other_operator(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Kernel) or not step.reductions:
        return None
    first, *rest = step.reductions
    return replace(step, reductions=(Reduction(first.buffer, "max" if first.op != "max" else "min"), *rest))


def _other_inclusion(draws: Draws, step: Step) -> Step | None:
    if not isinstance(step, Kernel) or not step.reductions or not step.reductions[0].include_current:
        return None
    first, *rest = step.reductions
    return replace(step, reductions=(replace(first, include_current=False), *rest))


def _other_order(draws: Draws, step: Step) -> Step | None:
    return replace(step, unordered=not step.unordered) if isinstance(step, HostTask) and step.on != "split" else None


def _other_objects(draws: Draws, step: Step) -> Step | None:
    return replace(step, objects=step.objects[1:]) if isinstance(step, HostTask) and step.objects else None


def _other_epoch(draws: Draws, step: Step) -> Step | None:
    return Epoch("none" if step.action == "barrier" else "barrier") if isinstance(step, Epoch) else None


for _kind, _edit in {
    "index space differs": _other_space,
    "mode differs": _other_mode,
    "halo differs": _wider_halo,
    "mapper differs": _other_mapper,
    "hint differs": _other_hint,
    "constrain differs": _other_constraint,
    "shape differs": _other_shape,
    "dtype differs": _other_dtype,
    "initial contents are made otherwise": _other_initial,
    "box of a fence differs": _other_fence_box,
    "on= of a fence differs": _other_fence_place,
    "to= of a fence differs": _other_fence_memory,
    "on= of a host task differs": _other_host_place,
    "operator differs": _other_operator,
    "include_current= differs": _other_inclusion,
    "unordered= of a host task differs": _other_order,
    "host objects differ": _other_objects,
    "wait or barrier": _other_epoch,
}.items():
    _differs(_kind, _edit)


_INITIALS = {"contents": "array", "other function": "function"}


def _odd_behaviour(kind: str, how: str, *, needs_check: bool = False, expected: tuple[str, ...] = DIVERGED) -> None:
    """One rank submits the same task in another way."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        places = [n for n, _ in large_kernels(program)]
        if how in _INITIALS:
            initial = _INITIALS[how]
            places = [n for n, s in enumerate(program.steps) if isinstance(s, BufferDecl) and s.initial == initial]
        if not places:
            return None
        tampering = Tampering(choice(draws, places), how)
        return Illegal(kind, expected, program, tuple(program.steps), None, tampering, needs_check)

    MISTAKES[kind] = change


_odd_behaviour("kernel differs", "other kernel")
_odd_behaviour("name differs", "other name")
_odd_behaviour("one rank raises", "raise", expected=("TaskFailed",))
_odd_behaviour("the program of one rank raises", "raise outside", expected=("TaskFailed",))
_odd_behaviour("function of from_function differs", "other function")
_odd_behaviour("scalar differs", "other scalar", needs_check=True)
_odd_behaviour("contents of from_array differ", "contents", needs_check=True)


def _tasks(program: Program) -> list[int]:
    return [n for n, step in enumerate(program.steps) if isinstance(step, Task)]


@mistake("extra task")
def _extra_task(draws: Draws, program: Program) -> Illegal | None:
    places = [n for n in _tasks(program) if isinstance(program.steps[n], Kernel | HostTask | Fence)]
    if not places:
        return None
    place = choice(draws, places)
    steps = (*program.steps[:place], program.steps[place], *program.steps[place:])
    return Illegal("extra task", DIVERGED, program, steps)


@mistake("missing task")
def _missing_task(draws: Draws, program: Program) -> Illegal | None:
    if not (places := _tasks(program)):
        return None
    place = choice(draws, places)
    return Illegal("missing task", DIVERGED, program, (*program.steps[:place], *program.steps[place + 1 :]))


@mistake("a rank ends early")
def _ends_early(draws: Draws, program: Program) -> Illegal | None:
    if not (places := _tasks(program)):
        return None
    return Illegal("a rank ends early", DIVERGED, program, tuple(program.steps[: choice(draws, places)]))


@mistake("buffer differs")
def _other_buffer(draws: Draws, program: Program) -> Illegal | None:
    """The odd rank reads another buffer that looks the same."""
    steps = program.steps
    gone = {step.buffer for step in steps if isinstance(step, Destroy)}
    candidates = []
    for place, step in enumerate(steps):
        if not isinstance(step, Kernel | HostTask):
            continue
        made = [decl for decl in steps[:place] if isinstance(decl, BufferDecl)]
        full = {decl.number: decl for decl in made if decl.initial != "none" and decl.number not in gone}
        for n, access in enumerate(step.accesses):
            given = full.get(access.buffer)
            used = {other.buffer for other in (*step.accesses, *getattr(step, "reductions", ()))}
            if given is None or access.mode != "read":
                continue
            for decl in full.values():
                if decl.number not in used and replace(decl, number=given.number) == given:
                    accesses = (*step.accesses[:n], replace(access, buffer=decl.number), *step.accesses[n + 1 :])
                    candidates.append((place, replace(step, accesses=accesses)))
    if not candidates:
        return None
    place, edited = choice(draws, candidates)
    return Illegal("buffer differs", DIVERGED, program, (*steps[:place], edited, *steps[place + 1 :]))


@mistake("extra wait")
def _extra_wait(draws: Draws, program: Program) -> Illegal | None:
    place = draws.integer(0, len(program.steps))
    return Illegal("extra wait", DIVERGED, program, (*program.steps[:place], Epoch(), *program.steps[place:]))


@mistake("reordered tasks")
def _reordered(draws: Draws, program: Program) -> Illegal | None:
    steps = program.steps
    places = [
        n
        for n in range(len(steps) - 1)
        if isinstance(steps[n], Task) and isinstance(steps[n + 1], Task) and steps[n] != steps[n + 1]
    ]
    if not places:
        return None
    place = choice(draws, places)
    order = (*steps[:place], steps[place + 1], steps[place], *steps[place + 2 :])
    return Illegal("reordered tasks", DIVERGED, program, order)
