# SPDX-License-Identifier: MIT
"""Expressions and statements: what the elements of arrays are, as a graph of nodes, and assignments of these to memory.

A node has a shape and a dtype. Its elements are indexed from 0 along each axis, whatever the buffers are that they come
from. A node never changes. `lowering` turns the nodes of a pass into instructions for one item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Box, Positions, Shape, broadcast, constant, identity
from celerity_py.fusion.memories import region_of

if TYPE_CHECKING:
    import numpy as np

    from celerity_py.fusion.memories import Memory, Region, Table
    from celerity_py.fusion.scalars import Parameter

#: Per dimension of the items the step from item to item and the first coordinate modulo it. The item `c` stores the
#: element at `step * c + phase`, so that statements about one memory agree about which item has which element.
Frame: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """The elements of an array."""

    dtype: np.dtype[Any]
    shape: Shape


@dataclass(frozen=True, eq=False, slots=True)
class Literal(Node):
    """A number that stands in the source of the kernel."""

    value: np.generic


@dataclass(frozen=True, eq=False, slots=True)
class ScalarValue(Node):
    """A plain number among the arguments, or arithmetic on such: a parameter of the launch, of this node's dtype."""

    parameter: Parameter


@dataclass(frozen=True, eq=False, slots=True)
class ItemIndex(Node):
    """A coordinate, of dtype int64."""

    position: Affine


@dataclass(frozen=True, eq=False, slots=True)
class Load(Node):
    """Elements of a memory, as they are after the statement `after`, or at the beginning of the kernel."""

    memory: Memory
    positions: Positions
    after: Statement | None


@dataclass(frozen=True, eq=False, slots=True)
class Stored(Node):
    """Elements that a statement has just stored: its value in the same pass, and a load in later ones."""

    statement: Statement
    load: Load


@dataclass(frozen=True, eq=False, slots=True)
class Compute(Node):
    """An operation on the elements of operands, which are broadcast to the shape."""

    operation: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Gather(Compute):
    """The elements of a table at distances in bytes, which the operand gives."""

    memory: Table


@dataclass(frozen=True, eq=False, slots=True)
class Select(Node):
    """Some elements of another node: per axis of `base`, where they lie."""

    base: Node
    positions: Positions


@dataclass(frozen=True, eq=False, slots=True)
class Insert(Node):
    """The elements of `base`, but those of `part` at `positions`: one per axis of `base`, on the axes of `part`."""

    base: Node
    part: Node
    positions: Positions


@dataclass(eq=False, slots=True)
class Statement:
    """`memory[positions] = value`, positions on the axes of the value. The planner may replace it by an equal one."""

    memory: Memory
    positions: Positions
    value: Node
    #: The user's line, as "file:line".
    line: str
    _choices: tuple[Items, ...] = field(default=(), init=False)
    _items: Items | None = field(default=None, init=False)

    @property
    def shape(self) -> Shape:
        """The extents of what is assigned."""
        return self.value.shape

    def items(self) -> Items:
        """The items that store its elements, one each: the chosen ones of the choices, or else the first ones."""
        return self.choices()[0] if self._items is None else self._items

    def choose(self, items: Items) -> None:
        """Take other items of the choices."""
        self._items = items

    def choices(self) -> tuple[Items, ...]:
        """The items that may store its elements.

        Constant coordinates of the target, as of components and of rows, need no dimension of the items: statements
        that differ in these have the same items. But with one they have those of statements about the whole.
        """
        if not self._choices:
            divided = range(self.memory.num_divided)
            varying = [dim for dim, position in enumerate(self.positions) if position.axis != NO_AXIS]
            fewest = {*varying, *(() if set(varying) & set(divided) else divided[-1:])}
            kept = (fewest, {*fewest, *divided}, set(range(len(self.positions))))
            different = dict.fromkeys(tuple(sorted(dims)) for dims in kept)
            self._choices = tuple(self._make_items(dims) for dims in different)
        return self._choices

    def _make_items(self, dims: tuple[int, ...]) -> Items:
        is_single = self.memory.num_divided == 0  # as in a buffer without dimensions: a single item has it
        frame, box = ([(1, 0)], [(0, 1)]) if is_single else ([], [])
        stored = [constant(position.offset) for position in self.positions]
        coordinates: list[Affine] = [constant(0)] * len(self.shape)
        for place, dim in enumerate(dims, start=len(box)):
            axis, step, offset, _ = self.positions[dim]
            extent = 1 if axis == NO_AXIS else self.shape[axis]
            lowest = min(offset, offset + step * (extent - 1))
            stride = abs(step) if extent > 1 else 1
            phase = lowest % stride
            low = (lowest - phase) // stride
            frame.append((stride, phase))
            box.append((low, low + extent))
            stored[dim] = Affine(place, stride, phase)
            if axis != NO_AXIS:
                coordinates[axis] = Affine(place, 1, -low) if step > 0 else Affine(place, -1, extent - 1 + low)
        num_divided = 1 if is_single else sum(dim < self.memory.num_divided for dim in dims)
        return Items(tuple(frame), tuple(box), tuple(coordinates), tuple(stored), num_divided)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a statement, on some dimensions of its target."""

    frame: Frame
    box: Box
    #: Per axis of the statement's value, where the item has its element.
    coordinates: Positions
    #: Per dimension of the target, where the item stores.
    stored: Positions
    #: So many of the dimensions, the first ones, are those of a buffer.
    num_divided: int

    def region(self) -> Region:
        """The elements that they store."""
        return region_of(self.stored, self.box)

    def is_like(self, other: Items) -> bool:
        """Whether one pass may have both."""
        return self.frame == other.frame and self.num_divided == other.num_divided


def broadcast_to(node: Node, shape: Shape) -> Node:
    """The node with another shape, to which NumPy can broadcast it."""
    if node.shape == shape:
        return node
    return Select(node.dtype, shape, node, broadcast(node.shape, shape))


def selected(node: Node, positions: Positions, shape: Shape) -> Node:
    """Some elements of a node."""
    if shape == node.shape and positions == identity(len(shape)):
        return node
    return Select(node.dtype, shape, node, positions)


def converted(node: Node, dtype: np.dtype[Any]) -> Node:
    """The node with another dtype."""
    return node if node.dtype == dtype else Compute(dtype, node.shape, "cast", (node,))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes from which one is made; of `Stored` none."""
    if isinstance(node, Compute):
        return node.operands
    if isinstance(node, Select):
        return (node.base,)
    return (node.base, node.part) if isinstance(node, Insert) else ()
