# SPDX-License-Identifier: MIT
"""Makes the page of a run, or the comparison of two, out of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from celerity_py.report.analysis import Analysis
from celerity_py.report.comparison import compare_page
from celerity_py.report.page import report_page
from celerity_py.report.runs import group_by_run, read_run


def make_page(files: Sequence[Path]) -> str:
    """The report of a run, or the comparison of two runs in the order of their files, as HTML.

    Args:
        files: The timelines of all ranks of a run, or of two runs; a file per rank, or merged ones.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file is no timeline, repeats a rank, or is of a third run.
    """
    groups = group_by_run(files)
    if len(groups) > 2:
        firsts = ", ".join(str(group[0]) for group in groups)
        raise ValueError(f"The files are of {len(groups)} runs: {firsts}. Name those of one run, or of two to compare.")
    runs = [Analysis(read_run(paths)) for paths in groups]
    return report_page(runs[0]) if len(runs) == 1 else compare_page(*runs)
