# SPDX-License-Identifier: MIT
"""How work is divided among ranks, and what each rank then reads."""

from __future__ import annotations

import pytest

from tests.support.mappers import (
    Mapper,
    all_,
    blocks,
    even_split,
    fixed,
    neighborhood,
    nothing_in_first_half,
    one_to_one,
    permute,
    rows_apart,
    shifted,
    slice_,
)
from tests.verification.contexts import Cluster
from tests.verification.elements import UserBox, from_flat


def chunks(cluster: Cluster, name: str, dims: int) -> list[UserBox]:
    result: list[UserBox] = []
    for rank in range(len(cluster.ranks)):
        executions = cluster.commands(rank).all("execution", name=name)
        result += [from_flat(record["chunk"], dims) for record in executions]
    return result


def test_the_first_dimension_is_divided_evenly_with_larger_chunks_first() -> None:
    cluster = Cluster(num_ranks=3)
    cluster.kernel((8, 5), "kernel").submit()
    assert chunks(cluster, "kernel", 2) == [((0, 3), (0, 5)), ((3, 6), (0, 5)), ((6, 8), (0, 5))]
    cluster.finish().verify()


def test_an_offset_index_space_keeps_its_offset() -> None:
    cluster = Cluster(num_ranks=2)
    cluster.kernel(((10, 14), (3, 5)), "kernel").submit()
    assert chunks(cluster, "kernel", 2) == [((10, 12), (3, 5)), ((12, 14), (3, 5))]
    cluster.finish().verify()


def test_four_ranks_get_quarters_of_a_square_under_split_2d() -> None:
    cluster = Cluster(num_ranks=4)
    cluster.kernel((8, 8), "kernel").split_2d().submit()
    assert sorted(chunks(cluster, "kernel", 2)) == [
        *(((0, 4), (0, 4)), ((0, 4), (4, 8))),
        *(((4, 8), (0, 4)), ((4, 8), (4, 8))),
    ]
    cluster.finish().verify()


def test_chunk_sizes_are_multiples_of_the_constraint() -> None:
    cluster = Cluster(num_ranks=4, num_devices=2)
    cluster.kernel(24, "kernel").constrain(4).submit()
    sizes = [high - low for ((low, high),) in chunks(cluster, "kernel", 1)]
    assert sum(sizes) == 24
    assert all(size % 4 == 0 for size in sizes)
    for rank in range(4):
        for record in cluster.instructions(rank).all("device_kernel"):
            assert (record["chunk"][3] - record["chunk"][0]) % 4 == 0
    cluster.finish().verify()


def test_no_rank_gets_an_empty_chunk() -> None:
    cluster = Cluster(num_ranks=4, num_devices=3)
    buffer = cluster.buffer(2)
    cluster.kernel(2, "kernel").write(buffer, one_to_one()).submit()
    assert chunks(cluster, "kernel", 1) == [((0, 1),), ((1, 2),)]
    cluster.fence(buffer)
    cluster.finish().verify()


def test_a_kernel_without_dimensions_runs_once() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2)
    scalar = cluster.buffer(())
    cluster.kernel((), "kernel").write(scalar, all_()).submit()
    cluster.kernel(8, "reader").read(scalar, all_()).submit()
    assert len(chunks(cluster, "kernel", 0)) == 1
    cluster.finish().verify()


@pytest.mark.parametrize("on", ["once", "master"])
def test_a_host_task_that_is_not_distributed_runs_once(on: str) -> None:
    cluster = Cluster(num_ranks=3)
    buffer = cluster.buffer(9, "array")
    cluster.kernel(9).read_write(buffer, one_to_one()).submit()
    cluster.host_task(name="host", on="once" if on == "once" else "master").read(buffer, all_()).submit()
    assert [len(cluster.commands(rank).all("execution", name="host")) for rank in range(3)] == [1, 0, 0]
    cluster.finish().verify()


