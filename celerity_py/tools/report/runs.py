# SPDX-License-Identifier: MIT
"""A run as columns of numbers: the slices of all ranks, read from the files of their timelines."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from celerity_py.timeline.reading import open_timeline, read_events, read_head, read_heads
from celerity_py.vocabulary.notation import printable

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

#: Arguments of slices that are numbers, with the column and the value of a slice without the argument.
_NUMBERS: Final = {
    "instruction": -1,
    "after": -1,
    "submission": -1,
    "bytes": 0,
    "message": -1,
    "peer": -1,
    "allocation": -1,
    "priority": 0,
}
_TIMES: Final = ("queued_us", "known_us")
#: Arguments that are texts.
_TEXTS: Final = ("submitted at", "buffer", "reason", "from", "to", "memory")
_NO_TIME: Final = float("nan")
_MOST_US: Final = 1e15  # thirty years; larger ones are damaged


@dataclass
class Texts:
    """Numbers for texts, so that columns can hold them. The number of the empty text is 0."""

    all: list[str] = field(default_factory=lambda: [""])
    _numbers: dict[str, int] = field(default_factory=lambda: {"": 0})

    def number(self, text: str) -> int:
        """The number of a text, which is new or known."""
        known = self._numbers.get(text)
        if known is None:
            if not isinstance(text, str):
                raise TypeError(f"{text!r} is no text")
            known = self._numbers[text] = len(self.all)
            self.all.append(printable(text))
        return known


@dataclass
class Rank:
    """The slices of one rank, by their begins. Times are microseconds by the clock of rank 0."""

    number: int
    #: What the file tells about the rank: settings, versions, hardware, statistics.
    about: dict[str, Any]
    start: Floats
    end: Floats
    #: Numbers of texts.
    track: Integers
    kind: Integers
    name: Integers
    #: By the names of the arguments in the file.
    numbers: dict[str, Integers]
    times: dict[str, Floats]
    texts: dict[str, Integers]
    #: Numbers of the texts of the tracks, from top to bottom.
    track_order: list[int]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def num_devices(self) -> int:
        """Devices of this rank."""
        return int(self.about.get("num_devices", 1))


@dataclass
class Run:
    """All ranks of a run whose timelines are there, by their numbers."""

    ranks: dict[int, Rank]
    texts: Texts

    @property
    def about(self) -> dict[str, Any]:
        """What the lowest rank tells about the run."""
        return self.ranks[min(self.ranks)].about

    @property
    def size(self) -> int:
        """Ranks of the run, also those whose timelines are not there."""
        return int(self.about.get("size", len(self.ranks)))

    @cached_property
    def start(self) -> float:
        """The begin of the first slice, in microseconds."""
        return min((float(rank.start.min()) for rank in self.ranks.values() if len(rank)), default=0.0)

    @cached_property
    def end(self) -> float:
        """The end of the last slice, in microseconds."""
        return max((float(rank.end.max()) for rank in self.ranks.values() if len(rank)), default=0.0)

    @property
    def events_lost(self) -> int:
        """Older events that the timelines lack."""
        return sum(int(rank.about.get("events_lost", 0)) for rank in self.ranks.values())

    def is_kind(self, rank: Rank, *kinds: str) -> Mask:
        """Which slices of a rank are of these kinds."""
        mask: Mask = np.isin(rank.kind, [self.texts.number(kind) for kind in kinds])
        return mask

    def text(self, number: int | np.int64) -> str:
        """The text with a number."""
        return self.texts.all[int(number)]


class _Columns:
    """The columns of a rank while they grow."""

    def __init__(self) -> None:
        self.tracks: dict[int, int] = {}
        self.start, self.duration = array("d"), array("d")
        self.track, self.kind, self.name = array("q"), array("q"), array("q")
        self.numbers = {name: array("q") for name in _NUMBERS}
        self.times = {name: array("d") for name in _TIMES}
        self.texts = {name: array("q") for name in _TEXTS}

    def add(self, events: Sequence[dict[str, Any]], texts: Texts) -> None:
        """Add slices."""
        tracks, number = self.tracks, texts.number
        arguments = [event["args"] for event in events]
        starts, durations = ([event[key] for event in events] for key in ("ts", "dur"))
        self.start.extend(starts)
        self.duration.extend(durations)
        # A sum is NaN if one of the numbers is.
        if min(durations) < 0 or not sum(map(abs, starts)) + sum(durations) < _MOST_US * len(events):
            raise TypeError("a time is out of range")
        self.track.extend([tracks[event["tid"]] for event in events])
        self.kind.extend([number(event["cat"]) for event in events])
        self.name.extend([number(event["name"]) for event in events])
        for key, default in _NUMBERS.items():
            self.numbers[key].extend([given.get(key, default) for given in arguments])
        for key, times in self.times.items():
            times.extend([given.get(key, _NO_TIME) for given in arguments])
        for key, column in self.texts.items():
            column.extend([number(given[key]) if key in given else 0 for given in arguments])

    def finish(self, rank: int, about: dict[str, Any]) -> Rank:
        """The columns in the order of their begins."""
        start = np.array(self.start)
        duration = np.array(self.duration)
        order = np.lexsort((-duration, start))

        def integers(column: array[int]) -> Integers:
            return np.array(column, np.int64)[order]

        return Rank(
            number=rank,
            about=about,
            start=start[order],
            end=(start + duration)[order],
            track=integers(self.track),
            kind=integers(self.kind),
            name=integers(self.name),
            numbers={name: integers(column) for name, column in self.numbers.items()},
            times={name: np.array(column)[order] for name, column in self.times.items()},
            texts={name: integers(column) for name, column in self.texts.items()},
            track_order=list(dict.fromkeys(self.tracks.values())),
        )


def read_run(paths: Sequence[Path]) -> Run:
    """Read the timelines of the ranks of one run: a file per rank, or one into which they were merged.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is no timeline, is of another run than the first, or repeats a rank.
    """
    texts = Texts()
    abouts = read_heads(paths)
    if not abouts:
        raise ValueError("There is no timeline to read. Name at least one file that CELERITY_TRACE has written.")
    columns = {rank: _Columns() for rank in abouts}
    for path in paths:
        with open_timeline(path) as file:
            _read_events(path, file, columns, texts)
    ranks = {rank: columns[rank].finish(rank, abouts[rank]) for rank in sorted(abouts)}
    if not any(len(rank) for rank in ranks.values()):
        raise ValueError(f"{paths[0]}: the timeline is empty.")
    return Run(ranks, texts)


def group_by_run(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each run together, in the order in which the runs come first.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is no timeline.
    """
    groups: dict[int, list[Path]] = {}
    for path in paths:
        with open_timeline(path) as file:
            groups.setdefault(read_head(path, file)[0]["origin_ns"], []).append(path)
    return list(groups.values())


def _read_events(path: Path, file: TextIO, columns: dict[int, _Columns], texts: Texts) -> None:
    for events in read_events(path, file):
        try:
            slices: dict[int, list[dict[str, Any]]] = {}
            for event in events:
                phase, rank = event["ph"], event["pid"]
                if phase == "X":
                    slices.setdefault(rank, []).append(event)
                elif phase == "M" and event["name"] == "thread_name":
                    columns[rank].tracks[event["tid"]] = texts.number(event["args"]["track"])
            for rank, found in slices.items():
                columns[rank].add(found, texts)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path}: an event is not understood: {error!r}. Was the file changed?") from None
