# SPDX-License-Identifier: MIT
"""How many different kernels one function may give."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from celerity_py import Box
from celerity_py.fusion.structures import MAX_STRUCTURES, MAX_VALUES, Structures
from celerity_py.scheduler.errors import UsageError
from tests.support.fused_kernels import Access, make_kernel

BOX = Box((1,), (5,))


def _repeat(chunk: Any, u: Any, count: Any) -> None:
    for _ in range(count):
        u[chunk.box] += 1


def _place(structures: Structures, function: Any, count: int) -> int:
    arguments = Access(np.zeros(100)), count
    return structures.place_of(make_kernel(function, BOX, *arguments), arguments)


def test_equal_texts_are_one_structure() -> None:
    structures = Structures("repeat", ("u", "count"))
    assert [_place(structures, _repeat, count) for count in (2, 3, 2, 3, 4)] == [0, 1, 0, 1, 2]


def test_too_many_structures_are_refused_at_the_line_of_the_loop() -> None:
    structures = Structures("repeat", ("u", "count"))
    for count in range(MAX_STRUCTURES):
        _place(structures, _repeat, count)
    with pytest.raises(
        UsageError, match=rf"'repeat' .* of 33 calls, .*{__name__.split('.')[-1]}.py:22\. Each structure"
    ):
        _place(structures, _repeat, MAX_STRUCTURES)
    assert _place(structures, _repeat, 5) == 5


def test_a_value_that_python_needs_too_often_is_warned_of_once() -> None:
    def function(chunk: Any, u: Any, place: Any) -> None:
        u[int(place)] = 1

    structures = Structures("function", ("u", "place"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert {_place(structures, function, place) for place in range(MAX_VALUES + 9)} == {0}
    (warning,) = caught
    assert "more than 64 values of its argument 'place'" in str(warning.message)
