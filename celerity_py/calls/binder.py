# SPDX-License-Identifier: MIT
"""Calls of user functions: makes chunks, views and reducers from the calls that the native executor hands over."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from celerity_py import _native
from celerity_py._native import BoundAccess, BoundPart, Box, KernelCall, Region, box_from_flat
from celerity_py.calls.call_checks import CallChecks
from celerity_py.calls.kept_arrays import look_after
from celerity_py.calls.outer_variables import compare_numbers
from celerity_py.calls.views import View, ViewPart
from celerity_py.executor.failures.failure import describe_error
from celerity_py.reductions.host_reducers import CallableReducer, PlaceReducer
from celerity_py.reductions.partial_results import Reducer, ReductionPort
from celerity_py.scheduler.errors import CelerityError, InternalError, ReadOnlyAccess, TaskFailed, UsageError
from celerity_py.vocabulary.accesses import READ, Port
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.foreign_arrays import to_numpy
from celerity_py.vocabulary.hidden_mistakes import FOUND, forget, refuse_hidden
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.parts import Chunk, IndexSpacePart
from celerity_py.vocabulary.side_effects import SideEffect
from celerity_py.vocabulary.submissions import Submission
from celerity_py.vocabulary.type_rules import can_take, describe_value, refuse_masked, refuse_value

Flat: TypeAlias = "tuple[int, int, int, int, int, int]"
#: None if the chunk accesses nothing.
Binding: TypeAlias = "BoundAccess | None"

_MAX_ARRAYS = 64  # per buffer; resizes free allocations, and no report of that comes here


class _Allocation(np.ndarray[Any, Any]):
    """An array over a whole allocation, of which each call gets an array of its own.

    NumPy lets a view of an array refer to the end of the chain of bases of one type. With a type of its own this array
    is not part of that chain, which so ends at the array of the call.
    """

    __slots__ = ()


def _memory_at(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    return (ctypes.c_byte * size).from_address(address)


def array_at(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A writable array over foreign memory."""
    return np.ndarray(shape, dtype, _memory_at(address, shape, dtype))


def _find_read_only(submission: Submission, error: ValueError) -> ReadOnlyAccess | None:
    """A better error than NumPy's for writes in place, such as `view[box] += 1`, which bypass the view."""
    if isinstance(error, CelerityError) or "read-only" not in str(error):
        return None
    read = [arg.record.label for arg in submission.args if arg.__class__ is Port and arg.mode == READ]
    positions = [str(number) for number, arg in enumerate(submission.args, 1) if isinstance(arg, np.ndarray)]
    if not read and not positions:
        return None
    text = f"{submission.describe()} writes into an array that cannot be written ({error})."
    if read:
        text += (
            f" Its read accesses are {', '.join(read)}: declare the one that it writes as read_write, or as write if "
        )
        text += "it overwrites all of the mapped region."
    if positions:
        text += f" The arrays that it got as arguments (number {', '.join(positions)}) are shared by all parts of the "
        text += "task: write into array.copy(), and make a result a buffer."
    return ReadOnlyAccess(text).with_traceback(error.__traceback__)


def _note_part(error: Exception, part: IndexSpacePart) -> None:
    """Add the part to an exception of NumPy or the user: the mistake may be that it is not the whole index space."""
    if not isinstance(error, CelerityError) and part.box != part.global_box:
        error.add_note(f"Its {part.noun} was {show(part.box)} of {show(part.global_box)}.")


