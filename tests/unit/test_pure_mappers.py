# SPDX-License-Identifier: MIT
"""`access.pure`: which mapper functions share results, and which are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def test_values_that_are_equal_but_not_the_same_are_told_apart() -> None:
    identities = {identity_of(through_closure(value)) for value in (1, True, 1.0, np.int64(1), 0.0, -0.0, (1,), (1.0,))}
    assert len(identities) == 8


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
        (Row([1]).map, r"the object of the mapper\.index, of type list"),  # type: ignore[arg-type]
        (lambda chunk: row_box(len(FACTORIES)), "the global variable 'FACTORIES', of type list"),
    ],
)
def test_what_cannot_be_told_is_refused_and_a_key_helps(mapper: Any, named: str) -> None:
    with pytest.raises(CannotTell, match=named):
        identity_of(mapper)
    with pytest.raises(ArgumentTypeError, match=rf"{named} may change\. Write access\.pure\(mapper, key=\.\.\.\)"):
        access.pure(mapper)
    assert access.pure(mapper, key=1).identity() == access.pure(mapper, key=1).identity()
    assert access.pure(mapper, key=1).identity() != access.pure(mapper, key=2).identity()


def test_no_identity_keeps_a_buffer_alive() -> None:
    with celerity.Queue():
        first, second = celerity.Buffer((4,)), celerity.Buffer((4,))
        identities = [identity_of(through_closure(buffer)) for buffer in (first, first, second)]
        assert identities[0] == identities[1] != identities[2]
