# SPDX-License-Identifier: MIT
"""`Queue.redistribute`: rows move to the buckets that a kernel has found for them, as by MPI_Alltoallv."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from celerity_py._native import Box, Region
from celerity_py.buffer import Buffer, check_alive
from celerity_py.kernels import kernel
from celerity_py.scheduler.errors import ArgumentTypeError, OverlappingAccess, UsageError
from celerity_py.vocabulary.foreign_arrays import to_numpy
from celerity_py.vocabulary.type_rules import describe_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from celerity_py.calls.views import View
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.parts import Chunk, MapperChunk

_Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def redistribute(  # noqa: PLR0917 - as `Queue.redistribute` and its line
    runtime: Runtime, target: Any, source: Any, counts: Any, frame: FrameType, priority: int
) -> _Rows:
    """See `Queue.redistribute`."""
    runtime.check_usable("redistribute()")
    into, out_of = (_record(runtime, buffer) for buffer in (target, source))
    lengths = _checked(counts, into, out_of)
    num_blocks, num_buckets = lengths.shape
    offsets = np.concatenate([[0], np.cumsum(lengths.sum(axis=0))])
    # Where the rows of each block and bucket begin: in the source, and in the target.
    block_rows = _block_starts(out_of.shape[0], num_blocks)
    begins = block_rows[:-1, None] + _sums_before(lengths, 1)
    ends = offsets[:-1] + _sums_before(lengths, 0)
    for block in range(num_blocks):
        if lengths[block].any():
            begin, end, length = (_kept(part[block]) for part in (begins, ends, lengths))
            written, read = _mappers(begin, end, length, into.shape[1:])
            args = target.write(written), source.read(read), begin, end, length
            runtime.submit_kernel(_MOVE, num_buckets, args, None, (), None, frame, priority)
    return _kept(offsets)


def _mappers(
    begins: _Rows, ends: _Rows, lengths: _Rows, others: tuple[int, ...]
) -> tuple[Callable[[MapperChunk], Region], Callable[[MapperChunk], Box]]:
    """The rows of one block, for a kernel with an item per bucket: those of the target, and those of the source.

    Args:
        begins: By bucket, the first row in the source. The rows of one bucket follow those of the one before.
        ends: By bucket, the first row in the target.
        lengths: By bucket, how many rows there are.
        others: The other extents of the buffers.
    """

    def rows(begin: Any, end: Any) -> Box:
        return Box((int(begin), *(0 for _ in others)), (int(end), *others))

    def written(chunk: MapperChunk) -> Region:
        return Region([rows(ends[i], ends[i] + lengths[i]) for i in range(chunk.box.min[0], chunk.box.max[0])])

    def read(chunk: MapperChunk) -> Box:
        first, last = chunk.box.min[0], chunk.box.max[0] - 1
        return rows(begins[first], begins[last] + lengths[last])

    return written, read


def _move(chunk: Chunk, target: View, source: View, *rows: _Rows) -> None:
    begins, ends, lengths = rows
    for i in range(chunk.box.min[0], chunk.box.max[0]):
        if lengths[i]:
            target[ends[i] : ends[i] + lengths[i]] = source[begins[i] : begins[i] + lengths[i]]


_MOVE: Final = kernel(_move, name="queue.redistribute")


def _kept(array: _Rows) -> _Rows:
    """An array that owns its data and cannot change, so that tasks share it."""
    array = array.copy()
    array.flags.writeable = False
    return array


def _record(runtime: Runtime, buffer: Any) -> BufferRecord:
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"queue.redistribute() takes Buffers, not {describe_value(buffer)}.")
    check_alive(buffer.record, runtime)
    return buffer.record


def _checked(counts: Any, into: BufferRecord, out_of: BufferRecord) -> _Rows:
    """The counts as integers of 64 bits, if buffers and counts fit."""
    use = f"queue.redistribute() from {out_of.label} to {into.label}"
    if into is out_of:
        raise OverlappingAccess(f"{use} needs two buffers: rows would overwrite others that are still to be read.")
    if not into.shape or into.shape[1:] != out_of.shape[1:] or into.dtype != out_of.dtype or not out_of.shape:
        raise UsageError(
            f"{use} takes buffers of rows of equal shape and dtype, but they have {out_of.shape} of {out_of.type_name} "
            f"and {into.shape} of {into.type_name}."
        )
    given = to_numpy(counts, f"{use} got as counts")
    if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[0] < 1 or given.shape[1] < 1:
        raise ArgumentTypeError(
            f"{use} takes counts with a row per block of the source and a column per bucket, an array of integers on "
            f"the host such as queue.fence(counts).result(), not {describe_value(counts)}."
        )
    lengths = given.astype(np.int64)
    if (lengths < 0).any():
        block, bucket = (int(at) for at in np.argwhere(lengths < 0)[0])
        raise UsageError(f"{use}: block {block} has {lengths[block, bucket]} rows for bucket {bucket}.")
    room = np.diff(_block_starts(out_of.shape[0], lengths.shape[0]))
    sums = lengths.sum(axis=1)
    if (sums > room).any():
        block = int(np.argmax(sums > room))
        raise UsageError(
            f"{use}: the counts of block {block} add up to {sums[block]} rows, but a block has {room[block]}. The "
            f"{lengths.shape[0]} rows of counts belong to as many blocks, into which access.even_split() divides the "
            f"{out_of.shape[0]} rows of the source."
        )
    if sums.sum() > into.shape[0]:
        raise UsageError(
            f"{use}: the counts add up to {sums.sum()} rows, but the target has {into.shape[0]}. Make it as large as "
            f"the source."
        )
    return lengths


def _block_starts(num_rows: int, num_blocks: int) -> _Rows:
    """Where the blocks of `access.even_split()` begin, and the number of rows."""
    items = np.arange(num_blocks + 1, dtype=np.int64)
    return items * (num_rows // num_blocks) + np.minimum(items, num_rows % num_blocks)


def _sums_before(lengths: _Rows, axis: int) -> _Rows:
    """The sum of all lengths before each one."""
    return np.cumsum(lengths, axis=axis) - lengths
