# SPDX-License-Identifier: MIT
"""The evaluation of `sharing.py`: percentiles, aims and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.dags.sharing_measure import WAYS
from cluster_jobs.benchmarks.dags.sharing_programs import CASES

#: A second of the lowest program's progress.
BIN_S = 1.0


def percentiles(seconds: Sequence[float], scale: float) -> dict[str, float] | None:
    """Median, spread and the 99th percentile, in the unit of which a second has `scale`; None if there is nothing."""
    if not len(seconds):
        return None
    values = np.percentile(seconds, (10, 50, 90, 99)) * scale
    return dict(zip(("p10", "p50", "p90", "p99"), (float(value) for value in values), strict=True)) | {
        "number": len(seconds)
    }


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
            "total_ms": percentiles([max(ends.values()) for ends in together], 1e3),
            "highest_ms": percentiles([ends[0] for ends in together], 1e3),
            "highest_alone_ms": percentiles(figures["alone"][0], 1e3),
            "longest": [longest, fastest_ms[longest]],
            "ends_ms": [
                [name, float(np.median([ends[number] for ends in together])) * 1e3]
                for number, name in enumerate(names)
                if together
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
            "small_us": percentiles(figures["spans"][0], 1e6),
            "small_alone_us": percentiles(figures["alone"][0], 1e6),
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
        tenths, _ = np.histogram(ends, 10 * bins, (0, bins * BIN_S))
        gaps = np.diff([0.0, *ends, figures["seconds"]])
        rows.append({
            **about,
            "way": way,
            "lowest_by_second": tenths.reshape(bins, 10).sum(axis=1).tolist(),
            "lowest_by_tenth": tenths.tolist(),
            "lowest_per_s": len(ends) / figures["seconds"],
            "lowest_alone_per_s": figures["rate_alone"],
            "longest_gap_ms": float(gaps.max()) * 1e3,
            "highest_per_s": sum(figures["rates"][number] for number in (0, 1)),
            "middle_per_s": figures["rates"][2],
        })  # fmt: skip
    return rows


# ---- aims


def _aim(
    what: str, bound: float, found: float | None, *, is_least: bool = True, best: float | None = None
) -> dict[str, Any]:
    """`best` is the value that no way could exceed on this GPU, if that is known."""
    is_met = None if found is None else found >= bound if is_least else found <= bound
    return {"what": what, "at_least" if is_least else "at_most": bound, "found": found, "best": best, "is_met": is_met}


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def aims_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The aims of a case with one size: what is asked for, what was found, None if it was not measured."""
    by_way = {row["way"]: row for row in rows}

    def figure(way: str, key: str, part: str | None = None) -> float | None:
        value = by_way.get(way, {}).get(key)
        return value if part is None or value is None else value[part]

    if not rows:
        return []
    case = rows[0]["case"]
    if case == "starvation":
        slowest = [min(row["lowest_by_second"]) for row in rows if row["way"] == "priorities"]
        return [_aim("runs of the lowest program in its slowest second", 1, slowest[0] if slowest else None)]
    if case == "latency":
        ratio = _ratio(figure("priorities", "throughput"), figure("mps", "throughput"))
        of_small = {
            way: _ratio(figure(way, "small_us", "p99"), figure(way, "small_alone_us", "p99"))
            for way in ("priorities", "split")
        }
        return [
            _aim(
                "throughput of both, priorities over mps",
                1.3,
                ratio,
                best=_ratio(len(CASES[case].programs), figure("mps", "throughput")),
            ),
            _aim(
                "P99 of the small program, with priorities: in company over alone",
                1.05,
                of_small["priorities"],
                is_least=False,
            ),
            _aim(
                "P99 of the small program, with a split: in company over alone", 1.05, of_small["split"], is_least=False
            ),
        ]
    totals = {way: figure(way, "total_ms", "p50") for way in WAYS}
    longest = rows[0]["longest"][1]
    worse = _ratio(figure("priorities", "highest_ms", "p99"), figure("priorities", "highest_alone_ms", "p99"))
    return [
        *(
            _aim(
                f"total time, {way} over priorities",
                bound,
                _ratio(totals[way], totals["priorities"]),
                best=_ratio(totals[way], longest),
            )
            for way, bound in (("slices", 1.43), ("mps", 1.22))
        ),
        _aim("P99 of the highest program, with priorities: in company over alone", 1.05, worse, is_least=False),
    ]


