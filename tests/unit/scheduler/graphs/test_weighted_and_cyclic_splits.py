# SPDX-License-Identifier: MIT
"""Who runs which chunk under each hint for a split. `verify()` checks that they partition the index space."""

from __future__ import annotations

import pytest

from celerity_py import Box
from celerity_py._native_testing import split_into_blocks
from tests.property.programs import Operator
from tests.support.mappers import Mapper, all_, custom, neighborhood, one_to_one, slice_
from tests.verification.contexts import Cluster, TaskBuilder
from tests.verification.elements import UserBox, from_flat


def shares(cluster: Cluster, dims: int = 1, name: str = "kernel") -> list[list[UserBox]]:
    """The chunks of each device, those of rank 0 first."""
    result: list[list[UserBox]] = []
    for rank in range(len(cluster.ranks)):
        of_rank: list[list[UserBox]] = [[] for _ in range(cluster.program.settings.num_devices)]
        for record in cluster.instructions(rank).all("device_kernel", name=name):
            of_rank[record["device"]].append(from_flat(record["chunk"], dims))
        result += of_rank
    return result


def intervals(cluster: Cluster) -> list[list[tuple[int, int]]]:
    return [[box[0] for box in chunks] for chunks in shares(cluster)]


def grid(cluster: Cluster, dims: int, name: str = "kernel") -> tuple[int, ...]:
    chunks = [box for of_device in shares(cluster, dims, name) for box in of_device]
    return tuple(len({box[d] for box in chunks}) for d in range(dims))


def run_twice(cluster: Cluster, shape: tuple[int, ...], change: str, *arguments: int) -> None:
    """A stencil that changes its split from step to step, so that data moves between all owners."""
    u, v = cluster.buffer(shape), cluster.buffer(shape)
    cluster.kernel(shape).write(u, one_to_one()).submit()
    for name in ("plain", change):
        step = cluster.kernel(shape, name).write(v, one_to_one()).read(u, neighborhood(*(1 for _ in shape)))
        if name != "plain":
            getattr(step, change)(*arguments)
        step.submit()
        u, v = v, u
    cluster.kernel(shape).read(u, all_()).submit()
    cluster.fence(u)
    cluster.finish().verify()


def test_weights_per_rank_divide_the_first_dimension() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    cluster.kernel(16, "kernel").weights(3, 1).submit()
    assert intervals(cluster) == [[(0, 6)], [(6, 12)], [(12, 14)], [(14, 16)]]
    cluster.finish().verify()


def test_weights_per_device_divide_the_shares_of_ranks() -> None:
    cluster = Cluster(num_ranks=1, num_devices=3)
    cluster.kernel(16, "kernel").weights(1, 2, 5).submit()
    assert intervals(cluster) == [[(0, 2)], [(2, 6)], [(6, 16)]]
    cluster.finish().verify()
    cluster = Cluster(num_ranks=3, num_devices=1)
    cluster.kernel(12, "kernel").weights(1, 0, 2).submit()
    assert intervals(cluster) == [[(0, 4)], [], [(4, 12)]]
    cluster.finish().verify()


def test_each_rank_takes_the_weights_of_its_own_devices() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    cluster.kernel(16, "kernel").weights(1, 3, 2, 2, 9).submit()  # an odd number: one per device, the first four
    assert intervals(cluster) == [[(0, 2)], [(2, 8)], [(8, 12)], [(12, 16)]]
    cluster.finish().verify()


def test_a_device_without_weight_gets_nothing() -> None:
    cluster = Cluster(num_ranks=1, num_devices=3)
    cluster.kernel(16, "kernel").weights(1, 0, 1).submit()
    assert intervals(cluster) == [[(0, 8)], [], [(8, 16)]]
    cluster.finish().verify()


def test_blocks_are_dealt_out_in_turns() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    cluster.kernel(19, "kernel").cyclic(3).submit()
    assert intervals(cluster) == [[(0, 3), (12, 15)], [(6, 9), (18, 19)], [(3, 6), (15, 18)], [(9, 12)]]
    cluster.finish().verify()


