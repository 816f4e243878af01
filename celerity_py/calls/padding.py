# SPDX-License-Identifier: MIT
"""Where the elements of a padded array come from: `View.padded`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, get_args

from celerity_py._native import Box
from celerity_py.scheduler.errors import UsageError
from celerity_py.vocabulary.integers import to_ints
from celerity_py.vocabulary.notation import show
from celerity_py.vocabulary.static_types import PaddingMode

_MODES = get_args(PaddingMode)
_WIDEN = 'Declare the access with access.neighborhood() of these widths, without shape="axes", or take a smaller halo.'


class _Stretch(NamedTuple):
    """In one dimension, elements of the padded array and the elements of the buffer that they take their values from.

    A single element of the buffer may stand for several of the array.
    """

    begin: int
    end: int
    source_begin: int
    source_end: int


def modes_of(mode: Any, ndim: int, use: str) -> tuple[PaddingMode, ...]:
    """One mode per dimension.

    Args:
        mode: A mode for all dimensions, or a sequence of one per dimension.
        ndim: The number of dimensions.
        use: Who pads which buffer, as the beginning of a sentence.

    Raises:
        UsageError: If it is something else.
    """
    modes = tuple(mode) if isinstance(mode, tuple | list) else (mode,) * ndim
    if len(modes) != ndim or any(not isinstance(one, str) or one not in _MODES for one in modes):
        raise UsageError(
            f'{use} with mode={mode!r}. The modes are "constant", "edge" and "wrap": one for all dimensions, or one '
            f"for each of the {ndim}."
        )
    return modes


def remedy_of(modes: tuple[PaddingMode, ...]) -> str:
    """The remedy for an access that does not declare an element of the padded array."""
    if "wrap" not in modes:
        return _WIDEN
    flags = "True" if set(modes) == {"wrap"} else f"({', '.join(str(mode == 'wrap') for mode in modes)})"
    return f'Declare the access with access.neighborhood(..., wrap={flags}) of these widths, without shape="axes".'


def grow(box: Box, halo: Any, use: str) -> Box:
    """The box with the halo around it; an empty box stays empty.

    Args:
        box: Global coordinates.
        halo: In elements, an integer or one per dimension of the box.
        use: Who pads which buffer, as the beginning of a sentence.

    Raises:
        UsageError: If the halo does not fit the box, is negative, or takes the box beyond 64 bits.
    """
    try:
        widths = to_ints(halo)
    except TypeError:
        widths = (-1,)
    if len(widths) == 1 and not hasattr(halo, "__len__"):
        widths *= box.ndim
    if len(widths) != box.ndim or any(width < 0 for width in widths):
        raise UsageError(
            f"{use} with halo={halo!r}. The halo is an integer of at least 0 for all dimensions, or one per dimension "
            f"of {show(box)}."
        )
    return box.grow(*widths)


def sources(grown: Box, whole: Box, modes: tuple[PaddingMode, ...]) -> Iterator[tuple[tuple[slice, ...], Box]]:
    """The parts of a padded array, and the box of the buffer that fills each one; other parts keep a constant.

    Args:
        grown: The elements of the array, in global coordinates.
        whole: The box of the buffer.
        modes: One per dimension.
    """
    lines = zip(grown.min, grown.max, whole.max, modes, strict=True)
    for stretches in product(*(list(_stretches(*line)) for line in lines)):
        placed = zip(stretches, grown.min, strict=True)
        part = tuple(slice(stretch.begin - low, stretch.end - low) for stretch, low in placed)
        yield part, Box([stretch.source_begin for stretch in stretches], [stretch.source_end for stretch in stretches])


def _stretches(low: int, high: int, extent: int, mode: PaddingMode) -> Iterator[_Stretch]:
    """The stretches from `low` to `high` in a dimension of so many elements."""
    if mode == "wrap":
        while low < high:
            source = low % extent
            length = min(high - low, extent - source)
            yield _Stretch(low, low + length, source, source + length)
            low += length
        return
    inner_low, inner_high = max(low, 0), min(high, extent)
    if inner_low < inner_high:
        yield _Stretch(inner_low, inner_high, inner_low, inner_high)
    if mode == "edge":
        if low < 0:
            yield _Stretch(low, min(high, 0), 0, 1)
        if high > extent:
            yield _Stretch(max(low, extent), high, extent - 1, extent)
