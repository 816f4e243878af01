# SPDX-License-Identifier: MIT
"""Templates of plain loops change nothing, and are used: cases that random programs may miss."""

from __future__ import annotations

import pytest

from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    Flush,
    HostTask,
    Kernel,
    ObjectFence,
    Reduction,
    Replay,
    Settings,
    Step,
)
from tests.property.template_programs import TwoPipelines
from tests.property.test_template_programs import BACK, FIELDS, HALO, LINE, MACHINES, ONE, STEP, THERE
from tests.support import mappers

OTHER = Kernel(LINE, (Access(0, "read_write", ONE), Access(1, "read", ONE)))


def run(machine: Settings, *parts: list[Step], reports: bool = True) -> list[int]:
    """The tasks of each part that came from a template, on rank 0."""
    repeated: list[int] = []
    for rank in range(machine.num_ranks):
        pipelines = TwoPipelines(machine, rank)
        for part in [FIELDS, *parts]:
            before = pipelines.repeated
            for step in part:
                pipelines.apply(step)
                if reports:
                    pipelines.report(len(pipelines.unreported))
            if rank == 0 and part is not FIELDS:
                repeated.append(pipelines.repeated - before)
        pipelines.finish()
    return repeated


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("reports", [True, False])
def test_nearly_all_of_a_long_loop_comes_from_a_template(machine: Settings, reports: bool) -> None:
    (repeated,) = run(machine, [*STEP] * 100, reports=reports)
    assert repeated >= 150


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("stops", [[], [Fence(0, LINE)], [Epoch()]], ids=str)
def test_periods_are_handed_over_whatever_the_batches(machine: Settings, stops: list[Step]) -> None:
    pipelines = TwoPipelines(machine)
    for step in [*FIELDS, *[*[*STEP] * 10, *stops] * 20]:
        pipelines.apply(step)
    pipelines.finish()
    assert pipelines.batched >= 10


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize(
    "between",
    [
        [OTHER],
        [Epoch()],
        [HostTask("once", (), (Access(1, "read", mappers.all_()),))],
        [Fence(0, LINE)],
        [Replay(0, STEP, 30)],
        [ObjectFence(1)],
        [BufferDecl(9, (8,), "array"), Destroy(9)],
        [Flush()],
    ],
    ids=str,
)
def test_a_known_loop_is_taken_up_again(machine: Settings, between: list[Step]) -> None:
    start: list[Step] = [HostTask("once", (), (), objects=(1,))]
    *_, last = run(machine, start + [*STEP] * 20, *[between + [*STEP] * 20 for _ in range(12)])
    assert last >= 12


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize(
    "stop", [Epoch(), Epoch("barrier"), Fence(0, LINE), Fence(1, ((3, 9),), on_all=False)], ids=str
)
@pytest.mark.parametrize("every", [1, 5])
def test_a_fence_or_wait_every_few_steps_is_part_of_the_loop(machine: Settings, stop: Step, every: int) -> None:
    frame = [*[*STEP] * every, stop]
    _, repeated = run(machine, frame * 20, frame * 10)
    assert repeated == len(frame) * 10


def test_a_fence_every_hundred_steps_leaves_most_of_them_to_the_template_of_the_steps() -> None:
    frames: list[list[Step]] = [[*[*STEP] * 150, Fence(0, LINE)] for _ in range(4)]
    _, *repeated = run(Settings(num_devices=2), *frames)
    assert all(number >= 270 for number in repeated), repeated


@pytest.mark.parametrize("machine", [Settings(), Settings(num_devices=2), Settings(num_ranks=2)], ids=str)
def test_a_wait_behind_many_steps_leaves_the_others_to_the_template_of_the_steps(machine: Settings) -> None:
    frame: list[Step] = [*[*STEP] * 500, Epoch()]
    _, first, *_, last = run(machine, [Epoch()], *[frame] * 6, reports=False)
    assert min(first, last) >= 980


def test_fewer_tasks_than_a_loop_needs_are_planned() -> None:
    assert run(Settings(), [*STEP] * 4, [OTHER], [*STEP] * 4) == [0, 0, 0]


def test_loops_take_turns() -> None:
    single: Step = Kernel(LINE, (Access(2, "read_write", ONE),))
    first: list[Step] = [Kernel(LINE, (Access(2, "write", ONE),))]
    turns: list[list[Step]] = [[*STEP] * 30, [single] * 60]
    _, *parts = run(Settings(num_ranks=2), first, *turns * 4)
    assert all(repeated >= 30 for repeated in parts), parts


def test_the_body_of_a_loop_has_tasks_that_occur_several_times() -> None:
    body: list[Step] = [THERE, THERE, BACK, THERE, BACK, BACK]
    (repeated,) = run(Settings(num_devices=2), body * 40)
    assert repeated >= 120


@pytest.mark.parametrize("machine", MACHINES[:4], ids=str)
def test_reductions_and_tables_in_a_loop(machine: Settings) -> None:
    body: list[Step] = [
        Kernel(LINE, (Access(0, "read", mappers.shifted(1)), Access(1, "read_write", ONE)), (Reduction(4, "sum"),)),
        HostTask("once", (), (Access(4, "read", mappers.all_()),)),
    ]
    start: list[Step] = [BufferDecl(4, (), "none")]
    (repeated,) = run(machine, start + body * 60)
    assert repeated >= 60


def test_a_buffer_of_the_loop_dies_and_another_one_takes_its_place() -> None:
    def step(other: int) -> Step:
        return Kernel(LINE, (Access(0, "read", HALO), Access(other, "read_write", ONE)))

    new: list[Step] = [Destroy(1), BufferDecl(3, (64,), "array")]
    first, second = run(Settings(num_devices=2), [step(1)] * 60, new + [step(3)] * 60)
    assert first >= 30
    assert second >= 30


def test_a_loop_with_a_buffer_per_step_is_planned() -> None:
    def step(number: int) -> list[Step]:
        frame: list[Step] = [BufferDecl(number, (64,), "array")]
        return [*frame, Kernel(LINE, (Access(0, "read_write", ONE), Access(number, "read", HALO))), Destroy(number)]

    assert run(Settings(), [each for number in range(10, 50) for each in step(number)]) == [0]


def test_queues_of_several_priorities_have_no_loops() -> None:
    assert run(Settings(seed=1), [*STEP] * 60) == [0]
