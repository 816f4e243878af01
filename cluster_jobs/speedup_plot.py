# SPDX-License-Identifier: MIT
"""What pictures of measurements share; the frame of those of strong scaling: speedup and efficiency over devices."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

from cluster_jobs.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


def load_pyplot(message: str) -> Any:
    """`matplotlib.pyplot`, for files only.

    Raises:
        RuntimeError: With `message`, if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeError(message) from None
    mpl.use("agg")
    from matplotlib import pyplot as plt

    return plt


def save_figure(plt: Any, figure: Any, path: Path) -> list[Path]:
    """Write a figure as PNG and SVG, and close it. The suffix of `path` is replaced; the folder is made.

    Returns:
        The files.
    """
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for file in files:
        picture = io.BytesIO()
        figure.savefig(picture, format=file.suffix[1:], dpi=130)
        write_whole(file, picture.getvalue())
    plt.close(figure)
    return files


@contextlib.contextmanager
def panels(speedup: Any, efficiency: Any, counts: Sequence[int]) -> Iterator[None]:
    """Draw the ideal lines first. Behind the lines of the block, add scales, ticks and a legend."""
    ticks = [str(count) for count in counts]
    speedup.plot(counts, counts, color="0.8", linewidth=3, label="ideal", zorder=0)
    efficiency.axhline(100, color="0.8", linewidth=3, zorder=0)
    yield
    for axis in (speedup, efficiency):
        axis.set_xscale("log", base=2)
        axis.set_xticks(counts, ticks)
        axis.set_xlabel("devices")
        axis.grid(visible=True, color="0.93")
    efficiency.set_ylabel("speedup / devices, %")
    speedup.set_yscale("log", base=2)
    speedup.set_yticks(counts, ticks)
    efficiency.set_ylim(0, max(110.0, efficiency.get_ylim()[1]))
    speedup.legend(fontsize="small")


def draw_line(
    speedup: Any, efficiency: Any, counts: Sequence[int], figures: Sequence[Mapping[str, Any]], style: Mapping[str, Any]
) -> None:
    """Draw one line into both panels; the bars reach from the slowest to the fastest run.

    Args:
        speedup: Axes of the one panel.
        efficiency: Axes of the other one.
        counts: Devices of each point.
        figures: Of each point: "speedup", "efficiency", "us_per_step" and, of the runs, "runs_us_per_step".
        style: For matplotlib's `errorbar`, colour, marker and label.
    """
    for axis, key, scale in ((speedup, "speedup", 1), (efficiency, "efficiency", 100)):
        middle = [scale * point[key] for point in figures]
        # A run of time t has median / t times the speedup of the median.
        relative = [[point["us_per_step"] / time for time in point["runs_us_per_step"]] for point in figures]
        below = [value * max(0.0, 1 - min(runs)) for value, runs in zip(middle, relative, strict=True)]
        above = [value * max(0.0, max(runs) - 1) for value, runs in zip(middle, relative, strict=True)]
        axis.errorbar(counts, middle, yerr=(below, above), capsize=3, markersize=5, **style)
