# SPDX-License-Identifier: MIT
"""Walks from a statement's value to the loads that it needs, with the place of each element among the items.

Both the planner and `lowering` walk so; the two must agree about what an item loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Box, Positions, broadcast, compose, constant
from celerity_py.fusion.mistakes import NotTakenError
from celerity_py.fusion.nodes import Compute, Insert, Items, Load, Node, Select, Statement, Stored, children


class Bound(NamedTuple):
    """A condition of an item: that a coordinate lies in a half-open interval."""

    position: Affine
    low: int
    high: int


class Cut(NamedTuple):
    """How the items of a statement divide at an `Insert`."""

    #: What an item must fulfil to be inside of the part; none: all items are.
    bounds: tuple[Bound, ...]
    #: No item is inside.
    is_outside: bool
    #: Per axis of the part.
    inner: Positions


#: Loads of a node are remembered up to this number, so that long sums cost no time in the square of their length.
_MOST_SHARED: Final = 64

Visit: TypeAlias = "tuple[Node, Positions]"


def operand_coordinates(operand: Node, node: Compute, coordinates: Positions) -> Positions:
    """Where an item has the elements of an operand."""
    if operand.shape == node.shape:
        return coordinates
    if not operand.shape:
        return ()
    return compose(broadcast(operand.shape, node.shape), coordinates)


def cut(node: Insert, coordinates: Positions, box: Box) -> Cut:
    """Which items of a box are inside of the part of an `Insert`, and where.

    Raises:
        NotTakenError: If the part has a step that items do not have.
    """
    bounds: list[Bound] = []
    inner: list[Affine] = [constant(0)] * len(node.part.shape)
    for here, (axis, step, offset, _) in zip(coordinates, node.positions, strict=True):
        extent = 1 if axis == NO_AXIS else node.part.shape[axis]
        stride = step if extent > 1 else 1
        low, high = here.bounds(box)
        first, last = sorted((offset, offset + stride * (extent - 1)))
        if high < first or low > last:
            return Cut((), True, ())
        if low < first or high > last:
            bounds.append(Bound(here, first, last + 1))
        if axis == NO_AXIS:
            continue
        if here.step % stride:
            raise NotTakenError(
                "An array that the function has made is assigned in steps, and read without: not fused yet."
            )
        if (here.offset - offset) % stride:
            return Cut((), True, ())
        inner[axis] = Affine(here.axis, here.step // stride, (here.offset - offset) // stride)
    return Cut(tuple(bounds), False, tuple(inner))


def stored_value(node: Stored, coordinates: Positions, statements: Collection[Statement]) -> Node:
    """What stands for elements that a statement has stored: its value if each item has just computed its own."""
    statement = node.statement
    if statement in statements and statement.items().coordinates == coordinates:
        return statement.value
    return node.load


def with_items(positions: Positions, items: Items) -> Positions:
    """Coordinates in a memory, where an only item of a dimension has its own instead of a constant one.

    So that `u[0] = 2 * u[0]` loads and stores at the same place.
    """
    if len(positions) != len(items.stored):
        return positions
    result = list(positions)
    for dim, (position, stored) in enumerate(zip(positions, items.stored, strict=True)):
        if position.axis != NO_AXIS or stored.axis == NO_AXIS:
            continue
        low, high = items.box[stored.axis]
        if high == low + 1 and stored.step * low + stored.offset == position.offset:
            result[dim] = stored
    return tuple(result)


class Loads:
    """Finds what statements load. What several of them compute from the same elements is walked once."""

    def __init__(self) -> None:
        self._found: list[tuple[Load, Positions]] = []
        #: The places in `_found` that a node needs, in their order; None: too many, or they depend on the statement.
        self._known: dict[Visit, tuple[int, ...] | None] = {}

    def of(self, statement: Statement, others: Collection[Statement]) -> list[tuple[Load, Positions]]:
        """The loads of a statement, and where they lie in their memories by item.

        Args:
            statement: In a pass.
            others: The statements before it in the same pass.
        """
        items = statement.items()
        found: dict[int, None] = {}
        seen: set[Visit] = set()
        stack: list[Visit] = [(statement.value, items.coordinates)]
        while stack:
            visit = stack.pop()
            if visit in seen:
                continue
            seen.add(visit)
            node, coordinates = visit
            known = self._look(visit)
            if known is not None:
                found.update(dict.fromkeys(known))
            elif isinstance(node, Stored):
                stack.append((stored_value(node, coordinates, others), coordinates))
            elif isinstance(node, Insert):
                divided = cut(node, coordinates, items.box)
                if not divided.is_outside:
                    stack.append((node.part, divided.inner))
                if divided.is_outside or divided.bounds:
                    stack.append((node.base, coordinates))
            else:
                stack.extend(inner_visits(node, coordinates))
        pairs = (self._found[number] for number in found)
        return [(load, with_items(where, items)) for load, where in pairs]

    def _look(self, root: Visit) -> tuple[int, ...] | None:
        known = self._known
        stack: list[tuple[Visit, list[Visit] | None]] = [(root, None)]
        while stack:
            visit, inner = stack.pop()
            if inner is not None:
                known[visit] = _merged([known[each] for each in reversed(inner)])
                continue
            if visit in known:
                continue
            node, coordinates = visit
            if isinstance(node, Load):
                known[visit] = (len(self._found),)
                self._found.append((node, compose(node.positions, coordinates)))
            elif isinstance(node, Stored | Insert):
                known[visit] = None
            else:
                inner = inner_visits(node, coordinates)
                stack.append((visit, inner))
                stack += [(each, None) for each in inner]
        return known[root]


def inner_visits(node: Node, coordinates: Positions) -> list[Visit]:
    """What an operation or selection needs."""
    if isinstance(node, Compute):
        return [(operand, operand_coordinates(operand, node, coordinates)) for operand in node.operands]
    return [(node.base, compose(node.positions, coordinates))] if isinstance(node, Select) else []


def _merged(parts: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    if None in parts:
        return None
    some = [part for part in parts if part]
    if len(some) < 2:
        return some[0] if some else ()
    merged = tuple(dict.fromkeys(itertools.chain(*some)))
    return merged if len(merged) <= _MOST_SHARED else None


def all_loads(node: Node) -> list[Load]:
    """The loads in an expression, each once."""
    found, seen, stack = [], set(), [node]
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        if isinstance(one, Load):
            found.append(one)
        elif isinstance(one, Stored):
            found.append(one.load)
        stack.extend(children(one))
    return found
