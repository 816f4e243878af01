# SPDX-License-Identifier: MIT
"""Deep halos: how far tasks reach beyond their shares, and what the graphs of replicated executions exchange."""

from __future__ import annotations

from typing import Any

import pytest

from celerity_py import _native, _native_testing, access, hints
from tests.support import mappers
from tests.verification.contexts import Cluster

ROWS = 64
ONE = mappers.one_to_one()
CROSS = mappers.neighborhood(1, 1, shape="axes")


def run_periods(cluster: Cluster, steps: int, periods: int, split: str = "rows", rows: int = ROWS) -> Cluster:
    """A wave equation: before `steps` steps, halos that are as deep."""
    shape = (rows, 4 if split == "rows" else rows)
    u, v = (cluster.buffer(shape, "array") for _ in range(2))
    for step in range(steps * periods):
        reach = steps - 1 - step % steps
        kernel = cluster.kernel(shape).read_write(v, ONE).read(u, CROSS).split(split)
        kernel.reach(reach, reach).submit()
        u, v = v, u
    cluster.fence(u)
    return cluster.finish()


def num_of(cluster: Cluster, kind: str, rank: int = 0) -> int:
    return sum(record["kind"] == kind for record in cluster.traces[rank].commands)


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize("direct", [False, True])
def test_halos_of_several_steps_are_exchanged_once(num_ranks: int, num_devices: int, direct: bool) -> None:
    cluster = run_periods(Cluster(num_ranks, num_devices, direct=direct), steps=4, periods=3)
    cluster.verify()
    for rank in range(num_ranks):
        # Of both fields in each period but the first one, as all ranks have the initial contents; and for the fence.
        assert num_of(cluster, "push", rank) == 2 * 2 + 1


def test_corners_of_a_split_in_two_dimensions_come_from_their_owners() -> None:
    cluster = run_periods(Cluster(4), steps=3, periods=2, split="split_2d", rows=24)
    cluster.verify()
    pushes = [record for record in cluster.traces[0].commands if record["kind"] == "push"]
    assert {target for target, _ in pushes[0]["targets"]} == {1, 2, 3}


