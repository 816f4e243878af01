# SPDX-License-Identifier: MIT
"""Range mappers that are Python callables: called at the submit, for every chunk that the graphs will need."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from celerity_py._native import Box, RangeMapper, Region, Task, call_inside
from celerity_py.access import PureMapper
from celerity_py.comparison.mapper_identity import code_of
from celerity_py.executor.failures.failure import describe_error
from celerity_py.scheduler.errors import (
    ArgumentTypeError,
    CelerityWarning,
    DimensionMismatch,
    MapperError,
    OutOfBoundsAccess,
    UsageError,
)
from celerity_py.vocabulary.accesses import MODE_NAMES, Access, CustomAccess, describe, new_access
from celerity_py.vocabulary.integers import counts_from_end, is_int, is_step_one, to_int
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.parts import MapperChunk
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord


def resolve_custom(runtime: Runtime, submission: Submission, task: Task, accesses: list[Access]) -> None:
    """Replace the accesses whose mappers are callables by ones with tables of their results.

    Args:
        runtime: Where it is going to be submitted.
        submission: The task of the accesses.
        task: Its index space, and how that is divided.
        accesses: Changed in place.

    Raises:
        MapperError: If a callable raised, or returned something that is no part of a buffer.
        DimensionMismatch: If a result has another number of dimensions than the buffer.
        OutOfBoundsAccess: If `access.gather` lists no rows for an item, or rows that the buffer lacks.
    """
    whole: Any = submission.box
    chunks: list[Box] | None = None
    for position, given in enumerate(accesses):
        if given.__class__ is not CustomAccess:
            continue
        record = given.port.record
        mapper: Any = given.mapper
        identity: Any = None
        if isinstance(mapper, PureMapper):
            identity, case = mapper.identity(), (task.division, record.shape)
            table = runtime.pure_tables.find(identity, case)
            if table is not None:
                accesses[position] = new_access(given.buffer, table, given.port)
                continue
            if mapper.rows is not None:
                mapper.rows.check(whole, record.shape, _Subject(submission, given))
        if chunks is None:
            chunks = runtime.scheduler.chunks_for(task)
        who = _Subject(submission, given)
        started_ns = 0 if runtime.tracer is None else perf_counter_ns()
        results = call_inside(runtime.inside, evaluate, mapper, chunks, whole, record.shape, who)
        if runtime.tracer is not None:
            runtime.tracer.note_mapping(runtime.next_id, started_ns)
        _warn_if_outside(runtime, submission, given, results)
        table = RangeMapper.table(results)
        accesses[position] = new_access(given.buffer, table, given.port)
        if identity is not None:
            runtime.pure_tables.keep(identity, case, table, results)


_MOST_KEPT = 4096
#: (id of the code of a function, number of its defaults) -> (whether the function takes the shape, the code). A loop
#: may make its mapper anew in each step.
_wants_shape: dict[Any, tuple[bool, CodeType]] = {}
_others_want_shape: WeakKeyDictionary[Any, tuple[bool, None]] = WeakKeyDictionary()


def wants_shape(function: Any) -> bool:
    """Whether a mapper takes (chunk, buffer_shape) instead of (chunk).

    Raises:
        ArgumentTypeError: If it takes neither.
    """
    kept: Any = _others_want_shape
    key, code = function, None
    # A function with attributes may have the signature of another one, as `functools.wraps` gives it.
    if function.__class__ is FunctionType and not function.__dict__ and function.__kwdefaults__ is None:
        kept, code = _wants_shape, function.__code__
        key = id(code), len(function.__defaults__ or ())
    try:
        return kept[key][0]  # type: ignore[no-any-return]
    except (KeyError, TypeError):
        pass
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    result = _inspect_mapper(function)
    with contextlib.suppress(TypeError):  # neither hashable nor weakly referable: inspected each time
        kept[key] = result, code
    return result


def _inspect_mapper(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # a builtin without a signature
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    # A default marks an idiom for loop variables, `lambda chunk, i=i: ...`, and not a place for the shape.
    required = [p for p in positional if p.default is p.empty]
    with_shape = len(required) >= 2 or any(p.name == "buffer_shape" for p in positional[1:2])
    try:
        signature.bind(*(None, None) if with_shape else (None,))
    except TypeError as error:
        raise ArgumentTypeError(
            f"A mapper is called with a chunk, or with a chunk and the shape of the buffer: write lambda chunk: ... or "
            f"lambda chunk, buffer_shape: ... Its signature {signature} fits neither: {error}."
        ) from None
    return with_shape


def evaluate(
    mapper: Callable[..., Any] | PureMapper, chunks: Sequence[Box], global_box: Box, shape: tuple[int, ...], who: object
) -> list[tuple[Box, Box | Region]]:
    """The results of a mapper callable for every chunk that the graphs will need. The scheduler clamps them.

    Args:
        mapper: The callable.
        chunks: Distinct parts of the index space, the whole included.
        global_box: The index space.
        shape: The buffer's.
        who: Task and access; turned into a string only if there is a message.

    Raises:
        MapperError: If the callable raised, or returned something that is no part of a buffer.
        DimensionMismatch: If a result has another number of dimensions than the buffer.
    """
    function = mapper.function if isinstance(mapper, PureMapper) else mapper
    try:
        with_shape = wants_shape(function)
    except ArgumentTypeError as error:
        raise MapperError(f"{who}: {error} Nothing was submitted.") from None
    results: list[tuple[Box, Box | Region]] = []
    for box in chunks:
        chunk = MapperChunk(box, global_box)
        try:
            result = function(chunk, shape) if with_shape else function(chunk)
        except Exception as error:
            raise MapperError(
                f"{who}: for the chunk {show(box)} of {show(global_box)} the mapper raised "
                f"{describe_error(error).rstrip('.')}. Nothing was submitted."
            ) from error
        try:
            region = to_region(result, shape)
            results.append((box, region))
            if region is not result and box == global_box:  # a region is no slice
                _refuse_count_from_end(result, shape)
        except UsageError as error:
            kind = DimensionMismatch if isinstance(error, DimensionMismatch) else MapperError
            shown = show(result) if isinstance(result, Box | Region) else repr(result)
            raise kind(
                f"{who}: for the chunk {show(box)} the mapper returned {shown}. {error} Nothing was submitted."
            ) from None
    return results


def to_region(result: Any, shape: tuple[int, ...]) -> Region:
    """A mapper's result as a region of a buffer with the given shape.

    Raises:
        ArgumentTypeError: If the result is no part of a buffer.
        DimensionMismatch: If it has the wrong number of dimensions.
    """
    if isinstance(result, Region):
        if result and result.bounding_box.ndim != len(shape):
            raise _wrong_dimensions(result.bounding_box.ndim, shape)
        return result
    if not isinstance(result, Box):
        result = box_from_slices(result, shape, "A mapper returns a Box, a Region, or")
    if len(result.min) != len(shape):
        raise _wrong_dimensions(len(result.min), shape)
    return Region([result])


def _wrong_dimensions(given: int, shape: tuple[int, ...]) -> DimensionMismatch:
    return DimensionMismatch(
        f"That has {given} dimension(s), but the buffer of shape {shape} has {len(shape)} dimension(s)."
    )


def box_in(record: BufferRecord, given: Any, call: str) -> Box:
    """The box of a buffer that a call of the queue asks for.

    Args:
        record: Of the buffer.
        given: A `Box` or slices in global coordinates; None means the whole buffer.
        call: For messages, such as "fence of".

    Raises:
        ArgumentTypeError: If it is something else.
        DimensionMismatch: If it has other dimensions than the buffer.
        OutOfBoundsAccess: If it does not lie in the buffer.
    """
    whole = record.box
    if given is None:
        return whole
    if isinstance(given, Box):
        box = given
    else:
        try:
            box = box_from_slices(given, record.shape, f"A {call.partition(' ')[0]} takes a Box or")
            _refuse_count_from_end(given, record.shape)
        except UsageError as error:
            raise type(error)(f"The {call} {record.label} asks for {given!r}. {error}") from None
    if box.ndim != whole.ndim:
        raise DimensionMismatch(
            f"The {call} {record.label} asks for {show(box)}, but the buffer {show(whole)} has "
            f"{whole.ndim} dimension(s)."
        )
    if box not in whole:
        raise OutOfBoundsAccess(f"The {call} {record.label} asks for {show(box)}, outside of the buffer {show(whole)}.")
    return box


def box_from_slices(items: Any, shape: tuple[int, ...], expected: str) -> Box:
    """The box that slices describe in a buffer of this shape; an open end means the end of the buffer.

    Args:
        items: A slice, `...`, or a tuple of these.
        shape: The buffer's.
        expected: The alternatives to slices, as the beginning of a sentence that ends with the slices.

    Raises:
        ArgumentTypeError: If it is something else than slices with step 1.
        DimensionMismatch: If their number is not that of the dimensions.
    """
    given = items if isinstance(items, tuple) else (items,)
    if not all(item is ... or (isinstance(item, slice) and is_step_one(item)) for item in given):
        raise ArgumentTypeError(f"{expected} {_what_to_write(given)}")
    if any(item is ... for item in given):
        where = given.index(...)
        given = (*given[:where], *(slice(None),) * (len(shape) - len(given) + 1), *given[where + 1 :])
    if len(given) != len(shape) or ... in given:
        raise _wrong_dimensions(len(given), shape)
    low: list[int] = []
    high: list[int] = []
    for dim, item in enumerate(given):
        try:
            low.append(0 if item.start is None else to_int(item.start))
            high.append(shape[dim] if item.stop is None else to_int(item.stop))
        except TypeError:
            bounds = f"The bounds of {item} must be integers."
            raise ArgumentTypeError(f"{expected} {_what_to_write(given)} {bounds}") from None
    return Box(low, [max(a, b) for a, b in zip(low, high, strict=True)])


def _refuse_count_from_end(items: Any, shape: tuple[int, ...]) -> None:
    """Refuse slices such as `slice(1, -1)`, which would be empty, and are meant as those of NumPy.

    A mapper may return one for a chunk at the rim of the buffer, but hardly for the whole index space.

    Raises:
        OutOfBoundsAccess: If there is one.
    """
    given = items if isinstance(items, tuple) else (items,)
    for position, item in enumerate(given):
        if counts_from_end(item):
            extent = shape[position - len(given) if ... in given[:position] else position]
            raise OutOfBoundsAccess(
                f"Bounds are global coordinates, and negative ones do not count from the end: write "
                f"slice({item.start or 0}, {extent + item.stop}) for {item}, or max(0, stop) if it may be empty."
            )


def _what_to_write(given: tuple[Any, ...]) -> str:
    slices = "one slice per dimension, in global coordinates and with step 1."
    if any(is_int(item) for item in given) and all(is_int(item) or isinstance(item, slice) for item in given):
        wanted = ", ".join(f"slice({item}, {item + 1})" if is_int(item) else repr(item) for item in given)
        return f"{slices} An integer could be an index or an extent; if it is an index, write {wanted}."
    return slices


class _Subject:
    """Task and access, as messages name them. The text is made only for a message."""

    __slots__ = ("given", "submission")

    def __init__(self, submission: Submission, given: Access) -> None:
        self.submission = submission
        self.given = given

    def __str__(self) -> str:
        mode = MODE_NAMES[self.given.port.mode]
        label = self.given.port.record.label
        return f"{self.submission.describe()}, {mode} access to {label} by {describe(self.given.mapper)}"


def _warn_if_outside(
    runtime: Runtime, submission: Submission, given: Access, results: Sequence[tuple[Box, Box | Region]]
) -> None:
    """Warn of a mapper all of whose results lie outside of the buffer: mostly a mistake in the coordinates.

    A mapper with an offset gives chunks at the rim no elements. That is no mistake.
    """
    record = given.port.record
    for _, result in results:
        if result and result & record.box:
            return
    chunk, outside = next((found for found in results if found[1]), (None, None))
    if outside is None:
        return
    function = given.mapper.function if isinstance(given.mapper, PureMapper) else given.mapper
    # If a loop makes the mapper anew for each step, one warning is enough.
    asked = (code_of(function), submission.code, submission.lasti)
    if asked in runtime.warned_mappers:
        return
    warnings.warn_explicit(
        f"{_Subject(submission, given)}: for the chunk {show(chunk)} the mapper returned {show(outside)}, which is "
        f"outside of the buffer of shape {record.shape}. Results are clamped to the buffer, so this chunk accesses "
        f"nothing. Return an empty Box or Region if that is meant. (Said once per mapper and submit.)",
        CelerityWarning,
        submission.code.co_filename,
        submission.line,
    )
    runtime.warned_mappers.add(asked)