@pytest.mark.parametrize(("num_ranks", "num_devices"), [(2, 2), (3, 1), (1, 3), (3, 2)])
def test_a_block_stays_where_it_is_in_all_index_spaces(num_ranks: int, num_devices: int) -> None:
    for begin in range(-20, 31):
        cluster = Cluster(num_ranks, num_devices)
        cluster.kernel(((begin, 41),), "kernel").cyclic(3).submit()
        found = [[row for low, high in chunks for row in range(low, high)] for chunks in intervals(cluster)]
        for row in range(begin, 41):
            block = row // 3
            assert row in found[block % num_ranks * num_devices + block // num_ranks % num_devices]
        cluster.finish().verify()


def test_cuts_are_multiples_of_the_granularity_from_the_beginning_of_the_space() -> None:
    assert split_into_blocks(Box((5,), (30,)), (4,), 8) == [
        Box((5,), (9,)),
        Box((9,), (17,)),
        Box((17,), (25,)),
        Box((25,), (30,)),
    ]
    assert split_into_blocks(Box((-3,), (2**62,)), (1,), 2**62)[0] == Box((-3,), (0,))


def test_blocks_keep_further_dimensions_whole_and_the_offset() -> None:
    cluster = Cluster(num_devices=2)
    cluster.kernel(((4, 9), (1, 7)), "kernel").cyclic(2).submit()
    assert shares(cluster, 2) == [[((4, 6), (1, 7)), ((8, 9), (1, 7))], [((6, 8), (1, 7))]]
    cluster.finish().verify()


def test_a_single_device_has_one_chunk_of_a_cyclic_split() -> None:
    cluster = Cluster()
    cluster.kernel(19, "kernel").cyclic(3).submit()
    assert intervals(cluster) == [[(0, 19)]]
    cluster.finish().verify()


def test_memory_of_a_cyclic_split_is_that_of_the_blocks() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer((32, 8), "array")
    for _ in range(3):
        cluster.kernel((32, 8), "kernel").read_write(buffer, one_to_one()).cyclic(2).submit()
    cluster.flush()
    for rank in range(2):
        allocated = cluster.instructions(rank).all("alloc")
        assert sum(record["size_bytes"] for record in allocated if record["allocation"][0] >= 2) == 2 * 8 * 8 * 4
    cluster.finish().verify()


def test_many_blocks_are_no_reason_to_warn_of_growing_buffers() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(64)
    for _ in range(2):
        cluster.kernel(64).write(buffer, one_to_one()).cyclic(2).submit()
    cluster.flush()
    assert not cluster.ranks[0].native.take_notices()
    cluster.finish().verify()


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
@pytest.mark.parametrize(("num_ranks", "num_devices"), [(1, 3), (2, 2), (4, 1)])
@pytest.mark.parametrize(
    ("change", "arguments"),
    [("weights", (3, 0, 2, 1)), ("weights", (1, 0, 5)), ("cyclic", (2,)), ("split", ("split_auto",))],
    ids=str,
)
def test_data_follows_the_split(
    change: str, arguments: tuple[int, ...], num_ranks: int, num_devices: int, direct: bool
) -> None:
    run_twice(Cluster(num_ranks, num_devices, direct=direct), (13, 5), change, *arguments)


@pytest.mark.parametrize("op", ["sum", "join"])  # on devices, and on the host
@pytest.mark.parametrize(("num_ranks", "num_devices"), [(1, 2), (2, 1), (3, 2)])
@pytest.mark.parametrize("extent", [2, 41, 300])
def test_each_block_of_a_reduction_counts_once(extent: int, num_ranks: int, num_devices: int, op: Operator) -> None:
    cluster = Cluster(num_ranks, num_devices)
    result = cluster.buffer(3, "array")
    for _ in range(2):
        space = ((5, 5 + extent),)  # the first block belongs to another rank than the first
        cluster.kernel(space, "kernel").reduce(result, op, include_current=True).cyclic(2).submit()
    cluster.kernel(12, "reader").read(result, all_()).submit()
    num_chunks = sum(map(len, intervals(cluster)))
    assert num_chunks == 2 * len({item // 2 for item in range(5, 5 + extent)})
    if num_ranks == 1 and extent == 300:  # more partial results than a device collects before it combines them
        assert cluster.instructions().all("reduce").count_is(2 * 22)
    cluster.finish().verify()


@pytest.mark.parametrize("weights", [(0, 3, 1), (2, 0, 1), (0, 0, 5)])
def test_ranks_without_items_contribute_nothing_to_a_reduction(weights: tuple[int, ...]) -> None:
    cluster = Cluster(num_ranks=3)
    result = cluster.buffer(1, "array")
    cluster.kernel(12, "kernel").reduce(result, "max", include_current=True).weights(*weights).submit()
    cluster.kernel(12, "reader").read(result, all_()).submit()
    for rank, weight in enumerate(weights):
        assert cluster.instructions(rank).all(name="kernel").count_is(int(weight > 0))
    cluster.finish().verify()


def test_mappers_that_are_callables_are_asked_for_each_block() -> None:
    asked: set[UserBox] = set()

    def rule(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
        asked.add(chunk)
        return [chunk]

    cluster = Cluster(num_ranks=2, num_devices=2, direct=True)
    buffer = cluster.buffer(10, "array")
    cluster.kernel(10, "kernel").read_write(buffer, custom("same", rule)).cyclic(2).submit()
    assert {((low, low + 2),) for low in range(0, 10, 2)} <= asked
    cluster.fence(buffer)
    cluster.finish().verify()


# ---- further dimensions


def test_a_cube_is_divided_into_cubes() -> None:
    cluster = Cluster(num_ranks=2, num_devices=4)
    cluster.kernel((8, 8, 8), "kernel").split("split_3d").submit()
    assert grid(cluster, 3) == (2, 2, 2)
    cluster.finish().verify()


@pytest.mark.parametrize(("num_ranks", "num_devices"), [(1, 4), (4, 1), (2, 2), (3, 2)])
def test_further_dimensions_are_cut_where_the_first_is_too_short(num_ranks: int, num_devices: int) -> None:
    cluster = Cluster(num_ranks, num_devices)
    u, v = cluster.buffer((2, 12)), cluster.buffer((2, 12))
    cluster.kernel((2, 12), "kernel").write(u, one_to_one()).submit()
    cluster.kernel((2, 12), "kernel").write(v, one_to_one()).read(u, neighborhood(1, 1)).submit()
    assert all(len(chunks) == 2 for chunks in shares(cluster, 2))
    cluster.fence(v)
    cluster.finish().verify()


def oversubscribed(cluster: Cluster) -> TaskBuilder:
    return cluster.kernel((1, 6), "kernel").oversubscribe(3)


def test_oversubscribed_chunks_use_further_dimensions_too() -> None:
    cluster = Cluster()
    oversubscribed(cluster).submit()
    assert grid(cluster, 2) == (1, 3)
    cluster.finish().verify()


def row_sum(chunk: UserBox, whole: UserBox, shape: tuple[int, ...]) -> list[UserBox]:
    return [(chunk[0], (0, shape[1]))]


@pytest.mark.parametrize(
    ("mode", "mapper"),
    [("write", slice_(1)), ("read", slice_(1)), ("read", custom("rows", row_sum))],
    ids=["writes rows", "reads rows that it writes", "a callable"],
)
def test_a_dimension_is_not_cut_if_chunks_would_get_into_each_others_way(mode: str, mapper: Mapper) -> None:
    cluster = Cluster(num_devices=4)
    u = cluster.buffer((2, 12), "array")
    step = cluster.kernel((2, 12), "kernel")
    if mode == "write":
        step.write(u, mapper)
    else:
        step.read_write(u, one_to_one()).read(u, mapper)
    step.submit()
    assert grid(cluster, 2) == (2, 1)
    cluster.fence(u)
    cluster.finish().verify()


def test_split_1d_leaves_devices_without_work() -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel((2, 12), "kernel").split("split_1d").submit()
    assert [len(chunks) for chunks in shares(cluster, 2)] == [1, 1, 0, 0]
    cluster.finish().verify()


# ---- the automatic choice


@pytest.mark.parametrize(
    ("shape", "mapper", "expected"),
    [
        ((64, 64), neighborhood(1, 1), (4, 4)),
        ((64, 64), neighborhood(1, 0), (1, 16)),
        ((64, 64), neighborhood(0, 1), (16, 1)),
        ((64, 64), neighborhood(4, 1), (2, 8)),
        ((64, 64), one_to_one(), (16, 1)),
        ((64, 64), all_(), (16, 1)),
        ((64, 64), slice_(0), (1, 16)),
        ((64, 64), slice_(1), (16, 1)),
        ((16, 16, 16), neighborhood(1, 1, 1), (4, 2, 2)),
        ((16, 16, 16), neighborhood(1, 1, 0), (1, 1, 16)),
    ],
    ids=str,
)
def test_the_automatic_split_reads_little_in_common(
    shape: tuple[int, ...], mapper: Mapper, expected: tuple[int, ...]
) -> None:
    cluster = Cluster(num_ranks=4, num_devices=4)
    u, v = cluster.buffer(shape, "array"), cluster.buffer(shape)
    cluster.kernel(shape, "kernel").write(v, one_to_one()).read(u, mapper).split("split_auto").submit()
    assert grid(cluster, len(shape)) == expected


def test_a_product_of_matrices_is_cut_into_tiles_by_itself() -> None:
    cluster = Cluster(num_ranks=4)
    a, b, c = (cluster.buffer((16, 16), "array") for _ in range(3))
    step = cluster.kernel((16, 16), "kernel").write(c, one_to_one()).read(a, slice_(1)).read(b, slice_(0))
    step.split("split_auto").submit()
    assert grid(cluster, 2) == (2, 2)
    cluster.fence(c)
    cluster.finish().verify()


def test_columns_that_are_written_whole_are_not_cut() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    u = cluster.buffer((8, 8), "array")
    cluster.kernel((8, 8), "kernel").read_write(u, slice_(0)).split("split_auto").submit()
    assert grid(cluster, 2) == (1, 4)
    cluster.fence(u)
    cluster.finish().verify()
