# SPDX-License-Identifier: MIT
"""The page that compares two runs."""

from __future__ import annotations

import numpy as np

from celerity_py.executor.quantities import format_bytes
from celerity_py.tools.report import markup
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.measures import KernelFigures
from celerity_py.tools.report.page import advice_list, header_of, title_of
from celerity_py.tools.report.runs import Run
from celerity_py.tools.report.words import CAUSE_WORDS, format_percent, format_time


def compare_page(first: Analysis, second: Analysis) -> str:
    """Two runs side by side, as HTML."""
    runs = (first, second)
    parts = [
        markup.section(
            "verdict", "In short", "".join(f"<p>{markup.cell(line)}</p>\n" for line in verdict(first, second))
        ),
        markup.section("runs", "The runs", _headers(first, second)),
        markup.section("path", "Critical paths", _paths(first, second)),
        markup.section("kernels", "Kernels", _kernels(first, second)),
        markup.section("figures", "Figures", _figures(first, second)),
    ]
    parts += [
        markup.section(f"advice{letter}", f"Advice about {letter}", advice_list(each))
        for letter, each in zip("AB", runs, strict=True)
    ]
    title = title_of_both(first.run, second.run)
    return markup.page(title, f"<header><h1>{markup.cell(title)}</h1></header>\n{''.join(parts)}")


def title_of_both(first: Run, second: Run) -> str:
    """The programs, and where they ran."""
    return f"{title_of(first)} (A) and {title_of(second)} (B)"


def verdict(first: Analysis, second: Analysis) -> list[str]:
    """The difference of the two runs in sentences: the total, the settings, and the causes that changed most."""
    before, after = first.path.length, second.path.length
    ratio = after / before if before > 0 else 1.0
    word = "longer" if ratio > 1 else "shorter"
    difference = format_percent(abs(ratio - 1))
    lines = [f"B's critical path takes {format_time(after)}, A's {format_time(before)}: B is {difference} {word}."]
    for letter, run in (("A", first.run), ("B", second.run)):
        if len(run.ranks) < run.size:
            lines.append(
                f"{letter} has the timelines of {len(run.ranks)} of {run.size} ranks. If a later run has overwritten "
                f"the others, leave them out."
            )
    changes = changed_settings(first, second)
    if changes:
        shown = ", ".join(f"{name} {old} → {new}" for name, (old, new) in changes.items())
        lines.append(f"Different settings: {shown}.")
    causes_a, causes_b = first.path.by_cause(), second.path.by_cause()
    differences = sorted(causes_a, key=lambda cause: -abs(causes_b[cause] - causes_a[cause]))
    for cause in differences[:3]:
        change = causes_b[cause] - causes_a[cause]
        if abs(change) >= 0.05 * max(before, after):
            more = "more" if change > 0 else "less"
            lines.append(f"B spends {format_time(abs(change))} {more} on {CAUSE_WORDS[cause]}.")
    return lines


def changed_settings(first: Analysis, second: Analysis) -> dict[str, tuple[str, str]]:
    """Settings and versions that differ, with both values."""
    found = {}
    for group in ("settings", "versions"):
        a, b = (each.run.about.get(group, {}) for each in (first, second))
        for name in {**a, **b}:
            if a.get(name) != b.get(name):
                found[name] = (str(a.get(name, "")) or "unset", str(b.get(name, "")) or "unset")
    return found


def _headers(first: Analysis, second: Analysis) -> str:
    a, b = header_of(first.run), header_of(second.run)
    return markup.table("", ("", "A", "B"), ((name, a[name], b[name]) for name in a))


def _paths(first: Analysis, second: Analysis) -> str:
    heads = ("cause", "A", "share", "B", "share")
    bars = f"<h3>A</h3>{markup.cause_bar(first.path)}<h3>B</h3>{markup.cause_bar(second.path)}"
    return bars + markup.cause_table("Time on the critical path.", heads, [first.path, second.path])


def _kernels(first: Analysis, second: Analysis) -> str:
    names: dict[str, None] = {}
    by_name: list[dict[str, list[KernelFigures]]] = []
    for each in (first, second):
        found: dict[str, list[KernelFigures]] = {}
        for kernel in each.measures.kernels:
            found.setdefault(kernel.name, []).append(kernel)
            names.setdefault(kernel.name)
        by_name.append(found)
    rows = []
    for name in names:
        a, b = (_durations(found.get(name, [])) for found in by_name)
        ratio = f"{b.sum() / a.sum():.2f}" if len(a) and len(b) and a.sum() > 0 else "—"
        rows.append((name, *_figures_of(a), *_figures_of(b), ratio))
    heads = ("kernel", "A: calls", "total", "median", "B: calls", "total", "median", "B / A")
    return markup.table("All kernels of one name together; the last column compares the totals.", heads, rows)


def _durations(kernels: list[KernelFigures]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.concatenate([kernel.durations for kernel in kernels]) if kernels else np.zeros(0)


def _figures_of(durations: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[str, str, str]:
    if not len(durations):
        return "—", "—", "—"
    return str(len(durations)), format_time(float(durations.sum())), format_time(float(np.median(durations)))


def _figures(first: Analysis, second: Analysis) -> str:
    columns = [_single_figures(each) for each in (first, second)]
    return markup.table("", ("figure", "A", "B"), ((name, columns[0][name], columns[1][name]) for name in columns[0]))


def _single_figures(analysis: Analysis) -> dict[str, str]:
    measures = analysis.measures
    overlaps = list(measures.overlap.values())

    def share(beneath: float, total: float) -> str:
        return format_percent(beneath / total) if total > 0 else "—"

    delays = [kernel.delays for kernel in measures.kernels]
    messages = sum(link.size_bytes for link in measures.links if link.busy is None)
    copies = sum(link.size_bytes for link in measures.links if link.busy is not None)
    return {
        "devices busy": format_percent(float(np.mean(list(measures.device_busy.values()) or [0.0]))),
        "copies beneath kernels": share(sum(o.copies_beneath for o in overlaps), sum(o.copies for o in overlaps)),
        "transfers beneath kernels": share(
            sum(o.transfers_beneath for o in overlaps), sum(o.transfers for o in overlaps)
        ),
        "ready to start, median": format_time(float(np.median(np.concatenate(delays)))) if delays else "—",
        "bytes between ranks": format_bytes(messages),
        "bytes copied": format_bytes(copies),
        "greatest peak of a memory": format_bytes(max((curve.peak_bytes for curve in measures.memories), default=0)),
        "resizes": str(sum(sum(curve.resizes.values()) for curve in measures.memories)),
        "application busy, at most": format_percent(
            max((each.busy_share for each in measures.applications.values()), default=0.0)
        ),
    }