def test_devices_of_a_rank_exchange_halos_of_several_steps_once() -> None:
    counts = []
    for steps in (1, 4):
        cluster = run_periods(Cluster(1, 2), steps, 12 // steps)
        cluster.verify()
        records = cluster.traces[0].instructions
        counts.append(sum(each["kind"] == "copy" and each["reason"] == "coherence" for each in records))
    assert counts[1] < counts[0] / 2


@pytest.mark.parametrize("hint", ["oversubscribe", "border_first"])
def test_parts_of_a_device_never_overlap(hint: str) -> None:
    cluster = Cluster(2, 2)
    u, v = (cluster.buffer((ROWS,), "array") for _ in range(2))
    for step in range(6):
        kernel = cluster.kernel(ROWS).write(v, ONE).read(u, mappers.neighborhood(1)).reach(2 - step % 3)
        getattr(kernel, hint)(2).submit()
        u, v = v, u
    cluster.finish().verify()


def test_a_write_of_another_task_is_fetched_by_those_who_have_computed_the_old_value() -> None:
    cluster = Cluster(2)
    u, v = (cluster.buffer((ROWS,), "array") for _ in range(2))
    cluster.kernel(ROWS).write(v, ONE).read(u, mappers.neighborhood(1)).reach(3).submit()
    cluster.kernel(ROWS).read_write(v, ONE).submit()
    cluster.kernel(ROWS).write(u, ONE).read(v, mappers.neighborhood(2)).submit()
    assert [num_of(cluster, "push", rank) for rank in (0, 1)] == [1, 1]
    cluster.finish().verify()


def test_two_periods_of_four_steps_need_one_exchange() -> None:
    cluster = Cluster(2)
    u, v = (cluster.buffer((ROWS,), "array") for _ in range(2))
    halo = mappers.neighborhood(1)
    for step in range(8):
        cluster.kernel(ROWS).write(v, ONE).read(u, halo).reach(3 - step % 4).submit()
        u, v = v, u
    assert [num_of(cluster, "push", rank) for rank in (0, 1)] == [1, 1]
    cluster.finish().verify()


# ---- depths


def find_halos(num_ranks: int, num_devices: int, *tasks: Any, rows: int = ROWS) -> tuple[str, Any, float, float]:
    """`tasks`: (steps of the hint, hints, accesses) of two buffers, 0 and 1."""
    cluster = Cluster(num_ranks, num_devices)
    native = cluster.ranks[0].native
    buffers = [cluster.buffer((rows, 4), "array") for _ in range(3)]
    planned = []
    for steps, given, accesses in tasks:
        asked = [*given, *([hints.recompute(steps)] if steps else [])]
        division = hints.resolve(asked, 1, num_ranks, num_devices)
        task = _native.Task.kernel(_native.Box([0, 0], [rows, 4]), None, division)
        listed = [(buffers[number].number + 1, mode, mapper) for number, mode, mapper in accesses]
        planned.append(_native_testing.with_accesses(task, listed, "kernel"))
    kind, reaches, growth, work = native.find_halos(planned)
    return kind, [tuple(reach) for reach in reaches], growth, work


READ, WRITE, UPDATE = range(3)
HALO = access.neighborhood(1, 1)
SAME = access.one_to_one()


def step(into: int, source: int, steps: int = 4, *given: hints.Hint) -> Any:
    return steps, given, [(into, UPDATE, SAME), (source, READ, HALO)]


def test_depths_follow_backwards_from_the_last_task() -> None:
    kind, reaches, growth, work = find_halos(2, 1, step(1, 0), step(0, 1))
    assert kind == "deep"
    assert reaches == [(depth, 0, 0) for depth in range(7, -1, -1)]
    assert growth == (32 + 7) / 32
    assert work == pytest.approx(1 + 3.5 / 32)


def test_a_buffer_that_is_overwritten_needs_no_old_values() -> None:
    smooth = (2, (), [(2, WRITE, SAME), (0, READ, HALO)])
    back = (2, (), [(0, WRITE, SAME), (2, READ, SAME)])
    assert find_halos(2, 1, smooth, back)[1] == [(1, 0, 0), (1, 0, 0), (0, 0, 0), (0, 0, 0)]


def test_a_reader_without_the_hint_is_served_as_well() -> None:
    residual = (0, (), [(2, WRITE, SAME), (0, READ, HALO)])
    assert find_halos(2, 1, (1, (), [(0, UPDATE, SAME)]), residual)[1] == [(1, 0, 0), (0, 0, 0)]


def test_reaches_are_multiples_of_the_granularity() -> None:
    cluster = Cluster(2)
    buffer = cluster.buffer((ROWS, 4), "array")
    task = _native.Task.kernel(_native.Box([0, 0], [ROWS, 4]), (4, 1), hints.resolve(hints.recompute(2)))
    other = cluster.buffer((ROWS, 4), "array")
    tasks = [
        _native_testing.with_accesses(task, [(b.number + 1, UPDATE, SAME), (a.number + 1, READ, HALO)], "kernel")
        for a, b in ((buffer, other), (other, buffer))
    ]
    found: Any = cluster.ranks[0].native.find_halos(tasks)
    assert [tuple(reach) for reach in found[1]] == [(12, 0, 0), (8, 0, 0), (4, 0, 0), (0, 0, 0)]


@pytest.mark.parametrize(
    ("tasks", "kind"),
    [
        ([step(1, 0, 4), step(0, 1, 3)], "other_steps"),
        ([step(1, 0), step(0, 1, 4, hints.split_2d())], "other_shares"),
        ([step(1, 0, 16), step(0, 1, 16)], "too_much"),
        ([(4, (), [(1, UPDATE, SAME), (0, READ, access.all())]), step(0, 1)], "read_elsewhere"),
        ([(4, (), [(1, UPDATE, SAME), (0, READ, access.slice(0))]), step(0, 1)], "read_elsewhere"),
        ([(4, (), [(1, UPDATE, SAME), (0, READ, access.neighborhood(1, 0, wrap=True))]), step(0, 1)], "wraps"),
        ([(4, (), [(1, UPDATE, access.permute(0, 1))]), step(0, 1)], "writes_elsewhere"),
        ([step(1, 0, 0), step(0, 1, 0)], "none"),
        ([(4, (), [(1, UPDATE, SAME), (0, READ, access.slice(1))]), step(0, 1)], "deep"),
        ([(4, (), [(1, UPDATE, SAME), (2, READ, access.all())]), step(0, 1)], "deep"),
    ],
)
def test_what_deep_halos_cannot_serve_is_told(tasks: list[Any], kind: str) -> None:
    assert find_halos(2, 2, *tasks)[0] == kind


def test_a_single_device_has_no_borders() -> None:
    assert find_halos(1, 1, step(1, 0), step(0, 1))[0] == "none"
