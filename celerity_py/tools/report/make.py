# SPDX-License-Identifier: MIT
"""Makes the report of a run, or the comparison of two, out of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from celerity_py.tools.report.advice import advise
from celerity_py.tools.report.analysis import Analysis
from celerity_py.tools.report.comparison import compare_page, title_of_both, verdict
from celerity_py.tools.report.page import report_page, title_of
from celerity_py.tools.report.runs import group_by_run, read_run


class Report(NamedTuple):
    """A page, and the sentences of it that come first."""

    #: HTML.
    page: str
    title: str
    #: Findings about a run, the greatest first. For two runs, the verdict comes before those of each.
    findings: dict[str, list[str]]


def make_report(files: Sequence[Path]) -> Report:
    """The report of a run, or the comparison of two runs in the order of their files.

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
    if len(runs) == 1:
        return Report(report_page(runs[0]), title_of(runs[0].run), {"Advice": _findings(runs[0])})
    first, second = runs
    return Report(
        compare_page(first, second),
        title_of_both(first.run, second.run),
        {"In short": verdict(first, second), "Advice about A": _findings(first), "Advice about B": _findings(second)},
    )


def _findings(analysis: Analysis) -> list[str]:
    return [f"{advice.finding}." for advice in advise(analysis)]
