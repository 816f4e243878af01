# SPDX-License-Identifier: MIT
"""Initial contents in arrays of the user: on the host, on devices, and on several ranks."""

from __future__ import annotations

import pytest

from tests.property.programs import LocalPart
from tests.support.mappers import all_, neighborhood, one_to_one
from tests.verification.contexts import Cluster
from tests.verification.graph_query import Graph

FIRST_USER_RAW = 1 << 48


def allocates_on_host(graph: Graph) -> bool:
    return any(alloc["allocation"][0] == 1 for alloc in graph.all("alloc"))


@pytest.mark.parametrize("device_peers", [True, False])
def test_an_array_on_a_device_leaves_the_host_out_if_devices_reach_each_other(device_peers: bool) -> None:
    cluster = Cluster(num_devices=2, device_peers=device_peers, user_device_peers=False)
    buffer = cluster.buffer((16,), "array", device=1)
    cluster.kernel((16,), name="reader").read(buffer, one_to_one()).submit()
    graph = cluster.instructions()
    cluster.finish().verify()
    assert allocates_on_host(graph) == (not device_peers)
    from_user = [copy for copy in graph.all("copy") if copy["source"][1] > FIRST_USER_RAW]
    assert {copy["source"][0] for copy in from_user} == {3}
    assert {copy["destination"][0] for copy in from_user} == ({2, 3} if device_peers else {1, 3})


def test_strided_data_of_an_array_on_a_device_is_packed_there() -> None:
    cluster = Cluster(num_devices=2, device_peers=False, user_device_peers=False)
    matrix = cluster.buffer((64, 64), "array", device=1)
    cluster.kernel(((0, 1),), name="column").read(matrix, all_()).submit()
    cluster.kernel(((0, 64), (0, 2)), name="columns").read(matrix, one_to_one()).submit()
    cluster.finish().verify()


def test_arrays_on_several_devices_are_read_where_they_lie() -> None:
    cluster = Cluster(num_devices=2, user_device_peers=False)
    parts = [LocalPart(0, ((0, 8),), 0), LocalPart(0, ((8, 16),), 1)]
    buffer = cluster.buffer((16,), "local", parts=parts)
    cluster.kernel((16,), name="reader").read(buffer, one_to_one()).submit()
    graph = cluster.instructions()
    cluster.finish().verify()
    assert sorted((copy["source"][0], copy["destination"][0]) for copy in graph.all("copy")) == [(2, 2), (3, 3)]


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
@pytest.mark.parametrize("device", [-1, 0])
def test_a_rank_sends_only_the_elements_that_others_read(direct: bool, device: int) -> None:
    cluster = Cluster(num_ranks=2, direct=direct, user_device_peers=False)
    parts = [LocalPart(0, ((0, 8),), device), LocalPart(1, ((8, 16),), device)]
    buffer = cluster.buffer((16,), "local", parts=parts)
    cluster.kernel((16,), name="reader").read(buffer, neighborhood(1)).submit()
    cluster.finish().verify()
    for rank in range(2):
        sends = cluster.instructions(rank).all("send")
        assert [send["sent_box"] for send in sends] == [(7, 0, 0, 8, 1, 1) if rank == 0 else (8, 0, 0, 9, 1, 1)]
        assert [send["source"][0] for send in sends] == [1], "no peer reaches an array of the user"


def test_nothing_is_sent_before_a_task_has_overwritten_it() -> None:
    cluster = Cluster(num_ranks=2)
    buffer = cluster.buffer((16,), "local", parts=[LocalPart(1, ((0, 16),), -1)])
    cluster.kernel((16,), name="writer").write(buffer, one_to_one()).submit()
    cluster.kernel((16,), name="reader").read(buffer, one_to_one()).submit()
    cluster.finish().verify()
    assert not any(cluster.instructions(rank).all("send") for rank in range(2))
