# SPDX-License-Identifier: MIT
"""Boxes, regions, indices and names as messages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from celerity_py._native import Box, Region


def show(where: Any) -> str:
    """A box, region or index as `[0:128, 64:65]`."""
    if isinstance(where, Box):
        return f"[{', '.join(f'{a}:{b}' for a, b in zip(where.min, where.max, strict=True))}]"
    if isinstance(where, Region):
        boxes = where.boxes
        return show(boxes[0]) if len(boxes) == 1 else f"{{{', '.join(map(show, boxes))}}}"
    items = where if isinstance(where, tuple) else (where,)
    return f"[{', '.join(map(_show_item, items))}]"


def printable(name: str) -> str:
    r"""A name with escapes, such as `\x1b`, for its control characters: a terminal and a log would obey them.

    Halves of surrogate pairs stay, and are refused elsewhere.
    """
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() or is_half(each) else ascii(each)[1:-1] for each in name)


def is_half(character: str) -> bool:
    """Whether it is half of a surrogate pair, which is no character."""
    return "\ud800" <= character <= "\udfff"


def label_of_buffer(number: int, name: str) -> str:
    """Id and name, as in `B3 "u"`; the id alone for a buffer without a name."""
    return f'B{number} "{name}"' if name else f"B{number}"


def widen_mapper(first: Sequence[int], last: Sequence[int], accessed: Box, local: str) -> str:
    """The remedy for an index outside of an access; `local` is that for an index that counts from its beginning."""
    remedy = "widen the range mapper of this access"
    may_be_local = all(a >= 0 and b < extent for a, b, extent in zip(first, last, accessed.shape, strict=True))
    if any(accessed.min) and may_be_local:
        beginning = f"Indices are global coordinates, and this access begins at {show(accessed.min)}"
        return f"{beginning}: if the index counts from there, {local}. Otherwise {remedy}"
    return remedy.capitalize()


def _show_item(item: Any) -> str:
    if item is ...:
        return "..."
    if isinstance(item, slice):
        start, stop = ("" if bound is None else str(bound) for bound in (item.start, item.stop))
        return f"{start}:{stop}" if item.step is None else f"{start}:{stop}:{item.step}"
    if isinstance(item, Box | Region):
        return show(item)
    return str(item) if isinstance(item, SupportsIndex) and not hasattr(item, "shape") else type(item).__name__
