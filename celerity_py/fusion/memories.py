# SPDX-License-Identifier: MIT
"""The memories of a kernel: the buffers behind its accesses, and scratch."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from celerity_py.fusion.coordinates import Box, Positions, Shape
from celerity_py.fusion.scalars import SCALAR_BYTES, Parameter, bytes_of_array

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """What a kernel loads from and stores to. A launch gives the address of the element at the origin, and strides.

    Coordinates are global: those of the buffer, then those of an element. Of scratch, those of the items that fill it.
    """

    #: Memories of equal keys are the same bytes, such as two accesses of one buffer.
    key: Hashable
    dtype: np.dtype[Any]
    ndim: int
    #: So many of the dimensions are those of a buffer, which is divided among chunks; the others are those of elements.
    num_divided: int
    #: In messages.
    label: str


@dataclass(frozen=True, eq=False, slots=True)
class Scratch(Memory):
    """Memory that lasts as long as the kernel runs, in C order. Whoever launches it allocates it."""

    #: The first element, and the extents.
    origin: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True, eq=False, slots=True)
class Table(Memory):
    """An array among the arguments, in C order among the scalars of a launch."""

    strides: tuple[int, ...]
    num_bytes: int
    #: Gives the bytes of the elements, `num_bytes` of them.
    parameter: Parameter

    @classmethod
    def of(cls, position: int, dtype: np.dtype[Any], shape: Shape, argument: Parameter) -> Table:
        """The table of an argument."""
        strides = tuple(dtype.itemsize * math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
        size = -(-dtype.itemsize * math.prod(shape) // SCALAR_BYTES) * SCALAR_BYTES
        value = Parameter(lambda array: bytes_of_array(array, size), (argument,), None)
        label = f"argument {position + 1}"
        return cls(("argument", position), dtype, len(shape), 0, label, strides, size, value)


#: Per dimension the lowest and the highest element, and the step between elements.
Region: TypeAlias = tuple[tuple[int, int, int], ...]


def region_of(positions: Positions, box: Box) -> Region:
    """The elements at the items of a box."""
    return tuple((*position.bounds(box), 1 if position.limits else abs(position.step) or 1) for position in positions)


def common_region(first: Region, second: Region) -> Region:
    """At least the elements of both; with a lowest element above the highest one if there are none."""
    pairs = zip(first, second, strict=True)
    return tuple(
        (low, min(high, other_high), step) if low >= other_low else (other_low, min(high, other_high), other_step)
        for (low, high, step), (other_low, other_high, other_step) in pairs
    )


def overlap(first: Region, second: Region) -> bool:
    """Whether two regions of one memory may have an element in common; regions in turns, as red and black, do not."""
    for (low, high, step), (other_low, other_high, other_step) in zip(first, second, strict=True):
        if low > other_high or other_low > high:
            return False
        if low != high and other_low != other_high:
            common = math.gcd(step, other_step)
        else:
            common = other_step if low == high else step
        if (low - other_low) % common:
            return False
    return True
