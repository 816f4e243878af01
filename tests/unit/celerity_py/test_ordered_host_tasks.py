# SPDX-License-Identifier: MIT
"""Host tasks on one rank run in program order, as if they shared a buffer, unless they say that they need not."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.vocabulary.static_types import HostTaskPlace
from tests.support.host_task_graphs import assert_chain, graphs
from tests.support.mappers import all_, one_to_one
from tests.verification.contexts import Cluster


@pytest.mark.parametrize("on", ["once", "master"])
@pytest.mark.parametrize("num_ranks", [1, 3])
def test_host_tasks_on_one_rank_are_a_chain_in_all_graphs(on: Literal["once", "master"], num_ranks: int) -> None:
    cluster = Cluster(num_ranks, 2, horizon_step=100)
    names = ["first", "second", "third"]
    for name in names:
        cluster.host_task(name=name, on=on).read(cluster.buffer(8, "array")).submit()
    assert_chain(graphs(cluster), names)
    cluster.finish().verify()


def test_once_and_master_are_one_chain_on_one_rank() -> None:
    cluster = Cluster(3)
    cluster.host_task(name="first", on="once").submit()
    cluster.host_task(name="second", on="master").submit()
    for graph in graphs(cluster):
        assert graph.all(name="first").each_reaches(graph.all(name="second"))
    for rank in (1, 2):
        assert cluster.instructions(rank).all("host_task").is_empty()
    cluster.finish().verify()


def test_unordered_and_distributed_host_tasks_and_kernels_wait_for_data_only() -> None:
    cluster = Cluster(2, horizon_step=100)
    buffers = [cluster.buffer(8, "array") for _ in range(4)]
    cluster.host_task(name="ordered").read(buffers[0]).submit()
    cluster.host_task(name="free").unordered().read(buffers[1]).submit()
    cluster.host_task(8, "split").read_write(buffers[2], one_to_one()).submit()
    cluster.kernel(8, "kernel").read_write(buffers[3], one_to_one()).submit()
    cluster.host_task(name="ordered again").read(buffers[0]).submit()
    for graph in graphs(cluster):
        free = graph.all(name="free") | graph.all(name="split") | graph.all(name="kernel")
        assert free.is_concurrent_with(graph.all(name="ordered") | graph.all(name="ordered again"))
        assert graph.all(name="ordered").each_reaches(graph.all(name="ordered again"))
    cluster.finish().verify()


def test_the_order_survives_horizons_and_epochs() -> None:
    cluster = Cluster(horizon_step=2)
    buffer = cluster.buffer(8, "array")
    cluster.host_task(name="first").submit()
    for number in range(12):
        cluster.kernel(8, f"step {number}").read_write(buffer, one_to_one()).submit()
        if number == 8:
            cluster.wait()
    cluster.host_task(name="second").submit()
    cluster.host_task(name="third").submit()
    for graph in graphs(cluster):
        assert graph.all(name="first").each_reaches(graph.all(name="second"))
        assert graph.all(name="second").each_reaches(graph.all(name="third"))
        assert graph.all(name="second").successors(name="third").count_is(1)
    cluster.finish().verify()


def test_data_and_order_to_the_same_task_are_one_edge() -> None:
    cluster = Cluster()
    buffer = cluster.buffer(8)
    cluster.host_task(name="writer").write(buffer, all_()).submit()
    cluster.host_task(name="reader").read(buffer, all_()).submit()
    for graph in graphs(cluster):
        assert graph.all(name="reader").predecessors(name="writer").count_is(1)
    cluster.finish().verify()


# ---- live


@pytest.mark.parametrize("on", ["once", "master"])
def test_a_file_that_host_tasks_append_to_has_lines_in_program_order(
    queue: celerity.Queue, tmp_path: Path, on: HostTaskPlace
) -> None:
    path, pauses = tmp_path / "log", random.Random(1)
    running: list[int] = []

    def append(part: celerity.Part, number: int, view: celerity.View, pause_s: float) -> None:
        running.append(number)
        time.sleep(pause_s)
        with path.open("a") as file:
            file.write(f"{number} {view[0]}\n")
        assert running == [number]
        running.pop()

    for number in range(40):
        buffer = celerity.Buffer.from_array(np.full(4, number))
        queue.host_task(append, number, buffer.read(access.all()), pauses.choice([0, 0.001, 0.004]), on=on)
    queue.wait()
    assert path.read_text().split("\n")[:-1] == [f"{number} {number}" for number in range(40)]


def test_an_array_that_host_tasks_load_and_save_is_never_half_written(queue: celerity.Queue, tmp_path: Path) -> None:
    path = tmp_path / "sum.npy"
    np.save(path, np.zeros(1))

    def add(part: celerity.Part, number: int) -> None:
        array = np.load(path)
        time.sleep(0.001)
        np.save(path, array * 2 + number)

    expected = 0
    for number in range(20):
        queue.host_task(add, number)
        expected = expected * 2 + number
    queue.wait()
    assert np.load(path)[0] == expected


def test_host_tasks_that_need_no_order_overlap_if_they_say_so(queue: celerity.Queue) -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(part: celerity.Part) -> None:
        both.wait()

    def submit(**options: Any) -> None:
        queue.host_task(meet, **options)

    submit(unordered=True)
    submit(unordered=True)
    submit()  # and an ordered one beside one that is not
    submit(unordered=True, on="master")
    queue.wait()
