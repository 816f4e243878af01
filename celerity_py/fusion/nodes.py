# SPDX-License-Identifier: MIT
"""Expressions and statements: what the elements of arrays are, as a graph of nodes, and assignments of these to memory.

A node has a shape and a dtype. Its elements are indexed from 0 along each axis, whatever the buffers are that they come
from. A node never changes. `lowering` turns the nodes of a pass into instructions for one item.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Box, Positions, Shape, broadcast, constant, identity

if TYPE_CHECKING:
    import numpy as np

    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.scalars import Parameter

#: Per dimension of the target the step from item to item and the first coordinate modulo it. The item `c` stores the
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
    _items: Items | None = field(default=None, init=False)

    @property
    def shape(self) -> Shape:
        """The extents of what is assigned."""
        return self.value.shape

    def items(self) -> Items:
        """The items that store its elements, one each."""
        if self._items is None:
            self._items = self._make_items()
        return self._items

    def _make_items(self) -> Items:
        frame, box = [], []
        coordinates: list[Affine] = [constant(0)] * len(self.shape)
        for dim, (axis, step, offset) in enumerate(self.positions):
            extent = 1 if axis == NO_AXIS else self.shape[axis]
            lowest = min(offset, offset + step * (extent - 1))
            stride = abs(step) if extent > 1 else 1
            phase = lowest % stride
            low = (lowest - phase) // stride
            frame.append((stride, phase))
            box.append((low, low + extent))
            if axis != NO_AXIS:
                coordinates[axis] = Affine(dim, 1, -low) if step > 0 else Affine(dim, -1, extent - 1 + low)
        return Items(tuple(frame), tuple(box), tuple(coordinates))


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a statement."""

    frame: Frame
    box: Box
    #: Per axis of the statement's value, where the item has its element.
    coordinates: Positions

    @property
    def stored(self) -> Positions:
        """Per dimension of the target, where the item stores."""
        return tuple(Affine(dim, step, phase) for dim, (step, phase) in enumerate(self.frame))


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