class Binder:
    """Calls user functions with arguments made from the bindings of a call; this class makes NumPy arrays."""

    view_type: type[View] = View
    reducer_type: type[Reducer] = Reducer
    #: Of operations by callables, and of those that keep places.
    callable_reducer_type: type[Reducer] = CallableReducer
    place_reducer_type: type[Reducer] = PlaceReducer
    #: Whether arrays of read accesses refuse writes.
    protects_reads = True
    #: The array module, NumPy or CuPy.
    xp: Any = np
    array_at = staticmethod(array_at)

    def run_kernel(
        self,
        submission: Submission,
        device: int,
        call: KernelCall,
        checks: CallChecks | None = None,
        stream: Any = None,
    ) -> None:
        """Run one chunk of a kernel on the device of this number, as the rank counts its own.

        Raises:
            BaseException: Any exception of call().
        """
        whole: Any = submission.box
        chunk = Chunk(box_from_flat(call.chunk, len(whole.min)), whole, device, stream, self.xp)
        self.call(submission, chunk, call.accesses, call.reductions, checks)

    def call(
        self,
        submission: Submission,
        part: IndexSpacePart,
        bindings: Sequence[Binding],
        partials: Iterable[Any] = (),
        checks: CallChecks | None = None,
    ) -> None:
        """Call the function of a task, and take its views away when it returns.

        Args:
            submission: The task.
            part: The first argument of its function.
            bindings: Of its accesses, in their order.
            partials: Of its reductions, in their order.
            checks: The checks of CHECK around the call.

        Raises:
            KeptArray: If an array of a view still exists then.
            OutOfBoundsAccess: If the function has caught one.
            UsageError: If a kernel returns a new array or a number of NumPy, which nobody would get.
            BaseException: Any exception of the function.
        """
        if checks is not None:
            with checks.around(submission, part, bindings, self) as filled:
                self.call(submission, part, filled, partials)
            return
        if submission.outside is not None:
            compare_numbers(submission)
        arguments = self.arguments(submission, iter(bindings), iter(partials))
        told = None
        try:
            returned = submission.run(submission.function, part, *arguments)
        except ValueError as error:
            forget(submission)
            told = _find_read_only(submission, error) if self.protects_reads else None
            if told is None:
                _note_part(error, part)
                raise
        except Exception as error:
            forget(submission)
            _note_part(error, part)
            raise
        if told is not None:
            raise told
        if FOUND:
            refuse_hidden(submission)
        if returned is not None:
            # An operation with out= returns an array over memory of a view; such a result is not lost.
            is_result = isinstance(part, Chunk) and getattr(getattr(returned, "flags", None), "owndata", False)
            returned = None  # it may be an array of a view
            if is_result:
                raise UsageError(
                    f"{submission.describe()} returns an array or number, which nobody gets. A kernel gives its results"
                    f" by assigning to its views, view[chunk.box] = value, or by combine(value) of a reduction."
                )
        for argument in tuple(arguments):
            if isinstance(argument, View):
                arguments.extend(argument.take_parts())
        argument = None
        found = _native.release_views(arguments)
        if found is not None:
            look_after(submission, arguments, found)

    def to_host(self, array: Any) -> Any:
        """An array of this kind as one of NumPy."""
        return np.asarray(array)

    def map(
        self, address: int, shape: tuple[int, ...], dtype: Any
    ) -> tuple[Callable[[], np.ndarray[Any, Any]], Callable[[], np.ndarray[Any, Any]]]:
        """Functions that make the array of one access of one call: of an access that writes, and of one that reads."""
        memory = _memory_at(address, shape, dtype)
        read_only = _Allocation(shape, dtype, memory)
        read_only.flags.writeable = False
        return partial(_Allocation(shape, dtype, memory).view, np.ndarray), partial(read_only.view, np.ndarray)

    def arguments(self, submission: Submission, bindings: Iterator[Binding], partials: Iterator[Any]) -> list[Any]:
        """Views and reducers in the places of the ports; plain values stay as they are."""
        arguments: list[Any] = []
        for arg in submission.args:
            kind = arg.__class__
            if kind is Port:
                arguments.append(self._view(arg, next(bindings), submission))
            elif kind is ReductionPort:
                arguments.append(self._reducer(arg, next(partials).address, submission))
            elif kind is SideEffect:
                arguments.append(arg.host_object.obj)
            else:
                arguments.append(arg)
        return arguments

    def partial_at(self, address: int, port: ReductionPort) -> Any:
        """An array over a partial result."""
        return self.array_at(address, port.shape, port.record.dtype)

    def _reducer(self, port: ReductionPort, address: int, submission: Submission) -> Reducer:
        known = port.combination
        if known is not None and known.is_placed:
            kind = self.place_reducer_type
        elif known is not None and not known.is_named:
            kind = self.callable_reducer_type
        else:
            kind = self.reducer_type
        return kind(self.partial_at(address, port), port, submission)

    def _view(self, port: Port, binding: Binding, submission: Submission) -> View:
        record = port.record
        writable = port.mode != READ
        ndim = len(record.shape)
        if binding is None:
            nothing = Box((0,) * ndim, (0,) * ndim)
            array = self.xp.empty((*nothing.shape, *record.dtype.shape), record.dtype.base)
            return self.view_type(array, nothing, nothing, None, writable, record, submission)
        accessed = binding.accessed
        declared = None if len(accessed) == 1 else Region([box_from_flat(flat, ndim) for flat in accessed])
        box = box_from_flat(binding.bounding_box, ndim)
        if binding.parts:
            (base, allocated), *others = [self._array_of(record, part, writable) for part in binding.parts]
            parts = tuple(ViewPart(*other, record.label) for other in others)
            return self.view_type(base, allocated, box, declared, writable, record, submission, parts)
        base, allocated = self._array_of(record, binding, writable)
        return self.view_type(base, allocated, box, declared, writable, record, submission)

    def _array_of(
        self, record: BufferRecord, bound: BoundAccess | BoundPart, writable: bool
    ) -> tuple[np.ndarray[Any, Any], Box]:
        """A new array over an allocation, and where it lies in the buffer."""
        arrays = record.arrays.get(bound.allocation)
        if arrays is None:
            allocated = box_from_flat(bound.allocated_box, len(record.shape))
            arrays = self._map_allocation(record, bound.allocation, bound.address, allocated)
        return arrays[0]() if writable else arrays[1](), arrays[2]

    def _map_allocation(self, record: BufferRecord, allocation: tuple[int, int], address: int, allocated: Box) -> Any:
        """Arrays over a whole allocation, kept with the buffer: allocations live long, and their ids are unique."""
        arrays = (*self.map(address, allocated.shape, record.dtype), allocated)
        known = record.arrays
        while len(known) >= _MAX_ARRAYS:
            # Another launcher thread may be doing the same.
            known.pop(next(iter(list(known)), None), None)
        known[allocation] = arrays
        return arrays


