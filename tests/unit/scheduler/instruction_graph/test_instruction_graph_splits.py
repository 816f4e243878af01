# SPDX-License-Identifier: MIT
"""The division of a rank's share among devices, and into borders and interior."""

from __future__ import annotations

import pytest

from tests.support.mappers import neighborhood, one_to_one
from tests.verification.contexts import Cluster

HOST = 1
DEVICES = (2, 3)


def test_kernels_are_split_over_devices_first_and_then_oversubscribed() -> None:
    cluster = Cluster(num_devices=2)
    cluster.kernel(16, "kernel").oversubscribe(2).submit()
    chunks = [(record["device"], record["chunk"][0]) for record in cluster.instructions().all("device_kernel")]
    assert sorted(chunks) == [(0, 0), (0, 4), (1, 8), (1, 12)]
    cluster.finish().verify()


def test_borders_next_to_other_shares_come_first() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    cluster.kernel(32, "kernel").border_first(2).submit()
    found = [
        [(record["chunk"][0], record["chunk"][3]) for record in cluster.instructions(rank).all("device_kernel")]
        for rank in range(2)
    ]
    assert found[0] == [(6, 8), (0, 6), (8, 10), (14, 16), (10, 14)]
    assert found[1] == [(16, 18), (22, 24), (18, 22), (24, 26), (26, 32)]
    cluster.finish().verify()


@pytest.mark.parametrize(("extent", "width"), [(12, 2), (12, 100), (4, 1)])
def test_a_share_that_its_borders_would_use_up_stays_whole(extent: int, width: int) -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel(extent, "kernel").border_first(width).submit()
    shares = sorted(record["chunk"][3] - record["chunk"][0] for record in cluster.instructions().all("device_kernel"))
    assert sum(shares) == extent
    # The first and the last share have one border only.
    assert len(shares) == 4 + (2 if extent > 4 * width else 0)
    cluster.finish().verify()


def test_borders_are_multiples_of_the_constraint() -> None:
    cluster = Cluster(num_devices=2)
    cluster.kernel(32, "kernel").constrain(4).border_first(1).submit()
    boxes = [(record["chunk"][0], record["chunk"][3]) for record in cluster.instructions().all("device_kernel")]
    assert boxes == [(12, 16), (0, 12), (16, 20), (20, 32)]
    cluster.finish().verify()


def test_a_two_dimensional_split_has_borders_on_all_inner_sides() -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel((8, 8), "kernel").split_2d().border_first().submit()
    boxes = [record["chunk"] for record in cluster.instructions().all("device_kernel") if record["device"] == 0]
    assert [(box[0], box[3], box[1], box[4]) for box in boxes] == [(3, 4, 0, 4), (0, 3, 3, 4), (0, 3, 0, 3)]
    cluster.finish().verify()


def test_what_neighbours_need_of_a_stencil_depends_on_borders_only() -> None:
    cluster = Cluster(num_ranks=2, num_devices=1)
    u, v = cluster.buffer(32), cluster.buffer(32)
    cluster.kernel(32).write(u, one_to_one()).border_first().submit()
    cluster.kernel(32, "stencil").write(v, one_to_one()).read(u, neighborhood(1)).border_first().submit()
    graph = cluster.instructions()
    inner = graph.all("device_kernel", where=lambda record: record["chunk"][3] - record["chunk"][0] > 1)
    assert len(graph.all("device_kernel")) == 4
    assert len(inner) == 2
    assert graph.all("send").count_is(1)
    assert graph.all("send").is_concurrent_with(inner)
    assert graph.all("receive").is_concurrent_with(inner)
    cluster.finish().verify()


def test_tasks_with_reductions_have_no_borders() -> None:
    cluster = Cluster(num_devices=2)
    scalar = cluster.buffer(1)
    cluster.kernel(16).reduce(scalar).border_first().submit()
    assert len(cluster.instructions().all("device_kernel")) == 2
    cluster.finish().verify()


def test_a_two_dimensional_split_reaches_the_devices() -> None:
    cluster = Cluster(num_devices=4)
    cluster.kernel((8, 8), "kernel").split_2d().submit()
    boxes = sorted(record["chunk"] for record in cluster.instructions().all("device_kernel"))
    assert boxes[0] == (0, 0, 0, 4, 4, 1)
    assert len(boxes) == 4
    cluster.finish().verify()
