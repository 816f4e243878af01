# SPDX-License-Identifier: MIT
"""Figures of a run: kernels, overlap, delays, traffic and memory."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from celerity_py.tools.report.instructions import Instructions, Messages
from celerity_py.tools.report.intervals import Intervals, union
from celerity_py.tools.report.runs import Floats, Integers, Rank, Run

_DEVICE: Final = re.compile(r"D(\d+) ")
#: Points of a curve of memory.
_MAX_POINTS: Final = 240
#: Buffers with a curve of their own, by memory.
_MAX_BUFFERS: Final = 7
OTHERS: Final = "other buffers"
BEFORE: Final = "before the timeline"


@dataclass
class KernelFigures:
    """All calls of the kernels with one name. Times are microseconds."""

    name: str
    site: str
    durations: Floats
    #: By call.
    ranks: Integers
    devices: Integers
    #: By call: bytes read and written; 0 if they are not known.
    bytes_touched: Integers
    #: By call: the bytes that the memory could have moved in that time; 0 if its limit is not known.
    bytes_possible: Floats
    #: By call: from when everything was ready to the begin, and how much of it the lane was idle.
    delays: Floats
    idle_delays: Floats

    @property
    def count(self) -> int:
        """The number of calls."""
        return len(self.durations)

    @property
    def total(self) -> float:
        """Time of all calls."""
        return float(self.durations.sum())

    def quantile(self, part: float) -> float:
        """Of the durations."""
        return float(np.quantile(self.durations, part))

    @property
    def knows_bytes(self) -> bool:
        """Whether the bytes of all calls are known."""
        return bool((self.bytes_touched > 0).all())

    @property
    def bytes_per_second(self) -> float | None:
        """While the kernels run; None if the bytes are not known."""
        return float(self.bytes_touched.sum()) / self.total * 1e6 if self.knows_bytes and self.total > 0 else None

    @property
    def share_of_memory_limit(self) -> float | None:
        """Bytes touched, in parts of those that the memory could have moved; None if one of them is not known."""
        if not self.knows_bytes or not (self.bytes_possible > 0).all():
            return None
        return float(self.bytes_touched.sum() / self.bytes_possible.sum())


@dataclass
class Overlap:
    """How much of the time of copies and transfers of a rank lies beneath kernels of that rank, in microseconds."""

    kernels: float
    copies: float
    copies_beneath: float
    transfers: float
    transfers_beneath: float

    @property
    def share_of_copies(self) -> float | None:
        """From 0 to 1; None without copies."""
        return self.copies_beneath / self.copies if self.copies > 0 else None

    @property
    def share_of_transfers(self) -> float | None:
        """From 0 to 1; None without transfers."""
        return self.transfers_beneath / self.transfers if self.transfers > 0 else None


@dataclass
class Link:
    """Copies from one memory to another, or messages from one rank to another."""

    source: str
    target: str
    count: int = 0
    size_bytes: int = 0
    #: While at least one copy was under way, in microseconds; None for messages, which wait for the other rank.
    busy: float | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """Of copies, while they are under way."""
        return self.size_bytes / self.busy * 1e6 if self.busy else None


@dataclass
class MemoryCurve:
    """The bytes allocated in one memory over time, by buffer."""

    rank: int
    memory: str
    #: Microseconds.
    times: Floats
    #: By name of the buffer: bytes at each time, the greatest buffer first.
    by_buffer: dict[str, Floats]
    peak_bytes: int
    #: By name of the buffer: how often an allocation grew, which copies its contents.
    resizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Application:
    """The program's thread on one rank, in microseconds."""

    #: From the first call to the end of the last one.
    span: float
    #: Waits for results, and for the execution to catch up.
    waiting: float
    #: In submits, without the waits in them.
    submitting: float
    #: In Python functions that map chunks.
    mapping: float
    num_submits: int = 0
    #: The waits for results, by what they wait for, the most frequent first.
    waits: dict[str, int] = field(default_factory=dict)

    @property
    def busy_share(self) -> float:
        """The part of the span in which the program did not wait."""
        return 1 - self.waiting / self.span if self.span > 0 else 0.0


