# SPDX-License-Identifier: MIT
"""Which commands lookahead holds back: those whose buffer may still grow in the memory where they want some."""

from __future__ import annotations

import pytest

from tests.support.mappers import fixed, one_to_one
from tests.verification.contexts import BufferHandle, Cluster
from tests.verification.graph_query import in_memory

DEVICES = (2, 3)


def num_kernels(cluster: Cluster, name: str, rank: int = 0) -> int:
    return len(cluster.instructions(rank).all("device_kernel", name=name))


def use_half(cluster: Cluster, buffer: BufferHandle, name: str) -> None:
    """On one device: a box that does not cover the buffer."""
    cluster.kernel(((0, 4),), name).read_write(buffer, one_to_one()).submit()


def advance(cluster: Cluster, buffer: BufferHandle, count: int) -> None:
    """So many tasks in a row, of which none wants new memory."""
    for _ in range(count):
        cluster.kernel(8, "other").read_write(buffer, one_to_one()).submit()


def test_a_buffer_that_is_wanted_as_a_whole_cannot_grow() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, lookahead="auto")
    for step in range(5):
        frame = cluster.buffer(8, "array")
        cluster.kernel(8, f"step {step}").read(frame, fixed(((0, 8),))).submit()
        assert [num_kernels(cluster, f"step {step}", rank) for rank in range(2)] == [2, 2]
    cluster.finish().verify()


def test_several_boxes_may_still_grow_into_one() -> None:
    cluster = Cluster(lookahead="auto")
    buffer = cluster.buffer(8, "array")
    for name, box in (("low", (0, 3)), ("high", (4, 8)), ("middle", (2, 5))):
        assert num_kernels(cluster, "low") == num_kernels(cluster, "high") == 0
        cluster.kernel((box,), name).read(buffer, one_to_one()).submit()
    assert all(num_kernels(cluster, name) == 1 for name in ("low", "high", "middle"))
    assert len(in_memory(cluster.instructions(), "alloc", DEVICES[0])) == 1
    cluster.finish().verify()


def test_memory_that_came_with_that_of_an_earlier_command_is_not_waited_for() -> None:
    cluster = Cluster(lookahead="auto")
    buffer, other = cluster.buffer((8, 8), "array"), cluster.buffer(8, "array")
    cluster.kernel(((0, 2), (0, 8)), "both").read(buffer, one_to_one()).read(other, fixed(((0, 4),))).submit()
    cluster.kernel(((0, 3), (0, 8)), "more").read(buffer, one_to_one()).submit()
    assert num_kernels(cluster, "both") == num_kernels(cluster, "more") == 0
    cluster.destroy(other)
    assert num_kernels(cluster, "both") == 0  # of the other buffer
    cluster.kernel((8, 8), "all").read(buffer, one_to_one()).submit()
    assert all(num_kernels(cluster, name) == 1 for name in ("both", "more", "all"))
    cluster.finish().verify()


def test_a_buffer_that_the_program_has_dropped_cannot_grow() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, lookahead="auto")
    for step in range(5):
        frame = cluster.buffer(8, "array")
        cluster.kernel(8, f"step {step}").read_write(frame, one_to_one()).submit()
        assert num_kernels(cluster, f"step {step}") == 0
        cluster.destroy(frame)
        assert [num_kernels(cluster, f"step {step}", rank) for rank in range(2)] == [2, 2]
    cluster.finish().verify()


def test_a_buffer_that_has_wanted_nothing_for_two_horizons_is_released_though_others_want_more() -> None:
    cluster = Cluster(lookahead="auto", horizon_step=2)
    settled, ticking = cluster.buffer(8, "array"), cluster.buffer(8, "array")
    use_half(cluster, settled, "settled")
    others = []
    for _ in range(3):
        advance(cluster, ticking, 2)
        others.append(cluster.buffer(8, "array"))
        use_half(cluster, others[-1], "new")
    assert num_kernels(cluster, "settled") == 1
    assert num_kernels(cluster, "new") < 3
    cluster.finish().verify()


def test_a_buffer_that_grows_is_held_back_though_others_have_settled() -> None:
    cluster = Cluster(lookahead="auto", horizon_step=2)
    growing, ticking = cluster.buffer((64, 8), "array"), cluster.buffer(8, "array")
    for row in range(6):
        cluster.kernel(8, "grow").read(growing, fixed(((0, row + 1), (0, 8)))).submit()
        advance(cluster, ticking, 2)
    assert num_kernels(cluster, "grow") == 0
    cluster.wait()
    assert len(in_memory(cluster.instructions(), "alloc", DEVICES[0])) == 2
    cluster.finish().verify()


@pytest.mark.parametrize("is_dropped", [False, True])
def test_infinite_lookahead_holds_all_of_them_back(is_dropped: bool) -> None:
    cluster = Cluster(lookahead="infinite", horizon_step=1)
    buffer, ticking = cluster.buffer(8), cluster.buffer(8, "array")
    cluster.kernel(8, "whole").write(buffer, one_to_one()).submit()
    advance(cluster, ticking, 5)
    if is_dropped:
        cluster.destroy(buffer)
    assert num_kernels(cluster, "whole") == 0
    cluster.flush()
    assert num_kernels(cluster, "whole") == 1
    cluster.finish().verify()
