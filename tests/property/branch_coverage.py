# SPDX-License-Identifier: MIT
"""Prints the branch coverage of the graph generators from an export of llvm-cov, and fails below 95 %.

A branch is a side of a condition in the source. One that any instance of a template takes counts as taken.
`make coverage` calls this on the branches that the random programs alone have reached.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

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
#: Recorders are for tests and always on in them; the benchmarks run without.
EXEMPT = ("m_record", "m_current_record", "record != nullptr", "if constexpr")
REQUIRED = 0.95


def main() -> int:
    """Read the export named by the first argument."""
    total = taken = 0
    missing: list[str] = []
    for file in json.loads(Path(sys.argv[1]).read_text())["data"][0]["files"]:
        path = Path(file["filename"])
        if path.name not in GENERATORS or path.parents[1].name != "core":
            continue
        source = path.read_text().splitlines()
        counts: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for line, column, _, _, when_true, when_false, *_ in file["branches"]:
            counts[line, column][0] += when_true
            counts[line, column][1] += when_false
        in_file = taken_in_file = 0
        for (line, column), sides in sorted(counts.items()):
            text = source[line - 1].strip()
            if any(word in text for word in EXEMPT):
                continue
            in_file += 2
            taken_in_file += sum(count > 0 for count in sides)
            for count, side in zip(sides, ("true", "false"), strict=True):
                if not count:
                    missing.append(f"{path.name}:{line}:{column} never {side}: {text[:100]}")
        print(f"{path.name:34} {taken_in_file:4} of {in_file:4} branches  {taken_in_file / in_file:6.1%}")
        total += in_file
        taken += taken_in_file
    print(*missing, sep="\n")
    print(f"all generators: {taken} of {total} branches, {taken / total:.1%}; required: {REQUIRED:.0%}")
    return taken < REQUIRED * total


if __name__ == "__main__":
    sys.exit(main())
