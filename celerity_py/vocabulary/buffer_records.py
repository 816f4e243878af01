# SPDX-License-Identifier: MIT
"""The runtime's records of buffers."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Protocol

from celerity_py._native import Box
from celerity_py.vocabulary.notation import label_of_buffer, printable
from celerity_py.vocabulary.type_rules import describe_type

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from weakref import ReferenceType

    import numpy as np

    from celerity_py.vocabulary.submissions import Site

_MORE_THAN_ANY_MEMORY = 1 << 50


class BufferOwner(Protocol):
    """The runtime, as far as buffers know it."""

    #: The `RunState`.
    state: Any
    #: Threads that run functions of the user.
    inside: Any

    @property
    def checks_values(self) -> bool:
        """Whether the values of arrays are checked that go into buffers, and not only their dtypes."""

    def keep_record(self, record: BufferRecord) -> None:
        """Keep a record of which the executor calls functions."""

    def destroy_buffer(self, record: BufferRecord) -> None:
        """Free a buffer after its last use."""

    def refuse_in_recording(self, call: str) -> None:
        """Refuse a call in a function that is being recorded."""


class BufferRecord:
    """The part of a buffer that outlives the user's handle: submissions keep it until they are retired."""

    __slots__ = (
        "arrays",
        "box",
        "combinations",
        "context",
        "dtype",
        "handle",
        "id",
        "initializer",
        "name",
        "runtime",
        "shape",
        "site",
    )

    #: Set, with `id`, when the runtime makes the buffer.
    runtime: BufferOwner
    #: The user's handle, as long as it lives.
    handle: ReferenceType[Any]

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, site: Site) -> None:
        self.id = 0
        self.shape = shape
        #: Of an element: with `element=` a subarray dtype, whose `base` is that of the numbers, and `shape` that of
        #: an element. NumPy makes arrays with the dimensions of an element behind those of the buffer from it.
        self.dtype = dtype
        #: As messages show it.
        self.name = printable(name)
        #: Where the buffer was made, for errors of its initial contents.
        self.site = site
        self.box = Box((0,) * len(shape), shape)
        #: `fn(box) -> array`, or None.
        self.initializer: Callable[[Box], Any] | None = None
        #: The context variables of the program when it made the buffer, such as NumPy's error state.
        self.context = contextvars.copy_context()
        #: By allocation: the sources of arrays for writing and for reading, and the allocated box.
        self.arrays: dict[Hashable, tuple[Any, Any, Box]] = {}
        #: The operations by which NumPy combines partial results for this buffer; the executor numbers them from 0.
        self.combinations: list[Any] = []

    @property
    def type_name(self) -> str:
        """The type of an element, for messages and comparisons."""
        return describe_type(self.dtype)

    @property
    def checks_values(self) -> bool:
        """Whether the values of arrays are checked that go into the buffer, and not only their dtypes."""
        return self.runtime.checks_values

    @property
    def num_bytes(self) -> int:
        """The size of all its elements. Of a buffer that no memory holds as a whole, a bound that no memory reaches."""
        return min(self.box.size * self.dtype.itemsize, _MORE_THAN_ANY_MEMORY)

    @property
    def label(self) -> str:
        """Id and name, as in `B3 "u"`."""
        return label_of_buffer(self.id, self.name)
