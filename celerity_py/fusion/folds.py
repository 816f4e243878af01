# SPDX-License-Identifier: MIT
"""Folds: statements that combine elements of a value in a fixed order: all of them, or those of each row.

Of all elements, the parts of a pass combine some each, into one number in scratch memory. The parts follow from the
items of the pass, and not from the threads that compute them. A further function combines these numbers in their order.

A row has all elements with the same place on the axes that are kept. Its result is an element of scratch memory. The
order follows from the row alone, so that it is the same in chunks of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, constant, identity
from celerity_py.fusion.memories import Scratch
from celerity_py.fusion.mistakes import user_line
from celerity_py.fusion.nodes import Items, Load, Statement
from celerity_py.fusion.walks import all_loads

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Positions, Shape
    from celerity_py.fusion.nodes import Node
    from celerity_py.fusion.trace import Trace

#: The most parts of a pass, each with an element of scratch memory behind the result.
MAX_PARTS: Final = 1024
#: Of CPU devices. More parts than cores, so that a core that is late gets fewer of them.
MAX_CPU_PARTS: Final = 64
#: A part of this size takes longer than to wake a thread.
_LEAST_CPU_ITEMS: Final = 16 * 1024
#: Threads of a GPU for each row: those of a warp, or of a block for long rows.
_FEW_LANES: Final = 32
_MANY_LANES: Final = 256
_LONG_ROW: Final = 8 * 1024

#: The elements of empty arrays, by the operation and the dtype.
_IDENTITIES: Final[dict[str, Callable[[np.dtype[Any]], Any]]] = {
    "add": lambda dtype: dtype.type(0),
    "multiply": lambda dtype: dtype.type(1),
    "minimum": lambda dtype: _limit(dtype, 1),
    "maximum": lambda dtype: _limit(dtype, -1),
    "logical_or": lambda dtype: dtype.type(0),
    "logical_and": lambda dtype: dtype.type(1),
}
#: By the kind of the dtype. Sums and products are rounded once, to the dtype of the result.
_WIDE: Final = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


@dataclass(eq=False, slots=True)
class Fold(Statement):
    """The elements of the value, combined into the first element of its memory, or those of each row into one."""

    operation: str
    #: So many axes of the value are kept, the first ones. 0: all elements are combined.
    num_kept: int = 0
    #: Threads of a GPU that share a row, neighbours of which have neighbouring elements.
    lanes: int = 1

    def choices(self) -> tuple[Items, ...]:
        """The items that have an element each: those of the statements that store what the value loads."""
        if not self._choices:
            low, num_divided = _place_of(self.value)
            if self.num_kept:
                kept = tuple(position.offset for position in self.positions)
                low, num_divided = (*kept, *low[self.num_kept :]), len(low)
            box = tuple((first, first + extent) for first, extent in zip(low, self.shape, strict=True))
            coordinates = tuple(Affine(axis, 1, -first) for axis, first in enumerate(low))
            frame = ((1, 0),) * len(box)
            stored = identity(self.num_kept) or self.positions
            self._choices = (Items(frame, box, coordinates, stored, num_divided),)
        return self._choices

    @property
    def rounds(self) -> bool:
        """Whether the result depends on the order."""
        return self.operation in {"add", "multiply"} and self.value.dtype.kind in "fc"

    @property
    def identity(self) -> np.generic:
        """What changes no element."""
        return identity_of(self.operation, self.value.dtype)


def identity_of(operation: str, dtype: np.dtype[Any]) -> np.generic:
    """What changes no element."""
    found: np.generic = _IDENTITIES[operation](dtype)
    return found


def working_dtype(operation: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In which elements of a dtype are combined."""
    if operation in {"add", "multiply"}:
        return _WIDE.get(dtype.kind, dtype)
    return np.dtype(np.float32) if dtype.char == "e" else dtype


def fold(trace: Trace, operation: str, value: Node) -> Load:
    """Record a statement that combines all elements of a value, which has some, and give its result."""
    return _record(trace, (0,), (1 + MAX_PARTS,), (constant(0),), value, operation)


def fold_rows(trace: Trace, operation: str, value: Node, num_kept: int, *, is_contiguous: bool) -> Load:
    """Record a statement that combines the elements of each row of a value, which has some, and give the results.

    Args:
        trace: Of the call.
        operation: The name of a ufunc.
        value: The kept axes come first.
        num_kept: The number of these, at least 1.
        is_contiguous: Whether neighbours along the last axis mostly are neighbours in memory.
    """
    origin = _place_of(value)[0][:num_kept]
    positions = tuple(Affine(axis, 1, low) for axis, low in enumerate(origin))
    many = _MANY_LANES if value.shape[-1] >= _LONG_ROW else _FEW_LANES
    lanes = many if is_contiguous else 1
    return _record(trace, origin, value.shape[:num_kept], positions, value, operation, num_kept, lanes)


def _record(trace: Trace, origin: Shape, extents: Shape, positions: Positions, value: Node, *how: Any) -> Load:
    trace.require_open()
    number, ndim = sum(isinstance(one, Fold) for one in trace.statements), len(origin)
    scratch = Scratch(("fold", number), value.dtype, ndim, ndim, f"fold {number}", origin, extents)
    statement = Fold(scratch, positions, value, user_line(), *how)
    trace.statements.insert(_earliest_place(trace.statements, value), statement)
    shape = extents if statement.num_kept else ()
    return Load(value.dtype, shape, scratch, positions, statement)


def _earliest_place(statements: Sequence[Statement], value: Node) -> int:
    """Behind the fold before, so that one pass has both; or where the last element is stored that the value loads."""
    loaded = {load.memory.key for load in all_loads(value)}
    place = len(statements)
    while place and not isinstance(statements[place - 1], Fold):
        place -= 1
        if statements[place].memory.key in loaded:
            return len(statements)
    is_free = place > 0 and statements[place - 1].memory.key not in loaded
    return place if is_free else len(statements)


def cpu_parts_of(num_items: int, most: int = MAX_CPU_PARTS) -> int:
    """In how many parts CPU devices carry out a pass with folds: the same on any number of cores."""
    return max(1, min(MAX_CPU_PARTS, most, num_items // _LEAST_CPU_ITEMS))


def _limit(dtype: np.dtype[Any], sign: int) -> Any:
    """The largest number of a dtype, or with -1 the lowest one."""
    if dtype.kind == "f":
        return dtype.type(sign * np.inf)
    if dtype.kind == "b":
        return dtype.type(sign > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if sign > 0 else limits.min)


def _place_of(value: Node) -> tuple[tuple[int, ...], int]:
    """Coordinates of the first element, and how many dimensions are those of buffers, as most loads have them."""
    ndim = len(value.shape)
    for load in all_loads(value):
        varying = [(dim, one) for dim, one in enumerate(load.positions) if one.axis != NO_AXIS]
        if load.memory.num_divided and [(one.axis, one.step) for _, one in varying] == [
            (axis, 1) for axis in range(ndim)
        ]:
            divided = sum(dim < load.memory.num_divided for dim, _ in varying)
            return tuple(one.offset for _, one in varying), max(divided, 1)
    return (0,) * ndim, ndim
