# SPDX-License-Identifier: MIT
"""The timeline of a report in levels of detail, so that its size has a bound.

A short run is there slice by slice. Of a longer one, each row shows how busy it was in each of many bins of time, and
a few windows of time show the slices: around the begin, the middle and the end, and the longest wait on the critical
path. With very many tracks, a row stands for all devices of a rank, or of several ranks.
"""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.critical_path import CAUSES
from celerity_py.tools.report.intervals import union
from celerity_py.tools.report.runs import Floats, Integers, Rank, Run

#: Runs with more slices are shown in bins.
MAX_SLICES: Final = 50_000
_MAX_ROWS: Final = 256
_MAX_BINS: Final = 120_000  # of all rows
_BINS_PER_ROW: Final = 4096
_WINDOW_SLICES: Final = 8_000  # of all rows in one window
_MAX_NAMES: Final = 2000
_MAX_SEGMENTS: Final = 6000
_NAME_LENGTH: Final = 120
_TICKS: Final = 2**32 - 1


class _Row(NamedTuple):
    label: str
    start: Floats
    end: Floats
    #: Index of the entry with the name.
    entry: Integers
    #: How many lanes the row stands for.
    lanes: int


def _pack(values: npt.NDArray[Any], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode("ascii")


class Levels:
    """Makes the content of the timeline.

    Args:
        analysis: Of the run.
        max_slices: Up to so many are shown one by one.
    """

    def __init__(self, analysis: Analysis, max_slices: int = MAX_SLICES) -> None:
        self._run = analysis.run
        self._analysis = analysis
        self._max_slices = max_slices
        self._start = analysis.run.start
        self._span = max(analysis.run.end - self._start, 1e-3)
        self._entries: list[list[str]] = []
        self._number_of: dict[int, int] = {}
        self._fallback: dict[int, int] = {}

    def content(self) -> dict[str, Any]:
        """What the script of the page draws; JSON can hold it."""
        self._name_entries()
        rows = self._rows()
        total = sum(len(row.start) for row in rows)
        windows = [] if total <= self._max_slices else self._windows(rows)
        num_bins = max(16, min(_BINS_PER_ROW, _MAX_BINS // max(len(rows), 1)))
        shown = []
        for row in rows:
            made: dict[str, Any] = {"label": row.label}
            if windows:
                made["bins"], made["names"] = self._bins(row, num_bins)
            chosen = np.ones(len(row.start), np.bool_)
            if windows:
                chosen = np.zeros(len(row.start), np.bool_)
                for low, high in windows:
                    chosen |= (row.end >= low) & (row.start <= high)
            made["slices"] = self._slices(row, chosen) if row.lanes == 1 else ""
            shown.append(made)
        return {
            "span": self._span,
            "entries": self._entries,
            "rows": shown,
            "windows": [[low - self._start, high - self._start] for low, high in windows],
            "causes": list(CAUSES),
            "path": self._path(),
        }

    # ---- names

    def _key(self, rank: Rank) -> Integers:
        """By slice: a number for its name, kind and line of submission."""
        count = len(self._run.texts.all)
        return (rank.name * count + rank.kind) * count + rank.texts["submitted at"]

    def _name_entries(self) -> None:
        """Number the names that most slices have; the others of each kind have one name together."""
        counts: dict[int, int] = {}
        for rank in self._run.ranks.values():
            for key, count in zip(
                *(found.tolist() for found in np.unique(self._key(rank), return_counts=True)), strict=True
            ):
                counts[key] = counts.get(key, 0) + count
        size = len(self._run.texts.all)
        for key in sorted(counts, key=lambda key: -counts[key]):
            name, kind, site = key // size // size, key // size % size, key % size
            if len(self._entries) < _MAX_NAMES:
                self._number_of[key] = len(self._entries)
                texts = (self._run.text(number)[:_NAME_LENGTH] for number in (name, kind, site))
                self._entries.append(list(texts))
            else:
                if kind not in self._fallback:
                    self._fallback[kind] = len(self._entries)
                    self._entries.append([f"other: {self._run.text(kind)}", self._run.text(kind), ""])
                self._number_of[key] = self._fallback[kind]

    def _entries_of(self, rank: Rank) -> Integers:
        keys, places = np.unique(self._key(rank), return_inverse=True)
        numbers = np.array([self._number_of[key] for key in keys.tolist()], np.int64)
        of_slices: Integers = numbers[places] if len(numbers) else np.zeros(0, np.int64)
        return of_slices

    # ---- rows

    def _rows(self) -> list[_Row]:
        run = self._run
        if sum(len(rank.track_order) for rank in run.ranks.values()) <= _MAX_ROWS:
            return [row for rank in run.ranks.values() for row in self._rows_of(rank)]
        per_row = -(-len(run.ranks) // _MAX_ROWS)
        numbers = list(run.ranks)
        return [self._together(numbers[first : first + per_row]) for first in range(0, len(numbers), per_row)]

    def _rows_of(self, rank: Rank) -> list[_Row]:
        entries = self._entries_of(rank)
        order = np.argsort(rank.track, kind="stable")
        tracks = rank.track[order]
        rows = []
        for track in rank.track_order:
            low, high = np.searchsorted(tracks, [track, track + 1])
            own = order[low:high]
            label = self._run.text(track)
            if len(self._run.ranks) > 1:
                label = f"rank {rank.number} {label}"
            rows.append(_Row(label, rank.start[own], rank.end[own], entries[own], 1))
        return rows

    def _together(self, numbers: list[int]) -> _Row:
        """The kernels of all devices of several ranks."""
        starts, ends, entries, lanes = [], [], [], 0
        for number in numbers:
            rank = self._run.ranks[number]
            mask = self._run.is_kind(rank, "kernel")
            starts.append(rank.start[mask])
            ends.append(rank.end[mask])
            entries.append(self._entries_of(rank)[mask])
            lanes += rank.num_devices
        label = f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {numbers[0]}-{numbers[-1]}"
        joined = np.concatenate(starts), np.concatenate(ends), np.concatenate(entries)
        return _Row(f"{label} kernels", *joined, lanes=max(lanes, 2))

    # ---- levels

    def _windows(self, rows: list[_Row]) -> list[tuple[float, float]]:
        """Stretches of time with few enough slices."""
        starts = np.sort(np.concatenate([row.start for row in rows]))
        waits = [segment for segment in self._analysis.path.segments if segment.cause != "kernel"]
        places = [0, len(starts) // 2, len(starts) - 1]
        if waits:
            longest = max(waits, key=lambda segment: segment.end - segment.start)
            places.append(int(np.searchsorted(starts, longest.end)))
        windows: list[tuple[float, float]] = []
        for place in places:
            low = min(max(place - _WINDOW_SLICES // 2, 0), max(len(starts) - _WINDOW_SLICES, 0))
            high = min(low + _WINDOW_SLICES, len(starts)) - 1
            windows.append((float(starts[low]), float(starts[high])))
        merged = union(np.array([low for low, _ in windows]), np.array([high for _, high in windows]))
        return list(zip(merged.start.tolist(), merged.end.tolist(), strict=True))

    def _bins(self, row: _Row, count: int) -> tuple[str, str]:
        """How busy the row is in each bin, from 0 to 255, and the name that most of the time has."""
        width = self._span / count
        edges = np.linspace(self._start, self._start + self._span, count + 1)
        if row.lanes == 1:
            busy = np.diff(union(row.start, row.end).up_to(edges)) / width
        else:  # several devices may be busy at the same time
            busy = np.diff(_covered(row.start, row.end, edges)) / width / row.lanes
        levels = np.clip(np.ceil(255 * busy), 0, 255)
        names = np.zeros(count, np.int64)
        if len(row.start):
            bins = np.clip(((row.start - self._start) / width).astype(np.int64), 0, count - 1)
            keys, places = np.unique(bins * (len(self._entries) + 1) + row.entry, return_inverse=True)
            spent = np.bincount(places, weights=row.end - row.start)
            order = np.argsort(spent, kind="stable")  # the greatest is written last
            first = np.full(count, -1, np.int64)
            first[keys[order] // (len(self._entries) + 1)] = keys[order] % (len(self._entries) + 1)
            # A slice that goes on through later bins gives them its name.
            known = np.maximum.accumulate(np.where(first >= 0, np.arange(count), 0))
            names = np.maximum(first[known], 0)
        return _pack(levels, "u1"), _pack(names, "<u2")

    def _slices(self, row: _Row, chosen: npt.NDArray[np.bool_]) -> str:
        """Begins, durations and names, each after the other."""
        scale = _TICKS / self._span
        start = np.round((row.start[chosen] - self._start) * scale)
        duration = np.round((row.end[chosen] - row.start[chosen]) * scale)
        return "|".join((_pack(start, "<u4"), _pack(duration, "<u4"), _pack(row.entry[chosen], "<u2")))

    def _path(self) -> dict[str, str]:
        """The segments of the critical path in the order of time; short ones are joined if there are too many."""
        segments = self._analysis.path.segments[::-1]
        if not segments:
            return {"start": "", "end": "", "cause": "", "rank": ""}
        start = np.array([segment.start for segment in segments])
        end = np.array([segment.end for segment in segments])
        cause = np.array([CAUSES.index(segment.cause) for segment in segments], np.int64)
        rank = np.array([segment.rank for segment in segments], np.int64)
        if len(segments) > _MAX_SEGMENTS:
            group = (np.arange(len(segments)) * _MAX_SEGMENTS // len(segments)).astype(np.int64)
            firsts = np.flatnonzero(np.diff(group, prepend=-1))
            spent = np.zeros((_MAX_SEGMENTS, len(CAUSES)))
            np.add.at(spent, (group, cause), end - start)
            start, end, rank = start[firsts], np.append(start[firsts[1:]], end[-1]), rank[firsts]
            cause = spent.argmax(axis=1)
        scale = _TICKS / self._span
        return {
            "start": _pack(np.round((start - self._start) * scale), "<u4"),
            "end": _pack(np.round((end - self._start) * scale), "<u4"),
            "cause": _pack(cause, "u1"),
            "rank": _pack(rank, "<u4"),
        }


def _covered(start: Floats, end: Floats, edges: Floats) -> Floats:
    """The time of all intervals before each edge; intervals that overlap count several times."""

    def before(times: Floats, at: Floats) -> Floats:
        times = np.sort(times)
        sums = np.concatenate(([0.0], np.cumsum(times)))
        places = np.searchsorted(times, at)
        return at * places - sums[places]

    return before(start, edges) - before(end, edges)


def count_slices(run: Run) -> int:
    """Of all ranks."""
    return sum(len(rank) for rank in run.ranks.values())
