# SPDX-License-Identifier: MIT
"""Timelines with slices of the tests' choice, in the files that the runtime writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.runs import read_run

ABOUT: dict[str, Any] = {
    "origin_ns": 17,
    "clock_error_us": 0.0,
    "events_lost": 0,
    "command": "python made.py",
    "started": "2026-01-01 00:00:00 UTC",
    "host": "there",
    "processor": "made",
    "num_cores": 64,
    "backend": "cpu",
    "devices": "1 CPU device(s)",
    "num_devices": 1,
    "bytes_per_second": [],
    "versions": {"celerity_py": "0"},
    "settings": {"lookahead": "auto", "run_ahead": "16"},
    "changed_settings": {},
}


class MadeTrace:
    """Collects slices, and writes a file with all ranks.

    Args:
        size: Ranks of the run.
        about: Facts that differ from `ABOUT`, for all ranks.
    """

    def __init__(self, size: int = 1, **about: Any) -> None:
        self.about = {rank: {**ABOUT, "rank": rank, "size": size, **about} for rank in range(size)}
        self._tracks: dict[tuple[int, str], int] = {}
        self._lines: list[str] = []

    def add(
        self, track: str, kind: str, start: float, end: float, *, name: str = "", rank: int = 0, **args: Any
    ) -> None:
        """Add a slice; times are microseconds. "known" and "issued" are times as well."""
        for argument, word in (
            ("known", "known_us"),
            ("issued", "queued_us"),
            ("from_", "from"),
            ("at", "submitted at"),
        ):
            if argument in args:
                value = args.pop(argument)
                args[word] = start - value if word.endswith("_us") else value
        if (rank, track) not in self._tracks:
            number = self._tracks[rank, track] = len(self._tracks) + 1
            about = {"name": track, "track": track}
            self._lines.append(
                json.dumps({"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": about})
            )
        where = {"pid": rank, "tid": self._tracks[rank, track]}
        slice_ = {"ph": "X", "ts": start, "dur": end - start, "name": name or kind, "cat": kind, "args": args, **where}
        self._lines.append(json.dumps(slice_))

    def write(self, path: Path) -> Path:
        """Write the file."""
        ranks = {f"rank {rank}": about for rank, about in self.about.items()}
        events = ",\n".join(self._lines)
        path.write_text(
            f'{{"displayTimeUnit": "ns",\n"otherData": {json.dumps(ranks)},\n"traceEvents": [\n{events}\n]}}\n',
            encoding="utf-8",
        )
        return path

    def analyse(self, folder: Path) -> Analysis:
        """Through a file."""
        return Analysis(read_run([self.write(folder / "made.json")]))


def add_chain(trace: MadeTrace, *, rank: int = 0, steps: int = 10, kernel_us: float = 100, gap_us: float = 0) -> None:
    """Kernels that follow each other on device 0, all submitted and planned at the begin."""
    trace.add("application", "submit", 0, 5, rank=rank, submission=1)
    trace.add("scheduler", "plan", 5, 10, rank=rank, submission=1)
    trace.add("application", "wait", 5, 10 + steps * (kernel_us + gap_us), rank=rank, submission=2)
    at = 10.0
    for step in range(steps):
        args = {"after": step} if step else {}
        trace.add(
            "D0 compute", "kernel", at, at + kernel_us, name="step", rank=rank,
            instruction=step + 1, submission=1, known=10.0, issued=10.0, bytes=1000, **args,
        )  # fmt: skip
        at += kernel_us + gap_us
