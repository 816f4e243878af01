# SPDX-License-Identifier: MIT
"""Submits that native code leaves to Python although a similar one was repeated: mistakes, and other arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import ClosedQueue, DimensionMismatch, NestedUse, OverlappingAccess
from tests.support.kernels import scale
from tests.support.repeated_submits import ONE, START, Fields, add, repeated, runtime


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.queue.parallel_for((4, 6), add, f.new.write(ONE), f.old.read(ONE)), "does not fit its signature"),
        (lambda f: f.add(celerity.Buffer(3)), "got the bare buffer"),
        (lambda f: f.add(1.0, shape=(4, -1)), "has a negative one"),
        (lambda f: f.add(1.0, hints=["split"]), "takes hints"),
        (lambda f: f.add(1.0, constrain=(1, 2, 3)), "one int per dimension"),
        (lambda f: f.add(1.0, shape=None), "not None"),
        (lambda f: f.add(1.0, kernel=None), "not None"),
    ],
)
def test_mistakes_are_found_however_often_it_went_well(
    fields: Fields, change: Callable[[Fields], None], message: str
) -> None:
    fields.add(1.0)
    for _ in range(2):
        before = runtime().next_id
        with pytest.raises(celerity.CelerityError, match=message):
            change(fields)
        assert runtime().next_id == before
    fields.add(1.0)
    assert repeated() == 2
    np.testing.assert_array_equal(fields.contents(), START + 2)


def test_accesses_that_contradict_each_other_are_refused_by_name(fields: Fields) -> None:
    before = runtime().next_id
    for _ in range(2):
        with pytest.raises(DimensionMismatch, match=r'kernel "add", write access to B\d+ "."'):
            fields.queue.parallel_for((4, 6), add, fields.new.write(access.neighborhood(1)), fields.old.read(ONE), 1.0)
    if runtime().num_devices > 1:
        with pytest.raises(OverlappingAccess, match=r'kernel "add".*B\d+'):
            fields.queue.parallel_for((4, 6), add, fields.new.write(access.all()), fields.old.read(ONE), 1.0)
    assert runtime().next_id == before
    assert before not in runtime().submissions
    assert repeated() == 0
    fields.add(3.0)
    np.testing.assert_array_equal(fields.contents(), START + 3)


class Meters(np.float64):
    """A type that a program may drop at any time."""


@pytest.mark.parametrize(
    "value",
    [np.ones(6, np.float32), np.array((1, 2.0), "i4,f8")[()], np.datetime64(3, "s"), Meters(1), Fraction(1, 2), None],
    ids=lambda value: type(value).__name__,
)
def test_values_of_other_types_are_looked_at_anew(queue: celerity.Queue, value: Any) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    for _ in range(3):
        queue.parallel_for(4, anything, value)
    assert repeated() == 0


def test_functions_and_callable_mappers_and_reductions_are_left_to_python(queue: celerity.Queue) -> None:
    buffer, total = celerity.Buffer.from_array(np.ones(6)), celerity.Buffer((), np.float64)

    def double(chunk: celerity.Chunk, out: celerity.View) -> None:
        out[chunk.box] *= 2

    @celerity.kernel
    def add_up(chunk: celerity.Chunk, given: celerity.View, out: Any) -> None:
        out.combine(given.array.sum())

    before = repeated()
    for _ in range(3):
        queue.parallel_for(6, double, buffer.read_write(ONE))
        queue.parallel_for(6, scale, buffer.read_write(lambda chunk: chunk.box), 1.0)
        queue.parallel_for(6, add_up, buffer.read(ONE), celerity.reduction(total, "sum"))
    assert repeated() == before
    assert queue.fence(total).result(20) == 48


def test_another_runtime_looks_at_everything_anew() -> None:
    kept = []
    for _ in range(2):
        with celerity.Queue() as queue:
            fields = Fields(queue)
            assert repeated() == 0
            fields.add(1.0)
            assert repeated() == 1
            np.testing.assert_array_equal(fields.contents(), START + 1)
            kept.append(fields.old)
    with celerity.Queue() as queue:
        fields = Fields(queue)
        fields.old = kept[0]
        with pytest.raises(ClosedQueue, match="belongs to a runtime that ended"):
            fields.add(1.0)


def test_a_closed_queue_refuses_what_it_knows() -> None:
    with celerity.Queue() as queue:
        fields = Fields(queue)
    with pytest.raises(ClosedQueue, match=r"parallel_for\(\) on a queue that is closed"):
        fields.add(1.0)


def test_a_known_kernel_cannot_be_submitted_from_inside_of_a_task(fields: Fields) -> None:
    errors: list[Any] = []

    def nested(chunk: celerity.Chunk) -> None:
        try:
            fields.add(1.0)
        except NestedUse as error:
            errors.append(error)

    fields.queue.parallel_for(1, nested)
    fields.queue.wait()
    assert len(errors) == 1
    thread = threading.Thread(target=fields.add, args=(1.0,))  # another thread may, in its turn
    thread.start()
    thread.join()
    np.testing.assert_array_equal(fields.contents(), START + 1)
