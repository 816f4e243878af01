# SPDX-License-Identifier: MIT
"""Kernels, reductions, fences, horizons, priorities."""

from __future__ import annotations

import pytest

from tests.property.programs import Operator
from tests.support.allocations import FIRST_DEVICE
from tests.support.mappers import all_, neighborhood, one_to_one, shifted
from tests.verification.contexts import Cluster


@pytest.mark.parametrize("num_devices", [1, 2, 3])
@pytest.mark.parametrize("include_current", [False, True])
def test_shares_of_local_devices_are_combined_once(num_devices: int, include_current: bool) -> None:
    cluster = Cluster(num_devices=num_devices)
    scalar = cluster.buffer(1, "array")
    cluster.kernel(12, "producer").reduce(scalar, "sum", include_current=include_current).submit()
    graph = cluster.instructions()
    inputs = num_devices + include_current
    assert graph.all("reduce").count_is(0 if inputs == 1 else 1)
    if inputs > 1:
        assert graph.all("reduce").one()["count"] == inputs
        assert graph.all("device_kernel").each_reaches(graph.all("reduce"))
    cluster.fence(scalar)
    cluster.finish().verify()


@pytest.mark.parametrize(
    ("num_devices", "op", "device_peers", "is_on_device"),
    [(3, "sum", True, True), (1, "min", True, True), (3, "argmin", True, False), (3, "sum", False, False)],
)
def test_a_device_combines_if_it_reaches_the_others_and_knows_the_operation(
    num_devices: int, op: Operator, device_peers: bool, is_on_device: bool
) -> None:
    cluster = Cluster(num_devices=num_devices, device_peers=device_peers)
    array, result = cluster.buffer(12, "function"), cluster.buffer(5, "array")
    for _ in range(2):
        cluster.kernel(12).read(array, one_to_one()).reduce(result, op, include_current=True).submit()
    cluster.kernel(12).read(result, all_()).submit()
    memory = FIRST_DEVICE if is_on_device else 1
    graph = cluster.instructions()
    assert graph.all("reduce").count_is(2)
    for reduce in graph.all("reduce"):
        assert (reduce["source"][0], reduce["destination"][0]) == (memory, memory)
    copies = graph.all("copy", reason="reduction")
    assert {copy["destination"][0] for copy in copies} == {memory}
    # The second reduction finds the old value where it combines.
    assert copies.count_is(2 * num_devices + 2)
    assert len([copy for copy in copies if copy["source"][0] == memory]) == (4 if is_on_device else 2)
    cluster.finish().verify()


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_a_rank_sends_its_share_to_the_host_once(direct: bool) -> None:
    cluster = Cluster(num_ranks=2, num_devices=3, direct=direct)
    scalar = cluster.buffer(1)
    cluster.kernel(12, "producer").reduce(scalar).submit()
    cluster.kernel(12, "consumer").read(scalar, all_()).submit()
    for rank in range(2):
        graph = cluster.instructions(rank)
        to_host = graph.all("copy", where=lambda r: r["destination"][0] == 1 and r["source"][0] != 1)
        assert {copy["source"][0] for copy in to_host} == {FIRST_DEVICE}
        assert sorted(reduce["source"][0] for reduce in graph.all("reduce")) == [1, FIRST_DEVICE]
    cluster.finish().verify()


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("num_ranks", [2, 3])
@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_shares_of_all_ranks_are_gathered_and_combined(num_ranks: int, num_devices: int, direct: bool) -> None:
    cluster = Cluster(num_ranks=num_ranks, num_devices=num_devices, direct=direct)
    scalar = cluster.buffer(1, "array")
    cluster.kernel(12, "producer").reduce(scalar, "max", include_current=True).submit()
    cluster.kernel(12, "consumer").read(scalar, all_()).submit()
    for rank in range(num_ranks):
        graph = cluster.instructions(rank)
        gather = graph.all("receive_partials").one()
        assert gather["sources"] == [other for other in range(num_ranks) if other != rank]
        assert graph.all("receive_partials").each_reaches(graph.all(name="consumer"))
    cluster.finish().verify()


def test_reductions_share_gather_space_which_the_end_frees() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    scalar = cluster.buffer(1)
    for _ in range(40):
        cluster.kernel(12, "producer").reduce(scalar).submit()
        cluster.kernel(12, "consumer").read(scalar, all_()).submit()
    cluster.finish().verify()
    graph = cluster.instructions()
    gather_space = [record["allocation"] for record in graph.all("alloc", where=lambda r: r["buffer"] == 0)]
    assert 0 < len(gather_space) < 12
    frees = graph.all("free", allocation=lambda name: name in gather_space)
    assert frees.count_is(len(gather_space))


