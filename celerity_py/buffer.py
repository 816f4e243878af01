# SPDX-License-Identifier: MIT
"""Virtual arrays, whose parts the runtime keeps in the memories that need them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from os import PathLike
from types import FrameType, GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, SupportsIndex, TypeAlias, overload
from weakref import ref

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box, RangeMapper
from celerity_py.access import all as all_elements
from celerity_py.comparison.mapper_identity import IDENTITIES
from celerity_py.formats.choice import array_of
from celerity_py.recovery import Recoverable
from celerity_py.runtime import lifecycle
from celerity_py.runtime.initial_contents import exchange_boxes, take_array, take_parts
from celerity_py.scheduler.errors import ArgumentTypeError, ClosedQueue, UsageError
from celerity_py.vocabulary.accesses import (
    READ,
    READ_WRITE,
    WRITE,
    Access,
    CustomAccess,
    Mapper,
    Port,
    check_mapper,
    new_access,
)
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.buffer_shapes import record_of
from celerity_py.vocabulary.integers import to_flag
from celerity_py.vocabulary.refused_operators import StandsForArray
from celerity_py.vocabulary.static_types import Element, LocalParts, SupportsDLPack
from celerity_py.vocabulary.submissions import Site

if TYPE_CHECKING:
    from celerity_py.formats.stored_arrays import StoredArray
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.runtime.user_memory import UserArray


Extents: TypeAlias = "SupportsIndex | Sequence[int]"


class Buffer(Recoverable, StandsForArray, Generic[Element]):
    """A virtual array of 0 to 3 dimensions that kernels access through range mappers.

    Memory exists only for the boxes that tasks access. A buffer may go out of scope at any time: the runtime frees
    its memory after the last task that uses it, without a wait. Collective: every rank makes the same buffers in the
    same order. Any thread may drop the last reference.

    Type checkers know the type of the elements: `Buffer[np.float32]`, and its views and fences as well.

    Args:
        shape: Extents in elements, 0 to 3 of them; an int is one dimension. An extent of 0 makes an empty buffer.
        dtype: Any dtype of NumPy without Python objects, structured types included. The default is float32, while that
            of NumPy is float64.
        element: Extents of an element, such as (3, 3) for a field of matrices: dimensions that no split cuts and no
            range mapper maps. Arrays of the buffer have them behind those of the shape.
        name: For messages and timelines.

    Raises:
        ArgumentTypeError: If shape, dtype, element or name have another type.
        DimensionMismatch: If the shape has more than three extents.
        UsageError: If an extent is negative, there are 2**63 elements or more, an element has 2**31 bytes or more,
            or the dtype holds objects.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """

    __slots__ = ("__weakref__", "_modify", "_read", "_write", "blocks", "record")

    record: BufferRecord

    @overload
    def __init__(
        self: Buffer[np.float32], shape: Extents, *, element: Extents = (), name: str | None = None
    ) -> None: ...
    @overload
    def __init__(
        self,
        shape: Extents,
        dtype: type[Element] | np.dtype[Element],
        *,
        element: Extents = (),
        name: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Buffer[Any], shape: Extents, dtype: npt.DTypeLike, *, element: Extents = (), name: str | None = None
    ) -> None: ...
    def __init__(
        self,
        shape: Extents,
        dtype: npt.DTypeLike = np.float32,
        *,
        element: Extents = (),
        name: str | None = None,
    ) -> None:
        self._start(record_of(shape, dtype, element, name, sys._getframe(1)))

    if not TYPE_CHECKING:

        def __class_getitem__(cls, element: Any) -> _BufferType:
            return _BufferType(cls, element)

    @overload
    @classmethod
    def from_array(
        cls, array: npt.NDArray[Element], *, element: Extents = (), name: str | None = None, copy: bool = True
    ) -> Buffer[Element]: ...
    @overload
    @classmethod
    def from_array(
        cls,
        array: npt.ArrayLike | SupportsDLPack,
        *,
        element: Extents = (),
        name: str | None = None,
        copy: bool = True,
    ) -> Buffer[Any]: ...
    @classmethod
    def from_array(
        cls,
        array: npt.ArrayLike | SupportsDLPack,
        *,
        element: Extents = (),
        name: str | None = None,
        copy: bool = True,
    ) -> Buffer[Any]:
        """Make a buffer with initial contents. Collective: every rank passes the same full array.

        Args:
            array: The contents, with the shape and dtype of the buffer: of NumPy, or of a library that offers
                `__array__` or DLPack, such as torch and JAX. The contents of an array on a GPU of this rank stay there
                until a device reads them; those of other GPUs go to the host.
            element: As for `Buffer`; the last dimensions of the array must be equal to it.
            name: For messages and timelines.
            copy: True copies the array now. False borrows a C-contiguous array until the next `queue.wait()` returns;
                the array must not change before. An array that is not C-contiguous is copied in any case.

        Raises:
            UsageError: If the array has more than three dimensions before those of an element, or holds
                objects, or if its last dimensions are not those of an element.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
            ArgumentTypeError: If `array` is a masked array, or one that neither NumPy nor CuPy can take.
        """
        given = take_array(array, "Buffer.from_array() got", copy=to_flag(copy, "Buffer.from_array(copy=...)"))
        frame = sys._getframe(1)
        record = record_of(given.array.shape, given.array.dtype, element, name, frame, holds_element=True)
        return cls.__new__(cls)._start(record, [(record.box, given)])

    @overload
    @classmethod
    def from_function(
        cls,
        shape: Extents,
        dtype: type[Element] | np.dtype[Element],
        fn: Callable[[Box], npt.ArrayLike | SupportsDLPack],
        *,
        element: Extents = (),
        name: str | None = None,
    ) -> Buffer[Element]: ...
    @overload
    @classmethod
    def from_function(
        cls,
        shape: Extents,
        dtype: npt.DTypeLike,
        fn: Callable[[Box], npt.ArrayLike | SupportsDLPack],
        *,
        element: Extents = (),
        name: str | None = None,
    ) -> Buffer[Any]: ...
    @classmethod
    def from_function(
        cls,
        shape: Extents,
        dtype: npt.DTypeLike,
        fn: Callable[[Box], npt.ArrayLike | SupportsDLPack],
        *,
        element: Extents = (),
        name: str | None = None,
    ) -> Buffer[Any]:
        """Make a buffer whose initial contents a function computes box by box, for data that fits no single host.

        Collective. The runtime calls the function on a thread of its own, for the boxes that this rank needs.

        Args:
            shape: Extents in elements, 0 to 3 of them; an int is one dimension.
            dtype: The element type.
            fn: `fn(box)` returns the contents of a box in global coordinates, an array as `from_array` takes it, of
                `box.shape` and the dimensions of an element. It must return the same values on every rank.
            element: As for `Buffer`.
            name: For messages and timelines.

        Raises:
            ArgumentTypeError: If `fn` is not callable.
            UsageError: As for `Buffer`. An exception of `fn` is a failure, which later calls raise as `TaskFailed`.
        """
        if not callable(fn):
            raise ArgumentTypeError(
                f"Buffer.from_function() takes a shape, a dtype and then a callable fn(box) -> array, not {fn!r}."
            )
        record = record_of(shape, dtype, element, name, sys._getframe(1))
        record.initializer = fn
        return cls.__new__(cls)._start(record)

    @overload
    @classmethod
    def from_local(
        cls,
        shape: Extents,
        dtype: type[Element] | np.dtype[Element],
        parts: LocalParts,
        *,
        element: Extents = (),
        name: str | None = None,
        copy: bool = True,
    ) -> Buffer[Element]: ...
    @overload
    @classmethod
    def from_local(
        cls,
        shape: Extents,
        dtype: npt.DTypeLike,
        parts: LocalParts,
        *,
        element: Extents = (),
        name: str | None = None,
        copy: bool = True,
    ) -> Buffer[Any]: ...
    @classmethod
    def from_local(
        cls,
        shape: Extents,
        dtype: npt.DTypeLike,
        parts: LocalParts,
        *,
        element: Extents = (),
        name: str | None = None,
        copy: bool = True,
    ) -> Buffer[Any]:
        """Make a buffer whose initial contents the ranks hold together: each passes the boxes that it has. Collective.

        The ranks tell each other their boxes, and so wait for each other. The contents travel later, and only those
        that another rank reads. Elements outside of all boxes have no contents: the runtime warns of tasks that read
        them.

        Args:
            shape: Extents of the whole buffer in elements, 0 to 3 of them; an int is one dimension.
            dtype: The element type of the whole buffer.
            parts: Boxes in global coordinates with their contents, as a mapping or as pairs: arrays of the shapes of
                the boxes, as `from_array` takes them. Elements of two boxes of any ranks are distinct. A rank without
                contents passes an empty list.
            element: As for `Buffer`; arrays have its dimensions behind those of their boxes.
            name: For messages and timelines.
            copy: As for `from_array`. An array of another dtype is copied in any case.

        Raises:
            ArgumentTypeError: If `parts` or a box has another type, or an array is one that `from_array` refuses.
            DimensionMismatch: If a box has other dimensions than the buffer.
            UsageError: As for `Buffer`, or if a box leaves the buffer, an array has another shape than its box or does
                not convert to `dtype`, or boxes overlap. If boxes of two ranks overlap, all ranks raise.
            NestedUse: If called inside of a kernel, host task, mapper or callback.
            CelerityError: If an earlier task failed.
        """
        frame = sys._getframe(1)
        record = record_of(shape, dtype, element, name, frame)
        taken = take_parts(parts, record, copy=to_flag(copy, "Buffer.from_local(copy=...)"))
        held_by_ranks = exchange_boxes(lifecycle.current(), record, [box for box, _ in taken], frame)
        return cls.__new__(cls)._start(record, taken, held_by_ranks)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        array: str | None = None,
        *,
        element: Extents | None = None,
        name: str | None = None,
    ) -> Buffer[Any]:
        """Make a buffer with the contents of a file, of which each rank reads the boxes that it needs. Collective.

        Shape and dtype are read now, and the contents on a thread of the runtime, when a task needs them. The file must
        not change before.

        Args:
            path: A folder of Zarr (`.zarr` or no suffix), a file of HDF5 (`.h5`, `.hdf5`) or of NumPy (`.npy`), which
                all ranks see.
            array: The name of the array, if the file has several.
            element: As for `Buffer`: the last dimensions of the array. By default as `celerity.io.save` has noted it.
            name: For messages and timelines; by default that of the array.

        Raises:
            ArgumentTypeError: If an argument has another type.
            DimensionMismatch: If the array has more than three dimensions before those of an element.
            ResourceError: If the library of the format is not installed.
            UsageError: If there is no such file or array, or its type or last dimensions do not fit.
        """
        found = array_of(path, array, element)
        return cls._read_by(found.read, found.array, name or found.name or found.path.stem, sys._getframe(1))

    @classmethod
    def _read_by(
        cls, fn: Callable[[Box], npt.NDArray[Any]], array: StoredArray, name: str, frame: FrameType
    ) -> Buffer[Any]:
        record = record_of(array.shape, array.dtype, array.element, name, frame)
        record.initializer = fn
        return cls.__new__(cls)._start(record)

    def _start(
        self,
        record: BufferRecord,
        parts: Sequence[tuple[Box, UserArray]] = (),
        held_by_ranks: Sequence[Sequence[Box]] = (),
    ) -> Buffer[Any]:
        lifecycle.current().create_buffer(record, parts, held_by_ranks)
        self._read = Port(record, READ)
        self._write = Port(record, WRITE)
        self._modify = Port(record, READ_WRITE)
        record.handle = ref(self)
        self.record = record
        #: Of reductions into this buffer in a fixed order: by their number, an element per block of a kernel.
        self.blocks: dict[int, Buffer[Any]] | None = None
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents in elements."""
        return self.record.shape

    @property
    def dtype(self) -> np.dtype[Element]:
        """The type of an element, or of its numbers if the buffer has `element=`."""
        return self.record.dtype.base

    @property
    def element(self) -> tuple[int, ...]:
        """Extents of an element, which arrays have behind those of the buffer; () for single values."""
        return self.record.dtype.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions, 0 to 3."""
        return len(self.record.shape)

    @property
    def name(self) -> str:
        """The name given by the user, or an empty string."""
        return self.record.name

    def read(self, mapper: Mapper | None = None) -> Access:
        """Declare that a task reads the mapped region. Its view is read-only.

        Args:
            mapper: A range mapper, see `celerity_py.access`; it may be left out for 0-dimensional buffers only.

        Returns:
            An argument for the submit of a task.

        Raises:
            UsageError: If a mapper is missing, or it is a value that cannot be one.
        """
        if mapper.__class__ is RangeMapper:
            return new_access(self, mapper, self._read)
        return self._access(mapper, self._read)

    def write(self, mapper: Mapper | None = None) -> Access:
        """Declare that a task overwrites all of the mapped region. The old contents are neither transferred nor kept.

        Args:
            mapper: A range mapper, see `celerity_py.access`; it may be left out for 0-dimensional buffers only.

        Returns:
            An argument for the submit of a task.

        Raises:
            UsageError: If a mapper is missing, or it is a value that cannot be one.
        """
        if mapper.__class__ is RangeMapper:
            return new_access(self, mapper, self._write)
        return self._access(mapper, self._write)

    def read_write(self, mapper: Mapper | None = None) -> Access:
        """Declare that a task reads and writes the mapped region, or writes a part of it.

        Args:
            mapper: A range mapper, see `celerity_py.access`; it may be left out for 0-dimensional buffers only.

        Returns:
            An argument for the submit of a task.

        Raises:
            UsageError: If a mapper is missing, or it is a value that cannot be one.
        """
        if mapper.__class__ is RangeMapper:
            return new_access(self, mapper, self._modify)
        return self._access(mapper, self._modify)

    def _access(self, mapper: Any, port: Port) -> Access:
        """The paths that are not hot: no mapper, or a callable."""
        record = self.record
        if mapper is None:
            if record.shape:
                raise UsageError(
                    f"The access to {record.label} needs a range mapper, such as access.one_to_one(): "
                    f"it may be left out for 0-dimensional buffers only, and this one has shape {record.shape}."
                )
            return Access(self, all_elements(), port)
        check_mapper(mapper, record, port.mode)
        return CustomAccess(self, mapper, port)

    def _explain(self, use: str) -> str:
        record = self.record
        name = self.name or "buffer"
        if threading.get_ident() in record.runtime.inside:
            return (
                f"{record.label} is {use} in a task or mapper that has captured the buffer, whose contents it does not "
                f"see that way. Pass {name}.read(mapper), .write(mapper) or .read_write(mapper) as an argument of the "
                f"task, and index the view that it gets. A mapper may use {name}.shape."
            )
        return (
            f"{record.label} is {use}, but its contents lie on the devices. queue.fence({name}).result() gives a copy; "
            f"a kernel that gets {name}.read(mapper) as an argument indexes the view in its place."
        )

    def __repr__(self) -> str:
        return f"<Buffer {self.record.label}, shape {self.shape}, {self.record.type_name}>"

    def __del__(self) -> None:
        # Any thread may drop the last reference. This only enqueues, and influences no id.
        record = getattr(self, "record", None)
        if record is not None:
            record.runtime.destroy_buffer(record)


def _identity_of(buffer: Buffer) -> int:
    """As mappers mean it: they use its shape, and no key may keep a buffer alive."""
    return buffer.record.id


IDENTITIES[Buffer] = _identity_of


class Owned(Protocol):
    """A thing of a runtime: a buffer's record, or a host object."""

    runtime: Any
    site: Site

    @property
    def label(self) -> str:
        """The thing in messages."""


