# SPDX-License-Identifier: MIT
"""The picture of the case `starvation`: how the lowest program progresses while the highest always has work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cluster_jobs import speedup_plot
from cluster_jobs.benchmarks.dags.sharing_measure import WAYS


def save(rows: Sequence[Mapping[str, Any]], path: Path) -> list[Path]:
    """Draw the runs of the lowest program so far over the time, a line for each way; PNG and SVG.

    Args:
        rows: Of `sharing_table.rows_of_progress`, at least one.
        path: Where to; the suffix is replaced.

    Returns:
        The files.

    Raises:
        RuntimeError: If matplotlib is not installed.
    """
    plt = speedup_plot.load_pyplot("it needs matplotlib, pip install 'celerity_py[viz]'.")
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for row in rows:
        counts = np.cumsum([0, *row["lowest_by_tenth"]])
        axis.plot(np.arange(len(counts)) / 10, counts, label=WAYS[row["way"]])
    axis.set(
        title=f"The lowest program, {rows[0]['megabytes']:.0f} MB for all",
        xlabel="time with constant load of the highest programs, s",
        ylabel="runs so far",
    )
    axis.grid(visible=True, color="0.93")
    axis.legend(fontsize="small")
    return speedup_plot.save_figure(plt, figure, path)
