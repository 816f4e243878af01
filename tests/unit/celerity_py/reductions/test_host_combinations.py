# SPDX-License-Identifier: MIT
"""Reductions that NumPy combines on the host: results on one and three devices, and mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py.errors import UsageError
from celerity_py.reductions.combinations import Combination, combination_by
from tests.support.host_combinations import PROGRAMS, keep_last
from tests.support.scripts import line_of, run


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_partial_results_combine_on_the_host(queue: celerity.Queue, program: Callable[[celerity.Queue], None]) -> None:
    program(queue)


@pytest.mark.parametrize(
    ("shape", "dtype", "op", "options", "message"),
    [
        ((), np.float32, np.hypot, {}, "lacks its identity: the value that hypot combines"),
        ((), np.int32, np.add, {"identity": 0.5}, "identity 0.5, which its elements of int32"),
        ((), np.uint8, np.add, {"identity": -1}, "identity -1, which its elements of uint8"),
        ((), np.float64, np.add, {"identity": 1}, r"combines two identities, 1\.0, to 2\.0\. .*0 for a sum and 1 for"),
        (3, np.int64, lambda a, b: a[:2], {"identity": 0}, "got two arrays of .*returned one of shape"),
        (3, np.int64, lambda a, b: a.nothing, {"identity": 0}, "raised AttributeError: .* two arrays of shape"),
        (3, np.int64, sum, {"identity": 0}, 'sum reduces one array, .* Pass .* "sum", or .* numpy.add'),
        ((), np.int64, max, {"identity": 0}, '"max", or a function of two arrays, such as numpy.maximum'),
        (3, np.bool_, np.any, {"identity": False}, '"or", or a function of two arrays, such as numpy.logical_or'),
        ((), np.int8, np.add, {"identity": np.int64(300)}, "identity .*300.*, which its elements of int8"),
        (3, np.int8, np.add, {"identity": np.full(3, 300)}, "identity array.*, which its elements of int8"),
        ((), np.float32, np.add, {"identity": 1e300}, "identity 1e.300, which its elements of float32"),
        (3, np.int32, np.add, {"identity": [0, 0]}, r"identity \[0, 0\], .* its shape \(3,\) cannot hold"),
        ((), np.int32, "sum", {"identity": 0}, "'sum' .* has an identity of its own: leave identity=0 out"),
        ((), np.int32, "hypot", {}, "'argmin', 'argmax', or a callable, not 'hypot'"),
        ((), np.float32, "argmin", {}, r"a value and a place, not float32. Make .* celerity.placed\(np.float32\)"),
        ((), celerity.placed(np.int8), "min", {}, "needs elements of"),
    ],
)
def test_operations_that_do_not_fit_the_buffer_are_refused(
    shape: Any, dtype: Any, op: Any, options: dict[str, Any], message: str
) -> None:
    with celerity.Queue(), pytest.raises(UsageError, match=message) as caught:
        celerity.reduction(celerity.Buffer(shape, dtype, name="total"), op, **options)
    assert '"total"' in str(caught.value)


@pytest.mark.parametrize("is_checked", [False, True])
@pytest.mark.parametrize(
    ("operation", "identity", "value", "is_wrong"),
    [
        (np.maximum, 0.0, -5.0, True),
        (np.hypot, 0.0, -5.0, True),
        (np.hypot, 0.0, 0.3, False),
        (np.maximum, -np.inf, -np.inf, False),
        (np.maximum, -np.inf, np.nan, False),
        (lambda a, b: a * b, 1.0, np.inf, False),
    ],
)
def test_an_identity_that_changes_a_value_is_found_where_everything_is_checked(
    is_checked: bool, operation: Any, identity: float, value: float, is_wrong: bool
) -> None:
    def kernel(chunk: celerity.Chunk, total: celerity.Reducer) -> None:
        total.combine(value)

    def reduce() -> None:
        with celerity.Queue() as queue:
            total = celerity.Buffer((), np.float64, name="total")
            queue.parallel_for(4, kernel, celerity.reduction(total, operation, identity=identity))

    celerity.configure(check=is_checked)
    try:
        refused = pytest.raises(UsageError, match=r'kernel "kernel" .* into B1 "total" by \w+, which makes .*-5\.0')
        with refused if is_checked and is_wrong else nullcontext():
            reduce()
    finally:
        celerity.configure(check=None)


@pytest.mark.parametrize(("dtype", "ndim"), [(np.complex64, 1), (">f4", 1), ("M8[s]", 1), (np.float32, 0)])
def test_values_without_an_order_have_no_place(dtype: Any, ndim: int) -> None:
    with pytest.raises(UsageError, match=r"celerity\.placed\(\)"):
        celerity.placed(dtype, ndim)


@pytest.mark.parametrize(
    ("shape", "ndim", "body", "message"),
    [
        ((), 1, lambda out: out.combine(3.0), "without places. 'argmin' needs the place of each value"),
        ((), 1, lambda out: out.combine(3.0, 1.5), r"places of shape \(\) and float64. It needs integers from 0 on"),
        ((), 1, lambda out: out.combine(3.0, -1), "It needs integers from 0 on"),
        ((), 2, lambda out: out.combine(3.0, 4), r"of shape \(2,\)"),
        ((), 1, lambda out: out.combine(1j, 4), "cannot hold it"),
        ((), 1, lambda out: out.combine(np.zeros(2), celerity.Box((0,), (3,))), "Both must have the same shape"),
        ((), 1, lambda out: out.combine(np.zeros(2), np.arange(2)), r"array of shape \(2,\) into the single element"),
        (3, 1, lambda out: out.combine(np.zeros(3), celerity.Box((0,), (3,))), "at the places of a box"),
        (3, 1, lambda out: out.combine(np.zeros(2), np.arange(2)), r"an array of shape \(2,\) into"),
    ],
)
def test_values_and_places_that_do_not_fit_are_refused(
    queue: celerity.Queue, shape: Any, ndim: int, body: Any, message: str
) -> None:
    told = []

    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        with pytest.raises(UsageError, match=message) as caught:
            body(out)
        told.append(str(caught.value))
        out.combine(np.zeros(shape, celerity.placed(np.float32, ndim)))

    low = celerity.Buffer(shape, celerity.placed(np.float32, ndim), name="low")
    queue.parallel_for(3, kernel, celerity.reduction(low, "argmin"))
    queue.wait()
    assert told
    assert '"low"' in told[0]


def test_places_go_with_operations_that_keep_them(queue: celerity.Queue) -> None:
    def kernel(chunk: celerity.Chunk, out: celerity.Reducer) -> None:
        with pytest.raises(UsageError, match="only the operations 'argmin' and 'argmax' keep places"):
            out.combine(3, 4)

    queue.parallel_for(3, kernel, celerity.reduction(celerity.Buffer((), np.int32), "sum"))
    queue.wait()


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ("1 // (a - a)", "combined 2 partial results of shape (3,) and int64"),
        ("a[:2]", "got two arrays of shape (3,) and int64, and returned one of shape (2,) and int64"),
        ("a * 0.5", "returned one of shape (3,) and float64"),
        ("None", "returned one of shape () and object"),
    ],
)
def test_a_failure_of_a_callable_names_kernel_line_buffer_and_cause(tmp_path: Path, operation: str, told: str) -> None:
    cause = "raise KeyError('weights')" if "//" in operation else f"return {operation}"
    result = run(
        tmp_path,
        f"""
        def join(a, b):
            if not a.any() and not b.any():
                return a
            {cause}

        def count(chunk, out):
            out.array[...] = 1

        with celerity.Queue() as queue:
            total = celerity.Buffer(3, np.int64, name="total")
            queue.parallel_for(12, count, celerity.reduction(total, join, identity=0))  # the line
            queue.fence(total).result()
        """,
    )
    assert result.returncode == 1
    where = re.escape(line_of(tmp_path, "# the line"))
    assert re.search(rf'kernel "count" \(submitted at {where}\): the reduction into B1 "total" failed', result.stderr)
    assert told in result.stderr
    assert "join" in result.stderr
    if "KeyError" in cause:
        assert "KeyError: 'weights'" in result.stderr


def test_an_extremum_of_nothing_is_told_once(queue: celerity.Queue, caplog: pytest.LogCaptureFixture) -> None:
    low = celerity.Buffer((), celerity.placed(np.float32), name="low")
    half = celerity.Buffer((), np.float16, name="half")
    for _ in range(2):
        queue.parallel_for(7, lambda chunk, out: None, celerity.reduction(low, "argmin"), name="find")
        queue.parallel_for(7, lambda chunk, out: None, celerity.reduction(half, "max"), name="find")
        assert queue.fence(low).result(10).tolist() == (np.inf, -1)
        assert queue.fence(half).result(10) == -np.inf
    queue.wait()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert any('into B1 "low", so that its argmin is (inf, -1)' in text for text in told)
    assert any('into B2 "half", so that its maximum is -inf' in text for text in told)


def test_a_buffer_keeps_each_callable_once(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer((), np.int32)
    zero = np.zeros((), np.int32)
    made = [combination_by(lambda a, b: a + b, zero, buffer.record) for _ in range(3)]
    assert made[0] is made[1] is made[2]

    def scaled(factor: int) -> Combination:
        return combination_by(lambda a, b: a + factor * b, zero, buffer.record)

    assert scaled(2) is not scaled(3)
    assert combination_by(keep_last, zero, buffer.record) is not combination_by(keep_last, zero + 1, buffer.record)
    assert len(buffer.record.combinations) == 5


def test_values_at_one_index_combine_in_their_order(queue: celerity.Queue) -> None:
    buffer = celerity.Buffer(4, "U40")
    with pytest.raises(UsageError, match="returned one of"):  # np.char.add makes longer strings
        combination_by(np.char.add, np.zeros(4, "U40"), buffer.record)
    target = np.array(["a", "b", "c", "d"], "U40")
    join = combination_by(lambda a, b: np.char.add(a, b).astype("U40"), np.zeros(4, "U40"), buffer.record)
    letters = np.array(list("0123456789"), "U40")
    join.combine_at(target, np.array([1, 3, 1, 1, 0, 1, 1, 3, -1, 1]), letters)
    assert target.tolist() == ["a4", "b023569", "c", "d178"]
    with pytest.raises(IndexError):
        join.combine_at(target, np.array([4]), letters[:1])