#: Of CPU devices and host tasks.
HOST_BINDER = Binder()


def initialize(record: BufferRecord, address: int, allocated_flat: Flat, boxes: Sequence[Flat]) -> None:
    """Compute the initial contents of a `from_function` buffer for some boxes.

    Raises:
        InternalError: If the buffer has no function.
        UsageError: If the function returns something of the wrong shape or dtype.
        TaskFailed: If the function raises; its exception is the cause.
    """
    if record.initializer is None:
        raise InternalError(
            f"{record.label} was asked for initial contents, but has no function. This is a bug in celerity_py."
        )
    who = f"The function of {record.label} (made at {record.site})"
    ndim = len(record.shape)
    allocated = box_from_flat(allocated_flat, ndim)
    target = array_at(address, allocated.shape, record.dtype)
    for flat in boxes:
        box = box_from_flat(flat, ndim)
        try:
            returned = record.context.copy().run(record.initializer, box)
            contents = to_numpy(returned, "It returned")
        except BaseException as error:
            raise TaskFailed(f"{who} raised {describe_error(error)} for the box {show(box)}.") from error
        refuse_masked(returned, f"{who} returned")
        shape, number = (*box.shape, *record.dtype.shape), record.dtype.base
        if contents.shape != shape:
            raise UsageError(
                f"{who} returned an array of shape {contents.shape} for the box {show(box)}. It must return "
                f"the contents of the box, of shape {shape}."
            )
        if not can_take(number, contents, checks_values=True):
            refuse_value(number, contents, f"{who} returned {describe_value(contents)} for the box {show(box)}")
        where: Any = (*box.relative_slices(allocated), ...)
        target[where] = contents
