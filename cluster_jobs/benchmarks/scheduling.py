# SPDX-License-Identifier: MIT
"""Cost of graph generation without execution, beside C++ Celerity's: `python -m cluster_jobs.benchmarks.scheduling`.

Six program shapes (soup, chain, two trees, wave_sim, jacobi) are built through the internal interface, with
horizon step 4 and parallelism 64, recorders off. Construction and destruction of the graphs are part of each
round; the best round counts, as in the reference figures. Absolute times hold for this machine only: read the ratios.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from celerity_py import _native
from cluster_jobs.benchmarks import celerity_reference as reference


def measure(topology: str, ranks: int, devices: int, *, instructions: bool, rounds: int) -> dict[str, Any]:
    """Time one topology; microseconds."""
    # In several calls, so that one disturbance of the machine does not hit all rounds.
    seconds: list[float] = []
    result: dict[str, Any] = {}
    for _ in range(3):
        result = _native.measure_generation(
            topology,
            num_ranks=ranks,
            num_devices=devices,
            with_instructions=instructions,
            num_rounds=max(2, rounds // 3),
        )
        seconds += result["seconds"]
    return {
        "topology": topology,
        "ranks": ranks,
        "devices": devices,
        "level": "instructions" if instructions else "commands",
        "best_us": min(seconds) * 1e6,
        "median_us": statistics.median(seconds) * 1e6,
        "rounds": len(seconds),
        "tasks": result["tasks"],
        "commands": result["commands"],
        "instructions": result["instructions"],
    }


def run(rounds: int) -> list[dict[str, Any]]:
    """All topologies and shapes, each with its reference figure."""
    rows = []
    for topology, times in reference.INSTRUCTION_GRAPH_US.items():
        for (ranks, devices), celerity_us, count in zip(
            reference.SHAPES, times, reference.INSTRUCTIONS[topology], strict=True
        ):
            row = measure(topology, ranks, devices, instructions=True, rounds=rounds)
            rows.append(row | {"celerity_us": celerity_us, "celerity_count": count})
    for topology, times in reference.COMMAND_GRAPH_US.items():
        for ranks, celerity_us, count in zip(reference.RANKS, times, reference.COMMANDS[topology], strict=True):
            row = measure(topology, ranks, 1, instructions=False, rounds=rounds)
            rows.append(row | {"celerity_us": celerity_us, "celerity_count": count})
    return rows


def _count(row: dict[str, Any]) -> int:
    if row["level"] == "commands":
        return int(row["commands"])
    return sum(row["instructions"].values())


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows as a table."""
    result = Table(title="Graph generation, µs per round (best), beside C++ Celerity's figures")
    for name in ("topology", "graph", "by kind"):
        result.add_column(name)
    for name in ("ranks x devices", "ours", "Celerity", "times faster", "nodes", "Celerity"):
        result.add_column(name, justify="right")
    for row in rows:
        ratio = row["celerity_us"] / row["best_us"]
        kinds = " ".join(f"{kind}={count}" for kind, count in sorted(row["instructions"].items()))
        result.add_row(
            row["topology"],
            row["level"],
            kinds,
            f"{row['ranks']} x {row['devices']}",
            f"{row['best_us']:.0f}",
            f"{row['celerity_us']:.0f}",
            f"[{'green' if ratio >= 2 else 'yellow' if ratio >= 1 else 'red'}]{ratio:.2f}[/]",
            str(_count(row)),
            str(row["celerity_count"]),
        )
    return result


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="rounds per figure, at least 6 (default 12)")
    parser.add_argument("--output", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args(arguments)
    rows = run(max(6, options.rounds))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(rows))
    slower = [row for row in rows if row["best_us"] > row["celerity_us"]]
    console.print(f"{len(rows) - len(slower)} of {len(rows)} figures are no slower than C++ Celerity's.")
    if options.output:
        header = {"python": platform.python_version(), "machine": platform.processor() or platform.machine()}
        options.output.write_text(json.dumps({"environment": header, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
