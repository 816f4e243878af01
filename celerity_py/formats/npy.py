# SPDX-License-Identifier: MIT
"""Files of NumPy: one array, whose rows several ranks write at their places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import UsageError


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
        with path.open("wb") as file:
            start = _write_header(file, array.dtype, array.extents)
            file.truncate(start + array.row_bytes * array.num_rows)

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """See `Format`."""
        with path.open("r+b") as file:
            _read_header(file)
            if box.ndim:
                file.seek(box.min[0] * (contents.nbytes // len(contents)), os.SEEK_CUR)
            file.write(_bytes_of(contents))

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
    with path.open("wb") as file:
        _write_header(file, contents.dtype, contents.shape)
        file.write(_bytes_of(contents))
        file.flush()
        os.fsync(file.fileno())


def _write_header(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, described)
    return int(file.tell())


def _read_header(file: Any) -> None:
    np.lib.format.read_magic(file)
    np.lib.format.read_array_header_2_0(file)


def _bytes_of(contents: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(contents).reshape(-1).view(np.uint8).data
