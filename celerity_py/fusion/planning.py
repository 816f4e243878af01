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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from celerity_py.fusion.coordinates import NO_AXIS, Affine, Box, Positions, constant
from celerity_py.fusion.folds import Fold
from celerity_py.fusion.memories import Region, Scratch, common_region, overlap, region_of
from celerity_py.fusion.nodes import Compute, Insert, Items, Load, Node, Select, Statement, Stored, children
from celerity_py.fusion.walks import Loads, all_loads

#: A pass visits at most so many times the items that its statements have.
_MAX_IDLE_ITEMS: Final = 2
#: By memory the places that items load or store: where each item does, and all of their elements.
_Places: TypeAlias = "dict[Hashable, dict[tuple[Positions, Region], None]]"


@dataclass(slots=True)
class Pass:
    """Statements that one launch carries out, over the smallest box that contains their items.

    What they load and store is kept by memory, each place once: a pass of many statements must not compare all pairs.
    """

    statements: list[Statement] = field(default_factory=list)
    box: Box = ()
    #: The items of the statement that has most of them.
    most_items: int = 0
    #: Where the items load, by statement.
    loads: dict[Statement, list[tuple[Load, Positions]]] = field(default_factory=dict)
    #: Those of the statements that combine the elements of all items, numbered from 0.
    folds: dict[Fold, int] = field(default_factory=dict)
    _stored: _Places = field(default_factory=dict)
    _loaded: _Places = field(default_factory=dict)

    @property
    def num_divided(self) -> int:
        """So many of its dimensions, the first ones, are divided among threads; those of elements are not."""
        return self.statements[0].items().num_divided

    @property
    def num_kept(self) -> int:
        """So many of its dimensions, the first ones, count rows whose elements are combined; 0: no rows."""
        return next((fold.num_kept for fold in self.folds), 0)

    @property
    def is_single(self) -> bool:
        """Whether it has one item, which may follow folds in the same launch."""
        return not self.folds and all(high == low + 1 for low, high in self.box)

    def add(self, statement: Statement, loads: list[tuple[Load, Positions]], places: _Places) -> None:
        """The statement becomes the last one. `places`: what it loads from memories that some statement stores to."""
        items = statement.items()
        self.box = items.box if not self.statements else _union(self.box, items.box)
        self.most_items = max(self.most_items, _volume(items.box))
        self.statements.append(statement)
        self.loads[statement] = loads
        if isinstance(statement, Fold):
            self.folds[statement] = len(self.folds)
        self._stored.setdefault(statement.memory.key, {})[items.stored, items.region()] = None
        for key, found in places.items():
            self._loaded.setdefault(key, {}).update(found)

    def is_dense_with(self, items: Items) -> bool:
        """Whether the box stays mostly full with the items of one more statement."""
        most = max(self.most_items, _volume(items.box))
        return _volume(_union(self.box, items.box)) <= _MAX_IDLE_ITEMS * most

    def has_rows_of(self, statement: Statement) -> bool:
        """Whether all folds combine the same rows, if there are any, with one more statement."""
        items = statement.items()
        box = _union(self.box, items.box) if self.statements else items.box
        folds = [*self.folds, *([statement] if isinstance(statement, Fold) else [])]
        return len({(one.num_kept, one.lanes) for one in folds}) <= 1 and all(
            one.items().box == box for one in folds if one.num_kept
        )

    def may_have(self, statement: Statement, new: _Places) -> bool:
        """Whether no item loads or stores what another one stores, with one more statement; `new` as for `add`."""
        items = statement.items()
        own: _Places = {statement.memory.key: {(items.stored, items.region()): None}}
        pairs = ((self._stored, new), (own, self._loaded), (own, new))
        if any(_stores_what_others_load(stored, loaded) for stored, loaded in pairs):
            return False
        return not _store_at_different_items(self._stored, own)


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
        self._loads = Loads()
        #: By memory, in their order.
        self._stores: dict[Hashable, list[Statement]] = {}
        self._kept: dict[Node, Load] = {}

    def plan(self) -> Plan:
        while True:
            passes = self._try()
            if passes is not None:
                break
        used = dict.fromkeys(statement.memory for one in passes for statement in one.statements)
        return Plan(tuple(passes), tuple(memory for memory in used if isinstance(memory, Scratch)))

    def _try(self) -> list[Pass] | None:
        """The passes; None if statements were changed, and planning has to start anew."""
        order = {statement: place for place, statement in enumerate(self._statements)}
        self._stores = {}
        for statement in self._statements:
            self._stores.setdefault(statement.memory.key, []).append(statement)
        passes: list[Pass] = []
        for statement in self._statements:
            joined = self._join(statement, passes[-1], order) if passes else None
            if joined is not None:
                passes[-1] = joined
                continue
            items = statement.choices()[0]
            statement.choose(items)
            loads = self._loads.of(statement, ())
            stale = _first_overwritten(loads, items, self._stores, order[statement], order)
            if stale is not None:
                self._keep(statement, stale, order)
                return None
            places = self._places_of(loads, items)
            if not Pass().may_have(statement, places):
                self._evaluate_first(statement, items, order[statement])
                return None
            passes.append(Pass())
            passes[-1].add(statement, loads, places)
        return passes

    def _join(self, statement: Statement, last: Pass, order: dict[Statement, int]) -> Pass | None:
        """The last pass with one more statement, on the items that it has or else on others; None if none do."""
        statements = [*last.statements, statement]
        if _choose_like(statement, last.statements[0].items()):
            return last if last.is_dense_with(statement.items()) and self._add(statement, last, order) else None
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
        loads = self._loads.of(statement, last.statements)
        if any(isinstance(load.after, Fold) and load.after in last.folds for load, _ in loads):
            return False  # results are there when all items are done
        if not last.has_rows_of(statement):
            return False
        places = self._places_of(loads, statement.items())
        if not last.may_have(statement, places):
            return False
        begin = order[last.statements[0] if last.statements else statement]
        if _first_overwritten(loads, statement.items(), self._stores, begin, order) is not None:
            return False
        last.add(statement, loads, places)
        return True

    def _places_of(self, loads: list[tuple[Load, Positions]], items: Items) -> _Places:
        """What the items load from memories to which some statement stores."""
        places: _Places = {}
        for load, where in loads:
            key = load.memory.key
            if key in self._stores:
                places.setdefault(key, {})[where, _region_of_load(load, where, items)] = None
        return places

    def _evaluate_first(self, statement: Statement, items: Items, place: int) -> None:
        """Let a statement of its own store the value in scratch memory, at the items of the statement."""
        shape = tuple(high - low for low, high in items.box)
        scratch = self._allocate(statement.value, tuple(low for low, _ in items.box), shape, items.num_divided)
        positions = [constant(low) for low, _ in items.box]
        for (axis, step, *_), stored in zip(statement.positions, items.stored, strict=True):
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
            loads = [load for load in all_loads(node) if load.memory.key == stale.memory.key]
            if not any(_is_before(load, place, order) and _touches(load, stale) for load in loads):
                continue
            if all(_is_before(load, place, order) for load in all_loads(node)):
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


