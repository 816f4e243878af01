# SPDX-License-Identifier: MIT
"""The evaluation of the DAG suite: ratios, geometric means, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster_jobs.benchmarks import report
from cluster_jobs.benchmarks.dags.dag_programs import PROGRAMS
from cluster_jobs.benchmarks.dags.dag_regimes import ALL

#: A ratio is how many times as fast the first one is as the second one.
RATIOS = (("d", "a0"), ("d", "a1"), ("d", "b"), ("c", "b"), ("d", "c"), ("d'", "c"), ("d'", "d"))
WAYS = {"alone": "by itself", "in_a_row": "in a row"}


def time_of(row: Mapping[str, Any], variant: str, way: str) -> float | None:
    """The median of a variant, in microseconds; None if it was not measured."""
    figures = row["variants"].get(variant, {}).get(way)
    return float(figures["p50"]) if figures else None


def ratio_of(row: Mapping[str, Any], pair: tuple[str, str], way: str) -> float | None:
    """How many times as fast the first variant is as the second one."""
    times = [time_of(row, variant, way) for variant in pair]
    return times[1] / times[0] if times[0] and times[1] else None


def geometric_mean(values: Iterable[float]) -> float | None:
    """Of positive numbers; None if there are none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def ratios_of(
    rows: Sequence[Mapping[str, Any]], pair: tuple[str, str], way: str, regimes: Iterable[str], programs: Iterable[str]
) -> list[float]:
    """The ratios of a pair in some regimes and programs, where both were measured."""
    of = [row for row in rows if row["regime"] in regimes and row["program"] in programs]
    return [ratio for row in of if (ratio := ratio_of(row, pair, way)) is not None]


