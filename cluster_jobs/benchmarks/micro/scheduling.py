# SPDX-License-Identifier: MIT
"""Cost of graph generation without execution, beside C++ Celerity's.

    python -m cluster_jobs.benchmarks.micro.scheduling

Six program shapes (soup, chain, two trees, wave_sim, jacobi) are built through the internal interface, with
horizon step 4 and parallelism 64, recorders off. Construction and destruction of the graphs are part of each
round; the best round counts, as in the reference figures. Absolute times hold for this machine only: read the ratios.
"""

from __future__ import annotations

import statistics
from typing import Any

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.micro import celerity_reference as reference

try:
    from celerity_py import _native_testing
except ImportError as error:
    raise SystemExit(
        "This benchmark calls parts of the native core that no wheel contains. "
        "Build them in a checkout: with 'make native', or with 'pip install --editable .'."
    ) from error


def measure(topology: str, ranks: int, devices: int, level: str, rounds: int) -> dict[str, Any]:
    """Time one topology; microseconds."""
    # In several calls, so that one disturbance of the machine does not hit all rounds.
    seconds: list[float] = []
    result: dict[str, Any] = {}
    shape = {"num_ranks": ranks, "num_devices": devices, "num_rounds": max(2, rounds // 3)}
    for _ in range(3):
        result = _native_testing.measure_generation(topology, with_instructions=level == "instructions", **shape)
        seconds += result.pop("seconds")
    row = {"topology": topology, "ranks": ranks, "devices": devices, "level": level}
    row |= {"best_us": min(seconds) * 1e6, "median_us": statistics.median(seconds) * 1e6, "rounds": len(seconds)}
    return row | {key: result[key] for key in ("tasks", "commands", "instructions")}


def run(rounds: int) -> list[dict[str, Any]]:
    """All topologies and shapes, each with its reference figure."""
    rows = []
    for level, figures in (("instructions", reference.INSTRUCTIONS), ("commands", reference.COMMANDS)):
        for topology, of_celerity in figures.items():
            for shape, (celerity_us, count) in zip(reference.SHAPES[level], of_celerity, strict=True):
                row = measure(topology, *shape, level, rounds)
                rows.append(row | {"celerity_us": celerity_us, "celerity_count": count})
    return rows


def _count(row: dict[str, Any]) -> int:
    if row["level"] == "commands":
        return int(row["commands"])
    return sum(row["instructions"].values())


def _line(row: dict[str, Any]) -> list[str]:
    ratio = row["celerity_us"] / row["best_us"]
    return [
        row["topology"],
        row["level"],
        " ".join(f"{kind}={count}" for kind, count in sorted(row["instructions"].items())),
        f"{row['ranks']} x {row['devices']}",
        f"{row['best_us']:.0f}",
        f"{row['celerity_us']:.0f}",
        f"[{'green' if ratio >= 2 else 'yellow' if ratio >= 1 else 'red'}]{ratio:.2f}[/]",
        str(_count(row)),
        str(row["celerity_count"]),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="rounds per figure, at least 6 (default 12)")
    options = parser.parse_args(arguments)
    rows = run(max(6, options.rounds))
    report.show(
        "Graph generation, µs per round (best), beside C++ Celerity's figures",
        ("topology", "graph", "by kind", "ranks x devices", "ours", "Celerity", "times faster", "nodes", "Celerity"),
        map(_line, rows),
        num_names=3,
    )
    slower = [row for row in rows if row["best_us"] > row["celerity_us"]]
    print(f"{len(rows) - len(slower)} of {len(rows)} figures are no slower than C++ Celerity's.")
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
