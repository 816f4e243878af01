# SPDX-License-Identifier: MIT
"""The picture of a sweep: speedup with the ideal line, and efficiency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_jobs import speedup_plot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def save(lines: Sequence[dict[str, Any]], app: str, path: Path) -> list[Path]:
    """Draw the lines of `collect.series`, with bars from the slowest to the fastest run; PNG and SVG.

    Args:
        lines: At least one of them with a result.
        app: What was measured.
        path: Where to; the suffix is replaced.

    Returns:
        The files.

    Raises:
        RuntimeError: If matplotlib is not installed.
    """
    plt = speedup_plot.load_pyplot("The plot needs matplotlib: pip install 'celerity_py[viz]'")
    counts = sorted({row["devices"] for line in lines for row in line["rows"]})
    figure, (speedup, efficiency) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    with speedup_plot.panels(speedup, efficiency, counts):
        for index, line in enumerate(lines):
            rows = [row for row in line["rows"] if row["speedup"] is not None]
            style = {"marker": "os^Dv"[index % 5], "color": f"C{index}", "label": line["label"]}
            speedup_plot.draw_line(speedup, efficiency, [row["devices"] for row in rows], rows, style)
    speedup.set(title=f"{app}: speedup", ylabel="over the fewest devices measured")
    efficiency.set_title(f"{app}: efficiency")
    return speedup_plot.save_figure(plt, figure, path)
