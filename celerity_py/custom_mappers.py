# SPDX-License-Identifier: MIT
"""Range mappers that are Python callables: evaluated at submit, for every chunk that the graphs will ask for."""

from __future__ import annotations

import contextlib
import inspect
import numbers
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from celerity_py._native import Box, RangeMapper, Region
from celerity_py.access import PureMapper
from celerity_py.mapping import MODE_NAMES, Access, CustomAccess, describe
from celerity_py.notation import show
from celerity_py.parts import MapperChunk
from celerity_py.scheduler.errors import DimensionMismatch, MapperError
from celerity_py.submissions import Submission

_MAX_PURE = 4096  # tables kept between submits


def resolve_custom(  # noqa: PLR0917 - the parameters of a split
    runtime: Any,
    submission: Submission,
    args: Sequence[Any],
    granularity: tuple[int, ...] | None,
    split_2d: bool,
    oversubscribe: int,
    kind: str,
) -> None:
    """Replace the callables among the submission's accesses by tables of their results.

    Args:
        runtime: Where it is going to be submitted.
        submission: Its `natives` are changed in place.
        args: The arguments as the user gave them.
        granularity: As for `Scheduler.chunks_for`.
        split_2d: Same.
        oversubscribe: Same.
        kind: Same.

    Raises:
        MapperError: If a callable raised, or returned something that is no part of a buffer.
        DimensionMismatch: If a result has another number of dimensions than the buffer.
    """
    whole: Any = submission.box
    chunks: list[Box] | None = None
    accesses = [arg for arg in args if isinstance(arg, Access)]
    for position, given in enumerate(accesses):
        if given.__class__ is not CustomAccess:
            continue
        record = given.port.record
        mapper: Any = given.mapper
        key = None
        if isinstance(mapper, PureMapper):
            split = (whole, granularity, split_2d, oversubscribe, kind, record.shape)
            key = (getattr(mapper.function, "__code__", mapper.function), mapper.key, split)
            table = runtime.pure_tables.get(key)
            if table is not None:
                submission.natives[position] = (record.id, given.native[1], table)
                continue
        if chunks is None:
            chunks = runtime.scheduler.chunks_for(
                whole, granularity=granularity, split_2d=split_2d, oversubscribe=oversubscribe, kind=kind
            )
        who = f"{submission.label}, {MODE_NAMES[given.native[1]]} access to {record.label} by {describe(mapper)}"
        inside = runtime.inside
        inside.add(threading.get_ident())
        try:
            table = evaluate(mapper, chunks, whole, record.shape, who)
        finally:
            inside.discard(threading.get_ident())
        submission.natives[position] = (record.id, given.native[1], table)
        if key is not None:
            if len(runtime.pure_tables) >= _MAX_PURE:
                runtime.pure_tables.clear()
            runtime.pure_tables[key] = table


_wants_shape: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def wants_shape(function: Callable[..., Any]) -> bool:
    """Whether a mapper takes (chunk, buffer_shape) instead of (chunk)."""
    try:
        return _wants_shape[function]
    except (KeyError, TypeError):
        pass
    result = _inspect_mapper(function)
    with contextlib.suppress(TypeError):  # neither hashable nor weakly referable: asked again next time
        _wants_shape[function] = result
    return result


def _inspect_mapper(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # a builtin without a signature
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    # A default marks an idiom for loop variables, `lambda chunk, i=i: ...`, and not a place for the shape.
    required = [p for p in positional if p.default is p.empty]
    return len(required) >= 2 or any(p.name == "buffer_shape" for p in positional[1:2])


def evaluate(
    mapper: Callable[..., Any] | PureMapper, chunks: Sequence[Box], global_box: Box, shape: tuple[int, ...], who: str
) -> RangeMapper:
    """A table of what a mapper callable returns for every chunk that the graphs will ask for.

    Args:
        mapper: The callable.
        chunks: Distinct parts of the index space, the whole included.
        global_box: The index space.
        shape: The buffer's.
        who: Task and access, for messages.

    Raises:
        MapperError: If the callable raised, or returned something that is no part of a buffer.
        DimensionMismatch: If a result has another number of dimensions than the buffer.
    """
    function = mapper.function if isinstance(mapper, PureMapper) else mapper
    with_shape = wants_shape(function)
    entries: list[tuple[Box, Box | Region]] = []
    for box in chunks:
        chunk = MapperChunk(box, global_box)
        try:
            result = function(chunk, shape) if with_shape else function(chunk)
        except Exception as error:
            raise MapperError(
                f"{who}: the mapper raised {type(error).__name__}: {error} for the chunk {show(box)} "
                f"of {show(global_box)}. Nothing was submitted."
            ) from error
        entries.append((box, to_region(result, shape, f"{who}, for the chunk {show(box)}")))
    return RangeMapper.table(entries)


def to_region(result: Any, shape: tuple[int, ...], who: str) -> Region:
    """A mapper's result as a region of a buffer with the given shape; clamped by the scheduler, not here.

    Raises:
        MapperError: If the result is no part of a buffer.
        DimensionMismatch: If it has the wrong number of dimensions.
    """
    if isinstance(result, Region):
        boxes = list(result.boxes)
        if boxes and len(boxes[0].min) != len(shape):
            raise _wrong_dimensions(result, shape, who)
        return result
    if not isinstance(result, Box):
        result = box_from_slices(result, shape, who)
    if len(result.min) != len(shape):
        raise _wrong_dimensions(result, shape, who)
    return Region([result])


def _wrong_dimensions(result: Any, shape: tuple[int, ...], who: str) -> DimensionMismatch:
    return DimensionMismatch(
        f"{who}: {show(result)} does not fit to a buffer of shape {shape}, which has {len(shape)} dimension(s)."
    )


def box_from_slices(items: Any, shape: tuple[int, ...], who: str) -> Box:
    """The box that slices of a buffer of this shape describe; open ends are the buffer's.

    Raises:
        MapperError: If it is something else than slices with step 1.
        DimensionMismatch: If their number is not that of the dimensions.
    """
    given = items if isinstance(items, tuple) else (items,)
    expected = f"{who}: expected a Box, a Region or slices with global bounds and step 1, not {items!r}."
    if any(item is ... for item in given):
        where = given.index(...)
        given = (*given[:where], *(slice(None),) * (len(shape) - len(given) + 1), *given[where + 1 :])
    if len(given) != len(shape):
        if not all(isinstance(item, slice) or _is_int(item) for item in given):
            raise MapperError(expected)
        raise _wrong_dimensions(items, shape, who)
    low: list[int] = []
    high: list[int] = []
    for dim, item in enumerate(given):
        if _is_int(item):
            low.append(item)
            high.append(item + 1)
            continue
        if not isinstance(item, slice) or item.step not in {None, 1}:
            raise MapperError(expected)
        try:
            low.append(0 if item.start is None else operator.index(item.start))
            high.append(shape[dim] if item.stop is None else operator.index(item.stop))
        except TypeError:
            raise MapperError(expected) from None
    return Box(low, [max(a, b) for a, b in zip(low, high, strict=True)])


def _is_int(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
