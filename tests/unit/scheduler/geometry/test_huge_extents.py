# SPDX-License-Identifier: MIT
"""Index spaces beyond 32 bits: extents, positions, areas and byte counts stay exact.

Multiplying all coordinates of a program by a factor multiplies those of its graphs and changes nothing else. The small
program is verified element by element, so the large one is right where it is the small one's image.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from tests.support.mappers import fixed, neighborhood, one_to_one, slice_
from tests.verification.contexts import Cluster, TaskBuilder
from tests.verification.elements import UserBox

HUGE = 2**31 + 11
Factors = tuple[int, ...]


def scaled(box: UserBox, factors: Factors) -> UserBox:
    return tuple((low * factor, high * factor) for (low, high), factor in zip(box, factors, strict=True))


def image(record: Any, factors: Factors) -> Any:
    """The record with all boxes multiplied by `factors`, and all byte counts by their product.

    The share of a fence is a point, however large the box is that it awaits.
    """
    if isinstance(record, dict):
        volume = math.prod(factors)
        is_fence = record.get("name") == "fence"
        return {
            name: value
            if is_fence and name in ("chunk", "reader")
            else value * volume
            if name in ("size_bytes", "offset_bytes")
            else image(value, factors)
            for name, value in record.items()
        }
    if isinstance(record, tuple) and len(record) == 6:
        each = (*factors, 1, 1)[:3] * 2
        return tuple(coordinate * factor for coordinate, factor in zip(record, each, strict=True))
    if isinstance(record, tuple | list):
        return type(record)(image(item, factors) for item in record)
    return record


def stencil(cluster: Cluster, shape: tuple[int, ...], factors: Factors, options: Callable[[TaskBuilder], Any]) -> None:
    """A stencil on buffers of shape * factors, then a fence of an inner box and a host task that reads a corner."""
    full = tuple(extent * factor for extent, factor in zip(shape, factors, strict=True))
    u, v = cluster.buffer(full, "array"), cluster.buffer(full)
    cluster.kernel(full, "update").read_write(u, one_to_one()).submit()
    for _ in range(3):
        step = cluster.kernel(full, "step").read(u, neighborhood(*factors)).write(v, one_to_one())
        options(step)
        step.submit()
        u, v = v, u
    inner = tuple((1, extent - 1) if extent > 2 else (0, extent) for extent in shape)
    cluster.fence(u, scaled(inner, factors))
    corner = tuple((extent - 1, extent) for extent in shape)
    cluster.host_task(full, "corner").read(u, fixed(scaled(corner, factors))).submit()
    cluster.finish()


def plain(step: TaskBuilder) -> TaskBuilder:
    return step


@pytest.mark.parametrize("transport", ["host", "direct"])
@pytest.mark.parametrize(
    ("shape", "factors", "options"),
    [
        pytest.param((16,), (2**40 + 3,), plain, id="1-D"),
        pytest.param((16, 6), (HUGE, 1), plain, id="many rows"),
        pytest.param((16, 6), (1, HUGE), plain, id="long rows"),
        pytest.param((16, 6), (2**19 + 1, HUGE), plain, id="many long rows"),
        pytest.param((16, 8), (2**27 + 1, 2**27 + 1), TaskBuilder.split_2d, id="2-D split"),
        pytest.param((16, 6), (HUGE, 3), lambda step: step.oversubscribe(2), id="oversubscribed"),
        pytest.param((8, 3, 4), (2**13 + 1, HUGE, 1), plain, id="3-D, many rows"),
        pytest.param((8, 3, 4), (5, 2**11 + 1, HUGE), plain, id="3-D, long rows"),
    ],
)
def test_the_graphs_of_a_huge_program_are_the_image_of_those_of_a_small_one(
    shape: tuple[int, ...], factors: Factors, options: Callable[[TaskBuilder], Any], transport: str
) -> None:
    def run(factors: Factors) -> Cluster:
        cluster = Cluster(num_ranks=4, num_devices=2, direct=transport == "direct")
        stencil(cluster, shape, factors, options)
        return cluster

    small, huge = run((1,) * len(shape)), run(factors)
    small.verify()
    assert math.prod(shape) * math.prod(factors) > 2**31
    for expected, found in zip(small.traces, huge.traces, strict=True):
        for part in ("tasks", "commands", "instructions"):
            assert image(getattr(expected, part), factors) == getattr(found, part)
        assert any(record["kind"] == "send" for record in found.instructions)


def test_a_halo_of_one_row_beyond_two_to_the_32_is_sent_exactly() -> None:
    rows, columns, num_ranks = 3 * 2**32 + 1, 5, 3
    cluster = Cluster(num_ranks=num_ranks)
    u, v = cluster.buffer((rows, columns)), cluster.buffer((rows, columns))
    cluster.kernel((rows, columns)).write(u, one_to_one()).submit()
    cluster.kernel((rows, columns), "step").read(u, neighborhood(1, 0)).write(v, one_to_one()).submit()
    cluster.finish()
    chunks = [cluster.commands(rank).all("execution", name="step").one()["chunk"] for rank in range(num_ranks)]
    assert [chunk[3] for chunk in chunks[:-1]] == [chunk[0] for chunk in chunks[1:]]
    assert (chunks[0][0], chunks[-1][3]) == (0, rows)
    assert {chunk[3] - chunk[0] for chunk in chunks} == {rows // 3, rows // 3 + 1}
    for rank, chunk in enumerate(chunks):
        first, last = (chunk[0], 0, 0, chunk[0] + 1, columns, 1), (chunk[3] - 1, 0, 0, chunk[3], columns, 1)
        expected = [(rank - 1, first)] * (rank > 0) + [(rank + 1, last)] * (rank < num_ranks - 1)
        sends = cluster.instructions(rank).all("send")
        assert sorted((send["destination_rank"], send["sent_box"]) for send in sends) == sorted(expected)


def test_slices_of_huge_matrices_are_exact() -> None:
    rows, columns = 2**33, 2**27
    cluster = Cluster(num_ranks=2)
    matrix, vector = cluster.buffer((rows, columns)), cluster.buffer((columns,))
    cluster.kernel(rows).write(matrix, slice_(1)).submit()
    cluster.kernel(columns, "sums").read(matrix, slice_(0)).write(vector, one_to_one()).submit()
    cluster.finish()
    push = cluster.commands(0).all("push").one()
    assert push["targets"] == [(1, [(0, columns // 2, 0, rows // 2, columns, 1)])]


def test_a_dry_run_of_a_huge_program_plans_as_much_as_one_of_a_small_one() -> None:
    @celerity.kernel
    def step(chunk: Any, v: Any, u: Any) -> None:
        raise AssertionError("nothing runs")

    def planned(shape: tuple[int, int]) -> dict[str, int]:
        celerity.configure(dry_run_ranks=4, devices="cpu:2")
        with celerity.Queue() as queue:
            u = celerity.Buffer.from_function(shape, np.float32, lambda box: np.zeros(box.shape, np.float32))
            v = celerity.Buffer(shape, np.float32)
            for _ in range(4):
                queue.parallel_for(shape, step, v.write(access.one_to_one()), u.read(access.neighborhood(1, 1)))
                u, v = v, u
            queue.wait()
            statistics = queue.statistics().scheduler
        celerity.configure(dry_run_ranks=None, devices=None)
        return {name: statistics[name] for name in ("tasks", "commands", "instructions")}

    assert planned((2**31 + 8, 2**28)) == planned((64, 32))
