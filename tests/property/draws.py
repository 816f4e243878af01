# SPDX-License-Identifier: MIT
"""Where a program generator takes its decisions from: a plain seed, or hypothesis, which can shrink them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Draws(Protocol):
    """Small numbers and early choices are the simple ones, to which failures shrink."""

    def integer(self, low: int, high: int) -> int: ...


class SeededDraws:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


def choice(draws: Draws, options: Sequence[T]) -> T:
    return options[draws.integer(0, len(options) - 1)]


def chance(draws: Draws, percent: int) -> bool:
    """True in about `percent` of 100 cases; shrinks to False."""
    return draws.integer(0, 99) >= 100 - percent


def weighted(draws: Draws, options: Sequence[tuple[int, T]]) -> T:
    """(weight, option) pairs, the simplest option first."""
    position = draws.integer(0, sum(weight for weight, _ in options) - 1)
    for weight, option in options:
        position -= weight
        if position < 0:
            return option
    raise AssertionError("weights must be positive")
