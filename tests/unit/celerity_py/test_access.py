# SPDX-License-Identifier: MIT
"""Range mappers as users write them: the built-in ones, and Python callables."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py._native import Box, RangeMapper, Region, Task
from celerity_py._native_testing import map_chunk
from celerity_py.comparison.pure_tables import PureTables
from celerity_py.errors import (
    ArgumentTypeError,
    CelerityWarning,
    DimensionMismatch,
    MapperError,
    OutOfBoundsAccess,
    UsageError,
)
from celerity_py.submit.custom_mappers import evaluate, resolve_custom, wants_shape
from celerity_py.vocabulary.accesses import READ, Access, CustomAccess, Port, check_mapper, describe
from celerity_py.vocabulary.submissions import Submission

WHOLE = Box((0, 0), (8, 8))
LABELLED: Any = SimpleNamespace(label='B1 "u"')
CHUNKS = [WHOLE, Box((0, 0), (4, 8)), Box((4, 0), (8, 8))]


# ---- built-in mappers


def test_built_in_mappers_are_made_once() -> None:
    assert access.one_to_one() is access.one_to_one()
    assert access.all() is access.all()
    assert access.neighborhood(1, 2, shape="axes") is access.neighborhood(1, 2, shape="axes")
    assert access.neighborhood(1, 2) is not access.neighborhood(1, 2, shape="axes")
    assert access.slice(1) is access.slice(1)
    assert access.permute(1, 0) is access.permute(1, 0)


@pytest.mark.parametrize(
    ("mapper", "expected"),
    [
        (access.one_to_one(), [Box((2, 3), (4, 5))]),
        (access.all(), [Box((0, 0), (8, 8))]),
        (access.fixed(Box((1, 1), (3, 3))), [Box((1, 1), (3, 3))]),
        (access.fixed((slice(1, 3), slice(1, 3))), [Box((1, 1), (3, 3))]),
        (access.slice(0), [Box((0, 3), (8, 5))]),
        (access.slice(0, at=6), [Box((6, 3), (7, 5))]),
        (access.slice(np.int32(1), at=np.int64(0)), [Box((2, 0), (4, 1))]),  # type: ignore[arg-type]
        (access.neighborhood(1, 0), [Box((1, 3), (5, 5))]),
        (access.permute(1, 0), [Box((3, 2), (5, 4))]),
    ],
)
def test_built_in_mappers_map_chunks(mapper: Any, expected: list[Box]) -> None:
    assert map_chunk(mapper, Box((2, 3), (4, 5)), WHOLE, (8, 8)) == Region(expected)


def test_the_neighborhood_along_axes_leaves_the_corners_out() -> None:
    mapped = map_chunk(access.neighborhood(1, 1, shape="axes"), Box((2, 3), (4, 5)), WHOLE, (8, 8))
    assert mapped == Region([Box((1, 3), (5, 5)), Box((2, 2), (4, 6))])


def test_fixed_takes_a_region() -> None:
    region = Region([Box((0,), (2,)), Box((4,), (6,))])
    assert map_chunk(access.fixed(region), Box((0,), (1,)), Box((0,), (2,)), (8,)) == region


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: access.neighborhood(-1), r"widths?.*\(-1\)"),
        (access.neighborhood, "one width per dimension"),
        (lambda: access.neighborhood(1, 1, 1, 1), "one width per dimension"),
        (lambda: access.neighborhood(1.5), "integers"),  # type: ignore[arg-type]
        (lambda: access.neighborhood(1, shape="cross"), "'box' and 'axes', not 'cross'"),  # type: ignore[arg-type]
        (lambda: access.slice(3), "0 to 2, not 3"),
        (lambda: access.slice(True), "0 to 2, not True"),
        (lambda: access.slice(3, at=1), "0 to 2, not 3"),
        (lambda: access.slice(0, at=-1), "at least 0, not at=-1"),
        (lambda: access.slice(0, at=1.0), "at least 0, not at=1.0"),  # type: ignore[arg-type]
        (lambda: access.slice(0, at=2**63), "at least 0, not at=9223372036854775808"),
        (lambda: access.even_split(0), "at least 1, not 0"),
        (lambda: access.permute(0, 0), r"permutation of 0 to 1, not \(0, 0\)"),
        (lambda: access.permute(1, 2), "permutation"),
        (access.permute, "permutation"),
        (lambda: access.neighborhood(np.array(1.5)), r"1, not \(array\(1\.5\)\)\.$"),  # type: ignore[arg-type]
        (lambda: access.neighborhood([1, 1]), r"not \(\[1, 1\]\)\. Write access\.neighborhood\(1, 1\)\."),  # type: ignore[arg-type]
        (lambda: access.neighborhood((1, 2)), r"Write access\.neighborhood\(1, 2\)\."),  # type: ignore[arg-type]
        (lambda: access.neighborhood(np.array([1])), r"Write access\.neighborhood\(1\)\."),  # type: ignore[arg-type]
        (lambda: access.neighborhood({}), r"not \(\{\}\)\.$"),  # type: ignore[arg-type]
        (lambda: access.neighborhood(True), r"not \(True\)"),
        (lambda: access.neighborhood(1, shape=["box"]), r"'box' and 'axes', not \['box'\]"),  # type: ignore[arg-type]
        (lambda: access.slice([0]), r"0 to 2, not \[0\]"),  # type: ignore[arg-type]
        (lambda: access.slice(0, at=[1]), r"at least 0, not at=\[1\]"),  # type: ignore[arg-type]
        (lambda: access.even_split([2]), r"at least 1, not \[2\]"),  # type: ignore[arg-type]
        (lambda: access.even_split(True), "at least 1, not True"),
        (lambda: access.permute([1, 0]), r"not \(\[1, 0\],\)\. Write access\.permute\(1, 0\)\."),  # type: ignore[arg-type]
        (lambda: access.permute(0, [1]), r"permutation of 0 to 1, not \(0, \[1\]\)\.$"),  # type: ignore[arg-type]
        (lambda: access.fixed(Region()), r"got Region\(\)\. Write Box\("),
        (lambda: access.fixed(slice(1, None)), "both bounds"),
        (lambda: access.fixed(3), "both bounds"),
        (lambda: access.fixed((slice(0, 2), slice(1, -2))), r"slice\(1, -2, None\) does. Write slice\(1, extent - 2\)"),
    ],
)
def test_a_wrong_parameter_of_a_built_in_mapper_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_a_mapper_is_shown_as_it_is_written() -> None:
    shown = [access.all(), access.neighborhood(1, 2, shape="axes"), access.slice(0, at=3), access.fixed(slice(0, 4))]
    expected = ["all()", "neighborhood(1, 2, shape='axes')", "slice(0, at=3)", "fixed(Box((0,), (4,)))"]
    assert list(map(repr, shown)) == [f"access.{text}" for text in expected]


# ---- objects that can be mappers


@pytest.mark.parametrize("factory", [access.one_to_one, access.all, access.neighborhood, access.slice, access.permute])
def test_a_factory_that_was_not_called_is_recognised(factory: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=rf'access to B1 "u", as in access\.{factory.__name__}\(\.\.\.\)'):
        check_mapper(factory, LABELLED, READ)


def test_a_box_is_no_mapper_but_fixed_makes_it_one() -> None:
    with pytest.raises(ArgumentTypeError, match=r"access\.fixed\(Box\(\(0,\), \(1,\)\)\)"):
        check_mapper(Box((0,), (1,)), LABELLED, READ)


def test_what_is_not_callable_is_no_mapper() -> None:
    with pytest.raises(ArgumentTypeError, match="not 'rows'") as caught:
        check_mapper("rows", LABELLED, READ)
    assert isinstance(caught.value, TypeError)


# ---- signatures of callables


def mapper_with_shape_default(chunk: Any, buffer_shape: Any = None) -> Any: ...


class CallableMapper:
    def __call__(self, chunk: Any, shape: Any) -> Any: ...

    def method(self, chunk: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda chunk: None, False),
        (lambda chunk, shape: None, True),
        (lambda chunk, i=3: None, False),
        (lambda chunk, shape, i=3: None, True),
        (lambda chunk, *, shape=None: None, False),
        (lambda *args: None, False),
        (mapper_with_shape_default, True),
        (functools.partial(lambda width, chunk: None, 3), False),
        (functools.partial(lambda width, chunk, shape: None, 3), True),
        (CallableMapper(), True),
        (CallableMapper().method, False),
        (max, False),
    ],
)
def test_the_signature_tells_whether_a_mapper_wants_the_shape(function: Any, expected: bool) -> None:
    assert wants_shape(function) is expected
    assert wants_shape(function) is expected  # from the cache


def test_a_mapper_that_each_step_makes_anew_is_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected: list[Any] = []
    signature = inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda function: inspected.append(function) or signature(function))
    for step in range(3):
        assert wants_shape(lambda chunk, shape, step=step: None)
    assert len(inspected) == 1


def test_functions_of_one_code_may_have_different_signatures() -> None:
    def make() -> Any:
        return lambda chunk, shape: None

    assert wants_shape(make())
    with_default = make()
    with_default.__defaults__ = (None,)
    assert not wants_shape(with_default)
    assert not wants_shape(functools.wraps(lambda chunk: None)(make()))
    assert wants_shape(make())


# ---- results of callables


def regions_of(function: Any, shape: tuple[int, ...] = (8, 8)) -> list[Region]:
    table = RangeMapper.table(evaluate(function, CHUNKS, WHOLE, shape, 'kernel "step"'))
    return [map_chunk(table, chunk, WHOLE, shape) for chunk in CHUNKS]


def test_a_callable_is_asked_once_per_chunk_and_sees_the_whole() -> None:
    asked = []

    def mapper(chunk: Any) -> Box:
        asked.append((chunk.box, chunk.global_box, chunk.global_shape))
        return chunk.box  # type: ignore[no-any-return]

    assert regions_of(mapper) == [Region([chunk]) for chunk in CHUNKS]
    assert asked == [(chunk, WHOLE, (8, 8)) for chunk in CHUNKS]


def test_what_a_callable_is_asked_has_a_name_to_annotate_it_with() -> None:
    asked: list[celerity.MapperChunk] = []

    def mapper(chunk: celerity.MapperChunk) -> Box:
        asked.append(chunk)
        return chunk.box

    regions_of(mapper)
    assert {type(chunk) for chunk in asked} == {celerity.MapperChunk}
    assert [chunk.global_shape for chunk in asked] == [(8, 8)] * len(CHUNKS)
    assert str(asked[1]) == "<chunk Box((0, 0), (4, 8)) of Box((0, 0), (8, 8))>"


def test_a_callable_with_two_parameters_gets_the_buffer_shape() -> None:
    result = regions_of(lambda chunk, shape: Box((0,), shape), (5,))
    assert result == [Region([Box((0,), (5,))])] * 3


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Box((1, 1), (2, 2)), Box((1, 1), (2, 2))),
        (Region([Box((1, 1), (2, 2))]), Box((1, 1), (2, 2))),
        ((slice(1, 2), slice(1, 2)), Box((1, 1), (2, 2))),
        ((slice(None), slice(3, None)), Box((0, 3), (8, 8))),
        ((..., slice(0, 2)), Box((0, 0), (8, 2))),
        ((slice(3, 4), slice(0, 2, 1)), Box((3, 0), (4, 2))),
        ((slice(-3, 2), slice(6, 99)), Box((0, 6), (2, 8))),
        ((slice(5, 3), slice(None)), Box((0, 0), (0, 0))),
        (Box((-5, -5), (99, 1)), Box((0, 0), (8, 1))),
        (Box((20, 20), (30, 30)), Box((0, 0), (0, 0))),
        (Region(), Box((0, 0), (0, 0))),
    ],
)
def test_results_are_boxes_regions_or_slices_and_are_clamped(result: Any, expected: Box) -> None:
    assert regions_of(lambda chunk: result)[0] == Region([expected])


def test_slices_of_a_one_dimensional_buffer_need_no_tuple() -> None:
    assert regions_of(lambda chunk: slice(2, 4), (8,))[0] == Region([Box((2,), (4,))])
    assert regions_of(lambda chunk: ..., (8,))[0] == Region([Box((0,), (8,))])


def test_zero_dimensional_buffers_have_one_element_to_map_to() -> None:
    for result in (Box((), ()), (), ...):
        assert regions_of(lambda chunk, result=result: result, ())[0] == Region([Box((), ())])


@pytest.mark.parametrize("result", [Box((0,), (1,)), Region([Box((0,), (1,))]), slice(0, 1), (slice(0, 1),) * 3])
def test_a_wrong_number_of_dimensions_is_an_error(result: Any) -> None:
    with pytest.raises(DimensionMismatch, match=r'kernel "step": for the chunk \[0:8, 0:8\].*\(8, 8\) has 2 dimension'):
        regions_of(lambda chunk: result)


@pytest.mark.parametrize("result", [None, "rows", 1.5, (slice(0, 4, 2), slice(0, 1)), (slice(0.5, 1), slice(0, 1))])
def test_a_result_that_is_no_part_of_a_buffer_is_an_error(result: Any) -> None:
    with pytest.raises(
        MapperError, match=f"returned {re.escape(repr(result))}. A mapper returns a Box, a Region, or one"
    ):
        regions_of(lambda chunk: result)


@pytest.mark.parametrize(
    ("result", "shape", "written"),
    [
        (slice(1, -1), (9,), "slice(1, 8) for slice(1, -1, None)"),
        ((slice(0, 2), slice(None, -2)), (8, 9), "slice(0, 7) for slice(None, -2, None)"),
        ((..., slice(3, -1)), (7, 8, 9), "slice(3, 8) for slice(3, -1, None)"),
        ((slice(3, -1), ...), (7, 8, 9), "slice(3, 6) for slice(3, -1, None)"),
    ],
)
def test_a_result_for_the_whole_index_space_does_not_count_from_the_end(
    queue: celerity.Queue, result: Any, shape: tuple[int, ...], written: str
) -> None:
    told = f"negative ones do not count from the end: write {re.escape(written)}"
    with pytest.raises(MapperError, match=told):
        regions_of(lambda chunk: result, shape)
    u = celerity.Buffer.from_array(np.ones(shape), name="u")
    with pytest.raises(OutOfBoundsAccess, match=f'The fence of B\\d+ "u" asks for .* {told}'):
        queue.fence(u, result)
    with pytest.raises(OutOfBoundsAccess, match=f'The fill of B\\d+ "u" asks for .* {told}'):
        queue.fill(u, 1, result)


def test_a_chunk_at_the_rim_may_have_a_slice_that_lies_before_the_buffer(queue: celerity.Queue) -> None:
    def sum_of_rows_above(chunk: celerity.Chunk, out: celerity.View, u: celerity.View) -> None:
        out[chunk.box] = u[...].sum()

    def rows_above(chunk: celerity.MapperChunk) -> slice:
        return slice(max(0, chunk.box.min[0] - 6), chunk.box.max[0] - 4)  # of the first of three: slice(0, -1)

    u, out = celerity.Buffer.from_array(np.arange(8.0)), celerity.Buffer(8, np.float64)
    queue.parallel_for(8, sum_of_rows_above, out.write(access.one_to_one()), u.read(rows_above))
    assert queue.fence(out).result(10)[0] == (0 if queue.statistics().num_devices == 3 else 6)


@pytest.mark.parametrize(
    ("result", "shape", "written"),
    [
        ((3, 4), (8, 8), "slice(3, 4), slice(4, 5)"),
        ((np.int64(3), 4), (8, 8), "slice(3, 4), slice(4, 5)"),
        ((3, slice(0, 4)), (8, 8), "slice(3, 4), slice(0, 4, None)"),
        ((3,), (8, 8), "slice(3, 4)"),
        (3, (8,), "slice(3, 4)"),
    ],
)
def test_integers_are_no_result_because_they_could_be_extents_or_an_index(
    result: Any, shape: tuple[int, ...], written: str
) -> None:
    with pytest.raises(MapperError) as caught:
        regions_of(lambda chunk: result, shape)
    message = str(caught.value)
    assert f"the mapper returned {result!r}. A mapper returns a Box, a Region, or one slice per dimension" in message
    assert f"if it is an index, write {written}." in message


def test_bounds_that_are_no_integers_are_named() -> None:
    bounds = slice(np.float64(0), np.float64(4))
    with pytest.raises(MapperError, match=re.escape(f"The bounds of {bounds} must be integers.")):
        regions_of(lambda chunk: bounds, (8,))


def test_an_exception_in_a_mapper_is_the_cause_of_the_error() -> None:
    def mapper(chunk: Any) -> Any:
        raise KeyError("halo")

    with pytest.raises(MapperError, match=r"for the chunk \[0:8, 0:8\] .* raised KeyError: 'halo'") as caught:
        regions_of(mapper)
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: access.neighborhood(2**63), r"0 to 2\*\*63 - 1, not \(9223372036854775808\)"),
        (lambda: access.even_split(2**63), r"below 2\*\*63 .* not 9223372036854775808"),
        (lambda: access.fixed((slice(0, 2**63),)), r"to 2\*\*63 - 1, but got 9223372036854775808"),
        (lambda: celerity.hints.oversubscribe(2**62), "at most 65536, not 4611686018427387904"),
        (lambda: celerity.hints.border_first(2**62), "at most 4294967295, not 4611686018427387904"),
    ],
)
def test_numbers_that_are_too_large_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


# ---- callables at submit


class FakeRuntime:
    def __init__(self) -> None:
        self.pure_tables = PureTables()
        self.warned_mappers: set[Any] = set()
        self.inside: set[int] = set()
        self.tracer = None
        self.scheduler = self

    def chunks_for(self, _: Task) -> list[Box]:
        return CHUNKS


def submit(runtime: Any, *mappers: Any) -> list[Any]:
    """The mappers that the scheduler would get."""
    record: Any = SimpleNamespace(
        id=7, shape=(8, 8), dtype=np.dtype(np.float32), box=WHOLE, label='B7 "u"', runtime=runtime
    )
    port = Port(record, READ)
    args: list[Access] = [
        CustomAccess(None, mapper, port) if callable(mapper) or isinstance(mapper, access.PureMapper) else
        Access(None, mapper, port)
        for mapper in mappers
    ]  # fmt: skip
    submission = Submission("kernel", "step", None, [], WHOLE, sys._getframe(1))
    resolve_custom(runtime, submission, Task.kernel(WHOLE), args)
    assert all(arg.__class__ is Access and arg.port is port for arg in args)
    return [arg.mapper for arg in args]


def test_built_in_mappers_stay_and_callables_become_tables() -> None:
    runtime = FakeRuntime()
    kept, table = submit(runtime, access.all(), lambda chunk: chunk.box)
    assert kept is access.all()
    assert map_chunk(table, CHUNKS[1], WHOLE, (8, 8)) == Region([CHUNKS[1]])
    assert not runtime.inside


def test_a_callable_is_asked_again_at_every_submit() -> None:
    runtime = FakeRuntime()
    column = 0

    def mapper(chunk: Any) -> Box:
        return Box((0, column), (8, column + 1))

    for column in range(3):
        (table,) = submit(runtime, mapper)
        assert map_chunk(table, WHOLE, WHOLE, (8, 8)) == Region([Box((0, column), (8, column + 1))])


def test_a_pure_mapper_is_asked_once_per_key() -> None:
    runtime = FakeRuntime()
    asked = []

    def column_mapper(column: int) -> Any:
        def mapper(chunk: Any) -> Box:
            asked.append(column)
            return Box((0, column), (8, column + 1))

        return access.pure(mapper, key=column)

    for column in (0, 1, 0, 1, 0):
        (table,) = submit(runtime, column_mapper(column))
        assert map_chunk(table, WHOLE, WHOLE, (8, 8)) == Region([Box((0, column), (8, column + 1))])
    assert asked == [0] * len(CHUNKS) + [1] * len(CHUNKS)


def test_the_tables_of_pure_mappers_are_bounded_in_bytes_and_those_in_use_stay() -> None:
    runtime = FakeRuntime()
    runtime.pure_tables = PureTables(limit_bytes=64 << 10)
    asked = []

    def mapper_of(key: Any) -> Any:
        def mapper(chunk: Any) -> Any:
            asked.append(key)
            return chunk.box

        return access.pure(mapper, key=key)

    for step in range(300):
        submit(runtime, mapper_of("in use"), mapper_of((step, b"x" * 2048)))
    assert len(runtime.pure_tables) <= (64 << 10) // 2048
    assert asked.count("in use") == len(CHUNKS)


def test_two_functions_with_the_same_key_are_kept_apart() -> None:
    runtime = FakeRuntime()
    (first,) = submit(runtime, access.pure(lambda chunk: Box((0, 0), (1, 1)), key=0))
    (second,) = submit(runtime, access.pure(lambda chunk: Box((1, 1), (2, 2)), key=0))
    assert map_chunk(first, WHOLE, WHOLE, (8, 8)) != map_chunk(second, WHOLE, WHOLE, (8, 8))


def test_a_result_outside_of_the_buffer_is_warned_of_once_per_mapper_and_line() -> None:
    runtime = FakeRuntime()

    def too_far(row: int) -> Any:
        return lambda chunk: Box((row, 0), (row + 2, 8))

    expected = r'"step" \(submitted at .*test_access.py:\d+\), read access to B7 "u" by the mapper .*: '
    expected += r"for the chunk \[0:8, 0:8\] .* returned \[20:22, 0:8\], .* shape \(8, 8\)\. .* clamped"
    inside = lambda chunk: Box((6, 6), (20, 20))  # noqa: E731
    with pytest.warns(CelerityWarning, match=expected) as caught:  # noqa: PT031 - a loop, on purpose
        for row in (20, 30):
            submit(runtime, too_far(row), access.pure(lambda chunk: Region(), key=0), inside)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(CelerityWarning, match=r"returned \[40:42, 0:8\]"):  # the same code, elsewhere
        submit(runtime, too_far(40))
    with pytest.warns(CelerityWarning, match=r"returned \[40:41, 40:41\]"):
        submit(runtime, access.pure(functools.partial(lambda row, chunk: Box((row, row), (row + 1, row + 1)), 40)))


def test_the_module_offers_mappers_and_nothing_else() -> None:
    assert dir(access) == sorted(factory.__name__ for factory in access.FACTORIES)
    assert dir(celerity.hints) == celerity.hints.__all__


def test_pure_needs_a_callable_and_a_hashable_key() -> None:
    with pytest.raises(ArgumentTypeError, match=r"not access\.all\(\)"):
        access.pure(access.all())  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"hashable key, not \[1\]"):
        access.pure(lambda chunk: chunk.box, key=[1])  # type: ignore[arg-type]


def test_mappers_are_described_as_the_user_wrote_them() -> None:
    assert describe(access.neighborhood(1, 1, shape="axes")) == "neighborhood(1, 1, shape='axes')"
    assert "mapper_with_shape_default" in describe(mapper_with_shape_default)
    assert describe(access.pure(mapper_with_shape_default)).startswith("pure(")
