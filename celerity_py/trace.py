# SPDX-License-Identifier: MIT
"""Timelines in Chrome's format: `python -m celerity_py.trace out.*.json -o all.json` merges the files of all ranks."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from celerity_py import _native
from celerity_py.executor.quantities import format_bytes
from celerity_py.vocabulary.submissions import line_of

if TYPE_CHECKING:
    from celerity_py.timeline.recorder import Tracer

_LANES = {
    "compute": "compute",
    "host_to_device": "host→device",
    "device_to_host": "device→host",
    "peer": "copy",
    "pull": "fetch",
    "signal": "signal",
    "urgent": "compute, first",
}
#: Tracks from top to bottom; the tracks of lanes and launchers come between the two.
_FIRST = ("application", "scheduler", "executor")
_LAST = ("host tasks", "send", "receive", "barrier")


class _Slice(NamedTuple):
    name: str
    start_ns: int
    end_ns: int
    args: dict[str, Any]
    #: "s" or "f" and the number of the message, if an arrow begins or ends here.
    arrow: tuple[str, str] | None = None


class _Issue(NamedTuple):
    start_ns: int
    action: _native.TracedIssue


class Timeline:
    """Turns the events of one rank into named slices on tracks.

    Args:
        tracer: Of the rank.
        lanes: Kind and device of each lane; none in a dry run.
    """

    def __init__(self, tracer: Tracer, lanes: Sequence[tuple[str, int]] = ()) -> None:
        self._rank = tracer.rank
        self._buffers = tracer.buffers
        self._lanes = _name_lanes(lanes)
        self._submissions = {number: (kind, name, code, at) for number, kind, name, code, at in tracer.submissions}
        events = tracer.recorder.events()
        self._issue_at: dict[tuple[int, int], _Issue] = {}
        self._issue_of: dict[int, _Issue] = {}
        for event in events:
            if isinstance(event.action, _native.TracedIssue):
                issue = _Issue(event.start_ns, event.action)
                self._issue_of[issue.action.instruction] = issue
                if issue.action.lane is not None:
                    self._issue_at[issue.action.lane, issue.action.position] = issue
        self._end_of_lane: dict[str, int] = {}
        self.tracks: dict[str, list[_Slice]] = defaultdict(list)
        for event in events:
            track, made = self._show(event)
            self.tracks[track].append(made)

    def ordered_tracks(self) -> Iterator[tuple[str, list[_Slice]]]:
        """Names and slices of the tracks that have any, from top to bottom."""
        between = (*self._launchers(), *self._lanes)
        for name in (*_FIRST, *between, *_LAST):
            if name in self.tracks:
                yield name, self.tracks[name]

    def _launchers(self) -> list[str]:
        return sorted(name for name in self.tracks if name.endswith("launcher"))

    # ---- names

    def _submission(self, number: int) -> str:
        known = self._submissions.get(number)
        return known[1] if known is not None else f"submission {number}"

    def _buffer(self, number: int) -> str:
        return self._buffers.get(number, f"B{number}") if number else "staging"

    def _name(self, issue: _native.TracedIssue) -> str:
        kind, buffer, size = issue.operation, self._buffer(issue.buffer), format_bytes(issue.size_bytes)
        match kind:
            case "device_kernel" | "host_task":
                return self._submission(issue.submission)
            case "copy":
                return f"{buffer}: {issue.reason} {size}"
            case "gather_copy":
                return f"{buffer}: gather {size}"
            case "alloc":
                return f"alloc {buffer} {size}"
            case "free":
                return f"free {size}"
            case "send":
                return f"send {buffer} to rank {issue.peer}"
            case "fence":
                return f"fence {self._submission(issue.submission)}"
        words = kind.replace("_", " ")
        return f"{words} {buffer}" if issue.buffer else words

    def _args(self, submission: int = 0, instruction: int = 0, size_bytes: int = 0) -> dict[str, Any]:
        args: dict[str, Any] = {}
        if submission:
            args["submission"] = submission
            if submission in self._submissions:
                _, _, code, at = self._submissions[submission]
                args["submitted at"] = f"{code.co_filename}:{line_of(code, at)}"
        if instruction:
            args["instruction"] = instruction
        if size_bytes:
            args["bytes"] = size_bytes
        return args

    def _args_of(self, issue: _native.TracedIssue) -> dict[str, Any]:
        return self._args(issue.submission, issue.instruction, issue.size_bytes)

    # ---- slices

    def _show(self, event: _native.TraceEvent) -> tuple[str, _Slice]:
        """The track and the slice of an event."""
        action, start_ns, end_ns = event.action, event.start_ns, event.end_ns
        match action:
            case _native.TracedIssue():
                is_done_here = action.lane is None and action.operation in {"alloc", "free", "reduce", "fence"}
                name = self._name(action) if is_done_here else f"issue {self._name(action)}"
                return "executor", _Slice(name, start_ns, end_ns, self._args_of(action))
            case _native.TracedLane():
                return self._show_lane(action, start_ns, end_ns)
            case _native.TracedCall():
                track = "host tasks" if action.device is None else f"D{action.device} launcher"
                return track, self._carry_out(self._issue_of.get(action.instruction), track, start_ns, end_ns)
            case _native.TracedSend():
                name = f"send {self._buffer(action.buffer)} to rank {action.peer}"
                arrow = "s", _arrow(self._rank, action.peer, action.message)
                return "send", _Slice(name, start_ns, end_ns, self._args_of_message(action), arrow)
            case _native.TracedReceive():
                name = f"receive {self._buffer(action.buffer)} from rank {action.peer}"
                arrow = "f", _arrow(action.peer, self._rank, action.message)
                return "receive", _Slice(name, start_ns, end_ns, self._args_of_message(action), arrow)
            case _native.TracedBarrier():
                args = self._args(instruction=action.instruction)
                return "barrier", _Slice("barrier", start_ns, end_ns, args)
            case _native.TracedWork():
                args = {"instructions issued": action.instructions_issued}
                return "executor", _Slice("work", start_ns, end_ns, args)
            case _native.TracedPython():
                return "executor", _Slice("Python: network and bookkeeping", start_ns, end_ns, {})
            case _native.TracedPlan():
                what = self._submission(action.submission) if action.input == "task" else action.input
                args = self._args(action.submission) | {"instructions generated": action.instructions_generated}
                return "scheduler", _Slice(f"plan {what}", start_ns, end_ns, args)
            case _native.TracedApplication():
                return "application", self._show_application(action, start_ns, end_ns)
        assert_never(action)

    def _show_lane(self, action: _native.TracedLane, start_ns: int, end_ns: int) -> tuple[str, _Slice]:
        track = self._lanes[action.lane]
        # Times of devices are not exact, and on a lane nothing begins before its predecessor has ended.
        start_ns = max(start_ns, self._end_of_lane.get(track, start_ns))
        end_ns = max(start_ns, end_ns)
        self._end_of_lane[track] = end_ns
        return track, self._carry_out(self._issue_at.get((action.lane, action.position)), track, start_ns, end_ns)

    def _carry_out(self, issue: _Issue | None, track: str, start_ns: int, end_ns: int) -> _Slice:
        if issue is None:  # replaced by newer events
            return _Slice(track, start_ns, end_ns, {})
        args = self._args_of(issue.action) | {"queued_us": max(start_ns - issue.start_ns, 0) / 1000}
        return _Slice(self._name(issue.action), start_ns, end_ns, args)

    def _args_of_message(self, action: _native.TracedSend | _native.TracedReceive) -> dict[str, Any]:
        args = self._args(instruction=action.instruction, size_bytes=action.size_bytes)
        return args | {"buffer": self._buffer(action.buffer), "peer": action.peer, "message": action.message}

    def _show_application(self, action: _native.TracedApplication, start_ns: int, end_ns: int) -> _Slice:
        if action.call == "blocked":
            return _Slice("blocked: too far ahead", start_ns, end_ns, {})
        kind = self._submissions.get(action.submission, ("",))[0]
        about = "fence " if kind == "fence" else ""
        name = f"{action.call} {about}{self._submission(action.submission)}"
        return _Slice(name, start_ns, end_ns, self._args(action.submission))


def _arrow(source: int, destination: int, message: int) -> str:
    return f"0x{source:04x}{destination:04x}{message & 0xFFFFFFFF:08x}"


def _name_lanes(lanes: Sequence[tuple[str, int]]) -> list[str]:
    names = ["host copy" if kind == "host_copy" else f"D{device} {_LANES[kind]}" for kind, device in lanes]
    seen: dict[str, int] = defaultdict(int)
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} {seen[name]}" if names.count(name) > 1 else name)
    return numbered


def _rows(slices: list[_Slice]) -> Iterator[tuple[int, _Slice]]:
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


def chrome_events(timeline: Timeline, tracer: Tracer) -> Iterator[dict[str, Any]]:
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
        for row, item in _rows(slices):
            thread = first + row
            while next_thread <= thread:
                name = track if next_thread == first else f"{track} ({next_thread - first + 1})"
                yield metadata("thread_name", next_thread, name=name)
                yield metadata("thread_sort_index", next_thread, sort_index=next_thread)
                next_thread += 1
            where = {"pid": rank, "tid": thread}
            start_us = to_us(item.start_ns)
            duration_us = (item.end_ns - item.start_ns) / 1000
            yield {"ph": "X", "name": item.name, "ts": start_us, "dur": duration_us, "args": item.args, **where}
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
    }
    _write(path, chrome_events(timeline, tracer), {f"rank {tracer.rank}": about})
    if lost:
        import logging

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
        ValueError: If the files are of different runs, or two are of the same rank.
    """
    about: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    for path in paths:
        content = json.loads(path.read_text(encoding="utf-8"))
        if "traceEvents" not in content or not content.get("otherData"):
            raise ValueError(f"{path} is no timeline of celerity_py.")
        for name, rank in content["otherData"].items():
            if name in about:
                raise ValueError(f"{path}: another file holds {name}, too.")
            if any(other["origin_ns"] != rank["origin_ns"] for other in about.values()):
                raise ValueError(f"{path} is of another run than {paths[0]}.")
            about[name] = rank
        events.extend(content["traceEvents"])
    _write(output, iter(events), about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge the files named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m celerity_py.trace", description="Merge the timelines of all ranks."
    )
    parser.add_argument(
        "files", nargs="+", type=Path, help="out.0.json out.1.json ..., as CELERITY_TRACE=out wrote them"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        merge(options.files, options.output)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