def test_an_oversubscribed_reduction_counts_every_item_once() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    scalar = cluster.buffer(1)
    cluster.kernel(12).reduce(scalar).oversubscribe(3).submit()
    cluster.fence(scalar)
    cluster.finish().verify()


def test_a_fence_copies_its_box_and_nothing_else() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.fence(buffer, ((6, 10),))
    graph = cluster.instructions()
    to_user = graph.all("copy", destination=lambda name: name[0] == 0)
    assert sorted(box for record in to_user for box in record["boxes"]) == [(6, 0, 0, 8, 1, 1), (8, 0, 0, 10, 1, 1)]
    assert to_user.each_reaches(graph.all("fence"))
    cluster.finish().verify()


@pytest.mark.parametrize("device_peers", [True, False])
def test_a_fence_to_the_device_leaves_the_host_out_if_devices_reach_each_other(device_peers: bool) -> None:
    cluster = Cluster(num_devices=2, device_peers=device_peers, user_device_peers=False)
    buffer = cluster.buffer((16,))
    cluster.kernel((16,), name="writer").write(buffer, one_to_one()).submit()
    cluster.fence(buffer, ((6, 10),), to_device=True)
    graph = cluster.instructions()
    fence = graph.all("copy", reason="fence")
    cluster.finish().verify()
    assert fence.each_reaches(graph.all("fence"))
    assert all(copy["destination"][0] == 2 and copy["destination"][1] > 1 << 48 for copy in fence)
    assert bool([a for a in graph.all("alloc") if a["allocation"][0] == 1]) == (not device_peers)


def test_a_fence_to_the_device_receives_on_the_device_from_a_direct_peer() -> None:
    cluster = Cluster(num_ranks=2, direct=True)
    buffer = cluster.buffer((16,))
    cluster.kernel((16,), name="writer").write(buffer, one_to_one()).submit()
    cluster.fence(buffer, on_all=False, to_device=True)
    graph = cluster.instructions()
    cluster.finish().verify()
    received = graph.all("receive")
    assert [receive["destination"][0] for receive in received] == [2]
    assert not [a for a in graph.all("alloc") if a["allocation"][0] == 1]
    assert graph.all("copy", reason="fence").count_is(2)
    assert received.each_reaches(graph.all("fence"))


def test_a_fence_does_not_wait_for_unrelated_work() -> None:
    cluster = Cluster()
    u, v = cluster.buffer(16), cluster.buffer(16)
    cluster.kernel(16, "u").write(u, one_to_one()).submit()
    cluster.kernel(16, "v").write(v, one_to_one()).submit()
    cluster.fence(u)
    graph = cluster.instructions()
    assert graph.all("fence").is_concurrent_with(graph.all(name="v"))
    cluster.finish().verify()


def test_a_fence_of_initial_contents_copies_them() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    array, function = cluster.buffer(6, "array"), cluster.buffer(6, "function")
    cluster.fence(array)
    cluster.fence(function)
    cluster.finish().verify()


def test_a_fence_without_elements_depends_on_nothing() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(16)
    cluster.kernel(16, "writer").write(buffer, one_to_one()).submit()
    cluster.fence(buffer, ((3, 3),))
    graph = cluster.instructions()
    assert graph.all("fence").is_concurrent_with(graph.all(name="writer"))
    cluster.finish().verify()


def test_horizons_and_epochs_are_behind_everything_before_them() -> None:
    cluster = Cluster(num_devices=2, horizon_step=2)
    buffer, aside = cluster.buffer(16, "array"), cluster.buffer(16)
    cluster.kernel(16, "aside").write(aside, one_to_one()).submit()
    for _ in range(4):
        cluster.kernel(16).read_write(buffer, one_to_one()).submit()
    cluster.wait()
    graph = cluster.instructions()
    assert graph.all("device_kernel", "copy", "alloc").each_reaches(graph.all("epoch", action="none"))
    assert graph.all(name="aside").each_reaches(graph.all("horizon"))
    cluster.finish().verify()


def test_a_horizon_names_the_last_submission_it_covers() -> None:
    cluster = Cluster(horizon_step=2)
    buffer = cluster.buffer(16, "array")
    for _ in range(4):
        cluster.kernel(16).read_write(buffer, one_to_one()).submit()
    assert cluster.instructions().all("horizon").values("last_submission") == [2, 4]
    cluster.finish().verify()


