# SPDX-License-Identifier: MIT
"""Reads timelines, and checks what holds for all of them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Slice: TypeAlias = dict[str, Any]


@dataclass
class Timeline:
    """A trace file."""

    about: dict[str, Any]
    #: By rank and name of the track.
    tracks: dict[tuple[int, str], list[Slice]]
    #: Beginnings and ends of arrows, by number.
    arrows: dict[str, dict[str, Slice]]

    def slices(self, track: str, *, name: str = "", rank: int = 0) -> list[Slice]:
        """Those on all rows of a track, or of all tracks that begin with it, whose names begin with `name`."""
        return [
            item
            for (of, title), items in self.tracks.items()
            if of == rank and title.startswith(track)
            for item in items
            if item["name"].startswith(name)
        ]

    def lanes(self, *, rank: int = 0) -> list[Slice]:
        """The slices on lanes of devices and of the host."""
        return [
            item
            for (of, title), items in self.tracks.items()
            if of == rank and (title == "host copy" or (title[0] == "D" and title[1].isdigit()))
            for item in items
        ]


def read_timeline(path: Path) -> Timeline:
    """Read and check: known phases only, no slices that overlap without being inside of each other."""
    content = json.loads(path.read_text(encoding="utf-8"))
    names: dict[tuple[int, int], str] = {}
    tracks: dict[tuple[int, str], list[Slice]] = defaultdict(list)
    arrows: dict[str, dict[str, Slice]] = defaultdict(dict)
    for event in content["traceEvents"]:
        where = (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                assert where not in names
                names[where] = event["args"]["name"]
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], names[where]].append(event)
        else:
            assert event["ph"] in {"s", "f"}
            assert any(item["ts"] <= event["ts"] <= item["ts"] + item["dur"] for item in tracks[where[0], names[where]])
            arrows[event["id"]][event["ph"]] = event
    for track, slices in tracks.items():
        open_ends: list[float] = []
        for item in slices:
            while open_ends and open_ends[-1] <= item["ts"] + 1e-3:
                open_ends.pop()
            assert not open_ends or item["ts"] + item["dur"] <= open_ends[-1] + 1e-3, (track, item)
            open_ends.append(item["ts"] + item["dur"])
    return Timeline(content["otherData"], tracks, arrows)
