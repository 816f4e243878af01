# SPDX-License-Identifier: MIT
"""Growth that goes on horizon after horizon is allocated at its final size, and execution does not wait for its end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.mappers import fixed, history, one_to_one, row_of_columns
from tests.verification.contexts import BufferHandle, Cluster
from tests.verification.graph_query import Selection

ROWS, COLUMNS = 200, 8
ENOUGH = ROWS * COLUMNS * 4
DEVICES = (2, 3)


def make_cluster(**options: Any) -> Cluster:
    defaults: dict[str, Any] = {"num_ranks": 2, "num_devices": 2, "lookahead": "auto", "foreseeable_bytes": ENOUGH}
    return Cluster(**(defaults | options))


def write_rows(cluster: Cluster, buffer: BufferHandle, rows: range, *, reads_all_columns: bool = True) -> None:
    """Each step reads the rows that are written and writes the next one, as in RSim."""
    for row in rows:
        past = range(row + 1, ROWS) if rows.step < 0 else range(row)
        task = cluster.kernel(COLUMNS, "step").write(buffer, row_of_columns(row))
        mapper = fixed(((past.start, past.stop), (0, COLUMNS))) if reads_all_columns else history(row)
        (task.read(buffer, mapper) if past else task).submit()


def allocated(cluster: Cluster, rank: int, memory: int) -> list[tuple[int, ...]]:
    allocs = cluster.instructions(rank).all("alloc")
    return [record["allocated_box"] for record in allocs if record["allocation"][0] == memory]


def kernels(cluster: Cluster, rank: int = 0) -> Selection:
    return cluster.instructions(rank).all("device_kernel")


@pytest.mark.parametrize("direct", [False, True])
def test_a_pattern_that_keeps_growing_runs_before_it_has_ended(direct: bool) -> None:
    cluster = make_cluster(direct=direct)
    history_of_rows = cluster.buffer((ROWS, COLUMNS))
    write_rows(cluster, history_of_rows, range(40))
    for rank in range(2):
        assert len(kernels(cluster, rank)) >= 20
        for memory in DEVICES:
            assert allocated(cluster, rank, memory) == [(0, 0, 0, ROWS, COLUMNS, 1)]
    cluster.wait()
    for rank in range(2):
        assert cluster.instructions(rank).all("copy", reason="resize").is_empty()
        for memory in DEVICES:
            assert len(allocated(cluster, rank, memory)) == 1
    cluster.finish().verify()


def test_it_may_grow_downwards() -> None:
    cluster = make_cluster()
    buffer = cluster.buffer((ROWS, COLUMNS))
    write_rows(cluster, buffer, range(ROWS - 1, ROWS - 41, -1))
    assert len(kernels(cluster)) >= 20
    assert allocated(cluster, 0, DEVICES[0]) == [(0, 0, 0, ROWS, COLUMNS, 1)]
    cluster.finish().verify()


def test_only_the_side_that_grows_is_extended() -> None:
    cluster = make_cluster()
    buffer = cluster.buffer((ROWS, COLUMNS))
    write_rows(cluster, buffer, range(40), reads_all_columns=False)
    assert allocated(cluster, 1, DEVICES[1]) == [(0, 6, 0, ROWS, 8, 1)]
    cluster.finish().verify()


@pytest.mark.parametrize(
    "options",
    [{"foreseeable_bytes": 0}, {"foreseeable_bytes": ENOUGH // 2}, {"lookahead": "infinite"}],
    ids=["no memory", "not enough memory", "infinite lookahead"],
)
def test_without_memory_to_spare_or_with_infinite_lookahead_it_waits_for_the_end(options: dict[str, Any]) -> None:
    cluster = make_cluster(**options)
    buffer = cluster.buffer((ROWS, COLUMNS))
    write_rows(cluster, buffer, range(40))
    assert kernels(cluster).is_empty()
    cluster.wait()
    assert allocated(cluster, 0, DEVICES[0]) == [(0, 0, 0, 40, COLUMNS, 1)]
    cluster.finish().verify()


def test_growth_that_has_ended_is_not_extended() -> None:
    cluster = make_cluster()
    buffer, other = cluster.buffer((ROWS, COLUMNS)), cluster.buffer(COLUMNS, "array")
    write_rows(cluster, buffer, range(10))  # two horizons
    for _ in range(20):
        cluster.kernel(COLUMNS).read_write(other, one_to_one()).submit()
    assert allocated(cluster, 0, DEVICES[0])[0][:4] == (0, 0, 0, 10)
    cluster.finish().verify()


def test_a_buffer_that_dies_gives_back_what_was_foreseen_for_it() -> None:
    cluster = make_cluster()
    for _ in range(3):
        buffer = cluster.buffer((ROWS, COLUMNS))
        executed = len(kernels(cluster))
        write_rows(cluster, buffer, range(40))
        assert len(kernels(cluster)) >= executed + 20
        cluster.destroy(buffer)
        cluster.wait()
    cluster.finish().verify()


def test_two_buffers_share_what_may_be_foreseen() -> None:
    cluster = make_cluster()
    first, second = cluster.buffer((ROWS, COLUMNS)), cluster.buffer((ROWS, COLUMNS))
    write_rows(cluster, first, range(40))
    executed = len(kernels(cluster))
    write_rows(cluster, second, range(40))
    assert len(kernels(cluster)) < executed + 20
    cluster.wait()
    assert allocated(cluster, 0, DEVICES[0]) == [(0, 0, 0, ROWS, COLUMNS, 1), (0, 0, 0, 40, COLUMNS, 1)]
    cluster.finish().verify()


def test_growth_is_foreseen_although_somebody_waits_after_every_step() -> None:
    cluster = make_cluster()
    buffer = cluster.buffer((ROWS, COLUMNS))
    for row in range(60):
        write_rows(cluster, buffer, range(row, row + 1))
        cluster.fence(buffer, ((row, row + 1), (0, COLUMNS)))
    without = Cluster(num_ranks=2, num_devices=2, lookahead="auto")
    other = without.buffer((ROWS, COLUMNS))
    for row in range(60):
        write_rows(without, other, range(row, row + 1))
        without.fence(other, ((row, row + 1), (0, COLUMNS)))
    assert 3 * len(allocated(cluster, 0, DEVICES[0])) < len(allocated(without, 0, DEVICES[0]))
    cluster.finish().verify()
