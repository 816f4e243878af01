# SPDX-License-Identifier: MIT
"""The verifier accepts a right graph, and names the fault of each broken one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.property.programs import Access, BufferDecl, Epoch, Fence, Kernel, Program, Settings, Step
from tests.support import mappers
from tests.verification.graph_records import Record, Trace
from tests.verification.verifier import VerificationError, verify

SPACE = (0, 0, 0, 4, 1, 1)
FRONT, BACK = (0, 0, 0, 2, 1, 1), (2, 0, 0, 4, 1, 1)


def program() -> Program:
    """Two devices write half of a buffer each, a fence reads all of it."""
    steps: list[Step] = [
        BufferDecl(0, (4,), "none"),
        Kernel(((0, 4),), (Access(0, "write", mappers.one_to_one()),)),
        Fence(0, ((0, 4),)),
    ]
    return Program(Settings(num_devices=2), steps)


def instruction(id_: int, kind: str, task: int, dependencies: list[int], **fields: object) -> Record:
    return {"id": id_, "kind": kind, "priority": 0, "key": (task, "work"), "dependencies": dependencies, **fields}


def alloc(id_: int, memory: int, box: tuple[int, ...]) -> Record:
    size = (box[3] - box[0]) * 4
    fields = {"allocation": (memory, 1), "size_bytes": size, "alignment_bytes": 4, "buffer": 0, "allocated_box": box}
    return instruction(id_, "alloc", 1, [0], **fields)


def kernel(id_: int, device: int, box: tuple[int, ...]) -> Record:
    binding = {
        "buffer": 0,
        "mode": "write",
        "allocation": (2 + device, 1),
        "bounding_box": box,
        "accessed": [box],
        "parts": [],
    }
    fields = {"device": device, "submission": 1, "chunk": box, "accesses": [binding], "reductions": []}
    return instruction(id_, "device_kernel", 1, [1 + device], **fields)


def copy(id_: int, memory: int, box: tuple[int, ...], dependencies: list[int]) -> Record:
    return instruction(
        *(id_, "copy", 2, dependencies),
        source=(memory, 1),
        source_offset_bytes=0,
        boxes=[box],
        destination=(0, 1),
        destination_offset_bytes=0,
        element_size_bytes=4,
        reason="fence",
        buffer=0,
    )


def trace() -> Trace:
    return Trace(
        rank=0,
        tasks=[
            {"id": 0, "submission": 0, "kind": "epoch", "dependencies": []},
            {"id": 1, "submission": 1, "kind": "device_kernel", "dependencies": [(0, "true")]},
            {"id": 2, "submission": 2, "kind": "fence", "dependencies": [(1, "true")]},
        ],
        commands=[
            {"id": 0, "kind": "epoch", "task": 0, "dependencies": []},
            {
                "id": 1,
                "kind": "execution",
                "task": 1,
                "dependencies": [(0, "true")],
                "chunk": SPACE,
                "reads": [],
                "writes": [(0, [SPACE])],
            },
            {"id": 2, "kind": "fence", "task": 2, "dependencies": [(1, "true")]},
        ],
        instructions=[
            instruction(0, "epoch", 0, []),
            alloc(1, 2, FRONT),
            alloc(2, 3, BACK),
            kernel(3, 0, FRONT),
            kernel(4, 1, BACK),
            copy(5, 2, FRONT, [3]),
            copy(6, 3, BACK, [4]),
            instruction(7, "fence", 2, [5, 6], submission=2),
            instruction(8, "free", 2, [5], allocation=(2, 1), size_bytes=8),
            instruction(9, "free", 2, [6], allocation=(3, 1), size_bytes=8),
        ],
        buffer_numbers={0: 0},
        user_allocations={1: ("fence", 2)},
        is_finished=True,
    )


def test_a_right_graph_is_accepted() -> None:
    verify(program(), [trace()])


def depends(place: int, *dependencies: int) -> Callable[[Trace], None]:
    def change(target: Trace) -> None:
        target.instructions[place]["dependencies"] = list(dependencies)

    return change


def changes(place: int, **fields: object) -> Callable[[Trace], None]:
    return lambda target: target.instructions[place].update(fields)


def drops(place: int) -> Callable[[Trace], None]:
    return lambda target: target.instructions.__delitem__(place)


def drops_command_edge(target: Trace) -> None:
    target.commands[2]["dependencies"] = [(0, "true")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (depends(5, 1), "no path from I3 device_kernel"),
        (depends(3, 0), r"no path from the alloc of \(2, 1\)"),
        (depends(7, 5), "no path from I6 copy"),
        (depends(8, 3), "no path from I5 copy"),
        (depends(5, 3, 3), "listed twice"),
        (depends(5, 3, 77), "was not emitted before"),
        (drops(6), "depends on 6, which was not emitted before"),
        (drops(9), "is never freed"),
        (changes(3, key=(3, "work")), "key is smaller than that of its predecessor I3"),
        (changes(5, boxes=[(0, 0, 0, 1, 1, 1)]), "holds nothing"),
        (changes(4, chunk=FRONT), "is not what b0.write"),
        (changes(1, size_bytes=4), "size is not that of its box"),
        (drops(7), "is never fulfilled"),
        (drops_command_edge, "no path from C1 execution"),
    ],
)
def test_a_broken_graph_is_refused_and_the_reason_named(change: Callable[[Trace], None], message: str) -> None:
    broken = deepcopy(trace())
    change(broken)
    with pytest.raises(VerificationError, match=message):
        verify(program(), [broken])


def test_a_horizon_that_misses_one_of_the_front_is_refused() -> None:
    broken = trace()
    broken.instructions = [*broken.instructions, instruction(10, "horizon", 2, [7, 8])]
    with pytest.raises(VerificationError, match="is not behind I9 free"):
        verify(program(), [broken])


def test_a_stale_copy_is_refused() -> None:
    twice = program()
    twice.steps = [*twice.steps[:2], Epoch(), *twice.steps[1:]]
    stale = trace()
    stale.tasks[2].update(id=4, submission=4)
    stale.tasks.insert(2, {"id": 2, "submission": 2, "kind": "epoch", "dependencies": [(1, "true")]})
    stale.tasks.insert(3, {"id": 3, "submission": 3, "kind": "device_kernel", "dependencies": [(2, "true")]})
    stale.tasks[4]["dependencies"] = [(3, "true")]
    stale.commands[2]["task"] = 4
    stale.user_allocations = {1: ("fence", 4)}
    with pytest.raises(VerificationError, match="has version 1, S4 needs version 3"):
        verify(twice, [stale])