def test_dependencies_never_reach_behind_the_applied_horizon() -> None:
    cluster = Cluster(num_devices=2, horizon_step=1)
    old, u, v = cluster.buffer(16), cluster.buffer(16, "array"), cluster.buffer(16, "array")
    cluster.kernel(16, "old").write(old, one_to_one()).submit()
    for _ in range(6):
        cluster.kernel(16).read_write(u, one_to_one()).read(v, neighborhood(1)).submit()
        u, v = v, u
    cluster.kernel(16, "late").read_write(old, one_to_one()).submit()
    graph = cluster.instructions()
    assert graph.all(name="late").predecessors("device_kernel").is_empty()
    assert graph.all(name="late").predecessors("horizon").count_is(1)
    cluster.finish().verify()


def test_who_reads_what_was_written_before_an_epoch_waits_for_no_horizon_but_who_overwrites_it_does() -> None:
    cluster = Cluster(horizon_step=1)
    constant, out, other = cluster.buffer(16), cluster.buffer(16), cluster.buffer(16)
    for buffer in (constant, out, other):
        cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.wait()
    cluster.kernel(16, "early").read_write(out, one_to_one()).read(constant, one_to_one()).submit()
    for _ in range(6):
        cluster.kernel(16, "unrelated").read_write(other, one_to_one()).submit()
    cluster.kernel(16, "late").read_write(out, one_to_one()).read(constant, one_to_one()).submit()
    cluster.kernel(16, "reader").read(constant, one_to_one()).submit()
    cluster.kernel(16, "writer").write(constant, one_to_one()).submit()
    graph = cluster.instructions()
    horizons = graph.all("horizon")
    assert len(horizons) > 3
    assert graph.all(name="reader").predecessors("horizon").is_empty()
    assert graph.all(name="reader").predecessors("epoch").count_is(1)
    assert graph.all(name="late").predecessors("horizon").count_is(1)  # behind the write of `out`
    assert graph.all(name="writer").predecessors("horizon").count_is(1)  # behind the reading of "early"
    assert graph.all(name="early").each_reaches(graph.all(name="writer"))
    cluster.finish().verify()


def test_the_graph_stays_the_same_when_reached_horizons_are_reported() -> None:
    graphs = []
    for reports in (False, True):
        cluster = Cluster(num_ranks=2, num_devices=2, horizon_step=1)
        u, v = cluster.buffer(16, "array"), cluster.buffer(16, "array")
        seen = 0
        for _ in range(10):
            cluster.kernel(16).read_write(u, one_to_one()).read(v, neighborhood(1)).submit()
            u, v = v, u
            horizons = cluster.tasks().all("horizon").values("id")
            if reports:
                for task in horizons[seen:]:
                    cluster.notify_reached(task)
            seen = len(horizons)
        cluster.finish().verify()
        graphs.append([trace.instructions for trace in cluster.traces])
    assert graphs[0] == graphs[1]


def test_the_same_program_gives_the_same_graphs() -> None:
    def run() -> list[list[dict[str, object]]]:
        cluster = Cluster(num_ranks=3, num_devices=2, lookahead="auto")
        u, v = cluster.buffer((12, 3), "function"), cluster.buffer((12, 3), "array")
        for _ in range(5):
            cluster.kernel((12, 3)).read_write(u, one_to_one()).read(v, neighborhood(1, 1)).submit()
            u, v = v, u
        cluster.finish().verify()
        return [trace.instructions for trace in cluster.traces]

    assert run() == run()


def test_what_takes_long_is_issued_first() -> None:
    cluster = Cluster(num_ranks=2, num_devices=2)
    buffer = cluster.buffer(16)
    cluster.kernel(16).write(buffer, one_to_one()).submit()
    cluster.kernel(16).read(buffer, all_()).submit()
    cluster.destroy(buffer)
    priority = {record["kind"]: record["priority"] for record in cluster.instructions().records}
    assert priority["free"] < priority["alloc"] < priority["device_kernel"] < priority["copy"]
    assert priority["send"] > priority["device_kernel"]
    cluster.finish().verify()


def test_independent_chains_stay_independent() -> None:
    cluster = Cluster(num_devices=2)
    u, v = cluster.buffer(16, "array"), cluster.buffer(16, "array")
    for _ in range(3):
        cluster.kernel(16, "u").read_write(u, one_to_one()).submit()
        cluster.kernel(16, "v").read_write(v, one_to_one()).submit()
    graph = cluster.instructions()
    for device in range(2):
        for other in range(2):
            chains = graph.all(name="u", device=device), graph.all(name="v", device=other)
            assert chains[0].is_concurrent_with(chains[1])
    assert graph.all(name="u", device=0).is_concurrent_with(graph.all(name="u", device=1))
    cluster.finish().verify()


