# SPDX-License-Identifier: MIT
"""Views: arrays of a kernel that alias an allocation, indexed in the coordinates of the whole buffer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import product
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from celerity_py._native import Box, HolderRecord, Region
from celerity_py.calls import padding
from celerity_py.calls.indices import no_integer, shifted
from celerity_py.scheduler.errors import (
    ArgumentTypeError,
    DimensionMismatch,
    ReadOnlyAccess,
    UnsupportedIndex,
    UsageError,
)
from celerity_py.vocabulary.foreign_arrays import is_foreign, to_numpy
from celerity_py.vocabulary.hidden_mistakes import out_of_bounds
from celerity_py.vocabulary.integers import to_int
from celerity_py.vocabulary.notation import show, widen_mapper
from celerity_py.vocabulary.refused_operators import ARRAY_ATTRIBUTES, refuse_operators
from celerity_py.vocabulary.static_types import Element, PaddingMode
from celerity_py.vocabulary.type_rules import can_hold, can_take, describe_value, is_masked, refuse_masked, refuse_value

if TYPE_CHECKING:
    import numpy.typing as npt

    from celerity_py.vocabulary.buffer_records import BufferRecord
    from celerity_py.vocabulary.submissions import Submission

_Item: TypeAlias = "slice | SupportsIndex | EllipsisType"
Index: TypeAlias = "Box | _Item | tuple[_Item, ...]"

_MAX_SELF_ASSIGNMENT = 4096  # elements; a smaller array is copied onto itself faster than compared


class ViewPart(HolderRecord):
    """Elements of a periodic access that lie in an allocation of their own, besides those in the array of the view."""

    __slots__ = ("allocated", "label")

    def __init__(self, base: np.ndarray[Any, Any], allocated: Box, label: str) -> None:
        self._base = base
        #: Where the array lies in the buffer.
        self.allocated = allocated
        #: The buffer, in messages.
        self.label = label


class View(HolderRecord, Generic[Element]):
    """The part of a buffer that a kernel or host task declared to access, indexed in global coordinates.

    `view[index]` takes a `Box`, or slices, integers and `...` as NumPy does. It returns an array that aliases the
    allocation: of NumPy on CPU devices and in host tasks, of CuPy on GPUs. Open slices and `...` mean the accessed box
    `view.box`. Functions of NumPy and consumers of DLPack take a view for `view[...]`. View and arrays are valid while
    the function runs, on the thread that runs it. With `Buffer(element=)`, arrays have the dimensions of an element
    behind those of the index.

    Attributes:
        box: The bounding box of the access in the buffer, in global coordinates, where `array` lies.

    Raises:
        OutOfBoundsAccess: If an index lies outside of the declared region, or is negative.
        ReadOnlyAccess: If a read access is assigned to.
        DimensionMismatch: If an index is a box of other dimensions.
        UnsupportedIndex: If an index is no box, slice with a positive step, integer or `...`.
        UsageError: If the buffer cannot hold an assigned value: neither 0.5 nor a complex number goes into integers,
            nor 300 into int8. Of an array, NumPy's "same_kind" rule for its dtype decides; with `CHECK`, also its
            values.
    """

    __slots__ = ("_allocated", "_buffer", "_declared", "_owner", "_parts", "_writable", "box")

    def __init__(  # noqa: PLR0917 - one is made per access of every kernel call, so no keywords
        self,
        base: npt.NDArray[Element],
        allocated: Box,
        box: Box,
        declared: Region | None,
        writable: bool,
        buffer: BufferRecord,
        owner: Submission,
        parts: tuple[ViewPart, ...] = (),
    ) -> None:
        """Made by the runtime: `base` is the array over `allocated`; `declared` is None where it is just `box`.

        A view of a periodic access may have further `parts`.
        """
        self._base = base
        self._allocated = allocated
        self._declared = declared
        self._writable = writable
        self._buffer = buffer
        self._owner = owner
        self._parts = parts
        self._array: npt.NDArray[Element] | None = None
        self.box = box

    @property
    def array(self) -> npt.NDArray[Element]:
        """The bounding box of the access as one array; elements outside of the declared region have any value.

        Raises:
            UnsupportedIndex: If elements of a periodic access lie at opposite sides of the buffer.
        """
        array = self._array
        if array is None:
            if self._parts:
                raise UnsupportedIndex(
                    f"{self._owner.describe()} takes the array of its view of {self._buffer.label}, but the elements "
                    f"{show(self._declared or self.box)} lie at opposite sides of a periodic buffer, in separate "
                    f'memory. Use view.padded(box, halo, mode="wrap"), or index the boxes one by one.'
                )
            slices = self.box.relative_slices(self._allocated)
            array = self._array = self._base[slices] if slices else self._base
        return array

    @array.setter
    def array(self, value: Any) -> None:
        if value is not self._array:  # view.array += 1 updates in place, and then assigns the array to itself
            raise UsageError(
                f"{self._owner.describe()} assigns {describe_value(value)} to view.array of {self._buffer.label}, "
                f"which stays the memory of the buffer. Assign to its elements: view[chunk.box] = value, or "
                f"view.array[...] = value."
            )

    @property
    def shape_box(self) -> Box:
        """The box of the whole buffer."""
        return self._buffer.box

    @property
    def dtype(self) -> np.dtype[Element]:
        """The type of the numbers, as `Buffer.dtype`."""
        return self._buffer.dtype.base

    @property
    def ndim(self) -> int:
        """The buffer's number of dimensions."""
        return len(self._buffer.box.min)

    def padded(
        self,
        box: Box,
        halo: SupportsIndex | Sequence[SupportsIndex],
        mode: PaddingMode | Sequence[PaddingMode] = "constant",
        value: Any = None,
    ) -> npt.NDArray[Element]:
        """A new array of `box` and a halo around it, with elements also where the halo leaves the buffer.

        The access must declare the elements of the buffer that the array takes, corners of the halo included.

        Args:
            box: In global coordinates. If it is empty, so is the array, without a halo.
            halo: The width on both sides of each dimension in elements: an integer, or one per dimension.
            mode: Outside of the buffer, "constant" gives `value`, "edge" repeats the nearest element of the buffer,
                and "wrap" continues at the opposite side. A mode for all dimensions, or one per dimension. Where
                several dimensions are outside, "constant" comes first.
            value: A single value that the buffer can hold, for "constant" only; by default 0.

        Raises:
            OutOfBoundsAccess: If the access does not declare an element that the array takes.
            DimensionMismatch: If `box` has other dimensions than the buffer.
            UnsupportedIndex: If `box` is no `Box`.
            UsageError: If `halo`, `mode` or `value` are none of the above.
        """
        use = f"{self._owner.describe()} pads {self._buffer.label} at {show(box)}"
        if box.__class__ is not Box:
            raise self._unsupported(box, "padded() takes the Box around which the halo lies, such as chunk.box.")
        if box.ndim != self.ndim:
            raise self._mismatch(box)
        modes = padding.modes_of(mode, self.ndim, use)
        grown = padding.grow(box, halo, use)
        parts = list(padding.sources(grown, self._buffer.box, modes))
        for _, source in parts:
            if not self._covers(source):
                declared = show(self._declared or self.box)
                where = f"The array takes {show(source)}, outside of the declared region {declared}."
                text = f"{use} with halo={halo!r} and mode={mode!r}. {where} {padding.remedy_of(modes)}"
                error = out_of_bounds(self._owner, text)
                raise error
        shape = (*grown.shape, *self._buffer.dtype.shape)
        result = np.empty_like(self._base, shape=shape, order="C")  # calls CuPy for its arrays
        if "constant" in (modes or (mode,)):
            result[...] = 0 if value is None else self._checked_padding(value, use)
        elif value is not None:
            raise UsageError(
                f'{use} with mode={mode!r} and value={value!r}. Only mode="constant" takes a value: leave one of them '
                f"out."
            )
        elif set(modes) == {"edge"} and hasattr(self._base, "repeat_edges") and not self._parts:  # a fused kernel
            low = [-corner for corner in self._allocated.min]
            result = self._base.repeat_edges(grown.shift(*low), self._buffer.box.shift(*low))
            parts = []
        for part, source in parts:
            result[part] = self[source]
        return result

    def _checked_padding(self, value: Any, use: str) -> Any:
        if np.ndim(value) > 0:
            raise UsageError(f"{use} with {describe_value(value)} as value. Pass a single value.")
        if not can_hold(self.dtype, value):
            refuse_value(self.dtype, value, f"{use} and assigns {describe_value(value)}")
        return value

    def __getitem__(self, index: Index) -> npt.NDArray[Element]:
        if index.__class__ is Box:
            try:
                is_inside = index in (self.box if self._declared is None else self._declared)
            except DimensionMismatch:
                raise self._mismatch(index) from None
            if not is_inside:
                self._refuse(index, show(index))
            base, allocated = self._memory_of(index, index) if self._parts else (self._base, self._allocated)
            slices = index.relative_slices(allocated)
            return base[slices] if slices else base
        return self._select(index)

    def __setitem__(self, index: Index, value: Any) -> None:
        if not self._writable:
            raise ReadOnlyAccess(
                f"{self._owner.describe()} writes through its read access to {self._buffer.label}, at {show(index)}. "
                f"Declare the access as read_write, or as write if the kernel overwrites all of the mapped region."
            )
        target = self[index]
        if _is_same_array(target, value):
            return  # view[box] += 1 updates in place, and then assigns the result to where it lies
        if value.__class__ is not target.__class__ and is_masked(value):
            refuse_masked(value, f"{self._owner.describe()} assigns to {self._buffer.label} at {show(index)}")
        dtype = target.dtype
        if getattr(value, "dtype", None) is not dtype and not can_take(dtype, value, self._buffer.checks_values):
            if is_foreign(value.__class__):  # without `__array__`
                self[index] = to_numpy(value, f"{self._owner.describe()} assigns to {self._buffer.label}")
                return
            what = f"{describe_value(value)} to {self._buffer.label} at {show(index)}"
            refuse_value(dtype, value, f"{self._owner.describe()} assigns {what}")
        try:
            target[...] = value
        except ValueError:
            self._refuse_shape(index, target.shape, value)
            raise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self[...]
        if not isinstance(array, np.ndarray):
            raise ArgumentTypeError(
                f"{self._owner.describe()} makes a NumPy array of the view of {self._buffer.label}, which lies on a "
                f"GPU. Compute with chunk.xp on view[chunk.box], or copy it: chunk.xp.asnumpy(view[chunk.box]) waits."
            )
        return np.array(array, dtype=dtype, copy=copy)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*_arrays_in(args), **_arrays_in(kwargs))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_arrays_in(args), **_arrays_in(kwargs))

    def __dlpack__(self, **options: Any) -> Any:
        array: Any = self[...]
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self[...].__dlpack_device__()

    def _refuse_operator(self, symbol: str) -> NoReturn:
        raise ArgumentTypeError(
            f"{self._owner.describe()} uses the view of {self._buffer.label} itself as an operand of {symbol}. Index "
            f"it first: view[chunk.box], or view[...] for all that the access covers, is an array."
        )

    def _explain_missing(self, name: str) -> str:
        if name == "combine":
            return (
                f"{self._owner.describe()} combines into the view of {self._buffer.label}, but only a reduction has "
                f"combine(). Pass celerity.reduction(buffer, operation) in place of this access."
            )
        if name not in ARRAY_ATTRIBUTES:
            return ""
        text = f"{self._owner.describe()} asks the view of {self._buffer.label} for .{name}, as if it were an array."
        if name in {"shape", "size"}:
            return f"{text} Write view.box.{name} for what the access covers, view.shape_box.{name} for the buffer."
        return f"{text} Index it first: view[chunk.box].{name}, or view[...].{name} for all that the access covers."

    def __repr__(self) -> str:
        mode = "writable" if self._writable else "read-only"
        return f"<{mode} view of {self._buffer.label}, {show(self._declared or self.box)}>"

    def _covers(self, box: Box) -> bool:
        declared = self._declared
        return box in (self.box if declared is None else declared)

    def take_parts(self) -> tuple[ViewPart, ...]:
        """The further parts, which the view has no longer then."""
        parts, self._parts = self._parts, ()
        return parts

    def _memory_of(self, box: Box, index: Any) -> tuple[np.ndarray[Any, Any], Box]:
        """The array that has the elements of a box, and where it lies."""
        if box in self._allocated:
            return self._base, self._allocated
        for part in self._parts:
            if box in part.allocated:
                return part._base, part.allocated
        raise self._unsupported(index, "These elements lie at opposite sides of a periodic buffer, in separate memory.")

    def _select(self, index: Any) -> np.ndarray[Any, Any]:
        origin = self._allocated.min
        low: list[int] = []
        high: list[int] = []
        local: list[Any] = []
        stepped: list[tuple[int, range]] = []
        for dim, item in enumerate(self._expand(index)):
            if isinstance(item, slice):
                elements = self._range_of(item, dim, index)
                first = elements.start
                end = elements[-1] + 1 if elements else first
                if elements.step > 1:
                    stepped.append((dim, elements))
                local.append(slice(first - origin[dim], end - origin[dim], elements.step))
            else:
                first = self._position_of(item, dim, index)
                end = first + 1
                local.append(first - origin[dim])
            low.append(first)
            high.append(end)
        if any(a == b for a, b in zip(low, high, strict=True)):
            # No element, so none outside; the other extents are as the index says.
            return self._empty(local)
        span = Box(low, high)
        if not self._covers(span) and not self._covers_stepped(low, high, stepped):
            self._refuse(Box(low, high), show(index))
        base: np.ndarray[Any, Any] = self._base
        if self._parts:
            base, allocated = self._memory_of(span, index)
            shifts = [a - b for a, b in zip(origin, allocated.min, strict=True)]
            local = [shifted(item, shift) for item, shift in zip(local, shifts, strict=True)]
        local.append(...)  # so that integers alone give a 0-d array and no scalar
        result: np.ndarray[Any, Any] = base[tuple(local)]
        return result

    def _expand(self, index: Any) -> tuple[Any, ...]:
        """One item per dimension."""
        items = index if isinstance(index, tuple) else (index,)
        ndim = self.ndim
        ellipses = sum(item is ... for item in items)
        given = len(items) - ellipses
        if ellipses > 1:
            raise self._unsupported(index, "More than one '...' is ambiguous.")
        if given > ndim:
            why = f"The buffer has {ndim} dimension(s), the index has {given}."
            if self._buffer.dtype.shape:
                why += " Index the dimensions of an element in the array, as in view[chunk.box][..., 0]."
            raise self._unsupported(index, why)
        fill = (slice(None),) * (ndim - given)
        if not ellipses:
            return (*items, *fill)
        where = next(position for position, item in enumerate(items) if item is ...)
        return (*items[:where], *fill, *items[where + 1 :])

    def _range_of(self, item: slice, dim: int, index: Any) -> range:
        box = self.box
        try:
            start = box.min[dim] if item.start is None else to_int(item.start)
            stop = box.max[dim] if item.stop is None else to_int(item.stop)
            step = 1 if item.step is None else to_int(item.step)
        except TypeError:
            raise self._unsupported(index, "Bounds of slices must be integers.") from None
        if step < 1:
            raise self._unsupported(index, f"Slices need a positive step, not {step}.")
        if start < 0 or stop < 0:
            self._refuse_negative(index)
        return range(start, max(start, stop), step)

    def _position_of(self, item: Any, dim: int, index: Any) -> int:
        if item.__class__ is bool:
            raise self._unsupported(index, "Fancy indices go through view.array, whose origin is view.box.min.")
        try:
            position = operator.index(item)
        except TypeError:
            raise self._unsupported(index, no_integer(item)) from None
        if position < 0:
            self._refuse_negative(index)
        return position

    def _covers_stepped(self, low: list[int], high: list[int], stepped: list[tuple[int, range]]) -> bool:
        """Whether the elements in between the steps are all that lies outside."""
        if self._declared is None or not stepped:
            return False
        for positions in product(*(elements for _, elements in stepped)):
            for (dim, _), position in zip(stepped, positions, strict=True):
                low[dim], high[dim] = position, position + 1
            if not self._covers(Box(low, high)):
                return False
        return True

    def _empty(self, local: list[Any]) -> np.ndarray[Any, Any]:
        shape = tuple(len(range(item.start, item.stop, item.step)) for item in local if isinstance(item, slice))
        return self._base.reshape(-1)[:0].reshape((*shape, *self._buffer.dtype.shape))

    def _refuse(self, box: Box, shown: str) -> None:
        if not box:
            return
        whole = self._buffer.box
        if self._declared is not None and box in self.box:
            remedy = "The index covers elements between the boxes of that region, too: index these boxes one by one"
        elif box in whole:
            last = [end - 1 for end in box.max]
            remedy = widen_mapper(box.min, last, self.box, "add view.box.min, or index view.array")
            remedy = f"{remedy}, or intersect the index with that region"
        elif self._parts:
            remedy = 'An index does not continue at the opposite side: take view.padded(box, halo, mode="wrap")'
        else:  # the result was clamped: a wider mapper would not help
            remedy = "Nothing lies outside of the buffer, to which results of mappers are clamped: intersect the index"
            remedy += " with view.shape_box"
        raise out_of_bounds(self._owner, f"{self._outside(shown)}. {remedy} (the whole buffer is {show(whole)}).")

    def _mismatch(self, box: Box) -> DimensionMismatch:
        text = (
            f"{self._owner.describe()} indexes {self._buffer.label} at {show(box)}, which has {box.ndim} dimension(s), "
            f"but the buffer {show(self._buffer.box)} has {self.ndim}."
        )
        if box.ndim == 0:
            text += " A task that runs once has a part or chunk without dimensions: write"
        else:
            text += f" Index it with a box, or with slices, of {self.ndim} dimension(s), or write"
        return DimensionMismatch(f"{text} view[...] for all of the access, {show(self._declared or self.box)}.")

    def _refuse_shape(self, index: Any, shape: tuple[int, ...], value: Any) -> None:
        """Raise if NumPy cannot broadcast the value to the shape of the elements at the index."""
        given = np.shape(value)
        further = max(len(given) - len(shape), 0)
        pairs = zip(reversed(given), reversed(shape), strict=False)
        if all(extent == 1 for extent in given[:further]) and all(a in {1, b} for a, b in pairs):
            return
        whole = (*self._buffer.box.shape, *self._buffer.dtype.shape)
        remedy = "Assign an array of that shape, or one that NumPy broadcasts to it."
        if given == whole:
            remedy = "Of an array of the shape of the buffer take the part of the chunk: value[chunk.box.slices]."
        raise UsageError(
            f"{self._owner.describe()} assigns {describe_value(value)} to {self._buffer.label} at {show(index)}, where "
            f"the elements have the shape {shape}. {remedy}"
        )

    def _refuse_negative(self, index: Any) -> None:
        raise out_of_bounds(
            self._owner,
            f"{self._outside(show(index))}: indices are global coordinates, so negative ones do not count from the end "
            f"(the whole buffer is {show(self._buffer.box)}).",
        )

    def _outside(self, shown: str) -> str:
        declared = self._declared or self.box
        region = show(declared) if declared else "for this chunk, which is empty after clamping to the buffer"
        return (
            f"{self._owner.describe()} indexes {self._buffer.label} at {shown}, outside of its declared region {region}"
        )

    def _unsupported(self, index: Any, why: str) -> UnsupportedIndex:
        return UnsupportedIndex(
            f"{self._owner.describe()} indexes {self._buffer.label} with {show(index)}. {why} "
            f"A view takes a Box, slices with positive steps, integers and '...'."
        )


refuse_operators(View, View._refuse_operator, equality=True)


def _arrays_in(value: Any) -> Any:
    """The arguments of a function of NumPy, with arrays in the place of views."""
    if isinstance(value, View):
        return value[...]
    if value.__class__ is tuple or value.__class__ is list:
        return value.__class__(map(_arrays_in, value))
    if value.__class__ is dict:
        return {name: _arrays_in(item) for name, item in value.items()}
    return value


def _is_same_array(target: Any, value: Any) -> bool:
    return (
        value.__class__ is target.__class__
        and target.size > _MAX_SELF_ASSIGNMENT
        and value.shape == target.shape
        and value.strides == target.strides
        and value.dtype == target.dtype
        and address_of(value) == address_of(target)
    )


def address_of(array: Any) -> int:
    """Where the memory of an array of NumPy or CuPy begins."""
    interface = getattr(array, "__array_interface__", None)  # CuPy's other interface would synchronise
    return int(array.data.ptr if interface is None else interface["data"][0])
