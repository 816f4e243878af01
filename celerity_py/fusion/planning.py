# SPDX-License-Identifier: MIT
"""Groups the statements of a call into passes over memory, and takes scratch memory where NumPy's order needs it.

A pass runs its statements item by item. That has the effect of one statement after the other if no item loads or
stores what another one stores in the same pass. An element that one item loads and stores is harmless: the item does so
in the order of the program. So a statement joins the pass before it unless it would load or store an element that
another item stores, or store one that another item loads. Two cases need scratch memory:

* A statement stores elements that other items of its own load, as `u[1:] = u[:-1]` does. NumPy evaluates the right side
  as a whole first, so a first pass stores the value in scratch, and a second one copies it.
* A value was computed from elements that an earlier pass has overwritten. A statement in front of that pass keeps it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Box, Positions, constant
from celerity_py.fusion.memories import Region, Scratch, common_region, overlap, region_of
from celerity_py.fusion.nodes import Compute, Insert, Items, Load, Node, Select, Statement, Stored, children
from celerity_py.fusion.walks import loads_of

#: A pass visits at most so many times the items that its statements have.
_MAX_IDLE_ITEMS: Final = 2


@dataclass(slots=True)
class Pass:
    """Statements that one launch carries out, over the smallest box that contains their items."""

    statements: list[Statement] = field(default_factory=list)
    box: Box = ()
    #: Where the items load, by statement.
    loads: dict[Statement, list[tuple[Load, Positions]]] = field(default_factory=dict)

    @property
    def num_divided(self) -> int:
        """So many of its dimensions, the first ones, are divided among threads; those of elements are not."""
        return self.statements[0].items().num_divided

    def add(self, statement: Statement, loads: list[tuple[Load, Positions]]) -> None:
        """The statement becomes the last one."""
        box = statement.items().box
        self.box = box if not self.statements else _union(self.box, box)
        self.statements.append(statement)
        self.loads[statement] = loads


@dataclass(frozen=True, slots=True)
class Plan:
    """Passes in their order, and the scratch memory that they need."""

    passes: tuple[Pass, ...]
    scratch: tuple[Scratch, ...]


def plan(statements: Sequence[Statement]) -> Plan:
    """The passes that carry out statements. Values of statements may be replaced by equal ones."""
    return _Planner(statements).plan()


class _Planner:
    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = list(statements)
        self._scratch: list[Scratch] = []
        self._kept: dict[Node, Load] = {}

    def plan(self) -> Plan:
        while True:
            passes = self._try()
            if passes is not None:
                break
        used = {statement.memory for one in passes for statement in one.statements}
        return Plan(tuple(passes), tuple(scratch for scratch in self._scratch if scratch in used))

    def _try(self) -> list[Pass] | None:
        """The passes; None if statements were changed, and planning has to start anew."""
        order = {statement: place for place, statement in enumerate(self._statements)}
        passes: list[Pass] = []
        for statement in self._statements:
            joined = self._join(statement, passes[-1], order) if passes else None
            if joined is not None:
                passes[-1] = joined
                continue
            items = statement.choices()[0]
            statement.choose(items)
            loads = list(loads_of(statement, ()))
            earlier = [other for one in passes for other in one.statements]
            stale = _first_overwritten(loads, items, earlier, order)
            if stale is not None:
                self._keep(statement, stale, order)
                return None
            if _stores_what_others_load(statement, [(statement, loads)]):
                self._evaluate_first(statement, items, order[statement])
                return None
            passes.append(Pass())
            passes[-1].add(statement, loads)
        return passes

    def _join(self, statement: Statement, last: Pass, order: dict[Statement, int]) -> Pass | None:
        """The last pass with one more statement, on the items that it has or else on others; None if none do."""
        statements = [*last.statements, statement]
        if _choose_like(statement, last.statements[0].items()):
            return last if _is_dense(statements) and self._add(statement, last, order) else None
        chosen = {other: other.items() for other in last.statements}
        for items in statement.choices():
            if all(_choose_like(other, items) for other in statements) and _is_dense(statements):
                joined = Pass()
                if all(self._add(other, joined, order) for other in statements):
                    return joined
        for other, before in chosen.items():
            other.choose(before)
        return None

    def _add(self, statement: Statement, last: Pass, order: dict[Statement, int]) -> bool:
        """Let a pass have one more statement if it may."""
        loads = list(loads_of(statement, last.statements))
        if any(_stores_what_others_load(other, [(statement, loads)]) for other in last.statements):
            return False
        if any(_store_at_different_items(other, statement) for other in last.statements):
            return False
        pairs = [*last.loads.items(), (statement, loads)]
        if _stores_what_others_load(statement, pairs):
            return False
        before = self._statements[: order[last.statements[0] if last.statements else statement]]
        if _first_overwritten(loads, statement.items(), before, order) is not None:
            return False
        last.add(statement, loads)
        return True

    def _evaluate_first(self, statement: Statement, items: Items, place: int) -> None:
        """Let a statement of its own store the value in scratch memory, at the items of the statement."""
        shape = tuple(high - low for low, high in items.box)
        scratch = self._allocate(statement.value, tuple(low for low, _ in items.box), shape, items.num_divided)
        positions = [constant(low) for low, _ in items.box]
        for (axis, step, _), stored in zip(statement.positions, items.stored, strict=True):
            if axis != NO_AXIS:
                low, high = items.box[stored.axis]
                positions[stored.axis] = Affine(axis, 1, low) if step > 0 else Affine(axis, -1, high - 1)
        self._replace(statement, place, scratch, tuple(positions), statement.value)

    def _keep(self, statement: Statement, stale: Statement, order: dict[Statement, int]) -> None:
        """Keep in scratch memory what a statement computes from elements that `stale` overwrites."""
        node = self._largest_before(statement, stale, order)
        kept = self._kept.get(node)
        if kept is None:
            origin = _origin_of(node) or (0,)
            num_divided = min(len(origin), stale.memory.num_divided)
            scratch = self._allocate(node, origin, node.shape or (1,), num_divided)
            positions = tuple(Affine(axis, 1, low) for axis, low in enumerate(origin)) if node.shape else (constant(0),)
            self._replace(statement, order[stale], scratch, positions, node)
        else:
            assert kept.after is not statement
            statement.value = _replaced(statement.value, node, kept)

    def _replace(self, statement: Statement, place: int, scratch: Scratch, positions: Positions, node: Node) -> None:
        filling = Statement(scratch, positions, node, statement.line)
        load = Load(node.dtype, node.shape, scratch, positions, filling)
        self._kept[node] = load
        self._statements.insert(place, filling)
        statement.value = _replaced(statement.value, node, load)

    def _allocate(self, node: Node, origin: tuple[int, ...], shape: tuple[int, ...], num_divided: int) -> Scratch:
        number = len(self._scratch)
        scratch = Scratch(("scratch", number), node.dtype, len(shape), num_divided, f"scratch {number}", origin, shape)
        self._scratch.append(scratch)
        return scratch

    def _largest_before(self, statement: Statement, stale: Statement, order: dict[Statement, int]) -> Node:
        """A part of the statement's value that loads elements which `stale` overwrites, and was complete before it."""
        place = order[stale]
        stack = [statement.value]
        while stack:
            node = stack.pop()
            loads = [load for load in _all_loads(node) if load.memory.key == stale.memory.key]
            if not any(_is_before(load, place, order) and _touches(load, stale) for load in loads):
                continue
            if all(_is_before(load, place, order) for load in _all_loads(node)):
                return node
            stack.extend(children(node))
            if isinstance(node, Stored):
                stack.append(node.load)
        raise AssertionError("a load that is overwritten belongs to some part of the value")


