# SPDX-License-Identifier: MIT
"""Rules for every test: time limits, hypothesis profiles, and failures under MPI."""

from __future__ import annotations

import getpass
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

if importlib.util.find_spec("hypothesis") is not None:  # the tests on GPUs do without
    import hypothesis

    # `full` is what `make test` runs. No deadline: a slow machine is no bug.
    hypothesis.settings.register_profile("quick", max_examples=75, deadline=None)
    hypothesis.settings.register_profile("full", max_examples=200, deadline=None)
    hypothesis.settings.load_profile("quick")


def _num_ranks() -> int:
    mpi = sys.modules.get("mpi4py.MPI")  # pytest-mpi imported it if, and only if, --with-mpi was given
    return int(mpi.COMM_WORLD.size) if mpi is not None else 1


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--with-mpi", default=False):
        return
    from mpi4py import MPI

    # Ranks that tidy up one folder of temporary folders at the same time find each other's half-removed ones.
    root = Path(tempfile.gettempdir()) / f"pytest-of-{getpass.getuser()}-rank-{MPI.COMM_WORLD.rank}"
    root.mkdir(mode=0o700, exist_ok=True)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(root)

    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if MPI.COMM_WORLD.rank > 0 and reporter is not None:
        # One report is enough; failures of the other ranks are printed by the hook below.
        reporter._tw._file = Path(os.devnull).open("w")  # noqa: SIM115  (lives as long as the run)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    report = yield
    assert isinstance(report, pytest.TestReport)
    if report.failed and _num_ranks() > 1:
        # The other ranks are, or soon will be, inside a collective operation that this rank never reaches.
        from mpi4py import MPI

        print(f"\n[rank {MPI.COMM_WORLD.rank}] {item.nodeid} failed in {report.when}", file=sys.__stderr__)
        print(report.longreprtext, file=sys.__stderr__, flush=True)
        for title, text in report.sections:
            print(f"---- {title}\n{text}", file=sys.__stderr__, flush=True)
        MPI.COMM_WORLD.Abort(1)
    return report
