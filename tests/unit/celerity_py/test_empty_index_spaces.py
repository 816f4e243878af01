# SPDX-License-Identifier: MIT
"""Index spaces, buffers and boxes without elements: nothing happens, as in NumPy."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, access
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, OutOfBoundsAccess, UsageError
from tests.support.repeated_submits import runtime

SPACES: list[Any] = [0, (4, 0), (0, 0, 3), Box((3,), (3,)), [0]]


@pytest.fixture(params=[False, True], ids=["plain", "check"])
def queue(request: pytest.FixtureRequest) -> Iterator[celerity.Queue]:
    celerity.configure(devices="cpu:2", check=request.param)
    try:
        with celerity.Queue() as queue:
            yield queue
    finally:
        celerity.configure(devices=None, check=None)


def must_not_run(*arguments: Any) -> None:
    raise AssertionError(arguments)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_a_task_over_nothing_does_not_run(queue: celerity.Queue, space: Any) -> None:
    u = celerity.Buffer.from_array(np.arange(4), name="u")
    before = runtime().next_id
    for _ in range(2):
        queue.parallel_for(space, must_not_run, u.write(access.all()), hints=celerity.hints.oversubscribe(2))
        queue.host_task(must_not_run, u.read(access.all()), on=space)
    assert runtime().next_id == before
    np.testing.assert_array_equal(queue.fence(u).result(), np.arange(4))


def test_the_arguments_of_a_task_over_nothing_are_checked(queue: celerity.Queue) -> None:
    u = celerity.Buffer(4, name="u")
    with pytest.raises(ArgumentTypeError, match="bare buffer"):
        queue.parallel_for(0, must_not_run, u)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not fit its signature"):
        queue.parallel_for(0, lambda chunk: None, 1, 2)
    with pytest.raises(ArgumentTypeError, match="bare buffer"):
        queue.host_task(must_not_run, u, on=0)  # type: ignore[arg-type]


REDUCTIONS = [
    ("sum", "float32", 0),
    ("prod", "int64", 1),
    ("min", "float64", np.inf),
    ("max", "int32", -(2**31)),
    ("and", "bool", True),
]


@pytest.mark.parametrize(("op", "dtype", "identity"), REDUCTIONS)
def test_a_reduction_over_nothing_gives_the_identity_or_the_current_value(
    queue: celerity.Queue, op: Any, dtype: str, identity: Any
) -> None:
    fresh, kept, many = (celerity.Buffer.from_array(np.full(shape, 1, dtype)) for shape in ((), (), (3, 2)))
    reductions = [celerity.reduction(fresh, op), celerity.reduction(kept, op, True), celerity.reduction(many, op)]
    queue.parallel_for(0, must_not_run, *reductions)
    assert queue.fence(fresh).result() == identity
    assert queue.fence(kept).result() == 1
    np.testing.assert_array_equal(queue.fence(many).result(), np.full((3, 2), identity))


def test_a_callable_reduction_over_nothing_gives_its_identity(queue: celerity.Queue) -> None:
    identity = np.arange(6.0).reshape(3, 2)
    many = celerity.Buffer((3, 2), np.float64)
    queue.parallel_for((0, 2), must_not_run, celerity.reduction(many, np.maximum, identity=identity))
    np.testing.assert_array_equal(queue.fence(many).result(), identity)
    best = celerity.Buffer((), celerity.placed(np.float32, 1))
    queue.parallel_for(0, must_not_run, celerity.reduction(best, "argmax"))
    assert queue.fence(best).result()["value"] == -np.inf


def test_the_maximum_of_nothing_is_warned_of(queue: celerity.Queue, caplog: pytest.LogCaptureFixture) -> None:
    most = celerity.Buffer((), name="most")
    with caplog.at_level(logging.WARNING):
        queue.parallel_for(0, must_not_run, celerity.reduction(most, "max"))
    assert [record.message for record in caplog.records if "maximum is -inf, as of nothing" in record.message]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (2, 0, 2)])
def test_an_empty_buffer_is_an_array_without_elements(queue: celerity.Queue, shape: tuple[int, ...]) -> None:
    seen = []
    made = [
        celerity.Buffer(shape, np.float64),
        celerity.Buffer.from_array(np.zeros(shape)),
        celerity.Buffer.from_function(shape, np.float64, lambda box: np.zeros(box.shape)),
    ]
    for buffer in made:
        assert buffer.shape == shape
        queue.parallel_for(4, lambda chunk, u: seen.append(u[...].size), buffer.read_write(access.all()))
        queue.parallel_for(buffer.shape, must_not_run, buffer.write(access.one_to_one()))
        queue.host_task(lambda part, u: seen.append(u.array.size), buffer.read(access.all()))
        queue.fill(buffer, 3)
        queue.copy(buffer, made[0])
        assert queue.fence(buffer).result().shape == shape
        assert queue.any(buffer).result() is False
        assert queue.dot(buffer, buffer).result() == 0
        assert queue.norm(buffer).result() == 0
    queue.wait()
    assert set(seen) == {0}


def test_elements_of_an_empty_buffer_keep_their_shape(queue: celerity.Queue) -> None:
    assert queue.fence(celerity.Buffer(0, element=(3, 2))).result().shape == (0, 3, 2)


def test_an_empty_buffer_has_no_element_for_an_item(queue: celerity.Queue) -> None:
    empty = celerity.Buffer(0, name="empty")
    with pytest.raises(OutOfBoundsAccess, match="gives some items no element"):
        queue.parallel_for(4, must_not_run, empty.read(access.one_to_one()))
    with pytest.raises(UsageError, match="got an empty buffer"):
        celerity.reduction(empty, "sum")


def test_fills_and_copies_of_nothing_do_nothing(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.arange(4.0), name="u")
    queue.fill(u, 9, Box((2,), (2,)))
    queue.copy(u, u, Box((3,), (3,)), Box((1,), (1,)))
    np.testing.assert_array_equal(queue.fence(u).result(), np.arange(4.0))
    with pytest.raises(UsageError):
        queue.fill(u, "text", Box((2,), (2,)))
    with pytest.raises(DimensionMismatch):
        queue.copy(u, u, Box((3, 3), (3, 3)), Box((1,), (1,)))


def test_a_recording_may_have_a_task_over_nothing(queue: celerity.Queue) -> None:
    u = celerity.Buffer.from_array(np.zeros(4), name="u")
    total = celerity.Buffer((), np.float64, name="total")

    def add(chunk: Any, u: Any) -> None:
        u[chunk.box] += 1

    def step() -> None:
        queue.parallel_for(4, add, u.read_write(access.one_to_one()))
        queue.parallel_for(0, must_not_run, celerity.reduction(total, "sum"))

    recorded = queue.record(step)
    queue.replay(recorded, 5)
    np.testing.assert_array_equal(queue.fence(u).result(), np.full(4, 6.0))
    assert queue.fence(total).result() == 0
