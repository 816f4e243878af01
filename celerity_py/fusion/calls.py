# SPDX-License-Identifier: MIT
"""Calls a kernel's function with a real chunk and symbolic arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from celerity_py._native import Box, Region
from celerity_py.calls.views import View, ViewPart
from celerity_py.fusion.arrays import SymbolicArray
from celerity_py.fusion.coordinates import Affine
from celerity_py.fusion.functions import SymbolicModule, full
from celerity_py.fusion.memories import Memory
from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal, shown_as, trace_call
from celerity_py.fusion.nodes import ItemIndex
from celerity_py.fusion.random_arrays import random_array
from celerity_py.fusion.reducers import SymbolicReducer
from celerity_py.fusion.scalars import Parameter, SymbolicScalar
from celerity_py.fusion.storages import BufferStorage
from celerity_py.fusion.tables import table_of
from celerity_py.fusion.trace import Trace
from celerity_py.fusion.type_questions import asks_for_types
from celerity_py.random import TRACED
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.scheduler.errors import ReadOnlyAccess, UsageError
from celerity_py.vocabulary.hidden_mistakes import forget, refuse_hidden
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.parts import Chunk, check_dimension
from celerity_py.vocabulary.type_rules import can_take, describe_value, refuse_value

if TYPE_CHECKING:
    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.submissions import Submission


@dataclass(frozen=True, slots=True)
class AccessArgument:
    """An access among the arguments of a kernel, for one chunk."""

    buffer: BufferRecord
    #: The bounding box of what the chunk accesses, in global coordinates; `declared` is None where it is just that.
    box: Box
    declared: Region | None
    writable: bool
    #: The boxes of a periodic access, each with a memory of its own; chunks have as many, and some may be equal.
    parts: tuple[Box, ...] = ()


@shown_as("View")
class SymbolicView(View[Any]):
    """A view in a function that is traced: the checks and messages of `View`, with symbolic arrays."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace, argument: AccessArgument, memories: Sequence[Memory], owner: Submission) -> None:
        boxes = argument.parts or (argument.box,)
        (base, *others) = (_array_of(trace, argument, one, box) for one, box in zip(memories, boxes, strict=True))
        label = argument.buffer.label
        parts = tuple(ViewPart(other, box, label) for other, box in zip(others, boxes[1:], strict=True))
        super().__init__(
            base, boxes[0], argument.box, argument.declared, argument.writable, argument.buffer, owner, parts
        )
        self._trace = trace

    def __setitem__(self, index: Any, value: Any) -> None:
        use = f"{self._owner.describe()} assigns"
        where = f"to {self._buffer.label} at {show(index)}"
        if not self._writable:
            raise ReadOnlyAccess(
                f"{self._owner.describe()} writes through its read access to {self._buffer.label}, at {show(index)}. "
                f"Declare the access as read_write, or as write if the kernel overwrites all of the mapped region."
            )
        target: Any = self[index]
        if target.is_same(value):
            return
        plain = value.parameter.value if isinstance(value, SymbolicScalar) else value
        if not can_take(target.dtype, plain, checks_values=False):
            refuse_value(target.dtype, plain, f"{use} {describe_value(plain)} {where}")
        target.assign(value)

    def _empty(self, local: list[Any]) -> Any:
        extents = [len(range(item.start, item.stop, item.step)) for item in local if isinstance(item, slice)]
        return full(self._trace, (*extents, *self._buffer.dtype.shape), 0, self.dtype)


