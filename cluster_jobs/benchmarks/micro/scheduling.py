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

try:
    from celerity_py import _native_testing
except ImportError as error:
    raise SystemExit(
        "This benchmark calls parts of the native core that no wheel contains. "
        "Build them in a checkout: with 'make native', or with 'pip install --editable .'."
    ) from error


# C++ Celerity (6e22728 on SimSYCL e3843d8, gcc 12.2 -O3), best of 3 to 6 rounds on a 2-core AMD EPYC (Zen 4) virtual
# machine, 2026-11-21, recorders off, nothing executed: microseconds per round, and the number of nodes up to and
# including the shutdown epoch (without the staging memory freed by it).
Figures = dict[str, tuple[tuple[float, int], ...]]
#: (ranks, devices per rank), the columns of each level of graphs.
SHAPES = {"instructions": ((1, 1), (1, 4), (1, 16), (2, 4), (4, 4)), "commands": ((1, 1), (4, 1), (16, 1))}
INSTRUCTIONS: Figures = {
    "soup": ((3380, 503), (3423, 503), (3616, 503), (4179, 503), (4188, 503)),
    "chain": ((147, 43), (145, 43), (149, 43), (520, 161), (801, 281)),
    "expanding_tree": ((277, 38), (278, 38), (281, 38), (751, 162), (893, 222)),
    "contracting_tree": ((419, 173), (421, 173), (442, 173), (828, 310), (971, 370)),
    "wave_sim": ((1899, 257), (8496, 2096), (43253, 9428), (11442, 2900), (11904, 2900)),
    "jacobi": ((509, 75), (2140, 876), (37708, 13056), (3065, 1530), (3486, 1930)),
}
COMMANDS: Figures = {
    "soup": ((876, 103), (1222, 103), (1735, 103)),
    "chain": ((60.2, 39), (240, 97), (860, 97)),
    "expanding_tree": ((108, 34), (255, 94), (563, 94)),
    "contracting_tree": ((113, 34), (260, 64), (612, 64)),
    "wave_sim": ((739, 255), (1580, 655), (3570, 655)),
    "jacobi": ((187, 65), (405, 165), (1078, 165)),
}


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
    for level, figures in (("instructions", INSTRUCTIONS), ("commands", COMMANDS)):
        for topology, of_celerity in figures.items():
            for shape, (celerity_us, count) in zip(SHAPES[level], of_celerity, strict=True):
                row = measure(topology, *shape, level, rounds)
                rows.append(row | {"celerity_us": celerity_us, "celerity_count": count})
    return rows


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A row with what its line in the table says besides its figures."""
    ratio, kinds = row["celerity_us"] / row["best_us"], row["instructions"]
    return row | {
        "kinds": " ".join(f"{kind}={count}" for kind, count in sorted(kinds.items())),
        "ratio": f"[{'green' if ratio >= 2 else 'yellow' if ratio >= 1 else 'red'}]{ratio:.2f}[/]",
        "count": row["commands"] if row["level"] == "commands" else sum(kinds.values()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write the JSON file if asked to."""
    parser = report.argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="rounds per figure, at least 6 (default 12)")
    options = parser.parse_args(arguments)
    rows = run(max(6, options.rounds))
    columns = [("topology", "{topology}"), ("graph", "{level}"), ("by kind", "{kinds}")]
    columns += [
        ("ranks x devices", "{ranks} x {devices}"),
        ("ours", "{best_us:.0f}"),
        ("Celerity", "{celerity_us:.0f}"),
    ]
    columns += [("times faster", "{ratio}"), ("nodes", "{count}"), ("Celerity", "{celerity_count}")]
    title = "Graph generation, µs per round (best), beside C++ Celerity's figures"
    report.show_rows(title, columns, map(_told, rows), num_names=3)
    slower = [row for row in rows if row["best_us"] > row["celerity_us"]]
    print(f"{len(rows) - len(slower)} of {len(rows)} figures are no slower than C++ Celerity's.")
    report.write(options.output, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