def _stores_what_others_load(stored: _Places, loaded: _Places) -> bool:
    """Whether an item may load an element that another item stores."""
    return _meet(stored, loaded)


def _store_at_different_items(first: _Places, second: _Places) -> bool:
    """Whether two items may store the same element."""
    return _meet(first, second)


def _meet(first: _Places, second: _Places) -> bool:
    return any(
        where != place and overlap(region, part)
        for key, places in second.items()
        if key in first
        for where, region in places
        for place, part in first[key]
    )


def _first_overwritten(
    loads: list[tuple[Load, Positions]],
    items: Items,
    stores: dict[Hashable, list[Statement]],
    end: int,
    order: dict[Statement, int],
) -> Statement | None:
    """The first statement before the place `end` that overwrites elements which are loaded as they were before it.

    `stores`: the statements by memory, in their order.
    """
    first = None
    for load, where in loads:
        for store in stores.get(load.memory.key, ()):
            if order[store] >= end:
                break
            touched = _is_before(load, order[store], order)
            if touched and overlap(_region_of_load(load, where, items), store.items().region()):
                first, end = store, order[store]
                break
    return first


def _choose_like(statement: Statement, items: Items) -> bool:
    """Let a statement have items that one pass may have with others, if it can."""
    for choice in statement.choices():
        if choice.is_like(items):
            statement.choose(choice)
            return True
    return False


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
        return replace(node, operands=new)
    if isinstance(node, Select):
        return Select(node.dtype, node.shape, new[0], node.positions)
    assert isinstance(node, Insert)
    return Insert(node.dtype, node.shape, new[0], new[1], node.positions)


def _origin_of(node: Node) -> tuple[int, ...]:
    """Coordinates of the first element such that the items are those of the statements that store what it loads."""
    for load in all_loads(node):
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
