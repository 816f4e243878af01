# SPDX-License-Identifier: MIT
"""Items of the indices of views."""

from __future__ import annotations

from typing import Any

from celerity_py.vocabulary.parts import IndexSpacePart


def no_integer(item: Any) -> str:
    """Why an item is none of an index, and what to write."""
    if isinstance(item, IndexSpacePart):
        return "A chunk or part is no index, but its box is: view[chunk.box]."
    return "Fancy indexing goes through view.array, whose origin is view.box.min; regions are indexed box by box."


def shifted(item: Any, shift: int) -> Any:
    """An integer or slice of an index, so many elements further on."""
    return slice(item.start + shift, item.stop + shift, item.step) if isinstance(item, slice) else item + shift
