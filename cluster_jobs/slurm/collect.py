# SPDX-License-Identifier: MIT
"""Table and plot of the results that a sweep has so far."""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from cluster_jobs.files import write_json, write_whole
from cluster_jobs.slurm import plot
from cluster_jobs.slurm.sweep import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cluster_jobs.slurm.folder import Folder
    from cluster_jobs.slurm.sweep import Shape, Sweep

_TABLE_WIDTH = 140


def collect(folder: Folder) -> tuple[str, list[Path], list[str]]:
    """Write `table.txt`, `results.json`, and `speedup.png` and `.svg` into the folder.

    Returns:
        The table, the pictures (none if there is no result at all), and notes on missing and odd results.

    Raises:
        FileNotFoundError, ValueError: If the folder holds no sweep.
        RuntimeError: If matplotlib is not installed; the table is written then.
    """
    sweep = folder.sweep()
    results = {point: folder.result(point, sweep.settings) for point in sweep.points}
    whole = {point: result for point, result in results.items() if result is not None}
    planned: dict[tuple[int, Shape], int] = {}
    for point in sweep.points:
        planned[point.size, point.shape] = planned.get((point.size, point.shape), 0) + 1
    rows = []
    for (size, shape), runs_planned in sorted(planned.items()):
        times = sorted(
            result["figures"]["us_per_step"]
            for point, result in whole.items()
            if (point.size, point.shape) == (size, shape)
        )
        rows.append(
            {
                "size": size,
                "nodes": shape.nodes,
                "devices_per_node": shape.devices_per_node,
                "devices": shape.devices,
                "ranks": shape.ranks,
                "layout": shape.layout,
                "runs_planned": runs_planned,
                "runs_us_per_step": times,
                "us_per_step": statistics.median(times) if times else None,
            }
        )
    lines = series(rows)
    problems = _problems(folder, sweep, whole.values())
    text = _table(sweep.settings.app, lines)
    write_whole(folder.path / "table.txt", text)
    figures = {"settings": sweep.settings.to_json(), "rows": rows, "series": lines, "problems": problems}
    write_json(folder.path / "results.json", {**figures, "origins": [result["origin"] for result in whole.values()]})
    pictures = plot.save(lines, sweep.settings.app, folder.path / "speedup.png") if whole else []
    return text, pictures, problems


def series(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows into the lines of a plot, and compare each row with the one of its size on fewest devices.

    Returns:
        Per line: its label, size, layout, and rows with `speedup` and `efficiency` (None where nothing was measured).
        The speedup on fewest devices is their number: nothing was measured that could tell it better.
    """
    lines = []
    for size in dict.fromkeys(row["size"] for row in rows):
        of_size = _compared([row for row in rows if row["size"] == size])
        single = [row for row in of_size if row["devices_per_node"] == 1]  # both layouts are the same there
        layouts = list(dict.fromkeys(row["layout"] for row in of_size if row not in single))
        groups = [(layout, [row for row in of_size if row["layout"] == layout]) for layout in layouts]
        with_single = [
            (layout, sorted([*single, *(row for row in group if row not in single)], key=_devices))
            for layout, group in groups
        ]
        if layouts and all(len(set(map(_devices, group))) == len(group) for _, group in with_single):
            lines += [_line(size, layout, "", group) for layout, group in with_single]
            continue
        for layout in dict.fromkeys(row["layout"] for row in of_size):
            group = [row for row in of_size if row["layout"] == layout]
            widths = sorted({row["devices_per_node"] for row in group})
            for width in widths:
                suffix = f", {width} per node" if layouts else ""
                chosen = [row for row in group if row["devices_per_node"] == width]
                lines.append(_line(size, layout, suffix, sorted(chosen, key=_devices)))
    return lines


def _devices(row: dict[str, Any]) -> int:
    return int(row["devices"])


def _line(size: int, layout: str, suffix: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"label": f"size {size}, {LAYOUTS[layout]}{suffix}", "size": size, "layout": layout, "rows": list(rows)}


def _compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    measured = [row for row in rows if row["us_per_step"] is not None]
    base = min(measured, key=lambda row: (row["devices"], row["us_per_step"]), default=None)
    compared = []
    for row in rows:
        speedup = None
        if base is not None and row["us_per_step"] is not None:
            speedup = base["us_per_step"] / row["us_per_step"] * base["devices"]
        compared.append(
            {**row, "speedup": speedup, "efficiency": None if speedup is None else speedup / row["devices"]}
        )
    return compared


def _table(app: str, lines: Sequence[dict[str, Any]]) -> str:
    shown = Table(title=f"{app}: time per step (median), speedup and efficiency")
    shown.add_column("")
    for column in ("nodes", "devices", "ranks", "µs/step", "fastest", "slowest", "speedup", "efficiency", "runs"):
        shown.add_column(column, justify="right")
    for line in lines:
        for row in line["rows"]:
            times = row["runs_us_per_step"]
            runs = f"{len(times)} of {row['runs_planned']}"
            names = (line["label"], str(row["nodes"]), str(row["devices"]), str(row["ranks"]))
            if not times:
                shown.add_row(*names, "-", "-", "-", "-", "-", runs)
                continue
            measured = (f"{row['us_per_step']:.1f}", f"{times[0]:.1f}", f"{times[-1]:.1f}")
            shown.add_row(*names, *measured, f"{row['speedup']:.2f}", f"{100 * row['efficiency']:.0f} %", runs)
        shown.add_section()
    text = io.StringIO()
    Console(file=text, width=_TABLE_WIDTH).print(shown)
    return text.getvalue()


def _problems(folder: Folder, sweep: Sweep, results: Iterable[dict[str, Any]]) -> list[str]:
    problems = []
    origins = [result["origin"] for result in results]
    versions = sorted({str(origin["version"]) for origin in origins})
    if len(versions) > 1:
        problems.append(f"The results are of different versions of the code: {', '.join(versions)}.")
    launchers = sorted({str(origin["launcher"]) for origin in origins})
    if len(launchers) > 1:
        problems.append(f"The results were measured with different launchers: {', '.join(launchers)}.")
    for point in sweep.points:
        if folder.result(point, sweep.settings) is not None:
            continue
        attempt = folder.last_attempt(point)
        why = f"{attempt['state']}: {attempt['reason']}" if attempt and attempt["reason"] else "not measured yet"
        if folder.result_file(point).exists():
            why = f"{folder.result_file(point)} is damaged or of another sweep, and was left out"
        problems.append(f"{point.name} is missing ({why}).")
    return problems
