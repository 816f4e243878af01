# SPDX-License-Identifier: MIT
"""Arrays larger than the machine's memory, of which only the touched pages exist."""

from __future__ import annotations

import math
import mmap

import numpy as np
import numpy.typing as npt

# Linux promises memory only if it could keep the promise, unless asked not to. The constant is newer than Python 3.11.
_NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000)


def sparse_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, math.prod(shape) * np.dtype(dtype).itemsize, flags=flags)
    return np.frombuffer(memory, dtype).reshape(shape)
