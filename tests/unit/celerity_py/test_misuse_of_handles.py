# SPDX-License-Identifier: MIT
"""Buffers, views and reducers that a program takes for arrays, and values that a buffer cannot hold."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import Box, Region
from celerity_py.calls.views import View
from celerity_py.executor.failures.missing_attributes import explain_missing
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.scheduler.errors import ArgumentTypeError, UnsupportedIndex, UsageError
from celerity_py.vocabulary.parts import Chunk, MapperChunk
from celerity_py.vocabulary.submissions import Submission
from tests.support.scripts import line_of, run


class FakeTask:
    def describe(self) -> str:
        return 'kernel "step" (submitted at app.py:12)'


TASK: Any = FakeTask()


def view_of(dtype: str) -> View:
    array = np.zeros(4, dtype)
    buffer: Any = SimpleNamespace(box=Box((0,), (4,)), dtype=array.dtype, label='B3 "u"', checks_values=False)
    return View(array, buffer.box, buffer.box, None, True, buffer, TASK)


def record_of(dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    box = Box((0,) * len(shape), shape)
    fields: dict[str, Any] = {"id": 3, "shape": shape, "box": box, "dtype": np.dtype(dtype), "label": 'B3 "u"'}
    return SimpleNamespace(**fields, runtime=None, checks_values=False)


def add_in_place(handle: Any) -> None:
    handle += 1


USES: list[Callable[[Any], Any]] = [
    np.asarray,
    np.sum,
    np.sqrt,
    np.size,
    np.from_dlpack,
    lambda buffer: np.array_equal(buffer, np.ones(4)),
    lambda buffer: np.concatenate([np.ones(4), buffer]),
    lambda buffer: np.add(np.ones(4), 1, out=buffer),
    lambda buffer: buffer == [1, 1, 1, 1],
    lambda buffer: buffer != (1, 1, 1, 1),
    lambda buffer: operator.delitem(buffer, 0),
    lambda buffer: f"{buffer:.3f}",
    float,
    round,
    math.ceil,
    lambda buffer: buffer * 2,
    lambda buffer: 2 - buffer,
    lambda buffer: np.float32(2) * buffer,
    lambda buffer: np.ones(4) + buffer,
    lambda buffer: buffer[0],
    lambda buffer: operator.setitem(buffer, 0, 1),
    lambda buffer: -buffer,
    lambda buffer: buffer < 1,
    add_in_place,
    lambda buffer: buffer == 3,
    lambda buffer: buffer != np.ones(4),
    bool,
    len,
    list,
    lambda buffer: 1 in buffer,
]


@pytest.mark.parametrize("use", USES)
def test_a_buffer_is_no_array(use: Callable[[Any], Any]) -> None:
    with celerity.Queue():
        u = celerity.Buffer.from_array(np.ones(4), name="u")
        with pytest.raises(ArgumentTypeError, match=r'B\d+ "u" is .* queue\.fence\(u\)\.result\(\) gives a copy'):
            use(u)
        assert u == u  # noqa: PLR0124 - handles can be compared
        assert u != celerity.Buffer(4)
        assert u not in list[Any](["u", None])
        assert np.shape(u) == (4,)
        assert np.ndim(u) == 1


def missing(handle: Any, name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(handle, name)
    return explain_missing(caught.value)


def test_attributes_of_arrays_are_explained() -> None:
    with celerity.Queue() as queue:
        u = celerity.Buffer.from_array(np.ones(4), name="u")
        assert re.search(r'B\d+ "u" is asked for its \.sum, .* queue\.fence\(u\)\.result\(\)', missing(u, "sum"))
        assert missing(u, "reed") == missing(queue, "sum") == ""
        assert re.search(r"asked for its \.max, .* Write \.result\(\) behind it", missing(queue.fence(u), "max"))


def test_what_to_write_stands_behind_an_exception_that_nobody_catches(tmp_path: Path) -> None:
    result = run(tmp_path, 'u = celerity.Buffer.from_array(np.ones(4), name="u")\nu.sum()\n')
    assert re.search(r'AttributeError: .*\nB\d+ "u" is asked for its \.sum, .*\n$', result.stderr)
    result = run(
        tmp_path,
        """
        queue = celerity.Queue()
        u = celerity.Buffer.from_array(np.ones(4), name="u")
        try:
            queue.parallel_for(4, lambda chunk, u: u.sum(), u.read(lambda chunk: chunk.shift(0)))
        except errors.MapperError as error:
            print(error)
        queue.parallel_for(4, lambda chunk, u: u.sum(), u.read(access.one_to_one()))
        queue.wait()
        """,
    )
    assert "has no .shift, but its box does" in result.stdout
    assert "AttributeError: kernel " in result.stderr
    assert "view[chunk.box].sum" in result.stderr


@pytest.mark.parametrize("use", USES)
def test_a_future_is_no_array(use: Callable[[Any], Any]) -> None:
    with celerity.Queue() as queue:
        future = queue.fence(celerity.Buffer.from_array(np.ones(4), name="u"))
        with pytest.raises(
            ArgumentTypeError, match=r"it is a future and not the result\. Write \.result\(\) behind it"
        ):
            use(future)
        assert future not in list[Any](["u", None])
        assert future == future  # noqa: PLR0124 - as sets do
        assert f"{future}" == repr(future)
        assert future.result().sum() == 4


@pytest.mark.parametrize("use", USES)
def test_an_access_is_no_array(use: Callable[[Any], Any]) -> None:
    with celerity.Queue():
        u = celerity.Buffer((), name="u")
        for argument in (u.read(), celerity.reduction(u, "sum")):
            with pytest.raises(ArgumentTypeError, match=r'^<.* B\d+ "u".*> is .* argument for a task\. Pass'):
                use(argument)
            assert argument not in list[Any](["u", None])


def test_a_task_cannot_use_a_buffer_that_it_has_captured(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
        u = celerity.Buffer.from_array(np.ones(4), name="u")
        with celerity.Queue() as queue:
            queue.parallel_for(1, lambda chunk: u[chunk.box])
        """,
    )
    message = result.stderr.splitlines()[-1]
    assert re.search(r'B\d+ "u" is indexed in a task or mapper that has captured .* Pass u\.read\(mapper\)', message)
    assert line_of(tmp_path, "queue.parallel_for") in message


