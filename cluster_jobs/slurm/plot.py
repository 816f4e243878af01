# SPDX-License-Identifier: MIT
"""The picture of a sweep: speedup with the ideal line, and efficiency."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from cluster_jobs.slurm.folder import write_whole

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
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeError("The plot needs matplotlib: pip install 'celerity_py[viz]'") from None
    mpl.use("agg")
    from matplotlib import pyplot as plt

    counts = sorted({row["devices"] for line in lines for row in line["rows"]})
    figure, (speedup, efficiency) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    speedup.plot(counts, counts, color="0.8", linewidth=3, label="ideal", zorder=0)
    efficiency.axhline(100, color="0.8", linewidth=3, zorder=0)
    for index, line in enumerate(lines):
        rows = [row for row in line["rows"] if row["speedup"] is not None]
        devices = [row["devices"] for row in rows]
        style = {
            "marker": "os^Dv"[index % 5],
            "color": f"C{index}",
            "capsize": 3,
            "markersize": 5,
            "label": line["label"],
        }
        for axis, key, scale in ((speedup, "speedup", 1), (efficiency, "efficiency", 100)):
            middle = [scale * row[key] for row in rows]
            # A run of time t has median / t times the value of the median.
            fast = [row["us_per_step"] / row["runs_us_per_step"][0] - 1 for row in rows]
            slow = [1 - row["us_per_step"] / row["runs_us_per_step"][-1] for row in rows]
            below = [value * part for value, part in zip(middle, slow, strict=True)]
            above = [value * part for value, part in zip(middle, fast, strict=True)]
            axis.errorbar(devices, middle, yerr=(below, above), **style)
    speedup.set(title=f"{app}: speedup", ylabel="over the fewest devices measured")
    efficiency.set(title=f"{app}: efficiency", ylabel="speedup / devices, %")
    ticks = [str(count) for count in counts]
    for axis in (speedup, efficiency):
        axis.set_xscale("log", base=2)
        axis.set_xticks(counts, ticks)
        axis.set_xlabel("devices")
        axis.grid(visible=True, color="0.93")
    speedup.set_yscale("log", base=2)
    speedup.set_yticks(counts, ticks)
    efficiency.set_ylim(0, max(110.0, efficiency.get_ylim()[1]))
    speedup.legend(fontsize="small")
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in files:
        picture = io.BytesIO()
        figure.savefig(picture, format=file.suffix[1:], dpi=130)
        write_whole(file, picture.getvalue())
    plt.close(figure)
    return files
