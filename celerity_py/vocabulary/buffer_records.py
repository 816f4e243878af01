# SPDX-License-Identifier: MIT
"""The runtime's records of buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celerity_py._native import Box
from celerity_py.vocabulary.type_rules import describe_type

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from weakref import ReferenceType

    import numpy as np

    from celerity_py.buffer import Buffer
    from celerity_py.runtime.runtime import Runtime
    from celerity_py.vocabulary.combinations import Combination
    from celerity_py.vocabulary.submissions import Site


class BufferRecord:
    """The part of a buffer that outlives the user's handle: submissions keep it until they are retired."""

    __slots__ = (
        "arrays",
        "box",
        "combinations",
        "dtype",
        "handle",
        "id",
        "initializer",
        "lent_bytes",
        "name",
        "runtime",
        "shape",
        "site",
    )

    #: Set, with `id`, when the runtime makes the buffer.
    runtime: Runtime
    #: The user's handle, as long as it lives.
    handle: ReferenceType[Buffer]

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, site: Site) -> None:
        self.id = 0
        self.shape = shape
        #: Of an element: with `element=` a subarray dtype, whose `base` is that of the numbers, and `shape` that of
        #: an element. NumPy makes arrays with the dimensions of an element behind those of the buffer from it.
        self.dtype = dtype
        self.name = name
        #: Where the buffer was made, for errors of its initial contents.
        self.site = site
        self.box = Box((0,) * len(shape), shape)
        #: Of the arrays with initial contents, which the run keeps until the last use of the buffer.
        self.lent_bytes = 0
        #: `fn(box) -> array`, or None.
        self.initializer: Callable[[Box], Any] | None = None
        #: By allocation: the sources of arrays for writing and for reading, and the allocated box.
        self.arrays: dict[Hashable, tuple[Any, Any, Box]] = {}
        #: The operations by which NumPy combines partial results for this buffer; the executor numbers them from 0.
        self.combinations: list[Combination] = []

    @property
    def type_name(self) -> str:
        """The type of an element, for messages and comparisons."""
        return describe_type(self.dtype)

    @property
    def checks_values(self) -> bool:
        """Whether the values of arrays are checked that go into the buffer, and not only their dtypes."""
        return self.runtime.call_checks is not None

    @property
    def label(self) -> str:
        """Id and name, as in `B3 "u"`."""
        return f'B{self.id} "{self.name}"' if self.name else f"B{self.id}"
