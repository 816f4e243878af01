# SPDX-License-Identifier: MIT
"""`access.pure`: which mapper functions share results, and which are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import celerity_py as celerity
from celerity_py import access
from celerity_py.comparison.mapper_identity import CannotTell, identity_of
from celerity_py.scheduler.errors import ArgumentTypeError

ROWS = 4

row = 0  # read by a mapper below


def row_box(index: int) -> celerity.Box:
    return celerity.Box((index, 0), (index + 1, ROWS))


def through_closure(index: Any) -> Any:
    return lambda chunk: row_box(index)


def through_default(index: int) -> Any:
    return lambda chunk, index=index: row_box(index)


def through_keyword_default(index: int) -> Any:
    def mapper(chunk: Any, *, index: int = index) -> celerity.Box:
        return row_box(index)

    return mapper


@dataclass(frozen=True)
class Row:
    index: int

    def map(self, chunk: Any) -> celerity.Box:
        return row_box(self.index)

    def __call__(self, chunk: Any) -> celerity.Box:
        return row_box(self.index)


def through_partial(index: int) -> Any:
    return functools.partial(lambda index, chunk: row_box(index), index)


def through_nested_closure(index: int) -> Any:
    inner = through_closure(index)
    return lambda chunk: inner(chunk)  # noqa: PLW0108


def through_global(index: int) -> Any:
    global row  # noqa: PLW0603 - as the loop of a script does
    row = index
    return lambda chunk: row_box(row)


def test_functions_of_different_code_are_different() -> None:
    assert identity_of(lambda chunk: row_box(0)) != identity_of(lambda chunk: row_box(1))


FACTORIES: list[Callable[[int], Any]] = [
    through_closure,
    through_default,
    through_keyword_default,
    through_partial,
    through_nested_closure,
    through_global,
    lambda index: Row(index).map,
    Row,
]


@pytest.mark.parametrize("make", FACTORIES, ids=lambda make: getattr(make, "__name__", "bound method"))
def test_functions_of_the_same_code_keep_results_of_their_own(make: Callable[[int], Any]) -> None:
    def copy(chunk: Any, out: celerity.View, source: celerity.View, line: int) -> None:
        out[line, :] = source[line, :]

    with celerity.Queue() as queue:
        source = celerity.Buffer.from_array(np.arange(ROWS * ROWS, dtype=np.float32).reshape(ROWS, ROWS), name="source")
        out = celerity.Buffer.from_array(np.zeros((ROWS, ROWS), np.float32), name="out")
        for index in range(ROWS):
            rows = access.pure(make(index))
            queue.parallel_for(1, copy, out.read_write(rows), source.read(rows), index)
        result = queue.fence(out).result()
    assert np.array_equal(result, np.arange(ROWS * ROWS).reshape(ROWS, ROWS))


@pytest.mark.parametrize("make", FACTORIES, ids=lambda make: getattr(make, "__name__", "bound method"))
def test_a_function_with_the_same_values_is_the_same(make: Callable[[int], Any]) -> None:
    first = identity_of(make(1))
    assert identity_of(make(1)) == first
    assert hash(identity_of(make(1))) == hash(first)
    assert identity_of(make(2)) != first


@dataclass(frozen=True)
class Columns:
    index: int
    width: int = 1

    def map(self, chunk: Any) -> celerity.Box:
        return celerity.Box((0, self.index), (ROWS, self.index + self.width))

    def map_next(self, chunk: Any) -> celerity.Box:
        return celerity.Box((0, self.index + 1), (ROWS, self.index + 1 + self.width))


@dataclass(frozen=True)
class Rows(Columns):
    pass


class Pair(NamedTuple):
    row: int
    width: int


def test_values_that_are_equal_but_not_the_same_are_told_apart() -> None:
    values: list[Any] = [1, True, 1.0, np.int64(1), np.float64(1), np.float32(1), 0.0, -0.0, (1,), (1.0,), (1, 1)]
    values += [slice(1), slice(0, 1), Pair(1, 1), Columns(1), Rows(1), Columns(1, 2)]
    identities = {identity_of(through_closure(value)) for value in values}
    assert len(identities) == len(values)


def plus(chunk: Any, *, width: int = 1) -> celerity.Box:
    return chunk.box.grow(width)  # type: ignore[no-any-return]


def minus(chunk: Any, *, width: int = 1) -> celerity.Box:
    return chunk.box.shrink(width)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "different",
    [
        (Columns(1).map, Columns(1).map_next),
        (functools.partial(plus, width=1), functools.partial(minus, width=1)),
        (functools.partial(plus, width=1), functools.partial(plus, width=2)),
        (functools.lru_cache(plus), functools.lru_cache(minus)),
    ],
    ids=["methods", "functions of partial", "keywords of partial", "cached"],
)
def test_functions_that_differ_in_one_thing_are_different(different: tuple[Any, Any]) -> None:
    assert identity_of(different[0]) != identity_of(different[1])


def test_a_global_variable_is_compared_where_an_inner_function_reads_it() -> None:
    source = "def mapper(chunk):\n    return (lambda: row)()"
    module: dict[str, Any] = {"row": 1}
    exec(source, module)
    first = identity_of(module["mapper"])
    module["row"] = 2
    assert identity_of(module["mapper"]) != first


def test_a_global_variable_counts_by_its_name() -> None:
    module: dict[str, Any] = {"low": 1}
    exec("def mapper(chunk):\n    return low or high", module)
    first = identity_of(module["mapper"])
    module["high"] = module.pop("low")
    assert identity_of(module["mapper"]) != first


def test_functions_that_refer_to_each_other_are_compared_by_which_one_they_call() -> None:
    def pair(inner_calls_itself: bool) -> Any:
        def first(chunk: Any) -> Any:
            return second(chunk)

        def make() -> Any:
            called: Any = None

            def second(chunk: Any) -> Any:
                return called(chunk)

            called = second if inner_calls_itself else first
            return second

        second = make()
        return first

    assert identity_of(pair(True)) == identity_of(pair(True))
    assert identity_of(pair(True)) != identity_of(pair(False))


def test_one_mapper_is_compared_anew_at_each_submit() -> None:
    variable = {"row": 0}

    def submit(mapper: Any, expected: int) -> None:
        seen: list[celerity.Box] = []
        queue.parallel_for(1, lambda chunk, view: seen.append(view.box), source.read(mapper))
        queue.wait()
        assert seen == [row_box(expected)]

    with celerity.Queue() as queue:
        source = celerity.Buffer.from_array(np.zeros((ROWS, ROWS)))
        kept = access.pure(through_global(1))
        submit(kept, 1)
        through_global(2)
        submit(kept, 2)
        for variable["row"] in (0, 1):  # with a key, what the function refers to may change
            submit(access.pure(lambda chunk: row_box(variable["row"]), key=variable["row"]), variable["row"])


def test_a_key_is_one_of_its_function_only() -> None:
    def with_key(function: Any) -> Any:
        return access.pure(function, key=1).identity()

    assert with_key(plus) != with_key(minus)
    assert with_key(functools.partial(plus, width=1)) != with_key(functools.partial(minus, width=1))
    assert with_key(functools.partial(plus, width=1)) == with_key(functools.partial(plus, width=1))
    one, other = Row(1), Row(2)
    assert with_key(one) != with_key(other)
    assert with_key(one) == with_key(one)


def test_results_are_kept_for_one_split_of_one_index_space_onto_one_shape() -> None:
    calls: list[tuple[celerity.Box, tuple[int, ...]]] = []

    class Counting:
        def __call__(self, chunk: Any, buffer_shape: tuple[int, ...]) -> celerity.Box:
            calls.append((chunk.box, buffer_shape))
            return chunk.box  # type: ignore[no-any-return]

    def asked(submit: Callable[..., None], *args: Any, **options: Any) -> int:
        calls.clear()
        submit(*args, **options)
        return len(calls)

    mapper = access.pure(Counting(), key=1)
    with celerity.Queue() as queue:
        small, large = (celerity.Buffer.from_array(np.zeros(extent)) for extent in (8, 16))

        plane = celerity.Buffer.from_array(np.zeros((8, 8)))

        def kernel(space: Any, buffer: celerity.Buffer, **options: Any) -> None:
            queue.parallel_for(space, lambda chunk, view: None, buffer.read(mapper), **options)

        def host_task(on: Any, buffer: celerity.Buffer) -> None:
            queue.host_task(lambda part, view: None, buffer.read(mapper), on=on)

        two = celerity.hints.oversubscribe(2)
        submits: list[tuple[Any, dict[str, Any]]] = [
            ((kernel, 8, small), {}),
            ((kernel, 8, large), {}),
            ((kernel, 4, small), {}),
            ((kernel, 8, small), {"hints": two}),
            ((kernel, 8, small), {"hints": two, "constrain": 8}),
            ((kernel, 8, small), {"hints": celerity.hints.border_first(1)}),
            ((kernel, 8, small), {"hints": celerity.hints.border_first(2)}),
            ((kernel, (8, 8), plane), {}),
            ((kernel, (8, 8), plane), {"hints": celerity.hints.split_2d()}),
            ((host_task, 8, small), {}),
        ]
        for args, options in submits:
            assert asked(*args, **options) >= 1
        for args, options in submits:
            assert asked(*args, **options) == 0


def test_code_that_reads_another_module_is_other_code() -> None:
    source = "lambda chunk: chunk.box.grow(width)"
    code = compile(source, "<module>", "eval")
    first, second = (eval(code, {"width": np}) for _ in range(2))
    assert first.__code__ is second.__code__
    assert identity_of(first) != identity_of(second)


def test_a_function_may_refer_to_itself_and_to_a_variable_that_is_not_there_yet() -> None:
    def mapper(chunk: Any) -> Any:
        return mapper(later) if later else chunk.box

    assert identity_of(mapper) == identity_of(mapper)
    with_value = identity_of(mapper)
    later = ()
    assert identity_of(mapper) != with_value


@dataclass
class Changing:
    index: int

    def map(self, chunk: Any) -> celerity.Box:
        return row_box(self.index)


class Halo:
    width = 1

    def map(self, chunk: Any) -> celerity.Box:
        return chunk.box.grow(self.width)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("mapper", "named"),
    [
        (through_closure([1]), "the variable 'index', of type list"),
        (through_default(np.ones(1)), "default 0 of .*, of type ndarray"),  # type: ignore[arg-type]
        (through_partial({}), r"the arguments of the partial function\[0\], of type dict"),  # type: ignore[arg-type]
        (Halo().map, "the object of the mapper, of type Halo"),
        (Changing(1).map, "the object of the mapper, of type Changing"),
        (Row([1]).map, r"the object of the mapper\.index, of type list"),  # type: ignore[arg-type]
        (lambda chunk: row_box(len(FACTORIES)), "the global variable 'FACTORIES', of type list"),
    ],
)
def test_what_cannot_be_told_is_refused_and_a_key_helps(mapper: Any, named: str) -> None:
    with pytest.raises(CannotTell, match=named):
        identity_of(mapper)
    with pytest.raises(ArgumentTypeError, match=rf"{named}, may change\. Write access\.pure\(mapper, key=\.\.\.\)"):
        access.pure(mapper)
    assert access.pure(mapper, key=1).identity() == access.pure(mapper, key=1).identity()
    assert access.pure(mapper, key=1).identity() != access.pure(mapper, key=2).identity()


def test_no_identity_keeps_a_buffer_alive() -> None:
    with celerity.Queue():
        first, second = celerity.Buffer((4,)), celerity.Buffer((4,))
        identities = [identity_of(through_closure(buffer)) for buffer in (first, first, second)]
        assert identities[0] == identities[1] != identities[2]
