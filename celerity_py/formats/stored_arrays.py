# SPDX-License-Identifier: MIT
"""What a file says about an array, and what each format does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box

#: Of a chunk of Zarr: large enough for a file, and small enough to be read for a box of it.
_CHUNK_BYTES = 1 << 24


class StoredArray(NamedTuple):
    """The shape and type of an array in a file."""

    shape: tuple[int, ...]  # of a buffer: without the dimensions of an element
    dtype: np.dtype[Any]  # of a number
    element: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the array in the file, which has the dimensions of an element behind those of the shape."""
        return (*self.shape, *self.element)

    @property
    def row_bytes(self) -> int:
        """Of an item along the first dimension."""
        return self.dtype.itemsize * math.prod((*self.shape[1:], *self.element))

    @property
    def num_rows(self) -> int:
        """Along the first dimension; a single value is a row."""
        return self.shape[0] if self.shape else 1

    def chunk(self, num_writers: int) -> tuple[int, ...]:
        """Extents of the chunks of a grid in which each writer has rows of chunks of its own."""
        chunk = [max(1, extent) for extent in self.extents]
        if self.shape:
            chunk[0] = max(1, -(-self.shape[0] // num_writers))
        for dimension, extent in enumerate(chunk):
            rest = self.dtype.itemsize * math.prod(chunk[dimension + 1 :])
            chunk[dimension] = min(extent, max(1, _CHUNK_BYTES // rest))
        return tuple(chunk)


class Format(Protocol):
    """Reads and writes files of one format. Any thread; an instance has no state.

    Raises:
        OSError: From each function, as the operating system refuses.
        UsageError: From `describe`, if the file is of another format.
    """

    @property
    def suffixes(self) -> Sequence[str]:
        """Of names of files."""

    @property
    def is_written_in_turn(self) -> bool:
        """Whether one rank at a time may have the file open to write."""

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """Refuse what the format cannot hold.

        Raises:
            ResourceError: If the library of the format is not installed.
            UsageError: If arrays or attributes do not fit.
        """

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """So many rows, from a multiple of their number on, have one writer."""

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """Make a file with arrays of zeros. It need not be on the disk yet."""

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """Write whole rows of an array, and wait until the disk has them."""

    def describe(self, path: Path) -> tuple[dict[str, StoredArray], dict[str, Any]]:
        """The arrays of a file by name, and its attributes."""

    def read(self, path: Path, name: str, box: Box) -> npt.NDArray[Any]:
        """Read a box of an array."""
