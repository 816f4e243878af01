# SPDX-License-Identifier: MIT
"""The operations and types whose partial results a device combines, and values for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from celerity_py.reductions.operations import OPERATIONS

REAL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
COMPLEX = ("complex64", "complex128")
CASES = [
    (op, dtype)
    for op in OPERATIONS
    for dtype in (*REAL, *COMPLEX)
    if not (op in {"min", "max"} and dtype in COMPLEX) and not (op == "xor" and np.dtype(dtype).kind in "fc")
]


def values_of(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Values that meet in all ways: extrema, zeros of both signs, infinities and NaN among them."""
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        some = np.array([0, 1, 2, limits.min, limits.max], dtype)
        values = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    else:
        some = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], dtype)
        values = rng.normal(size=shape).astype(dtype)
        if dtype in COMPLEX:
            values.imag = rng.normal(size=values.shape)
            some = np.array([0.0, -0.0, 1.0, 1j], dtype)
    is_some = rng.random(values.shape) < 0.5
    values[is_some] = rng.choice(some, int(is_some.sum()))
    return values


def has_same_bits(a: npt.NDArray[Any], b: npt.NDArray[Any], op: str) -> bool:
    """Whether two results are equal to the bit, apart from the bits of NaN that depend on the machine."""
    if a.dtype.kind == "f" and op in {"sum", "prod"}:
        both = np.isnan(a) & np.isnan(b)
        a, b = a[~both], b[~both]
    return a.tobytes() == b.tobytes()
