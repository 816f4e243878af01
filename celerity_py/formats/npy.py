# SPDX-License-Identifier: MIT
"""Files of NumPy: one array, whose rows several ranks write at their places."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.disk import bytes_of, write_whole
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import UsageError

#: Of a file of version 2: a magic number, the version, and the length of the rest of the header.
_PREFIX: Final = struct.Struct("<8sI")


class Npy:
    """See `Format`. The only array has the name of the file."""

    suffixes = (".npy",)
    is_written_in_turn = False

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """See `Format`."""
        if len(arrays) > 1 or attrs:
            what = f"{len(arrays)} buffers" if len(arrays) > 1 else f"the attributes {sorted(attrs)}"
            raise UsageError(f"{path} got {what}, but a .npy file holds one array alone. Name a .zarr folder.")

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """See `Format`."""
        return 1

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """See `Format`."""
        (array,) = arrays.values()
        header = _header(array.dtype, array.extents)
        with path.open("wb") as file:
            file.write(header)
            file.truncate(len(header) + array.row_bytes * array.num_rows)

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """See `Format`."""
        with path.open("r+b") as file:
            start = file.read(_PREFIX.size)
            row = box.min[0] * (contents.nbytes // len(contents)) if box.ndim else 0
            file.seek(_PREFIX.unpack(start)[1] + row, os.SEEK_CUR)
            file.write(bytes_of(contents))
            file.flush()
            os.fsync(file.fileno())

    def describe(self, path: Path) -> tuple[dict[str, StoredArray], dict[str, Any]]:
        """See `Format`."""
        try:
            array = np.load(path, mmap_mode="r")
        except (EOFError, ValueError) as error:
            raise UsageError(f"{path} is no whole .npy file of numbers: {error}.") from error
        return {path.stem: StoredArray(array.shape, array.dtype.newbyteorder("="))}, {}

    def read(self, path: Path, name: str, box: Box) -> npt.NDArray[Any]:
        """See `Format`."""
        # Copied, so that neither the mapping nor its pages stay.
        return np.array(np.load(path, mmap_mode="r")[box.slices])


def write_npy(path: Path, contents: npt.NDArray[Any]) -> None:
    """Write a whole file, and wait until the disk has it."""
    write_whole(path, bytes_of(contents), _header(contents.dtype, contents.shape))


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_2_0(file, described)
    return file.getvalue()
