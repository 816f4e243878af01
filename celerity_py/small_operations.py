# SPDX-License-Identifier: MIT
"""Operations for which a program needs no kernel of its own: fill, copy, dot, norm, and any element other than 0."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from celerity_py import _native
from celerity_py._native import Box
from celerity_py.access import one_to_one, pure
from celerity_py.buffer import Buffer, check_alive, make_buffer
from celerity_py.cuda.signatures import SPELLINGS
from celerity_py.kernels import CudaKernel, Kernel, kernel
from celerity_py.reductions.reduction import Reduction, reduction
from celerity_py.runtime.fence_submits import submit_fence
from celerity_py.runtime.futures import Future
from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, OverlappingAccess, UsageError
from celerity_py.submit.custom_mappers import box_in
from celerity_py.vocabulary.index_spaces import NothingToDo
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.type_rules import (
    NUMBERS,
    can_hold,
    describe_value,
    is_in_range,
    refuse_masked,
    refuse_value,
)

if TYPE_CHECKING:
    from celerity_py.calls.views import View
    from celerity_py.reductions.partial_results import Reducer
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.parts import Chunk
    from celerity_py.vocabulary.submissions import Submission


def fill(  # noqa: PLR0917 - as `Queue.fill` and its line
    runtime: Runtime, buffer: Any, value: Any, box: Any, frame: FrameType, priority: int
) -> None:
    """See `Queue.fill`."""
    runtime.check_usable("fill()")
    record = _record(runtime, buffer, "fill")
    where = box_in(record, box, "fill of")
    args = buffer.write(one_to_one()), _element(record, value)
    if where:
        kernel = _kernel_for(_FILL, record.dtype, where.ndim)
        runtime.submit_kernel(kernel, where, args, None, (), None, frame, priority)


def reduce_nothing(
    runtime: Runtime, submission: Submission, args: Sequence[Any], frame: FrameType, priority: int
) -> None:
    """Give the results of a kernel's reductions over an empty index space: identities, or the current values.

    Args:
        runtime: Where to submit.
        submission: The kernel, which does not run.
        args: Of the kernel, as the program has given them.
        frame: The line that submits it.
        priority: Of the queue.
    """
    for arg in args:
        if isinstance(arg, Reduction) and not arg.port.includes_current:
            record = arg.port.record
            if arg.port.combination is None:
                value, work = arg.port.identity, _FILL
            else:
                value, work = arg.port.identity.reshape((*record.shape, *record.dtype.shape)), _ASSIGN
            kernel = _kernel_for(work, record.dtype, len(record.shape))
            target = arg.buffer.write(one_to_one())
            runtime.submit_kernel(kernel, record.shape, (target, value), None, (), None, frame, priority)
    runtime.empty_reductions.look_at_nothing(submission)


def copy(  # noqa: PLR0917 - as `Queue.copy` and its line
    runtime: Runtime, target: Any, source: Any, boxes: tuple[Any, Any], frame: FrameType, priority: int
) -> None:
    """See `Queue.copy`; `boxes` are those of target and source."""
    runtime.check_usable("copy()")
    into, out_of = (_record(runtime, buffer, "copy") for buffer in (target, source))
    there, here = box_in(into, boxes[0], "copy into"), box_in(out_of, boxes[1], "copy of")
    _check_copy(into, out_of, there, here)
    if not there:
        return
    copy_box(runtime, target, source, (there, here), frame, priority)


def copy_box(  # noqa: PLR0917 - as `Queue.copy` and its line
    runtime: Runtime,
    target: Buffer,
    source: Buffer,
    boxes: tuple[Box, Box],
    frame: FrameType,
    priority: int,
    name: str | None = None,
) -> None:
    """Submit a copy from one box to another of the same extents.

    Args:
        runtime: Where to submit.
        target: Gets the elements.
        source: Of the same dtype and number of dimensions.
        boxes: In target and source.
        frame: The line that asks for the copy.
        priority: Of the queue.
        name: Of the task, if it is not that of `Queue.copy`.
    """
    there, here = boxes
    shift = tuple(map(operator.sub, here.min, there.min))
    args = target.write(one_to_one()), source.read(_shifted(shift)), *shift, *[0] * (3 - len(shift))
    runtime.submit_kernel(
        _kernel_for(_COPY, target.record.dtype, there.ndim), there, args, name, (), None, frame, priority
    )


class TruthFuture(Future[bool]):
    """The future of `any`: whether some element of the fenced buffer is other than 0."""

    def fulfil(self, value: Any) -> None:
        """See the base class."""
        super().fulfil(bool(np.any(value)))


def any_of(runtime: Runtime, buffer: Any, frame: FrameType, priority: int) -> Future[bool]:
    """See `Queue.any`."""
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(
            f"queue.any() takes a Buffer, not {buffer!r}. Let a kernel or host task write the flags into a buffer."
        )
    check_alive(buffer.record, runtime)
    if buffer.dtype.kind not in NUMBERS:
        raise UsageError(f"queue.any() takes a buffer of numbers, but {buffer.record.label} has {buffer.dtype}.")
    found = buffer
    if buffer.record.box.size > 1:
        found = make_buffer((), np.bool_, f"any of {buffer.name or buffer.record.label}", frame)
        args = buffer.read(one_to_one()), reduction(found, "or")
        find = _kernel_for(_FIND, buffer.record.dtype, buffer.ndim)
        runtime.submit_kernel(find, buffer.shape, args, None, (), None, frame, priority)
    return submit_fence(runtime, found.record, found.record.box, True, frame, kind=TruthFuture, priority=priority)


class _NumberFuture(Future[Any]):
    """The future of `dot`: the only element of the fenced buffer, as a number of Python."""

    def fulfil(self, value: Any) -> None:
        """See the base class."""
        super().fulfil(value.item())


class _RootFuture(Future[float]):
    """The future of `norm`: the square root of the only element of the fenced buffer."""

    def fulfil(self, value: Any) -> None:
        """See the base class."""
        super().fulfil(float(np.sqrt(value.item().real)))


def dot(runtime: Runtime, u: Any, v: Any, frame: FrameType, priority: int) -> Future[Any]:
    """See `Queue.dot`."""
    return _dot(runtime, u, v, _DOT, frame, _NumberFuture, priority)


def norm(runtime: Runtime, u: Any, frame: FrameType, priority: int) -> Future[float]:
    """See `Queue.norm`."""
    return _dot(runtime, u, u, _NORM, frame, _RootFuture, priority)


def _dot(  # noqa: PLR0917 - one call per line above
    runtime: Runtime, u: Any, v: Any, work: _Work, frame: FrameType, future: type[Future[Any]], priority: int
) -> Future[Any]:
    call = work.name.removeprefix("queue.")
    first, second = (_record(runtime, buffer, call) for buffer in (u, v))
    if first.dtype.base.kind not in _SUMS:
        raise UsageError(f"{work.name}() takes buffers of numbers, but {first.label} has {first.type_name}.")
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        raise UsageError(
            f"{work.name}() takes buffers of equal shape and dtype, but {first.label} has {first.shape} and "
            f"{first.type_name}, and {second.label} has {second.shape} and {second.type_name}."
        )
    total = make_buffer((), work.sum_of(first.dtype.base), f"{call} of {first.label}", frame)
    args = u.read(one_to_one()), v.read(one_to_one()), reduction(total, "sum")
    kernel = _kernel_for(work, first.dtype, u.ndim)
    try:
        runtime.submit_kernel(kernel, first.shape, args, None, (), None, frame, priority)
    except NothingToDo as nothing:
        reduce_nothing(runtime, nothing.submission, args, frame, priority)
    return submit_fence(runtime, total.record, total.record.box, True, frame, kind=future, priority=priority)


# ---- arguments


def _record(runtime: Runtime, buffer: Any, call: str) -> BufferRecord:
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"queue.{call}() takes a Buffer, not {describe_value(buffer)}.")
    check_alive(buffer.record, runtime)
    return buffer.record


def _element(record: BufferRecord, value: Any) -> Any:
    """The value as an element of the buffer: a scalar of NumPy if its dtype is a number, or else an array."""
    dtype = record.dtype.base

    def use() -> str:
        return f"queue.fill() got {describe_value(value)} for {record.label}"

    refuse_masked(value, f"queue.fill() of {record.label} got")
    try:
        given = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{use()}, which is no value of NumPy: {error}") from None
    if dtype.names is None and (given.shape not in {(), record.dtype.shape} or given.dtype.hasobject):
        other = f", or an array of shape {record.dtype.shape}" if record.dtype.shape else ""
        raise ArgumentTypeError(
            f"{use()}. It takes one value, such as a number{other}. For many use Buffer.from_array()."
        )
    if not can_hold(dtype, value) or not is_in_range(dtype, given):
        refuse_value(dtype, value, use())
    try:
        element = np.asarray(value, dtype.newbyteorder("="))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{use()}, but the elements are {dtype}: {error}") from None
    if dtype.kind in "SU" and not np.can_cast(given.dtype, element.dtype, "safe"):
        raise UsageError(
            f"{use()}, but the elements are {dtype}, which would make {element[()]!r} of it. Fill it with another "
            f"value, or make the buffer of another dtype."
        )
    return element[()] if dtype.kind in NUMBERS else element


def _check_copy(into: BufferRecord, out_of: BufferRecord, there: Box, here: Box) -> None:
    def refuse(kind: type[UsageError], why: str) -> None:
        raise kind(f"The copy from {show(here)} of {out_of.label} to {show(there)} of {into.label}: {why}")

    if into.dtype != out_of.dtype:
        refuse(
            UsageError,
            f"the elements are {out_of.type_name} there and {into.type_name} here, and a copy does not convert them. "
            f"Write a kernel: target[chunk.box] = source[chunk.box].",
        )
    if there.ndim != here.ndim:
        refuse(DimensionMismatch, "the boxes need the same number of dimensions.")
    if there.shape != here.shape:
        refuse(UsageError, f"the boxes have the extents {here.shape} and {there.shape}, which must be equal.")
    if into is out_of and there & here:
        refuse(OverlappingAccess, f"they overlap at {show(there & here)}. Copy to another buffer first.")


# ---- kernels of the runtime


class _Work(NamedTuple):
    """A kernel for any buffer: in Python, and in CUDA C++."""

    name: str
    on_arrays: Callable[..., None]
    source: str  # the name of a file of `cuda/small_operations/`
    kinds: str = NUMBERS  # of the dtypes for which there is CUDA C++
    keeps_integers: bool = True  # in sums; otherwise float64, in which no sum of squares wraps around

    def sum_of(self, dtype: np.dtype[Any]) -> str:
        """The dtype in which numbers of this dtype add up."""
        return _SUMS[dtype.kind if self.keeps_integers or dtype.kind not in "iu" else "f"]


def _fill_array(chunk: Chunk, target: View, value: Any) -> None:
    target[chunk.box] = chunk.xp.asarray(value) if np.ndim(value) else value


def _assign_array(chunk: Chunk, target: View, values: Any) -> None:
    target[chunk.box] = chunk.xp.asarray(values[chunk.box.slices])


def _copy_array(chunk: Chunk, target: View, source: View, *shift: int) -> None:
    target[chunk.box] = source[chunk.box.shift(*shift[: chunk.box.ndim])]


def _dot_arrays(chunk: Chunk, u: View, v: View, total: Reducer) -> None:
    _add_products(chunk, u, v, total, _DOT)


def _norm_arrays(chunk: Chunk, u: View, v: View, total: Reducer) -> None:
    _add_products(chunk, u, v, total, _NORM)


def _add_products(chunk: Chunk, u: View, v: View, total: Reducer, work: _Work) -> None:
    # Not by BLAS, whose threads would take the cores of other devices, and add up in an order of their own.
    products = chunk.xp.multiply(u[chunk.box].conj(), v[chunk.box], dtype=work.sum_of(u.dtype))
    total.combine(products.sum())


def _find_in_array(chunk: Chunk, flags: View, found: Reducer) -> None:
    found.combine(chunk.xp.any(flags[chunk.box]))


_FILL: Final = _Work("queue.fill", _fill_array, "fill")
#: An array of the shape of the buffer.
_ASSIGN: Final = _Work("queue.fill", _assign_array, "", kinds="")
_COPY: Final = _Work("queue.copy", _copy_array, "copy")
_FIND: Final = _Work("queue.any", _find_in_array, "any")
_DOT: Final = _Work("queue.dot", _dot_arrays, "dot", kinds="iuf")
_NORM: Final = _DOT._replace(name="queue.norm", on_arrays=_norm_arrays, keeps_integers=False)
#: In which dtype the products of elements add up, by the kind of the elements.
_SUMS: Final = {"i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}


@functools.cache
def _kernel_for(work: _Work, dtype: np.dtype[Any], ndim: int) -> Kernel:
    """In CUDA C++ if it has the dtype: a kernel in Python would take the interpreter from the program."""
    cuda: Any = work.on_arrays
    if dtype.name in _native.SCALAR_TYPES and dtype.isnative and dtype.kind in work.kinds:
        lines = [f"using T = {SPELLINGS[dtype.name]};", f"constexpr int D = {ndim};"]
        if dtype.kind in _SUMS:
            lines.append(f"using S = {SPELLINGS[work.sum_of(dtype)]};")
        text = (Path(__file__).parent / "cuda" / "small_operations" / f"{work.source}.cuh").read_text()
        cuda = CudaKernel("\n".join([*lines, text]), "work")
    return kernel(cpu=work.on_arrays, cuda=cuda, name=work.name)


@functools.lru_cache(maxsize=256)
def _shifted(shift: tuple[int, ...]) -> Any:
    """The mapper to a box of the same extents, at another place."""
    return pure(lambda chunk: chunk.box.shift(*shift), key=shift) if any(shift) else one_to_one()