@pytest.mark.parametrize("index", [Box((0,), (2,)), Region([Box((0,), (2,))])])
def test_an_array_indexed_by_a_box_says_how_to_write_it(index: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"no index of one.*array\[box\.slices\]"):
        np.ones(4)[index]


@pytest.mark.parametrize(
    ("use", "symbol"),
    [
        (lambda view: view * 2, "*"),
        (lambda view: 2 * view, "*"),
        (lambda view: view + np.ones(4), "+"),
        (lambda view: view == 1, "=="),
        (lambda view: view != 1, "!="),
        (lambda view: view > 1, ">"),
        (operator.neg, "-"),
        (float, "float()"),
        (add_in_place, "+="),
        (lambda view: divmod(view, 2), "divmod"),
        (bool, "bool(), as in a condition"),
        (len, "len()"),
        (list, "iter(), as in a loop"),
        (lambda view: 1 in view, "in"),
    ],
)
def test_a_view_has_to_be_indexed(use: Callable[[Any], Any], symbol: str) -> None:
    expected = f'kernel "step" (submitted at app.py:12) uses the view of B3 "u" itself as an operand of {symbol}. Index'
    with pytest.raises(ArgumentTypeError, match=re.escape(expected) + r" it first: view\[chunk\.box\]"):
        use(view_of("float64"))


