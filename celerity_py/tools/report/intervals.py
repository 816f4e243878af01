# SPDX-License-Identifier: MIT
"""Arithmetic on sets of intervals of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from celerity_py.tools.report.runs import Floats


class Intervals(NamedTuple):
    """Disjoint intervals in ascending order."""

    start: Floats
    end: Floats

    @property
    def length(self) -> float:
        """Of all together."""
        return float((self.end - self.start).sum())

    def up_to(self, times: Floats) -> Floats:
        """How much of the intervals lies before each time."""
        if len(self.start) == 0:
            return np.zeros(len(times))
        before = np.concatenate(([0.0], np.cumsum(self.end - self.start)))
        place = np.searchsorted(self.start, times, side="right")
        within = np.minimum(times, self.end[np.maximum(place - 1, 0)]) - self.start[np.maximum(place - 1, 0)]
        covered: Floats = np.where(place > 0, before[np.maximum(place - 1, 0)] + within, 0.0)
        return covered

    def common_with(self, other: Intervals) -> float:
        """The length of what both cover."""
        return float((self.up_to(other.end) - self.up_to(other.start)).sum())


def union(start: Floats, end: Floats) -> Intervals:
    """All intervals together, without what they have in common; empty ones do not count."""
    is_real = end > start
    start, end = start[is_real], end[is_real]
    if len(start) == 0:
        return Intervals(np.zeros(0), np.zeros(0))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    is_first = np.concatenate(([True], start[1:] > end[:-1]))
    firsts = np.flatnonzero(is_first)
    lasts = np.concatenate((firsts[1:] - 1, [len(start) - 1]))
    return Intervals(start[firsts], end[lasts])
