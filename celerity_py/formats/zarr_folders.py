# SPDX-License-Identifier: MIT
"""Folders of Zarr 3, not compressed: a file per chunk, each of which has one writer.

The library takes 14 ms of a processor to describe a folder. It describes the first one with given arrays, and later
ones get a copy. A chunk that is not compressed is its elements: files of chunks are written without the library.
"""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from celerity_py._native import Box
from celerity_py.formats.disk import bytes_of, write_whole
from celerity_py.formats.libraries import ELEMENT, require, split_element
from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import UsageError

_KINDS: Final = "biufc"
_LONG_DOUBLES: Final = "gG"
_METADATA: Final = "zarr.json"
#: A folder of Zarr has one of these files.
ZARR_MARKS: Final = (_METADATA, ".zgroup", ".zarray")


class Zarr:
    """See `Format`."""

    suffixes = (".zarr", "")
    is_written_in_turn = False

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """See `Format`."""
        require("zarr", path)
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS or array.dtype.char in _LONG_DOUBLES:
                raise UsageError(
                    f'{path} cannot hold "{name}", whose elements are {array.dtype}: Zarr has numbers. Name a .npy '
                    f"file, or use celerity.checkpoint()."
                )

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """See `Format`."""
        return array.chunk(num_writers)[0] if array.shape else 1

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """See `Format`."""
        files = _describe(tuple((name, array, array.chunk(num_writers)) for name, array in arrays.items()))
        for name, text in files.items():
            file = path / name
            file.parent.mkdir()
            file.write_bytes(text)
        described = json.loads(files[_METADATA]) | {"attributes": dict(attrs)}
        (path / _METADATA).write_text(json.dumps(described))

    def write(self, path: Path, name: str, box: Box, contents: npt.NDArray[Any]) -> None:
        """See `Format`."""
        chunk = json.loads((path / name / _METADATA).read_bytes())["chunk_grid"]["configuration"]["chunk_shape"]
        numbers = contents.astype(contents.dtype.newbyteorder("<"), copy=False)
        num_bytes = numbers.itemsize * math.prod(chunk)
        first = box.min[0] // chunk[0] if box.ndim else 0
        grid = (range(-(-extent // size)) for extent, size in zip(contents.shape, chunk, strict=True))
        for place in product(*grid):
            part = numbers[tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, chunk, strict=True))]
            if part.shape[1:] != tuple(chunk[1:]):  # missing rows need no copy: the file is filled up
                whole = np.zeros(chunk, numbers.dtype)
                whole[tuple(map(slice, part.shape))] = part
                part = whole
            key = ".".join(["c", *(str(i + (first if dim == 0 else 0)) for dim, i in enumerate(place))])
            write_whole(path / name / key, bytes_of(part), num_bytes=num_bytes)

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


@lru_cache(maxsize=16)
def _describe(arrays: tuple[tuple[str, StoredArray, tuple[int, ...]], ...]) -> Mapping[str, bytes]:
    """The files of a folder with these arrays and chunks, by their names in it; that of the folder comes first."""
    zarr = require("zarr", Path(_METADATA))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr 3 has no word on metadata of all arrays in one file, which xarray reads
        group = zarr.create_group(folder)
        for name, array, chunk in arrays:
            group.create_array(
                name,
                shape=array.extents,
                dtype=array.dtype,
                chunks=chunk,
                compressors=None,
                fill_value=np.zeros((), array.dtype)[()],
                chunk_key_encoding={"name": "default", "separator": "."},  # all chunks lie in one folder
                dimension_names=[f"{name}_{dimension}" for dimension in range(len(array.extents))],
                attributes={ELEMENT: list(array.element)} if array.element else {},
            )
        zarr.consolidate_metadata(folder)
        names = [_METADATA, *(f"{name}/{_METADATA}" for name, _, _ in arrays)]
        return {name: Path(folder, name).read_bytes() for name in names}
