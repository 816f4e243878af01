# SPDX-License-Identifier: MIT
"""The libraries that know a format, and what they say about arrays."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from celerity_py.formats.stored_arrays import StoredArray
from celerity_py.scheduler.errors import ResourceError

#: The attribute of an array with the extents of an element.
ELEMENT: Final = "celerity_element"


def require(library: str, path: Path) -> Any:
    """Import a library that the format of this file needs.

    Raises:
        ResourceError: If it is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ResourceError(
            f"{path} needs {library}, which cannot be imported ({error}): pip install 'celerity_py[io]'. A .npy file "
            f"and celerity.checkpoint() need no library."
        ) from error


def split_element(extents: Sequence[int], dtype: Any, attrs: Mapping[str, Any]) -> StoredArray:
    """The description of an array in a file, whose attributes may have the extents of an element."""
    element = tuple(int(extent) for extent in attrs.get(ELEMENT, ()))
    shape = tuple(int(extent) for extent in extents)
    return StoredArray(shape[: len(shape) - len(element)], np.dtype(dtype).newbyteorder("="), element)