# ---- tables


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _time(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _spread(figures: Mapping[str, float]) -> str:
    return f"{_time(figures['p50'])} ({_time(figures['p10'])} to {_time(figures['p90'])})"


def _title(row: Mapping[str, Any]) -> str:
    return f"{row['case']}, {row['megabytes']:.0f} MB, prefetch {row['prefetch']}: {CASES[row['case']].what}"


def show(rows: Sequence[Mapping[str, Any]], aims: Sequence[Mapping[str, Any]]) -> None:
    """Print the table of a case, and its aims."""
    if rows:
        case = rows[0]["case"]
        (_show_progress if case == "starvation" else _show_latency if case == "latency" else _show_starts)(rows)
    lines = []
    for aim in aims:
        sign, bound = ("≥", aim["at_least"]) if "at_least" in aim else ("≤", aim["at_most"])
        verdict = {None: "not measured", True: "met", False: "missed"}[aim["is_met"]]
        lines.append([aim["what"], f"{sign} {bound}", _number(aim["found"]), _number(aim["best"]), verdict])
    if lines:
        report.show("Aims", ("", "aim", "found", "possible", ""), lines)


def _show_starts(rows: Sequence[Mapping[str, Any]]) -> None:
    first = rows[0]
    lines = []
    for row in rows:
        alone, company = row["highest_alone_ms"], row["highest_ms"]
        lines.append([
            WAYS[row["way"]],
            _spread(row["total_ms"]),
            _number(row["total_ms"]["p50"] / first["total_ms"]["p50"]),
            *(_time(figures[key]) for figures in (alone, company) for key in ("p50", "p99")),
            _number(company["p99"] / alone["p99"]),
            ", ".join(f"{name} {_time(end)}" for name, end in row["ends_ms"]),
            str(row["total_ms"]["number"]),
        ])  # fmt: skip
    columns = (
        *("", "total, ms (10 to 90 %)", f"over {first['way']}", "highest alone: P50", "P99"),
        *("in company: P50", "P99", "P99 over alone", "ends, medians", "starts"),
    )
    report.show(_title(rows[0]), columns, lines)
    name, longest_ms = first["longest"]
    print(f"The longest program takes {_time(longest_ms)} ms at least: {name}")


def _show_latency(rows: Sequence[Mapping[str, Any]]) -> None:
    lines = []
    for row in rows:
        alone, company = row["small_alone_us"], row["small_us"]
        lines.append([
            WAYS[row["way"]],
            *(f"{figures[key]:.0f}" for figures in (alone, company) for key in ("p50", "p99")),
            *(f"{row[key]:.0f}" for key in ("small_per_s", "large_alone_per_s", "large_per_s")),
            _number(row["throughput"]),
        ])  # fmt: skip
    columns = (
        *("", "small alone, µs: P50", "P99", "beside the large: P50", "P99", "small, runs/s", "large alone, runs/s"),
        *("large, runs/s", "throughput of both"),
    )
    report.show(_title(rows[0]), columns, lines)


def _show_progress(rows: Sequence[Mapping[str, Any]]) -> None:
    lines = []
    for row in rows:
        keys = ("highest_per_s", "middle_per_s", "lowest_per_s", "lowest_alone_per_s", "longest_gap_ms")
        progress = " ".join(str(count) for count in row["lowest_by_second"])
        lines.append([WAYS[row["way"]], *(f"{row[key]:.1f}" for key in keys), progress])
    columns = (
        *("", "highest two, runs/s", "middle", "lowest", "lowest alone", "longest wait of the lowest, ms"),
        "runs of the lowest by second",
    )
    report.show(_title(rows[0]), columns, lines)