def _is_before(load: Load, place: int, order: dict[Statement, int]) -> bool:
    return load.after is None or order[load.after] < place


def _touches(load: Load, store: Statement) -> bool:
    return overlap(_whole_region_of(load), store.items().region())


def _whole_region_of(load: Load) -> Region:
    return region_of(load.positions, tuple((0, extent) for extent in load.shape))


def _region_of_load(load: Load, where: Positions, items: Items) -> Region:
    """What the items of a statement load; those of them that need no element here have a place all the same."""
    return common_region(region_of(where, items.box), _whole_region_of(load))


def _stores_what_others_load(store: Statement, loads: Iterable[tuple[Statement, list[tuple[Load, Positions]]]]) -> bool:
    """Whether an item may load, for one of the statements, an element that another item stores."""
    stored = store.items().stored
    region = store.items().region()
    return any(
        load.memory.key == store.memory.key
        and where != stored
        and overlap(_region_of_load(load, where, other.items()), region)
        for other, pairs in loads
        for load, where in pairs
    )


def _store_at_different_items(first: Statement, second: Statement) -> bool:
    """Whether two items may store the same element."""
    one, other = first.items(), second.items()
    return (
        first.memory.key == second.memory.key and one.stored != other.stored and overlap(one.region(), other.region())
    )


def _choose_like(statement: Statement, items: Items) -> bool:
    """Let a statement have items that one pass may have with others, if it can."""
    for choice in statement.choices():
        if choice.is_like(items):
            statement.choose(choice)
            return True
    return False


def _first_overwritten(
    loads: list[tuple[Load, Positions]], items: Items, earlier: Iterable[Statement], order: dict[Statement, int]
) -> Statement | None:
    """The first of earlier statements that overwrites elements which are loaded as they were before it."""
    for store in earlier:
        for load, where in loads:
            if load.memory.key != store.memory.key or not _is_before(load, order[store], order):
                continue
            if overlap(_region_of_load(load, where, items), store.items().region()):
                return store
    return None


def _all_loads(node: Node) -> list[Load]:
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


def _replaced(root: Node, old: Node, new: Node) -> Node:
    """A graph with another node in the place of one."""
    done: dict[Node, Node] = {old: new}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        missing = [child for child in children(node) if child not in done]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        done[node] = _with_children(node, tuple(done[child] for child in children(node)), done)
    return done[root]


def _with_children(node: Node, new: tuple[Node, ...], done: dict[Node, Node]) -> Node:
    if isinstance(node, Stored) and node.load in done:
        return done[node.load]
    if new == children(node):
        return node
    if isinstance(node, Compute):
        return Compute(node.dtype, node.shape, node.operation, new)
    if isinstance(node, Select):
        return Select(node.dtype, node.shape, new[0], node.positions)
    assert isinstance(node, Insert)
    return Insert(node.dtype, node.shape, new[0], new[1], node.positions)


def _origin_of(node: Node) -> tuple[int, ...]:
    """Coordinates of the first element such that the items are those of the statements that store what it loads."""
    for load in _all_loads(node):
        varying = tuple(position for position in load.positions if position.axis != NO_AXIS)
        straight = tuple(Affine(axis, 1, position.offset) for axis, position in enumerate(varying))
        if len(varying) == len(node.shape) and varying == straight:
            return tuple(position.offset for position in straight)
    return (0,) * len(node.shape)


def _is_dense(statements: Sequence[Statement]) -> bool:
    boxes = [statement.items().box for statement in statements]
    return _volume(functools.reduce(_union, boxes)) <= _MAX_IDLE_ITEMS * max(map(_volume, boxes))


def _volume(box: Box) -> int:
    return math.prod(high - low for low, high in box)


def _union(first: Box, second: Box) -> Box:
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))
