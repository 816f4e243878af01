# SPDX-License-Identifier: MIT
"""The picture of the scaling benchmark: speedup and efficiency over devices, with the ideal line and the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster_jobs import speedup_plot

_STYLES = {"process": ("-", "o", "one process"), "rank": ("--", "s", "one rank per device")}
_PEER_COLOUR = "0.45"


def save(rows: Sequence[dict[str, Any]], title: str, path: Path) -> list[Path]:
    """Draw one line of panels per size; PNG and SVG.

    Args:
        rows: Of `strong_scaling`, with speedup and efficiency.
        title: What an application is called; "{size}" stands for the size.
        path: Where to; the suffix is replaced.

    Returns:
        The files.

    Raises:
        RuntimeError: If matplotlib is not installed.
    """
    plt = speedup_plot.load_pyplot("it needs matplotlib, pip install 'celerity_py[viz]'.")
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    counts = sorted({row["gpus"] for row in rows})
    figure, axes = plt.subplots(
        len(sizes), 2, figsize=(11, 0.6 + 4.2 * len(sizes)), squeeze=False, layout="constrained"
    )
    for (speedup, efficiency), size in zip(axes, sizes, strict=True):
        with speedup_plot.panels(speedup, efficiency, counts):
            _draw_lines([row for row in rows if row["size"] == size], speedup, efficiency)
        speedup.set(title=f"Speedup: {title.format(size=size)}", ylabel="own time on fewest devices / time")
        efficiency.set_title(f"Efficiency: {title.format(size=size)}")
    return speedup_plot.save_figure(plt, figure, path)


def _draw_lines(rows: Sequence[dict[str, Any]], speedup: Any, efficiency: Any) -> None:
    """A line for each program and layout of one size; the bars reach from the slowest to the fastest run."""
    labels = list(dict.fromkeys(label for row in rows for label in row["programs"]))
    colours = {label: f"C{index}" for index, label in enumerate(label for label in labels if label != "by hand")}
    for layout in dict.fromkeys(row["layout"] for row in rows):
        line, marker, meaning = _STYLES[layout]
        for label in labels:
            points = [
                (row["gpus"], row["programs"][label])
                for row in rows
                if row["layout"] == layout and row["programs"].get(label, {}).get("speedup") is not None
            ]
            if not points:
                continue
            style = {
                "linestyle": line,
                "marker": marker,
                "color": colours.get(label, _PEER_COLOUR),
                "label": f"{label}, {meaning}",
            }
            counts, programs = zip(*points, strict=True)
            speedup_plot.draw_line(speedup, efficiency, counts, programs, style)
