# SPDX-License-Identifier: MIT
"""Bit patterns that mark an element as unwritten, for CELERITY_CHECK.

No kernel may write the pattern itself. For floating-point numbers it is a NaN that no computation makes, for bools a
byte that is neither true nor false. Integers have no such value. Each gets random bits of its own, with which the
result of a kernel agrees only by chance, with a known probability.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final, NamedTuple

import numpy as np

#: The mark of a NaN: the nine bits after the quiet bit. Arithmetic on the host keeps them.
UNWRITTEN: Final = 0x0B5
#: The first mark of elements outside of a region; each access has one of its own.
_OUTSIDE: Final = 0x160
_MOST_MARKS: Final = 0x20
_NO_TRUTH_VALUE: Final = 0xA5


class Fill(NamedTuple):
    """How the elements of a dtype are filled: each as `num_words` words."""

    word: np.dtype[Any]
    num_words: int
    #: The bits that all words have in common; None for random words.
    base: int | None
    #: Where the mark of a NaN begins; None where there is no NaN.
    shift: int | None
    #: Bounds the probability that a kernel writes the pattern of an element.
    chance: float

    def constant(self, mark: int) -> Any:
        """The word of all elements; None if words are random."""
        if self.base is None:
            return None
        return self.word.type(self.base if self.shift is None else self.base | mark << self.shift)

    def marks_in(self, words: Any) -> Any:
        """The mark of each word; 0 where it is no quiet NaN."""
        assert self.base is not None
        assert self.shift is not None
        base = self.word.type(self.base)
        return ((words >> self.word.type(self.shift)) & self.word.type(0x1FF)) * ((words & base) == base)

    def random(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Random words for the elements of an array of this shape."""
        size = int(np.prod(shape, dtype=np.int64)) * self.num_words
        words = np.frombuffer(generator.bytes(size * self.word.itemsize), self.word)
        if self.num_words == 1 and self.word.itemsize > 1:  # neither small nor negative, unlike most values
            bits = 8 * self.word.itemsize
            words = words & self.word.type((1 << (bits - 2)) - 1) | self.word.type(1 << (bits - 2))
        return words.reshape((*shape, self.num_words))


@functools.lru_cache(maxsize=256)
def fill_of(dtype: np.dtype[Any]) -> Fill:
    """How elements of this dtype are filled."""
    if dtype.shape:
        number = fill_of(dtype.base)
        return number._replace(num_words=number.num_words * math.prod(dtype.shape))
    size = dtype.itemsize
    component = size // 2 if dtype.kind == "c" else size
    if dtype.kind in "fc" and component in {2, 4, 8}:
        mantissa = {2: 10, 4: 23, 8: 52}[component]
        quiet_nan = (1 << (8 * component - 1)) - (1 << (mantissa - 1))
        return Fill(np.dtype(f"u{component}"), size // component, quiet_nan, mantissa - 10, 0.0)
    if dtype.kind == "b":
        return Fill(np.dtype(np.uint8), 1, _NO_TRUTH_VALUE, None, 0.0)
    word = next(width for width in (8, 4, 2, 1) if size % width == 0)
    fixed_bits = 2 if word == size > 1 else 0
    return Fill(np.dtype(f"u{word}"), size // word, None, None, 2.0 ** (fixed_bits - 8 * size))


def outside(position: int) -> int:
    """The mark of elements outside of the region of the access at this position."""
    return _OUTSIDE + position % _MOST_MARKS


def position_of(mark: int) -> int | None:
    """The access that a mark belongs to; None if it is no mark of `outside`."""
    return mark - _OUTSIDE if _OUTSIDE <= mark < _OUTSIDE + _MOST_MARKS else None
