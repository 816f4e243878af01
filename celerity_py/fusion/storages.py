# SPDX-License-Identifier: MIT
"""What arrays refer to and share, as in NumPy: elements of a memory, or of a value that a function has computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from celerity_py.fusion.coordinates import identity
from celerity_py.fusion.mistakes import NotTakenError, at_line
from celerity_py.fusion.nodes import Insert, Node, selected
from celerity_py.scheduler.errors import ReadOnlyAccess

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from celerity_py.fusion.coordinates import Positions, Shape
    from celerity_py.fusion.memories import Memory
    from celerity_py.fusion.trace import Trace


class Storage(Protocol):
    """The elements behind an array and its references; `positions` say where those of the array lie."""

    dtype: np.dtype[Any]

    def read(self, positions: Positions, shape: Shape) -> Node:
        """The elements as they are now."""

    def write(self, positions: Positions, value: Node) -> None:
        """Replace them by elements of the same dtype; the positions are on the axes of the value."""


class BufferStorage:
    """Elements of a buffer, through an access."""

    def __init__(self, trace: Trace, memory: Memory, writable: bool) -> None:
        self.dtype = memory.dtype
        self._trace = trace
        self._memory = memory
        self._writable = writable

    def read(self, positions: Positions, shape: Shape) -> Node:
        """As in `Storage`."""
        return self._trace.read(self._memory, positions, shape)

    def write(self, positions: Positions, value: Node) -> None:
        """As in `Storage`.

        Raises:
            ReadOnlyAccess: If the access only reads.
        """
        if not self._writable:
            raise ReadOnlyAccess(
                f"The array aliases a read access to {self._memory.label}, and is written {at_line()}. Declare the "
                f"access as read_write, or write into array.copy()."
            )
        self._trace.store(self._memory, positions, value)


class ValueStorage:
    """Elements that the function has computed. They need no memory: an assignment makes another expression."""

    def __init__(self, node: Node) -> None:
        self.dtype = node.dtype
        self._node = node

    def read(self, positions: Positions, shape: Shape) -> Node:
        """As in `Storage`."""
        return selected(self._node, positions, shape)

    def write(self, positions: Positions, value: Node) -> None:
        """As in `Storage`."""
        old = self._node
        if value.shape == old.shape and positions == identity(len(old.shape)):
            self._node = value
        elif 0 not in value.shape:
            self._node = Insert(old.dtype, old.shape, old, value, positions)


class DerivedStorage:
    """Parts of the elements of another array, such as real parts; they follow its changes."""

    def __init__(self, read: Callable[[], Node], dtype: np.dtype[Any], what: str) -> None:
        self.dtype = dtype
        self._read = read
        self._what = what

    def read(self, positions: Positions, shape: Shape) -> Node:
        """As in `Storage`."""
        return selected(self._read(), positions, shape)

    def write(self, positions: Positions, value: Node) -> NoReturn:
        """Refuse it.

        Raises:
            NotTakenError: Always.
        """
        raise NotTakenError(
            f"Assignments to {self._what} {at_line()} are not fused yet. Assign whole numbers of its type."
        )
