# SPDX-License-Identifier: MIT
"""The picture of the scaling benchmark: speedup and efficiency over devices, with the ideal line and the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeError("it needs matplotlib, pip install 'celerity_py[viz]'.") from None
    mpl.use("agg")
    from matplotlib import pyplot as plt

    sizes = list(dict.fromkeys(row["size"] for row in rows))
    counts = sorted({row["gpus"] for row in rows})
    figure, axes = plt.subplots(
        len(sizes), 2, figsize=(11, 0.6 + 4.2 * len(sizes)), squeeze=False, layout="constrained"
    )
    for (speedup, efficiency), size in zip(axes, sizes, strict=True):
        speedup.plot(counts, counts, color="0.8", linewidth=3, label="ideal", zorder=0)
        efficiency.axhline(100, color="0.8", linewidth=3, zorder=0)
        _draw_lines([row for row in rows if row["size"] == size], speedup, efficiency)
        speedup.set(title=f"Speedup: {title.format(size=size)}", ylabel="own time on fewest devices / time")
        efficiency.set(title=f"Efficiency: {title.format(size=size)}", ylabel="speedup / devices, %")
        for axis in (speedup, efficiency):
            axis.set_xscale("log", base=2)
            axis.set_xticks(counts, [str(count) for count in counts])
            axis.set_xlabel("devices")
            axis.grid(visible=True, color="0.93")
        speedup.set_yscale("log", base=2)
        speedup.set_yticks(counts, [str(count) for count in counts])
        efficiency.set_ylim(0, max(110.0, efficiency.get_ylim()[1]))
        speedup.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in files:
        figure.savefig(file, dpi=130)
    plt.close(figure)
    return files


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
            counts = [count for count, _ in points]
            style = {
                "linestyle": line,
                "marker": marker,
                "color": colours.get(label, _PEER_COLOUR),
                "capsize": 3,
                "markersize": 5,
                "label": f"{label}, {meaning}",
            }
            for axis, key, scale in ((speedup, "speedup", 1), (efficiency, "efficiency", 100)):
                middle = [scale * program[key] for _, program in points]
                # A run of time t has median / t times the speedup of the median.
                relative = [
                    [program["us_per_step"] / time for time in program["runs_us_per_step"]] for _, program in points
                ]
                below = [value * max(0.0, 1 - min(runs)) for value, runs in zip(middle, relative, strict=True)]
                above = [value * max(0.0, max(runs) - 1) for value, runs in zip(middle, relative, strict=True)]
                axis.errorbar(counts, middle, yerr=(below, above), **style)
