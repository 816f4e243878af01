# SPDX-License-Identifier: MIT
"""The checked shape, dtype and name of a new buffer."""

from __future__ import annotations

import math
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from celerity_py.scheduler.errors import ArgumentTypeError, DimensionMismatch, UsageError
from celerity_py.vocabulary.buffer_records import BufferRecord
from celerity_py.vocabulary.integers import to_ints
from celerity_py.vocabulary.notation import is_half
from celerity_py.vocabulary.submissions import Site
from celerity_py.vocabulary.type_rules import to_dtype

_ELEMENTS_LIMIT: Final = 2**63  # areas are signed 64-bit numbers
_ELEMENT_LIMIT: Final = 2**31  # bytes; of NumPy


def record_of(
    shape: Any, dtype: npt.DTypeLike, element: Any, name: str | None, frame: FrameType, *, holds_element: bool = False
) -> BufferRecord:
    """The record of a buffer; with `holds_element`, the shape is that of an array that ends with an element."""
    kind = _dtype_of(dtype, element)
    if holds_element and kind.shape:
        shape = _shape_before(kind.shape, shape)
    extents = _shape_of(shape)
    if name is not None and not isinstance(name, str):
        raise ArgumentTypeError(f"The name of a buffer is a string, not {name!r}.")
    if any(map(is_half, name or "")):
        raise UsageError(f"The name of a buffer has half of a surrogate pair, which is no character: {name!r}.")
    return BufferRecord(extents, kind, name or "", Site(frame))


def _shape_of(shape: Any) -> tuple[int, ...]:
    try:
        extents = to_ints(shape)
    except TypeError:
        raise ArgumentTypeError(f"A buffer's shape is an int or a sequence of ints, not {shape!r}.") from None
    if len(extents) > 3:
        raise DimensionMismatch(
            f"A buffer has at most 3 dimensions, but the shape {extents} has {len(extents)}. If its last dimensions "
            f"are those of vectors or matrices, name them by element=, as in element={extents[3:]}."
        )
    if any(extent < 0 for extent in extents):
        raise UsageError(f"The extents of a buffer are 0 or more, but its shape is {extents}.")
    if math.prod(extents) >= _ELEMENTS_LIMIT:
        raise UsageError(f"A buffer has fewer than 2**63 elements, but its shape is {extents}.")
    return extents


def _shape_before(element: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a buffer from that of an array that has its elements behind it."""
    ndim = len(shape) - len(element)
    if ndim < 0 or shape[ndim:] != element:
        raise UsageError(
            f"Buffer.from_array() got element={element} and an array of shape {shape}, which does not end with these "
            f"extents. Pass an array of the shape of the buffer followed by that of an element."
        )
    return shape[:ndim]


def _dtype_of(dtype: npt.DTypeLike, element: Any) -> np.dtype[Any]:
    result = to_dtype(dtype, "A buffer")
    if result.shape:
        raise UsageError(
            f"A buffer's dtype is that of a single value, not {result!r}. Pass the dimensions of an element by "
            f"element=, as in Buffer(shape, {result.base}, element={result.shape})."
        )
    if result.hasobject:
        raise UsageError(
            f"A buffer cannot hold Python objects, but its dtype is {result}. "
            f"Use numbers, or a structured dtype of numbers."
        )
    if result.itemsize == 0:
        raise UsageError(f"A buffer's elements need a size, but its dtype is {result!r} with 0 bytes.")
    try:
        extents = to_ints(element)
    except TypeError:
        raise ArgumentTypeError(f"A buffer's element= is an int or a sequence of ints, not {element!r}.") from None
    if any(extent < 1 for extent in extents):
        raise UsageError(f"An element needs at least one number in every dimension, but element={extents}.")
    size = result.itemsize * math.prod(extents)
    if size >= _ELEMENT_LIMIT:
        raise UsageError(
            f"An element has fewer than 2**31 bytes, but element={extents} of {result} has {size}. Make the dimensions "
            f"that tasks divide a part of the shape."
        )
    return np.dtype((result, extents)) if extents else result
