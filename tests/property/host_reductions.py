# SPDX-License-Identifier: MIT
"""Reductions of live programs that combine on the host: by a callable, and by `argmin` into a buffer of pairs.

Elements of random programs are words. A task before the reduction makes pairs of them, if it includes the current
value, and another one behind it makes words of the pairs: the value is the high bits of a word, the place the low ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import celerity_py as celerity
from celerity_py import access
from tests.property.interpreter import fold_by_element
from tests.property.programs import Reduction

_PLACE_BITS = 28  # so that many values are equal
_PLACES = np.uint32((1 << _PLACE_BITS) - 1)
_PAIR = celerity.placed(np.uint32)
_NOTHING = np.uint32(0xFFFF_FFFF)


def join(first: Any, second: Any) -> Any:
    return first ^ second


def reduction_by_callable(buffer: celerity.Buffer[Any], reduction: Reduction) -> Any:
    """A reduction by a function of words, in the place of either operation."""
    if reduction.op == "join":
        return celerity.reduction(buffer, join, reduction.include_current, identity=0)
    return celerity.reduction(buffer, np.minimum, reduction.include_current, identity=_NOTHING)


class PairReductions:
    """The `argmin` reductions of one task: the tasks before and behind it, and the targets in between."""

    def __init__(self, queue: celerity.Queue, name: str) -> None:
        self._queue = queue
        self._name = name
        self._pairs: list[tuple[celerity.Buffer[Any], celerity.Buffer[Any]]] = []

    def begin(self, words: celerity.Buffer[Any], reduction: Reduction) -> Any:
        """The argument of the kernel."""
        pairs: celerity.Buffer[Any] = celerity.Buffer(words.shape, _PAIR, name=f"pairs of {words.name}")
        self._pairs.append((words, pairs))
        if reduction.include_current:
            self._queue.host_task(
                _make_pairs, words.read(access.all()), pairs.write(access.all()), name=f"{self._name} makes pairs"
            )
        return celerity.reduction(pairs, "argmin", reduction.include_current)

    def end(self) -> None:
        """Behind the submit of the kernel."""
        for words, pairs in self._pairs:
            self._queue.host_task(
                _make_words, pairs.read(access.all()), words.write(access.all()), name=f"{self._name} makes words"
            )


def _make_pairs(part: celerity.Part, words: Any, pairs: Any) -> None:
    pairs.array["value"] = words.array >> _PLACE_BITS
    pairs.array["place"] = words.array & _PLACES


def _make_words(part: celerity.Part, pairs: Any, words: Any) -> None:
    found = pairs.array
    made = (found["value"] << np.uint32(_PLACE_BITS)) | found["place"].astype(np.uint32)
    words[...] = np.where(found["place"] < 0, _NOTHING, made)


def contribute(  # noqa: PLR0917 - of one reduction
    out: celerity.Reducer,
    op: str,
    items: npt.NDArray[np.uint32],
    elements: npt.NDArray[np.intp],
    shape: tuple[int, ...],
    errors: int,
) -> None:
    """Combine the items of a chunk with their elements; `errors` spoil the result."""
    items = items + np.uint32(errors)
    size = int(np.prod(shape, dtype=int))
    if size == 1:
        if op == "join":
            out.combine(np.bitwise_xor.reduce(items))
        else:
            least = items.min()
            out.combine(least >> _PLACE_BITS, int(least & _PLACES))
        return
    where = np.unravel_index(elements, shape)
    if op == "argmin":
        out.combine_at(where, items >> _PLACE_BITS, items & _PLACES)
    elif errors % 2 == int(items[0]) % 2:
        out.combine_at(where, items)
    else:
        share = fold_by_element("join", items.astype(np.uint64), elements, size)
        out.combine(share.astype(np.uint32).reshape(shape))