def test_functions_of_numpy_take_a_view_for_the_array_of_its_region() -> None:
    view: Any = view_of("float64")
    view[...] = [1, 2, 3, 4]
    assert np.sum(view) == 10
    assert np.array_equal(view, [1, 2, 3, 4])
    assert np.concatenate([view, [5]]).tolist() == [1, 2, 3, 4, 5]
    assert np.stack(arrays=(view, view)).shape == (2, 4)
    np.add(view, 1, out=view)
    assert view.array.tolist() == [2, 3, 4, 5]
    assert np.add.reduce(view) == 14
    assert np.shares_memory(np.from_dlpack(view), view.array)


@pytest.mark.parametrize("use", [np.asarray, np.sum, np.sqrt, lambda view: np.array_equal(view, np.zeros(4))])
def test_a_region_with_gaps_is_no_array(use: Callable[[Any], Any]) -> None:
    array = np.zeros(4)
    buffer: Any = SimpleNamespace(box=Box((0,), (4,)), dtype=array.dtype, label='B3 "u"', checks_values=False)
    declared = Region([Box((0,), (1,)), Box((3,), (4,))])
    view = View(array, buffer.box, buffer.box, declared, True, buffer, TASK)
    with pytest.raises(celerity.OutOfBoundsAccess, match=r'"step" .* B3 "u" at .* outside of its declared region'):
        use(view)


def test_a_view_of_another_memory_is_no_array_of_numpy() -> None:
    class DeviceArray:
        def __getitem__(self, index: Any) -> DeviceArray:
            return self

    array: Any = DeviceArray()
    buffer: Any = SimpleNamespace(box=Box((0,), (4,)), dtype=np.dtype("f4"), label='B3 "u"', checks_values=False)
    view: Any = View(array, buffer.box, buffer.box, None, True, buffer, TASK)
    with pytest.raises(ArgumentTypeError, match=r'"step" .* B3 "u", which lies on a GPU\. Compute with chunk'):
        np.asarray(view)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("sum", "view[chunk.box].sum, or view[...].sum for all"),
        ("shape", "view.box.shape for what the access covers, view.shape_box.shape for the buffer"),
        ("combine", "Pass celerity.reduction(buffer, operation) in place of this access"),
    ],
)
def test_a_view_has_no_attributes_of_arrays(name: str, remedy: str) -> None:
    text = missing(view_of("float64"), name)
    assert text.startswith('kernel "step" (submitted at app.py:12) ')
    assert remedy in text
    assert missing(view_of("float64"), "boxx") == ""


def test_a_chunk_is_no_box() -> None:
    chunk = Chunk(Box((2,), (4,)), Box((0,), (8,)), 0, None, np)
    assert "has no .min, but its box does: write .box.min, in global coordinates" in missing(chunk, "min")
    assert missing(MapperChunk(chunk.box, chunk.global_box), "bx") == ""
    assert chunk, "no condition is refused"


@pytest.mark.parametrize(
    "use", [list, len, lambda part: part + 1, lambda part: 2 * part, lambda part: part[0], lambda part: 3 in part]
)
def test_a_chunk_is_no_number_and_no_sequence(use: Callable[[Any], Any]) -> None:
    chunk = Chunk(Box((2,), (4,)), Box((0,), (8,)), 0, None, np)
    expected = r"no array, number or sequence of indices, .*view\[chunk\.box\], or loop over chunk\.box\.indices\(\)"
    with pytest.raises(ArgumentTypeError, match=expected):
        use(chunk)


def test_a_view_is_indexed_by_the_box_of_a_chunk() -> None:
    chunk = Chunk(Box((2,), (4,)), Box((0,), (8,)), 0, None, np)
    with pytest.raises(UnsupportedIndex, match=r"A chunk or part is no index, but its box is: view\[chunk\.box\]"):
        view_of("float64")[chunk]  # type: ignore[index]


