# SPDX-License-Identifier: MIT
"""The test programs' own model of each range mapper agrees with the runtime's."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from celerity_py._native_testing import check_dimensions, map_chunk
from tests.property.program_generator import seeded_program
from tests.property.programs import HostTask, Kernel
from tests.verification.contexts import native_box, native_mapper, user_box
from tests.verification.elements import UserBox, element_mask, flat_boxes, full_box, to_flat


def random_chunks(random: Random, whole: UserBox) -> list[UserBox]:
    chunks = [whole]
    for _ in range(4):
        cut = []
        for low, high in whole:
            first = random.randint(low, high - 1)
            cut.append((first, random.randint(first + 1, high)))
        chunks.append(tuple(cut))
    return chunks


@given(st.integers(0, 2**20))
def test_mappers_mean_what_the_runtime_makes_of_them(seed: int) -> None:
    program = seeded_program(seed)
    random = Random(seed)
    shapes = {number: decl.shape for number, decl in program.buffers.items()}
    for _, task in program.tasks():
        if not isinstance(task, Kernel | HostTask):
            continue
        chunks = random_chunks(random, task.box)
        for access in task.accesses:
            shape = shapes[access.buffer]
            native = native_mapper(access.mapper, chunks, task.box, shape)
            assert check_dimensions(native, len(task.box), len(shape))[0] == "none"
            for chunk in chunks:
                result = map_chunk(native, native_box(chunk), native_box(task.box), shape)
                space = to_flat(full_box(shape))
                ours = element_mask(space, flat_boxes(access.mapper.region(chunk, task.box, shape)))
                assert element_mask(space, flat_boxes([user_box(box) for box in result.boxes])) == ours, (access, chunk)


@given(st.integers(0, 2**20))
def test_what_a_part_accesses_its_chunk_accesses_and_nobody_promises_a_write_in_vain(seed: int) -> None:
    program = seeded_program(seed)
    random = Random(seed)
    shapes = {number: decl.shape for number, decl in program.buffers.items()}
    for _, task in program.tasks():
        if not isinstance(task, Kernel | HostTask) or not task.box:
            continue
        for chunk in random_chunks(random, task.box):
            dim = random.randrange(len(chunk))
            low, high = chunk[dim]
            cut = random.randint(low, high)
            parts = [(*chunk[:dim], side, *chunk[dim + 1 :]) for side in ((low, cut), (cut, high)) if side[0] < side[1]]
            for access in task.accesses:
                shape = shapes[access.buffer]
                space = to_flat(full_box(shape))
                of_chunk, *of_parts = (
                    element_mask(space, flat_boxes(access.mapper.region(box, task.box, shape)))
                    for box in (chunk, *parts)
                )
                together = 0
                for mask in of_parts:
                    together |= mask
                assert not together & ~of_chunk, (access, chunk, parts)
                if access.mode != "read":
                    assert together == of_chunk, (access, chunk, parts)
