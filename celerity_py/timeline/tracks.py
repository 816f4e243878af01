# SPDX-License-Identifier: MIT
"""The events of one rank as named slices on tracks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, assert_never

from celerity_py import _native
from celerity_py.executor.quantities import format_bytes
from celerity_py.vocabulary.notation import printable
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
    "raised": "compute, with priority",
}
_TRAITS = _native.instruction_kinds()
#: The kinds of slices of instructions on lanes. A copy of any kind is a "copy".
_KINDS = {kind: "copy" if traits.category == "copy" else kind.replace("_", " ") for kind, traits in _TRAITS.items()}
_KINDS |= {"device_kernel": "kernel", "send": "signal", "receive": "fetch"}
#: Instructions that are complete when they are issued, unless they are on a lane.
_DONE_AT_ISSUE = {kind for kind, traits in _TRAITS.items() if traits.completes_at_issue}
#: Tracks from top to bottom; the tracks of lanes and launchers come between the two.
_FIRST = ("application", "scheduler", "executor")
_LAST = ("host tasks", "send", "receive", "barrier")


_Shown: TypeAlias = (
    _native.TracedIssue
    | _native.TracedLane
    | _native.TracedCall
    | _native.TracedSend
    | _native.TracedReceive
    | _native.TracedBarrier
    | _native.TracedWork
    | _native.TracedPython
    | _native.TracedPlan
    | _native.TracedApplication
)


class Slice(NamedTuple):
    """A named piece of time on a track."""

    #: One word or two, such as "kernel", for programs that read the file.
    kind: str
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
        self._known_at: dict[int, int] = {}
        self._blocker_of: dict[int, int] = {}
        self._find_blockers(events)
        self._end_of_lane: dict[str, int] = {}
        self.tracks: dict[str, list[Slice]] = defaultdict(list)
        for event in events:
            if not isinstance(event.action, _native.TracedHandover):
                track, made = self._show(event.action, event.start_ns, event.end_ns)
                self.tracks[track].append(made)

    def _find_blockers(self, events: Sequence[_native.TraceEvent]) -> None:
        """Find the dependency of each instruction that was complete last."""
        ended: dict[int, int] = {}
        dependencies: dict[int, list[int]] = defaultdict(list)
        for event in events:
            action, instruction = event.action, 0
            match action:
                case _native.TracedHandover():
                    self._known_at[action.instruction] = event.start_ns
                    dependencies[action.instruction] += action.dependencies
                case _native.TracedIssue() if action.lane is None and action.operation in _DONE_AT_ISSUE:
                    instruction = action.instruction
                case _native.TracedLane():
                    issue = self._issue_at.get((action.lane, action.position))
                    instruction = issue.action.instruction if issue is not None else 0
                case _native.TracedCall() if action.device is None:
                    instruction = action.instruction
                case _native.TracedSend() | _native.TracedReceive() | _native.TracedBarrier():
                    instruction = action.instruction
            if instruction:
                ended[instruction] = max(event.end_ns, ended.get(instruction, 0))
        # A horizon or epoch has no end of its own: the last of its dependencies stands for it.
        last: dict[int, int] = {instruction: instruction for instruction in ended}
        for instruction in sorted(dependencies):
            before = [last[other] for other in dependencies[instruction] if other in last]
            if before:
                blocker = max(before, key=ended.__getitem__)
                self._blocker_of[instruction] = blocker
                last.setdefault(instruction, blocker)

    def ordered_tracks(self) -> Iterator[tuple[str, list[Slice]]]:
        """Names and slices of the tracks that have any, from top to bottom."""
        launchers = sorted(name for name in self.tracks if name.endswith("launcher"))
        for name in (*_FIRST, *launchers, *self._lanes, *_LAST):
            if name in self.tracks:
                yield name, self.tracks[name]

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
        """Arguments of a slice. `after` is the dependency of the instruction that was complete last."""
        args: dict[str, Any] = {}
        if submission:
            args["submission"] = submission
            if submission in self._submissions:
                _, _, code, at = self._submissions[submission]
                args["submitted at"] = f"{printable(code.co_filename)}:{line_of(code, at)}"
        if instruction:
            args["instruction"] = instruction
            if instruction in self._blocker_of:
                args["after"] = self._blocker_of[instruction]
        if size_bytes:
            args["bytes"] = size_bytes
        return args

    def _args_of(self, issue: _native.TracedIssue) -> dict[str, Any]:
        args = self._args(issue.submission, issue.instruction, issue.size_bytes)
        if issue.destination is not None:
            args["buffer"] = self._buffer(issue.buffer)
            args["reason"] = issue.reason or "coherence"
            args["from"] = _memory(issue.source) if issue.source is not None else "several"
            args["to"] = _memory(issue.destination)
        elif issue.allocation[1]:
            memory, number = issue.allocation
            args |= {"memory": _memory(memory), "allocation": number}
            if issue.operation == "alloc":
                args["buffer"] = self._buffer(issue.buffer)
        if issue.priority:
            args["priority"] = issue.priority
        return args

    # ---- slices

    def _show(self, action: _Shown, start_ns: int, end_ns: int) -> tuple[str, Slice]:
        """The track and the slice of an event."""
        match action:
            case _native.TracedIssue():
                if action.lane is None and action.operation in _DONE_AT_ISSUE:
                    kind, name, args = action.operation.replace("_", " "), self._name(action), self._args_of(action)
                    args |= self._delays(action.instruction, None, start_ns)
                else:
                    kind, name = "issue", f"issue {self._name(action)}"
                    args = self._args(action.submission, action.instruction)
                return "executor", Slice(kind, name, start_ns, end_ns, args)
            case _native.TracedLane():
                return self._show_lane(action, start_ns, end_ns)
            case _native.TracedCall():
                track = "host tasks" if action.device is None else f"D{action.device} launcher"
                made = self._carry_out(self._issue_of.get(action.instruction), track, start_ns, end_ns)
                return track, made if action.device is None else made._replace(kind="launch")
            case _native.TracedSend():
                name = f"send {self._buffer(action.buffer)} to rank {action.peer}"
                arrow = "s", _arrow(self._rank, action.peer, action.message)
                args = self._args_of_message(action, start_ns)
                return "send", Slice("send", name, start_ns, end_ns, args, arrow)
            case _native.TracedReceive():
                name = f"receive {self._buffer(action.buffer)} from rank {action.peer}"
                arrow = "f", _arrow(action.peer, self._rank, action.message)
                return "receive", Slice(
                    "receive", name, start_ns, end_ns, self._args_of_message(action, start_ns), arrow
                )
            case _native.TracedBarrier():
                args = self._args(instruction=action.instruction)
                args |= self._delays(action.instruction, None, start_ns)
                return "barrier", Slice("barrier", "barrier", start_ns, end_ns, args)
            case _native.TracedWork():
                args = {"instructions issued": action.instructions_issued}
                return "executor", Slice("work", "work", start_ns, end_ns, args)
            case _native.TracedPython():
                return "executor", Slice("python", "Python: network and bookkeeping", start_ns, end_ns, {})
            case _native.TracedPlan():
                what = self._submission(action.submission) if action.input == "task" else action.input
                args = self._args(action.submission) | {"instructions generated": action.instructions_generated}
                return "scheduler", Slice("plan", f"plan {what}", start_ns, end_ns, args)
            case _native.TracedApplication():
                return "application", self._show_application(action, start_ns, end_ns)
        assert_never(action)

    def _show_lane(self, action: _native.TracedLane, start_ns: int, end_ns: int) -> tuple[str, Slice]:
        track = self._lanes[action.lane]
        # Times of devices are not exact, and on a lane nothing begins before its predecessor has ended.
        start_ns = max(start_ns, self._end_of_lane.get(track, start_ns))
        end_ns = max(start_ns, end_ns)
        self._end_of_lane[track] = end_ns
        made = self._carry_out(self._issue_at.get((action.lane, action.position)), track, start_ns, end_ns)
        return track, made if made.kind != "reduce" else made._replace(kind="combine")

    def _carry_out(self, issue: _Issue | None, track: str, start_ns: int, end_ns: int) -> Slice:
        if issue is None:  # replaced by newer events
            return Slice("unknown", track, start_ns, end_ns, {})
        action = issue.action
        args = self._args_of(action) | self._delays(action.instruction, issue, start_ns)
        kind = _KINDS.get(action.operation, action.operation.replace("_", " "))
        return Slice(kind, self._name(action), start_ns, end_ns, args)

    def _delays(self, instruction: int, issue: _Issue | None, start_ns: int) -> dict[str, float]:
        """How long before its begin an instruction was issued, and known to the executor."""
        delays = {}
        if issue is not None:
            delays["queued_us"] = max(start_ns - issue.start_ns, 0) / 1000
        if instruction in self._known_at:
            delays["known_us"] = max(start_ns - self._known_at[instruction], 0) / 1000
        return delays

    def _args_of_message(self, action: _native.TracedSend | _native.TracedReceive, start_ns: int) -> dict[str, Any]:
        args = self._args(instruction=action.instruction, size_bytes=action.size_bytes)
        args |= self._delays(action.instruction, self._issue_of.get(action.instruction), start_ns)
        return args | {"buffer": self._buffer(action.buffer), "peer": action.peer, "message": action.message}

    def _show_application(self, action: _native.TracedApplication, start_ns: int, end_ns: int) -> Slice:
        if action.call == "blocked":
            return Slice("blocked", "blocked: too far ahead", start_ns, end_ns, {})
        kind = self._submissions.get(action.submission, ("",))[0]
        about = "fence " if kind == "fence" else ""
        call = "map chunks of" if action.call == "map" else action.call
        name = f"{call} {about}{self._submission(action.submission)}"
        return Slice(action.call, name, start_ns, end_ns, self._args(action.submission))


def _arrow(source: int, destination: int, message: int) -> str:
    return f"0x{source:04x}{destination:04x}{message & 0xFFFFFFFF:08x}"


def _memory(number: int) -> str:
    """The name of a memory: of the user's arrays, of the runtime on the host, or of a device."""
    return ("user", "host")[number] if number < 2 else f"D{number - 2}"


def _name_lanes(lanes: Sequence[tuple[str, int]]) -> list[str]:
    names = ["host copy" if kind == "host_copy" else f"D{device} {_LANES[kind]}" for kind, device in lanes]
    seen: dict[str, int] = defaultdict(int)
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} {seen[name]}" if names.count(name) > 1 else name)
    return numbered
