# SPDX-License-Identifier: MIT
"""Mistakes that all ranks make, and the errors any of which reports each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.property.draws import Draws, SeededDraws, choice
from tests.property.mistake import MISTAKES, Illegal, large_kernels, mistake
from tests.property.programs import (
    Access,
    BufferDecl,
    Kernel,
    Program,
    Step,
)
from tests.support import mappers
from tests.support.mappers import Mapper, custom
from tests.verification.elements import UserBox, full_box


def _with_access(program: Program, place: int, kernel: Kernel, accesses: tuple[Access, ...]) -> Program:
    steps: list[Step] = [*program.steps[:place], replace(kernel, accesses=accesses), *program.steps[place + 1 :]]
    return Program(program.settings, steps)


_Remake = Callable[[Program, Kernel, Access], Access | None]


def _all_alike(
    kind: str, expected: tuple[str, ...], remake: _Remake, *, needs_ranks: bool = False, one_device: bool = False
) -> None:
    """One access of a kernel is replaced, or comes in addition if it is for the same buffer in another mode."""

    def change(draws: Draws, program: Program) -> Illegal | None:
        candidates = []
        for place, kernel in large_kernels(program):
            for position, access in enumerate(kernel.accesses):
                made = remake(program, kernel, access)
                if made is None:
                    continue
                rest = kernel.accesses[:position] + kernel.accesses[position + 1 :]
                kept = (access,) if made.mode != access.mode else ()
                candidates.append((place, kernel, (*kept, made, *rest)))
        if not candidates:
            return None
        place, kernel, accesses = choice(draws, candidates)
        changed = _with_access(program, place, kernel, accesses)
        return Illegal(kind, expected, changed, needs_check=one_device, needs_ranks=needs_ranks, one_device=one_device)

    MISTAKES[kind] = change


def shape_of(program: Program, access: Access) -> tuple[int, ...]:
    return program.buffers[access.buffer].shape


def _writes_all(program: Program, kernel: Kernel, access: Access) -> Access | None:
    return replace(access, mapper=mappers.all_()) if access.mode != "read" else None


def _reads_what_others_write(program: Program, kernel: Kernel, access: Access) -> Access | None:
    is_plain = (
        access.mode == "write"
        and access.mapper.kind == "one_to_one"
        and kernel.box == full_box(shape_of(program, access))
    )
    return replace(access, mode="read", mapper=mappers.all_()) if is_plain else None


def _narrow_whole(mapper: Mapper) -> Mapper:
    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [] if chunk == whole else mapper.rule(chunk, whole, shape)

    return custom(f"narrow_whole({mapper})", rule)


def _wide_whole(mapper: Mapper) -> Mapper:
    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        return [full_box(shape)] if chunk == whole else [((0, 1), *full_box(shape[1:]))] if chunk[0][0] == 0 else []

    return custom(f"wide_whole({mapper})", rule)


def _reads_less_as_a_whole(program: Program, kernel: Kernel, access: Access) -> Access | None:
    touches = access.mapper.region(kernel.box, kernel.box, shape_of(program, access))
    return replace(access, mapper=_narrow_whole(access.mapper)) if access.mode == "read" and touches else None


def _writes_less_in_parts(program: Program, kernel: Kernel, access: Access) -> Access | None:
    shape = shape_of(program, access)
    is_plain = access.mode != "read" and access.mapper.kind == "one_to_one" and shape and shape[0] > 1
    return replace(access, mapper=_wide_whole(access.mapper)) if is_plain else None


def _parts_read_more(program: Program, kernel: Kernel, access: Access) -> Access | None:
    """Devices read elements that their rank does not: so do the whole and, being too large, the shares of two ranks."""
    length = kernel.box[0][1] - kernel.box[0][0]

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        extent = chunk[0][1] - chunk[0][0]
        return [((0, 1), *full_box(shape[1:]))] if length / 3 < extent < length else [full_box(shape)]

    shape = shape_of(program, access)
    is_plain = access.mode == "read" and shape and shape[0] > 1 and length >= 8 and kernel.split == "rows"
    mapper = custom(f"parts_read_more({length})", rule)
    return replace(access, mapper=mapper) if is_plain and _is_whole_initialised(program, access) else None


def _is_whole_initialised(program: Program, access: Access) -> bool:
    return program.buffers[access.buffer].initial != "none"


def _too_large(program: Program, kernel: Kernel, access: Access) -> Access | None:
    """The index space reaches beyond the buffer: by how much depends on the program."""
    shape = shape_of(program, access)
    makers = [mappers.one_to_one()]
    makers += [mappers.neighborhood(*(0 for _ in shape))] if shape else []
    made = choice(SeededDraws(len(program.steps)), makers)
    fits = len(shape) != len(kernel.box) or made.gives_all(kernel.box, shape)
    return None if fits else replace(access, mapper=made)


def _raising(program: Program, kernel: Kernel, access: Access) -> Access | None:
    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        raise ArithmeticError("a mistake in a mapper")

    return replace(access, mapper=custom("raising()", rule))


def _wrong_dimensions(program: Program, kernel: Kernel, access: Access) -> Access | None:
    shape = shape_of(program, access)
    if access.mode != "read" or not 1 <= len(shape) <= 2 or len(shape) != len(kernel.box):
        return None
    return replace(access, mapper=mappers.neighborhood(*(1 for _ in shape), 1))


for _kind, _expected, _remake in (
    ("all chunks write all", ("OverlappingAccess",), _writes_all),
    ("a chunk reads what others write", ("OverlappingAccess",), _reads_what_others_write),
    ("the whole reads less than its parts", ("InconsistentMapper",), _reads_less_as_a_whole),
    ("the whole writes more than its parts", ("InconsistentMapper", "OverlappingAccess"), _writes_less_in_parts),
    ("mapper of other dimensions", ("DimensionMismatch",), _wrong_dimensions),
    ("an index space beyond the buffer", ("OutOfBoundsAccess",), _too_large),
):
    _all_alike(_kind, _expected, _remake)
_all_alike("one device: all chunks write all", ("OverlappingAccess",), _writes_all, one_device=True)
_all_alike("parts read more than their chunk", ("InconsistentMapper",), _parts_read_more, needs_ranks=True)
_all_alike("a mapper raises", ("MapperError",), _raising)


@mistake("reduction and access of one buffer")
def _reduces_and_reads(draws: Draws, program: Program) -> Illegal | None:
    kernels = [(n, s) for n, s in enumerate(program.steps) if isinstance(s, Kernel) and s.reductions]
    if not kernels:
        return None
    place, kernel = choice(draws, kernels)
    access = Access(kernel.reductions[0].buffer, choice(draws, ("read", "read_write")), mappers.all_())
    changed = _with_access(program, place, kernel, (*kernel.accesses, access))
    return Illegal("reduction and access of one buffer", ("OverlappingAccess",), changed)


@mistake("what nobody wrote is read")
def _reads_nothing(draws: Draws, program: Program) -> Illegal | None:
    number = max(program.buffers, default=-1) + 1
    place = draws.integer(0, len(program.steps))
    fresh = BufferDecl(number, (draws.integer(1, 20),), "none")
    reader = Kernel(((0, 8),), (Access(number, "read", mappers.all_()),))
    steps: list[Step] = [*program.steps[:place], fresh, reader, *program.steps[place:]]
    changed = Program(program.settings, steps)
    return Illegal("what nobody wrote is read", ("UninitializedRead",), changed, needs_check=True)
