# SPDX-License-Identifier: MIT
"""A minimum or maximum of nothing is told; that of something never is."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.vocabulary.static_types import ReductionName


def nothing(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
    """Combines no value."""


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("op", "dtype", "told_value"),
    [
        ("max", np.float64, "maximum is -inf"),
        ("min", np.float32, "minimum is inf"),
        ("max", np.int32, "maximum is -2147483648"),
        ("max", np.uint8, "maximum is 0"),
        ("min", np.int64, "minimum is 9223372036854775807"),
        ("min", np.bool_, "minimum is True"),
        ("max", np.bool_, "maximum is False"),
    ],
)
@pytest.mark.parametrize("shape", [(), 7])
def test_a_result_that_nobody_combined_into_is_warned_of_once(  # noqa: PLR0917 - parameters of the test
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, op: ReductionName, dtype: Any, told_value: str, shape: Any
) -> None:
    result = celerity.Buffer((), dtype, name="peak")
    for _ in range(3):
        queue.parallel_for(shape, nothing, celerity.reduction(result, op), name="find")
        queue.fence(result).result(10)
    queue.wait()
    (told,) = warnings_of(caplog)
    assert told.startswith('kernel "find" (submitted at ')
    assert "test_empty_reductions.py:" in told
    assert f'combined a value into B1 "peak", so that its {told_value}' in told


@pytest.mark.parametrize("op", ["sum", "prod", "and", "or", "xor"])
def test_operations_of_which_nothing_has_a_result_are_silent(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, op: ReductionName
) -> None:
    result = celerity.Buffer((), np.int32)
    queue.parallel_for(7, nothing, celerity.reduction(result, op))
    queue.fence(result).result(10)
    queue.wait()
    assert not warnings_of(caplog)


def test_the_current_value_is_something(queue: celerity.Queue, caplog: pytest.LogCaptureFixture) -> None:
    result = celerity.Buffer.from_array(np.array(5.0))
    queue.parallel_for(7, nothing, celerity.reduction(result, "max", include_current=True))
    assert queue.fence(result).result(10) == 5
    queue.wait()
    assert not warnings_of(caplog)


@pytest.mark.parametrize("value", [0, 3])
def test_one_chunk_that_combines_suffices_even_the_value_of_nothing(
    queue: celerity.Queue, caplog: pytest.LogCaptureFixture, value: int
) -> None:
    result = celerity.Buffer((), np.uint8)

    def combine(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        if 0 in range(chunk.box.min[0], chunk.box.max[0]):
            out.combine(value)

    peak = celerity.reduction(result, "max")
    for _ in range(5):  # the same reduction object, submitted again
        queue.parallel_for(7, combine, peak)
    assert queue.fence(result).result(10) == value
    queue.wait()
    assert not warnings_of(caplog)


def test_each_submit_counts_by_itself(queue: celerity.Queue, caplog: pytest.LogCaptureFixture) -> None:
    result, total = celerity.Buffer((), np.int16, name="peak"), celerity.Buffer((), np.int16)
    peak = celerity.reduction(result, "max")
    queue.parallel_for(7, lambda chunk, out: out.combine(4), peak)
    queue.parallel_for(7, lambda chunk, a, b: a.combine(4), celerity.reduction(total, "sum"), peak, name="forgets")
    queue.fence(result).result(10)
    queue.wait()
    (told,) = warnings_of(caplog)
    assert told.startswith('kernel "forgets"')
