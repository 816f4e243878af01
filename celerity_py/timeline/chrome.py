# SPDX-License-Identifier: MIT
"""Files of timelines in Chrome's trace format: those of single ranks, and those merged of several."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celerity_py.timeline.reading import open_timeline, read_events, read_heads
from celerity_py.timeline.tracks import Slice, Timeline

if TYPE_CHECKING:
    from celerity_py.timeline.recorder import Tracer


def rows_of(slices: list[Slice]) -> Iterator[tuple[int, Slice]]:
    """Put slices that overlap without being inside of each other into rows of their own."""
    open_ends: list[list[int]] = []
    for item in sorted(slices, key=lambda item: (item.start_ns, -item.end_ns)):
        row = 0
        while row < len(open_ends):
            ends = open_ends[row]
            while ends and ends[-1] <= item.start_ns:
                ends.pop()
            if not ends or item.end_ns <= ends[-1]:
                break
            row += 1
        else:
            open_ends.append([])
        open_ends[row].append(item.end_ns)
        yield row, item


def _events(timeline: Timeline, tracer: Tracer) -> Iterator[dict[str, Any]]:
    """The timeline in Chrome's trace format: microseconds since the start of the run, by the clock of rank 0."""
    rank = tracer.rank
    shift_ns = tracer.clock.offset_ns - tracer.clock.origin_ns

    def to_us(time_ns: int) -> float:
        return (time_ns + shift_ns) / 1000

    def metadata(what: str, thread: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": rank, "tid": thread, "args": args}

    yield metadata("process_name", 0, name=f"rank {rank}")
    yield metadata("process_sort_index", 0, sort_index=rank)
    next_thread = 1
    for track, slices in timeline.ordered_tracks():
        first = next_thread
        for row, item in rows_of(slices):
            thread = first + row
            while next_thread <= thread:
                name = track if next_thread == first else f"{track} ({next_thread - first + 1})"
                yield metadata("thread_name", next_thread, name=name, track=track)
                yield metadata("thread_sort_index", next_thread, sort_index=next_thread)
                next_thread += 1
            where = {"pid": rank, "tid": thread}
            start_us = to_us(item.start_ns)
            duration_us = (item.end_ns - item.start_ns) / 1000
            about = {"name": item.name, "cat": item.kind, "args": item.args}
            yield {"ph": "X", "ts": start_us, "dur": duration_us, **about, **where}
            if item.arrow is not None:
                phase, number = item.arrow
                # Viewers want it within the slice: from the beginning of the send to the end of the receive.
                at_us = start_us if phase == "s" else to_us(max(item.start_ns, item.end_ns - 1))
                yield {"ph": phase, "bp": "e", "name": "message", "cat": "message", "id": number, "ts": at_us, **where}


def write_trace(path: Path, tracer: Tracer, lanes: Sequence[tuple[str, int]] = ()) -> None:
    """Write the timeline of one rank."""
    timeline = Timeline(tracer, lanes)
    lost = int(tracer.recorder.num_lost)
    about = {
        "rank": tracer.rank,
        "size": tracer.size,
        "origin_ns": tracer.clock.origin_ns,
        "clock_error_us": tracer.clock.error_ns / 1000,
        "events_lost": lost,
        **tracer.about,
    }
    _write(path, _events(timeline, tracer), {f"rank {tracer.rank}": about})
    if lost:
        logging.getLogger(__name__).warning(
            "%s lacks the %d oldest events: only the latest are kept. Trace a shorter run to see all of it.", path, lost
        )


def _write(path: Path, events: Iterator[Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns",\n"otherData": ')
        json.dump(about, file)
        file.write(',\n"traceEvents": [')
        separator = "\n"
        for event in events:
            file.write(separator + encode(event))
            separator = ",\n"
        file.write("\n]}\n")


def merge(paths: Sequence[Path], output: Path) -> None:
    """Write the timelines of several ranks of one run into one file.

    Raises:
        OSError: If a file cannot be read or written.
        ValueError: If a file is no timeline, is of another run than the first, or repeats a rank.
    """
    about = {f"rank {number}": rank for number, rank in read_heads(paths).items()}
    try:
        _write(output, _events_of_files(paths), about)
    except (OSError, ValueError):
        if output.is_file():
            output.unlink()  # half of a file is of no use
        raise


def _events_of_files(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        with open_timeline(path) as file:
            for events in read_events(path, file):
                yield from events
