# SPDX-License-Identifier: MIT
"""Folders of Zarr: a file per chunk, each of which has one writer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.libraries import ELEMENT, require, split_element
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import UsageError

_KINDS = "biufc"


class Zarr:
    """See `Format`."""

    suffixes = (".zarr", "")
    is_written_in_turn = False

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """See `Format`."""
        require("zarr", path)
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS:
                raise UsageError(
                    f'{path} cannot hold "{name}", whose elements are {array.dtype}: Zarr has numbers. Name a .npy '
                    f"file, or use celerity.checkpoint()."
                )

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """See `Format`."""
        return array.chunk(num_writers)[0] if array.shape else 1

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """See `Format`."""
        group = require("zarr", path).create_group(path, attributes=dict(attrs))
        for name, array in arrays.items():
            group.create_array(
                name,
                shape=array.extents,
                dtype=array.dtype,
                chunks=array.chunk(num_writers),
                compressors=None,
                fill_value=np.zeros((), array.dtype)[()],
                dimension_names=[f"{name}_{dimension}" for dimension in range(len(array.extents))],
                attributes={ELEMENT: list(array.element)} if array.element else {},
            )

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """See `Format`."""
        array = require("zarr", path).open_array(path / name, mode="r+")
        array[box.slices or ...] = contents

    def describe(self, path: Path) -> tuple[dict[str, StoredArray], dict[str, Any]]:
        """See `Format`."""
        zarr = require("zarr", path)
        try:
            found = zarr.open(path, mode="r")
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise UsageError(f"{path} is no folder of Zarr: {error}") from error
        named = {"": found} if isinstance(found, zarr.Array) else dict(found.arrays())
        arrays = {name: split_element(array.shape, array.dtype, array.attrs) for name, array in named.items()}
        return arrays, dict(found.attrs)

    def read(self, path: Path, name: str, box: Box) -> npt.NDArray[Any]:
        """See `Format`."""
        array = require("zarr", path).open_array(path / name, mode="r")
        return np.asarray(array[box.slices or ...])
