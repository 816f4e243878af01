# SPDX-License-Identifier: MIT
"""Prints what of the cores a build with `--coverage` has carried out, as gcov counts it.

    python tests/property/branch_coverage.py generators build/coverage    # the branches of the graph generators
    python tests/property/branch_coverage.py rooms build/coverage         # lines and branches of each room

A branch is a side of a condition in the source: none of a line without a condition, where objects are destroyed, and no
way to a handler of exceptions. One that any instance of a template takes counts as taken. The first command fails below
95 %: `make coverage` calls it on the branches that the random programs alone have reached, and the second one when the
other tests have run as well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES = ("scheduler/core", "executor/core")
GENERATORS = (
    "dependency_window.hpp",
    "task_graph.cpp",
    "command_graph.cpp",
    "local_chunks.cpp",
    "scheduling_pipeline.cpp",
    "replayer.cpp",
    "anticipation.cpp",
    "coherence.cpp",
    "copy_sources.cpp",
    "execution_plan.cpp",
    "instruction_builder.cpp",
    "instruction_graph.cpp",
    "instruction_graph_tasks.cpp",
    "rank_memory.cpp",
    "transfers.cpp",
)
_CONDITIONS = re.compile(r"\b(?:if|for|while|switch|case|default)\b|\?|&&|\|\|")
#: Recorders are for tests and always on in them; the benchmarks run without. What ensure() says is never false.
EXEMPT = ("m_record", "m_current_record", "record != nullptr", "if constexpr", "ensure(")
REQUIRED = 0.95


class Counts:
    """Of one file."""

    def __init__(self) -> None:
        self.lines: dict[int, int] = defaultdict(int)
        #: By line and number of branches, as instances of a template may differ in it.
        self.branches: dict[tuple[int, int], list[int]] = {}

    def add(self, line: dict[str, object], number: int, branches: list[int]) -> None:
        self.lines[number] += int(str(line["count"]))
        if branches:
            sums = self.branches.setdefault((number, len(branches)), [0] * len(branches))
            sums[:] = [a + b for a, b in zip(sums, branches, strict=True)]


def read(build: Path) -> dict[Path, Counts]:
    """The counts of each file of the cores, by its path in the tree."""
    data = sorted(build.rglob("*.gcda"))
    if not data:
        raise SystemExit(f"no program built in {build} has written counts")
    found: dict[Path, Counts] = defaultdict(Counts)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for report in pool.map(_gcov, data):
            for file in report["files"]:
                path = Path(os.path.normpath(Path(report["current_working_directory"]) / file["file"]))
                if not any(path.is_relative_to(ROOT / core) for core in CORES):
                    continue
                for line in file["lines"]:
                    branches = [branch["count"] for branch in line["branches"] if not branch["throw"]]
                    found[path.relative_to(ROOT)].add(line, line["line_number"], branches)
    return found


def _gcov(data: Path) -> dict:  # type: ignore[type-arg]
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", str(data)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=data.parent).stdout))


def branches_of(path: Path, counts: Counts) -> list[tuple[str, int]]:
    """Each branch that counts: its place with the text of the line, and how often it was taken."""
    source = (ROOT / path).read_text().splitlines()
    return [
        (f"{path.name}:{number}: {source[number - 1].strip()[:100]}", count)
        for (number, _), sides in sorted(counts.branches.items())
        if _CONDITIONS.search(source[number - 1]) and not any(word in source[number - 1] for word in EXEMPT)
        for count in sides
    ]


def show(name: str, kind: str, taken: int, total: int) -> None:
    print(f"{name:34} {taken:5} of {total:5} {kind:8}  {taken / max(total, 1):6.1%}")


def generators(files: dict[Path, Counts]) -> int:
    """Print the branches of the graph generators. Returns 1 if too few were taken."""
    total = taken = 0
    missing: list[str] = []
    chosen = sorted(path for path in files if path.name in GENERATORS and path.is_relative_to("scheduler/core"))
    if absent := set(GENERATORS) - {path.name for path in chosen}:
        raise SystemExit(f"no counts of {', '.join(sorted(absent))}")
    for path in chosen:
        branches = branches_of(path, files[path])
        show(path.name, "branches", sum(count > 0 for _, count in branches), len(branches))
        total += len(branches)
        taken += sum(count > 0 for _, count in branches)
        missing += [f"never: {place}" for place, count in branches if count == 0]
    print(*missing, sep="\n")
    show(f"all generators, {REQUIRED:.0%} required", "branches", taken, total)
    return int(taken < REQUIRED * total)


def rooms(files: dict[Path, Counts]) -> int:
    """Print lines and branches of each room, and of each core."""
    for core in CORES:
        inside = {path: counts for path, counts in files.items() if path.is_relative_to(core)}
        for room in (*sorted({path.parent for path in inside}), Path(core)):
            chosen = {path: counts for path, counts in inside.items() if path.is_relative_to(room)}
            lines = [count for counts in chosen.values() for count in counts.lines.values()]
            branches = [count for path, counts in chosen.items() for _, count in branches_of(path, counts)]
            show(str(room), "lines", sum(count > 0 for count in lines), len(lines))
            show("", "branches", sum(count > 0 for count in branches), len(branches))
    return 0


if __name__ == "__main__":
    sys.exit({"generators": generators, "rooms": rooms}[sys.argv[1]](read(Path(sys.argv[2]).resolve())))
