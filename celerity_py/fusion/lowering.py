# SPDX-License-Identifier: MIT
"""Turns the expressions of a pass into instructions for one item. Equal instructions are one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from celerity_py.fusion.coordinates import Affine, Positions, compose
from celerity_py.fusion.nodes import Compute, Insert, ItemIndex, Literal, Load, Node, ScalarValue, Select, Stored
from celerity_py.fusion.walks import Bound, Cut, cut, operand_coordinates, stored_value, with_items

if TYPE_CHECKING:
    from celerity_py.fusion.nodes import Items, Statement
    from celerity_py.fusion.planning import Pass
    from celerity_py.fusion.scalars import Parameter

#: Conditions, by the numbers of their instructions, that an item fulfils (True) or not.
Guard: TypeAlias = frozenset[tuple[int, bool]]
_BOOL = np.dtype(bool)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One value of an item: `operation` on the values of other instructions, or on what `detail` names."""

    operation: str
    dtype: np.dtype[Any]
    operands: tuple[int, ...] = ()
    detail: Hashable = None


@dataclass(frozen=True, slots=True)
class Place:
    """What an item loads."""

    load: Load
    where: Positions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.load.memory, self.load.after, self.where


@dataclass(frozen=True, slots=True)
class _Visit:
    node: Node
    coordinates: Positions
    guard: Guard


@dataclass(slots=True)
class Body:
    """The instructions for one item of a pass."""

    instructions: list[Instruction] = field(default_factory=list)
    #: Which of them have the values that statements store.
    values: dict[Statement, int] = field(default_factory=dict)
    #: The conditions under which an item carries out a statement.
    masks: dict[Statement, Guard] = field(default_factory=dict)
    #: Of loads, when the element is there: any of these.
    guards: dict[int, set[Guard]] = field(default_factory=dict)


def lower(one: Pass) -> Body:
    """The instructions of a pass."""
    lowering = _Lowering()
    for place, statement in enumerate(one.statements):
        lowering.add(statement, one, one.statements[:place])
    return lowering.body


class _Lowering:
    def __init__(self) -> None:
        self.body = Body()
        self._numbers: dict[Instruction, int] = {}
        self._done: dict[_Visit, int] = {}

    def add(self, statement: Statement, one: Pass, others: Sequence[Statement]) -> None:
        """A statement whose predecessors in the pass are `others`."""
        items = statement.items()
        pairs = zip(items.box, one.box, strict=True)
        limits = tuple(Bound(Affine(dim, 1, 0), *own) for dim, (own, whole) in enumerate(pairs) if own != whole)
        guard: Guard = frozenset([(self._condition(limits), True)]) if limits else frozenset()
        self.body.masks[statement] = guard
        root = _Visit(statement.value, items.coordinates, guard)
        stack = [root]
        while stack:
            visit = stack[-1]
            if visit in self._done:
                stack.pop()
                continue
            needed, divided = self._needed(visit, items, others)
            missing = [child for child in needed if child not in self._done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._done[visit] = self._make(visit, items, [self._done[child] for child in needed], divided)
        self.body.values[statement] = self._done[root]

    def _needed(self, visit: _Visit, items: Items, others: Sequence[Statement]) -> tuple[list[_Visit], Cut | None]:
        node, coordinates, guard = visit.node, visit.coordinates, visit.guard
        if isinstance(node, Compute):
            places = ((operand, operand_coordinates(operand, node, coordinates)) for operand in node.operands)
            return [_Visit(operand, place, guard) for operand, place in places], None
        if isinstance(node, Select):
            return [_Visit(node.base, compose(node.positions, coordinates), guard)], None
        if isinstance(node, Stored):
            return [_Visit(stored_value(node, coordinates, others), coordinates, guard)], None
        if not isinstance(node, Insert):
            return [], None
        divided = cut(node, coordinates, items.box)
        if divided.is_outside:
            return [_Visit(node.base, coordinates, guard)], divided
        if not divided.bounds:
            return [_Visit(node.part, divided.inner, guard)], divided
        inside = self._condition(divided.bounds)
        part = _Visit(node.part, divided.inner, guard | {(inside, True)})
        return [part, _Visit(node.base, coordinates, guard | {(inside, False)})], divided

    def _make(self, visit: _Visit, items: Items, operands: list[int], divided: Cut | None) -> int:
        node, coordinates = visit.node, visit.coordinates
        if isinstance(node, Compute):
            return self._number(Instruction(node.operation, node.dtype, tuple(operands)))
        if isinstance(node, Literal):
            return self._number(Instruction("literal", node.dtype, (), node.value.tobytes()))
        if isinstance(node, ScalarValue):
            return self._number(Instruction("scalar", node.dtype, (), node.parameter))
        if isinstance(node, ItemIndex):
            (position,) = compose((node.position,), coordinates)
            return self._number(Instruction("index", node.dtype, (), position))
        if isinstance(node, Load):
            place = Place(node, with_items(compose(node.positions, coordinates), items))
            number = self._number(Instruction("load", node.dtype, (), place))
            self.body.guards.setdefault(number, set()).add(visit.guard)
            return number
        if divided is not None and divided.bounds:
            inside = self._condition(divided.bounds)
            return self._number(Instruction("merge", node.dtype, (inside, *operands)))
        return operands[0]

    def _condition(self, bounds: tuple[Bound, ...]) -> int:
        return self._number(Instruction("inside", _BOOL, (), bounds))

    def _number(self, instruction: Instruction) -> int:
        number = self._numbers.setdefault(instruction, len(self.body.instructions))
        if number == len(self.body.instructions):
            self.body.instructions.append(instruction)
        return number


def parameters_of(body: Body) -> list[tuple[Parameter, np.dtype[Any]]]:
    """The scalars of a body, with the dtypes in which it takes them."""
    scalars = (one for one in body.instructions if one.operation == "scalar")
    return [(one.detail, one.dtype) for one in scalars]  # type: ignore[misc]
