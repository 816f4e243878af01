# SPDX-License-Identifier: MIT
"""Host objects: the tasks that share one run in program order, and others beside them."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ArgumentTypeError, ClosedQueue, DimensionMismatch, UsageError
from tests.support.host_task_graphs import assert_chain, graphs
from tests.support.mappers import all_, one_to_one
from tests.verification.contexts import Cluster

# ---- graphs


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_tasks_that_share_an_object_are_a_chain_in_all_graphs(num_ranks: int) -> None:
    cluster = Cluster(num_ranks, 2, horizon_step=100)
    names = ["first", "second", "third"]
    for name in names:
        task = cluster.host_task(name=name).unordered().side_effects(1)
        task.read(cluster.buffer(8, "array")).submit()
    assert_chain(graphs(cluster), names)
    cluster.finish().verify()


def test_tasks_with_different_objects_and_tasks_without_one_are_concurrent() -> None:
    cluster = Cluster(2, horizon_step=100)
    cluster.host_task(name="one").unordered().side_effects(1).submit()
    cluster.host_task(name="other").unordered().side_effects(2).submit()
    cluster.host_task(name="none").submit()
    cluster.kernel(8, "kernel").write(cluster.buffer(8), one_to_one()).submit()
    cluster.host_task(name="both").unordered().side_effects(1, 2).submit()
    for graph in graphs(cluster):
        one, other, both = (graph.all(name=name) for name in ("one", "other", "both"))
        free = graph.all(name="none") | graph.all(name="kernel")
        assert one.is_concurrent_with(other)
        assert free.is_concurrent_with(one | other | both)
        assert one.each_reaches(both)
        assert other.each_reaches(both)
    cluster.finish().verify()


def test_parts_of_a_divided_task_are_ordered_on_the_ranks_that_have_one() -> None:
    cluster = Cluster(3)
    cluster.host_task(3, "everywhere").side_effects(1).submit()
    cluster.host_task(2, "two ranks").side_effects(1).submit()
    cluster.host_task(name="master", on="master").unordered().side_effects(1).submit()
    cluster.host_task(3, "again").side_effects(1).submit()
    for rank, names in enumerate(
        (["everywhere", "two ranks", "master", "again"], ["everywhere", "two ranks", "again"], ["everywhere", "again"])
    ):
        assert_chain(graphs(cluster, rank)[1:], names)
        for graph in graphs(cluster, rank)[1:]:
            assert graph.all(name="master").count_is(1 if rank == 0 else 0)
    cluster.finish().verify()


@pytest.mark.parametrize("on_all", [True, False])
def test_a_fence_of_an_object_waits_for_its_users_and_later_users_for_it(on_all: bool) -> None:
    cluster = Cluster(2)
    buffer = cluster.buffer(8, "array")
    cluster.host_task(2, "before").side_effects(1).submit()
    cluster.kernel(8, "kernel").read_write(buffer, one_to_one()).submit()
    cluster.fence_object(1, on_all=on_all)
    cluster.host_task(2, "after").side_effects(1).submit()
    for rank in (0, 1):
        for graph in graphs(cluster, rank)[1:]:
            fences = graph.all("fence")
            assert fences.count_is(1 if on_all or rank == 0 else 0)
            assert graph.all(name="kernel").is_concurrent_with(fences | graph.all(name="after"))
            if on_all or rank == 0:
                assert graph.all(name="before").each_reaches(fences)
                assert fences.each_reaches(graph.all(name="after"))
    cluster.finish().verify()


def test_the_order_of_an_object_survives_horizons_and_epochs() -> None:
    cluster = Cluster(horizon_step=2)
    buffer = cluster.buffer(8, "array")
    cluster.host_task(name="first").unordered().side_effects(1).submit()
    for number in range(12):
        cluster.kernel(8, f"step {number}").read_write(buffer, one_to_one()).submit()
        if number == 8:
            cluster.wait()
        if number > 9:  # others come and go
            cluster.host_task(name="another").unordered().side_effects(number).submit()
    cluster.host_task(name="second").unordered().side_effects(1).submit()
    cluster.host_task(name="third").unordered().side_effects(1).submit()
    for graph in graphs(cluster):
        assert graph.all(name="first").each_reaches(graph.all(name="second"))
        assert graph.all(name="second").successors(name="third").count_is(1)
    cluster.finish().verify()


def test_data_and_object_to_the_same_task_are_one_edge() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(8)
    cluster.host_task(name="writer").side_effects(1).write(buffer, all_()).submit()
    cluster.host_task(name="reader").side_effects(1).read(buffer, all_()).submit()
    for graph in graphs(cluster):
        assert graph.all(name="reader").predecessors(name="writer").count_is(1)
    cluster.finish().verify()


def test_shares_of_a_host_task_are_multiples_of_constrain() -> None:
    cluster = Cluster(3)
    cluster.host_task(10, "rows").constrain(4).submit()
    records = [record for trace in cluster.traces for record in trace.instructions if record["kind"] == "host_task"]
    chunks = [record["chunk"] for record in records]
    assert [(chunk[0], chunk[3]) for chunk in chunks] == [(0, 4), (4, 10)]  # the third rank has none
    cluster.finish().verify()


# ---- live


def test_a_task_gets_the_object_itself_and_tasks_that_share_it_run_in_program_order(queue: celerity.Queue) -> None:
    numbers: list[int] = []
    shared = celerity.HostObject(numbers)
    running: list[int] = []

    def append(part: celerity.Part, number: int, view: celerity.View, given: list[int]) -> None:
        assert given is numbers
        running.append(number)
        time.sleep(0.003 if number % 3 == 0 else 0)
        given.append(int(view[0]))
        assert running == [number]
        running.pop()

    for number in range(30):
        buffer = celerity.Buffer.from_array(np.full(4, number))
        where: Any = 1 if number % 2 else "once"
        unordered = number % 4 == 0
        queue.host_task(append, number, buffer.read(access.all()), shared.side_effect(), on=where, unordered=unordered)
    assert queue.fence(shared).result() is numbers
    assert numbers == list(range(30))


def test_tasks_that_share_no_object_overlap(queue: celerity.Queue) -> None:
    both = threading.Barrier(2, timeout=10)
    first, second = celerity.HostObject("first"), celerity.HostObject("second")

    def meet(part: celerity.Part, name: str) -> None:
        both.wait()

    queue.host_task(meet, first.side_effect(), unordered=True)
    queue.host_task(meet, second.side_effect(), unordered=True)
    queue.wait()


def test_a_fence_of_an_object_waits_for_its_users_only(queue: celerity.Queue) -> None:
    shared, gate = celerity.HostObject[list[int]]([]), threading.Event()
    queue.host_task(lambda part: gate.wait(10), unordered=True)
    queue.host_task(lambda part, given: given.append(1), shared.side_effect(), unordered=True)
    future = queue.fence(shared)
    assert future.result(10) == [1]
    gate.set()
    queue.wait()


def test_a_fence_of_an_object_may_be_awaited_with_a_task_held_by_lookahead(queue: celerity.Queue) -> None:
    shared = celerity.HostObject[list[float]]([])
    buffer = celerity.Buffer(64, name="growing")

    def write(part: celerity.Part, view: celerity.View, given: list[float]) -> None:
        view[...] = 1.0
        given.append(float(view[...].sum()))

    queue.host_task(write, buffer.write(access.all()), shared.side_effect(), unordered=True)
    assert queue.fence(shared, on="master").result(10) == [64.0]


class Token:
    """An object that can die."""


def test_an_object_lives_until_its_tasks_have_ended_and_no_longer(queue: celerity.Queue) -> None:
    gate, seen = threading.Event(), []
    token = Token()
    dead = weakref.ref(token)
    shared = celerity.HostObject(token)
    queue.host_task(lambda part: gate.wait(10), unordered=True, name="before")
    queue.host_task(lambda part, given: (gate.wait(10), seen.append(given is dead()))[0], shared.side_effect())
    del token, shared
    gc.collect()
    assert dead() is not None
    gate.set()
    queue.wait()
    gc.collect()
    assert seen == [True]
    assert dead() is None


def test_an_object_may_appear_twice_in_a_task(queue: celerity.Queue) -> None:
    shared = celerity.HostObject[list[int]]([])
    same: list[bool] = []
    for _ in range(3):
        queue.host_task(lambda part, a, b: same.append(a is b), shared.side_effect(), shared.side_effect())
    queue.wait()
    assert same == [True] * 3


def test_a_recording_holds_its_objects_and_replays_their_side_effects(queue: celerity.Queue) -> None:
    shared = celerity.HostObject[list[int]]([])
    buffer = celerity.Buffer.from_array(np.zeros(4, np.int64))

    @celerity.kernel
    def add(chunk: celerity.Chunk, view: celerity.View) -> None:
        view[chunk.box] += 1

    def note(part: celerity.Part, view: celerity.View, numbers: list[int]) -> None:
        time.sleep(0.001 if view[0] % 3 == 0 else 0)
        numbers.append(int(view[0]))

    def step() -> None:
        queue.parallel_for(4, add, buffer.read_write(access.one_to_one()))
        queue.host_task(note, buffer.read(access.all()), shared.side_effect(), unordered=True)

    recording = queue.record(step)
    queue.replay(recording, 200)
    step()
    queue.replay(recording, 50)
    assert queue.fence(shared).result() == list(range(1, 253))


def test_objects_are_refused_where_no_task_could_use_them(queue: celerity.Queue) -> None:
    shared = celerity.HostObject([1])

    def kernel(chunk: Any, *arguments: Any) -> None:
        pass

    with pytest.raises(ArgumentTypeError, match=r"got <side effect on H\d+ \(list\)>, which only a host task takes"):
        queue.parallel_for(4, kernel, shared.side_effect())
    with pytest.raises(
        ArgumentTypeError, match=r"got <HostObject H\d+ \(list\)> itself\. Pass host_object\.side_effect"
    ):
        queue.host_task(kernel, shared)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="which only a host task takes, as an argument of its own"):
        queue.host_task(kernel, [shared.side_effect()])
    uncalled = r"got the method side_effect of H\d+ \(list\) and no side effect\. Call it: host_object\.side_effect\(\)"
    for arguments in ((shared.side_effect,), ((shared.side_effect,),)):
        with pytest.raises(ArgumentTypeError, match=uncalled):
            queue.host_task(kernel, *arguments)
    with pytest.raises(ArgumentTypeError, match="takes an object of the program, not <HostObject"):
        celerity.HostObject(shared)
    with pytest.raises(ArgumentTypeError, match=r"got the box 3, but a host object has none"):
        queue.fence(shared, 3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="on= takes 'all' or 'master'"):
        queue.fence(shared, on="mastr")  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"celerity\.HostObject\(\) was called inside of"):
        queue.record(lambda: celerity.HostObject([]))
    queue.wait()


def test_constrain_of_a_host_task_needs_an_index_space(queue: celerity.Queue) -> None:
    shares: list[celerity.Box] = []
    queue.host_task(lambda part: shares.append(part.box), on=10, constrain=4)
    queue.wait()
    assert sum(share.size for share in shares) == 10
    with pytest.raises(UsageError, match="constrain= divides an index space, but on='once' runs on one rank"):
        queue.host_task(lambda part: None, constrain=4)
    with pytest.raises(DimensionMismatch, match="constrain= takes one int per dimension"):
        queue.host_task(lambda part: None, on=(4, 4), constrain=4)


def test_an_object_of_an_ended_runtime_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERITY_DEVICES", "cpu:1")
    with celerity.Queue() as first:
        shared = celerity.HostObject([1])
        first.host_task(lambda part, numbers: numbers.append(2), shared.side_effect())
        future = first.fence(shared)
    assert future.result() == [1, 2]
    with celerity.Queue() as second:
        with pytest.raises(ClosedQueue, match=r"H1 \(list\) .*belongs to a runtime that ended"):
            second.host_task(lambda part, numbers: None, shared.side_effect())
        with pytest.raises(ClosedQueue, match=r"H1 \(list\) .*belongs to a runtime that ended"):
            second.fence(shared)
