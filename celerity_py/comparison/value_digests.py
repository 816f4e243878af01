# SPDX-License-Identifier: MIT
"""Digests of values; ranks that run other code or pass other values have other digests."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np

_MOST_WHOLE_BYTES = 1 << 12
_NUM_SAMPLES = 64
_BLOCK_BYTES = 1 << 22  # of an array that is not contiguous, copied at a time


def digest_of(value: Any) -> int:
    """A number of 64 bits that depends on all of a value; the same on all ranks and in all runs.

    Args:
        value: A number, text, array, or a sequence, dictionary or dataclass of these; of anything else only the type
            counts. Of an array shape, dtype and every element count, but not its layout, nor padding between the fields
            of a record. Must not change meanwhile; any thread.
    """
    digest = hashlib.blake2b(digest_size=8)
    _add(digest, value)
    return int.from_bytes(digest.digest(), "little")


def sampled_digest_of(value: Any) -> int:
    """As `digest_of`, but of an array of more than 4 KiB only 64 elements count, spread over the array."""
    if isinstance(value, np.ndarray) and value.nbytes > _MOST_WHOLE_BYTES and not value.dtype.hasobject:
        positions = np.linspace(0, value.size - 1, _NUM_SAMPLES).astype(np.int64)
        return digest_of([value.shape, value[np.unravel_index(positions, value.shape)]])
    return digest_of(value)


def digest_of_argument(value: Any) -> int:
    """The digest of a plain argument of a kernel; 0 for a list, or another object that the task shares."""
    if isinstance(value, tuple):
        return digest_of([type(value).__qualname__, *map(digest_of_argument, value)])
    if _is_dataclass(value) and value.__dataclass_params__.frozen:
        return digest_of([type(value).__qualname__, *map(digest_of_argument, _fields_of(value))])
    is_value = value is None or isinstance(value, np.ndarray | np.generic | bool | int | float | complex | str | bytes)
    return sampled_digest_of(value) if is_value else 0


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields_of(value: Any) -> list[Any]:
    return [getattr(value, field.name, None) for field in dataclasses.fields(value)]


def _add(digest: hashlib.blake2b, value: Any) -> None:
    digest.update(type(value).__qualname__.encode())
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if not array.dtype.hasobject:
            _add_text(digest, f"{array.shape}{_descr_of(array.dtype)}".encode())
            _add_elements(digest, array)
    elif isinstance(value, list | tuple):
        _add_text(digest, b"%d" % len(value))
        for item in value:
            _add(digest, item)
    elif isinstance(value, dict):
        _add_text(digest, b"%d" % len(value))
        for key, item in value.items():
            _add(digest, key)
            _add(digest, item)
    elif _is_dataclass(value):
        _add(digest, _fields_of(value))
    elif isinstance(value, bytes):
        _add_text(digest, value)
    elif value is None or isinstance(value, bool | int | float | complex | str):
        _add_text(digest, repr(value).encode(errors="backslashreplace"))


@functools.lru_cache(maxsize=256)
def _descr_of(dtype: np.dtype[Any]) -> str:
    return str(dtype.descr)  # NumPy makes it in Python, which costs more than the digest of a small array


def _add_text(digest: hashlib.blake2b, text: bytes) -> None:
    digest.update(b"%d:" % len(text) + text)


def _add_elements(digest: hashlib.blake2b, array: np.ndarray[Any, Any]) -> None:
    if array.size == 0:
        return
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _add_elements(digest, array[name])
        return
    if array.dtype.char in "gG":  # some of the bytes of a long double hold anything
        rounded = array.astype(np.complex128 if array.dtype.char == "G" else np.float64)
        _add_elements(digest, rounded)
        _add_elements(digest, (array - rounded).astype(rounded.dtype))
        return
    if array.flags.c_contiguous:
        digest.update(array.reshape(-1).view(np.uint8).data)
        return
    if array.ndim == 0 or array[0].nbytes > _BLOCK_BYTES:
        for part in array if array.ndim else (array.copy(),):
            _add_elements(digest, part)
        return
    rows = max(1, _BLOCK_BYTES // max(array[0].nbytes, 1))
    for first in range(0, len(array), rows):
        _add_elements(digest, np.ascontiguousarray(array[first : first + rows]))
