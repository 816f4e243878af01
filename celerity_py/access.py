# SPDX-License-Identifier: MIT
"""Range mappers: which part of a buffer a chunk of an index space accesses.

A function of this module returns a range mapper. Any thread may call these functions.

Any callable `(chunk)` or `(chunk, buffer_shape)` is a range mapper as well: `chunk` is a `celerity.MapperChunk`,
`buffer_shape` a tuple of extents in elements. The callable returns a `Box`, a `Region`, or one slice with step 1 per
dimension, in global coordinates of the buffer. The runtime clamps the result to the buffer.

The runtime calls a callable during the submit, on the thread that submits, once per distinct chunk. It keeps no result
between submits, except those of `pure` mappers. Every rank must get the same results.

A submit raises `OutOfBoundsAccess` if `one_to_one`, `slice`, `permute` or `neighborhood` gives an item of the index
space no element. It raises `DimensionMismatch` if the dimensions of mapper, kernel and buffer do not fit. It raises
`OverlappingAccess` if two chunks write overlapping parts.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Hashable, Sequence
from itertools import permutations
from typing import Any, get_args

import numpy as np

from celerity_py._native import Box, RangeMapper, Region
from celerity_py.comparison.mapper_identity import CannotTell, code_or_object_of, identity_of
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.gathered_rows import GatheredRows
from celerity_py.vocabulary.integers import counts_from_end, is_int, is_step_one, to_flag
from celerity_py.vocabulary.static_types import NeighborhoodShape

__all__ = ["all", "even_split", "fixed", "gather", "neighborhood", "one_to_one", "permute", "pure", "slice"]

_built_in = RangeMapper.built_in
_ONE_TO_ONE = _built_in("one_to_one")
_ALL = _built_in("all")

_SLICES = [_built_in("slice", (dim,)) for dim in range(3)]
_PERMUTATIONS = {dims: _built_in("permute", dims) for count in (1, 2, 3) for dims in permutations(range(count))}
_MOST_KEPT = 256
_SHAPES = get_args(NeighborhoodShape)
#: Loops make the mapper of a stencil anew for each submit.
_neighborhoods: dict[str, dict[tuple[int, ...], RangeMapper]] = {shape: {} for shape in _SHAPES}
_periodic_neighborhoods: dict[str, dict[tuple[int, ...], RangeMapper]] = {shape: {} for shape in _SHAPES}


def one_to_one() -> RangeMapper:
    """Each item accesses the element with its own coordinates, which must exist in the buffer.

    Index space and buffer have the same number of dimensions.
    """
    return _ONE_TO_ONE


def all() -> RangeMapper:  # noqa: A001 - always used as access.all()
    """Every chunk accesses the whole buffer."""
    return _ALL


def fixed(box: Any) -> RangeMapper:
    """Every chunk accesses the same part of the buffer.

    Args:
        box: A `Box`, a `Region`, or slices with both bounds and step 1, in elements of the buffer.

    Raises:
        ArgumentTypeError: If `box` has another type, or a slice lacks a bound or has another step.
        UsageError: If a slice ends at a negative coordinate, but does not begin at one.
    """
    if not isinstance(box, Box | Region):
        box = _box_of_slices(box)
    return RangeMapper.fixed(box)


def slice(dim: int, *, at: int | None = None) -> RangeMapper:  # noqa: A001 - always used as access.slice()
    """A chunk accesses its own coordinates, and in dimension `dim` of the buffer the full extent or one index.

    The buffer may have one dimension more than the index space. Its dimensions besides `dim` then follow those of the
    index space in order: `history.write(access.slice(0, at=step))` writes the chunk's part of row `step`.

    Args:
        dim: The dimension of the buffer, 0 to 2.
        at: An index in this dimension, in elements from 0; None means the full extent.

    Raises:
        UsageError: If `dim` is not 0, 1 or 2, or `at` is no integer from 0 to 2**63 - 1. A submit raises it
            if the buffer has no such index.
    """
    if not is_int(dim) or not 0 <= dim <= 2:
        raise UsageError(f"access.slice() needs the number of a dimension, 0 to 2, not {dim!r}.")
    if at is None:
        return _SLICES[dim]
    if not is_int(at) or not 0 <= at < 2**63:
        raise UsageError(f"access.slice() needs an index of at least 0, not at={at!r}.")
    return _built_in("slice", (dim,), (at,))


def neighborhood(*extents: int, shape: NeighborhoodShape = "box", wrap: bool | Sequence[bool] = False) -> RangeMapper:
    """A chunk accesses its own coordinates, grown on both sides of every dimension: the halo of a stencil.

    Args:
        extents: One width per dimension of the buffer, in elements, 0 or more.
        shape: "box" means the whole grown box, corners included; "axes" means growth along one axis at a time.
        wrap: Whether the buffer is periodic: growth beyond it goes on at the opposite side. One bool for all
            dimensions, or one per dimension: a channel along dimension 1 has `wrap=(False, True)`. Elements at the
            opposite side have allocations of their own, so that a view of both sides has no `view.array`.

    Raises:
        UsageError: If a width is negative or 2**63 or more, their number is not 1 to 3, the shape is unknown,
            or `wrap` is neither a bool nor one per width.
    """
    try:
        for extent in extents:
            if extent.__class__ is not int:  # True equals 1
                break
        else:
            if wrap is False:
                return _neighborhoods[shape][extents]
            if wrap is True:
                return _periodic_neighborhoods[shape][extents]
    except (KeyError, TypeError):
        pass
    if not 1 <= len(extents) <= 3 or not builtins.all(is_int(extent) and 0 <= extent < 2**63 for extent in extents):
        given = ", ".join(map(repr, extents))
        raise UsageError(
            f"access.neighborhood() needs one width per dimension, 1 to 3 integers from 0 to 2**63 - 1, not ({given})."
            f"{_unpacked('neighborhood', extents)}"
        )
    if not isinstance(shape, str) or shape not in _SHAPES:
        raise UsageError(f"access.neighborhood() knows the shapes 'box' and 'axes', not {shape!r}.")
    widths = tuple(map(operator.index, extents))
    periodic = _periodic_dimensions(wrap, len(widths))
    mapper = _built_in("neighborhood", widths, (_SHAPES.index(shape), periodic or -1))
    if isinstance(wrap, bool):
        kept = (_periodic_neighborhoods if wrap else _neighborhoods)[shape]
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[widths] = mapper
    return mapper


def _periodic_dimensions(wrap: Any, ndim: int) -> int:
    """The set of periodic dimensions, with bit d for dimension d."""
    use = "access.neighborhood(wrap=...)"
    if not isinstance(wrap, tuple | list | np.ndarray):
        return (1 << ndim) - 1 if to_flag(wrap, use) else 0
    if len(wrap) != ndim:
        raise ArgumentTypeError(f"{use} takes True or False, not {wrap!r}, or one of them per dimension, here {ndim}.")
    return sum(1 << dim for dim, flag in enumerate(wrap) if to_flag(flag, use))


def even_split(granularity: int = 1) -> RangeMapper:
    """The items of a one-dimensional index space divide dimension 0 of the buffer evenly among themselves.

    Args:
        granularity: The size of every part but the last is a multiple of so many elements.

    Raises:
        UsageError: If `granularity` is less than 1, or 2**63 or more.
    """
    if not is_int(granularity) or not 1 <= granularity < 2**63:
        raise UsageError(f"access.even_split() needs a granularity below 2**63 and of at least 1, not {granularity!r}.")
    return _built_in("even_split", (granularity,))


def gather(indices: Any, offsets: Any = None, *, gap: int | None = None) -> PureMapper:
    """The items of dimension 0 of the index space access the rows of the buffer that arrays on the host list for them.

    Row r of a buffer has all elements with the coordinate r in dimension 0. The runtime keeps the rows of each chunk
    between submits with the same mapper, and forgets them with the mapper. So call `gather` once, outside of loops, and
    again only for other lists. Every rank passes the same values.

    Args:
        indices: Integers, the rows from 0. In shape (items,) each item has one row, in (items, k) it has k of them. It
            is an array of NumPy or of another library, or a list. It is copied, unless it is read-only and owns its
            data.
        offsets: For lists of different lengths, as `indptr` of a matrix in CSR: the rows of item i are
            `indices[offsets[i]:offsets[i + 1]]`. There is one offset more than there are items.
        gap: If at most so many rows lie between two rows of a chunk, the chunk accesses these as well, so that all of
            them are one box. None means a 64th of the buffer's rows, so that a chunk accesses at most 64 boxes. A
            smaller gap transfers fewer rows, and makes more messages. To write, it must be 0.

    Raises:
        ArgumentTypeError: If an array is not of integers.
        UsageError: If the shapes do not fit, an index or the gap is negative, or offsets fall, do not begin with 0 or
            do not end with the number of indices. `write` and `read_write` raise it if `gap` is not 0.
        OutOfBoundsAccess: Raised by a submit, if the index space has further items, or the buffer lacks a row.
    """
    rows = GatheredRows(indices, offsets, gap)
    return PureMapper(rows.map, rows=rows)


def permute(*dims: int) -> RangeMapper:
    """Dimension i of the buffer follows dimension `dims[i]` of the index space: `permute(1, 0)` transposes the access.

    Args:
        dims: A permutation of 0, 1, ..., one entry per dimension of the buffer.

    Raises:
        UsageError: If `dims` is no permutation of one to three dimensions.
    """
    if not builtins.all(map(is_int, dims)) or dims not in _PERMUTATIONS:
        raise UsageError(
            f"access.permute() needs a permutation of 0 to {max(len(dims) - 1, 0)}, not {dims!r}."
            f"{_unpacked('permute', dims)}"
        )
    return _PERMUTATIONS[dims]


def _unpacked(name: str, given: tuple[Any, ...]) -> str:
    """The call to write instead of one with integers in a list, tuple or array; empty if it is something else."""
    is_sequence = len(given) == 1 and hasattr(given[0], "__len__") and hasattr(given[0], "__iter__")
    items = given[0] if is_sequence and getattr(given[0], "shape", None) != () else ()
    if not 1 <= len(items) <= 3 or not builtins.all(map(is_int, items)):
        return ""
    return f" Write access.{name}({', '.join(map(str, items))})."


class PureMapper:
    """A mapper whose results the runtime keeps between submits; made by `pure` and `gather`."""

    __slots__ = ("function", "key", "rows")

    def __init__(self, function: Callable[..., Any], key: Hashable = None, *, rows: GatheredRows | None = None) -> None:
        self.function = function
        self.key = key
        #: Of `gather`, whose identity they are.
        self.rows = rows

    def identity(self) -> Hashable:
        """A value that is equal for mappers with the same results: with equal code, and an equal key or equal values.

        Raises:
            ArgumentTypeError: If there is no key, and the function uses a value that may change.
        """
        if self.rows is not None:
            return self.rows
        if self.key is not None:
            return code_or_object_of(self.function), self.key
        try:
            return identity_of(self.function)
        except CannotTell as found:
            raise ArgumentTypeError(
                f"access.pure() cannot tell {self.function!r} from others of the same code: {found}, may change. "
                f"Write access.pure(mapper, key=...) with a key that is another one whenever the mapper's results are."
            ) from None

    def __repr__(self) -> str:
        return f"access.pure({self.function!r}, key={self.key!r})" if self.rows is None else f"access.{self.rows!r}"


def pure(function: Callable[..., Any], *, key: Hashable = None) -> PureMapper:
    """Promise that a mapper's results depend only on its arguments and `key`; the runtime keeps them between submits.

    Without a key, two mappers share results if they have the same code and use the same values: defaults, closure,
    global variables, arguments of a partial function, the object of a bound method. The runtime compares these values
    at each submit. They must be of types that do not change, such as numbers, strings, boxes, and tuples of these.

    Args:
        function: A mapper callable, `(chunk)` or `(chunk, buffer_shape)`.
        key: A hashable value that stands for all values that the function uses besides its arguments.

    Raises:
        ArgumentTypeError: If `function` is not callable, or `key` not hashable. Also, here or at a submit, if the
            function uses a value that may change, and has no key.
    """
    if isinstance(function, RangeMapper | PureMapper) or not callable(function):
        raise ArgumentTypeError(f"access.pure() takes a callable (chunk) or (chunk, buffer_shape), not {function!r}.")
    try:
        hash(key)
    except TypeError:
        raise ArgumentTypeError(f"access.pure() needs a hashable key, not {key!r}.") from None
    mapper = PureMapper(function, key)
    mapper.identity()
    return mapper


def _box_of_slices(items: Any) -> Box:
    given = items if isinstance(items, tuple) else (items,)
    for item in given:
        bounded = isinstance(item, builtins.slice) and is_step_one(item) and is_int(item.start) and is_int(item.stop)
        if not bounded:
            raise ArgumentTypeError(
                f"access.fixed() takes a Box, a Region, or slices with both bounds and step 1, not {items!r}."
            )
        if counts_from_end(item):
            raise UsageError(
                f"access.fixed() takes global coordinates, in which negative bounds do not count from the end, but "
                f"{item} does. Write slice({item.start}, extent - {-item.stop})."
            )
    return Box([item.start for item in given], [max(item.start, item.stop) for item in given])


def __dir__() -> list[str]:
    return __all__


FACTORIES = (one_to_one, all, fixed, slice, neighborhood, even_split, permute, pure, gather)