def summarize(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Geometric means over programs, and the aims.

    Args:
        rows: As `dag_suite.measure_regime` makes them.

    Returns:
        `means`, by regime, way and ratio: `six` over the six programs, and `all` with the mixtures; `aims`, each with
        what is asked for and what was found.
    """
    means = [
        {"regime": regime, "way": way, "ratio": " over ".join(pair), "least": min(found)}
        | {"six": geometric_mean(ratios_of(rows, pair, way, {regime}, PROGRAMS)), "all": geometric_mean(found)}
        for regime in dict.fromkeys(row["regime"] for row in rows)
        for way in WAYS
        for pair in RATIOS
        if (found := ratios_of(rows, pair, way, {regime}, ALL))
    ]
    return {"means": means, "aims": aims(rows)}


def aims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The aims, and the figures found with runs by themselves, as the originals were measured, and in a row."""
    asked = (
        ("d over a0, geometric mean of R1 and R3", ("R1", "R3"), ("d", "a0"), geometric_mean, 1.44),
        ("d over a1, geometric mean of R1", ("R1",), ("d", "a1"), geometric_mean, 1.28),
        ("d over b, geometric mean of R1, R2 and R3", ("R1", "R2", "R3"), ("d", "b"), geometric_mean, 0.97),
        ("d over b, least of R1, R2 and R3", ("R1", "R2", "R3"), ("d", "b"), min, 0.90),
        ("d' over c, geometric mean of R1", ("R1",), ("d'", "c"), geometric_mean, 0.97),
        ("d' over c, geometric mean of R4", ("R4",), ("d'", "c"), geometric_mean, 0.90),
    )
    result: list[dict[str, Any]] = []
    for what, regimes, pair, fold, least in asked:
        entry: dict[str, Any] = {"what": what, "aim": least}
        for way in WAYS:
            ratios = ratios_of(rows, pair, way, regimes, PROGRAMS)
            entry[way] = fold(ratios) if ratios else None
        result.append(entry)
    counted = {
        row["program"]: (row["variants"]["d"].get("waits"), row["least_waits"])
        for row in rows
        if "d" in row["variants"] and row["program"] in PROGRAMS
    }
    if counted:
        equal = sum(waits == least for waits, least in counted.values())
        result.append({"what": "programs of the six with the fewest waits", "aim": len(counted), "alone": equal})
    return result


# ---- tables


def line_of(row: Mapping[str, Any]) -> str:
    """One line on a row, for progress."""
    parts = []
    for name in row["variants"]:
        alone, in_a_row = (time_of(row, name, way) for way in WAYS)
        parts.append(f"{name} {report.duration(alone)}" + (f"/{report.duration(in_a_row)}" if in_a_row else ""))
    parts += [f"{name} FAILED" for name in row["problems"]]
    return f"  {row['program']} {row['regime']}: {', '.join(parts)} µs by itself/in a row"


def show_program(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the measurements of a program: a line for each regime and variant."""
    lines = []
    for row in rows:
        for name, figures in row["variants"].items():
            ratios = ["" if name == "d" else report.number(ratio_of(row, ("d", name), way)) for way in WAYS]
            counts = [str(figures.get(key, "-")) for key in ("waits", "streams")]
            host = report.number(figures.get("submit_us_per_kernel"))
            times = [report.spread(figures[way]) for way in WAYS]
            lines.append([row["regime"], name, *times, *ratios, *counts, host])
        lines += [[row["regime"], name, "failed", *[""] * 6] for name in row["problems"]]
    if not rows or "kernels" not in rows[0]:
        return
    of = rows[0]
    title = f"{of['program']}: {of['kernels']} kernels, {of['edges']} edges, width {of['width']}, "
    report.show(
        f"{title}at least {of['least_waits']} waits; µs per run, median (10 % to 90 %)",
        ("regime", "", "by itself", "in a row", "d is faster by", "in a row", "waits", "streams", "submit µs/kernel"),
        lines,
        num_names=2,
    )


def show_all(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
    """Print the ratios of all programs, their geometric means, and the aims."""
    for way, words in WAYS.items():
        lines = []
        for row in rows:
            ratios = [report.number(ratio_of(row, pair, way)) for pair in RATIOS]
            if any(text != "-" for text in ratios) or time_of(row, "d", way) is not None:
                lines.append([row["regime"], row["program"], report.duration(time_of(row, "d", way)), *ratios])
        lines += _means_by_regime(summary["means"], way)
        if lines:
            lines.sort(key=lambda line: line[0])
            columns = ("regime", "program", "d, µs", *(" over ".join(pair) for pair in RATIOS))
            report.show(f"Runs {words}: how many times as fast", columns, lines, num_names=2)
    _show_waits(rows)
    lines = [
        [aim["what"], report.number(aim["aim"]), *(report.number(aim.get(way)) for way in WAYS)]
        for aim in summary["aims"]
    ]
    report.show("Aims", ("", "at least", *WAYS.values()), lines)


def _show_waits(rows: Sequence[Mapping[str, Any]]) -> None:
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row["program"] not in lines and row["variants"]:
            of = [row["variants"].get(name, {}) for name in "bd"]
            counts = [str(figures.get(key, "-")) for key in ("waits", "streams") for figures in of]
            lines[row["program"]] = [str(row[key]) for key in ("kernels", "edges", "width", "least_waits")] + counts
    columns = ("program", "kernels", "edges", "width", "fewest waits", "b", "d", "streams of b", "d")
    report.show("Waits between streams in a run", columns, [[name, *counts] for name, counts in lines.items()])


def _means_by_regime(means: Sequence[Mapping[str, Any]], way: str) -> list[list[str]]:
    lines = []
    for regime in dict.fromkeys(mean["regime"] for mean in means if mean["way"] == way):
        found = {mean["ratio"]: mean for mean in means if (mean["regime"], mean["way"]) == (regime, way)}
        for title, key in (("mean of the six", "six"), ("mean of all", "all")):
            ratios = (found.get(" over ".join(pair), {}).get(key) for pair in RATIOS)
            lines.append([regime, title, "", *map(report.number, ratios)])
    return lines