def test_a_kernel_in_place_reads_and_writes_the_same_allocation() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(16, "array")
    cluster.kernel(16).read(buffer, one_to_one()).write(buffer, one_to_one()).submit()
    reading, writing = cluster.instructions().all("device_kernel").one()["accesses"]
    assert reading["allocation"] == writing["allocation"]
    cluster.fence(buffer)
    cluster.finish().verify()


def test_an_empty_access_has_no_allocation() -> None:
    cluster = Cluster(num_devices=2)
    buffer = cluster.buffer(4)
    cluster.kernel(16).write(buffer, shifted(0)).submit()
    first, second = cluster.instructions().all("device_kernel")
    assert first["accesses"][0]["accessed"] == [(0, 0, 0, 4, 1, 1)]
    assert second["accesses"][0]["accessed"] == []
    cluster.finish().verify()


# ---- queues with priorities


@pytest.mark.parametrize("direct", [False, True], ids=["host transport", "direct"])
def test_all_instructions_of_a_task_have_the_priority_of_its_queue(direct: bool) -> None:
    cluster = Cluster(num_ranks=2, num_devices=2, direct=direct, seed=1)
    u, v = cluster.buffer(16), cluster.buffer(16)
    for _ in range(6):
        cluster.kernel(16).write(u, one_to_one()).submit()
        cluster.kernel(16).write(v, one_to_one()).read(u, all_()).submit()
    found = set()
    records = cluster.instructions().records
    submissions = {record["key"][0]: record["submission"] for record in records if record["kind"] == "device_kernel"}
    for record in records:
        if record["kind"] in {"device_kernel", "copy", "send", "receive", "alloc"}:
            submission = submissions[record["key"][0]]
            assert record["priority"] // 32 == cluster.program.settings.priority_of(submission), record
            found.add((record["kind"], record["priority"] // 32))
    assert len({priority for kind, priority in found if kind == "device_kernel"}) > 2
    assert {kind for kind, _ in found} >= {"device_kernel", "copy", "send", "receive"}
    cluster.finish().verify()


@pytest.mark.parametrize("seed", [0, 1])
def test_with_priorities_a_task_waits_for_its_data_and_not_for_a_horizon(seed: int) -> None:
    cluster = Cluster(horizon_step=1, seed=seed)
    u, v = cluster.buffer(16, "array"), cluster.buffer(16, "array")
    for _ in range(8):  # of several queues, if there are several
        cluster.kernel(16, "other").read_write(v, one_to_one()).submit()
    cluster.kernel(16, "first").read_write(u, one_to_one()).submit()
    for _ in range(20):
        cluster.kernel(16, "other").read_write(v, one_to_one()).submit()
    cluster.kernel(16, "last").read_write(u, one_to_one()).submit()
    records = cluster.instructions().records
    kinds = {record["id"]: record["kind"] for record in records}
    last = [record for record in records if record["kind"] == "device_kernel"][-1]
    assert {kinds[each] for each in last["dependencies"]} == {"device_kernel" if seed else "horizon"}
    cluster.finish().verify()


@pytest.mark.parametrize(
    ("num_others", "is_executed", "expected"),
    [(60, True, "horizon"), (60, False, "device_kernel"), (4200, False, "horizon")],
    ids=["executed", "far ahead", "too far ahead"],
)
def test_with_priorities_the_planner_forgets_what_is_executed(
    num_others: int, is_executed: bool, expected: str
) -> None:
    cluster = Cluster(horizon_step=1, seed=1)
    u, v = cluster.buffer(16, "array"), cluster.buffer(16, "array")
    for _ in range(8):  # of several queues
        cluster.kernel(16, "other").read_write(v, one_to_one()).submit()
    cluster.kernel(16, "first").read_write(u, one_to_one()).submit()
    for _ in range(num_others):
        cluster.kernel(16, "other").read_write(v, one_to_one()).submit()
    if is_executed:
        horizons = [task["id"] for task in cluster.tasks().records if task["kind"] == "horizon"]
        for task in horizons:
            cluster.notify_reached(task)
        cluster.kernel(16, "other").read_write(v, one_to_one()).submit()  # the planner forgets at a horizon
    cluster.kernel(16, "last").read_write(u, one_to_one()).submit()
    records = cluster.instructions().records
    kinds = {record["id"]: record["kind"] for record in records}
    last = [record for record in records if record["kind"] == "device_kernel"][-1]
    assert {kinds[each] for each in last["dependencies"]} == {expected}
    if num_others < 1000:
        cluster.finish().verify()
