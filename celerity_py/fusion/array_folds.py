# SPDX-License-Identifier: MIT
"""Reductions of symbolic arrays, as `sum` and `argmax`: over all elements by a fold, over few of them one by one."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from celerity_py.fusion import operations
from celerity_py.fusion.coordinates import Affine, constant
from celerity_py.fusion.folds import fold, fold_rows, identity_of, working_dtype
from celerity_py.fusion.mistakes import NotTakenError, at_line, refusal
from celerity_py.fusion.nodes import Compute, ItemIndex, Literal, Node, broadcast_to, converted

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A `SymbolicArray`, which stands on this module.
SymbolicArray: TypeAlias = Any
#: Additions of so many elements stand in the text.
MAX_UNROLLED: Final = 64
#: Chunks of any size share the text of a fold over all elements. A few of them are those of an element.
_MAX_UNROLLED_WHOLE: Final = 9
_INT64: Final = np.dtype(np.int64)
_BOOL: Final = np.dtype(bool)
_TRUTHS: Final = frozenset((np.logical_or, np.logical_and))
#: By the ufunc that `numpy.ufunc.reduce` belongs to.
_TAKEN: Final[dict[Any, str]] = {
    np.add: "sum",
    np.multiply: "prod",
    np.minimum: "min",
    np.maximum: "max",
    np.logical_or: "any",
    np.logical_and: "all",
}


def reduce_array(
    array: SymbolicArray,
    ufunc: np.ufunc,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    **options: Any,
) -> SymbolicArray:
    """`ufunc.reduce(array, axis, dtype, keepdims=keepdims)`.

    Raises:
        UsageError: If there are no elements, and the operation has no value of nothing.
        NotTakenError: For what is not fused yet.
    """
    trace, name = array.trace, _TAKEN.get(ufunc)
    if name is None or any(value is not None for value in options.values()):
        others = sorted(key for key, value in options.items() if value is not None)
        raise NotTakenError(f"numpy.{ufunc.__name__}.reduce with {others} {at_line()} is not fused yet.")
    trace.count()
    axes = _axes_of(array, axis)
    count = math.prod(array.shape[one] for one in axes)
    if count == 0 and ufunc in {np.minimum, np.maximum}:
        raise refusal(
            f"An array of the shape {array.shape} has no {name}imum {at_line()}. Call it only if the box is not empty."
        )
    kind = ufunc.reduce(np.ones(1, array.dtype), dtype=dtype).dtype
    if kind.kind == "c" and ufunc in {np.minimum, np.maximum}:
        raise NotTakenError(f"The {name}imum of complex numbers {at_line()} is not fused yet.")
    given = _BOOL if ufunc in _TRUTHS else kind
    parts = array if array.dtype == given else array.astype(given)
    is_whole = len(axes) == array.ndim
    if 0 < count <= (_MAX_UNROLLED_WHOLE if is_whole else MAX_UNROLLED):
        result = _unrolled(parts, ufunc, axes)
    else:
        result = _along(parts, ufunc, axes)
    return result[tuple(None if one in axes else slice(None) for one in range(array.ndim))] if keepdims else result


def mean(array: SymbolicArray, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> SymbolicArray:
    """As `numpy.mean`."""
    kind = np.mean(np.ones(1, array.dtype), dtype=dtype).dtype
    inner = np.dtype(np.float32) if kind.char == "e" else kind
    total = reduce_array(array, np.add, axis, inner, keepdims)
    count = math.prod(array.shape[one] for one in _axes_of(array, axis))
    divisor = converted(_number(count), inner)
    node = Compute(inner, total.shape, "divide", (total.node(), divisor))
    return type(array).of(array.trace, converted(node, kind))


def place_of_extremum(array: SymbolicArray, ufunc: np.ufunc, axis: Any = None) -> SymbolicArray:
    """As `numpy.argmin` and `numpy.argmax`: the lowest index of those that equal the extremum."""
    if axis is None or array.ndim <= 1:
        return type(array).of(array.trace, lowest_place(array, reduce_array(array, ufunc, axis)))
    along = operator.index(axis) % array.ndim
    extrema = reduce_array(array, ufunc, axis, keepdims=True)
    index = ItemIndex(_INT64, (array.shape[along], *(1,) * (array.ndim - along - 1)), Affine(0, 1, 0))
    places = type(array).of(array.trace, _places(array, extrema, broadcast_to(index, array.shape)))
    return reduce_array(places, np.minimum, axis)


def matmul(first: SymbolicArray, second: SymbolicArray) -> SymbolicArray:
    """As `numpy.matmul`; the order of additions may be another one.

    Raises:
        UsageError: If the shapes do not match.
    """
    shapes = [getattr(operand, "shape", ()) for operand in (first, second)]
    if () in shapes:
        raise refusal(f"A matrix product {at_line()} takes arrays with axes, and no numbers.")
    left = first if first.ndim > 1 else first[None, :]
    right = second if second.ndim > 1 else second[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise refusal(f"Arrays of the shapes {shapes[0]} and {shapes[1]} have no matrix product {at_line()}.")
    dtype = np.result_type(first.dtype, second.dtype)
    products = left[..., :, :, None] * right[..., None, :, :]
    result = reduce_array(products, np.logical_or if dtype == _BOOL else np.add, -2, None if dtype == _BOOL else dtype)
    if second.ndim == 1:
        result = result[..., 0]
    return result[..., 0] if first.ndim == 1 and second.ndim == 1 else result[..., 0, :] if first.ndim == 1 else result


def lowest_place(array: SymbolicArray, extremum: SymbolicArray) -> Node:
    """The lowest index in C order of an element that is equal to a number, or is NaN as the number is."""
    places = _places(array, extremum, _flat_index(array.shape))
    return fold(array.trace, "minimum", places) if places.shape else places


def _places(array: SymbolicArray, extrema: SymbolicArray, index: Node) -> Node:
    """The index of each element that is equal to its extremum, or is NaN as that is; of others the largest number."""
    node, number = array.node(), extrema.node()
    is_equal = _apply("equal", _BOOL, node, number)
    if array.dtype.kind == "f":
        are_nan = (_apply("not_equal", _BOOL, one, one) for one in (node, number))
        is_equal = _apply("logical_or", _BOOL, is_equal, _apply("logical_and", _BOOL, *are_nan))
    beyond = Literal(_INT64, (), identity_of("minimum", _INT64))
    return _apply("where", _INT64, is_equal, index, beyond)


def coordinates_of(place: Node, shape: Sequence[int], low: Sequence[int]) -> list[Node]:
    """The coordinates of an index in C order, in a box of a shape."""
    found: list[Node] = []
    for extent, first in zip(reversed(shape), reversed(low), strict=True):
        inside = _apply("remainder", _INT64, place, _number(extent))
        found.insert(0, _apply("add", _INT64, inside, _number(first)))
        place = _apply("floor_divide", _INT64, place, _number(extent))
    return found


def _axes_of(array: SymbolicArray, axis: Any) -> set[int]:
    if not array.shape and axis in {0, -1}:
        return set()  # as in NumPy
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    chosen = set()
    for one in axes:
        if not -array.ndim <= operator.index(one) < array.ndim:
            raise refusal(f"An array of {array.ndim} axes has no axis {one} {at_line()}.")
        chosen.add(operator.index(one) % array.ndim)
    return chosen


def _unrolled(parts: SymbolicArray, ufunc: np.ufunc, axes: set[int]) -> SymbolicArray:
    index = [range(extent) if one in axes else (slice(None),) for one, extent in enumerate(parts.shape)]
    items = [
        tuple(choices[place] for choices, place in zip(index, item, strict=True))
        for item in np.ndindex(*(len(choices) for choices in index))
    ]
    total: Any = functools.reduce(ufunc, (parts[item] for item in items[1:]), parts[items[0]].copy())
    if parts.dtype.kind in "fc" and ufunc in {np.add, np.multiply}:
        parts.trace.rounded.add(total.node())
    return total


def _along(parts: SymbolicArray, ufunc: np.ufunc, axes: set[int]) -> SymbolicArray:
    """By a fold. Elements behind the last of the axes have one each if they are few, so that folds share operands."""
    name, behind = operations.NAMES[ufunc], parts.shape[max(axes, default=-1) + 1 :]
    if behind and 0 < math.prod(behind) <= _MAX_UNROLLED_WHOLE:
        shape = tuple(extent for one, extent in enumerate(parts.shape) if one not in axes)
        result = type(parts).of(parts.trace, broadcast_to(Literal(parts.dtype, (), parts.dtype.type(0)), shape))
        for index in np.ndindex(*behind):
            parts.trace.count()
            result[(..., *index)] = _along(parts[(..., *index)], ufunc, axes)
        return result
    kept = [one for one in range(parts.ndim) if one not in axes]
    wide, shape = working_dtype(name, parts.dtype), tuple(parts.shape[one] for one in kept)
    ordered = parts.transpose([*kept, *sorted(axes)])
    found: Node = broadcast_to(Literal(wide, (), identity_of(name, wide)), shape)
    if parts.size:
        value = converted(ordered.node(), wide)
        found = (
            fold_rows(parts.trace, name, value, len(kept), is_contiguous=not behind)
            if kept
            else fold(parts.trace, name, value)
        )
    return type(parts).of(parts.trace, converted(found, parts.dtype)).as_number()


def _apply(name: str, dtype: np.dtype[Any], *operands: Node) -> Node:
    return Compute(dtype, operations.shape_of(operands), name, operands)


def _number(value: int) -> Node:
    """An integer that each launch gives, so that chunks of all sizes share a text."""
    return ItemIndex(_INT64, (), constant(value))


def _flat_index(shape: tuple[int, ...]) -> Node:
    """The index in C order of each element."""
    result: Node = _number(0)
    for axis, extent in enumerate(shape):
        along = ItemIndex(_INT64, (extent, *(1,) * (len(shape) - axis - 1)), Affine(0, 1, 0))
        result = _apply("add", _INT64, _apply("multiply", _INT64, result, _number(extent)), along)
    return broadcast_to(result, shape)
