# SPDX-License-Identifier: MIT
"""One node per submission, the same on every rank: dependencies, horizons, epochs."""

from __future__ import annotations

import pytest

from celerity_py._native import Box, Region
from tests.support.mappers import all_, fixed, one_to_one
from tests.verification.contexts import BufferHandle, Cluster

SIZE = 16


def write(cluster: Cluster, buffer: BufferHandle, name: str) -> int:
    return cluster.kernel(SIZE, name).write(buffer, one_to_one()).submit()


def read(cluster: Cluster, buffer: BufferHandle, name: str) -> int:
    return cluster.kernel(SIZE, name).read(buffer, one_to_one()).submit()


def edge_kinds(cluster: Cluster, name: str) -> dict[str, str]:
    graph = cluster.tasks()
    names = {record["id"]: graph.name_of(record) or record["kind"] for record in graph.records}
    return {names[id_]: kind for id_, kind in graph.all(name=name).one()["dependencies"]}


def test_a_reader_depends_on_the_writer_and_a_later_writer_on_the_reader() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    write(cluster, buffer, "first")
    read(cluster, buffer, "reader")
    write(cluster, buffer, "second")
    assert edge_kinds(cluster, "reader") == {"first": "true"}
    assert edge_kinds(cluster, "second")["reader"] == "anti"
    cluster.finish().verify()


def test_a_writer_without_readers_between_is_ordered_behind_the_writer_before() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    write(cluster, buffer, "first")
    write(cluster, buffer, "second")
    assert edge_kinds(cluster, "second")["first"] == "output"
    cluster.finish().verify()


@pytest.mark.parametrize("mode", ["read", "read_write"])
def test_who_keeps_old_contents_has_a_true_dependency(mode: str) -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    write(cluster, buffer, "first")
    getattr(cluster.kernel(SIZE, "second"), mode)(buffer, one_to_one()).submit()
    assert edge_kinds(cluster, "second") == {"first": "true"}
    cluster.finish().verify()


def test_readers_of_the_same_data_are_concurrent() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE, "array")
    for name in ("a", "b", "c"):
        read(cluster, buffer, name)
    readers = cluster.tasks().all("device_kernel")
    assert readers.count_is(3)
    assert readers.all_concurrent()
    cluster.finish().verify()


def test_tasks_on_different_parts_of_a_buffer_are_concurrent() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    cluster.kernel(((0, 8),), "front").write(buffer, one_to_one()).submit()
    cluster.kernel(((8, 16),), "back").write(buffer, one_to_one()).submit()
    cluster.kernel(((0, 8),), "front reader").read(buffer, one_to_one()).submit()
    tasks = cluster.tasks()
    assert tasks.all(name="back").is_concurrent_with(tasks.all(name="front") | tasks.all(name="front reader"))
    assert tasks.all(name="front").each_reaches(tasks.all(name="front reader"))
    cluster.finish().verify()


def test_a_task_that_depends_on_nothing_is_behind_the_epoch() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE, "array")
    read(cluster, buffer, "first")
    cluster.wait()
    other = cluster.buffer(SIZE)
    write(cluster, other, "second")
    tasks = cluster.tasks()
    assert tasks.all("epoch").each_reaches(tasks.all(name="second"))
    assert tasks.all(name="second").predecessors("epoch").count_is(1)
    cluster.finish().verify()