def test_an_assignment_to_the_array_of_a_reducer_names_it_as_the_kernel_does() -> None:
    def kernel(chunk: Any, biggest: Any) -> None:
        """Has a name for its reduction."""

    record = record_of("float64")
    port = ReductionPort(record, "max")
    reducer = Reducer(np.zeros(()), port, Submission("kernel", "step", kernel, [port], None, sys._getframe()))
    with pytest.raises(UsageError, match=r"assigns 4\.0 .* to biggest\.array, .*Write biggest\.combine\(value\)"):
        reducer.array = 4.0
    reducer.array += 1
    assert reducer.array == -np.inf


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ((), "is called without arguments"),
        ((64, 1), "is called with 64 of type int in the place of its chunk"),
        (((8, 8), 1), r"is called with \(8, 8\) of type tuple in the place of its chunk"),
        ((np.zeros(4),), "is called with an array of float64 and shape"),
    ],
)
@pytest.mark.parametrize("decorate", [celerity.kernel, celerity.fuse])
def test_a_kernel_called_directly_says_how_it_is_submitted(
    decorate: Any, arguments: tuple[Any, ...], mistake: str
) -> None:
    def add(chunk: Any, u: Any) -> None:
        u[chunk.box.slices] += 1

    step = decorate(add, name="step")
    with pytest.raises(ArgumentTypeError, match=rf"'step' {mistake}.*queue\.parallel_for\(shape, step, \.\.\.\)"):
        step(*arguments)
    array = np.zeros(4)
    step(SimpleNamespace(box=Box((1,), (3,))), array)
    assert array.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("use", USES)
def test_a_reducer_is_combined_into(use: Callable[[Any], Any]) -> None:
    record = record_of("float64")
    reducer = Reducer(np.zeros(()), ReductionPort(record, "sum"), TASK)
    expected = r'"step" .* the reduction into B3 "u" is .*contributes with out\.combine\(value\)'
    with pytest.raises(ArgumentTypeError, match=expected):
        use(reducer)


BAD_VALUES = [
    ("int32", 1 + 2j, "(1+2j) of type complex"),
    ("float64", 1j, "1j of type complex"),
    ("float32", np.complex64(1), "of dtype complex64"),
    ("int32", 0.5, "0.5 of type float"),
    ("int32", 1.0, "1.0 of type float"),
    ("int32", np.float32(1), "of dtype float32"),
    ("int32", np.ones(4), "an array of float64 and shape (4,)"),
    ("int32", [0.5] * 4, "of type list"),
    ("uint8", np.ones(4, np.int64), "an array of int64 and shape (4,)"),
    ("uint8", 256, "256 of type int"),
    ("uint8", -1, "-1 of type int"),
    ("int8", np.int64(300), "300 of dtype int64"),
    ("int8", np.array(-129), "-129 of dtype int64"),
    ("int64", np.uint64(2**63), "of dtype uint64"),
    ("int8", [1, 2, 3, 300], "of type list"),
    ("float16", 65520, "65520 of type int"),
    ("float32", 1e39, "1e+39 of type float"),
    ("float32", np.float64(-1e39), "-1e+39 of dtype float64"),
    ("complex64", 1e39j, "1e+39j of type complex"),
    ("bool", 2, "2 of type int"),
    ("bool", 1.0, "1.0 of type float"),
]
#: dtype, value, and the remedy that a message names.
REMEDIES = [
    ("int8", 300, "Elements go from -128 to 127: bring the value into this range"),
    ("int8", np.int64(300), "Elements go from -128 to 127: bring the value into this range"),
    ("uint8", np.int64(300), "Elements go from 0 to 255: bring the value into this range"),
    ("uint8", np.int64(1), "value.astype('uint8')"),
    ("float16", 1e6, "Elements go up to 6.55e+04: bring the value into this range"),
    ("bool", 2, "bool(value)"),
    ("int32", 0.5, "int(value)"),
    ("float64", 1j, "float(value.real)"),
    ("int32", 1 + 2j, "int(value.real)"),
    ("int32", np.float32(1), "value.astype('int32')"),
    ("int8", np.ones(4, np.complex64), "value.real.astype('int8')"),
    ("float32", np.complex64(1), "value.real.astype('float32')"),
    ("int32", [0.5] * 4, "numpy.asarray(value).astype('int32')"),
]


