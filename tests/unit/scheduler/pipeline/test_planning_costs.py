# SPDX-License-Identifier: MIT
"""The cost of planning grows with the data that a program touches: ratios of processor time, on a noisy machine."""

from __future__ import annotations

from time import process_time

import pytest

from celerity_py import _native_testing, access
from celerity_py._native import Box, BufferInfo, PlanningSettings, Region, Task
from celerity_py._native_testing import GraphContext, with_accesses

READ, WRITE, READ_WRITE = range(3)


def make_buffer(context: GraphContext, shape: tuple[int, ...]) -> int:
    return context.create_buffer(BufferInfo(shape=shape, element_size=4))


def seconds_with_boxes(count: int, *, are_rows: bool) -> float:
    """Two ranks write half of a buffer each, then read `count` boxes of all of it, over the host transport."""
    context = GraphContext(PlanningSettings(num_ranks=2, num_devices=2, lookahead="auto"), validates=False)
    if are_rows:
        shape = (2 * count, 4)
        boxes = [Box((2 * i, 0), (2 * i + 1, 4)) for i in range(count)]
    else:
        shape = (2 * count, 2 * count)
        places = [(2 * i, 2 * (i * 7919 % count)) for i in range(count)]
        boxes = [Box((x, y), (x + 1, y + 1)) for x, y in places]
    buffer = make_buffer(context, shape)
    scattered = access.fixed(Region(boxes))
    start = process_time()
    for _ in range(2):
        context.submit(with_accesses(Task.kernel(Box((0, 0), shape)), [(buffer, WRITE, access.one_to_one())]))
        context.submit(with_accesses(Task.kernel(Box((0,), (8,))), [(buffer, READ, scattered)], "read"))
    context.submit(_native_testing.make_epoch())
    return process_time() - start


@pytest.mark.parametrize("are_rows", [True, False], ids=["rows", "scattered elements"])
def test_planning_of_many_boxes_is_not_quadratic(are_rows: bool) -> None:
    few = min(seconds_with_boxes(300, are_rows=are_rows) for _ in range(3))
    many = min(seconds_with_boxes(1500, are_rows=are_rows) for _ in range(2))
    assert many < 12 * few, f"5 times as many boxes cost {many / few:.1f} times as much"


def seconds_with_live_buffers(count: int) -> float:
    context = GraphContext(PlanningSettings(num_ranks=2, num_devices=2, lookahead="none"), validates=False)
    for _ in range(count):
        make_buffer(context, (64,))
    buffers = [make_buffer(context, (64, 64)) for _ in range(2)]
    accesses = [
        (READ_WRITE, access.one_to_one()),
        (READ, access.neighborhood(1, 1, shape="axes")),
    ]
    start = process_time()
    for step in range(200):
        given = [(buffers[(step + i) % 2], *each) for i, each in enumerate(accesses)]
        context.submit(with_accesses(Task.kernel(Box((0, 0), (64, 64))), given, "step"))
    return process_time() - start


def test_live_buffers_that_nobody_touches_cost_nothing() -> None:
    none = min(seconds_with_live_buffers(0) for _ in range(3))
    many = min(seconds_with_live_buffers(20_000) for _ in range(3))
    assert many < 3 * none, f"20000 live buffers make a task {many / none:.1f} times as expensive"


def test_many_scattered_rows_get_one_allocation_on_the_host() -> None:
    context = GraphContext(PlanningSettings(num_ranks=2, num_devices=1, lookahead="none"))
    buffer = make_buffer(context, (200, 4))
    rows = Region([Box((2 * i, 0), (2 * i + 1, 4)) for i in range(100)])
    context.submit(with_accesses(Task.kernel(Box((0, 0), (200, 4))), [(buffer, WRITE, access.one_to_one())]))
    context.submit(with_accesses(Task.kernel(Box((0,), (8,))), [(buffer, READ, access.fixed(rows))], "read"))
    allocations = [record["allocation"] for record in context.take_instructions() if record["kind"] == "alloc"]
    assert sum(memory == 1 for memory, _ in allocations) == 2  # what is sent, and what is received


def test_the_benchmark_counts_instructions_under_their_own_kinds() -> None:
    measured = _native_testing.measure_generation("soup", num_devices=2, num_rounds=1)
    kinds = measured["instructions"]
    assert set(kinds) == {"alloc", "free", "copy", "device_kernel", "horizon", "epoch"}
    assert kinds["device_kernel"] == 2 * 50  # one per device and kernel
