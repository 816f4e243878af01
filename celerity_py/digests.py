# SPDX-License-Identifier: MIT
"""Digests of array contents, by which ranks that pass different arrays are told apart where everything is checked."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

_BLOCK_BYTES = 1 << 22  # of an array that is not contiguous, copied at a time


def digest_of(array: np.ndarray[Any, Any]) -> int:
    """A number of 64 bits that depends on shape, dtype and every element of an array, but not on its layout.

    The same on all ranks and in all runs. Padding between the fields of a record does not count.

    Args:
        array: Of any dtype that a buffer takes. Must not change meanwhile; any thread.
    """
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{array.shape}{array.dtype.descr}".encode())
    _add(digest, array)
    return int.from_bytes(digest.digest(), "little")


def _add(digest: hashlib.blake2b, array: np.ndarray[Any, Any]) -> None:
    if array.size == 0:
        return
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _add(digest, array[name])
        return
    if array.dtype.char in "gG":  # some of the bytes of a long double hold anything
        rounded = array.astype(np.complex128 if array.dtype.char == "G" else np.float64)
        _add(digest, rounded)
        _add(digest, (array - rounded).astype(rounded.dtype))
        return
    if array.flags.c_contiguous:
        digest.update(array.reshape(-1).view(np.uint8).data)
        return
    if array.ndim == 0 or array[0].nbytes > _BLOCK_BYTES:
        for part in array if array.ndim else (array.copy(),):
            _add(digest, part)
        return
    rows = max(1, _BLOCK_BYTES // max(array[0].nbytes, 1))
    for first in range(0, len(array), rows):
        _add(digest, np.ascontiguousarray(array[first : first + rows]))
