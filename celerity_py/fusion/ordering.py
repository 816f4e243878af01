# SPDX-License-Identifier: MIT
"""The order in which an item of a pass computes, loads and stores; every emission writes it so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from celerity_py.fusion.lowering import Body, Place

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.nodes import Statement
    from celerity_py.fusion.planning import Pass

#: The number of an instruction, which an item computes; or a statement, whose value it stores.
Step: TypeAlias = "int | Statement"


def steps_of(one: Pass, body: Body) -> Iterator[Step]:
    """The steps of an item. Each instruction comes once, behind those that it needs."""
    return _Ordering(one, body).steps()


class _Ordering:
    def __init__(self, one: Pass, body: Body) -> None:
        self._pass = one
        self._body = body
        self._order = {statement: place for place, statement in enumerate(one.statements)}
        self._done: set[int] = set()

    def steps(self) -> Iterator[Step]:
        for statement in self._pass.statements:
            yield from self._compute(self._body.values[statement])
            for number in self._loads_from(statement.memory):  # as they were before the pass
                yield from self._compute(number)
            if not self._is_in_vain(statement):
                mask = self._body.masks.get(statement)
                if mask is not None:
                    yield from self._compute(mask)
                yield statement

    def _compute(self, root: int) -> Iterator[int]:
        """An instruction behind those that it needs."""
        stack = [root]
        while stack:
            number = stack[-1]
            if number in self._done:
                stack.pop()
                continue
            instruction = self._body.instructions[number]
            need = self._body.needs.get(number)
            needed = instruction.operands if need is None else (need, *instruction.operands)
            missing = [one for one in needed if one not in self._done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._done.add(number)
            yield number

    def _loads_from(self, memory: Memory) -> list[int]:
        places = ((number, one.detail) for number, one in enumerate(self._body.instructions) if one.operation == "load")
        return [number for number, place in places if isinstance(place, Place) and place.load.memory.key == memory.key]

    def _is_in_vain(self, statement: Statement) -> bool:
        """Whether a later statement stores the same elements."""
        if statement in self._body.joined:
            return True
        items = statement.items()
        for later in self._pass.statements[self._order[statement] + 1 :]:
            if later.memory.key == statement.memory.key and later.items().stored == items.stored:
                pairs = zip(items.box, later.items().box, strict=True)
                if all(a >= c and b <= d for (a, b), (c, d) in pairs):
                    return True
        return False
