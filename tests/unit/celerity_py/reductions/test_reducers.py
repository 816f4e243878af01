# SPDX-License-Identifier: MIT
"""The values that kernels may combine into a reduction."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py
from celerity_py import _native
from celerity_py.errors import UsageError
from celerity_py.reductions.combinations import PLACED
from celerity_py.reductions.operations import OPERATIONS
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from tests.support.scripts import line_of, run

HEADER = Path(celerity_py.__file__).parent / "cuda" / "celerity_operations.cuh"
OWNER: Any = SimpleNamespace(describe=lambda: 'kernel "add" (submitted at app.py:12)')


def reducer_of(dtype: Any, op: str = "sum") -> tuple[Reducer, Any]:
    fields: dict[str, Any] = {"label": 'B3 "total"', "shape": (), "dtype": np.dtype(dtype)}
    record: Any = SimpleNamespace(**fields, runtime=None, checks_values=False)
    array = np.empty((), dtype)
    return Reducer(array, ReductionPort(record, op), OWNER), array


@pytest.mark.parametrize(
    ("dtype", "value", "shown"),
    [
        ("int32", 0.6, "0.6 of type float"),
        ("int32", np.float32(0.5), "0.5 of dtype float32"),
        ("int8", 300, "300 of type int"),
        ("uint32", -1, "-1 of type int"),
        ("float64", 1j, "1j of type complex"),
        ("uint16", np.array([3]), "3 of dtype int64"),
        ("bool", 2, "2 of type int"),
        ("float32", None, "None of type NoneType"),
    ],
)
def test_a_value_that_the_buffer_cannot_hold_is_refused(dtype: str, value: Any, shown: str) -> None:
    reducer, array = reducer_of(dtype)
    wanted = rf'^kernel "add" \(submitted at app.py:12\) combines {re.escape(shown)} into B3 "total", whose .* {dtype},'
    with pytest.raises(UsageError, match=wanted):
        reducer.combine(value)
    assert array[()] == 0


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("int32", True), ("float32", 3), ("float32", 0.1), ("float32", np.float64(0.1)), ("int8", np.int64(3))),
        *(("complex64", 1.5), ("uint8", 255), ("bool", np.True_), ("int64", np.array([[7]], np.uint8))),
    ],
)
def test_a_value_of_the_same_kind_is_combined(dtype: str, value: Any) -> None:
    reducer, array = reducer_of(dtype)
    reducer.combine(value)
    assert array[()] == np.asarray(value, dtype).reshape(())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, 2], "combines an array of shape (2,) into the single element"),
        ((1.5, 2.5), "combines an array of shape (2,) into the single element"),
        (memoryview(b"123"), "combines an array of shape (3,) into the single element"),
    ],
)
def test_a_value_that_is_no_number_is_refused_as_what_it_is(value: Any, shown: str) -> None:
    with pytest.raises(UsageError, match=re.escape(shown)):
        reducer_of("float64")[0].combine(value)


@pytest.mark.parametrize("value", [[5], (5,), memoryview(b"\5"), [[5]]])
def test_one_element_in_a_sequence_is_combined(value: Any) -> None:
    reducer, array = reducer_of("float64")
    reducer.combine(value)
    assert array == 5


def test_half_an_item_does_not_vanish_in_an_integer_sum(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        with celerity.Queue() as queue:
            total = celerity.Buffer.from_array(np.array(7, np.int32), name="total")
            add = celerity.reduction(total, "sum", include_current=True)
            queue.parallel_for(12, lambda chunk, out: out.combine(0.6), add, name="add")  # the line
            queue.fence(total).result()
        """,
    )
    assert result.returncode == 1
    where = re.escape(line_of(tmp_path, "# the line"))
    assert re.search(rf'\(submitted at {where}\) combines 0.6 of type float into B1 "total"', result.stderr)


def test_python_the_core_and_the_device_header_know_the_same_operations() -> None:
    assert (*OPERATIONS, "callable") == _native.REDUCTION_OPERATIONS
    types = re.findall(r"^struct (\w+) \{\};$", HEADER.read_text(), flags=re.MULTILINE)
    assert types == [*(operation.device_type for operation in OPERATIONS.values()), *PLACED]