@pytest.mark.parametrize(("dtype", "value", "shown"), BAD_VALUES)
def test_a_value_that_the_elements_cannot_hold_is_refused(dtype: str, value: Any, shown: str) -> None:
    view = view_of(dtype)
    with pytest.raises(UsageError) as caught:
        view[0:4] = value
    text = str(caught.value)
    assert text.startswith('kernel "step" (submitted at app.py:12) assigns ')
    assert f'{shown} to B3 "u" at [0:4], whose elements are {dtype}, which cannot hold it.' in text
    assert not view.array.any()


@pytest.mark.parametrize(("dtype", "value", "remedy"), REMEDIES)
def test_the_remedy_fits_the_type_of_the_value(dtype: str, value: Any, remedy: str) -> None:
    record = record_of(dtype)
    reducer = Reducer(np.zeros((), dtype), ReductionPort(record, "sum"), TASK)
    uses: list[Callable[[], object]] = [lambda: view_of(dtype).__setitem__(..., value)]
    if not getattr(value, "ndim", 0):
        uses.append(lambda: reducer.combine(value[:1] if isinstance(value, list) else value))
    for use in uses:
        with pytest.raises(UsageError, match=rf"\b{re.escape(remedy)}, or make the buffer of another dtype\."):
            use()


def test_the_range_of_several_values_is_told() -> None:
    expected = "Elements go from -128 to 127, and the values from -2 to 300: bring the values into this range, or make"
    with pytest.raises(UsageError, match=expected):
        view_of("int8")[...] = [300, -2, 1, 1]


@pytest.mark.parametrize("value", [[300.0, 1.0], [1, 2**40]])
@pytest.mark.parametrize("is_checked", [False, True])
def test_the_values_of_arrays_are_looked_at_where_everything_is_checked(value: Any, is_checked: bool) -> None:
    given = np.array(value)
    narrow = np.zeros(2, {"f": "float16", "i": "int32"}[given.dtype.kind])
    given *= 1000
    record = record_of(narrow.dtype, (2,))
    record.checks_values = is_checked
    view = View(narrow, record.box, record.box, None, True, record, TASK)
    reducer = Reducer(narrow.copy(), ReductionPort(record, "sum"), TASK)
    uses: list[Callable[[], object]] = [lambda: view.__setitem__(..., given), lambda: reducer.combine(given)]
    for use in uses:
        with pytest.raises(UsageError, match="Elements go") if is_checked else np.errstate(over="ignore"):
            use()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", 1),
        ("int32", True),
        ("int32", np.ones(4, np.int64)),
        ("uint8", [1, 2, 3, 4]),
        ("uint8", (1, 2, 3, 4)),
        ("float32", 1),
        ("float32", 0.1),
        ("float32", np.inf),
        ("float32", np.nan),
        ("float32", np.float64("inf")),
        ("float32", 3.4028235e38),
        ("float32", np.float64(0.1)),
        ("int8", np.int64(-128)),
        ("int8", [127, -128, 0, 0]),
        ("int8", np.full(4, 127)),
        ("float32", np.ones(4, np.int64)),
        ("float32", [1, 2.5, 3, 4]),
        ("complex64", 1),
        ("complex64", 0.5),
        ("bool", True),
        ("bool", 1),
        ("bool", np.ones(4, bool)),
        ("i4,f8", (1, 2.5)),
        ("i4,f8", np.zeros(4, "i4,f8")),
        ("i4,f8", 0),
        ("M8[s]", np.datetime64("2000-01-01")),
        ("U3", "abc"),
    ],
)
def test_a_value_that_the_elements_can_hold_is_taken(dtype: str, value: Any) -> None:
    view = view_of(dtype)
    view[...] = value
    expected = np.zeros(4, dtype)
    expected[...] = value
    assert np.array_equal(view.array, expected, equal_nan=view.dtype.kind == "f")
