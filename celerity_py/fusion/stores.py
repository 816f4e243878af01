# SPDX-License-Identifier: MIT
"""Which elements a traced function stores, and how well they agree with those that NumPy computes."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from celerity_py.fusion.folds import Fold
from celerity_py.fusion.memories import region_of
from celerity_py.fusion.nodes import Compute, Load, Node, Stored, children

if TYPE_CHECKING:
    from celerity_py.fusion.memories import Region
    from celerity_py.fusion.trace import Trace


class Agreement(enum.IntEnum):
    """How well elements agree with those of NumPy."""

    EXACT = 0
    """To the bit."""
    ROUNDED = 1
    """But for rounding."""
    DECIDED = 2
    """Not at all where a rounded number lies at a limit, as in `floor(exp(x))`."""


@dataclass(frozen=True, slots=True)
class Store:
    """The elements that a statement stores."""

    #: The position of the access among the arguments.
    argument: int
    region: Region
    #: The user's line, as "file:line".
    line: str
    agreement: Agreement


_ROUNDED: Final = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "power", "hypot"),
        *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2"),
        *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    )
)
_ROUNDED_OF_COMPLEX: Final = frozenset(("multiply", "divide", "square", "reciprocal", "absolute"))
#: A small change of an operand may change the result a lot. Comparisons and casts to integers do so as well.
_DECIDING: Final = frozenset(
    ("gather", "sign", "copysign", "floor", "ceil", "trunc", "rint", "floor_divide", "remainder")
)


def stores_of(trace: Trace) -> tuple[Store, ...]:
    """What the statements of a trace store, in their order."""
    known: dict[Node, Agreement] = {}
    memories: dict[Hashable, Agreement] = {}
    found = []
    for statement in trace.statements:
        memory = statement.memory
        agreement = _find(statement.value, known, memories, trace)
        if isinstance(statement, Fold):
            memories[memory.key] = max(agreement, Agreement.ROUNDED) if statement.rounds else agreement
            continue
        memories[memory.key] = max(memories.get(memory.key, Agreement.EXACT), agreement)
        region = region_of(statement.positions, tuple((0, extent) for extent in statement.shape))
        found.append(Store(trace.memories[memory], region, statement.line, agreement))
    return tuple(found)


def _find(root: Node, known: dict[Node, Agreement], memories: dict[Hashable, Agreement], trace: Trace) -> Agreement:
    """The agreement of a node, after that of all nodes from which it is made."""
    stack = [root]
    while stack:
        node = stack[-1]
        missing = () if node in known else [child for child in children(node) if child not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if node not in known:
            known[node] = _combine(node, known, memories, trace)
    return known[root]


def _combine(node: Node, known: dict[Node, Agreement], memories: dict[Hashable, Agreement], trace: Trace) -> Agreement:
    if isinstance(node, Stored):
        return known[node.statement.value]
    if isinstance(node, Load):
        return memories.get(node.memory.key, Agreement.EXACT)  # those stored since then may only be worse
    found = max((known[child] for child in children(node)), default=Agreement.EXACT)
    if node in trace.rounded:
        found = max(found, Agreement.ROUNDED)
    if not isinstance(node, Compute):
        return found
    first = node.operands[0].dtype.kind
    if found and (node.operation in _DECIDING or node.dtype.kind not in "fc"):
        return Agreement.DECIDED
    is_rounded = node.operation in _ROUNDED and node.dtype.kind in "fc"
    if is_rounded or (first == "c" and node.operation in _ROUNDED_OF_COMPLEX):
        return max(found, Agreement.ROUNDED)
    return found
