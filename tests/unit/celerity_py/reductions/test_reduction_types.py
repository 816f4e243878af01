# SPDX-License-Identifier: MIT
"""Each operation with each element type works as in NumPy, or is refused when the reduction is made."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.errors import UsageError
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.vocabulary.static_types import ReductionName
from tests.support.host_combinations import ELEMENT_TYPES, is_defined

HOW_TO = Path(__file__).parents[4] / "docs" / "how_to" / "reductions.md"
SIZE = 11
#: The columns of the table in the documents.
COLUMNS = {
    "bool": "b",
    "integers": "iu",
    "float16, float32, float64": "f",
    "complex64, complex128": "c",
}


def some_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(11).integers(0, 3, SIZE)
    if dtype.kind == "c":
        return (values + 1j * values[::-1]).astype(dtype)
    return values.astype(dtype)


@pytest.mark.parametrize(("op", "name"), [(op, name) for op, name in itertools.product(OPERATIONS, ELEMENT_TYPES)])
def test_each_operation_with_each_element_type(queue: celerity.Queue, op: ReductionName, name: str) -> None:
    dtype = np.dtype(name)
    total, array = celerity.Buffer((), dtype), celerity.Buffer(2, dtype)
    if not is_defined(op, dtype.kind):
        with pytest.raises(UsageError, match=f"{op!r} into .* needs"):
            celerity.reduction(total, op)
        return
    values = some_values(dtype)
    source = celerity.Buffer.from_array(values)
    combine = OPERATIONS[op].combine
    expected: Any = None

    def contribute(
        chunk: celerity.Chunk, values: celerity.View, total: celerity.Reducer, array: celerity.Reducer
    ) -> None:
        for value in values[chunk.box]:
            total.combine(value)
        array.combine_at(chunk.xp.arange(chunk.box.size) % 2 * 0, values[chunk.box])
        array.combine(chunk.xp.stack([values[chunk.box][0], values[chunk.box][0]]))

    for include_current in (False, True):
        for value in values:
            expected = value if expected is None else combine(expected, value).astype(dtype)
        queue.parallel_for(
            SIZE,
            contribute,
            source.read(access.one_to_one()),
            celerity.reduction(total, op, include_current),
            celerity.reduction(array, op),
        )
        if not include_current and op in {"and", "or"}:
            expected = combine(expected, expected).astype(dtype)
        np.testing.assert_allclose(queue.fence(total).result(), expected, rtol=1e-2 if name == "float16" else 1e-5)
    assert queue.fence(array).result().dtype == dtype


@pytest.mark.parametrize("op", ["argmin", "argmax"])
@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_places_with_each_element_type(queue: celerity.Queue, op: ReductionName, name: str) -> None:
    dtype = np.dtype(name)
    if dtype.kind == "c":
        with pytest.raises(UsageError, match="values with an order"):
            celerity.placed(dtype)
        return
    values = some_values(dtype)
    found = celerity.Buffer((), celerity.placed(dtype))
    source = celerity.Buffer.from_array(values)

    def contribute(chunk: celerity.Chunk, values: celerity.View, found: celerity.Reducer) -> None:
        found.combine(values[chunk.box], chunk.box)

    for include_current in (False, True):
        target = celerity.reduction(found, op, include_current)
        queue.parallel_for(SIZE, contribute, source.read(access.one_to_one()), target)
        place = getattr(values, op)()
        assert queue.fence(found).result().tolist() == (values[place].item(), place)


def test_the_table_in_the_documents_is_right() -> None:
    text = HOW_TO.read_text()
    header = "| operation | " + " | ".join(COLUMNS) + " |"
    rows = text[text.index(header) :].split("\n\n")[0].splitlines()[2:]
    shown = {}
    for row in rows:
        first, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        for op in re.findall(r"`(\w+)`", first):
            shown[op] = [cell == "yes" for cell in cells]
    expected = {op: [all(is_defined(op, kind) for kind in kinds) for kinds in COLUMNS.values()] for op in OPERATIONS}
    assert shown == expected | {op: [True, True, True, False] for op in ("argmin", "argmax")}
