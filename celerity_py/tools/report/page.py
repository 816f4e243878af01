# SPDX-License-Identifier: MIT
"""The page of one run: header, advice, critical path, timeline, and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np

from celerity_py.executor.quantities import format_bytes
from celerity_py.tools.report import markup
from celerity_py.tools.report.advice import advise
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.levels import Levels, count_slices
from celerity_py.tools.report.measures import MemoryCurve
from celerity_py.tools.report.runs import Run
from celerity_py.tools.report.words import CAUSE_WORDS, format_percent, format_rate, format_time

_SECTIONS: Final = {
    "advice": "Advice",
    "path": "Critical path",
    "time": "Timeline",
    "overlap": "Overlap",
    "kernels": "Kernels",
    "submits": "Submits",
    "traffic": "Bytes by link",
    "memory": "Memory over time",
}
_MAX_RANKS: Final = 64
_MAX_CURVES: Final = 24
#: The colours of the timeline: those of the causes, and of slices that are no cause.
_LEGEND: Final = {
    "kernel": "kernels",
    "host task": "host tasks, contents by functions",
    "copy": "copies",
    "transfer": "messages, signals and fetches",
    "allocation": "allocations",
    "planning": "planning, Python mappers",
    "issuing": "issues and launches",
    "application": "submits",
    "peer": "waits",
    "other": "other work of the executor",
}
_COLOURS: Final = ("kernel", "copy", "transfer", "planning", "allocation", "host-task", "issuing", "other", "peer")
_KEYS: Final = (
    ("← →", "move"),
    ("+ -", "zoom"),
    ("↑ ↓", "another row"),
    ("n p", "next or previous slice"),
    ("Enter", "zoom to the slice"),
    ("1 … 9", "windows with slices of a long run"),
    ("Home", "the whole run"),
)


def report_page(analysis: Analysis) -> str:
    """The report of a run, as HTML."""
    run = analysis.run
    parts = {
        "advice": advice_list(analysis),
        "path": _path(analysis),
        "time": _timeline(run),
        "overlap": _overlap(analysis),
        "kernels": _kernels(analysis),
        "submits": _submits(analysis),
        "traffic": _traffic(analysis),
        "memory": _memory(analysis),
    }
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items())
    body = (
        f"<header><h1>{markup.cell(title_of(run))}</h1>\n{markup.facts(header_of(run))}</header>\n<nav>{links}</nav>\n"
    )
    body += "".join(markup.section(name, _SECTIONS[name], content) for name, content in parts.items())
    return markup.page(title_of(run), body, Levels(analysis).content())


def title_of(run: Run) -> str:
    """The program, and where it ran."""
    words = str(run.about.get("command", "")).split()
    scripts = [word.rsplit("/", 1)[-1] for word in words if word.endswith(".py")]
    modules = [word for option, word in pairwise(words) if option == "-m"]
    script = next(iter(scripts + modules), "program")
    devices = sum(rank.num_devices for rank in run.ranks.values())
    return f"{script}: {len(run.ranks)} of {run.size} rank(s), {devices} device(s)"


def header_of(run: Run) -> dict[str, str]:
    """The run in names and values."""
    about = run.about
    hosts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, rank in run.ranks.items():
        what = f"{rank.about.get('devices')}, {rank.about.get('processor')}, {rank.about.get('num_cores')} core(s)"
        hosts[str(rank.about.get("host")), what].append(number)
    hardware = [f"{host}: {what} for rank(s) {_few(numbers)}" for (host, what), numbers in hosts.items()]
    changed = " ".join(f"{name}={value}" for name, value in about.get("changed_settings", {}).items())
    return {
        "Command": str(about.get("command")),
        "Started": str(about.get("started")),
        "Hardware": "; ".join(hardware[:8]) + ("; …" if len(hardware) > 8 else ""),
        "Versions": ", ".join(f"{name} {version}" for name, version in about.get("versions", {}).items()),
        "Settings": changed or "all at their defaults",
        "Planning": f"lookahead {about['settings'].get('lookahead')}, run-ahead {about['settings'].get('run_ahead')}",
        "Time shown": f"{format_time(run.end - run.start)}, {count_slices(run)} slices, {run.events_lost} events lost",
    }


def _few(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return shown + (f", … ({len(numbers)} in all)" if len(numbers) > 8 else "")


def advice_list(analysis: Analysis) -> str:
    """The findings, each with its remedy."""
    items = "".join(
        f'<li><span class="finding">{markup.cell(advice.finding)}.</span> {markup.cell(advice.remedy)}</li>\n'
        for advice in advise(analysis)
    )
    return f'<ol class="advice">\n{items}</ol>\n'


def _path(analysis: Analysis) -> str:
    run, path = analysis.run, analysis.path
    text = (
        "<p>From the last instruction back to the begin of the run, always along the event that was waited for. To "
        "shorten the run, shorten this path.</p>\n"
    )
    heads = ("cause", "time", "share")
    text += markup.cause_bar(path) + markup.cause_table("The critical path, which crosses ranks.", heads, [path])
    names = [item for item in path.by_name(run).items() if item[0][1]]
    text += "<h3>Longest on the path</h3>\n" + markup.table(
        "Slices with one name together.",
        ("slice", "cause", "time", "share"),
        (
            (name, CAUSE_WORDS[cause], format_time(spent), format_percent(spent / max(path.length, 1e-9)))
            for (cause, name), spent in names[:15]
        ),
    )
    if 1 < len(run.ranks) <= _MAX_RANKS:
        causes = [
            cause for cause in CAUSE_WORDS if any(each.by_cause()[cause] > 0 for each in analysis.rank_paths.values())
        ]
        text += "<h3>By rank</h3>\n" + markup.table(
            "The way back to the begin within each rank: its waits for other ranks are a cause of their own.",
            ("rank", *causes),
            (
                (rank, *(format_percent(each.share(cause)) for cause in causes))
                for rank, each in analysis.rank_paths.items()
            ),
        )
    return text


def _timeline(run: Run) -> str:
    keys = ", ".join(f"<kbd>{key}</kbd> {meaning}" for key, meaning in _KEYS)
    colours = "".join(f"<span>{markup.swatch(name)}{meaning}</span> " for name, meaning in _LEGEND.items())
    return (
        f"<p>Keys, once the timeline has the focus: {keys}. With a mouse: click for details, drag to move, turn the "
        f'wheel to zoom, click twice for the whole run.</p>\n<p class="dim legend">{colours}</p>\n'
        f'<canvas id="timeline" tabindex="0" role="application" aria-label="Timeline of {len(run.ranks)} rank(s)" '
        f'aria-describedby="details"></canvas>\n<div id="details" role="status" aria-live="polite"></div>\n'
    )


def _share(value: float | None) -> str:
    return "—" if value is None else format_percent(value)


def _overlap(analysis: Analysis) -> str:
    measures = analysis.measures
    rows = [
        (
            rank,
            _share(float(np.mean([busy for (of, _), busy in measures.device_busy.items() if of == rank] or [0.0]))),
            format_time(overlap.copies),
            _share(overlap.share_of_copies),
            format_time(overlap.transfers),
            _share(overlap.share_of_transfers),
        )
        for rank, overlap in measures.overlap.items()
    ]
    return markup.table(
        "Of the time with a copy or transfer under way, the part during which a kernel of the same rank runs.",
        ("rank", "devices busy", "copies", "beneath kernels", "transfers", "beneath kernels"),
        rows,
    )


def _kernels(analysis: Analysis) -> str:
    rows = []
    for kernel in analysis.measures.kernels[: markup.MAX_TABLE_ROWS]:
        rate = kernel.bytes_per_second
        rows.append(
            (
                f"{kernel.name} ({kernel.site})",
                kernel.count,
                format_time(kernel.total),
                format_time(kernel.quantile(0.5)),
                format_time(kernel.quantile(0.95)),
                format_bytes(int(kernel.bytes_touched.sum())) if kernel.knows_bytes else "—",
                "—" if rate is None else format_rate(rate),
                _share(kernel.share_of_memory_limit),
                format_time(float(np.median(kernel.delays))),
                format_time(float(np.quantile(kernel.delays, 0.95))),
                format_time(float(kernel.idle_delays.sum())),
            )
        )
    left_out = max(len(analysis.measures.kernels) - len(rows), 0)
    more = f" {left_out} kernels with less time are left out." if left_out else ""
    text = markup.table(
        "Bytes are those of the declared regions, read and written. The limit is that of the memory of a GPU; it is "
        "not known for CPU devices, and no limit of computation is known. Ready to start: from the end of the last "
        "dependency to the begin; lane idle: the part of it in which the lane had nothing else to do, of all calls."
        + more,
        ("kernel", "calls", "total", "median", "95 %", "bytes touched", "rate", "of memory limit",
         "ready to start, median", "95 %", "lane idle"),
        rows,
    )  # fmt: skip
    by_priority = analysis.measures.kernels_by_priority
    if len(by_priority) <= 1:
        return text
    return text + markup.table(
        "All kernels of the queues of each priority.",
        ("priority", "calls", "total", "ready to start, median", "99 %", "longest"),
        (
            (
                priority,
                len(durations),
                format_time(float(durations.sum())),
                *(format_time(float(np.quantile(delays, part))) for part in (0.5, 0.99, 1.0)),
            )
            for priority, (durations, delays) in by_priority.items()
        ),
    )


def _submits(analysis: Analysis) -> str:
    measures = analysis.measures
    rows: list[tuple[Any, ...]] = []
    for rank, submits in measures.submit_medians.items():
        for task, (count, median, share) in submits.items():
            rows.append((task, rank, count, format_time(median), format_percent(share), count * median))
    rows.sort(key=lambda row: -row[-1])
    text = markup.table(
        "Time in the call, without waits because the program is too far ahead.",
        ("task", "rank", "submits", "median", "in Python mappers"),
        (row[:-1] for row in rows),
    )
    return text + markup.table(
        "The thread of the program, from its first call to its last: busy while it does not wait.",
        ("rank", "time", "busy", "in submits", "waiting"),
        (
            (
                rank,
                format_time(application.span),
                format_percent(application.busy_share),
                format_time(application.submitting),
                format_time(application.waiting),
            )
            for rank, application in measures.applications.items()
        ),
    )


def _traffic(analysis: Analysis) -> str:
    return markup.table(
        "Copies between the memories of a rank, with the rate while one is under way, and messages between ranks.",
        ("from", "to", "number", "bytes", "rate"),
        (
            (
                link.source,
                link.target,
                link.count,
                format_bytes(link.size_bytes),
                "—" if link.bytes_per_second is None else format_rate(link.bytes_per_second),
            )
            for link in analysis.measures.links
        ),
    )


def _memory(analysis: Analysis) -> str:
    run, curves = analysis.run, analysis.measures.memories
    text = markup.table(
        "Allocations of the runtime.",
        ("memory", "rank", "peak", "greatest buffers at their peaks", "resizes"),
        (
            (
                curve.memory,
                curve.rank,
                format_bytes(curve.peak_bytes),
                ", ".join(
                    f"{name or 'staging'} {format_bytes(int(level.max()))}"
                    for name, level in list(curve.by_buffer.items())[:4]
                ),
                ", ".join(f"{buffer} {count}" for buffer, count in list(curve.resizes.items())[:4]) or "—",
            )
            for curve in curves
        ),
    )
    largest = sorted(curves, key=lambda curve: -curve.peak_bytes)[:_MAX_CURVES]
    shown = sorted(largest, key=lambda curve: (curve.rank, curve.memory))
    return text + "".join(_curve(curve, run.start, run.end) for curve in shown)


def _curve(curve: MemoryCurve, start: float, end: float) -> str:
    """The bytes by buffer, stacked, as a picture."""
    width, height, left = 900, 110, 90
    span, peak = max(end - start, 1e-9), max(curve.peak_bytes, 1)
    times = np.append(curve.times, end)
    below = np.zeros(len(curve.times))
    shapes, words = [], []
    for number, (name, level) in enumerate(curve.by_buffer.items()):
        colour = f"var(--{_COLOURS[number % len(_COLOURS)]})"
        above = below + np.maximum(level, 0)
        points = [*_stairs(times, above, start, span, peak), *reversed(_stairs(times, below, start, span, peak))]
        at = " ".join(f"{left + (width - left) * x:.1f},{5 + (height - 10) * (1 - y):.1f}" for x, y in points)
        shapes.append(f'<polygon points="{at}" fill="{colour}"><title>{markup.cell(name)}</title></polygon>')
        words.append(f'<span class="swatch" style="background:{colour}"></span>{markup.cell(name or "staging")} ')
        below = above
    title = f"{curve.memory} of rank {curve.rank}, at most {format_bytes(curve.peak_bytes)}"
    axis = f'<path class="axis" d="M{left},5V{height - 5}H{width}"/>'
    label = (
        f'<text x="{left - 6}" y="16" text-anchor="end">{format_bytes(curve.peak_bytes)}</text>'
        f'<text x="{left}" y="{height + 10}">0</text>'
        f'<text x="{width}" y="{height + 10}" text-anchor="end">{format_time(span)}</text>'
    )
    return (
        f'<h3>{markup.cell(title)}</h3><svg viewBox="0 0 {width} {height + 14}" width="100%" '
        f'style="max-width:{width}px" role="img" aria-label="{markup.cell(title)}">{axis}{label}{"".join(shapes)}</svg>'
        f'<p class="dim">{"".join(words)}</p>\n'
    )


def _stairs(times: Any, level: Any, start: float, span: float, peak: float) -> list[tuple[float, float]]:
    """The corners of a step curve, in parts of the width and height."""
    places = ((times - start) / span).tolist()
    heights: Iterable[float] = (level / peak).tolist()
    corners: list[tuple[float, float]] = []
    for place, following, value in zip(places, places[1:], heights, strict=False):
        corners += [(place, value), (following, value)]
    return corners
