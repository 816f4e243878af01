# SPDX-License-Identifier: MIT
"""The format of a file, by its name, and one array of a file for a buffer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.hdf5 import Hdf5
from celerity_py.formats.npy import Npy
from celerity_py.formats.stored_arrays import Format, StoredArray
from celerity_py.formats.zarr_folders import Zarr
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.vocabulary.integers import to_ints

_FORMATS: Final[tuple[Format, ...]] = (Zarr(), Npy(), Hdf5())


def to_path(path: Any, call: str) -> Path:
    """The path, from the root of the file system.

    Raises:
        ArgumentTypeError: If it is no path.
    """
    try:
        return Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - `resolve` would follow links
    except TypeError:
        raise ArgumentTypeError(f"{call} takes a path, not {path!r}.") from None


def format_of(path: Path) -> Format:
    """The format that the name of a file ends with.

    Raises:
        UsageError: If there is none of that name.
    """
    for each in _FORMATS:
        if path.suffix.lower() in each.suffixes:
            return each
    raise UsageError(
        f"{path} ends with {path.suffix!r}, which names no format: use .zarr (or no suffix) for a folder of Zarr, .h5 "
        f"or .hdf5 for a file of HDF5, and .npy for one array of NumPy."
    )


class ArrayInFile(NamedTuple):
    """An array of a file, which is read box by box. The file must not change meanwhile."""

    path: Path
    name: str
    array: StoredArray
    kind: Format

    def read(self, box: Box) -> npt.NDArray[Any]:
        """The contents of a box, in the byte order of this machine. Any thread."""
        return self.kind.read(self.path, self.name, box).astype(self.array.dtype, copy=False)


def contents_of(path: Path) -> tuple[dict[str, ArrayInFile], dict[str, Any]]:
    """The arrays of a file by name, and its attributes.

    Raises:
        ResourceError: If the library of the format is not installed.
        UsageError: If there is no such file, or it has another format.
    """
    kind = format_of(path)
    if not path.exists():
        raise UsageError(
            f"There is no file or folder {path}. If this program saves it, call queue.barrier() first: it is written "
            f"behind the program's back."
        )
    arrays, attrs = kind.describe(path)
    # Sorted, as the ranks make buffers in one order, and libraries list arrays in any.
    return {name: ArrayInFile(path, name, arrays[name], kind) for name in sorted(arrays)}, attrs


def array_of(path: Any, name: str | None, element: Any) -> ArrayInFile:
    """One array of a file.

    Args:
        path: Of the file.
        name: Of the array; None if the file has one only.
        element: Extents of an element; None if the file says it.

    Raises:
        ArgumentTypeError: If an argument has another type.
        ResourceError: If the library of the format is not installed.
        UsageError: If there is no such file or array, or it does not end with these extents.
    """
    arrays, _ = contents_of(to_path(path, "Buffer.from_file()"))
    names = sorted(arrays)
    if name is None and len(arrays) != 1:
        raise UsageError(f"{path} has the arrays {names}: name one, as in Buffer.from_file(path, {names[:1]}).")
    found = arrays.get(names[0] if name is None else name)
    if found is None:
        raise UsageError(f"{path} has no array {name!r}, but {names}.")
    if element is None:
        return found
    return found._replace(array=_with_element(found, element))


def _with_element(found: ArrayInFile, element: Any) -> StoredArray:
    extents = found.array.extents
    try:
        wanted = to_ints(element)
    except TypeError:
        raise ArgumentTypeError(f"element= takes an int or a sequence of ints, not {element!r}.") from None
    ndim = len(extents) - len(wanted)
    if ndim < 0 or extents[ndim:] != wanted:
        raise UsageError(
            f"{found.path} got element={wanted}, but its array has the extents {extents}, which do not end with these."
        )
    return StoredArray(extents[:ndim], np.dtype(found.array.dtype), wanted)
