# SPDX-License-Identifier: MIT
from __future__ import annotations

import statistics

import numpy as np
import pytest

from tests.property.interpreter import POISON, UninitialisedReadError, contributions, fold, interpret, scramble
from tests.property.program_generator import seeded_program
from tests.property.programs import Access, BufferDecl, Fence, HostTask, Kernel, Program, Reduction, Settings
from tests.support import mappers
from tests.verification.elements import box_size, element_mask, flat_boxes, full_box, to_flat


def run(*steps: BufferDecl | Kernel | HostTask | Fence) -> Program:
    return Program(Settings(), list(steps))


def test_a_write_leaves_other_values_than_a_read_write() -> None:
    ground = BufferDecl(0, (4,), "array")
    results = []
    for mode in ("write", "read_write"):
        kernel = Kernel(((0, 4),), (Access(0, "write" if mode == "write" else "read_write", mappers.one_to_one()),))
        results.append(interpret(run(ground, kernel)).final[0].words)
    assert not np.any(results[0] == results[1])


def test_one_changed_input_changes_every_output() -> None:
    results = []
    for extra in (False, True):
        steps: list[BufferDecl | Kernel] = [BufferDecl(0, (4,), "array"), BufferDecl(1, (5,), "none")]
        steps.append(HOST_NOTHING if not extra else Kernel(((2, 3),), (Access(0, "write", mappers.one_to_one()),)))
        steps.append(Kernel(((0, 5),), (Access(1, "write", mappers.one_to_one()), Access(0, "read", mappers.all_()))))
        results.append(interpret(run(*steps)).final[1].words)
    assert not np.any(results[0] == results[1])


HOST_NOTHING = Kernel(((0, 1),), (Access(0, "read", mappers.all_()),))


def test_reading_what_nobody_wrote_is_an_error_of_the_program() -> None:
    with pytest.raises(UninitialisedReadError, match="S1 reads elements of b0"):
        interpret(run(BufferDecl(0, (4,), "none"), Fence(0, ((0, 4),))))


def test_elements_nobody_wrote_stay_poisoned() -> None:
    meaning = interpret(
        run(BufferDecl(0, (4,), "none"), Kernel(((1, 3),), (Access(0, "write", mappers.one_to_one()),)))
    )
    assert list(meaning.final[0].words == POISON) == [True, False, False, True]
    assert list(meaning.final[0].versions) == [-1, 1, 1, -1]


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("include", [False, True])
def test_a_reduction_folds_all_items_and_the_current_value_if_asked_to(op: str, include: bool) -> None:
    operator = {"sum": "sum", "prod": "prod", "min": "min", "max": "max"}[op]
    decl = BufferDecl(0, (1,), "array")
    whole = ((0, 3), (0, 5))
    program = run(decl, Kernel(whole, (), (Reduction(0, operator, include),)))  # type: ignore[arg-type]  # op is one of them
    items = [int(item) for item in contributions(1, 0, whole).reshape(-1)]
    if include:
        items.append(int(interpret(run(decl)).final[0].words[0]))
    expected = items[0]
    for item in items[1:]:
        expected = {
            "sum": expected + item,
            "prod": expected * item,
            "min": min(expected, item),
            "max": max(expected, item),
        }[op]
    assert int(interpret(program).final[0].words[0]) == expected % 2**32


def test_partial_results_combine_to_the_whole() -> None:
    items = contributions(3, 0, ((0, 7),))
    for op in ("sum", "prod", "min", "max"):
        parts = np.array([fold(op, items[:3]), fold(op, items[3:])], dtype=np.uint64)
        assert fold(op, parts) == fold(op, items)


def test_scramble_maps_distinct_words_to_distinct_words() -> None:
    words = scramble(np.arange(100_000, dtype=np.uint64))
    assert np.unique(words).size == words.size
    assert int(words.max()) < 2**32


@pytest.mark.parametrize(
    "mapper",
    [
        *(
            mappers.one_to_one(),
            mappers.all_(),
            mappers.prefix(),
            mappers.mirrored(),
            mappers.blocks(3),
            mappers.rows_apart(2, 1),
        ),
        *(mappers.neighborhood(2), mappers.even_split(2), mappers.shifted(-1)),
    ],
)
def test_mappers_of_parts_lie_within_those_of_the_whole(mapper: mappers.Mapper) -> None:
    whole = full_box((6,))
    space = to_flat(full_box((13,)))

    def mask(low: int, high: int) -> int:
        return element_mask(space, flat_boxes(mapper.region(((low, high),), whole, (13,))))

    for cut in range(1, 6):
        assert mask(0, cut) | mask(cut, 6) == mask(0, 6)


def test_random_programs_are_legal_and_of_a_decent_size() -> None:
    counts = []
    for seed in range(200):
        program = seeded_program(seed)
        interpret(program)
        counts.append(program.task_count)
        assert all(box_size(task.box) > 0 for _, task in program.tasks() if isinstance(task, Kernel))
    assert statistics.median(counts) >= 12


def test_a_program_prints_as_a_readable_listing() -> None:
    program = run(
        BufferDecl(0, (4, 5), "array"),
        Kernel(((0, 4), (0, 5)), (Access(0, "read_write", mappers.one_to_one()),), (), (2, 1), "split_2d", 2),
        Fence(0, ((0, 4), (1, 2))),
    )
    lines = str(program).splitlines()
    assert lines[1] == 'b0 = Buffer((4, 5), initial="array")'
    assert lines[2].startswith(
        "kernel([0:4, 0:5], b0.read_write(one_to_one()), constrain=(2, 1), split_2d, oversubscribe(2))"
    )
    assert lines[2].endswith("# S1")