def test_a_host_initialised_buffer_depends_on_the_epoch_only() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE, "array")
    write(cluster, cluster.buffer(SIZE), "other")
    read(cluster, buffer, "reader")
    assert edge_kinds(cluster, "reader") == {"init": "true"} or edge_kinds(cluster, "reader") == {"epoch": "true"}
    cluster.finish().verify()


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_chain_gets_a_horizon_every_few_tasks(step: int) -> None:
    cluster = Cluster(horizon_step=step)
    buffer = cluster.buffer(SIZE, "array")
    for number in range(12):
        cluster.kernel(SIZE, f"link {number}").read_write(buffer, one_to_one()).submit()
    horizons = cluster.tasks().all("horizon")
    assert horizons.count_is(12 // step)
    cluster.finish().verify()


def test_many_independent_tasks_get_a_horizon_too() -> None:
    cluster = Cluster(horizon_step=100, horizon_max_parallelism=5)
    for number in range(10):
        write(cluster, cluster.buffer(SIZE), f"task {number}")
    tasks = cluster.tasks()
    assert tasks.all("horizon")
    assert tasks.all(name="task 0").each_reaches(tasks.all("horizon"))
    cluster.finish().verify()


def test_a_horizon_is_behind_the_whole_front() -> None:
    cluster = Cluster(horizon_step=2)
    chain, aside = cluster.buffer(SIZE, "array"), cluster.buffer(SIZE)
    write(cluster, aside, "aside")
    for number in range(2):
        cluster.kernel(SIZE, f"link {number}").read_write(chain, one_to_one()).submit()
    tasks = cluster.tasks()
    assert tasks.all("device_kernel").each_reaches(tasks.all("horizon"))
    cluster.finish().verify()


def test_a_horizon_takes_effect_when_the_next_one_is_made() -> None:
    cluster = Cluster(horizon_step=2)
    chain, aside = cluster.buffer(SIZE, "array"), cluster.buffer(SIZE)
    write(cluster, aside, "aside")
    for number in range(2):
        cluster.kernel(SIZE, f"link {number}").read_write(chain, one_to_one()).submit()
    read(cluster, aside, "early reader")
    for number in range(2, 6):
        cluster.kernel(SIZE, f"link {number}").read_write(chain, one_to_one()).submit()
    read(cluster, aside, "late reader")
    tasks = cluster.tasks()
    assert tasks.all(name="early reader").predecessors(name="aside").count_is(1)
    assert tasks.all(name="late reader").predecessors(name="aside").is_empty()
    assert tasks.all(name="late reader").predecessors("horizon").count_is(1)
    cluster.finish().verify()


def test_a_wait_takes_effect_at_once() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    write(cluster, buffer, "writer")
    cluster.wait()
    read(cluster, buffer, "reader")
    tasks = cluster.tasks()
    assert tasks.all(name="reader").predecessors("epoch").count_is(1)
    assert tasks.all(name="reader").predecessors("device_kernel").is_empty()
    cluster.finish().verify()


def test_a_chain_of_fences_and_waits_makes_no_horizons() -> None:
    cluster = Cluster(horizon_step=1)
    buffer = cluster.buffer(SIZE, "array")
    for _ in range(4):
        cluster.fence(buffer)
        cluster.wait()
    assert cluster.tasks().all("horizon").is_empty()
    cluster.finish().verify()


def test_many_fences_get_a_horizon_too() -> None:
    cluster = Cluster(horizon_step=100, horizon_max_parallelism=5)
    buffer = cluster.buffer(SIZE, "array")
    for _ in range(20):
        cluster.fence(buffer)
    tasks = cluster.tasks()
    assert len(tasks.all("horizon")) == 4
    assert len(tasks.all("horizon").predecessors("fence")) >= 16
    cluster.finish().verify()


def test_a_reduction_overwrites_its_buffer_unless_it_includes_the_current_value() -> None:
    cluster = Cluster(num_devices=2)
    scalar = cluster.buffer(1, "array")
    cluster.host_task(name="reader").read(scalar, all_()).submit()
    cluster.kernel(SIZE, "first").reduce(scalar).submit()
    cluster.kernel(SIZE, "second").reduce(scalar, include_current=True).submit()
    assert edge_kinds(cluster, "first")["reader"] == "anti"
    assert edge_kinds(cluster, "second")["first"] == "true"
    cluster.finish().verify()


def test_submissions_are_counted_in_program_order() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE, "array")
    numbers = [read(cluster, buffer, "a"), cluster.fence(buffer), cluster.wait(), read(cluster, buffer, "b")]
    assert numbers == [1, 2, 3, 4]
    cluster.finish().verify()


def test_all_ranks_have_the_same_tasks() -> None:
    cluster = Cluster(num_ranks=4, num_devices=2, horizon_step=1)
    buffer = cluster.buffer(SIZE, "array")
    for _ in range(3):
        cluster.kernel(SIZE).read_write(buffer, one_to_one()).submit()
        cluster.fence(buffer, on_all=False)
    assert all(
        trace.tasks == cluster.traces[0].tasks or strip(trace.tasks) == strip(cluster.traces[0].tasks)
        for trace in cluster.traces
    )
    cluster.finish().verify()


def strip(tasks: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(task["id"], task["submission"], task["kind"], tuple(task["dependencies"])) for task in tasks]  # type: ignore[arg-type]


def test_reading_what_nobody_wrote_is_warned_of_once() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(SIZE)
    cluster.kernel(((0, 4),), "writer").write(buffer, one_to_one()).submit()
    context = cluster.ranks[0].native
    assert context.take_notices() == []
    for name in ("reader", "again"):
        cluster.kernel(1, name).read(buffer, fixed(((2, 6),))).submit()
    (notice,) = context.take_notices()
    assert notice.kind == "unwritten_read"
    assert (notice.task_name, notice.buffer, notice.where) == ("reader", 1, Region([Box((4,), (6,))]))
