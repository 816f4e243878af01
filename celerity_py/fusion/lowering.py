# SPDX-License-Identifier: MIT
"""Turns the expressions of a pass into instructions for one item. Equal instructions are one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Positions, compose
from celerity_py.fusion.mistakes import NotTakenError
from celerity_py.fusion.nodes import Compute, Gather, Insert, ItemIndex, Literal, Load, ScalarValue, Stored
from celerity_py.fusion.walks import Bound, Cut, Visit, cut, inner_visits, stored_value, with_items

if TYPE_CHECKING:
    from celerity_py.fusion.nodes import Items, Statement
    from celerity_py.fusion.planning import Pass

_BOOL: Final = np.dtype(bool)
#: Per item of a statement. A stencil of a stencil of a stencil computes the inner ones anew at each place.
_MAX_NUMBERS: Final = 20000


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


@dataclass(slots=True)
class Body:
    """The instructions for one item of a pass."""

    instructions: list[Instruction] = field(default_factory=list)
    #: Which of them have the values that statements store.
    values: dict[Statement, int] = field(default_factory=dict)
    #: The conditions under which an item carries out a statement; none for those that it always does.
    masks: dict[Statement, int] = field(default_factory=dict)
    #: The conditions under which an item needs a load; none for those that it always does.
    needs: dict[int, int] = field(default_factory=dict)
    #: Statements that need not store, since a later one stores their values, too.
    joined: set[Statement] = field(default_factory=set)


def lower(one: Pass) -> Body:
    """The instructions of a pass.

    Raises:
        NotTakenError: If there are too many.
    """
    lowering = _Lowering()
    for place, statement in enumerate(one.statements):
        lowering.add(statement, one, one.statements[:place])
    lowering.join_stores(one.statements)
    lowering.find_needs()
    return lowering.body


class _Lowering:
    def __init__(self) -> None:
        self.body = Body()
        self._numbers: dict[Instruction, int] = {}
        self._done: dict[Visit, int] = {}
        #: Of these the ones that need stored elements, and what the others depend on.
        self._changing: set[Visit] = set()
        self._context: Hashable = None

    def add(self, statement: Statement, one: Pass, others: Sequence[Statement]) -> None:
        """A statement whose predecessors in the pass are `others`."""
        items = statement.items()
        self._begin(items)
        pairs = zip(items.box, one.box, strict=True)
        limits = tuple(Bound(Affine(dim, 1, 0), *own) for dim, (own, whole) in enumerate(pairs) if own != whole)
        if limits:
            self.body.masks[statement] = self._condition(limits)
        root: Visit = statement.value, items.coordinates
        stack, num_before = [root], len(self._done)
        while stack:
            visit = stack[-1]
            if visit in self._done:
                stack.pop()
                continue
            if len(self._done) - num_before > _MAX_NUMBERS:
                raise NotTakenError(
                    f"The statement at {statement.line} computes more than {_MAX_NUMBERS} numbers per element, many of "
                    f"them again for its neighbours. To keep them in memory is not fused yet: store them in a buffer."
                )
            needed, divided = self._needed(visit, items, others)
            missing = [child for child in needed if child not in self._done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if isinstance(visit[0], Stored) or not self._changing.isdisjoint(needed):
                self._changing.add(visit)
            operands = [self._done[child] for child in needed]
            self._done[visit] = self._make(visit, items, operands, divided, others)
        self.body.values[statement] = self._done[root]

    def _begin(self, items: Items) -> None:
        """Forget the instructions that another statement with these items need not have."""
        context = items.box, tuple(position if position.axis != NO_AXIS else None for position in items.stored)
        if context == self._context:
            for visit in self._changing:
                del self._done[visit]
        else:
            self._done.clear()
        self._changing.clear()
        self._context = context

    def join_stores(self, statements: Sequence[Statement]) -> None:
        """Let the last of some statements store alone, where the others store the same elements or some of them."""
        by_place: dict[tuple[Hashable, Positions], list[Statement]] = {}
        for statement in statements:
            by_place.setdefault((statement.memory.key, statement.items().stored), []).append(statement)
        for first, *others in by_place.values():
            if not others or any(not _is_like_part_of(first, other) for other in others):
                continue
            self.body.values[others[-1]] = self._value_after([first, *others])
            self.body.masks.pop(others[-1], None)
            if first in self.body.masks:
                self.body.masks[others[-1]] = self.body.masks[first]
            self.body.joined.update((first, *others[:-1]))

    def _value_after(self, statements: Sequence[Statement], number: int = -1) -> int:
        """What an item has at one place behind statements; `number`: before them, if the first one has a condition."""
        for place, statement in enumerate(statements):
            value, mask = self.body.values[statement], self.body.masks.get(statement)
            if mask is None or (place == 0 and number < 0):
                number = value
            else:
                number = self._number(Instruction("merge", statement.memory.dtype, (mask, value, number)))
        return number

    def find_needs(self) -> None:
        """Under which conditions items need loads: an element may be missing where they do not."""
        needs: list[set[int | None]] = [set() for _ in self.body.instructions]  # None: always
        for statement, value in self.body.values.items():
            needs[value].add(self.body.masks.get(statement))
        for number in reversed(range(len(needs))):
            if not needs[number]:
                continue
            need = self._any_of(needs[number])
            instruction = self.body.instructions[number]
            if instruction.operation == "load" and need is not None:
                self.body.needs[number] = need
            elif instruction.operation == "merge":
                inside, part, base = instruction.operands
                needs[part].add(inside if need is None else self._number(Instruction("both", _BOOL, (need, inside))))
                outside = self._number(Instruction("not", _BOOL, (inside,)))
                needs[base].add(outside if need is None else self._number(Instruction("both", _BOOL, (need, outside))))
            else:
                for operand in instruction.operands:
                    needs[operand].add(need)

    def _any_of(self, needs: set[int | None]) -> int | None:
        """The condition that one of some conditions holds; None for one that always does."""
        left = set(needs)
        while None not in left:
            halves = next(((one, other) for one in left for other in left if self._are_halves(one, other)), None)
            if halves is None:
                break
            left -= set(halves)
            first = self.body.instructions[halves[0]]  # type: ignore[index]
            left.add(first.operands[0] if first.operation == "both" else None)
        conditions = sorted(one for one in left if one is not None)
        if None in left or len(conditions) == 1:
            return None if None in left else conditions[0]
        return self._number(Instruction("either", _BOOL, tuple(conditions)))

    def _are_halves(self, one: int | None, other: int | None) -> bool:
        """Whether two conditions are one and the same, inside of a part and outside of it."""
        assert one is not None
        assert other is not None
        inside, outside = self.body.instructions[one], self.body.instructions[other]
        if outside.operation == "both" and inside.operation == "both" and outside.operands[0] == inside.operands[0]:
            one, outside = inside.operands[1], self.body.instructions[outside.operands[1]]
        return outside.operation == "not" and outside.operands == (one,)

    def _needed(self, visit: Visit, items: Items, others: Sequence[Statement]) -> tuple[list[Visit], Cut | None]:
        node, coordinates = visit
        if isinstance(node, Stored):
            return [(stored_value(node, coordinates, others), coordinates)], None
        if not isinstance(node, Insert):
            return inner_visits(node, coordinates), None
        divided = cut(node, coordinates, items.box)
        base: Visit = node.base, coordinates
        if divided.is_outside:
            return [base], divided
        part: Visit = node.part, divided.inner
        return ([part, base] if divided.bounds else [part]), divided

    def _make(
        self, visit: Visit, items: Items, operands: list[int], divided: Cut | None, others: Sequence[Statement]
    ) -> int:
        node, coordinates = visit
        if isinstance(node, Compute):
            table = node.memory if isinstance(node, Gather) else None
            return self._number(Instruction(node.operation, node.dtype, tuple(operands), table))
        if isinstance(node, Literal):
            return self._number(Instruction("literal", node.dtype, (), node.value.tobytes()))
        if isinstance(node, ScalarValue):
            return self._number(Instruction("scalar", node.dtype, (), node.parameter))
        if isinstance(node, ItemIndex):
            (position,) = compose((node.position,), coordinates)
            return self._number(Instruction("index", node.dtype, (), position))
        if isinstance(node, Load):
            place = Place(node, with_items(compose(node.positions, coordinates), items))
            return self._load(place, others)
        if divided is not None and divided.bounds:
            inside = self._condition(divided.bounds)
            return self._number(Instruction("merge", node.dtype, (inside, *operands)))
        return operands[0]

    def _load(self, place: Place, others: Sequence[Statement]) -> int:
        """What an item has stored there itself, or loads as it was before the pass: other items store elsewhere."""
        load = place.load
        storing: list[Statement] = []
        if load.after in self.body.values:
            before = others[: others.index(load.after) + 1]
            storing = [one for one in before if one.memory.key == load.memory.key and one.items().stored == place.where]
            place = Place(replace(load, after=None), place.where)
        whole = [one for one, statement in enumerate(storing) if statement not in self.body.masks]
        if whole:
            return self._value_after(storing[whole[-1] :])
        return self._value_after(storing, self._number(Instruction("load", load.dtype, (), place)))

    def _condition(self, bounds: tuple[Bound, ...]) -> int:
        return self._number(Instruction("inside", _BOOL, (), bounds))

    def _number(self, instruction: Instruction) -> int:
        number = self._numbers.setdefault(instruction, len(self.body.instructions))
        if number == len(self.body.instructions):
            self.body.instructions.append(instruction)
        return number


def _is_like_part_of(first: Statement, second: Statement) -> bool:
    """Whether the first statement stores all elements of the second one, by the same access."""
    pairs = zip(first.items().box, second.items().box, strict=True)
    return first.memory is second.memory and all(a <= c and d <= b for (a, b), (c, d) in pairs)
