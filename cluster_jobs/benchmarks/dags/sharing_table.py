# SPDX-License-Identifier: MIT
"""The evaluation of `sharing.py`: percentiles and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.dags.sharing_measure import WAYS
from cluster_jobs.benchmarks.dags.sharing_programs import CASES

#: A second of the lowest program's progress.
BIN_S = 1.0


def rows_of_starts(about: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The figures of MP-1 and MP-2, in milliseconds; `total` ends with the last program.

    `longest` is the program that takes longest, each in the way in which its median is least, by itself or in company.
    No order of the kernels ends before it.
    """
    names = CASES[about["case"]].programs
    fastest_ms = {}
    for number, name in enumerate(names):
        spans = [f["alone"][number] for f in found.values()]
        spans += [[ends[number] for ends in f["together"]] for f in found.values()]
        fastest_ms[name] = min((float(np.median(each)) for each in spans if each), default=0.0) * 1e3
    longest = max(fastest_ms, key=fastest_ms.__getitem__)
    rows = []
    for way, figures in found.items():
        together = figures["together"]
        rows.append({
            **about,
            "way": way,
            "rounds": figures["rounds"],
            "total_ms": report.percentiles([max(ends.values()) for ends in together], 1e3),
            "highest_ms": report.percentiles([ends[0] for ends in together], 1e3),
            "highest_alone_ms": report.percentiles(figures["alone"][0], 1e3),
            "longest": [longest, fastest_ms[longest]],
            "ends_ms": [
                [name, float(np.median([ends[number] for ends in together])) * 1e3]
                for number, name in enumerate(names) if together
            ],
            "late_us": max(figures["late"], default=0.0) * 1e6,
        })  # fmt: skip
    return [row for row in rows if row["total_ms"]]


def rows_of_latency(about: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The small program's time to its result in microseconds, and runs per second of both.

    `throughput` is the sum of what each program does beside the other, in parts of the most that it does by itself in
    any way: 1 if they only divide the GPU.
    """
    found = {way: figures for way, figures in found.items() if figures["rounds"]}
    most = [max((float(np.median(figures["rates_alone"][n])) for figures in found.values()), default=0) for n in (0, 1)]
    rows = []
    for way, figures in found.items():
        rates = [float(np.median(figures["rates"][number])) for number in (0, 1)]
        rows.append({
            **about,
            "way": way,
            "rounds": figures["rounds"],
            "small_us": report.percentiles(figures["spans"][0], 1e6),
            "small_alone_us": report.percentiles(figures["alone"][0], 1e6),
            "small_per_s": rates[0],
            "large_per_s": rates[1],
            "large_alone_per_s": float(np.median(figures["rates_alone"][1])),
            "throughput": sum(own / best for own, best in zip(rates, most, strict=True)),
        })  # fmt: skip
    return rows


def rows_of_progress(about: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The runs of the lowest program second by second, and its longest wait for a run."""
    rows = []
    for way, figures in found.items():
        last = max(figures["ends"])
        ends = [end for end in figures["ends"][last] if end <= figures["seconds"]]
        bins = max(1, int(figures["seconds"] / BIN_S))
        by_second, _ = np.histogram(ends, bins, (0, bins * BIN_S))
        gaps = np.diff([0.0, *ends, figures["seconds"]])
        rows.append({
            **about,
            "way": way,
            "lowest_by_second": by_second.tolist(),
            "lowest_per_s": len(ends) / figures["seconds"],
            "lowest_alone_per_s": figures["rate_alone"],
            "longest_gap_ms": float(gaps.max()) * 1e3,
            "highest_per_s": sum(figures["rates"][number] for number in (0, 1)),
            "middle_per_s": figures["rates"][2],
        })  # fmt: skip
    return rows


# ---- tables


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table of a case."""
    if not rows:
        return
    case, first = rows[0]["case"], rows[0]
    title = f"{case}, {first['megabytes']:.0f} MB, prefetch {first['prefetch']}: {CASES[case].what}"
    columns = {"starvation": _PROGRESS, "latency": _LATENCY}.get(case, _STARTS)
    told = [{**row, "name": WAYS[row["way"]], **(_start(row, first) if columns is _STARTS else {})} for row in rows]
    report.show_rows(title, [(heading.format_map(first), text) for heading, text in columns], told)
    if "longest" in first:
        print(f"The longest program takes {report.duration(first['longest'][1])} ms at least: {first['longest'][0]}")


def _start(row: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """What the line of a row says besides its figures."""
    return {
        "spread": report.spread(row["total_ms"]),
        "over_first": row["total_ms"]["p50"] / first["total_ms"]["p50"],
        "worse": row["highest_ms"]["p99"] / row["highest_alone_ms"]["p99"],
        "ends": ", ".join(f"{name} {report.duration(end)}" for name, end in row["ends_ms"]),
    }


_STARTS = (
    *(("", "{name}"), ("total, ms (10 to 90 %)", "{spread}"), ("over {way}", "{over_first:.2f}")),
    *(("highest alone: P50", "{highest_alone_ms[p50]:.4g}"), ("P99", "{highest_alone_ms[p99]:.4g}")),
    *(
        ("in company: P50", "{highest_ms[p50]:.4g}"),
        ("P99", "{highest_ms[p99]:.4g}"),
        ("P99 over alone", "{worse:.2f}"),
    ),
    *(("ends, medians", "{ends}"), ("starts", "{total_ms[number]}")),
)
_LATENCY = (
    *(("", "{name}"), ("small alone, µs: P50", "{small_alone_us[p50]:.0f}"), ("P99", "{small_alone_us[p99]:.0f}")),
    *(("beside the large: P50", "{small_us[p50]:.0f}"), ("P99", "{small_us[p99]:.0f}")),
    *(("small, runs/s", "{small_per_s:.0f}"), ("large alone, runs/s", "{large_alone_per_s:.0f}")),
    *(("large, runs/s", "{large_per_s:.0f}"), ("throughput of both", "{throughput:.2f}")),
)
_PROGRESS = (
    *(("", "{name}"), ("highest two, runs/s", "{highest_per_s:.1f}"), ("middle", "{middle_per_s:.1f}")),
    *(("lowest", "{lowest_per_s:.1f}"), ("lowest alone", "{lowest_alone_per_s:.1f}")),
    *(
        ("longest wait of the lowest, ms", "{longest_gap_ms:.1f}"),
        ("runs of the lowest by second", "{lowest_by_second}"),
    ),
)
