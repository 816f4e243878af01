# SPDX-License-Identifier: MIT
"""Arrays of the program whose values the runtime needs later: copied, unless nobody can change them."""

from __future__ import annotations

from typing import Any

import numpy as np


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only array of the same values: the array itself if it cannot change, otherwise a copy."""
    if _cannot_change(array):
        return array
    kept = np.array(array, order="K", copy=True, subok=True)
    kept.flags.writeable = False
    return kept


def _cannot_change(array: Any) -> bool:
    """Whether an array is read-only until its owner makes it writable again."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        if array.base is None:
            return bool(array.flags.owndata)
        array = array.base
    return isinstance(array, bytes)
