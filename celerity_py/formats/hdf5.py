# SPDX-License-Identifier: MIT
"""Files of HDF5 by h5py, whose wheels know no MPI: the ranks write into one file, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.disk import sync
from celerity_py.formats.libraries import ELEMENT, require, split_element
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import UsageError

_KINDS = "biufc"


class Hdf5:
    """See `Format`."""

    suffixes = (".h5", ".hdf5")
    is_written_in_turn = True

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """See `Format`."""
        require("h5py", path)
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS:
                raise UsageError(
                    f'{path} cannot hold "{name}", whose elements are {array.dtype}: a file of HDF5 gets numbers. Name '
                    f"a .npy file, or use celerity.checkpoint()."
                )
        for key, value in attrs.items():
            if not isinstance(value, str) and np.asarray(value).dtype.kind not in _KINDS:
                raise UsageError(
                    f"{path} cannot hold the attribute {key}={value!r}: attributes of HDF5 are numbers, lists of "
                    f"numbers and strings."
                )

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """See `Format`."""
        return 1

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """See `Format`."""
        with require("h5py", path).File(path, "w") as file:
            file.attrs.update(attrs)
            for name, array in arrays.items():
                made = file.create_dataset(name, array.extents, array.dtype)
                if array.element:
                    made.attrs[ELEMENT] = array.element

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """See `Format`."""
        with require("h5py", path).File(path, "r+") as file:
            file[name][box.slices or ...] = contents
        sync(path)

    def describe(self, path: Path) -> tuple[dict[str, StoredArray], dict[str, Any]]:
        """See `Format`."""
        h5py = require("h5py", path)
        if not h5py.is_hdf5(path):
            raise UsageError(f"{path} is no file of HDF5.")
        arrays: dict[str, StoredArray] = {}

        def note(name: str, found: Any) -> None:
            if isinstance(found, h5py.Dataset) and found.shape is not None and not found.dtype.hasobject:
                arrays[name] = split_element(found.shape, found.dtype, found.attrs)

        with h5py.File(path, "r") as file:
            file.visititems(note)
            attrs = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in file.attrs.items()}
        return arrays, attrs

    def read(self, path: Path, name: str, box: Box) -> npt.NDArray[Any]:
        """See `Format`."""
        with require("h5py", path).File(path, "r") as file:
            return np.asarray(file[name][box.slices or ...])
