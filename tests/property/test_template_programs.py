# SPDX-License-Identifier: MIT
"""Templates of replays change nothing: random programs, and cases that random programs may miss."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import settings

from tests.property.programs import (
    Access,
    BufferDecl,
    Destroy,
    Epoch,
    Fence,
    HostTask,
    Kernel,
    Reduction,
    Replay,
    Settings,
    Step,
)
from tests.property.template_programs import TwoPipelines, check_many
from tests.support import mappers

LINE = ((0, 64),)
ONE = mappers.one_to_one()
HALO = mappers.neighborhood(1)
FIELDS: list[Step] = [
    BufferDecl(0, (64,), "array"),
    BufferDecl(1, (64,), "array"),
    BufferDecl(2, (64,), "none"),
]
THERE = Kernel(LINE, (Access(0, "read", HALO), Access(1, "read_write", ONE)))
BACK = Kernel(LINE, (Access(1, "read", HALO), Access(0, "read_write", ONE)))
STEP = (THERE, BACK)
MACHINES = [
    Settings(),
    Settings(num_devices=3, lookahead="auto"),
    Settings(num_ranks=2, num_devices=2, lookahead="auto"),
    Settings(num_ranks=3, direct_pairs=frozenset({(0, 1), (0, 2), (1, 2)}), lookahead="auto"),
    Settings(horizon_step=3),
    Settings(num_ranks=2, horizon_step=7),
]


def run(machine: Settings, *steps: Step, reports: bool = True) -> list[int]:
    """The repetitions on rank 0 that came from a template, after each replay."""
    expanded: list[int] = []
    for rank in range(machine.num_ranks):
        pipelines = TwoPipelines(machine, rank)
        for step in [*FIELDS, *steps]:
            pipelines.apply(step)
            if reports:
                pipelines.report(len(pipelines.unreported))
            if rank == 0 and isinstance(step, Replay):
                expanded.append(pipelines.expanded)
        pipelines.finish()
    return expanded


def test_random_programs_have_the_same_instructions_with_templates() -> None:
    counts = check_many(1, int(os.environ.get("TEST_PROGRAMS", settings().max_examples // 4)))
    assert counts.with_templates > counts.programs // 2
    assert counts.expanded > counts.repetitions // 4


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("reports", [True, False])
def test_nearly_all_of_a_long_replay_comes_from_a_template(machine: Settings, reports: bool) -> None:
    (expanded,) = run(machine, *STEP, Replay(0, STEP, 200), reports=reports)
    assert expanded >= 160


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_template_serves_later_replays_after_other_tasks_and_waits(machine: Settings) -> None:
    other = Kernel(LINE, (Access(0, "read", ONE), Access(2, "write", ONE)))
    between: list[Step] = [
        other,
        Epoch(),
        HostTask("once", (), (Access(1, "read", mappers.all_()),)),
        Fence(0, LINE),
    ]
    steps: list[Step] = [*STEP, Replay(0, STEP, 100)]
    for step in between:
        steps += [step, Replay(0, STEP, 100)]
    expanded = run(machine, *steps)
    assert all(later - earlier >= 50 for earlier, later in itertools.pairwise(expanded)), expanded


@pytest.mark.parametrize("times", [1, 2, 3])
def test_fewer_repetitions_than_a_period_are_planned(times: int) -> None:
    single = (Kernel(LINE, (Access(0, "read_write", ONE),)),)  # four of them make a horizon
    replays = [Replay(0, single, times) for _ in range(20)]
    assert run(Settings(), *single, *replays)[-1] == 0


def test_replays_of_parts_of_a_period_go_on_with_the_template() -> None:
    single = (Kernel(LINE, (Access(0, "read_write", ONE),)),)
    replays = [Replay(0, single, times) for times in (50, 3, 6, 50, 1, 8, 5, 4)]
    expanded = run(Settings(), *single, *replays)
    assert expanded[-1] >= 90


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize(
    "stops", [(Epoch(),), (Epoch("barrier"),), (Fence(0, LINE),), (Fence(1, ((3, 9),), on_all=False), Epoch())], ids=str
)
@pytest.mark.parametrize("times", [1, 3])
def test_replays_with_a_wait_behind_each_come_from_a_template(
    machine: Settings, stops: tuple[Epoch | Fence, ...], times: int
) -> None:
    expanded = run(machine, *STEP, *[Replay(0, STEP, times), *stops] * 40)
    assert expanded[-1] >= 20 * times


def test_a_program_that_goes_on_otherwise_in_the_middle_of_a_period() -> None:
    other = Kernel(LINE, (Access(0, "read_write", ONE), Access(1, "read", ONE)))
    rounds: list[Step] = [*STEP]
    for number in range(40):
        rounds += [Replay(0, STEP, 1), Replay(0, STEP, 1)]
        rounds += [other] if number % 8 == 7 else [Epoch()] if number % 8 == 3 else [Fence(0, LINE), Epoch()]
    expanded = run(Settings(num_ranks=2, num_devices=2), *rounds)
    assert expanded[-1] >= 20


def test_a_program_that_changes_the_number_of_repetitions_between_waits() -> None:
    steps: list[Step] = [*STEP]
    for times in (1, 5, 2):
        steps += [Replay(0, STEP, times), Epoch()] * 20
    expanded = run(Settings(), *steps)
    shares = [(later - earlier) for earlier, later in itertools.pairwise([0, expanded[19], expanded[39], expanded[59]])]
    assert shares[0] >= 10
    assert shares[1] >= 50
    assert shares[2] >= 20


def test_replays_of_two_lengths_take_turns_before_waits() -> None:
    short: list[Step] = [Replay(0, STEP, 1), Epoch()]
    longer: list[Step] = [Replay(0, STEP, 3), Epoch()]
    expanded = run(Settings(), *STEP, *short * 6, *longer * 6, *[*short, *longer] * 10)
    assert expanded[-1] - expanded[11] == 40


def test_recordings_take_turns() -> None:
    other = (Kernel(LINE, (Access(2, "read_write", ONE),)),)
    replays = [Replay(n % 2, (STEP, other)[n % 2], 30) for n in range(10)]
    assert run(Settings(), *STEP, Kernel(LINE, (Access(2, "write", ONE),)), *replays)[-1] >= 150


def test_a_buffer_dies_and_another_one_takes_its_place() -> None:
    def step(other: int) -> Kernel:
        return Kernel(LINE, (Access(0, "read", HALO), Access(other, "read_write", ONE)))

    steps: list[Step] = [step(1), Replay(0, (step(1),), 60), Destroy(1), BufferDecl(3, (64,), "array")]
    expanded = run(Settings(num_devices=2), *steps, step(3), Replay(1, (step(3),), 60))
    assert expanded[1] - expanded[0] >= 40


def test_more_recordings_than_templates() -> None:
    recordings = [tuple([Kernel(LINE, (Access(0, "read_write", ONE),))] * length) for length in range(1, 31)]
    replays = [Replay(number, recordings[number], 25) for _ in range(2) for number in range(30)]
    assert run(Settings(), *STEP, *replays)[-1] >= 700


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_reductions_in_a_replay(machine: Settings) -> None:
    step = (
        Kernel(LINE, (Access(0, "read_write", ONE),), (Reduction(4, "sum"),)),
        HostTask("once", (), (Access(4, "read", mappers.all_()),)),
    )
    expanded = run(machine, BufferDecl(4, (), "none"), *step, Replay(0, step, 100))
    assert expanded[0] >= 50


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_single_replays_before_waits_behind_a_long_one(machine: Settings) -> None:
    single: list[Step] = [Replay(0, STEP, 1), Epoch()]
    expanded = run(machine, *STEP, Replay(0, STEP, 100), *single * 40)
    assert expanded[-1] - expanded[0] >= 20


def test_single_replays_before_a_fence_after_every_tenth() -> None:
    steps: list[Step] = [*[Replay(0, STEP, 1)] * 10, Fence(0, LINE)]
    expanded = run(Settings(num_devices=2), *STEP, *steps * 20)
    assert expanded[-1] - expanded[79] == 120


def test_long_replays_with_waits_in_no_order_come_from_the_template_of_repetitions() -> None:
    lengths = [5 + 7 * number % 13 for number in range(80)]
    steps = [step for times in lengths for step in (Replay(0, STEP, times), Epoch())]
    expanded = run(Settings(horizon_step=3), *STEP, *steps)
    assert expanded[-1] - expanded[39] >= sum(lengths[40:]) // 3


@pytest.mark.parametrize("machine", MACHINES[:4], ids=str)
@pytest.mark.parametrize("stop", [Epoch(), Fence(0, LINE)], ids=str)
@pytest.mark.parametrize("times", [10, 25])
def test_waits_between_replays_that_have_a_template_themselves(
    machine: Settings, stop: Epoch | Fence, times: int
) -> None:
    expanded = run(machine, *STEP, *[Replay(0, STEP, times), stop] * 40)
    assert expanded[-1] - expanded[19] == 20 * times


@pytest.mark.parametrize("length", [1, 3, 10])
def test_longer_replays_before_waits_follow_shorter_ones(length: int) -> None:
    step = (Kernel(LINE, (Access(0, "read_write", ONE),)),) * length
    short: list[Step] = [Replay(0, step, 1), Epoch()]
    longer: list[Step] = [Replay(0, step, 10), Epoch()]
    expanded = run(Settings(), *step, *short * 30, *longer * 30)
    assert expanded[-1] - expanded[39] == 200


def test_parts_of_replays_between_waits_are_batches_that_come_again() -> None:
    """The executor makes few graphs, each for the batches of one identity."""
    pipelines = TwoPipelines(Settings())
    parts: list[Step] = [Replay(0, STEP, 6), Replay(0, STEP, 4), Epoch()]
    for step in [*FIELDS, *STEP, *parts * 40]:
        pipelines.apply(step)
    assert [count > 30 for count in sorted(pipelines.contexts[0].native.replayed_batches())[-2:]] == [True, True]
    assert pipelines.contexts[1].native.replayed_batches() == []
