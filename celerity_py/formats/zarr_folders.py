# SPDX-License-Identifier: MIT
"""Folders of Zarr 3, not compressed: a file per chunk, each of which has one writer.

They are written without the library, which takes 14 ms of a processor per folder where this takes 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
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

#: What Zarr calls elements that are zero, by the letter of their kind. Its types have the names of NumPy.
_ZEROS: Final = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": [0.0, 0.0]}
_LONGEST: Final = {"f": 8, "c": 16}  # bytes of an element
_METADATA: Final = "zarr.json"


class Zarr:
    """See `Format`."""

    suffixes = (".zarr", "")
    is_written_in_turn = False

    def check(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any]) -> None:
        """See `Format`."""
        for name, array in arrays.items():
            kind = array.dtype.kind
            if kind not in _ZEROS or array.dtype.itemsize > _LONGEST.get(kind, 8):
                raise UsageError(
                    f'{path} cannot hold "{name}", whose elements are {array.dtype}: Zarr has numbers. Name a .npy '
                    f"file, or use celerity.checkpoint()."
                )

    def rows_together(self, array: StoredArray, num_writers: int) -> int:
        """See `Format`."""
        return array.chunk(num_writers)[0] if array.shape else 1

    def create(self, path: Path, arrays: Mapping[str, StoredArray], attrs: Mapping[str, Any], num_writers: int) -> None:
        """See `Format`."""
        path.mkdir()
        described = {name: _describe(name, array, num_writers) for name, array in arrays.items()}
        for name, text in described.items():
            (path / name).mkdir()
            _write_json(path / name / _METADATA, text)
        consolidated = {"kind": "inline", "must_understand": False, "metadata": described}
        group = {"attributes": dict(attrs), "zarr_format": 3, "node_type": "group"}
        _write_json(path / _METADATA, group | {"consolidated_metadata": consolidated})

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


def _describe(name: str, array: StoredArray, num_writers: int) -> dict[str, Any]:
    """What a folder says about an array. The keys of chunks have dots: all chunks lie in one folder."""
    order = {"configuration": {"endian": "little"}} if array.dtype.itemsize > 1 else {}
    return {
        "shape": array.extents,
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.chunk(num_writers)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": _ZEROS[array.dtype.kind],
        "codecs": [{"name": "bytes", **order}],
        "attributes": {ELEMENT: array.element} if array.element else {},
        "dimension_names": [f"{name}_{dimension}" for dimension in range(len(array.extents))],
        "zarr_format": 3,
        "node_type": "array",
    }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