@shown_as("Chunk")
class SymbolicChunk(Chunk):
    """The real chunk in a function that is traced."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace, box: Box, global_box: Box) -> None:
        self.box = box
        self.global_box = global_box
        self._trace = trace

    @property
    def xp(self) -> Any:
        """NumPy, but new arrays are symbolic."""
        return SymbolicModule(self._trace)

    @property
    def device(self) -> Any:  # type: ignore[override]
        """Refused.

        Raises:
            UsageError: Always: devices share one compiled kernel.
        """
        raise refusal(f"A fused kernel has no chunk.device {at_line()}: all devices run the same kernel.")

    @property
    def stream(self) -> NoReturn:
        """Refused.

        Raises:
            UsageError: Always: the runtime launches the kernel.
        """
        raise refusal(f"A fused kernel has no chunk.stream {at_line()}: the runtime launches the kernel.")

    def index(self, dim: int, box: Box | None = None) -> SymbolicArray:
        """The coordinate of each item of a box in one dimension, as int64; by default of the chunk's box.

        Raises:
            UsageError: If there is no such dimension.
        """
        whole = self.box if box is None else box
        check_dimension(whole, dim)
        self._trace.count()
        node = ItemIndex(np.dtype(np.int64), whole.shape, Affine(dim, 1, whole.min[dim]))
        return SymbolicArray.of(self._trace, node)

    def __repr__(self) -> str:
        return f"<chunk {self.box} of {self.global_box}>"


def call(function: Callable[..., Any], box: Box, global_box: Box, arguments: Sequence[Any], owner: Submission) -> Trace:
    """The statements of `function(chunk, *arguments)`.

    Args:
        function: As a program writes it, for arrays of NumPy.
        box: The chunk.
        global_box: The whole index space.
        arguments: Accesses as `AccessArgument`, and reductions; everything else is a plain value.
        owner: The task, in messages.

    Raises:
        CelerityError: As from a function that is not fused, and for what a fused kernel does not take.
        NotTakenError: For what is not fused yet.
    """
    trace = Trace()
    symbolic: list[Any] = []
    takes_numbers = asks_for_types(function)
    for position, argument in enumerate(arguments):
        if isinstance(argument, AccessArgument):
            memories = [_memory_of(argument) for _ in argument.parts or (argument.box,)]
            trace.memories.update(dict.fromkeys(memories, position))
            symbolic.append(SymbolicView(trace, argument, memories, owner))
        elif isinstance(argument, ReductionPort):
            symbolic.append(SymbolicReducer(trace, position, argument, owner))
        elif type(argument) is np.ndarray and not takes_numbers:
            symbolic.append(table_of(trace, position, argument))
        elif is_parameter(argument) and not takes_numbers:
            symbolic.append(SymbolicScalar(Parameter(None, (position,), argument), trace.needed))
        else:
            trace.needed.add(position)
            symbolic.append(argument)
    TRACED.make = functools.partial(random_array, trace)
    try:
        returned = trace_call(owner.describe(), function, SymbolicChunk(trace, box, global_box), *symbolic)
        for one in symbolic:
            if isinstance(one, SymbolicReducer):
                one.finish()
    except BaseException:
        forget(owner)
        raise
    finally:
        TRACED.make = None
        trace.close()
    refuse_hidden(owner)
    if isinstance(returned, SymbolicScalar) or (isinstance(returned, SymbolicArray) and returned.is_new):
        raise UsageError(
            f"{owner.describe()} returns an array or number, which nobody gets. A kernel gives its results by "
            f"assigning to its views, view[chunk.box] = value, or by combine(value) of a reduction."
        )
    return trace


def is_parameter(argument: Any) -> bool:
    """Whether a plain argument may be a parameter of the launch."""
    return isinstance(argument, int | float | complex | np.number) and not isinstance(argument, bool)


def _array_of(trace: Trace, argument: AccessArgument, memory: Memory, box: Box) -> Any:
    """The elements of a box of a buffer."""
    origin = (*box.min, *(0 for _ in argument.buffer.dtype.shape))
    positions = tuple(Affine(dim, 1, low) for dim, low in enumerate(origin))
    storage = BufferStorage(trace, memory, argument.writable)
    return SymbolicArray(trace, storage, positions, (*box.shape, *argument.buffer.dtype.shape))


def _memory_of(argument: AccessArgument) -> Memory:
    buffer = argument.buffer
    dtype = buffer.dtype.base
    if dtype.char not in "?bhilqBHILQefdFD":
        raise NotTakenError(f"The fused form of buffers of {dtype}, as {buffer.label}, is not made yet.")
    return Memory(buffer, dtype, buffer.box.ndim + len(buffer.dtype.shape), buffer.box.ndim, buffer.label)
