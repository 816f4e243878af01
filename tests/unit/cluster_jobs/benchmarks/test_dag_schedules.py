# SPDX-License-Identifier: MIT
"""The hand-written schedules of the DAG programs: they keep every order that is needed, with the fewest waits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cluster_jobs.benchmarks.dags.dag_programs import Program, Use
from cluster_jobs.benchmarks.dags.dag_regimes import ALL, MIXES, REGIMES, build, joined
from cluster_jobs.benchmarks.dags.dag_schedules import (
    SCHEDULES,
    Operation,
    Schedule,
    count_waits,
    dependencies,
    forked,
    kernel_operations,
    last_streams,
    least_waits_of,
    operations_with_copies,
    reachable,
    reduced,
    schedule_of,
    serial,
    width_of,
)

RUNS = 3
R1, R3, R4 = (REGIMES[name] for name in ("R1", "R3", "R4"))


@functools.cache
def _program(name: str, regime: str = "R4") -> Program:
    return joined(name, build(name, REGIMES[regime], scale=1e-4))


class Streams:
    """Stands in for streams and events, and notes their order only.

    Works are numbered in the order in which they are issued.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.works: list[Operation] = []
        #: Of each work, all works that are over before it begins.
        self.before: list[frozenset[int]] = []
        self._streams: dict[int, frozenset[int]] = {}
        self._events: dict[int | str, frozenset[int]] = {}
        for operation in operations:
            self._apply(operation)

    def _apply(self, operation: Operation) -> None:
        known = self._streams.get(operation.stream, frozenset())
        if operation.kind == "record":
            self._events[operation.what] = known
        elif operation.kind == "wait":  # for the latest record; for none, if there is none
            self._streams[operation.stream] = known | self._events.get(operation.what, frozenset())
        else:
            self.before.append(known)
            self._streams[operation.stream] = known | {len(self.works)}
            self.works.append(operation)

    def at_end_of(self, streams: Sequence[int]) -> frozenset[int]:
        """The work that is over when these streams are."""
        return frozenset().union(*(self._streams[stream] for stream in streams))

    def random_order(self, generator: np.random.Generator) -> list[int]:
        """Any order that streams and events allow."""
        order: list[int] = []
        left = set(range(len(self.works)))
        while left:
            ready = sorted(work for work in left if not self.before[work] & left)
            order.append(int(generator.choice(ready)))
            left.remove(order[-1])
        return order


def _touched(program: Program, work: Operation) -> tuple[set[str], set[str]]:
    """The data that a work reads or writes on the device, and the data that it writes."""
    if work.kind != "launch":
        return {str(work.what)}, ({str(work.what)} if work.kind == "copy_in" else set())
    assert isinstance(work.what, int)
    uses = [arg for arg in program.steps[work.what].args if isinstance(arg, Use)]
    return {use.buffer for use in uses}, {use.buffer for use in uses if use.mode != "read"}


def _unordered(program: Program, operations: Sequence[Operation]) -> list[tuple[Operation, Operation]]:
    """Pairs of works that conflict, and that nothing keeps in order."""
    streams = Streams(operations)
    touched = [_touched(program, work) for work in streams.works]
    return [
        (streams.works[first], streams.works[second])
        for second in range(len(touched))
        for first in range(second)
        if (touched[first][1] & touched[second][0] or touched[first][0] & touched[second][1])
        and first not in streams.before[second]
    ]


def _variants(name: str) -> dict[str, tuple[Program, list[Operation]]]:
    """Everything that is issued by hand with several streams."""
    resident, from_host = _program(name), _program(name, "R3")
    schedule = schedule_of(name)
    return {
        "once": (resident, kernel_operations(schedule)),
        "again and again": (resident, kernel_operations(schedule, repeated=True) * RUNS),
        "with copies": (from_host, operations_with_copies(from_host, schedule)),
    }


