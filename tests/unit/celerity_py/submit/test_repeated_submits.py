# SPDX-License-Identifier: MIT
"""A kernel that is submitted again with arguments of the same kinds: native code does it, and nobody can tell."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, _native_testing, access, hints
from celerity_py.kernels import CudaKernel
from tests.support.repeated_submits import ONE, START, Fields, add, repeated, runtime


@pytest.fixture
def fields(queue: celerity.Queue) -> Fields:
    return Fields(queue)


def test_all_submits_but_the_first_are_repeated(queue: celerity.Queue, fields: Fields) -> None:
    for number in range(1, 5):
        fields.add(float(number))
        assert repeated() == number
    np.testing.assert_array_equal(fields.contents(), START + 10)
    statistics = queue.statistics()
    assert statistics.num_submissions == 7
    assert 0 < statistics.submit_seconds < 60


@pytest.mark.parametrize(
    ("settings", "are_known"),
    [
        (lambda: {"shape": Box((0, 0), (4, 6))}, True),
        (lambda: {"shape": [4, 6]}, False),
        (lambda: {"shape": (np.int64(4), 6)}, False),
        (lambda: {"name": "sum"}, True),
        (lambda: {"name": "s\u00e9rie"}, True),
        (lambda: {"name": "a\0b"}, False),
        (lambda: {"hints": hints.oversubscribe(2)}, True),
        (lambda: {"hints": (hints.split_2d(), hints.oversubscribe(3))}, True),
        (lambda: {"hints": [hints.border_first(1)]}, True),
    ],
)
def test_a_submit_with_settings_is_repeated(fields: Fields, settings: Callable[[], Any], are_known: bool) -> None:
    fields.add(1.0, **settings())
    before = repeated()
    for _ in range(2):
        fields.add(1.0, **settings())
    assert repeated() - before == (2 if are_known else 0)
    np.testing.assert_array_equal(fields.contents(), START + 3)


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        2j,
        True,
        "two",
        np.bool_(True),
        *(np.dtype(code).type(2) for code in np.typecodes["AllInteger"] + "efdgFDG"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_are_passed_on_as_they_are(queue: celerity.Queue, value: Any) -> None:
    passed = []

    @celerity.kernel
    def keep(chunk: celerity.Chunk, given: Any) -> None:
        passed.append(given)

    for _ in range(3):
        queue.parallel_for(1, keep, value)
    assert repeated() == 2
    queue.wait()
    assert len(passed) == 3
    assert all(each is value for each in passed)


def test_a_value_of_another_type_than_before_is_looked_at_once(fields: Fields) -> None:
    for known, amount in ((2, 1.0), (3, np.float32(2)), (4, 3), (5, np.int8(4))):  # the fixture had a float
        for _ in range(2):
            fields.add(amount)
        assert repeated() == known
    np.testing.assert_array_equal(fields.contents(), START + 20)


def test_buffers_values_and_index_spaces_may_be_others(queue: celerity.Queue, fields: Fields) -> None:
    fields.add(5.0)
    third = celerity.Buffer.from_array(np.zeros((4, 6), np.float32))
    lower = Box((2, 0), (4, 6))
    for space in ((2, 6), lower):
        queue.parallel_for(space, add, third.read_write(ONE), fields.old.read(ONE), 7.0)
    before = repeated()
    for space, amount in ((lower, -3.0), ((2, 6), 0.0), (lower, 2.0)):
        queue.parallel_for(space, add, third.read_write(ONE), fields.old.read(ONE), amount)
        queue.parallel_for(space, add, third.read_write(ONE), third.read(ONE), 0.0)
    assert repeated() - before == 6
    expected = START + 5
    expected[2:] += 2
    np.testing.assert_array_equal(queue.fence(third).result(20), expected)


def test_a_slice_of_mappers_is_as_good_as_any(queue: celerity.Queue) -> None:
    source = celerity.Buffer.from_array(np.arange(8.0))
    target = celerity.Buffer(8, np.float64)

    @celerity.kernel
    def shift(chunk: celerity.Chunk, out: celerity.View, given: celerity.View, by: int) -> None:
        low, high = chunk.box.min[0], chunk.box.max[0]
        out[chunk.box] = given.array[: high - low] + by if by else given[low:high]

    for number, (mapper, by) in enumerate([(access.neighborhood(1), 0), (access.all(), 0), (ONE, 1), (ONE, 2)]):
        queue.parallel_for(8, shift, target.write(ONE), source.read(mapper), by)
        assert repeated() == number
        np.testing.assert_array_equal(queue.fence(target).result(20), np.arange(8.0) + by)


def test_a_repeated_submit_leaves_the_same_record_as_the_first(fields: Fields) -> None:
    _native_testing.set_paused(runtime().scheduler, True)
    records = []
    for _ in range(2):
        number = runtime().next_id
        fields.add(2.0, name="sum")
        records.append(runtime().submissions[number])
        fields.old, fields.new = fields.new, fields.old
    _native_testing.set_paused(runtime().scheduler, False)
    assert repeated() == 2  # the name is not among what is checked
    first, second = records
    for name in ("kind", "name", "function", "args", "box", "code", "lasti", "future"):
        assert getattr(second, name) == getattr(first, name)
    assert [type(arg).__name__ for arg in second.args] == ["Port", "Port", "float"]
    assert second.describe() == first.describe()
    assert f'kernel "sum" (submitted at {Fields.add.__code__.co_filename}:' in second.describe()


def test_a_buffer_dies_as_early_as_after_a_first_submit(queue: celerity.Queue, fields: Fields) -> None:
    for count in range(3):
        buffer = celerity.Buffer((4, 6), np.float32)
        gone = weakref.ref(buffer)
        _native_testing.set_paused(runtime().scheduler, True)
        queue.parallel_for((4, 6), add, buffer.write(ONE), fields.old.read(ONE), 1.0)
        del buffer
        assert gone() is None
        _native_testing.set_paused(runtime().scheduler, False)
        assert repeated() == count + 1
    queue.wait()
    assert len(runtime().submissions) < 5


def test_a_kernel_that_knows_itself_is_collected(queue: celerity.Queue) -> None:
    def make() -> Any:
        @celerity.kernel
        def itself(chunk: celerity.Chunk, number: int) -> None:
            assert itself is not None

        return itself

    kernel = make()
    before = repeated()
    for number in range(3):
        queue.parallel_for(4, kernel, number)
    assert repeated() == before + 2
    for _ in range(3):
        queue.wait()
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_a_kernel_with_ever_new_kinds_of_arguments_keeps_the_latest(queue: celerity.Queue) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, *values: Any) -> None: ...

    for number in range(20):
        queue.parallel_for(4, anything, *[1] * number)
    assert repeated() == 0
    for number in range(13, 20):
        queue.parallel_for(4, anything, *[2] * number)
    assert repeated() == 7


def test_what_went_the_long_way_again_is_kept_once(queue: celerity.Queue) -> None:
    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    queue.parallel_for(4, anything, "text")
    for number in range(20):
        queue.parallel_for([4], anything, number)  # a shape that is looked at each time
    assert repeated() == 0
    queue.parallel_for(4, anything, "text")
    assert repeated() == 1


def test_the_code_of_others_may_run_in_the_middle_and_its_exceptions_come_out(queue: celerity.Queue) -> None:
    class Shape(int):
        def __hash__(self) -> int:
            raise KeyboardInterrupt

    @celerity.kernel
    def anything(chunk: celerity.Chunk, value: Any) -> None: ...

    for _ in range(2):
        queue.parallel_for(4, anything, 1)
        with pytest.raises(KeyboardInterrupt):
            queue.parallel_for(Shape(4), anything, 1)
    queue.parallel_for(4, anything, 1, hints=None)  # type: ignore[arg-type]


def test_a_copy_of_a_kernel_begins_anew(queue: celerity.Queue) -> None:
    for kernel in (add, CudaKernel("", "launch")):
        twin = copy.deepcopy(kernel)
        assert twin.memo is not kernel.memo
        assert pickle.loads(pickle.dumps(kernel.memo)) is not kernel.memo


def test_the_functions_of_a_kernel_stay(queue: celerity.Queue) -> None:
    kernel: Any = celerity.kernel(cpu=len)
    with pytest.raises(AttributeError):
        kernel.cpu = max