class _BufferType(GenericAlias):
    """`Buffer[np.float32]`, for annotations. A buffer has the dtype that its call names."""

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        (element,) = self.__args__
        shown = getattr(element, "__name__", element)
        raise ArgumentTypeError(
            f"Buffer[{shown}](...) makes no buffer: Buffer[{shown}] is a type for annotations. The dtype is the second "
            f"argument: write Buffer(shape, {shown})."
        )


def check_alive(record: Owned, runtime: Runtime) -> None:
    """Refuse buffers and host objects of a runtime that has ended.

    Raises:
        ClosedQueue: If it has.
    """
    if record.runtime is runtime:
        return
    state = record.runtime.state
    remedy = "Keep a queue open for as long as you use it, or make it again."
    if state.failure is not None:
        remedy = (
            "Its contents are lost, since a later queue or buffer has been made: make it again (in a notebook: run the "
            "cell that makes it). After a failure, call its recover() before that."
        )
    raise ClosedQueue(
        f"{record.label} (made at {record.site}) belongs to a runtime that {state.describe_end()}. {remedy}"
    )


def make_buffer(shape: tuple[int, ...], dtype: npt.DTypeLike, name: str, frame: FrameType) -> Buffer:
    """A buffer that the runtime needs for a call from this frame; `dtype` is that of a `BufferRecord`."""
    kind = np.dtype(dtype)
    return Buffer.__new__(Buffer)._start(record_of(shape, kind.base, kind.shape, name, frame))