@pytest.mark.parametrize("name", ALL)
def test_a_schedule_has_each_step_once_and_no_dependency_without_an_order(name: str) -> None:
    for program, operations in _variants(name).values():
        launched = [operation.what for operation in operations if operation.kind == "launch"]
        steps = list(range(len(program.steps)))
        assert launched == steps * (len(launched) // len(steps))
        assert _unordered(program, operations) == []


@pytest.mark.parametrize("name", ALL)
def test_no_wait_can_be_left_out(name: str) -> None:
    for kind, (program, operations) in _variants(name).items():
        once = len(operations) // RUNS if kind == "again and again" else len(operations)
        for position in [p for p in range(once) if operations[p].kind == "wait"]:
            without = [op for index, op in enumerate(operations) if index % once != position]
            assert _unordered(program, without), f"{kind}: {operations[position]} is not needed"


@pytest.mark.parametrize("name", ALL)
def test_a_schedule_keeps_apart_no_steps_that_may_run_together_and_has_the_fewest_waits_and_streams(name: str) -> None:
    program, operations = _variants(name)["once"]
    streams = Streams(operations)
    needed = reachable(dependencies(program), len(program.steps))
    for second, before in enumerate(streams.before):
        assert before == {first for first in range(len(program.steps)) if second in needed[first]}
    assert count_waits(operations) == least_waits_of(program) == program.least_waits
    assert len({operation.stream for operation in operations}) == width_of(program)


def test_the_structure_of_the_six_is_that_of_the_specification() -> None:
    table = dict.fromkeys(("VEC",), (3, 2, 2, 1)) | {
        "B&S": (10, 0, 10, 0),
        "IMG": (11, 11, 4, 4),
        "ML": (10, 9, 2, 1),
        "HITS": (30, 46, 2, 18),
        "DL": (8, 7, 2, 1),
    }
    for name, expected in table.items():
        for regime in ("R4", "R3"):
            program = _program(name, regime)
            edges = reduced(dependencies(program), len(program.steps))
            assert (len(program.steps), len(edges), width_of(program), least_waits_of(program)) == expected


def test_a_mixture_is_as_wide_as_its_parts_together() -> None:
    for name, parts in MIXES.items():
        assert width_of(_program(name)) == sum(width_of(_program(part)) for part in parts)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_missing_wait_is_found(name: str) -> None:
    program = _program(name)
    schedule = SCHEDULES[name]
    bare = Schedule(schedule.streams)
    assert bool(_unordered(program, kernel_operations(bare))) == (program.least_waits > 0)


@pytest.mark.parametrize("name", ALL)
def test_the_capture_of_a_graph_begins_and_ends_on_its_first_stream(name: str) -> None:
    for kind in ("once", "with copies"):
        program, operations = _variants(name)[kind]
        captured = forked(operations)
        assert _unordered(program, captured) == []
        streams = Streams(captured)
        assert streams.at_end_of([0]) == set(range(len(streams.works))), "everything is joined"
        seen = {0}
        for operation in captured:
            if operation.kind == "wait":
                seen.add(operation.stream)
            assert operation.stream in seen, "a stream takes part in the capture by a wait"


@pytest.mark.parametrize("name", ALL)
def test_waiting_for_the_last_streams_is_waiting_for_everything(name: str) -> None:
    for _, operations in _variants(name).values():
        streams = Streams(operations)
        last = last_streams(operations)
        assert streams.at_end_of(last) == set(range(len(streams.works)))
        for stream in last:
            assert streams.at_end_of([other for other in last if other != stream]) != set(range(len(streams.works)))


@pytest.mark.parametrize("name", ALL)
def test_what_is_copied_is_what_a_serial_program_copies(name: str) -> None:
    program, operations = _variants(name)["with copies"]
    in_a_row = operations_with_copies(program, serial(program))
    assert {operation.stream for operation in in_a_row} == {0}
    assert count_waits(in_a_row) == 0
    for kind, names in (("copy_in", program.dirty), ("copy_out", program.read_back)):
        for found in (operations, in_a_row):
            assert tuple(operation.what for operation in found if operation.kind == kind) == names


def _interpret(program: Program, works: Sequence[Operation], runs: int) -> dict[str, Any]:
    arrays = {name: array.copy() for name, array in program.buffers.items()}
    for work in works:
        if work.kind == "copy_in":
            arrays[str(work.what)][...] = program.buffers[str(work.what)]
        elif work.kind == "launch":
            assert isinstance(work.what, int)
            step = program.steps[work.what]
            step.kernel.numpy(*(arrays[arg.buffer] if isinstance(arg, Use) else arg for arg in step.args))
    return {name: arrays[name] for name in program.results}


@pytest.mark.parametrize("name", ALL)
def test_any_order_that_the_waits_allow_computes_the_same(name: str) -> None:
    generator = np.random.default_rng(17)
    for kind, (program, operations) in _variants(name).items():
        streams = Streams(operations)
        runs = RUNS if kind == "again and again" else 1
        for _ in range(4):
            order = streams.random_order(generator)
            program.check(_interpret(program, [streams.works[work] for work in order], runs), runs)
