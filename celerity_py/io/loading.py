# SPDX-License-Identifier: MIT
"""`celerity.io.load`: buffers whose contents are read from a file where a device needs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from celerity_py.buffer import Buffer
from celerity_py.formats.choice import contents_of, to_path
from celerity_py.scheduler.errors import UsageError

_CALL = "celerity.io.load()"


class Loaded(Mapping[str, Buffer[Any]]):
    """Buffers by name, from a file. Any thread may look at it.

    Attributes:
        attrs: The attributes of the file.
    """

    def __init__(self, buffers: Mapping[str, Buffer[Any]], attrs: Mapping[str, Any]) -> None:
        self._buffers = dict(buffers)
        self.attrs = dict(attrs)

    def __getitem__(self, name: str) -> Buffer[Any]:
        return self._buffers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffers)

    def __len__(self) -> int:
        return len(self._buffers)

    def __repr__(self) -> str:
        return f"<Loaded {list(self._buffers)}>"


def load(path: str | os.PathLike[str]) -> Loaded:
    """Make a buffer for each array of a file. Collective.

    The shapes are read now, and the contents when a task needs them: each rank reads the boxes that it needs, on a
    thread of the runtime. The file must not change before. `Buffer.from_file` makes a buffer for one array.

    Args:
        path: Its suffix names the format, as for `save`. All ranks need to see it.

    Returns:
        The buffers by the names of their arrays.

    Raises:
        ArgumentTypeError: If the path is none.
        DimensionMismatch: If an array has more than three dimensions.
        ResourceError: If the library of the format is not installed.
        UsageError: If there is no such file, it has another format, or no arrays.
        NestedUse: If called inside of a kernel, host task, mapper or callback.
        CelerityError: If an earlier task failed.
    """
    target = to_path(path, _CALL)
    arrays, attrs = contents_of(target)
    if not arrays:
        raise UsageError(f"{target} has no arrays.")
    named, frame = {name or target.stem: found for name, found in arrays.items()}, sys._getframe(1)
    buffers = {name: Buffer._read_by(found.read, found.array, name, frame) for name, found in named.items()}
    return Loaded(buffers, attrs)