def test_a_distributed_host_task_runs_on_all_ranks_and_only_on_the_host() -> None:
    cluster = Cluster(num_ranks=3, num_devices=2)
    buffer = cluster.buffer(9, "array")
    cluster.host_task(9, "host").read_write(buffer, one_to_one()).submit()
    cluster.fence(buffer)
    for rank in range(3):
        assert cluster.instructions(rank).all("host_task").count_is(1)
    cluster.finish().verify()


@pytest.mark.parametrize(
    ("mapper", "kernel", "shape"),
    [
        (one_to_one(), (12,), (12,)),
        (all_(), (12,), (5, 5)),
        (fixed(((1, 3), (0, 2)), ((4, 5), (1, 4))), (12,), (5, 5)),
        (slice_(0), (6, 6), (9, 6)),
        (slice_(1), (6, 6), (6, 9)),
        (slice_(1), (6,), (6, 9)),
        (neighborhood(2), (12,), (12,)),
        (neighborhood(1, 2, shape="box"), (8, 8), (8, 8)),
        (neighborhood(1, 2, shape="axes"), (8, 8), (8, 8)),
        (neighborhood(1, 1, 1, shape="axes"), (4, 4, 4), (4, 4, 4)),
        (even_split(), (5,), (13, 2)),
        (even_split(4), (3,), (13,)),
        (permute(1, 0), (6, 4), (4, 6)),
        (permute(2, 0, 1), (4, 3, 2), (2, 4, 3)),
        (blocks(3), (4,), (12, 2)),
        (rows_apart(3, 1), (4,), (12, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_each_rank_reads_what_the_mapper_says(
    mapper: Mapper, kernel: tuple[int, ...], shape: tuple[int, ...], direct: bool
) -> None:
    cluster = Cluster(num_ranks=3, num_devices=2, direct=direct)
    buffer = cluster.buffer(shape)
    cluster.kernel(shape, "writer").write(buffer, one_to_one()).submit()
    cluster.kernel(kernel, "reader").read(buffer, mapper).submit()
    cluster.kernel(shape, "overwriter").write(buffer, one_to_one()).submit()
    cluster.fence(buffer)
    cluster.finish().verify()


@pytest.mark.parametrize(
    ("mapper", "kernel", "shape"),
    [
        (one_to_one(), (12,), (12,)),
        (slice_(1), (6, 6), (6, 9)),
        (slice_(0), (6,), (9, 6)),
        (even_split(2), (5,), (13, 2)),
        (permute(1, 0), (6, 4), (4, 6)),
        (blocks(3), (4,), (12, 2)),
        (rows_apart(3, 1), (4,), (12, 2)),
    ],
    ids=str,
)
def test_each_rank_writes_what_the_mapper_says(mapper: Mapper, kernel: tuple[int, ...], shape: tuple[int, ...]) -> None:
    cluster = Cluster(num_ranks=3, num_devices=2)
    buffer = cluster.buffer(shape, "array")
    cluster.kernel(kernel, "writer").write(buffer, mapper).submit()
    cluster.kernel(shape, "reader").read(buffer, all_()).submit()
    cluster.kernel(kernel, "updater").read_write(buffer, mapper).submit()
    cluster.fence(buffer)
    cluster.finish().verify()


def test_a_mapper_may_give_nothing_for_some_chunks() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer(8)
    cluster.kernel(8, "writer").write(buffer, one_to_one()).submit()
    cluster.kernel(8, "reader").read(buffer, nothing_in_first_half()).submit()
    assert cluster.commands(1).all("push").is_empty()
    assert cluster.instructions(0).all("device_kernel", name="reader").count_is(2)
    cluster.finish().verify()


def test_an_index_space_may_hang_over_the_buffer() -> None:
    cluster = Cluster(num_ranks=4, num_devices=2)
    buffer = cluster.buffer(5)
    cluster.kernel(16, "writer").write(buffer, shifted(0)).submit()
    cluster.kernel(16, "reader").read(buffer, neighborhood(11)).submit()
    cluster.kernel(((-1, 6),), "faces").read(buffer, neighborhood(1)).submit()
    cluster.fence(buffer)
    cluster.finish().verify()