class Measures:
    """Computes figures of a run, each at its first use."""

    def __init__(self, run: Run, works: dict[int, Instructions], messages: Messages) -> None:
        self.run = run
        self._works = works
        self._messages = messages

    def device_of(self, rank: Rank) -> Integers:
        """By slice: the device of its track, or -1."""
        tracks = np.unique(rank.track)
        devices = np.full(len(self.run.texts.all), -1, np.int64)
        for track in tracks.tolist():
            found = _DEVICE.match(self.run.text(track))
            devices[track] = int(found.group(1)) if found else -1
        of_slices: Integers = devices[rank.track]
        return of_slices

    # ---- kernels

    @cached_property
    def kernels(self) -> list[KernelFigures]:
        """By name and line of submission, the longest total first."""
        parts: dict[tuple[int, int], list[tuple[Floats | Integers, ...]]] = defaultdict(list)
        for number, rank in self.run.ranks.items():
            rows = np.flatnonzero(self.run.is_kind(rank, "kernel"))
            durations = (rank.end - rank.start)[rows]
            limits = np.array([*rank.about.get("bytes_per_second", []), 0.0])
            devices = self.device_of(rank)[rows]
            limit = limits[np.minimum(devices, len(limits) - 1)]
            delays, idle = self._delays(rank, self._works[number], rows)
            columns = (
                durations, np.full(len(rows), number), devices, rank.numbers["bytes"][rows],
                limit * durations * 1e-6, delays, idle,
            )  # fmt: skip
            size = len(self.run.texts.all)
            for key, chosen in groups_of(rank.name[rows] * size + rank.texts["submitted at"][rows]):
                parts[key // size, key % size].append(tuple(column[chosen] for column in columns))
        figures = [
            KernelFigures(self.run.text(name), self.run.text(site), *map(np.concatenate, zip(*found, strict=True)))
            for (name, site), found in parts.items()
        ]
        return sorted(figures, key=lambda kernel: -kernel.total)

    @cached_property
    def kernels_by_priority(self) -> dict[int, tuple[Floats, Floats]]:
        """By the priority of the queue, the highest first: durations, and times from ready to begin, of all kernels."""
        parts: dict[int, list[tuple[Floats, Floats]]] = defaultdict(list)
        for number, rank in self.run.ranks.items():
            rows = np.flatnonzero(self.run.is_kind(rank, "kernel"))
            durations = (rank.end - rank.start)[rows]
            delays, _ = self._delays(rank, self._works[number], rows)
            for priority, chosen in groups_of(rank.numbers["priority"][rows]):
                parts[priority].append((durations[chosen], delays[chosen]))
        return {
            priority: (np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found]))
            for priority, found in sorted(parts.items(), reverse=True)
        }

    def _delays(self, rank: Rank, work: Instructions, rows: Integers) -> tuple[Floats, Floats]:
        """From ready to begin; and how much of it the lane was idle."""
        start = rank.start[rows]
        after = rank.numbers["after"][rows]
        ends = np.append(rank.end, -np.inf)
        last_rows = np.append(work.last_row_of, -1)
        after_row = last_rows[np.where((after >= 0) & (after < len(work.last_row_of)), after, -1)]
        known = start - np.nan_to_num(rank.times["known_us"][rows], nan=0.0)
        ready = np.maximum(ends[after_row], known)
        free = np.maximum(ready, ends[work.before_on_lane[rows]])
        return np.maximum(start - ready, 0.0), np.maximum(start - free, 0.0)

    # ---- overlap

    def transfer_intervals(self, rank: Rank) -> Intervals:
        """When data of other ranks was on its way to this one: not while the receive waited for its sender."""
        rows = np.flatnonzero(self.run.is_kind(rank, "receive"))
        start = rank.start[rows].copy()
        for place, row in enumerate(rows.tolist()):
            sent = self._messages.send_of(rank.number, rank, row)
            if sent is not None:
                source, send_row = sent
                peer, work = self.run.ranks[source], self._works[source]
                after = work.end_row(int(peer.numbers["after"][send_row]))
                produced = peer.end[after] if after >= 0 else -np.inf
                start[place] = max(start[place], produced, self._begin_of(source, send_row))
            own = self._begin_of(rank.number, row)
            start[place] = min(max(start[place], own), rank.end[row])
        return union(start, rank.end[rows])

    def _begin_of(self, number: int, row: int) -> float:
        rank, work = self.run.ranks[number], self._works[number]
        begin = work.begin_row(int(rank.numbers["instruction"][row]))
        return float(rank.start[row if begin < 0 else begin])

    @cached_property
    def overlap(self) -> dict[int, Overlap]:
        """By rank."""
        found = {}
        for number, rank in self.run.ranks.items():
            kernels = self._union(rank, "kernel")
            copies = self._union(rank, "copy")
            transfers = self.transfer_intervals(rank)
            found[number] = Overlap(
                kernels=kernels.length,
                copies=copies.length,
                copies_beneath=kernels.common_with(copies),
                transfers=transfers.length,
                transfers_beneath=kernels.common_with(transfers),
            )
        return found

    def _union(self, rank: Rank, *kinds: str) -> Intervals:
        mask = self.run.is_kind(rank, *kinds)
        return union(rank.start[mask], rank.end[mask])

    @cached_property
    def device_busy(self) -> dict[tuple[int, int], float]:
        """By rank and device: the part of the run in which a kernel ran."""
        span = max(self.run.end - self.run.start, 1e-9)
        busy = {}
        for number, rank in self.run.ranks.items():
            is_kernel, devices = self.run.is_kind(rank, "kernel"), self.device_of(rank)
            for device in range(rank.num_devices):
                mask = is_kernel & (devices == device)
                busy[number, device] = union(rank.start[mask], rank.end[mask]).length / span
        return busy

    # ---- traffic

    @cached_property
    def links(self) -> list[Link]:
        """Between memories of a rank, and between ranks; most bytes first."""
        links: list[Link] = []
        for number, rank in self.run.ranks.items():
            rows = np.flatnonzero(self.run.is_kind(rank, "copy"))
            ends = np.stack((rank.texts["from"][rows], rank.texts["to"][rows]), axis=1)
            for source, target in np.unique(ends, axis=0).tolist():
                chosen = rows[(ends[:, 0] == source) & (ends[:, 1] == target)]
                names = (f"rank {number} {self.run.text(memory)}" for memory in (source, target))
                link = self._link(rank, chosen, *names)
                link.busy = union(rank.start[chosen], rank.end[chosen]).length
                links.append(link)
            rows = np.flatnonzero(self.run.is_kind(rank, "send"))
            peers = rank.numbers["peer"][rows]
            links += [
                self._link(rank, rows[peers == peer], f"rank {number}", f"rank {peer}")
                for peer in np.unique(peers).tolist()
            ]
        return sorted(links, key=lambda link: -link.size_bytes)

    @staticmethod
    def _link(rank: Rank, rows: Integers, source: str, target: str) -> Link:
        return Link(source, target, len(rows), int(rank.numbers["bytes"][rows].sum()))

    @cached_property
    def sent_by_buffer(self) -> dict[str, int]:
        """The bytes of messages between ranks by buffer, the most first."""
        sent: dict[str, int] = defaultdict(int)
        for rank in self.run.ranks.values():
            rows = np.flatnonzero(self.run.is_kind(rank, "send"))
            sizes = rank.numbers["bytes"][rows]
            for buffer, chosen in groups_of(rank.texts["buffer"][rows]):
                sent[self.run.text(buffer)] += int(sizes[chosen].sum())
        return dict(sorted(sent.items(), key=lambda item: -item[1]))

    # ---- memory

    @cached_property
    def memories(self) -> list[MemoryCurve]:
        """By rank and memory."""
        curves = []
        for rank in self.run.ranks.values():
            rows = np.flatnonzero(self.run.is_kind(rank, "alloc", "free") & (rank.numbers["allocation"] >= 0))
            memories = rank.texts["memory"][rows]
            for memory in np.unique(memories).tolist():
                curve = self._curve(rank, rows[memories == memory], self.run.text(memory))
                curve.resizes = self._resizes(rank, memory)
                curves.append(curve)
        return sorted(curves, key=lambda curve: (curve.rank, curve.memory))

    def _curve(self, rank: Rank, rows: Integers, memory: str) -> MemoryCurve:
        alloc = self.run.texts.number("alloc")
        buffer_of: dict[int, str] = {}
        changes: dict[str, Floats] = {}
        base: dict[str, float] = defaultdict(float)
        for place, row in enumerate(rows.tolist()):
            allocation, size = int(rank.numbers["allocation"][row]), int(rank.numbers["bytes"][row])
            if rank.kind[row] == alloc:
                name = buffer_of[allocation] = self.run.text(rank.texts["buffer"][row])
            else:
                size = -size
                known = buffer_of.pop(allocation, None)
                name = BEFORE if known is None else known
                if known is None:  # an event that is lost has made it
                    base[name] -= size
            if name not in changes:
                changes[name] = np.zeros(len(rows))
            changes[name][place] += size
        levels = {name: np.cumsum(change) + base[name] for name, change in changes.items()}
        ordered = sorted(levels, key=lambda name: -float(levels[name].max()))
        shown = {name: levels[name] for name in ordered[:_MAX_BUFFERS]}
        if len(ordered) > _MAX_BUFFERS:
            shown[OTHERS] = np.sum([levels[name] for name in ordered[_MAX_BUFFERS:]], axis=0)
        total = np.sum(list(levels.values()), axis=0)
        times, curves = _thin_out(rank.start[rows], shown, total)
        return MemoryCurve(rank.number, memory, times, curves, int(total.max()))

    def _resizes(self, rank: Rank, memory: int) -> dict[str, int]:
        reason = self.run.texts.number("resize")
        rows = self.run.is_kind(rank, "copy") & (rank.texts["reason"] == reason) & (rank.texts["to"] == memory)
        buffers, counts = np.unique(rank.texts["buffer"][rows], return_counts=True)
        found = zip(buffers.tolist(), counts.tolist(), strict=True)
        return {self.run.text(buffer): count for buffer, count in sorted(found, key=lambda item: -item[1])}

    # ---- the application

    @cached_property
    def applications(self) -> dict[int, Application]:
        """By rank."""
        found = {}
        for number, rank in self.run.ranks.items():
            calls = self._union(rank, "submit", "wait", "blocked", "map")
            waits = self._union(rank, "wait", "blocked")
            submits = self._union(rank, "submit")
            if len(calls.start):
                found[number] = Application(
                    span=float(calls.end[-1] - calls.start[0]),
                    waiting=waits.length,
                    submitting=submits.length - submits.common_with(waits),
                    mapping=self._union(rank, "map").length,
                    num_submits=int(self.run.is_kind(rank, "submit").sum()),
                    waits=self._waits(rank),
                )
        return found

    def _waits(self, rank: Rank) -> dict[str, int]:
        names, counts = np.unique(rank.name[self.run.is_kind(rank, "wait")], return_counts=True)
        found = sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda item: -item[1])
        return {self.run.text(name).removeprefix("wait "): count for name, count in found}

    @cached_property
    def submit_medians(self) -> dict[int, dict[str, tuple[int, float, float]]]:
        """By rank and name of the task: number of submits, their median, and the share of them in mappers."""
        found: dict[int, dict[str, tuple[int, float, float]]] = {}
        for number, rank in self.run.ranks.items():
            blocked = self._union(rank, "blocked")
            maps = self._union(rank, "map")
            rows = np.flatnonzero(self.run.is_kind(rank, "submit"))
            start, end = rank.start[rows], rank.end[rows]
            durations = end - start - (blocked.up_to(end) - blocked.up_to(start))
            mapping = maps.up_to(end) - maps.up_to(start)
            found[number] = {}
            for name, chosen in groups_of(rank.name[rows]):
                total = float(durations[chosen].sum())
                share = float(mapping[chosen].sum()) / total if total > 0 else 0.0
                median = float(np.median(durations[chosen]))
                found[number][self.run.text(name).removeprefix("submit ")] = (len(chosen), median, share)
        return found


def groups_of(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """The places of each key, by ascending keys."""
    order = np.argsort(keys, kind="stable")
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1)) if len(keys) else order
    for first, places in zip(firsts.tolist(), np.split(order, firsts[1:]), strict=False):
        yield int(keys[order[first]]), places


def _thin_out(times: Floats, levels: dict[str, Floats], total: Floats) -> tuple[Floats, dict[str, Floats]]:
    """At most `_MAX_POINTS` of the points: of each stretch of time the one with the highest total, and its last."""
    if len(times) <= _MAX_POINTS:
        return times, levels
    edges = np.linspace(0, len(times), _MAX_POINTS // 2 + 1).astype(np.int64)
    chosen: list[int] = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        chosen += sorted({low + int(np.argmax(total[low:high])), high - 1})
    return times[chosen], {name: level[chosen] for name, level in levels.items()}
