# SPDX-License-Identifier: MIT
"""The record of one call of a kernel's function with symbolic arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from celerity_py.fusion.coordinates import NO_AXIS, Affine, identity
from celerity_py.fusion.memories import Memory, Table, overlap, region_of
from celerity_py.fusion.mistakes import at_line, refusal, user_line
from celerity_py.fusion.nodes import Load, Node, Statement, Stored, selected

if TYPE_CHECKING:
    from celerity_py.fusion.coordinates import Positions, Shape

MAX_OPERATIONS: Final = 1000


class Trace:
    """The statements of a call, in their order. For the thread that makes the call."""

    def __init__(self) -> None:
        #: Assignments to memory.
        self.statements: list[Statement] = []
        #: Positions of the arguments whose values Python has asked for: the trace holds for these values only.
        self.needed: set[int] = set()
        #: The memories of accesses, with the positions of these among the arguments.
        self.memories: dict[Memory, int] = {}
        #: The arrays among the arguments.
        self.tables: list[Table] = []
        #: Results that NumPy computes in another order, which rounds otherwise.
        self.rounded: set[Node] = set()
        #: Positions of the reductions into which the function combines.
        self.combined: set[int] = set()
        self._num_operations = 0
        self._is_closed = False

    def count(self) -> None:
        """One more operation.

        Raises:
            UsageError: If there are too many, or the call is over.
        """
        self.require_open()
        self._num_operations += 1
        if self._num_operations > MAX_OPERATIONS:
            raise refusal(
                f"A fused kernel has at most {MAX_OPERATIONS} operations on arrays, and this call does one more "
                f"{at_line()}. Loops of Python are unrolled: submit a kernel per turn, or fewer turns per kernel."
            )

    def require_open(self) -> None:
        """Refuse the use of an array after the call that made it."""
        if self._is_closed:
            raise refusal(
                f"An array of a fused kernel is used after the call that made it {at_line()}. It stands for elements "
                f"during the call only: write results into a view."
            )

    def close(self) -> None:
        """The call is over."""
        self._is_closed = True

    def read(self, memory: Memory, positions: Positions, shape: Shape) -> Node:
        """The elements of a memory as they are now."""
        self.require_open()
        after = None
        if 0 not in shape:
            region = region_of(positions, _whole(shape))
            for statement in reversed(self.statements):
                if statement.memory.key != memory.key:
                    continue
                inside = _within(statement, positions, shape)
                if inside is not None:
                    whole = statement.shape
                    load = Load(memory.dtype, whole, memory, statement.positions, statement)
                    return selected(Stored(memory.dtype, whole, statement, load), inside, shape)
                if overlap(region_of(statement.positions, _whole(statement.shape)), region):
                    after = statement
                    break
        return Load(memory.dtype, shape, memory, positions, after)

    def store(self, memory: Memory, positions: Positions, value: Node) -> None:
        """Assign a value to elements of a memory; it has their dtype and shape."""
        self.require_open()
        if 0 not in value.shape:
            self.statements.append(Statement(memory, positions, value, user_line()))


def _within(statement: Statement, positions: Positions, shape: Shape) -> Positions | None:
    """Where elements lie among those that a statement has stored: per axis of its value. None if not all of them do."""
    if len(shape) != len(statement.shape):
        return None
    inside = list(identity(len(shape)))
    for position, stored in zip(positions, statement.positions, strict=True):
        axis, step, offset, limits = position
        if axis == NO_AXIS or position == stored:
            if position != stored or (axis != NO_AXIS and shape[axis] > statement.shape[axis]):
                return None
            continue
        distance = offset - stored.offset
        if (axis, step, limits) != (stored.axis, 1, None) or stored.step != 1:
            return None
        if not 0 <= distance <= statement.shape[axis] - shape[axis]:
            return None
        inside[axis] = Affine(axis, 1, distance)
    return tuple(inside)


def _whole(shape: Shape) -> tuple[tuple[int, int], ...]:
    return tuple((0, extent) for extent in shape)
